/* test_plan.c: data plans: what is accepted, what is refused, and that no byte string reads
 * outside. */
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan_use.h"
#include "planbuild.h"

/* One dynamic size n; x[n] -> t[n] (temporary) -> y[n], with a constant, a guard, a scalar, a copy.
 */
static struct stx_bytes example(void)
{
	struct planbuild b = { 0 };
	uint32_t sym = pb_size(&b, "n", 0, 0, 1, 1000, 16);
	uint32_t n = pb_sym(&b, sym), one = pb_const(&b, 1), zero = pb_const(&b, 0),
		 four = pb_const(&b, 4);
	uint32_t bytes = pb_bin(&b, STX_X_MUL, n, four);
	uint32_t x = pb_value(&b, STX_VALUE_INPUT, STX_F32, "x", 1, &n, &one, bytes, zero);
	uint32_t t = pb_value(&b, STX_VALUE_TEMP, STX_F32, "t", 1, &n, &one, bytes, zero);
	uint32_t y = pb_value(&b, STX_VALUE_OUTPUT, STX_F32, "y", 1, &n, &one, bytes, zero);
	uint32_t z = pb_value(&b, STX_VALUE_OUTPUT, STX_F32, "z", 1, &n, &one, bytes, zero);
	uint32_t c = pb_dense(&b, STX_VALUE_CONST, STX_I64, "c", 1, (int64_t[]){ 2 }, 0);
	stx_bytes_put(&b.data, (int64_t[]){ 7, 9 }, 16);
	uint32_t k = pb_kernel(&b, "poi_add_0", n, one, 1, &n);
	pb_step(&b, STX_STEP_ALLOC, t, 0);
	pb_launch(&b, k, 3, (uint32_t[]){ x, c, t });
	pb_launch(&b, k, 2, (uint32_t[]){ t, y });
	pb_step(&b, STX_STEP_COPY, t, z);
	pb_step(&b, STX_STEP_RELEASE, t, 0);
	pb_guard(&b, pb_bin(&b, STX_X_LT, zero, n));
	b.workspace = bytes;
	return pb_finish(&b);
}

static struct stx_span span(const struct stx_bytes *b)
{
	return (struct stx_span){ b->at, b->n };
}

static void test_plan_guards_print_as_text(void **state)
{
	(void)state;
	struct stx_bytes b = example(), text = { 0 }, all = { 0 };
	struct stx_plan p;
	assert_int_equal(stx_plan_open(span(&b), &p, NULL), 0);
	assert_int_equal(p.h->nguards, 1);
	assert_int_equal(stx_plan_print_guard(&p, 0, &text), 0);
	assert_string_equal(stx_bytes_cstr(&text), "0 s0 lt");
	assert_int_equal(stx_plan_print(span(&b), &all, NULL), 0);
	assert_non_null(strstr(stx_bytes_cstr(&all), "\nguard 0 s0 lt\n"));
	stx_bytes_free(&all);
	stx_bytes_free(&text);
	stx_bytes_free(&b);
}

static struct stx_plan_header *head(struct stx_bytes *b)
{
	return (struct stx_plan_header *)(void *)b->at;
}

static void refused(struct stx_bytes *b, const char *part)
{
	struct stx_plan p;
	struct stx_diag d = { 0 };
	assert_int_equal(stx_plan_open(span(b), &p, &d), STX_E_CORRUPT);
	assert_non_null(strstr(d.text, part));
	stx_bytes_free(b);
}

static void test_plan_valid_opens(void **state)
{
	(void)state;
	struct stx_bytes b = example();
	struct stx_plan p;
	struct stx_diag d = { 0 };
	int ok = 1;
	assert_int_equal(stx_plan_open(span(&b), &p, &d), 0);
	assert_string_equal(stx_plan_string(&p, p.kernels[0].name), "poi_add_0");
	assert_int_equal(stx_plan_eval(&p, p.h->workspace_expr, (int64_t[]){ 5 }, &ok), 20);
	assert_true(ok);
	stx_bytes_free(&b);
}

static void test_plan_other_version_refused(void **state)
{
	(void)state;
	struct stx_bytes b = example();
	struct stx_plan p;
	head(&b)->version = STX_ABI_VERSION - 1; /* whose kernels are given no scratch memory */
	assert_int_equal(stx_plan_open(span(&b), &p, NULL), STX_E_VERSION);
	head(&b)->version = STX_ABI_VERSION + 1;
	assert_int_equal(stx_plan_open(span(&b), &p, NULL), STX_E_VERSION);
	head(&b)->version = STX_ABI_VERSION;
	head(&b)->flags = 1u << 31;
	assert_int_equal(stx_plan_open(span(&b), &p, NULL), STX_E_VERSION);
	stx_bytes_free(&b);
}

static void test_plan_every_truncation_refused(void **state)
{
	(void)state;
	struct stx_bytes b = example();
	for (size_t n = 0; n < b.n; n++) {
		struct stx_plan p;
		uint8_t *copy = malloc(n ? n : 1);
		memcpy(copy, b.at, n);
		assert_int_not_equal(stx_plan_open((struct stx_span){ copy, n }, &p, NULL), 0);
		free(copy);
	}
	stx_bytes_free(&b);
}

static void test_plan_misaligned_base_refused(void **state)
{
	(void)state;
	struct stx_bytes b = example();
	struct stx_plan p;
	uint8_t *copy = malloc(b.n + 4);
	memcpy(copy + 4, b.at, b.n);
	assert_int_equal(stx_plan_open((struct stx_span){ copy + 4, b.n }, &p, NULL),
			 STX_E_CORRUPT);
	free(copy);
	stx_bytes_free(&b);
}

static void test_plan_table_faults_refused(void **state)
{
	(void)state;
	struct stx_bytes b = example();
	head(&b)->values_off = head(&b)->kernels_off;
	refused(&b, "overlap");
	b = example();
	head(&b)->nexprs = UINT32_MAX;
	refused(&b, "outside");
	b = example();
	head(&b)->steps_off += 4;
	refused(&b, "misaligned");
	b = example();
	head(&b)->syms_off = 8; /* over the header */
	refused(&b, "outside");
	b = example();
	b.at[head(&b)->strings_off + head(&b)->strings_bytes - 1] = 'x';
	refused(&b, "terminated");
	b = example();
	head(&b)->ninputs = 2;
	refused(&b, "missing");
	b = example();
	head(&b)->workspace_expr = head(&b)->nexprs;
	refused(&b, "workspace");
}

static struct stx_plan_step *steps(struct stx_bytes *b)
{
	return (struct stx_plan_step *)(void *)(b->at + head(b)->steps_off);
}

static void test_plan_step_order_faults_refused(void **state)
{
	(void)state;
	struct stx_bytes b = example();
	struct stx_plan_step s = steps(&b)[0];
	steps(&b)[0] = steps(&b)[4]; /* released before it was allocated */
	steps(&b)[4] = s;
	refused(&b, "before its allocation");
	b = example();
	steps(&b)[2] = steps(&b)[0]; /* allocated twice */
	refused(&b, "before its allocation");
	b = example();
	s = steps(&b)[3];
	steps(&b)[3] = steps(&b)[4]; /* used after its release */
	steps(&b)[4] = s;
	refused(&b, "after its release");
	b = example();
	steps(&b)[1].kind = 17;
	refused(&b, "malformed step");
	b = example();
	steps(&b)[1].nargs = 1u << 20;
	refused(&b, "malformed step");
}

/* x -> an external call between two launches, with memory to work in and a kernel that stands in.
 */
static struct stx_bytes with_extern(void)
{
	struct planbuild b = { 0 };
	uint32_t one = pb_const(&b, 1), eight = pb_const(&b, 8);
	uint32_t x = pb_dense(&b, STX_VALUE_INPUT, STX_F32, "x", 1, (int64_t[]){ 8 }, 0);
	uint32_t t = pb_dense(&b, STX_VALUE_TEMP, STX_F32, "t", 1, (int64_t[]){ 8 }, 0);
	uint32_t w = pb_dense(&b, STX_VALUE_TEMP, STX_U8, "w", 1, (int64_t[]){ 64 }, 64);
	uint32_t y = pb_dense(&b, STX_VALUE_OUTPUT, STX_F32, "y", 1, (int64_t[]){ 8 }, 0);
	uint32_t k = pb_kernel(&b, "poi_add_0", eight, one, 0, NULL);
	pb_step(&b, STX_STEP_ALLOC, t, 0);
	pb_launch(&b, k, 2, (uint32_t[]){ x, t });
	pb_step(&b, STX_STEP_ALLOC, w, 0);
	pb_extern(&b, "shift", 3, (uint32_t[]){ t, t, w }, 2, (uint32_t[]){ one, eight }, w, k);
	pb_step(&b, STX_STEP_RELEASE, w, 0);
	pb_launch(&b, k, 2, (uint32_t[]){ t, y });
	b.workspace = pb_const(&b, 128);
	return pb_finish(&b);
}

static struct stx_plan_extern *call_of(struct stx_bytes *b)
{
	return (struct stx_plan_extern *)(void *)(b->at + steps(b)[3].b);
}

static void test_plan_extern_says_attributes_workspace_and_kernel(void **state)
{
	(void)state;
	struct stx_bytes b = with_extern(), text = { 0 };
	struct stx_plan p;
	int ok = 1;
	assert_int_equal(stx_plan_open(span(&b), &p, NULL), 0);
	const struct stx_plan_step *s = &p.steps[3];
	const struct stx_plan_extern *c = stx_plan_extern_of(&p, s);
	assert_string_equal(stx_plan_string(&p, s->a), "shift");
	assert_int_equal(c->nattrs, 2);
	assert_int_equal(stx_plan_eval(&p, stx_plan_u32s(&p, c->attrs)[1], NULL, &ok), 8);
	assert_int_equal(stx_plan_step_kernel(&p, s), 0);
	assert_int_equal(stx_plan_step_nparams(&p, s), 2); /* the kernel needs no workspace */
	assert_int_equal(stx_plan_step_nparams(&p, &p.steps[1]), 2);
	assert_int_equal(stx_plan_step_kernel(&p, &p.steps[2]), STX_PLAN_NONE);
	assert_int_equal(stx_plan_print(span(&b), &text, NULL), 0);
	assert_non_null(strstr(stx_bytes_cstr(&text),
			       "extern shift(v1, v1, v2) attrs 1 8 workspace v2 else k0\n"));
	stx_bytes_free(&text);
	stx_bytes_free(&b);
}

/* A call that stands for steps after it: they are there, and it has no kernel of its own. */
static void test_plan_extern_covers_steps_that_follow(void **state)
{
	(void)state;
	struct stx_bytes b = with_extern(), text = { 0 };
	struct stx_plan p;
	call_of(&b)->kernel = STX_PLAN_NONE;
	steps(&b)[3].covers = 1;
	assert_int_equal(stx_plan_open(span(&b), &p, NULL), 0);
	assert_int_equal(stx_plan_print(span(&b), &text, NULL), 0);
	assert_non_null(strstr(stx_bytes_cstr(&text), "workspace v2 else the next 1\n"));
	stx_bytes_free(&text);
	steps(&b)[3].covers = 2;
	refused(&b, "malformed step");
	b = with_extern();
	steps(&b)[3].covers = 1; /* its kernel does it */
	refused(&b, "malformed step");
	b = with_extern();
	call_of(&b)->kernel = STX_PLAN_NONE;
	steps(&b)[3].covers = 1;
	steps(&b)[5] = (struct stx_plan_step){ .kind = STX_STEP_COPY, .a = 1, .b = 3 };
	refused(&b, "malformed step");
}

static void test_plan_extern_faults_refused(void **state)
{
	(void)state;
	struct stx_bytes b = with_extern();
	call_of(&b)->kernel = 1;
	refused(&b, "malformed step");
	b = with_extern();
	call_of(&b)->workspace = 0; /* not its last argument */
	refused(&b, "malformed step");
	b = with_extern();
	call_of(&b)->nattrs = 1u << 28;
	refused(&b, "malformed step");
	b = with_extern();
	call_of(&b)->attrs = head(&b)->total_bytes;
	refused(&b, "malformed step");
	b = with_extern();
	steps(&b)[3].b = head(&b)->total_bytes - 8; /* cut short */
	refused(&b, "malformed step");
	b = with_extern();
	steps(&b)[3].b = 0;
	refused(&b, "malformed step");
	b = with_extern();
	steps(&b)[3].nargs = 0; /* then no argument is the workspace */
	refused(&b, "malformed step");
	b = with_extern();
	steps(&b)[2] = steps(&b)[4]; /* released before it was allocated */
	refused(&b, "before its allocation");
}

/* x -> y by a call that stands for the two launches after it, which multiply by w and may have it
 * packed. */
static struct stx_bytes with_prepared(void)
{
	struct planbuild b = { 0 };
	uint32_t one = pb_const(&b, 1), eight = pb_const(&b, 8);
	uint32_t x = pb_dense(&b, STX_VALUE_INPUT, STX_F32, "x", 1, (int64_t[]){ 8 }, 0);
	uint32_t w = pb_dense(&b, STX_VALUE_INPUT, STX_F32, "w", 1, (int64_t[]){ 8 }, 0);
	uint32_t t = pb_dense(&b, STX_VALUE_TEMP, STX_F32, "t", 1, (int64_t[]){ 8 }, 0);
	uint32_t y = pb_dense(&b, STX_VALUE_OUTPUT, STX_F32, "y", 1, (int64_t[]){ 8 }, 0);
	uint32_t none = pb_kernel(&b, "poi_none_0", eight, one, 0, NULL);
	uint32_t k = pb_kernel(&b, "red_mm_1", eight, one, 0, NULL);
	pb_flags(&b, w, STX_TENSOR_PARAM);
	pb_prepared(&b, none, "stx_p0_none", 1, 64);
	pb_prepared(&b, k, "stx_p0_mm", 3, 4096);
	pb_prepared(&b, k, "stx_p1_mm", 5, 100);
	pb_extern(&b, "all", 3, (uint32_t[]){ x, w, y }, 0, NULL, STX_PLAN_NONE, STX_PLAN_NONE);
	pb_covers(&b, 2);
	pb_step(&b, STX_STEP_ALLOC, t, 0);
	pb_launch(&b, k, 3, (uint32_t[]){ x, w, t });
	pb_launch(&b, k, 3, (uint32_t[]){ t, w, y });
	pb_step(&b, STX_STEP_RELEASE, t, 0);
	b.workspace = pb_const(&b, 32);
	return pb_finish(&b);
}

static void test_plan_prepared_operands_are_those_of_their_kernel(void **state)
{
	(void)state;
	struct stx_bytes b = with_prepared();
	struct stx_plan p;
	uint32_t n;
	assert_int_equal(stx_plan_open(span(&b), &p, NULL), 0);
	const struct stx_plan_prepared *q = stx_plan_prepared_of(&p, 1, &n);
	assert_int_equal(n, 2);
	assert_string_equal(stx_plan_string(&p, q[1].symbol), "stx_p1_mm");
	stx_plan_prepared_of(&p, 0, &n);
	assert_int_equal(n, 1);
	stx_plan_prepared_of(&p, STX_PLAN_NONE, &n);
	assert_int_equal(n, 0);
	stx_bytes_free(&b);
}

static struct stx_plan_preparing *preparing(struct stx_bytes *b)
{
	return (struct stx_plan_preparing *)(void *)(b->at + sizeof(struct stx_plan_header));
}

static struct stx_plan_prepared *prepared(struct stx_bytes *b)
{
	return (struct stx_plan_prepared *)(void *)(b->at + preparing(b)->prepared_off);
}

static void test_plan_prepared_faults_refused(void **state)
{
	(void)state;
	struct stx_bytes b = with_prepared();
	prepared(&b)[2].kernel = 2;
	refused(&b, "malformed prepared operand");
	b = with_prepared();
	prepared(&b)[2].kernel = 0; /* out of order */
	refused(&b, "malformed prepared operand");
	b = with_prepared();
	prepared(&b)[1].symbol = head(&b)->strings_off + head(&b)->strings_bytes;
	refused(&b, "malformed prepared operand");
	b = with_prepared();
	prepared(&b)[1].bytes = UINT64_MAX;
	refused(&b, "malformed prepared operand");
	b = with_prepared();
	preparing(&b)->prepared_off = head(&b)->kernels_off;
	refused(&b, "overlap");
	b = with_prepared();
	preparing(&b)->prepared_off += 4;
	refused(&b, "misaligned");
	b = with_prepared();
	preparing(&b)->nprepared = UINT32_MAX;
	refused(&b, "outside");
}

/* Calls that stand for steps which are not there, or are copies, or stand for others themselves. */
static void test_plan_covers_faults_refused(void **state)
{
	(void)state;
	struct stx_bytes b = with_prepared();
	steps(&b)[0].covers = 3;
	refused(&b, "malformed step");
	b = with_prepared();
	steps(&b)[0].covers = UINT32_MAX;
	refused(&b, "malformed step");
	b = with_prepared();
	steps(&b)[2] = (struct stx_plan_step){ .kind = STX_STEP_COPY, .a = 0, .b = 3 };
	refused(&b, "malformed step");
	b = with_prepared();
	steps(&b)[2] = steps(&b)[0];
	refused(&b, "malformed step");
	b = with_prepared();
	steps(&b)[2].covers = 1; /* of a launch */
	refused(&b, "malformed step");
}

/* What begins at multiples of STX_GPU_ALIGN is said of device memory. */
static void test_plan_aligned_without_cuda_refused(void **state)
{
	(void)state;
	struct stx_bytes b = example();
	head(&b)->flags |= STX_PLAN_ALIGNED;
	refused(&b, "flags");
}

static void test_plan_bytecode_faults_refused(void **state)
{
	(void)state;
	static const struct {
		uint8_t code[12];
		uint32_t n;
	} bad[] = {
		{ { 0 }, 0 },                                             /* empty */
		{ { STX_X_ADD }, 1 },                                     /* too few operands */
		{ { STX_X_SYM, 1, 0, 0, 0 }, 5 },                         /* no such symbol */
		{ { STX_X_CONST, 1, 2, 3 }, 4 },                          /* cut short */
		{ { 99 }, 1 },                                            /* no such operator */
		{ { STX_X_SYM, 0, 0, 0, 0, STX_X_SYM, 0, 0, 0, 0 }, 10 }, /* two results */
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct planbuild b = { 0 };
		pb_string(&b, "");
		pb_size(&b, "n", 0, 0, 0, 9, 1);
		uint32_t n = pb_const(&b, 1);
		pb_value(&b, STX_VALUE_INPUT, STX_U8, "x", 1, &n, &n, n, n);
		pb_code(&b, bad[i].code, bad[i].n);
		struct stx_bytes plan = pb_finish(&b);
		refused(&plan, "malformed expression");
	}
}

static void test_plan_deep_stack_refused(void **state)
{
	(void)state;
	for (int depth = STX_PLAN_MAX_STACK; depth <= STX_PLAN_MAX_STACK + 1; depth++) {
		struct planbuild b = { 0 };
		struct stx_bytes code = { 0 };
		struct stx_plan p;
		pb_string(&b, "");
		for (int i = 0; i < depth; i++) {
			stx_bytes_u8(&code, STX_X_CONST);
			stx_bytes_u64(&code, 1);
		}
		for (int i = 1; i < depth; i++)
			stx_bytes_u8(&code, STX_X_ADD);
		b.workspace = pb_code(&b, code.at, (uint32_t)code.n);
		struct stx_bytes plan = pb_finish(&b);
		int ok = 1, e = stx_plan_open(span(&plan), &p, NULL);
		assert_int_equal(e, depth > STX_PLAN_MAX_STACK ? STX_E_CORRUPT : 0);
		if (!e)
			assert_int_equal(stx_plan_eval(&p, 0, NULL, &ok), depth);
		stx_bytes_free(&code);
		stx_bytes_free(&plan);
	}
}

/* Arrays that many records share must not make the check longer than the plan. */
static void test_plan_shared_arrays_bounded(void **state)
{
	(void)state;
	struct planbuild b = { 0 };
	uint32_t one = pb_const(&b, 1);
	uint32_t x = pb_value(&b, STX_VALUE_INPUT, STX_U8, "x", 1, &one, &one, one, one);
	uint32_t k = pb_kernel(&b, "k", one, one, 0, NULL);
	uint32_t *args = malloc(4096 * sizeof *args);
	for (int i = 0; i < 4096; i++)
		args[i] = x;
	pb_launch(&b, k, 4096, args);
	for (int i = 0; i < 64; i++)
		pb_launch(&b, k, 0, args);
	struct stx_bytes plan = pb_finish(&b);
	for (uint32_t i = 1; i < 65; i++) { /* all steps use the one array */
		steps(&plan)[i].nargs = 4096;
		steps(&plan)[i].args = steps(&plan)[0].args;
	}
	refused(&plan, "malformed step");
	free(args);
}

/* ---- hostile bytes ---- */

static uint64_t random_state = 0x5eed;
static uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static volatile uint64_t sink; /* reads are not optimised away */

static void test_plan_mutated_bytes_never_read_outside(void **state)
{
	(void)state;
	struct stx_bytes all[3] = { example(), with_extern(), with_prepared() };
	unsigned accepted = 0;
	print_message("seed 0x%llx\n", (unsigned long long)random_state);
	for (int i = 0; i < 100000; i++) {
		const struct stx_bytes b = all[i % 3];
		struct stx_plan p;
		uint8_t *copy =
			malloc(b.n); /* exact, so that a sanitizer sees the first byte beyond */
		memcpy(copy, b.at, b.n);
		for (uint64_t k = 1 + next_random() % 4; k; k--) {
			uint64_t r = next_random();
			uint8_t *at = &copy[r % b.n];
			*at = r >> 40 & 1 ? (uint8_t)(r >> 32) : (uint8_t)(*at + (r >> 32) % 9 - 4);
		}
		if (!stx_plan_open((struct stx_span){ copy, b.n }, &p, NULL)) {
			accepted++;
			sink += plan_use(&p);
		}
		free(copy);
	}
	assert_true(accepted > 0); /* or the test says nothing about readers */
	for (int i = 0; i < 3; i++)
		stx_bytes_free(&all[i]);
}

/* ---- ELF ---- */

/* Beside the plan it has the symbols b, a and ab, of bytes 0..1, 2..3 and 4..5 of the plan, and c,
 * which lies behind it. */
static struct stx_bytes elf_with(const struct stx_bytes *plan)
{
	static const char symbols[] = "\0b\0a\0ab\0c";
	static const uint32_t symbol_name[] = { 1, 3, 5, 8 };
	static const char names[] = "\0.shstrtab\0.text\0.stax.plan";
	struct stx_bytes b = { 0 };
	Elf64_Ehdr h = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
			 .e_type = ET_DYN,
			 .e_machine = EM_X86_64,
			 .e_version = EV_CURRENT,
			 .e_ehsize = sizeof h,
			 .e_shentsize = sizeof(Elf64_Shdr),
			 .e_shnum = 6,
			 .e_shstrndx = 1 };
	Elf64_Shdr s[6] = { 0 };
	stx_bytes_put(&b, &h, sizeof h);
	s[1] = (Elf64_Shdr){
		.sh_name = 1, .sh_type = SHT_STRTAB, .sh_offset = b.n, .sh_size = sizeof names
	};
	stx_bytes_put(&b, names, sizeof names);
	stx_bytes_align(&b, 64);
	s[2] = (Elf64_Shdr){ .sh_name = 11,
			     .sh_type = SHT_PROGBITS,
			     .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
			     .sh_offset = b.n,
			     .sh_size = 4 };
	stx_bytes_u32(&b, 0xc3c3c3c3);
	stx_bytes_align(&b, 64);
	s[3] = (Elf64_Shdr){ .sh_name = 17,
			     .sh_type = SHT_PROGBITS,
			     .sh_flags = SHF_ALLOC,
			     .sh_offset = b.n,
			     .sh_size = plan->n };
	stx_bytes_put(&b, plan->at, plan->n);
	s[4] = (Elf64_Shdr){ .sh_type = SHT_STRTAB, .sh_offset = b.n, .sh_size = sizeof symbols };
	stx_bytes_put(&b, symbols, sizeof symbols);
	stx_bytes_align(&b, 8);
	s[5] = (Elf64_Shdr){ .sh_type = SHT_DYNSYM,
			     .sh_offset = b.n,
			     .sh_size = 4 * sizeof(Elf64_Sym),
			     .sh_link = 4 };
	for (unsigned i = 0; i < 4; i++) {
		Elf64_Sym m = { .st_name = symbol_name[i],
				.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT),
				.st_shndx = 3,
				.st_value = i < 3 ? 2 * i : plan->n,
				.st_size = 2 };
		stx_bytes_put(&b, &m, sizeof m);
	}
	h.e_shoff = b.n;
	stx_bytes_put(&b, s, sizeof s);
	memcpy(b.at, &h, sizeof h);
	return b;
}

static void test_artifact_plan_found(void **state)
{
	(void)state;
	struct stx_bytes plan = example(), elf = elf_with(&plan);
	struct stx_span found;
	assert_int_equal(stx_artifact_plan(span(&elf), &found, NULL), 0);
	assert_int_equal(found.n, plan.n);
	assert_memory_equal(found.at, plan.at, plan.n);
	assert_int_equal(stx_artifact_has_code(span(&elf)), 1);
	assert_int_equal(stx_artifact_plan(span(&plan), &found, NULL), STX_E_CORRUPT);
	stx_bytes_free(&plan);
	stx_bytes_free(&elf);
}

static void test_artifact_symbols_found_by_name_whatever_their_order(void **state)
{
	(void)state;
	struct stx_bytes plan = example(), elf = elf_with(&plan);
	static const char *const names[] = { "ab", "a", "b", "a" }, *const none[] = { "a", "abc" },
				 *const beyond[] = { "c", "b" };
	struct stx_span out[4];
	const char *which;
	assert_int_equal(stx_artifact_symbols(span(&elf), names, 4, out, &which), 0);
	for (int i = 0; i < 4; i++) {
		static const int at[] = { 4, 2, 0, 2 };
		assert_int_equal(out[i].n, 2);
		assert_memory_equal(out[i].at, plan.at + at[i], 2);
	}
	assert_int_equal(stx_artifact_symbols(span(&elf), none, 2, out, &which), STX_E_NOT_FOUND);
	assert_string_equal(which, "abc");
	assert_int_equal(stx_artifact_symbols(span(&elf), beyond, 2, out, &which), STX_E_CORRUPT);
	assert_string_equal(which, "c");
	assert_int_equal(stx_artifact_symbols(span(&elf), names, 0, out, &which), 0);
	assert_int_equal(stx_artifact_symbols(span(&plan), names, 1, out, &which), STX_E_NOT_FOUND);
	stx_bytes_free(&plan);
	stx_bytes_free(&elf);
}

static void test_artifact_mutated_bytes_never_read_outside(void **state)
{
	(void)state;
	struct stx_bytes plan = example(), elf = elf_with(&plan);
	for (int i = 0; i < 100000; i++) {
		struct stx_span found;
		size_t n = i % 8 ? elf.n : next_random() % elf.n; /* cut short at times */
		uint8_t *copy = malloc(n ? n : 1);
		memcpy(copy, elf.at, n);
		for (int k = 0; k < 3 && n; k++) {
			uint64_t r = next_random();
			/* Mostly in the headers, which the parser reads. */
			size_t at =
				r & 1 ? r / 2 % n : (r & 2 ? r / 4 % 64 : elf.n - 1 - r / 4 % 256);
			if (at < n)
				copy[at] = (uint8_t)(r >> 48);
		}
		if (!stx_artifact_plan((struct stx_span){ copy, n }, &found, NULL)) {
			assert_true(found.at >= copy && found.n <= n &&
				    (size_t)(found.at - copy) <= n - found.n);
			for (size_t k = 0; k < found.n; k += 64)
				sink += found.at[k];
		}
		sink += (uint64_t)stx_artifact_has_code((struct stx_span){ copy, n });
		static const char *const names[] = { "a", "b" };
		struct stx_span bytes[2];
		const char *which;
		if (!stx_artifact_symbols((struct stx_span){ copy, n }, names, 2, bytes, &which))
			for (size_t k = 0; k < bytes[1].n; k += 64)
				sink += bytes[1].at[k];
		free(copy);
	}
	stx_bytes_free(&plan);
	stx_bytes_free(&elf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plan_guards_print_as_text),
		cmocka_unit_test(test_plan_valid_opens),
		cmocka_unit_test(test_plan_other_version_refused),
		cmocka_unit_test(test_plan_every_truncation_refused),
		cmocka_unit_test(test_plan_misaligned_base_refused),
		cmocka_unit_test(test_plan_table_faults_refused),
		cmocka_unit_test(test_plan_step_order_faults_refused),
		cmocka_unit_test(test_plan_extern_says_attributes_workspace_and_kernel),
		cmocka_unit_test(test_plan_extern_covers_steps_that_follow),
		cmocka_unit_test(test_plan_extern_faults_refused),
		cmocka_unit_test(test_plan_prepared_operands_are_those_of_their_kernel),
		cmocka_unit_test(test_plan_prepared_faults_refused),
		cmocka_unit_test(test_plan_covers_faults_refused),
		cmocka_unit_test(test_plan_aligned_without_cuda_refused),
		cmocka_unit_test(test_plan_bytecode_faults_refused),
		cmocka_unit_test(test_plan_deep_stack_refused),
		cmocka_unit_test(test_plan_shared_arrays_bounded),
		cmocka_unit_test(test_plan_mutated_bytes_never_read_outside),
		cmocka_unit_test(test_artifact_plan_found),
		cmocka_unit_test(test_artifact_symbols_found_by_name_whatever_their_order),
		cmocka_unit_test(test_artifact_mutated_bytes_never_read_outside),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
