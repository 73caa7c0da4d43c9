/* data_object.c: bytes as an ELF64 relocatable object of one section, for the linker: the data
 * plan, a cubin.
 *
 * Sections: null, the data's (allocated, read-only, 64-byte aligned), .symtab, .strtab, .shstrtab,
 * .note.GNU-stack (so that the stack stays non-executable). A global symbol names the bytes.
 * Deterministic: equal input gives equal bytes. */
#include <elf.h>

#include "codegen.h"

enum { S_NULL, S_DATA, S_SYMTAB, S_STRTAB, S_SHSTRTAB, S_STACK, S_COUNT };

static uint32_t put_name(struct stx_bytes *names, const char *name)
{
	uint32_t at = (uint32_t)names->n;
	stx_bytes_put(names, name, strlen(name) + 1);
	return at;
}

stx_err stx_data_object(const char *section, const char *symbol, struct stx_span data,
			struct stx_bytes *out, struct stx_diag *d)
{
	struct stx_bytes strtab = { 0 }, shstrtab = { 0 };
	put_name(&strtab, "");
	put_name(&shstrtab, "");
	const size_t data_off = 64;
	const size_t symtab_off = (data_off + data.n + 7) / 8 * 8;
	const Elf64_Sym syms[2] = {
		{ 0 },
		{ .st_name = put_name(&strtab, symbol),
		  .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT),
		  .st_other = STV_DEFAULT,
		  .st_shndx = S_DATA,
		  .st_size = data.n },
	};
	const uint32_t name[S_COUNT] = {
		[S_DATA] = put_name(&shstrtab, section),
		[S_SYMTAB] = put_name(&shstrtab, ".symtab"),
		[S_STRTAB] = put_name(&shstrtab, ".strtab"),
		[S_SHSTRTAB] = put_name(&shstrtab, ".shstrtab"),
		[S_STACK] = put_name(&shstrtab, ".note.GNU-stack"),
	};
	const size_t strtab_off = symtab_off + sizeof syms;
	const size_t shstrtab_off = strtab_off + strtab.n;
	const size_t table_off = (shstrtab_off + shstrtab.n + 7) / 8 * 8;
	const Elf64_Shdr sections[S_COUNT] = {
		[S_DATA] = { .sh_name = name[S_DATA],
			     .sh_type = SHT_PROGBITS,
			     .sh_flags = SHF_ALLOC,
			     .sh_offset = data_off,
			     .sh_size = data.n,
			     .sh_addralign = 64 },
		[S_SYMTAB] = { .sh_name = name[S_SYMTAB],
			       .sh_type = SHT_SYMTAB,
			       .sh_offset = symtab_off,
			       .sh_size = sizeof syms,
			       .sh_link = S_STRTAB,
			       .sh_info = 1,
			       .sh_addralign = 8,
			       .sh_entsize = sizeof *syms },
		[S_STRTAB] = { .sh_name = name[S_STRTAB],
			       .sh_type = SHT_STRTAB,
			       .sh_offset = strtab_off,
			       .sh_size = strtab.n,
			       .sh_addralign = 1 },
		[S_SHSTRTAB] = { .sh_name = name[S_SHSTRTAB],
				 .sh_type = SHT_STRTAB,
				 .sh_offset = shstrtab_off,
				 .sh_size = shstrtab.n,
				 .sh_addralign = 1 },
		[S_STACK] = { .sh_name = name[S_STACK],
			      .sh_type = SHT_PROGBITS,
			      .sh_offset = table_off,
			      .sh_addralign = 1 },
	};
	const Elf64_Ehdr h = {
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			     EV_CURRENT },
		.e_type = ET_REL,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_shoff = table_off,
		.e_ehsize = sizeof h,
		.e_shentsize = sizeof *sections,
		.e_shnum = S_COUNT,
		.e_shstrndx = S_SHSTRTAB,
	};
	_Static_assert(sizeof h == 64, "the data follows the header, aligned");
	stx_bytes_align(out, 8);
	size_t start = out->n;
	stx_bytes_put(out, &h, sizeof h);
	stx_bytes_put(out, data.at, data.n);
	while (!out->oom && out->n - start < symtab_off)
		stx_bytes_u8(out, 0);
	stx_bytes_put(out, syms, sizeof syms);
	stx_bytes_put(out, strtab.at, strtab.n);
	stx_bytes_put(out, shstrtab.at, shstrtab.n);
	while (!out->oom && out->n - start < table_off)
		stx_bytes_u8(out, 0);
	stx_bytes_put(out, sections, sizeof sections);
	int oom = out->oom || strtab.oom || shstrtab.oom;
	stx_bytes_free(&strtab);
	stx_bytes_free(&shstrtab);
	return oom ? stx_fail(d, STX_E_NOMEM, "link", symbol, "out of memory") : STX_E_OK;
}
