/* text_print.c: the text form of graphs, written (passes.h; OG-07, OG-11). Same graph, same bytes.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "graph_internal.h"
#include "passes.h"

static void symbol_name(void *ctx, enum stx_atom_kind kind, uint32_t number, char *out, size_t cap)
{
	const struct stx_graph *g = ctx;
	if (kind == STX_ATOM_SYM && number < g->symbols.n)
		snprintf(out, cap, "%s", g->symbols.at[number].name);
	else
		snprintf(out, cap, "%c%" PRIu32, kind == STX_ATOM_VAR ? 'v' : 't', number);
}

void stx__print_ex(const struct stx_graph *g, stx_ex e, struct stx_bytes *out)
{
	int64_t v;
	if (stx_ex_is_const(g->ex, e, &v))
		stx_bytes_printf(out, "%" PRId64, v);
	else
		stx_ex_print(g->ex, e, symbol_name, (void *)g, out);
}

/* Shortest decimal that reads back to the same bits; always recognisable as a float. NaNs other
 * than the default quiet one carry their bits. */
void stx__print_float(double v, struct stx_bytes *out)
{
	char s[40];
	uint64_t bits;
	memcpy(&bits, &v, 8);
	if (isnan(v)) {
		if (bits == 0x7ff8000000000000u)
			stx_bytes_puts(out, "nan");
		else
			stx_bytes_printf(out, "nan(0x%016" PRIx64 ")", bits);
		return;
	}
	if (isinf(v)) {
		stx_bytes_puts(out, v < 0 ? "-inf" : "inf");
		return;
	}
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(s, sizeof s, "%.*g", digits, v);
		if (strtod(s, NULL) == v)
			break;
	}
	stx_bytes_puts(out, s);
	if (!strpbrk(s, ".e"))
		stx_bytes_puts(out, ".0");
}

static void print_string(const char *s, struct stx_bytes *out)
{
	stx_bytes_u8(out, '\'');
	for (; *s; s++) {
		if (*s == '\'' || *s == '\\')
			stx_bytes_printf(out, "\\%c", *s);
		else if ((unsigned char)*s < 32 || *s == 127)
			stx_bytes_printf(out, "\\x%02x", (unsigned char)*s);
		else
			stx_bytes_u8(out, (uint8_t)*s);
	}
	stx_bytes_u8(out, '\'');
}

static void print_ref(struct stx_val v, struct stx_bytes *out)
{
	stx_bytes_printf(out, "%%%s", v.node->name);
	if (v.out)
		stx_bytes_printf(out, ":%" PRIu32, v.out);
}

void stx__print_type(const struct stx_graph *g, const struct stx_type *t, struct stx_bytes *out)
{
	stx_bytes_printf(out, "%s[", stx_dtype_name(t->dtype));
	for (uint32_t i = 0; i < t->rank; i++) {
		if (i)
			stx_bytes_u8(out, ',');
		stx__print_ex(g, t->sizes[i], out);
	}
	stx_bytes_u8(out, ']');
}

static void print_ints(const struct stx_graph *g, const stx_ex *e, uint32_t n,
		       struct stx_bytes *out)
{
	stx_bytes_u8(out, '[');
	for (uint32_t i = 0; i < n; i++) {
		if (i)
			stx_bytes_puts(out, ", ");
		stx__print_ex(g, e[i], out);
	}
	stx_bytes_u8(out, ']');
}

static void print_tensors(const struct stx_arg *a, struct stx_bytes *out)
{
	stx_bytes_u8(out, '[');
	for (uint32_t i = 0; i < a->n; i++) {
		if (i)
			stx_bytes_puts(out, ", ");
		if (a->u.tensors[i].node)
			print_ref(a->u.tensors[i], out);
		else
			stx_bytes_puts(out, "None");
	}
	stx_bytes_u8(out, ']');
}

static void print_numbers(const struct stx_arg *a, struct stx_bytes *out)
{
	stx_bytes_u8(out, '[');
	for (uint32_t i = 0; i < a->n; i++) {
		if (i)
			stx_bytes_puts(out, ", ");
		if (a->kind == STX_ARG_FLOATS)
			stx__print_float(a->u.fs[i], out);
		else
			stx_bytes_puts(out, a->u.i >> i & 1 ? "True" : "False");
	}
	stx_bytes_u8(out, ']');
}

void stx__print_arg(const struct stx_graph *g, const struct stx_arg *a, struct stx_bytes *out)
{
	switch (a->kind) {
	case STX_ARG_NONE:
	case STX_ARG_DEFAULT: stx_bytes_puts(out, "None"); break;
	case STX_ARG_TENSOR: print_ref(a->u.tensor, out); break;
	case STX_ARG_TENSORS: print_tensors(a, out); break;
	case STX_ARG_INT: stx__print_ex(g, a->u.ex, out); break;
	case STX_ARG_INTS: print_ints(g, a->u.exs, a->n, out); break;
	case STX_ARG_FLOAT: stx__print_float(a->u.f, out); break;
	case STX_ARG_FLOATS:
	case STX_ARG_BOOLS: print_numbers(a, out); break;
	case STX_ARG_BOOL: stx_bytes_puts(out, a->u.i ? "True" : "False"); break;
	case STX_ARG_SCALAR:
		if (a->is_float)
			stx__print_float(a->u.f, out);
		else if (a->is_bool)
			stx_bytes_puts(out, a->u.i ? "True" : "False");
		else
			stx_bytes_printf(out, "%" PRId64, a->u.i);
		break;
	case STX_ARG_STRING: print_string(a->u.str, out); break;
	case STX_ARG_DTYPE: stx_bytes_puts(out, stx_dtype_name(a->u.dtype)); break;
	}
}

static void print_call_args(const struct stx_graph *g, const struct stx_node *n,
			    struct stx_bytes *out)
{
	const struct stx_op_info *info = stx_op_info(n->op);
	for (uint32_t i = 0; i < n->nargs; i++) {
		if (i)
			stx_bytes_puts(out, ", ");
		if (info->params[i].is_kwarg)
			stx_bytes_printf(out, "%s=", info->params[i].name);
		stx__print_arg(g, &n->args[i], out);
	}
}

static void print_placeholder_args(const struct stx_graph *g, const struct stx_node *n,
				   const stx_ex *strides, struct stx_bytes *out)
{
	if (strides) {
		stx_bytes_puts(out, "strides=");
		print_ints(g, strides, n->outs[0].rank, out);
	}
	if (n->is_param)
		stx_bytes_puts(out, strides ? ", param=True" : "param=True");
	if (n->is_donated)
		stx_bytes_puts(out, strides || n->is_param ? ", donated=True" : "donated=True");
}

static void print_data(const struct stx_const_data *c, struct stx_bytes *out)
{
	static const char digits[] = "0123456789abcdef";
	stx_bytes_puts(out, "hex='");
	if (!stx_bytes_reserve(out, 2 * c->n))
		for (size_t i = 0; i < c->n; i++) {
			out->at[out->n++] = (uint8_t)digits[c->bytes[i] >> 4];
			out->at[out->n++] = (uint8_t)digits[c->bytes[i] & 15];
		}
	stx_bytes_u8(out, '\'');
}

/* Where a node came from, as a comment: not part of the graph. */
static void print_origin(const char *s, struct stx_bytes *out)
{
	stx_bytes_puts(out, "  # ");
	for (; *s; s++)
		stx_bytes_u8(out, (unsigned char)*s < 32 || *s == 127 ? ' ' : (uint8_t)*s);
}

static void print_node(const struct stx_graph *g, const struct stx_node *n, uint32_t users,
		       const stx_ex *strides, struct stx_bytes *out)
{
	stx_bytes_printf(out, "%%%s : ", n->name);
	if (n->nouts != 1)
		stx_bytes_u8(out, '(');
	for (uint32_t i = 0; i < n->nouts; i++) {
		if (i)
			stx_bytes_puts(out, ", ");
		stx__print_type(g, &n->outs[i], out);
	}
	if (n->nouts != 1)
		stx_bytes_u8(out, ')');
	stx_bytes_printf(out, " [num_users=%" PRIu32 "]", users);
	if (n->serial)
		stx_bytes_printf(out, " [serial=%" PRIu64 "]", n->serial);
	char in_place[STX_OVERLOAD_BYTES];
	stx_bytes_printf(out, " = %s(",
			 n->is_in_place ? stx_op_in_place(n->op, in_place)
					: stx_op_info(n->op)->overload);
	if (n->op == STX_OP_PLACEHOLDER)
		print_placeholder_args(g, n, strides, out);
	else if (n->op == STX_OP_CONSTANT)
		print_data(&n->data, out);
	else
		print_call_args(g, n, out);
	stx_bytes_u8(out, ')');
	if (n->origin)
		print_origin(n->origin, out);
	stx_bytes_u8(out, '\n');
}

static void print_bound(int64_t v, struct stx_bytes *out)
{
	if (v == STX_POS_INF)
		stx_bytes_puts(out, "inf");
	else
		stx_bytes_printf(out, "%" PRId64, v);
}

#define MAX_TEXT_BYTES ((size_t)256 << 20)

stx_err stx_graph_print(const struct stx_graph *g, struct stx_bytes *out)
{
	size_t start = out->n;
	uint32_t input = 0;
	const uint32_t *users = stx_graph_users(g, g->arena);
	if (!users)
		return STX_E_NOMEM;
	for (uint32_t i = 0; i < g->symbols.n; i++) {
		const struct stx_symbol *s = &g->symbols.at[i];
		stx_bytes_printf(out, "sym %s = [", s->name);
		print_bound(s->range.lo, out);
		stx_bytes_u8(out, ',');
		print_bound(s->range.hi, out);
		stx_bytes_printf(out, "] hint %" PRId64 "\n", s->hint);
	}
	for (uint32_t i = 0; i < g->nodes.n; i++) {
		const struct stx_node *n = g->nodes.at[i];
		const stx_ex *strides = NULL;
		if (n->op == STX_OP_PLACEHOLDER && input < g->inputs.n)
			strides = g->inputs.at[input++].strides; /* same order in both lists */
		print_node(g, n, users[i], strides, out);
		if (out->n - start > MAX_TEXT_BYTES) /* long symbolic sizes, repeated */
			return STX_E_TOO_LARGE;
	}
	stx_bytes_puts(out, "return (");
	for (uint32_t i = 0; i < g->outputs.n; i++) {
		const struct stx_output *o = &g->outputs.at[i];
		stx_bytes_puts(out, i ? ", " : "");
		print_ref(o->val, out);
		if (o->name) {
			stx_bytes_puts(out, " as ");
			print_string(o->name, out);
		} else if (o->writes) {
			stx_bytes_printf(out, " to %%%s", g->inputs.at[o->writes - 1].node->name);
		}
		if (o->within)
			stx_bytes_printf(out, " in %%%s", g->inputs.at[o->within - 1].node->name);
	}
	stx_bytes_puts(out, g->outputs.n == 1 ? ",)\n" : ")\n");
	return out->oom ? STX_E_NOMEM : 0;
}
