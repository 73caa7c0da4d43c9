/* steps.c: the list of steps of a schedule, and what each does with buffers. */
#include "schedule_impl.h"

uint32_t stx_step_kernel(const struct stx_schedule *s, uint32_t step)
{
	const struct stx_sched_step *t = &s->steps.at[step];
	switch (t->kind) {
	case STX_SCHED_KERNEL: return t->index;
	case STX_SCHED_EXTERNAL: return s->externals.at[t->index].kernel;
	default: return STX_NONE;
	}
}

uint32_t stx_step_covers(const struct stx_schedule *s, uint32_t step)
{
	const struct stx_sched_step *t = &s->steps.at[step];
	return t->kind == STX_SCHED_EXTERNAL ? s->externals.at[t->index].covers : 0;
}

uint32_t stx_step_nuses(const struct stx_schedule *s, uint32_t step)
{
	const struct stx_sched_step *t = &s->steps.at[step];
	switch (t->kind) {
	case STX_SCHED_KERNEL: return s->kernels.at[t->index]->params.n;
	case STX_SCHED_EXTERNAL: return s->externals.at[t->index].nuses;
	default: return 1;
	}
}

struct stx_use stx_step_use(const struct stx_schedule *s, uint32_t step, uint32_t i)
{
	const struct stx_sched_step *t = &s->steps.at[step];
	switch (t->kind) {
	case STX_SCHED_KERNEL: {
		const struct stx_kparam *p = &s->kernels.at[t->index]->params.at[i];
		return (struct stx_use){ p->buffer, p->is_read, p->is_written };
	}
	case STX_SCHED_EXTERNAL: return s->externals.at[t->index].uses[i];
	default: return (struct stx_use){ s->loops->outputs.at[t->index], 1, 0 };
	}
}

int stx_output_is_copied(const struct stx_schedule *s, uint32_t i)
{
	const struct stx_buffer *b = s->loops->buffers.at[s->loops->outputs.at[i]];
	return b->kind != STX_BUF_OUTPUT || (b->index != i && !stx_output_is_input(s, i));
}

static stx_err add(struct stx_schedule *s, enum stx_sched_kind kind, uint32_t index)
{
	struct stx_sched_step step = { kind, index };
	return stx_push(s->loops->g->arena, &s->steps, step) ? STX_E_NOMEM : STX_E_OK;
}

static stx_err add_group(struct stx_schedule *s, const uint32_t *external_of, uint32_t i)
{
	return external_of[i] != STX_NONE ? add(s, STX_SCHED_EXTERNAL, external_of[i])
					  : add(s, STX_SCHED_KERNEL, i);
}

stx_err stx__add_steps(struct stx_schedule *s, const uint32_t *external_of,
		       const uint32_t *covered_by)
{
	struct stx_arena *a = s->loops->g->arena;
	uint32_t *next = STX_NEW_ARRAY(a, uint32_t, s->groups.n + 1); /* of the same call, + 1 */
	uint32_t *first = STX_NEW_ARRAY(a, uint32_t, s->externals.n + 1); /* of the call, + 1 */
	stx_err err = next && first ? STX_E_OK : STX_E_NOMEM;
	for (uint32_t i = s->groups.n; i-- > 0 && !err;) {
		if (covered_by[i] == STX_NONE)
			continue;
		next[i] = first[covered_by[i]];
		first[covered_by[i]] = i + 1;
	}
	for (uint32_t i = 0; i < s->groups.n && !err; i++) {
		uint32_t call = covered_by[i];
		if (call == STX_NONE)
			err = add_group(s, external_of, i);
		if (call == STX_NONE || next[i])
			continue;
		err = add(s, STX_SCHED_EXTERNAL, call);
		for (uint32_t j = first[call]; j && !err; j = next[j - 1]) {
			err = add_group(s, external_of, j - 1);
			s->externals.at[call].covers++;
		}
	}
	for (uint32_t i = 0; i < s->loops->outputs.n && !err; i++)
		if (stx_output_is_copied(s, i))
			err = add(s, STX_SCHED_COPY, i);
	return err;
}
