/* kernel.c: names, small queries and the digest of kernel IR. */
#include "kernel_impl.h"

#include <stdio.h>

static const char *const binding_names[] = { "grid", "loop", "vector" };
static const char *const order_names[] = {
	"lanes", "serial", "plain", "blocks", "running", "tree"
};
static const char *const kind_names[] = { "poi", "red", "per", "tem" };

static int find_name(const char *const *names, int count, const char *text, size_t n)
{
	for (int i = 0; i < count; i++)
		if (strlen(names[i]) == n && !memcmp(names[i], text, n))
			return i;
	return -1;
}

const char *stx_binding_name(enum stx_binding b)
{
	return binding_names[b];
}

const char *stx__order_name(enum stx_order o)
{
	return order_names[o];
}

const char *stx_kernel_kind_name(enum stx_kernel_kind kind)
{
	return (unsigned)kind < 4 ? kind_names[kind] : "?";
}

int stx__binding_parse(const char *text, size_t n)
{
	return find_name(binding_names, 3, text, n);
}

int stx__order_parse(const char *text, size_t n)
{
	return find_name(order_names, 6, text, n);
}

int stx__kind_parse(const char *text, size_t n)
{
	return find_name(kind_names, 4, text, n);
}

uint64_t stx_kinst_hash(const struct stx_kinst *i)
{
	uint64_t h = (uint64_t)i->op | (uint64_t)i->dtype << 8 | (uint64_t)i->flags << 16 |
		     (uint64_t)i->axis << 24 | (uint64_t)i->a << 32;
	h = stx_mix64(h, (uint64_t)i->b | (uint64_t)i->c << 32);
	return stx_mix64(h, i->ex ^ i->k.u * 0x9e3779b97f4a7c15u);
}

int stx_kinst_equal(const struct stx_kinst *p, const struct stx_kinst *q)
{
	return p->op == q->op && p->dtype == q->dtype && p->flags == q->flags &&
	       p->axis == q->axis && p->a == q->a && p->b == q->b && p->c == q->c &&
	       p->ex == q->ex && p->k.u == q->k.u;
}

int stx__kinst_defines(const struct stx_kinst *i)
{
	switch (i->op) {
	case STX_K_STORE:
	case STX_K_LOOP:
	case STX_K_END:
	case STX_K_UPDATE:
	case STX_K_SORT: return 0;
	default: return 1;
	}
}

int stx__dtype_is_narrow_float(enum stx_dtype t)
{
	return stx_dtype_is_float(t) && stx_dtype_bytes(t) < 4;
}

int stx__kernel_scalar(const struct stx_kernel *k, uint32_t number)
{
	uint32_t lo = 0, hi = k->scalars.n;
	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		if (k->scalars.at[mid] < number)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < k->scalars.n && k->scalars.at[lo] == number ? (int)lo : -1;
}

struct walk {
	const struct stx_exprs *x;
	stx__ex_seen_fn *seen;
	void *ctx;
	uint32_t budget;
};

/* Recursion is bounded by the nesting limit of expressions (expr.c). */
static stx_err walk(struct walk *w, stx_ex e)
{
	uint32_t terms = stx_ex_nterms(w->x, e);
	for (uint32_t i = 0; i < terms; i++) {
		struct stx_ex_term t = stx_ex_term_at(w->x, e, i);
		for (uint32_t j = 0; j < t.natoms; j++) {
			struct stx_ex_atom a = stx_ex_atom_at(w->x, t.atoms[j]);
			if (!w->budget--)
				return STX_E_TOO_LARGE;
			stx_err err = w->seen(w->ctx, &a);
			if (!err && a.kind >= STX_ATOM_FLOORDIV) {
				err = walk(w, a.a);
				if (!err)
					err = walk(w, a.b);
			}
			if (err)
				return err;
		}
	}
	return STX_E_OK;
}

stx_err stx__ex_walk(const struct stx_exprs *x, stx_ex e, stx__ex_seen_fn *seen, void *ctx)
{
	struct walk w = { .x = x, .seen = seen, .ctx = ctx, .budget = 1000000 };
	return e == STX_EX_BAD ? STX_E_OK : walk(&w, e);
}

stx_err stx_kernel_digest(const struct stx_kernel *k, struct stx_digest *out, struct stx_diag *d)
{
	struct stx_bytes text = { 0 };
	stx_err err = stx__kernel_text(k, 1, &text);
	if (!err)
		*out = stx_digest_of(text.at, text.n);
	else
		stx_fail(d, err, "kernel", k->name, "out of memory while taking the digest");
	stx_bytes_free(&text);
	return err;
}

void stx_kernel_symbol(const struct stx_digest *digest, char out[64])
{
	char hex[STX_DIGEST_HEX];
	stx_digest_hex(digest, hex);
	snprintf(out, 64, "stx_k_%.32s", hex);
}

void stx_kernel_prepare_symbol(const struct stx_digest *digest, uint32_t number, char out[64])
{
	char hex[STX_DIGEST_HEX];
	stx_digest_hex(digest, hex);
	snprintf(out, 64, "stx_p%u_%.32s", number, hex);
}
