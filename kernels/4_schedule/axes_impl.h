/* axes_impl.h
 * shared by kernel_axes*.c only: the axes of a group, ordered and merged,
 * before they are bound. */
#ifndef STX_AXES_IMPL_H
#define STX_AXES_IMPL_H

#include "build.h"

struct dim {
	uint32_t var; /* body variable that stands for the axis once its neighbours are merged in */
	stx_ex size;
	uint8_t is_red;
	uint64_t key[2];          /* strides at the hints: of the first store, of all accesses */
	stx_ex at[STX__MAX_ROWS]; /* where it went */
};

struct chooser {
	struct stx__build *b;
	struct stx_exprs *x;
	struct dim out[STX__MAX_DIMS], red[STX__MAX_DIMS];
	uint32_t nout, nred;
	struct dim *vector, *row, *tile; /* NULL: none */
	int is_gathered; /* what the row shares are loads of lanes that are apart */
	int64_t tile_rows;
	stx_ex zero;
};

stx_ex stx__at_least_1(struct stx_exprs *x, stx_ex e);
int64_t stx__axis_hint(const struct stx_exprs *x, stx_ex e); /* 1 at least */
/* |coefficient| of var in e at the hints; a large number when e is not linear in it. */
uint64_t stx__stride_of(struct stx_exprs *x, stx_ex e, uint32_t var);
/* out and red: ordered by stride, smallest last (LN-06), merged (Proposition 6.3). */
void stx__axes_collect(struct chooser *c);
/* A new axis of the kernel; its variable. */
stx_ex stx__new_axis(struct chooser *c, stx_ex size, enum stx_binding binding, int is_red,
		     uint32_t *number);
/* Iterations of a reduction axis, of a limited one too; output axes have been placed. */
stx_ex stx__axis_red_size(struct chooser *c, const struct dim *d);
uint8_t stx__axes_index_bits(struct chooser *c);

/* kernel_axes_tile.c. requires: collected, for the CPU. 1: it is a large matrix product, bound in
 * tiles; 0: nothing is changed. */
int stx__axes_bind_tile(struct chooser *c);

/* kernel_axes_attend.c. 1: it is an attention, bound; 0: nothing is changed. */
int stx__axes_bind_attend(struct chooser *c);

/* kernel_axes_gpu.c. requires: collected. ensures: one to three GRID axes (x, y, z: elements, not
 * blocks) and, with reductions, one LOOP axis r over all of the reduction's range. */
void stx__axes_bind_gpu(struct chooser *c);

#endif
