/* request.h
 * what a connection's frames ask for: lookups answered from memory, compiles that join a flight. */
#ifndef STX_REQUEST_H
#define STX_REQUEST_H

#include "frame.h"
#include "record.h"
#include "server.h"

#define STX__NS_MAX 64

/* A request as received, shared by the request and the chain it leads. Counted. */
struct stx__spec {
	uint32_t refs;
	struct stx__server *s;
	struct stx__spec *base;  /* counted: the request as it came, which owns e, body_fd and the
				   charge; NULL: it is this one */
	struct stx__cut *cut;    /* counted, with a base: the blockings */
	Stx__Envelope *e;        /* Lookup or Compile */
	const Stx__Lookup *what; /* inside e, or made */
	Stx__Lookup made; /* of a Tune or KernelCode: target, options, namespace; with a base: as
				    that asks, with blockings */
	char ns[STX__NS_MAX + 1];
	uint32_t options;       /* bits */
	int body_fd;            /* sealed memfd, -1 for a Lookup */
	uint32_t charged_bytes; /* against the budgets: header, body, what unpacking adds */
	struct stx_digest body, memo;
};
struct stx__pending;
/* spec.c. what: inside e, or made. NULL: out of memory. */
struct stx__spec *stx__spec_new(struct stx__server *s, Stx__Envelope *e, const Stx__Lookup *what,
				int body_fd, uint32_t charged_bytes, const struct stx_digest *body);
struct stx__spec *stx__spec_ref(struct stx__spec *p);
void stx__spec_drop(struct stx__spec *p);
/* From now on p asks for what the answer is of with its products cut as was measured on its device.
 * 0: the answer is what it asks for. */
int stx__spec_cut(struct stx__pending *p, const struct stx__blob *answer);
/* p asks as it came: what was measured was code that another build of the compiler made. */
void stx__spec_uncut(struct stx__pending *p);
/* 1: the graph cut as was measured, which is but a hint, is to blame for the failure; from now on p
 * asks as it came, and its answer says why. key: of the artifact that was not made; NULL: the
 * failure is known to later requests already. */
int stx__spec_fall_back(struct stx__pending *p, const struct stx_diag *failure,
			const struct stx_digest *key);

/* A compile that waits for its answer. Belongs to its connection. */
struct stx__pending {
	struct stx__waiter waiter;        /* first member */
	struct stx__pending *next, *prev; /* of the connection */
	struct stx__pending *next_parked;
	int parked;
	struct stx__server *s;
	struct stx__conn *conn;
	uint64_t request_id;
	struct stx__spec *spec;
	struct stx__blob *names; /* packed Answer with the names, once known */
	char *not_cut; /* why its products are not cut as was measured; NULL: nothing failed */
	uint64_t start_us;
	int recache, joined, is_lookup;
	void (*run)(struct stx__pending *p); /* of what is neither; it frees p */
};

/* A whole frame has arrived. Takes e and body_fd (-1: no body). body: digest of the bytes. */
void stx__request_frame(struct stx__conn *c, Stx__Envelope *e, int body_fd, uint32_t charged_bytes,
			const struct stx_digest *body);
/* The connection goes: its requests leave their flights. */
void stx__request_abandon(struct stx__pending *p);
/* The fingerprint is known or has changed: parked requests go on. */
void stx__request_ready(struct stx__server *s);
/* Another compiler build has taken over: what is under way for the older one starts anew. */
void stx__request_restart(struct stx__server *s);
/* Workers do not start: parked requests fail. */
void stx__request_broken(struct stx__server *s, const struct stx_diag *d);
void stx__request_expire_parked(struct stx__server *s, uint64_t now_ms);
/* Removes p from its connection and frees it. */
void stx__pending_free(struct stx__pending *p);

/* answer.c: the packed Answer of an artifact: stored fields, names, and what only this reply says.
 */
struct stx__blob *stx__answer_build(struct stx_span stored, struct stx_span names, int hit,
				    int stored_now, const char *reason, const char *path);
/* One more Stage field of an Answer, packed. Returns its length, at most cap (40 is enough). */
size_t stx__answer_stage(uint8_t *out, size_t cap, const char *name, uint64_t us);
/* The answer with one more line in its report. NULL: out of memory. */
struct stx__blob *stx__answer_noted(const struct stx__blob *answer, const char *text);

/* unstored.c: artifacts that could not be committed, kept in memory to be fetched. */
struct stx__unstored {
	struct stx__unstored *next;
	struct stx_digest digest;
	char ns[STX__NS_MAX + 1];
	struct stx__blob *bytes;
};
void stx__unstored_put(struct stx__server *s, const char *ns, const struct stx_digest *digest,
		       struct stx_span bytes);
struct stx__blob *stx__unstored_find(struct stx__server *s, const char *ns,
				     const struct stx_digest *digest); /* borrowed */
void stx__unstored_clear(struct stx__server *s);

/* explain.c: why this is a miss: the nearest entry's differing fields, by name and value. */
void stx__explain_miss(struct stx__server *s, const struct stx__spec *p,
		       const struct stx_digest *graph, const struct stx_digest *key, char *out,
		       size_t cap);

#endif
