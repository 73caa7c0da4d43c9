/* emit_llvm.c: one kernel to LLVM IR, optimised IR, assembly or an ELF object.
 *
 * The kernel becomes `void SYMBOL(const struct stx_kernel_frame *, i64 begin, i64 end)`, a loop
 * over grid points around its instructions; operands that may be packed before the run, functions of
 * the same type. Context and module live for one call; target machines and their passes (passes.h)
 * are kept, one a level. No fast-math flags: what LLVM may change keeps every bit. MXCSR is set to
 * its default (nearest, subnormals kept) at entry and restored at exit, whatever the calling thread
 * has there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <llvm-c/Analysis.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>

#include "clock.h"
#include "emit_llvm.h"
#include "passes.h"

#define TRIPLE        "x86_64-unknown-linux-gnu"
#define MXCSR_DEFAULT 0x1f80u /* all exceptions masked, round to nearest, no FTZ, no DAZ */

/* mem2reg first: accumulators are built in allocas. dce before early-cse: what only rare lanes need
 * is dead before the branch for them, and would stay as the equal of what is behind it. */
#define PASSES "function(mem2reg,dce,early-cse,loop-mssa(licm),instcombine<no-verify-fixpoint>)"

struct stx_llvm {
	LLVMTargetRef target;
	struct machine {
		LLVMTargetMachineRef target;
		struct stx__passes *passes;
	} machine[5][8]; /* by level and features; made at first use */
};

stx_err stx_llvm_new(struct stx_llvm **out, struct stx_diag *d)
{
	char *text = NULL;
	struct stx_llvm *l = calloc(1, sizeof *l);
	if (!l)
		return stx_fail(d, STX_E_NOMEM, "codegen", NULL, "out of memory");
	LLVMInitializeX86TargetInfo();
	LLVMInitializeX86Target();
	LLVMInitializeX86TargetMC();
	LLVMInitializeX86AsmPrinter();
	if (LLVMGetTargetFromTriple(TRIPLE, &l->target, &text)) {
		stx_fail(d, STX_E_INTERNAL, "codegen", NULL, "LLVM: %s", text);
		LLVMDisposeMessage(text);
		free(l);
		return STX_E_INTERNAL;
	}
	*out = l;
	return STX_E_OK;
}

void stx_llvm_free(struct stx_llvm *l)
{
	if (!l)
		return;
	for (int i = 0; i < 5; i++)
		for (int j = 0; j < 8; j++) {
			stx__passes_free(l->machine[i][j].passes);
			if (l->machine[i][j].target)
				LLVMDisposeTargetMachine(l->machine[i][j].target);
		}
	free(l);
}

void stx_llvm_version(char out[32])
{
	unsigned major, minor, patch;
	LLVMGetVersion(&major, &minor, &patch);
	snprintf(out, 32, "%u.%u.%u", major, minor, patch);
}

static stx_err machine_of(struct stx_llvm *l, const struct stx_cpu_target *t, struct machine **out,
			  struct stx_diag *d)
{
	static const char *const cpu[5] = { NULL, NULL, "x86-64-v2", "x86-64-v3", "x86-64-v4" };
	char text[128];
	if (t->level < 2 || t->level > 4)
		return stx_fail(d, STX_E_UNSUPPORTED, "codegen", NULL, "CPU level %d", t->level);
	unsigned features = t->avx512bf16 | t->avx512vnni << 1 | t->avxvnni << 2;
	struct machine *m = *out = &l->machine[t->level][features];
	if (m->passes)
		return STX_E_OK;
	snprintf(text, sizeof text, "%s%s%s", t->avx512bf16 ? "+avx512bf16," : "",
		 t->avx512vnni ? "+avx512vnni," : "", t->avxvnni ? "+avxvnni," : "");
	if (*text)
		text[strlen(text) - 1] = 0;
	if (!m->target)
		m->target = LLVMCreateTargetMachine(l->target, TRIPLE, cpu[t->level], text,
						    LLVMCodeGenLevelDefault, LLVMRelocPIC,
						    LLVMCodeModelDefault);
	m->passes = stx__passes_new(m->target, PASSES, text, sizeof text);
	return m->passes ? STX_E_OK
			 : stx_fail(d, STX_E_INTERNAL, "codegen", NULL, "LLVM passes: %s", text);
}

void stx_emit_target(const struct stx_kernel *k, struct stx_cpu_target *t)
{
	int bf16 = 0, integer_sums = 0;
	for (uint32_t i = 0; i < k->params.n; i++)
		bf16 |= k->params.at[i].dtype == STX_BF16;
	for (uint32_t i = 0; i < k->insts.n; i++) {
		const struct stx_kinst *n = &k->insts.at[i];
		bf16 |= n->dtype == STX_BF16;
		integer_sums |= n->op == STX_K_ACC && (n->dtype == STX_I32 || n->dtype == STX_U32);
	}
	if (!bf16)
		t->avx512bf16 = 0;
	if (!integer_sums)
		t->avx512vnni = t->avxvnni = 0;
}

/* ---- diagnostics ---- */

struct messages {
	int errors;
	char text[256]; /* the first */
};

static void on_diagnostic(LLVMDiagnosticInfoRef info, void *ctx)
{
	struct messages *m = ctx;
	if (LLVMGetDiagInfoSeverity(info) != LLVMDSError)
		return;
	char *text = LLVMGetDiagInfoDescription(info);
	if (!m->errors++)
		snprintf(m->text, sizeof m->text, "%s", text);
	LLVMDisposeMessage(text);
}

/* ---- the function ---- */

static void make_types(struct stx__emit *e)
{
	e->i1 = LLVMInt1TypeInContext(e->c);
	e->i8 = LLVMInt8TypeInContext(e->c);
	e->i16 = LLVMInt16TypeInContext(e->c);
	e->i32 = LLVMInt32TypeInContext(e->c);
	e->i64 = LLVMInt64TypeInContext(e->c);
	e->f16 = LLVMHalfTypeInContext(e->c);
	e->f32 = LLVMFloatTypeInContext(e->c);
	e->f64 = LLVMDoubleTypeInContext(e->c);
	e->ptr = LLVMPointerTypeInContext(e->c, 0);
}

static void add_attribute(struct stx__emit *e, const char *name, size_t n)
{
	unsigned kind = LLVMGetEnumAttributeKindForName(name, n);
	LLVMAddAttributeAtIndex(e->fn, LLVMAttributeFunctionIndex,
				LLVMCreateEnumAttribute(e->c, kind, 0));
}

static LLVMValueRef frame_field(struct stx__emit *e, size_t offset)
{
	LLVMValueRef at = stx__i64(e, (int64_t)offset);
	LLVMValueRef p = LLVMBuildGEP2(e->b, e->i8, LLVMGetParam(e->fn, 0), &at, 1, "");
	return LLVMBuildLoad2(e->b, e->ptr, p, "");
}

static void load_frame(struct stx__emit *e)
{
	const struct stx_kernel *k = e->k;
	LLVMValueRef buffers = frame_field(e, offsetof(struct stx_kernel_frame, buffers));
	for (uint32_t i = 0; i < k->params.n; i++) {
		LLVMValueRef at = stx__i64(e, i);
		LLVMValueRef p = LLVMBuildGEP2(e->b, e->ptr, buffers, &at, 1, "");
		e->params[i] = LLVMBuildLoad2(e->b, e->ptr, p, "");
	}
	LLVMValueRef scalars = frame_field(e, offsetof(struct stx_kernel_frame, scalars));
	for (uint32_t i = 0; i < k->scalars.n; i++) {
		LLVMValueRef at = stx__i64(e, i);
		LLVMValueRef p = LLVMBuildGEP2(e->b, e->i64, scalars, &at, 1, "");
		e->scalars[i] = LLVMBuildLoad2(e->b, e->i64, p, "");
	}
	e->bounds = frame_field(e, offsetof(struct stx_kernel_frame, bounds));
	if (e->tile || e->attend)
		e->scratch = frame_field(e, offsetof(struct stx_kernel_frame, scratch));
	if (e->tile && e->tile->nprepared)
		stx__tile_load_prepared(e,
					frame_field(e, offsetof(struct stx_kernel_frame, packed)));
	stx__find_streams(e);
	LLVMTypeRef slot = LLVMVectorType(e->i64, 2);
	e->zero_slot = stx__alloca(e, slot, 16);
	e->scratch_slot = stx__alloca(e, slot, 16);
	LLVMBuildStore(e->b, LLVMConstNull(slot), e->zero_slot);
}

static int uses_floats(const struct stx_kernel *k)
{
	for (uint32_t n = 0; n < k->insts.n; n++)
		if (k->insts.at[n].op <= STX_K_LOAD && k->insts.at[n].dtype < STX_DTYPE_COUNT &&
		    stx_dtype_is_float((enum stx_dtype)k->insts.at[n].dtype))
			return 1;
	return 0;
}

static void control_word(struct stx__emit *e, const char *intrinsic, LLVMValueRef slot)
{
	stx__call(e, intrinsic, NULL, 0, &slot, 1);
}

/* The kernel; or what packs its operand `prepares`, when that is not -1. */
static void build_function(struct stx__emit *e, const char *symbol, int prepares)
{
	LLVMTypeRef args[3] = { e->ptr, e->i64, e->i64 };
	LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(e->c), args, 3, 0);
	LLVMValueRef saved = NULL, standard;
	struct stx__for grid;
	e->fn = LLVMAddFunction(e->m, symbol, type);
	add_attribute(e, "nounwind", 8);
	e->entry = stx__block(e, "entry");
	LLVMBasicBlockRef start = stx__block(e, "start");
	LLVMPositionBuilderAtEnd(e->b, e->entry);
	LLVMBuildBr(e->b, start);
	LLVMPositionBuilderAtEnd(e->b, start);
	if (uses_floats(e->k)) {
		saved = stx__alloca(e, e->i32, 4);
		standard = stx__alloca(e, e->i32, 4);
		control_word(e, "llvm.x86.sse.stmxcsr", saved);
		LLVMBuildStore(e->b, LLVMConstInt(e->i32, MXCSR_DEFAULT, 0), standard);
		control_word(e, "llvm.x86.sse.ldmxcsr", standard);
	}
	load_frame(e);
	if (e->tile)
		stx__tile_begin(e);
	LLVMValueRef begin = LLVMGetParam(e->fn, 1), end = LLVMGetParam(e->fn, 2);
	if (prepares < 0) {
		stx__emit_grid(e, begin, end);
	} else {
		e->axis[0] = stx__for_begin(e, &grid, begin, end, stx__i64(e, 1));
		stx__emit_prepare(e, prepares);
		stx__for_end(e, &grid);
	}
	if (e->has_streams) /* before another thread is told that this one is done */
		stx__call(e, "llvm.x86.sse.sfence", NULL, 0, NULL, 0);
	if (saved)
		control_word(e, "llvm.x86.sse.ldmxcsr", saved);
	LLVMBuildRetVoid(e->b);
}

static int has_attend(const struct stx_kernel *k)
{
	for (uint32_t n = 0; n < k->insts.n; n++)
		if (k->insts.at[n].op == STX_K_ACC && k->insts.at[n].flags == STX_MONOID_ATTEND)
			return 1;
	return 0;
}

/* An attention has no other way than its own. */
static stx_err find_attend(struct stx__emit *e)
{
	struct stx__attend *t = STX_NEW(e->arena, struct stx__attend);
	if (!t)
		return stx__fail(e, STX_E_NOMEM, "the memory budget is exceeded");
	if (!stx__attend_find(e->k, e->t, e->arena, t))
		return stx__fail(e, STX_E_UNSUPPORTED,
				 "attend stands in other loops than rows, "
				 "columns, keys and terms");
	e->attend = t;
	return STX_E_OK;
}

static stx_err find_tile(struct stx__emit *e)
{
	struct stx__tile *t = STX_NEW(e->arena, struct stx__tile);
	if (has_attend(e->k))
		return find_attend(e);
	if (t && stx__tile_find(e->k, e->t, e->arena, t)) {
		e->tile = t;
		stx__tile_find_lines(e->k, e->arena, t);
		t->was = STX_NEW_ARRAY(e->arena, uint8_t, e->k->insts.n);
	}
	return stx_arena_oom(e->arena) ? stx__fail(e, STX_E_NOMEM, "the memory budget is exceeded")
				       : STX_E_OK;
}

static stx_err build(struct stx__emit *e)
{
	struct stx_digest digest;
	char symbol[64], *text = NULL;
	stx_err err = stx_kernel_digest(e->k, &digest, e->d);
	if (err)
		return err;
	e->params = STX_NEW_ARRAY(e->arena, LLVMValueRef, e->k->params.n + 1);
	e->scalars = STX_NEW_ARRAY(e->arena, LLVMValueRef, e->k->scalars.n + 1);
	e->streams = STX_NEW_ARRAY(e->arena, LLVMValueRef, e->k->params.n + 1);
	if (!e->params || !e->scalars || !e->streams)
		return stx__fail(e, STX_E_NOMEM, "the memory budget is exceeded");
	make_types(e);
	err = find_tile(e);
	if (!err)
		err = stx__analyse(e);
	if (err)
		return err;
	stx_kernel_symbol(&digest, symbol);
	build_function(e, symbol, -1);
	for (int j = 0; e->tile && j < 2; j++)
		if (e->tile->prepared[j].is_offered) {
			stx_kernel_prepare_symbol(&digest, e->tile->prepared[j].number, symbol);
			build_function(e, symbol, j);
		}
	if (!e->err && LLVMVerifyModule(e->m, LLVMReturnStatusAction, &text))
		stx__fail(e, STX_E_INTERNAL, "LLVM IR is not valid: %s", text);
	LLVMDisposeMessage(text);
	return e->err;
}

/* ---- from the module on ---- */

static stx_err put_text(struct stx__emit *e, struct stx_bytes *out)
{
	char *text = LLVMPrintModuleToString(e->m);
	int bad = stx_bytes_puts(out, text);
	LLVMDisposeMessage(text);
	return bad ? stx__fail(e, STX_E_NOMEM, "out of memory") : STX_E_OK;
}

static int append(void *ctx, const void *at, size_t n)
{
	return stx_bytes_put(ctx, at, n);
}

static stx_err emit_stages(struct stx__emit *e, struct stx__passes *passes,
			   enum stx_emit_stage stage, struct stx_bytes *out,
			   struct stx_emit_info *info)
{
	uint64_t t0 = stx_clock_us(), t1;
	stx_err err = build(e);
	t1 = stx_clock_us();
	info->us_build = t1 - t0;
	info->vector_elems = e->vector_elems ? e->vector_elems : 1;
	if (err || stage == STX_EMIT_SOURCE)
		return err ? err : put_text(e, out);
	stx__passes_optimise(passes, e->m);
	t0 = stx_clock_us();
	info->us_opt = t0 - t1;
	if (stage == STX_EMIT_OPTIMIZED_IR)
		return put_text(e, out);
	if (stx__passes_emit(passes, e->m, stage == STX_EMIT_ASM, append, out))
		stx__fail(e, out->oom ? STX_E_NOMEM : STX_E_INTERNAL, "LLVM gives no code");
	info->us_emit = stx_clock_us() - t0;
	return e->err;
}

stx_err stx_emit_llvm(struct stx_llvm *l, const struct stx_kernel *k,
		      const struct stx_cpu_target *t, unsigned how, enum stx_emit_stage stage,
		      struct stx_bytes *out, struct stx_emit_info *info, struct stx_diag *d)
{
	struct stx_cpu_target used = *t;
	struct stx__emit e = { .k = k, .t = &used, .fast = how & STX_EMIT_FAST, .d = d };
	e.all_long = !!(how & STX_EMIT_LONG);
	struct messages messages = { 0 };
	struct stx_emit_info unused;
	size_t before = out->n;
	struct machine *machine;
	stx_emit_target(k, &used);
	stx_err err = machine_of(l, &used, &machine, d);
	if (err)
		return err;
	e.arena = stx_arena_new(0);
	if (!e.arena)
		return stx_fail(d, STX_E_NOMEM, "codegen", k->name, "out of memory");
	info = info ? info : &unused;
	*info = (struct stx_emit_info){ 0 };
	e.c = LLVMContextCreate();
	LLVMContextSetDiscardValueNames(e.c, 1);
	LLVMContextSetDiagnosticHandler(e.c, on_diagnostic, &messages);
	e.m = LLVMModuleCreateWithNameInContext("stax", e.c);
	LLVMSetTarget(e.m, TRIPLE);
	LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine->target);
	LLVMSetModuleDataLayout(e.m, layout);
	LLVMDisposeTargetData(layout);
	e.b = LLVMCreateBuilderInContext(e.c);
	err = emit_stages(&e, machine->passes, stage, out, info);
	if (!err && messages.errors)
		err = stx_fail(d, STX_E_COMPILE, "codegen", k->name, "LLVM: %s", messages.text);
	LLVMDisposeBuilder(e.b);
	LLVMDisposeModule(e.m);
	LLVMContextDispose(e.c);
	stx_arena_free(e.arena);
	if (err)
		out->n = before;
	return err;
}
