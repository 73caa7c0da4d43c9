/* session.c: what running a graph needs, in order: values, compile, load; shared by the commands
 * that run. */
#include "tool.h"

stx_err stx_tool_session_graph(struct stx_tool_session *s, const char *path, struct stx_diag *d)
{
	stx_err e = stx_tool_graph_read(path, &s->graph, d);
	s->has_graph = !e;
	return e;
}

stx_err stx_tool_session_compile(struct stx_tool_session *s, struct stax_request *q,
				 struct stx_diag *d)
{
	struct stx_tool_progress p;
	struct stax_error err;
	stx_tool_progress_start(&p, q);
	stx_err e = stx_tool_compile_started(&s->client, &s->graph, &s->values, q, &s->answer, d);
	stx_tool_progress_end(&p);
	if (!e && (e = stax_load(s->client, s->answer, &s->artifact, &err)))
		stx_tool_diag(d, &err);
	return e;
}

stx_err stx_tool_session_bind(struct stx_tool_session *s, uint64_t seed, struct stx_diag *d)
{
	return stx_tool_bind(s->artifact, s->has_graph ? &s->graph : NULL, &s->values, 1, seed,
			     &s->args, d);
}

void stx_tool_session_close(struct stx_tool_session *s)
{
	stx_tool_arguments_free(&s->args);
	stax_artifact_free(s->artifact);
	stax_answer_free(s->answer);
	stx_tool_values_free(&s->values);
	stx_tool_graph_free(&s->graph);
	stax_client_free(s->client);
}
