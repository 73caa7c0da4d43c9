/* cudnn.h
 * cuDNN 9, loaded on first use: declarations follow its documented C interface, the backend API;
 * descriptors are opaque, results are CUDNN_STATUS_*. Inside libstax. */
#ifndef STX_CLIENT_CUDNN_H
#define STX_CLIENT_CUDNN_H

#include "client.h"

#define STX_CUDNN(name, value) STX_##name = value,
enum stx__cudnn_number {
#include "cudnn.def"
};
#undef STX_CUDNN

struct stx__cudnn {
	size_t (*version)(void); /* 91900: 9.19.0 */
	const char *(*error_string)(int status);
	void (*last_error)(char *text, size_t cap); /* of this thread, and forgets it */
	int (*create)(void **handle);
	int (*destroy)(void *handle);
	int (*set_stream)(void *handle, void *stream);
	int (*desc_create)(int type, void **desc);
	int (*desc_destroy)(void *desc);
	int (*desc_finalize)(void *desc);
	int (*desc_set)(void *desc, int attribute, int type, int64_t n, const void *values);
	int (*desc_get)(void *desc, int attribute, int type, int64_t most, int64_t *n,
			void *values);
	int (*execute)(void *handle, void *plan, void *variant_pack);
};
/* NULL and d (UNSUPPORTED) where there is no such library. */
const struct stx__cudnn *stx__cudnn(struct stx_diag *d);

/* ---- graphs of operations (cudnn_graph.c) ---- */

struct stx__cudnn_tensor {
	int64_t size[5], stride[5]; /* n, channels, spatial ones */
};
enum { STX__CUDNN_X = 1, STX__CUDNN_W, STX__CUDNN_Y, STX__CUDNN_BIAS }; /* names in a graph */
struct stx__cudnn_conv {
	int is_gradient;      /* of the input; x is the result's gradient and y the input's */
	int type, accumulate; /* CUDNN_DATA_* */
	uint32_t k;           /* spatial dimensions, 1 to 3 */
	int64_t stride[3], dilation[3], before[3], after[3];
	struct stx__cudnn_tensor x, w, y;
	int has_bias;
	int64_t alignment; /* of every operand, bytes */
};
#define STX__CUDNN_PARTS 64
struct stx__cudnn_graph {
	void *part[STX__CUDNN_PARTS]; /* descriptors; the last one made is the graph */
	int n, is_gradient;           /* is_gradient: of a convolution's input */
};
/* Each a status: what is set; a part of the graph, not finalised; the graph of n operations. */
int stx__cudnn_set_i64(const struct stx__cudnn *q, void *desc, int attribute, uint32_t n,
		       const int64_t *v);
int stx__cudnn_set_int(const struct stx__cudnn *q, void *desc, int attribute, int type, int v);
int stx__cudnn_set_desc(const struct stx__cudnn *q, void *desc, int attribute, void *v);
int stx__cudnn_part(const struct stx__cudnn *q, struct stx__cudnn_graph *g, int type, void **out);
int stx__cudnn_join(const struct stx__cudnn *q, void *handle, struct stx__cudnn_graph *g,
		    void *const *operations, int64_t n);
/* A status; out is freed by stx__cudnn_graph_free on success and on failure. handle NULL: for
 * another device than this machine's (tests). */
int stx__cudnn_conv_graph(const struct stx__cudnn *q, void *handle, const struct stx__cudnn_conv *c,
			  struct stx__cudnn_graph *out);

/* softmax(scale * Q K' + bias where a key is seen) V, each [b, heads, rows, size]; heads of K and V
 * divide those of Q (cudnn_attention.c). */
struct stx__cudnn_attention {
	int type;      /* CUDNN_DATA_* of all four, and of the weights before the second product */
	int is_causal; /* a query sees the keys up to its own number */
	int is_biased, bias_type; /* finite; its first three dimensions are q's, or 1 */
	struct stx__cudnn_tensor q, k, v, y, bias;
	int64_t alignment; /* of every operand, bytes */
};
enum {
	STX__CUDNN_Q = 1,
	STX__CUDNN_K,
	STX__CUDNN_V,
	STX__CUDNN_O,
	STX__CUDNN_SCALE,
	STX__CUDNN_MASK,
	STX__CUDNN_NEVER
};
int stx__cudnn_attention_graph(const struct stx__cudnn *q, void *handle,
			       const struct stx__cudnn_attention *a, struct stx__cudnn_graph *out);
void stx__cudnn_graph_free(const struct stx__cudnn *q, struct stx__cudnn_graph *g);

struct stx__cudnn_engine { /* an engine and its knobs */
	char name[STX_CONFIG_BYTES];
	void *config, *plan; /* plan: NULL until it is needed */
	int failed;          /* no plan can be made of it: the status; -1: no status */
	int64_t workspace_bytes;
};
/* The heuristics' list for the graph, without those whose arithmetic is not what NUMERICS.md says
 * for that type; names differ. device: a CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR in the place of the
 * graph's handle; else NULL. The number. */
uint32_t stx__cudnn_engines(const struct stx__cudnn *q, const struct stx__cudnn_graph *g, int type,
			    void *device, uint32_t most, struct stx__cudnn_engine *out);
/* Makes e's plan when there is none; 0: it cannot be made, or works in more than `most` bytes. */
int stx__cudnn_plan(const struct stx__cudnn *q, void *handle, void *device,
		    struct stx__cudnn_engine *e, int64_t most);
void stx__cudnn_engine_free(const struct stx__cudnn *q, struct stx__cudnn_engine *e);

/* ---- calls (cudnn_call.c) ---- */

struct stx__cudnn_kept { /* never moved: ways point at it */
	struct stx__cudnn_kept *next;
	struct stx__cudnn_engine e;
};
struct stx__cudnn_set {
	struct stx__cudnn_graph graph; /* n 0: none */
	struct stx__cudnn_kept *all;   /* every engine that was listed */
};
int stx__cudnn_type(uint8_t dtype); /* CUDNN_DATA_*; -1: none of a float that a call may have */
int stx__cudnn_has(struct stx_diag *d);
int stx__cudnn_create(void **handle);
void stx__cudnn_destroy(void *handle);
/* The engines of the set's graph, which was made with `status`, as ways; their number. 0: why says so,
 * of `what`. */
uint32_t stx__cudnn_list(struct stx__cudnn_set *set, int type, int status, const char *what,
			 uint32_t most, struct stx__way *out, char *why, size_t cap);
/* Of a call by its n attributes (STX__CALL_ATTRS at most), arguments and offsets left out, and the type of
 * its operands. */
struct stx_digest stx__cudnn_digest(int64_t type, const int64_t *attrs, uint32_t n,
				    size_t workspace_bytes, int is_aligned);
void stx__cudnn_set_free(struct stx__cudnn_set *set);
/* Makes the call, with n operands by their names. UNSUPPORTED: nothing has been written. */
stx_err stx__cudnn_call(const struct stx__context *x, const struct stx__step *s,
			const struct stx__way *way, int64_t n, const int64_t *ids, void *const *at,
			const struct stx_env *env, struct stx_diag *d);
/* "WHAT: STATUS: the library's reason" (status 0: without one). */
void stx__cudnn_why(const char *what, int status, char *out, size_t cap);

/* ---- the external calls STX_CALL_CONV (convolution.c) and STX_CALL_ATTENTION (attention.c):
 * entries of the table in externals.c ---- */

stx_err stx__attention_bind(const struct stax_artifact *a, struct stx__context *x,
			    struct stx__step *s, struct stx_diag *d);
stx_err stx__conv_bind(const struct stax_artifact *a, struct stx__context *x, struct stx__step *s,
		       struct stx_diag *d);

#endif
