/* names.c: the names of a graph's nodes: a hash table, and the rule that makes them unique (OG-07).
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph_internal.h"
#include "hash.h"

struct entry {
	const char *s;
	uint32_t n, hash;
	struct stx_node *node; /* NULL: only a base that suffixes are counted for */
	uint32_t next_suffix;
};

struct stx_names {
	struct entry *at; /* open addressing; s == NULL is free */
	uint32_t cap, n;  /* cap is a power of two or 0 */
};

/* Sorted, for bsearch. */
static const char *const reserved[] = {
	"False",     "None",       "True",         "abs",        "aiter",      "all",
	"and",       "anext",      "any",          "as",         "ascii",      "assert",
	"async",     "await",      "bin",          "bool",       "break",      "breakpoint",
	"bytearray", "bytes",      "callable",     "chr",        "class",      "classmethod",
	"compile",   "complex",    "continue",     "copyright",  "credits",    "def",
	"del",       "delattr",    "dict",         "dir",        "divmod",     "elif",
	"else",      "enumerate",  "eval",         "except",     "exec",       "exit",
	"filter",    "finally",    "float",        "for",        "format",     "from",
	"frozenset", "getattr",    "global",       "globals",    "hasattr",    "hash",
	"help",      "hex",        "id",           "if",         "import",     "in",
	"input",     "int",        "is",           "isinstance", "issubclass", "iter",
	"lambda",    "len",        "license",      "list",       "locals",     "map",
	"max",       "memoryview", "min",          "next",       "nonlocal",   "not",
	"object",    "oct",        "open",         "or",         "ord",        "pass",
	"pow",       "print",      "property",     "quit",       "raise",      "range",
	"repr",      "return",     "reversed",     "round",      "set",        "setattr",
	"slice",     "sorted",     "staticmethod", "str",        "sum",        "super",
	"try",       "tuple",      "type",         "vars",       "while",      "with",
	"yield",     "zip",
};

struct key {
	const char *s;
	size_t n;
};

static int compare(const void *k, const void *e)
{
	const struct key *key = k;
	const char *s = *(const char *const *)e;
	int c = strncmp(key->s, s, key->n);
	return c ? c : -(s[key->n] != 0);
}

int stx__name_is_reserved(const char *s, size_t n)
{
	struct key k = { s, n };
	return bsearch(&k, reserved, sizeof reserved / sizeof reserved[0], sizeof reserved[0],
		       compare) != NULL;
}

static int starts_name(char c)
{
	return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

int stx__name_is_valid(const char *s, size_t n)
{
	if (n == 0 || n > STX__MAX_NAME || !starts_name(s[0]))
		return 0;
	for (size_t i = 1; i < n; i++)
		if (!starts_name(s[i]) && !(s[i] >= '0' && s[i] <= '9'))
			return 0;
	return 1;
}

int stx_symbol_name_is_valid(const char *s, size_t n)
{
	static const char *const taken[] = { "None", "min", "max", "tdiv", "inf" };
	for (unsigned i = 0; i < sizeof taken / sizeof *taken; i++)
		if (strlen(taken[i]) == n && !memcmp(s, taken[i], n))
			return 0;
	return stx__name_is_valid(s, n);
}

static uint32_t hash(const struct stx_names *t, const char *s, size_t n)
{
	return (uint32_t)stx_mix_text((uintptr_t)t, s, n);
}

static struct entry *probe(const struct stx_names *t, const char *s, size_t n, uint32_t h)
{
	uint32_t k = h & (t->cap - 1);
	while (t->at[k].s && !(t->at[k].hash == h && t->at[k].n == n && !memcmp(t->at[k].s, s, n)))
		k = (k + 1) & (t->cap - 1);
	return &t->at[k];
}

static int grow(struct stx_graph *g, struct stx_names *t)
{
	struct stx_names old = *t;
	uint32_t cap = old.cap ? old.cap * 2 : 64;
	struct entry *at = STX_NEW_ARRAY(g->arena, struct entry, cap);
	if (!at)
		return -1;
	t->at = at;
	t->cap = cap;
	for (uint32_t i = 0; i < old.cap; i++)
		if (old.at[i].s)
			*probe(t, old.at[i].s, old.at[i].n, old.at[i].hash) = old.at[i];
	return 0;
}

/* The entry for s, made when missing. NULL over budget. */
static struct entry *enter(struct stx_graph *g, const char *s, size_t n)
{
	if (!g->name_table && !(g->name_table = STX_NEW(g->arena, struct stx_names)))
		return NULL;
	struct stx_names *t = g->name_table;
	if ((t->n + 1) * 4 > t->cap * 3 && grow(g, t))
		return NULL;
	uint32_t h = hash(t, s, n);
	struct entry *e = probe(t, s, n, h);
	if (!e->s) {
		const char *copy = stx_arena_strndup(g->arena, s, n);
		if (!copy)
			return NULL;
		*e = (struct entry){ .s = copy, .n = (uint32_t)n, .hash = h };
		t->n++;
	}
	return e;
}

struct stx_node *stx__name_find(const struct stx_graph *g, const char *s, size_t n)
{
	const struct stx_names *t = g->name_table;
	if (!t || !t->cap)
		return NULL;
	const struct entry *e = probe(t, s, n, hash(t, s, n));
	return e->s ? e->node : NULL;
}

const char *stx__name_claim(struct stx_graph *g, const char *s, size_t n, struct stx_node *node)
{
	struct entry *e = enter(g, s, n);
	if (!e || e->node)
		return NULL;
	e->node = node;
	return e->s;
}

/* base alone when it is neither reserved nor taken, else base_0, base_1, ...: the count is kept in
 * the base's entry, so that making n names takes time linear in n. */
const char *stx__name_unique(struct stx_graph *g, const char *candidate, struct stx_node *node)
{
	char base[STX__MAX_NAME + 1], name[STX__MAX_NAME + 16];
	size_t n = 0;
	if (!starts_name(candidate[0]))
		base[n++] = '_';
	for (const char *c = candidate; *c && n < STX__MAX_NAME - 12; c++)
		base[n++] = starts_name(*c) || isdigit((unsigned char)*c) ? *c : '_';
	base[n] = 0;
	struct entry *e = enter(g, base, n);
	if (!e)
		return NULL;
	if (!e->node && !stx__name_is_reserved(base, n)) {
		e->node = node;
		return e->s;
	}
	for (;;) {
		int len = snprintf(name, sizeof name, "%s_%u", base, e->next_suffix++);
		if (stx__name_find(g, name, (size_t)len))
			continue;
		return stx__name_claim(g, name, (size_t)len, node);
	}
}
