/* test_products.c: a measured blocking of a CPU's product is another artifact: which one answers
 * get, and what a request may say itself. */
#include "tune_ask.h"

#define CPU "cpu:x86-64-v3"
static const char products[] = "name in out\nkernel tile a\nkernel tile b\nkernel c\n";

/* What the answer is to be: the products' first candidates ("small small"), the choices, and
 * whether it is the artifact of *key, which is filled when empty. want NULL: it asks for the
 * graph. */
struct expected {
	const char *want, *choices;
	char *key; /* [65] */
	int is_hit;
};

static void expect_cut(int fd, int is_lookup, const struct setting *s, Stx__Blocking **given,
		       size_t ngiven, const struct expected *x)
{
	char text[128] = "", choices[128] = "", key[65];
	struct stx_digest digest;
	struct reply r = ask_tuned(fd, is_lookup, products, CPU, s, given, ngiven);
	const Stx__Answer *q = r.e->answer;
	assert_int_equal(q->need_body, x->want == NULL);
	for (size_t i = 0; i < q->n_kernels; i++)
		if (q->kernels[i]->n_candidates)
			snprintf(text + strlen(text), sizeof text - strlen(text), "%s ",
				 q->kernels[i]->candidates[0]->text);
	for (size_t i = 0; i < q->n_choices; i++)
		snprintf(choices + strlen(choices), sizeof choices - strlen(choices), "%u:%s ",
			 q->choices[i]->kernel, q->choices[i]->config);
	if (x->want) {
		assert_string_equal(text, x->want);
		assert_string_equal(choices, x->choices);
		assert_int_equal(q->hit, x->is_hit);
		assert_int_equal(q->key.len, 32);
		memcpy(digest.b, q->key.data, 32);
		stx_digest_hex(&digest, key);
		if (!x->key[0])
			memcpy(x->key, key, sizeof key);
		assert_string_equal(x->key, key);
	}
	reply_free(&r);
}

/* Records of the device give the artifact whose products are cut so, under a key of its own; no
 * record, another device and no device give the model's. */
static void test_products_are_cut_as_measured(void **state)
{
	static const struct setting here = { .target = CPU },
				    other = { .target = CPU, .device = "another" };
	char plain[65] = "", cut[65] = "";
	(void)state;
	harness_start(&h, NULL);
	int fd = client_connect(&h);
	expect_cut(fd, 0, &here, NULL, 0, &(struct expected){ "small small ", "", plain, 0 });
	expect_tune(fd, "tile a", "small:30 large:20", &here, "small:30 large:20 ");
	expect_cut(fd, 1, &here, NULL, 0, &(struct expected){ NULL, "", NULL, 0 });
	expect_cut(fd, 0, &here, NULL, 0, &(struct expected){ "large small ", "0:large ", cut, 0 });
	assert_string_not_equal(plain, cut);
	for (int i = 0; i < 2; i++) {
		for (int lookup = 0; lookup < 2; lookup++) {
			expect_cut(fd, lookup, &here, NULL, 0,
				   &(struct expected){ "large small ", "0:large ", cut, 1 });
			expect_cut(fd, lookup, &other, NULL, 0,
				   &(struct expected){ "small small ", "", plain, 1 });
		}
		close(fd);
		if (!i) {
			assert_int_equal(harness_stop(&h), 0);
			harness_start(&h, NULL);
		}
		fd = client_connect(&h);
	}
	/* The model's choice, confirmed: the model's artifact. */
	expect_tune(fd, "tile a", "small:10", &here, "large:20 small:10 ");
	expect_cut(fd, 1, &here, NULL, 0,
		   &(struct expected){ "small small ", "0:small ", plain, 1 });
	expect_tune(fd, "tile b", "small:9 medium:8", &here, "small:9 medium:8 ");
	char both[65] = "";
	expect_cut(fd, 0, &here, NULL, 0,
		   &(struct expected){ "small medium ", "0:small 1:medium ", both, 0 });
	assert_string_not_equal(plain, both);
	assert_string_not_equal(cut, both);
	assert_int_equal(stat_of(fd, "compiles"), 1);
	close(fd);
}

/* All ranks of a job have the artifact that its first rank had. */
static void test_products_job_pins_how_they_are_cut(void **state)
{
	static const struct setting here = { .target = CPU }, job = { .target = CPU, .job = "j1" },
				    late = { .target = CPU, .job = "j2" };
	char plain[65] = "", cut[65] = "";
	(void)state;
	harness_start(&h, NULL);
	int fd = client_connect(&h);
	expect_cut(fd, 0, &job, NULL, 0, &(struct expected){ "small small ", "", plain, 0 });
	expect_tune(fd, "tile a", "small:30 large:20", &here, "small:30 large:20 ");
	expect_cut(fd, 0, &late, NULL, 0, &(struct expected){ "large small ", "0:large ", cut, 0 });
	expect_tune(fd, "tile a", "small:1", &here, "large:20 small:1 ");
	for (int lookup = 0; lookup < 2; lookup++) {
		expect_cut(fd, lookup, &job, NULL, 0,
			   &(struct expected){ "small small ", "", plain, 1 });
		expect_cut(fd, lookup, &late, NULL, 0,
			   &(struct expected){ "large small ", "0:large ", cut, 1 });
		expect_cut(fd, lookup, &here, NULL, 0,
			   &(struct expected){ "small small ", "0:small ", plain, 1 });
	}
	close(fd);
}

/* Blockings that the request names, whatever is known; the same ones by records are the same
 * artifact. What a product can be cut into is told by its text. */
static void test_products_blockings_of_a_request_are_taken(void **state)
{
	static const struct setting here = { .target = CPU };
	struct stx_digest a = stx_digest_of("tile a", 6), b = stx_digest_of("tile b", 6);
	Stx__Blocking at[2], *list[2] = { &at[0], &at[1] };
	char cut[65] = "", plain[65] = "";
	(void)state;
	harness_start(&h, NULL);
	int fd = client_connect(&h);
	for (int i = 0; i < 2; i++) {
		stx__blocking__init(&at[i]);
		at[i].product = (ProtobufCBinaryData){ 32, i ? b.b : a.b };
		at[i].config = (char *)(i ? "medium" : "large");
	}
	expect_tune(fd, "tile a", "small:30 large:20", &here, "small:30 large:20 ");
	expect_cut(fd, 0, &here, list, 1, &(struct expected){ "large small ", "0:large ", cut, 0 });
	expect_cut(fd, 0, &here, NULL, 0, &(struct expected){ "large small ", "0:large ", cut, 1 });
	at[0].config = (char *)"small";
	expect_cut(fd, 0, &here, list, 1, &(struct expected){ "small small ", "", plain, 0 });
	assert_string_not_equal(plain, cut);
	Stx__Envelope e = STX__ENVELOPE__INIT;
	Stx__KernelCode k = STX__KERNEL_CODE__INIT;
	k.target = (char *)CPU;
	k.product = (char *)"tile a";
	e.msg_case = STX__ENVELOPE__MSG_KERNEL_CODE;
	e.kernel_code = &k;
	for (int i = 0; i < 4; i++) {
		k.config = (char *)(i == 1 ? "large" : "");
		k.product = (char *)(i == 2 ? "" : "tile a");
		if (i == 3) { /* a client's text is no IR of a GPU kernel */
			k.target = (char *)TARGET;
			k.kernel = (ProtobufCBinaryData){ 32, a.b };
		}
		client_send(fd, &e, NULL, 0);
		struct reply r = receive_final(fd);
		if (i)
			assert_error(&r, STX_E_PROTOCOL);
		else
			assert_int_equal(r.e->kernel_code_reply->kernel->n_candidates, 2);
		reply_free(&r);
	}
	close(fd);
}

/* The answer is the model's artifact, and says why when another was wanted (NULL: none was). */
static void expect_model(struct reply *r, const struct stx_digest *key, const char *why)
{
	const Stx__Answer *a = r->e->answer;
	const char *line = NULL;
	for (size_t i = 0; i < a->n_report; i++)
		if (strstr(a->report[i], "the model's blockings are taken"))
			line = a->report[i];
	assert_memory_equal(a->key.data, key->b, sizeof key->b);
	assert_string_equal(a->kernels[0]->candidates[0]->text, "small");
	assert_int_equal(a->n_choices, 0);
	assert_int_equal(line != NULL, why != NULL);
	assert_int_equal(a->n_report, why ? 2 : 1);
	if (why)
		assert_non_null(strstr(line, why));
	reply_free(r);
}

/* A record is a hint: what it asks for and cannot be compiled, for whatever reason, is answered with
 * the model's artifact, and not tried again. */
static void test_products_that_do_not_compile_as_measured_are_cut_by_the_model(void **state)
{
	static const struct setting here = { .target = CPU };
	static const struct {
		const char *product, *why, *again;
	} cases[] = { { "tile invalid", "told to be invalid", "told to be invalid" },
		      { "tile internal", "told to be internal", "told to be internal" },
		      { "tile crash", "died in the kernel job", "brought workers down" } };
	(void)state;
	int fd = serve(NULL);
	for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
		char graph[64];
		struct stx_digest key;
		snprintf(graph, sizeof graph, "name in out\nkernel %s\nkernel c%u\n",
			 cases[i].product, i);
		struct reply r = ask_tuned(fd, 0, graph, CPU, &here, NULL, 0);
		memcpy(key.b, r.e->answer->key.data, sizeof key.b);
		expect_model(&r, &key, NULL);
		expect_tune(fd, cases[i].product, "small:30 large:20", &here, "small:30 large:20 ");
		uint64_t crashes = stat_of(fd, "crashes"), failures = stat_of(fd, "failures");
		for (unsigned k = 0; k < 4; k++) {
			r = ask_tuned(fd, k > 1, graph, CPU, &here, NULL, 0);
			expect_model(&r, &key, k ? cases[i].again : cases[i].why);
			assert_int_equal(stat_of(fd, "cuts_failed"), 4 * i + k + 1);
			if (i < 2)
				until(stat_of(fd, "store_failures") > i);
		}
		assert_int_equal(stat_of(fd, "crashes") - crashes, i == 2 ? 2 : 0);
		assert_int_equal(stat_of(fd, "failures"), failures);
	}
	assert_int_equal(stat_of(fd, "compiles"), 3);
	close(fd);
}

static void test_products_malformed_blockings_are_refused(void **state)
{
	uint8_t low[32] = { 1 }, high[32] = { 2 };
	char text[STX_CONFIG_BYTES + 1];
	(void)state;
	harness_start(&h, NULL);
	int fd = client_connect(&h);
	memset(text, 'x', sizeof text);
	text[sizeof text - 1] = 0;
	for (int i = 0; i < 6; i++) {
		Stx__Blocking at[2], *list[2] = { &at[0], &at[1] };
		Stx__Lookup l;
		Stx__Options o;
		struct stx_digest digest;
		Stx__Envelope e = STX__ENVELOPE__INIT;
		struct ask a = { .graph = products, .target = i == 5 ? TARGET : CPU };
		for (int j = 0; j < 2; j++) {
			stx__blocking__init(&at[j]);
			at[j].product = (ProtobufCBinaryData){ 32, j ? high : low };
			at[j].config = (char *)"large";
		}
		switch (i) {
		case 0: at[1].product.data = low; break;
		case 1: at[0].product.data = high, at[1].product.data = low; break;
		case 2: at[1].product.len = 31; break;
		case 3: at[0].config = (char *)""; break;
		case 4: at[0].config = text; break;
		default: break; /* a GPU's kernels have none */
		}
		fill_lookup(&l, &o, &a, &digest);
		l.blockings = list;
		l.n_blockings = 2;
		e.msg_case = STX__ENVELOPE__MSG_LOOKUP;
		e.lookup = &l;
		client_send(fd, &e, NULL, 0);
		struct reply r = receive_final(fd);
		assert_error(&r, STX_E_PROTOCOL);
		reply_free(&r);
	}
	close(fd);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		T(test_products_are_cut_as_measured),
		T(test_products_job_pins_how_they_are_cut),
		T(test_products_blockings_of_a_request_are_taken),
		T(test_products_that_do_not_compile_as_measured_are_cut_by_the_model),
		T(test_products_malformed_blockings_are_refused),
	};
	harness_main(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
