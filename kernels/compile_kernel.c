/* compile_kernel.c: one kernel's code: its IR read and verified, the configuration chosen, then
 * LLVM, or CUDA C and NVRTC. Also the configurations that a measuring client may ask for. */
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "compile_run.h"
#include "sat.h"

static stx_err emit_cpu(struct stx_compiler *c, const struct stx_kernel *k,
			const struct stx_compile_options *o, enum stx_emit_stage stage,
			struct stx_bytes *out, struct stx_emit_info *info, struct stx_diag *d)
{
	struct stx_cpu_target target;
	stx_err e = stx_cpu_target_parse(o->target, &target, d);
	unsigned how = (o->fast ? STX_EMIT_FAST : 0u) | (o->all_long ? STX_EMIT_LONG : 0u);
	return e ? e : stx_emit_llvm(c->llvm, k, &target, how, stage, out, info, d);
}

/* The configuration asked for, or the heuristic's. */
static stx_err choose_config(const struct stx_kernel *k, const char *text,
			     const struct stx_gpu_device *dev, struct stx_gpu_config *out,
			     struct stx_diag *d)
{
	struct stx_gpu_choices all;
	if (text && *text)
		return stx_gpu_config_parse(text, k, dev, out, d);
	stx_tune_candidates(k, dev, &all);
	*out = all.at[0];
	return STX_E_OK;
}

static stx_err emit_gpu(struct stx_compiler *c, const struct stx_kernel *k,
			const struct stx_compile_options *o, enum stx_emit_stage stage,
			struct stx_bytes *out, struct stx_emit_info *info, struct stx_diag *d)
{
	struct stx_gpu_config config;
	struct stx_gpu_target target;
	struct stx_gpu_usage usage = { 0 };
	struct stx_bytes source = { 0 }, code = { 0 };
	struct stx_digest digest;
	char symbol[64];
	uint64_t start = stx_clock_us();
	stx_err e = stx_gpu_target_parse(o->target, &target, d);
	if (e || (e = stx_kernel_digest(k, &digest, d)) ||
	    (e = choose_config(k, o->config, &target.device, &config, d)))
		return e;
	stx_gpu_symbol(&digest, &config, symbol);
	e = stx_emit_cuda(k, &config, stage == STX_EMIT_SOURCE ? out : &source, d);
	if (e || stage == STX_EMIT_SOURCE)
		goto done;
	info->us_build = stx_clock_us() - start;
	info->threads = config.threads;
	if (!c->nvrtc) {
		e = stx_fail(d, c->no_nvrtc.code, "nvrtc", k->name, "%s", c->no_nvrtc.text);
		goto done;
	}
	start = stx_clock_us();
	e = stx_nvrtc_compile(c->nvrtc, stx_bytes_cstr(&source), k->name, target.device.arch,
			      o->fast, stage == STX_EMIT_OBJECT ? STX_NVRTC_CUBIN : STX_NVRTC_PTX,
			      stage == STX_EMIT_OBJECT ? &code : out, &usage, d);
	if (!e && stage == STX_EMIT_OBJECT)
		e = stx_data_object(STX_CUBIN_SECTION, symbol, (struct stx_span){ code.at, code.n },
				    out, d);
	info->registers = usage.registers;
	info->spills = usage.spills;
	info->shared_bytes = usage.shared_bytes;
	info->us_emit = stx_clock_us() - start;
done:
	stx_bytes_free(&source);
	stx_bytes_free(&code);
	return e;
}

static int64_t tiles(const struct stx_product_shape *p, const struct stx_blocking *b)
{
	int64_t down = (p->rows - 1) / b->rows + 1, across = (p->cols - 1) / b->cols + 1;
	return stx_sat_mul(stx_sat_mul(down, across), p->batch);
}

stx_err stx__product_space(struct stx_span text, const struct stx_compile_options *o, uint32_t most,
			   struct stx_config_desc **out, uint32_t *n, struct stx_diag *d)
{
	struct stx_blocking all[STX_MOST_BLOCKINGS];
	struct stx_product_shape p;
	struct stx_cpu_target target;
	*out = NULL;
	*n = 0;
	stx_err e = stx_product_parse((const char *)text.at, text.n, &p, d);
	if (e || (e = stx_cpu_target_parse(o->target, &target, d)))
		return e;
	uint32_t there = stx_cpu_blockings(&target, &p, all);
	there = there < most ? there : most;
	if (!(*out = calloc(there, sizeof **out)))
		return stx_fail(d, STX_E_NOMEM, "space", NULL, "out of memory");
	for (; *n < there; ++*n) {
		struct stx_config_desc *to = &(*out)[*n];
		stx_blocking_print(&all[*n], to->text);
		to->grid[0] = clamp_u32(tiles(&p, &all[*n]));
		to->grid[1] = to->grid[2] = 1;
		to->block[0] = target.vector_bytes / 4;
		to->block[1] = to->block[2] = 1;
	}
	return STX_E_OK;
}

stx_err stx_compile_space(struct stx_span ir, const struct stx_compile_options *o,
			  struct stx_config_desc **out, uint32_t *n, struct stx_diag *d)
{
	struct run r;
	struct stx_kernel *k;
	struct stx_gpu_target target;
	*out = NULL;
	*n = 0;
	if (!stx_gpu_is_target(o->target))
		return stx__product_space(ir, o, STX_MOST_BLOCKINGS, out, n, d);
	stx_err e = stx_gpu_target_parse(o->target, &target, d);
	if (e || (e = stx__run_open(&r, o, d)))
		return e;
	struct stx_gpu_config *all =
		STX_NEW_ARRAY(r.arena, struct stx_gpu_config, STX_TUNE_MAX_SPACE);
	e = stx_kernel_parse(r.arena, (const char *)ir.at, ir.n, &k, d);
	if (!e)
		e = stx_kernel_verify(k, d);
	if (!e && (!all || !(*out = calloc(STX_TUNE_MAX_SPACE, sizeof **out))))
		e = stx_fail(d, STX_E_NOMEM, "space", NULL, "out of memory");
	if (!e)
		*n = stx_tune_space(k, &target.device, all, STX_TUNE_MAX_SPACE);
	for (uint32_t i = 0; i < *n; i++) {
		struct stx_config_desc *to = &(*out)[i];
		stx_ex grid[3];
		stx_gpu_grid(k, &all[i], grid);
		stx_gpu_config_print(&all[i], to->text);
		for (int j = 0; j < 3; j++)
			to->grid[j] = clamp_u32(stx_ex_hint(k->ex, grid[j]));
		to->block[0] = all[i].threads;
		to->block[1] = to->block[2] = 1;
	}
	stx__run_close(&r);
	return e;
}

stx_err stx__emit_text(struct stx_compiler *c, struct stx_span ir,
		       const struct stx_compile_options *o, enum stx_emit_stage stage,
		       struct stx_bytes *out, struct stx_emit_info *info, struct stx_diag *d)
{
	struct run r;
	struct stx_kernel *k;
	stx_err e = stx__run_open(&r, o, d);
	if (e)
		return e;
	e = stx_kernel_parse(r.arena, (const char *)ir.at, ir.n, &k, d);
	if (!e)
		e = stx_kernel_verify(k, d);
	if (!e && stx_gpu_is_target(o->target))
		e = emit_gpu(c, k, o, stage, out, info, d);
	else if (!e)
		e = emit_cpu(c, k, o, stage, out, info, d);
	stx__run_close(&r);
	return e;
}

stx_err stx_compile_emit(struct stx_compiler *c, struct stx_span ir,
			 const struct stx_compile_options *o, struct stx_emit_result *out,
			 struct stx_diag *d)
{
	struct stx_emit_info info = { 0 };
	memset(out, 0, sizeof *out);
	uint64_t start = stx_clock_us();
	stx_err e = stx__emit_text(c, ir, o, STX_EMIT_OBJECT, &out->object, &info, d);
	uint64_t total = stx_clock_us() - start, known = info.us_build + info.us_opt + info.us_emit;
	out->block[0] = info.threads ? info.threads : info.vector_elems;
	out->block[1] = out->block[2] = 1;
	out->spills = info.spills;
	out->registers = info.registers;
	out->shared_bytes = info.shared_bytes;
	stx__compile_stage(out->stages, &out->nstages, "parse", total > known ? total - known : 0);
	stx__compile_stage(out->stages, &out->nstages, "build", info.us_build);
	stx__compile_stage(out->stages, &out->nstages, "optimize", info.us_opt);
	stx__compile_stage(out->stages, &out->nstages, "emit", info.us_emit);
	return e;
}
