/* artifact_check.c: refuses a shared object that a client must not load.
 *
 * requires: nothing of the bytes, they come from a worker that may have been taken over. So whoever
 * receives an artifact from a worker calls this, never the worker: staxd before it commits
 * (server/compile_chain.c), libstax for its private worker (client/private.c). ensures: what
 * the dynamic loader will do with the object is to map it, apply relative and symbol relocations to
 * its writable data and bind memcpy, memmove and memset; no code runs before a kernel is called, no
 * other file is opened. Everything is read as the loader reads it, by address through the PT_LOAD
 * segments; section headers are not believed. Tags, segments, symbol types and relocations not
 * known to be harmless are refused. One pass over each table; their sizes are bounded by the
 * file's. */
#include <elf.h>
#include <string.h>

#include "artifact_check.h"

#define MAX_SEGMENTS 32
#define MAX_ADDRESS  ((uint64_t)1 << 36)
#define PAGE         4096u

struct check {
	struct stx_span f;
	struct stx_diag *d;
	Elf64_Phdr seg[MAX_SEGMENTS];
	uint32_t nseg;
	uint64_t dyn, dyn_bytes;
	uint64_t strtab, strsz, symtab, hash, rela, relasz, jmprel, pltrelsz;
	uint64_t needed[8];
	uint32_t nneeded;
	uint64_t nsyms;
};

#define BAD(c, ...) stx_fail((c)->d, STX_E_UNTRUSTED, "check", NULL, __VA_ARGS__)

/* File bytes the loader maps at [address, address + n), n > 0, or NULL. */
static const uint8_t *at(const struct check *c, uint64_t address, uint64_t n)
{
	for (uint32_t i = 0; i < c->nseg; i++) {
		const Elf64_Phdr *p = &c->seg[i];
		if (p->p_type == PT_LOAD && address >= p->p_vaddr && n <= p->p_filesz &&
		    address - p->p_vaddr <= p->p_filesz - n)
			return c->f.at + p->p_offset + (address - p->p_vaddr);
	}
	return NULL;
}

/* ---- header and segments ---- */

static stx_err check_header(struct check *c, Elf64_Ehdr *h)
{
	if (c->f.n < sizeof *h)
		return BAD(c, "the object is shorter than an ELF header");
	memcpy(h, c->f.at, sizeof *h);
	if (memcmp(h->e_ident, ELFMAG, SELFMAG) != 0 || h->e_ident[EI_CLASS] != ELFCLASS64 ||
	    h->e_ident[EI_DATA] != ELFDATA2LSB || h->e_ident[EI_VERSION] != EV_CURRENT)
		return BAD(c, "the object is not 64-bit little-endian ELF");
	if (h->e_type != ET_DYN || h->e_machine != EM_X86_64 || h->e_version != EV_CURRENT)
		return BAD(c, "the object is not a shared object for x86-64");
	if (h->e_phentsize != sizeof(Elf64_Phdr) || !h->e_phnum || h->e_phnum > MAX_SEGMENTS)
		return BAD(c, "the program header table has an impossible shape");
	uint64_t bytes = (uint64_t)h->e_phnum * sizeof(Elf64_Phdr);
	if (h->e_phoff > c->f.n || bytes > c->f.n - h->e_phoff)
		return BAD(c, "the program header table lies outside the file");
	return STX_E_OK;
}

static stx_err check_load(struct check *c, const Elf64_Phdr *p, uint64_t *end)
{
	if (p->p_offset > c->f.n || p->p_filesz > c->f.n - p->p_offset || p->p_filesz > p->p_memsz)
		return BAD(c, "a segment lies outside the file");
	if (p->p_vaddr > MAX_ADDRESS || p->p_memsz > MAX_ADDRESS)
		return BAD(c, "a segment is too large");
	if ((p->p_vaddr ^ p->p_offset) % PAGE || p->p_vaddr / PAGE * PAGE < *end)
		return BAD(c, "segments overlap or are not aligned");
	if ((p->p_flags & PF_W) && (p->p_flags & PF_X))
		return BAD(c, "a segment is writable and executable");
	*end = (p->p_vaddr + p->p_memsz + PAGE - 1) / PAGE * PAGE;
	return STX_E_OK;
}

static stx_err check_segments(struct check *c, const Elf64_Ehdr *h)
{
	uint64_t end = 0;
	int stack = 0;
	stx_err err = STX_E_OK;
	memcpy(c->seg, c->f.at + h->e_phoff, h->e_phnum * sizeof(Elf64_Phdr));
	c->nseg = h->e_phnum;
	for (uint32_t i = 0; i < c->nseg && !err; i++) {
		const Elf64_Phdr *p = &c->seg[i];
		switch (p->p_type) {
		case PT_NULL:
		case PT_PHDR:
		case PT_NOTE:
		case PT_GNU_RELRO: break;
		case PT_LOAD: err = check_load(c, p, &end); break;
		case PT_GNU_STACK:
			stack = 1;
			if (p->p_flags & PF_X)
				err = BAD(c, "the object asks for an executable stack");
			break;
		case PT_DYNAMIC:
			if (c->dyn_bytes)
				err = BAD(c, "there are two dynamic segments");
			c->dyn = p->p_vaddr;
			c->dyn_bytes = p->p_memsz;
			break;
		default: err = BAD(c, "segment type 0x%x is not allowed", p->p_type);
		}
	}
	if (!err && !stack)
		err = BAD(c, "the object does not say that its stack is not executable");
	return err;
}

/* ---- the dynamic section ---- */

static stx_err once(struct check *c, uint64_t *field, const Elf64_Dyn *e)
{
	if (*field)
		return BAD(c, "dynamic tag 0x%llx stands twice", (unsigned long long)e->d_tag);
	*field = e->d_un.d_val;
	return STX_E_OK;
}

static stx_err expect(struct check *c, const Elf64_Dyn *e, uint64_t allowed)
{
	if (e->d_un.d_val & ~allowed)
		return BAD(c, "dynamic tag 0x%llx has the value 0x%llx",
			   (unsigned long long)e->d_tag, (unsigned long long)e->d_un.d_val);
	return STX_E_OK;
}

static stx_err check_tag(struct check *c, const Elf64_Dyn *e)
{
	uint64_t v = e->d_un.d_val;
	switch (e->d_tag) {
	case DT_NEEDED:
		if (c->nneeded == sizeof c->needed / sizeof *c->needed)
			return BAD(c, "too many needed libraries");
		c->needed[c->nneeded++] = v;
		return STX_E_OK;
	case DT_STRTAB: return once(c, &c->strtab, e);
	case DT_STRSZ: return once(c, &c->strsz, e);
	case DT_SYMTAB: return once(c, &c->symtab, e);
	case DT_GNU_HASH: return once(c, &c->hash, e);
	case DT_RELA: return once(c, &c->rela, e);
	case DT_RELASZ: return once(c, &c->relasz, e);
	case DT_JMPREL: return once(c, &c->jmprel, e);
	case DT_PLTRELSZ: return once(c, &c->pltrelsz, e);
	case DT_SYMENT:
		return v == sizeof(Elf64_Sym) ? STX_E_OK : BAD(c, "the size of a symbol is wrong");
	case DT_RELAENT:
		return v == sizeof(Elf64_Rela) ? STX_E_OK
					       : BAD(c, "the size of a relocation is wrong");
	case DT_PLTREL: return v == DT_RELA ? STX_E_OK : BAD(c, "relocations of an unknown form");
	case DT_FLAGS: return expect(c, e, DF_SYMBOLIC | DF_BIND_NOW);
	case DT_FLAGS_1: return expect(c, e, DF_1_NOW | DF_1_NODELETE);
	case DT_PLTGOT:
	case DT_RELACOUNT:
	case DT_SYMBOLIC:
	case DT_BIND_NOW: return STX_E_OK;
	default: return BAD(c, "dynamic tag 0x%llx is not allowed", (unsigned long long)e->d_tag);
	}
}

static stx_err check_dynamic(struct check *c)
{
	uint64_t n = c->dyn_bytes / sizeof(Elf64_Dyn);
	const uint8_t *p = n ? at(c, c->dyn, n * sizeof(Elf64_Dyn)) : NULL;
	if (!p)
		return BAD(c, "there is no dynamic section");
	for (uint64_t i = 0; i < n; i++) {
		Elf64_Dyn e;
		memcpy(&e, p + i * sizeof e, sizeof e);
		if (e.d_tag == DT_NULL)
			return STX_E_OK;
		stx_err err = check_tag(c, &e);
		if (err)
			return err;
	}
	return BAD(c, "the dynamic section does not end");
}

static const char *string(const struct check *c, uint64_t offset)
{
	const uint8_t *p;
	if (offset >= c->strsz || !(p = at(c, c->strtab, c->strsz)))
		return NULL;
	return memchr(p + offset, 0, c->strsz - offset) ? (const char *)p + offset : NULL;
}

static int is_one_of(const char *s, const char *const *list)
{
	for (; s && *list; list++)
		if (!strcmp(s, *list))
			return 1;
	return 0;
}

static stx_err check_needed(struct check *c)
{
	static const char *const allowed[] = { "libc.so.6", "libm.so.6", NULL };
	for (uint32_t i = 0; i < c->nneeded; i++) {
		const char *name = string(c, c->needed[i]);
		if (!is_one_of(name, allowed))
			return BAD(c, "the object needs library '%.60s'", name ? name : "?");
	}
	return STX_E_OK;
}

/* ---- symbols ---- */

/* The hash table's chains end where the symbols end: glibc reads no symbol beyond them by name. */
static stx_err count_symbols(struct check *c)
{
	uint32_t h[4];
	const uint8_t *p = at(c, c->hash, sizeof h);
	if (!c->hash || !p)
		return BAD(c, "there is no symbol hash table");
	memcpy(h, p, sizeof h);
	uint64_t buckets = c->hash + sizeof h + (uint64_t)h[2] * 8,
		 chains = buckets + (uint64_t)h[0] * 4;
	if (!h[0] || !h[2] || (h[2] & (h[2] - 1)) || h[3] > 63 ||
	    !at(c, c->hash + sizeof h, (uint64_t)h[2] * 8))
		return BAD(c, "the symbol hash table has an impossible shape");
	const uint8_t *b = at(c, buckets, (uint64_t)h[0] * 4);
	if (!b)
		return BAD(c, "the symbol hash table lies outside the object");
	uint64_t last = 0;
	for (uint32_t i = 0; i < h[0]; i++) {
		uint32_t first = stx_load_u32(b + (uint64_t)i * 4);
		if (first && first < h[1])
			return BAD(c, "the symbol hash table names a symbol it does not hold");
		last = first > last ? first : last;
	}
	c->nsyms = h[1];
	if (!last)
		return STX_E_OK;
	for (uint64_t s = last;; s++) {
		const uint8_t *q = at(c, chains + (s - h[1]) * 4, 4);
		if (!q)
			return BAD(c, "a chain of the symbol hash table does not end");
		c->nsyms = s + 1;
		if (stx_load_u32(q) & 1)
			return STX_E_OK;
	}
}

static stx_err check_symbols(struct check *c)
{
	static const char *const allowed[] = { "memcpy", "memmove", "memset", NULL };
	stx_err err = count_symbols(c);
	if (err)
		return err;
	const uint8_t *p = c->nsyms <= c->f.n / sizeof(Elf64_Sym) && c->nsyms
				   ? at(c, c->symtab, c->nsyms * sizeof(Elf64_Sym))
				   : NULL;
	if (!p)
		return BAD(c, "the symbol table lies outside the object");
	for (uint64_t i = 1; i < c->nsyms; i++) {
		Elf64_Sym s;
		memcpy(&s, p + i * sizeof s, sizeof s);
		const char *name = string(c, s.st_name);
		unsigned type = ELF64_ST_TYPE(s.st_info);
		if (!name)
			return BAD(c, "a symbol's name lies outside the object");
		if (type != STT_NOTYPE && type != STT_OBJECT && type != STT_FUNC)
			return BAD(c, "symbol '%.80s' has type %u", name, type);
		if (s.st_shndx == SHN_UNDEF && !is_one_of(name, allowed))
			return BAD(c, "symbol '%.80s' is not defined", name);
	}
	return STX_E_OK;
}

/* ---- relocations ---- */

/* 8 bytes of writable memory outside the dynamic section. */
static int may_relocate(const struct check *c, uint64_t address)
{
	for (uint32_t i = 0; i < c->nseg; i++) {
		const Elf64_Phdr *p = &c->seg[i];
		if (p->p_type == PT_LOAD && (p->p_flags & PF_W) && address >= p->p_vaddr &&
		    p->p_memsz >= 8 && address - p->p_vaddr <= p->p_memsz - 8)
			return address >= c->dyn + c->dyn_bytes || address + 8 <= c->dyn;
	}
	return 0;
}

static stx_err check_relocations(struct check *c, uint64_t table, uint64_t bytes)
{
	if (!bytes)
		return STX_E_OK;
	const uint8_t *p = bytes % sizeof(Elf64_Rela) ? NULL : at(c, table, bytes);
	if (!p)
		return BAD(c, "a relocation table lies outside the object");
	for (uint64_t i = 0; i < bytes / sizeof(Elf64_Rela); i++) {
		Elf64_Rela r;
		memcpy(&r, p + i * sizeof r, sizeof r);
		uint32_t type = ELF64_R_TYPE(r.r_info), symbol = ELF64_R_SYM(r.r_info);
		if (type != R_X86_64_RELATIVE && type != R_X86_64_GLOB_DAT &&
		    type != R_X86_64_JUMP_SLOT && type != R_X86_64_64)
			return BAD(c, "relocation type %u is not allowed", type);
		if (symbol >= c->nsyms)
			return BAD(c, "a relocation names symbol %u of %llu", symbol,
				   (unsigned long long)c->nsyms);
		if (!may_relocate(c, r.r_offset))
			return BAD(c, "a relocation changes code or read-only data");
	}
	return STX_E_OK;
}

stx_err stx_artifact_check(struct stx_span elf, struct stx_diag *d)
{
	struct check c = { .f = elf, .d = d };
	Elf64_Ehdr h = { .e_phnum = 0 };
	stx_err err = check_header(&c, &h);
	if (!err)
		err = check_segments(&c, &h);
	if (!err)
		err = check_dynamic(&c);
	if (!err)
		err = check_needed(&c);
	if (!err)
		err = check_symbols(&c);
	if (!err)
		err = check_relocations(&c, c.rela, c.relasz);
	if (!err)
		err = check_relocations(&c, c.jmprel, c.pltrelsz);
	return err;
}
