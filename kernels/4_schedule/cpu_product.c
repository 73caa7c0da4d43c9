/* cpu_product.c: products and their blockings as text: what timings are known by, and the choice
 * that somebody has made from them. */
#include <stdio.h>
#include <string.h>

#include "cpu_blocking.h"

void stx_product_print(const struct stx_product_shape *p, char out[STX_PRODUCT_BYTES])
{
	snprintf(out, STX_PRODUCT_BYTES, "%lldx%lldx%lld batch %lld line %lld bytes %u%s%s",
		 (long long)p->rows, (long long)p->cols, (long long)p->terms, (long long)p->batch,
		 (long long)p->line, p->bytes, p->is_thin ? " thin" : "",
		 p->rows_are_shared ? " shared" : "");
}

stx_err stx_product_parse(const char *text, size_t n, struct stx_product_shape *out,
			  struct stx_diag *d)
{
	char copy[STX_PRODUCT_BYTES], again[STX_PRODUCT_BYTES];
	long long v[5];
	struct stx_product_shape p = { .bytes = 0 };
	if (n && n < sizeof copy) {
		memcpy(copy, text, n);
		copy[n] = 0;
		char *end = strstr(copy, " : ");
		if (end)
			*end = 0;
		if (sscanf(copy, "%18lldx%18lldx%18lld batch %18lld line %18lld bytes %1u", &v[0],
			   &v[1], &v[2], &v[3], &v[4], &p.bytes) == 6) {
			p.rows = v[0];
			p.cols = v[1];
			p.terms = v[2];
			p.batch = v[3];
			p.line = v[4];
			p.is_thin = strstr(copy, " thin") != NULL;
			p.rows_are_shared = strstr(copy, " shared") != NULL;
			stx_product_print(&p, again);
			if (!strcmp(again, copy) && p.rows >= 1 && p.cols >= 1 && p.terms >= 1 &&
			    p.batch >= 1 && p.line >= 1 && (p.bytes == 4 || p.bytes == 8)) {
				*out = p;
				return STX_E_OK;
			}
		}
	}
	return stx_fail(d, STX_E_INVALID, "product", NULL,
			"'%.*s' is no product: expected ROWSxCOLSxTERMS batch N line N bytes 4|8",
			(int)(n < 160 ? n : 160), text);
}

void stx_blocking_print(const struct stx_blocking *b, char out[STX_CONFIG_BYTES])
{
	snprintf(out, STX_CONFIG_BYTES, "%lldx%lldx%u", (long long)b->rows, (long long)b->cols,
		 b->words);
}

void stx_cut_choose(struct stx_cut_product *p, const struct stx_blocking *all, unsigned n,
		    const struct stx_choices *given)
{
	char text[STX_CONFIG_BYTES];
	p->b = all[0];
	p->is_given = 0;
	if (!given || !given->n)
		return;
	struct stx_digest of = stx_digest_of(p->text, strlen(p->text));
	const char *config = stx_choice_find(given, &of);
	for (unsigned i = 0; config && i < n; i++) {
		stx_blocking_print(&all[i], text);
		if (strcmp(text, config) != 0)
			continue;
		p->b = all[i];
		p->is_given = 1;
		return;
	}
}
