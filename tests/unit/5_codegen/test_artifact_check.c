/* test_artifact_check.c: what is accepted and refused before a client may load it; damaged objects.
 */
#include "jit.h"

#include <elf.h>

#include <llvm-c/Core.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>

struct module {
	LLVMContextRef c;
	LLVMModuleRef m;
	LLVMBuilderRef b;
	LLVMTypeRef fn; /* void (void) */
};

static struct module begin(void)
{
	struct module m;
	m.c = LLVMContextCreate();
	m.m = LLVMModuleCreateWithNameInContext("t", m.c);
	m.b = LLVMCreateBuilderInContext(m.c);
	m.fn = LLVMFunctionType(LLVMVoidTypeInContext(m.c), NULL, 0, 0);
	return m;
}

/* A function that calls callee, or only returns. */
static LLVMValueRef add_function(struct module *m, const char *name, LLVMValueRef callee)
{
	LLVMValueRef f = LLVMAddFunction(m->m, name, m->fn);
	LLVMPositionBuilderAtEnd(m->b, LLVMAppendBasicBlockInContext(m->c, f, ""));
	if (callee)
		LLVMBuildCall2(m->b, m->fn, callee, NULL, 0, "");
	LLVMBuildRetVoid(m->b);
	return f;
}

/* Compiles and links; the module is gone afterwards. */
static struct stx_bytes finish(struct module *m)
{
	char *text = NULL;
	LLVMTargetRef target;
	LLVMMemoryBufferRef object = NULL;
	struct stx_bytes out = { 0 };
	struct stx_diag d = { 0 };
	assert_int_equal(LLVMGetTargetFromTriple("x86_64-unknown-linux-gnu", &target, &text), 0);
	LLVMTargetMachineRef machine = LLVMCreateTargetMachine(
		target, "x86_64-unknown-linux-gnu", "x86-64-v2", "", LLVMCodeGenLevelDefault,
		LLVMRelocPIC, LLVMCodeModelDefault);
	assert_int_equal(
		LLVMTargetMachineEmitToMemoryBuffer(machine, m->m, LLVMObjectFile, &text, &object),
		0);
	struct stx_span in = { (const uint8_t *)LLVMGetBufferStart(object),
			       LLVMGetBufferSize(object) };
	if (stx_link_shared(&in, 1, &out, &d))
		fail_msg("%s", d.text);
	LLVMDisposeMemoryBuffer(object);
	LLVMDisposeTargetMachine(machine);
	LLVMDisposeBuilder(m->b);
	LLVMDisposeModule(m->m);
	LLVMContextDispose(m->c);
	return out;
}

static stx_err check(const struct stx_bytes *b, struct stx_diag *d)
{
	stx_diag_clear(d);
	return stx_artifact_check((struct stx_span){ b->at, b->n }, d);
}

static void refused(struct stx_bytes *b, const char *word)
{
	struct stx_diag d = { 0 };
	assert_int_equal(check(b, &d), STX_E_UNTRUSTED);
	if (!strstr(d.text, word))
		fail_msg("'%s' does not tell of '%s'", d.text, word);
	stx_bytes_free(b);
}

static struct stx_bytes plain(void)
{
	struct module m = begin();
	add_function(&m, "stx_k_a", NULL);
	/* data with a relocation: a pointer to the function */
	LLVMValueRef f = LLVMGetNamedFunction(m.m, "stx_k_a");
	LLVMValueRef g = LLVMAddGlobal(m.m, LLVMPointerTypeInContext(m.c, 0), "stx_data");
	LLVMSetInitializer(g, f);
	return finish(&m);
}

static void test_artifact_check_plain_object_and_memory_functions_are_accepted(void **state)
{
	struct stx_diag d = { 0 };
	(void)state;
	struct stx_bytes b = plain();
	if (check(&b, &d))
		fail_msg("%s", d.text);
	stx_bytes_free(&b);
	struct module m = begin();
	add_function(&m, "stx_k_a", LLVMAddFunction(m.m, "memcpy", m.fn));
	add_function(&m, "stx_k_b", LLVMAddFunction(m.m, "memset", m.fn));
	b = finish(&m);
	if (check(&b, &d))
		fail_msg("%s", d.text);
	stx_bytes_free(&b);
}

static void test_artifact_check_undefined_symbol_is_refused(void **state)
{
	(void)state;
	struct module m = begin();
	add_function(&m, "stx_k_a", LLVMAddFunction(m.m, "system", m.fn));
	struct stx_bytes b = finish(&m);
	refused(&b, "system");
}

static void test_artifact_check_constructor_is_refused(void **state)
{
	(void)state;
	struct module m = begin();
	LLVMValueRef f = add_function(&m, "stx_k_a", NULL);
	LLVMValueRef g = LLVMAddGlobal(m.m, LLVMPointerTypeInContext(m.c, 0), "at_load");
	LLVMSetInitializer(g, f);
	LLVMSetSection(g, ".init_array");
	struct stx_bytes b = finish(&m);
	refused(&b, "tag");
}

static void test_artifact_check_ifunc_is_refused(void **state)
{
	(void)state;
	struct module m = begin();
	LLVMTypeRef ptr = LLVMPointerTypeInContext(m.c, 0);
	LLVMTypeRef type = LLVMFunctionType(ptr, NULL, 0, 0);
	LLVMValueRef r = LLVMAddFunction(m.m, "resolver", type);
	LLVMPositionBuilderAtEnd(m.b, LLVMAppendBasicBlockInContext(m.c, r, ""));
	LLVMBuildRet(m.b, LLVMConstNull(ptr));
	LLVMValueRef i = LLVMAddGlobalIFunc(m.m, "stx_k_i", 7, m.fn, 0, r);
	add_function(&m, "stx_k_a", i);
	struct stx_bytes b = finish(&m);
	refused(&b, "type");
}

static void test_artifact_check_thread_local_data_is_refused(void **state)
{
	(void)state;
	struct module m = begin();
	add_function(&m, "stx_k_a", NULL);
	LLVMValueRef g = LLVMAddGlobal(m.m, LLVMInt32TypeInContext(m.c), "tls");
	LLVMSetInitializer(g, LLVMConstInt(LLVMInt32TypeInContext(m.c), 1, 0));
	LLVMSetThreadLocal(g, 1);
	struct stx_bytes b = finish(&m);
	refused(&b, "segment type");
}

/* The program header of a type, in place. */
static Elf64_Phdr *segment(struct stx_bytes *b, uint32_t type, uint32_t flags)
{
	Elf64_Ehdr *h = (Elf64_Ehdr *)b->at;
	Elf64_Phdr *p = (Elf64_Phdr *)(b->at + h->e_phoff);
	for (int i = 0; i < h->e_phnum; i++)
		if (p[i].p_type == type && (p[i].p_flags & flags) == flags)
			return &p[i];
	fail_msg("there is no such segment");
	return NULL;
}

static Elf64_Dyn *dynamic(struct stx_bytes *b, int64_t tag)
{
	Elf64_Dyn *e = (Elf64_Dyn *)(b->at + segment(b, PT_DYNAMIC, 0)->p_offset);
	for (; e->d_tag != DT_NULL; e++)
		if (e->d_tag == tag)
			return e;
	fail_msg("there is no such tag");
	return NULL;
}

static void test_artifact_check_changed_segments_are_refused(void **state)
{
	(void)state;
	struct stx_bytes b = plain();
	segment(&b, PT_LOAD, PF_X)->p_flags |= PF_W;
	refused(&b, "writable and executable");
	b = plain();
	segment(&b, PT_GNU_STACK, 0)->p_flags |= PF_X;
	refused(&b, "stack");
	b = plain();
	segment(&b, PT_GNU_STACK, 0)->p_type = PT_NULL;
	refused(&b, "stack");
	b = plain();
	segment(&b, PT_GNU_STACK, 0)->p_type = PT_INTERP;
	refused(&b, "segment type");
	b = plain();
	segment(&b, PT_LOAD, PF_X)->p_filesz = 1 << 30;
	refused(&b, "outside the file");
	b = plain();
	segment(&b, PT_LOAD, PF_W)->p_vaddr = segment(&b, PT_LOAD, PF_X)->p_vaddr;
	refused(&b, "overlap");
}

static void test_artifact_check_changed_tags_are_refused(void **state)
{
	static const int64_t tags[] = { DT_INIT,          DT_FINI,   DT_INIT_ARRAY, DT_FINI_ARRAY,
					DT_PREINIT_ARRAY, DT_RPATH,  DT_RUNPATH,    DT_TEXTREL,
					DT_AUDIT,         DT_FILTER, DT_AUXILIARY,  DT_REL,
					DT_RELR,          DT_DEBUG,  0x7abcdef0 };
	(void)state;
	for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
		struct stx_bytes b = plain();
		dynamic(&b, DT_SYMENT)->d_tag = tags[i];
		refused(&b, "tag");
	}
	struct stx_bytes b = plain();
	dynamic(&b, DT_SYMENT)->d_tag = DT_NEEDED; /* names the string at 24: part of a symbol */
	refused(&b, "library");
	b = plain();
	Elf64_Dyn *e = dynamic(&b, DT_SYMENT);
	e->d_tag = DT_FLAGS;
	e->d_un.d_val = DF_TEXTREL;
	refused(&b, "value");
	b = plain();
	e = dynamic(&b, DT_RELA);
	Elf64_Rela *r = (Elf64_Rela *)(b.at + e->d_un.d_val); /* first segment: address = offset */
	uint64_t good = r->r_offset;
	r->r_offset = segment(&b, PT_LOAD, PF_X)->p_vaddr;
	struct stx_diag d = { 0 };
	assert_int_equal(check(&b, &d), STX_E_UNTRUSTED);
	r->r_offset = segment(&b, PT_DYNAMIC, 0)->p_vaddr;
	assert_int_equal(check(&b, &d), STX_E_UNTRUSTED);
	r->r_offset = good;
	assert_int_equal(check(&b, &d), 0);
	r->r_info = ELF64_R_INFO(0, R_X86_64_IRELATIVE);
	refused(&b, "relocation type");
}

/* Any prefix and any changed bytes: an answer, never a read outside the bytes given. */
static void test_artifact_check_damaged_objects_are_answered_without_reading_outside(void **state)
{
	uint64_t seed = 7;
	struct stx_bytes b = plain();
	struct stx_diag d = { 0 };
	(void)state;
	for (size_t n = 0; n < b.n; n++) {
		uint8_t *p = jit_guarded(n);
		memcpy(p, b.at, n);
		stx_artifact_check((struct stx_span){ p, n }, &d);
		jit_guarded_free(p, n);
	}
	uint8_t *p = jit_guarded(b.n);
	for (int i = 0; i < 100000; i++) {
		memcpy(p, b.at, b.n);
		for (int j = (int)(jit_random(&seed) % 4); j >= 0; j--) {
			uint64_t r = jit_random(&seed);
			p[r % b.n] = (uint8_t)(r >> 40 & 1 ? r >> 48 : 0xff * (r >> 41 & 1));
		}
		stx_artifact_check((struct stx_span){ p, b.n }, &d);
	}
	jit_guarded_free(p, b.n);
	stx_bytes_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			test_artifact_check_plain_object_and_memory_functions_are_accepted),
		cmocka_unit_test(test_artifact_check_undefined_symbol_is_refused),
		cmocka_unit_test(test_artifact_check_constructor_is_refused),
		cmocka_unit_test(test_artifact_check_ifunc_is_refused),
		cmocka_unit_test(test_artifact_check_thread_local_data_is_refused),
		cmocka_unit_test(test_artifact_check_changed_segments_are_refused),
		cmocka_unit_test(test_artifact_check_changed_tags_are_refused),
		cmocka_unit_test(
			test_artifact_check_damaged_objects_are_answered_without_reading_outside),
	};
	return cmocka_run_group_tests(tests, jit_setup, jit_teardown);
}
