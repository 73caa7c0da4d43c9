/* fingerprint.c: compiler fingerprint from the objects really mapped (design: Keys). */
#include "fingerprint.h"

#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "bytes.h"

struct walk {
	struct stx_hasher *h;
	int missing; /* an object had no build id */
};

static int hash_build_id(struct stx_hasher *h, const struct dl_phdr_info *info)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		if (p->p_type != PT_NOTE)
			continue;
		const uint8_t *at = (const uint8_t *)(info->dlpi_addr + p->p_vaddr),
			      *end = at + p->p_memsz;
		while ((size_t)(end - at) >= sizeof(ElfW(Nhdr))) {
			const ElfW(Nhdr) *n = (const ElfW(Nhdr) *)(const void *)at;
			size_t name = (n->n_namesz + 3u) & ~3u, desc = (n->n_descsz + 3u) & ~3u;
			const uint8_t *id = at + sizeof *n + name;
			if ((size_t)(end - at) < sizeof *n + name + desc)
				break;
			if (n->n_type == NT_GNU_BUILD_ID && n->n_namesz == 4 &&
			    !memcmp(at + sizeof *n, "GNU", 4)) {
				stx_hasher_update(h, id, n->n_descsz);
				return 1;
			}
			at = id + desc;
		}
	}
	return 0;
}

static int hash_file(struct stx_hasher *h, const char *path)
{
	char buf[65536];
	size_t n;
	FILE *f = fopen(path, "rbe");
	if (!f)
		return 0;
	while ((n = fread(buf, 1, sizeof buf, f)) > 0)
		stx_hasher_update(h, buf, n);
	fclose(f);
	return 1;
}

/* The program itself (empty name), libLLVM, and NVRTC where it is loaded; the C library does not
 * shape generated code. */
static int visit(struct dl_phdr_info *info, size_t size, void *ctx)
{
	struct walk *w = ctx;
	(void)size;
	const char *path = info->dlpi_name ? info->dlpi_name : "";
	int is_self = !*path;
	const char *what = is_self ? "program" : strstr(path, "libLLVM") ? "libLLVM" : "libnvrtc";
	if (!is_self && !strstr(path, what))
		return 0;
	stx_hasher_str(w->h, what);
	if (!hash_build_id(w->h, info) && !hash_file(w->h, is_self ? "/proc/self/exe" : path))
		w->missing = 1;
	return 0;
}

stx_err stx_fingerprint_loaded(const char *llvm_version, struct stx_digest *out, struct stx_diag *d)
{
	struct walk w = { .h = stx_hasher_new() };
	if (!w.h)
		return stx_fail(d, STX_E_NOMEM, "warm", NULL, "out of memory");
	stx_hasher_str(w.h, "stax-compiler-1");
	stx_hasher_str(w.h, STX_VERSION);
	stx_hasher_str(w.h, llvm_version);
	dl_iterate_phdr(visit, &w);
	*out = stx_hasher_final(w.h);
	if (w.missing)
		return stx_fail(d, STX_E_IO, "warm", NULL,
				"cannot read the program to fingerprint it");
	return STX_E_OK;
}
