/* plan_object.c: the data plan as an ELF64 relocatable object of one section, for the linker.
 *
 * Sections: null, .stax.plan (allocated, read-only, 64-byte aligned), .symtab, .strtab, .shstrtab,
 * .note.GNU-stack (so that the stack stays non-executable). The global symbol `stax_plan` marks the
 * section as used. Deterministic: equal plans give equal bytes. */
#include <elf.h>

#include "codegen.h"

enum { S_NULL, S_PLAN, S_SYMTAB, S_STRTAB, S_SHSTRTAB, S_STACK, S_COUNT };

static const char strtab[] = "\0stax_plan";
static const char shstrtab[] =
	"\0" STX_PLAN_SECTION "\0.symtab\0.strtab\0.shstrtab\0.note.GNU-stack";

static uint32_t name_at(const char *name)
{
	for (uint32_t i = 0; i < sizeof shstrtab; i++)
		if (!strcmp(shstrtab + i, name))
			return i;
	return 0;
}

stx_err stx_plan_object(struct stx_span plan, struct stx_bytes *out, struct stx_diag *d)
{
	const size_t plan_off = 64;
	const size_t symtab_off = (plan_off + plan.n + 7) / 8 * 8;
	const Elf64_Sym syms[2] = {
		{ 0 },
		{ .st_name = 1,
		  .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT),
		  .st_other = STV_DEFAULT,
		  .st_shndx = S_PLAN,
		  .st_size = plan.n },
	};
	const size_t strtab_off = symtab_off + sizeof syms;
	const size_t shstrtab_off = strtab_off + sizeof strtab;
	const size_t table_off = (shstrtab_off + sizeof shstrtab + 7) / 8 * 8;
	const Elf64_Shdr sections[S_COUNT] = {
		[S_PLAN] = { .sh_name = name_at(STX_PLAN_SECTION),
			     .sh_type = SHT_PROGBITS,
			     .sh_flags = SHF_ALLOC,
			     .sh_offset = plan_off,
			     .sh_size = plan.n,
			     .sh_addralign = 64 },
		[S_SYMTAB] = { .sh_name = name_at(".symtab"),
			       .sh_type = SHT_SYMTAB,
			       .sh_offset = symtab_off,
			       .sh_size = sizeof syms,
			       .sh_link = S_STRTAB,
			       .sh_info = 1,
			       .sh_addralign = 8,
			       .sh_entsize = sizeof *syms },
		[S_STRTAB] = { .sh_name = name_at(".strtab"),
			       .sh_type = SHT_STRTAB,
			       .sh_offset = strtab_off,
			       .sh_size = sizeof strtab,
			       .sh_addralign = 1 },
		[S_SHSTRTAB] = { .sh_name = name_at(".shstrtab"),
				 .sh_type = SHT_STRTAB,
				 .sh_offset = shstrtab_off,
				 .sh_size = sizeof shstrtab,
				 .sh_addralign = 1 },
		[S_STACK] = { .sh_name = name_at(".note.GNU-stack"),
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
	_Static_assert(sizeof h == 64, "the plan follows the header, aligned");
	stx_bytes_align(out, 8);
	size_t start = out->n;
	stx_bytes_put(out, &h, sizeof h);
	stx_bytes_put(out, plan.at, plan.n);
	while (!out->oom && out->n - start < symtab_off)
		stx_bytes_u8(out, 0);
	stx_bytes_put(out, syms, sizeof syms);
	stx_bytes_put(out, strtab, sizeof strtab);
	stx_bytes_put(out, shstrtab, sizeof shstrtab);
	while (!out->oom && out->n - start < table_off)
		stx_bytes_u8(out, 0);
	stx_bytes_put(out, sections, sizeof sections);
	return out->oom ? stx_fail(d, STX_E_NOMEM, "plan", NULL, "out of memory") : STX_E_OK;
}
