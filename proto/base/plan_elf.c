/* plan_elf.c: an artifact's ELF64 file in memory: its plan, its cubins, whether it has code, its
 * seal. Hostile input: every offset is checked; nothing is mapped or executed. */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"
#include "plan.h"

/* requires: none. ensures: the file header is ELF64 little-endian and its section table is inside.
 */
static const Elf64_Shdr *sections(struct stx_span elf, uint32_t *n)
{
	Elf64_Ehdr h;
	if (elf.n < sizeof h)
		return NULL;
	memcpy(&h, elf.at, sizeof h);
	if (memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 || h.e_ident[EI_CLASS] != ELFCLASS64 ||
	    h.e_ident[EI_DATA] != ELFDATA2LSB || h.e_shentsize != sizeof(Elf64_Shdr))
		return NULL;
	*n = h.e_shnum;
	if (h.e_shnum == 0 || h.e_shstrndx >= h.e_shnum || h.e_shoff > elf.n ||
	    (elf.n - h.e_shoff) / sizeof(Elf64_Shdr) < h.e_shnum)
		return NULL;
	return (const Elf64_Shdr *)(const void *)(elf.at + h.e_shoff);
}

static Elf64_Shdr section_at(const Elf64_Shdr *s, uint32_t i)
{
	Elf64_Shdr h; /* the table may be misaligned */
	memcpy(&h, (const uint8_t *)s + i * sizeof h, sizeof h);
	return h;
}

stx_err stx_artifact_plan(struct stx_span elf, struct stx_span *plan, struct stx_diag *d)
{
	static const char name[] = STX_PLAN_SECTION;
	uint32_t n = 0;
	const Elf64_Shdr *table = sections(elf, &n);
	if (!table)
		return stx_fail(d, STX_E_CORRUPT, "load", "",
				"not a 64-bit little-endian ELF object");
	Elf64_Ehdr h;
	memcpy(&h, elf.at, sizeof h);
	Elf64_Shdr names = section_at(table, h.e_shstrndx);
	if (names.sh_type != SHT_STRTAB || names.sh_offset > elf.n ||
	    names.sh_size > elf.n - names.sh_offset)
		return stx_fail(d, STX_E_CORRUPT, "load", "",
				"ELF: section names lie outside the file");
	for (uint32_t i = 0; i < n; i++) {
		Elf64_Shdr s = section_at(table, i);
		if (s.sh_name > names.sh_size || names.sh_size - s.sh_name < sizeof name ||
		    memcmp(elf.at + names.sh_offset + s.sh_name, name, sizeof name) != 0)
			continue;
		if (s.sh_type != SHT_PROGBITS || s.sh_offset > elf.n ||
		    s.sh_size > elf.n - s.sh_offset)
			return stx_fail(d, STX_E_CORRUPT, "load", "",
					"ELF: section %s lies outside the file", name);
		*plan = (struct stx_span){ elf.at + s.sh_offset, s.sh_size };
		return STX_E_OK;
	}
	return stx_fail(d, STX_E_CORRUPT, "load", "",
			"no section %s: this object was not made by stax", name);
}

int stx_artifact_has_code(struct stx_span elf)
{
	uint32_t n = 0;
	const Elf64_Shdr *table = sections(elf, &n);
	for (uint32_t i = 0; table && i < n; i++) {
		Elf64_Shdr s = section_at(table, i);
		if (s.sh_flags & SHF_EXECINSTR && s.sh_size)
			return 1;
	}
	return 0;
}

static int inside(struct stx_span elf, const Elf64_Shdr *s)
{
	return s->sh_offset <= elf.n && s->sh_size <= elf.n - s->sh_offset;
}

/* The bytes of symbol m, when they lie in an allocated read-only section. */
static int symbol_bytes(struct stx_span elf, const Elf64_Shdr *table, uint32_t n,
			const Elf64_Sym *m, struct stx_span *out)
{
	if (ELF64_ST_TYPE(m->st_info) != STT_OBJECT || m->st_shndx == SHN_UNDEF || m->st_shndx >= n)
		return 0;
	Elf64_Shdr s = section_at(table, m->st_shndx);
	if (s.sh_type != SHT_PROGBITS || (s.sh_flags & (SHF_ALLOC | SHF_WRITE)) != SHF_ALLOC ||
	    !inside(elf, &s) || m->st_value < s.sh_addr || m->st_value - s.sh_addr > s.sh_size ||
	    m->st_size > s.sh_size - (m->st_value - s.sh_addr))
		return 0;
	*out = (struct stx_span){ elf.at + s.sh_offset + (m->st_value - s.sh_addr), m->st_size };
	return 1;
}

struct wanted {
	const char *name;
	uint32_t at;    /* in the caller's arrays */
	uint32_t first; /* of those of the same name, in their order by name */
	uint8_t found;
};

static int by_name(const void *p, const void *q)
{
	const struct wanted *a = p, *b = q;
	int c = strcmp(a->name, b->name);
	return c ? c : a->at < b->at ? -1 : a->at > b->at;
}

/* The first wanted of the name at text, which ends with a NUL or has at most room bytes. */
static struct wanted *find(struct wanted *w, uint32_t n, const char *text, size_t room)
{
	uint32_t lo = 0, hi = n;
	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		if (strncmp(w[mid].name, text, room) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < n && strlen(w[lo].name) < room && !strncmp(w[lo].name, text, room) ? &w[lo]
										       : NULL;
}

static stx_err scan_symbols(struct stx_span elf, const Elf64_Shdr *table, uint32_t nsections,
			    struct wanted *w, uint32_t n, struct stx_span *out, const char **which)
{
	for (uint32_t i = 0; i < nsections; i++) {
		Elf64_Shdr s = section_at(table, i), names;
		if (s.sh_type != SHT_DYNSYM || s.sh_link >= nsections || !inside(elf, &s))
			continue;
		names = section_at(table, s.sh_link);
		if (names.sh_type != SHT_STRTAB || !inside(elf, &names))
			return STX_E_CORRUPT;
		for (uint64_t j = 0; j < s.sh_size / sizeof(Elf64_Sym); j++) {
			Elf64_Sym m;
			memcpy(&m, elf.at + s.sh_offset + j * sizeof m, sizeof m);
			if (m.st_name >= names.sh_size)
				continue;
			struct wanted *f =
				find(w, n, (const char *)elf.at + names.sh_offset + m.st_name,
				     names.sh_size - m.st_name);
			if (!f || f->found)
				continue;
			*which = f->name;
			if (!symbol_bytes(elf, table, nsections, &m, &out[f->at]))
				return STX_E_CORRUPT;
			f->found = 1;
		}
	}
	return STX_E_OK;
}

stx_err stx_artifact_symbols(struct stx_span elf, const char *const *names, uint32_t n,
			     struct stx_span *out, const char **which)
{
	uint32_t nsections = 0;
	const Elf64_Shdr *table = sections(elf, &nsections);
	struct wanted *w = calloc((size_t)n + 1, sizeof *w);
	stx_err e = w ? STX_E_OK : STX_E_NOMEM;
	*which = n ? names[0] : "";
	for (uint32_t i = 0; i < n && !e; i++)
		w[i] = (struct wanted){ .name = names[i], .at = i };
	if (!e)
		qsort(w, n, sizeof *w, by_name);
	if (!e && table)
		e = scan_symbols(elf, table, nsections, w, n, out, which);
	for (uint32_t i = 0; i < n && !e; i++) {
		uint32_t first = i && !strcmp(w[i].name, w[i - 1].name) ? w[i - 1].first : i;
		w[i].first = first;
		*which = w[i].name;
		out[w[i].at] = out[w[first].at];
		if (!w[first].found)
			e = STX_E_NOT_FOUND;
	}
	free(w);
	return e;
}

stx_err stx_object_symbol(struct stx_span elf, const char **symbol, struct stx_span *out)
{
	uint32_t n = 0;
	const Elf64_Shdr *table = sections(elf, &n);
	for (uint32_t i = 0; table && i < n; i++) {
		Elf64_Shdr s = section_at(table, i), names;
		if (s.sh_type != SHT_SYMTAB || s.sh_link >= n || !inside(elf, &s))
			continue;
		names = section_at(table, s.sh_link);
		if (names.sh_type != SHT_STRTAB || !inside(elf, &names) || !names.sh_size ||
		    elf.at[names.sh_offset + names.sh_size - 1])
			return STX_E_CORRUPT;
		for (uint64_t j = 0; j < s.sh_size / sizeof(Elf64_Sym); j++) {
			Elf64_Sym m;
			memcpy(&m, elf.at + s.sh_offset + j * sizeof m, sizeof m);
			if (ELF64_ST_TYPE(m.st_info) != STT_OBJECT)
				continue;
			if (m.st_name >= names.sh_size || !symbol_bytes(elf, table, n, &m, out))
				return STX_E_CORRUPT;
			*symbol = (const char *)elf.at + names.sh_offset + m.st_name;
			return STX_E_OK;
		}
	}
	return STX_E_NOT_FOUND;
}

/* ---- the seal: behind everything that ELF knows of, so that loaders and parsers ignore it ---- */

static const uint8_t seal_magic[8] = { 'S', 'T', 'A', 'X', 'S', 'E', 'A', 'L' };
#define SEAL_BYTES (sizeof seal_magic + STX_DIGEST_BYTES)

stx_err stx_artifact_seal(struct stx_bytes *artifact)
{
	struct stx_digest of = stx_digest_of(artifact->at, artifact->n);
	stx_bytes_put(artifact, seal_magic, sizeof seal_magic);
	stx_bytes_put(artifact, of.b, sizeof of.b);
	return artifact->oom ? STX_E_NOMEM : STX_E_OK;
}

stx_err stx_artifact_intact(struct stx_span artifact, struct stx_diag *d)
{
	size_t n = artifact.n > SEAL_BYTES ? artifact.n - SEAL_BYTES : 0;
	if (!n || memcmp(artifact.at + n, seal_magic, sizeof seal_magic) != 0)
		return stx_fail(d, STX_E_CORRUPT, "load", "",
				"it does not end in the seal of an artifact: it was cut short, "
				"stripped or not made by stax; compile it again");
	struct stx_digest of = stx_digest_of(artifact.at, n);
	if (memcmp(artifact.at + n + sizeof seal_magic, of.b, sizeof of.b) != 0)
		return stx_fail(d, STX_E_CORRUPT, "load", "",
				"its bytes are not the ones that were linked (SHA-256): the file "
				"is damaged; compile it again");
	return STX_E_OK;
}
