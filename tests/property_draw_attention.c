/* property_draw_attention.c: attention of random lengths, heads, masks and scales. */
#include "property_draw.h"

struct shape {
	int64_t batch, heads, groups, rows, keys, size, cols;
};

static struct shape draw_shape(struct draw *q)
{
	static const int64_t lengths[] = { 1, 7, 8, 12, 31, 33, 64, 65, 100, 130 };
	struct shape s;
	do {
		s = (struct shape){ .batch = 1 + rnd(q, 2),
				    .heads = 1 + rnd(q, 2),
				    .groups = 1 + rnd(q, 2),
				    .rows = rnd(q, 3) ? PICK(q, lengths) : draw_size(q),
				    .keys = rnd(q, 3) ? PICK(q, lengths) : draw_size(q),
				    .size = rnd(q, 3) ? 1 + rnd(q, 20) : draw_size(q),
				    .cols = rnd(q, 3) ? 1 + rnd(q, 20) : draw_size(q) };
	} while (s.batch * s.heads * s.groups * s.rows * s.keys > 2 * q->most_elems ||
		 s.batch * s.heads * s.groups * (s.rows + s.keys) * (s.size + s.cols) >
			 q->most_elems);
	return s;
}

static struct stx_arg mask(struct draw *q, const struct shape *s, enum stx_dtype t)
{
	const int64_t all[4] = { rnd(q, 2) ? s->batch : 1, rnd(q, 2) ? s->heads * s->groups : 1,
				 rnd(q, 3) ? s->rows : 1, rnd(q, 4) ? s->keys : 1 };
	int rank = 2 + (int)rnd(q, 3);
	struct stx_node *m;
	if (rnd(q, 2)) {
		m = draw_sized(q, rnd(q, 3) ? t : STX_F32, all + 4 - rank, rank);
		return m ? T(m) : stx_arg_none();
	}
	m = draw_sized(q, STX_F32, all + 4 - rank, rank);
	m = m ? call(q, STX_OP_GT_SCALAR, ARGS(T(m), stx_arg_scalar_f(rnd(q, 3) - 1.0))) : NULL;
	return m ? T(m) : stx_arg_none();
}

struct stx_node *draw_attention(struct draw *q)
{
	enum stx_dtype t = draw_wanted_dtype(q, rnd(q, 2) ? STX_F32 : draw_float_dtype(q));
	struct shape s = draw_shape(q);
	int gqa = (int)rnd(q, 2), rank = 4 - (int)rnd(q, gqa ? 2 : 3);
	int64_t of = gqa ? s.heads : s.heads * s.groups;
	const int64_t sq[4] = { s.batch, s.heads * s.groups, s.rows, s.size },
		      sk[4] = { rnd(q, 3) ? s.batch : 1, of, s.keys, s.size },
		      sv[4] = { rnd(q, 3) ? s.batch : 1, of, s.keys, s.cols };
	struct stx_node *x = draw_sized(q, t, sq + 4 - rank, rank),
			*y = draw_sized(q, t, sk + 4 - rank, rank),
			*z = draw_sized(q, t, sv + 4 - rank, rank);
	uint32_t kind = rnd(q, 4);
	if (!x || !y || !z)
		return NULL;
	struct stx_arg m = kind > 1 && rank == 4 ? mask(q, &s, t) : stx_arg_none();
	return call(q, STX_OP_SDPA,
		    ARGS(T(x), T(y), T(z), m, stx_arg_float(0), stx_arg_bool(kind == 1),
			 rnd(q, 2) ? stx_arg_none() : stx_arg_float(rnd(q, 9) * 0.2 - 0.4),
			 stx_arg_bool(gqa)));
}
