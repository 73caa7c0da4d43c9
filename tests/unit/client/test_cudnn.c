/* test_cudnn.c: the real cuDNN without a GPU: it takes the graphs that libstax makes of convolutions,
 * lists engines for an H200 and makes plans of them. What the device is told by is the library's own
 * serialised form of its properties (cuDNN 9.8 and newer). Without the library, or with an older one,
 * it says so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cudnn.h"

enum { DEVICEPROP_DESCRIPTOR = 38, ATTR_DEVICEPROP_JSON = 2702, TYPE_CHAR = 24 };

static const char h200[] =
	"{\"cudaDeviceId\":0,\"deviceName\":\"NVIDIA H200\",\"deviceVer\":900,\"driverVer\":13000,"
	"\"isTccDriver\":0,\"l2CacheSize\":62914560,\"maxCtasPerSM\":32,"
	"\"maxRegistersPerSM\":65536,\"maxSharedMemoryPerBlock\":49152,"
	"\"maxSharedMemoryPerBlockOptin\":232448,\"maxThreadsPerBlock\":1024,"
	"\"maxThreadsPerSM\":2048,\"memClockRateKHz\":3201000,\"multiProcessorCount\":132,"
	"\"pciDeviceId\":0,\"regsPerBlock\":65536,\"reservedSharedMemoryPerBlock\":1024,"
	"\"smClockRateKHz\":1980000,\"supportCoopLaunch\":1,\"totalGlobalMem\":150000000000,"
	"\"warpSize\":32,\"maxBlockSize\":[1024,1024,64],"
	"\"maxGridSize\":[2147483647,65535,65535]}";

static void *device_of(const struct stx__cudnn *q)
{
	void *d = NULL;
	if (q->desc_create(DEVICEPROP_DESCRIPTOR, &d))
		return NULL;
	if (!q->desc_set(d, ATTR_DEVICEPROP_JSON, TYPE_CHAR, sizeof h200, h200) &&
	    !q->desc_finalize(d))
		return d;
	q->desc_destroy(d);
	return NULL;
}

static void dense(struct stx__cudnn_tensor *t, uint32_t k, int is_last)
{
	int64_t next = 1;
	if (is_last) {
		t->stride[1] = 1;
		next = t->size[1];
	}
	for (uint32_t i = k; i-- > 0;) {
		t->stride[2 + i] = next;
		next *= t->size[2 + i];
	}
	if (!is_last) {
		t->stride[1] = next;
		next *= t->size[1];
	}
	t->stride[0] = next;
}

struct one {
	const char *name;
	int type;
	uint32_t k;
	int64_t c, m, groups, tap, stride, alignment;
	int is_last, has_bias, is_gradient;
};

static struct stx__cudnn_conv spec(const struct one *o)
{
	int64_t in = 28, pad = o->tap / 2, out = (in + 2 * pad - o->tap) / o->stride + 1;
	struct stx__cudnn_conv c = { .is_gradient = o->is_gradient,
				     .type = o->type,
				     .accumulate = o->type == STX_CUDNN_DATA_DOUBLE
							   ? STX_CUDNN_DATA_DOUBLE
							   : STX_CUDNN_DATA_FLOAT,
				     .k = o->k,
				     .has_bias = o->has_bias,
				     .alignment = o->alignment };
	struct stx__cudnn_tensor *large = o->is_gradient ? &c.y : &c.x;
	struct stx__cudnn_tensor *small = o->is_gradient ? &c.x : &c.y;
	large->size[0] = small->size[0] = 4;
	large->size[1] = o->groups * o->c;
	small->size[1] = c.w.size[0] = o->groups * o->m;
	c.w.size[1] = o->c;
	for (uint32_t i = 0; i < o->k; i++) {
		large->size[2 + i] = in;
		small->size[2 + i] = out;
		c.w.size[2 + i] = o->tap;
		c.stride[i] = o->stride;
		c.dilation[i] = 1;
		c.before[i] = c.after[i] = pad;
	}
	dense(&c.x, o->k, o->is_last);
	dense(&c.w, o->k, o->is_last);
	dense(&c.y, o->k, o->is_last);
	return c;
}

static void test_cudnn_takes_our_graphs_and_has_plans_for_them(void **state)
{
	(void)state;
	static const struct one all[] = {
		{ "f32", STX_CUDNN_DATA_FLOAT, 2, 32, 48, 1, 3, 1, 16, 0, 0, 0 },
		{ "f32 bias", STX_CUDNN_DATA_FLOAT, 2, 32, 48, 1, 3, 1, 4, 0, 1, 0 },
		{ "f16 last", STX_CUDNN_DATA_HALF, 2, 64, 64, 1, 3, 1, 16, 1, 0, 0 },
		{ "f16 last bias", STX_CUDNN_DATA_HALF, 2, 64, 64, 1, 3, 2, 16, 1, 1, 0 },
		{ "f16 bias on elements", STX_CUDNN_DATA_HALF, 2, 64, 64, 1, 3, 1, 2, 0, 1, 0 },
		{ "bf16 line bias", STX_CUDNN_DATA_BFLOAT16, 1, 16, 16, 4, 5, 1, 16, 1, 1, 0 },
		{ "f64 cube", STX_CUDNN_DATA_DOUBLE, 3, 8, 8, 1, 3, 1, 16, 0, 0, 0 },
		{ "f32 gradient", STX_CUDNN_DATA_FLOAT, 2, 32, 48, 1, 3, 2, 16, 0, 0, 1 },
		{ "f16 gradient", STX_CUDNN_DATA_HALF, 2, 64, 64, 1, 3, 2, 16, 1, 0, 1 },
		{ "bf16 gradient groups", STX_CUDNN_DATA_BFLOAT16, 2, 16, 16, 4, 3, 2, 16, 1, 0,
		  1 },
		{ "f16 gradient first", STX_CUDNN_DATA_HALF, 2, 64, 64, 1, 3, 2, 2, 0, 0, 1 },
		{ "f32 gradient line", STX_CUDNN_DATA_FLOAT, 1, 16, 16, 1, 5, 2, 16, 0, 0, 1 },
		{ "f16 gradient cube", STX_CUDNN_DATA_HALF, 3, 16, 16, 1, 3, 2, 16, 1, 0, 1 },
		{ "f64 gradient", STX_CUDNN_DATA_DOUBLE, 2, 8, 8, 1, 3, 1, 16, 0, 0, 1 },
		{ "f16 gradient few", STX_CUDNN_DATA_HALF, 2, 48, 32, 1, 3, 2, 16, 0, 0, 1 },
	};
	struct stx_diag d = { 0 };
	const struct stx__cudnn *q = stx__cudnn(&d);
	void *device = q ? device_of(q) : NULL;
	if (!device) {
		print_message("skipped: %s\n",
			      q ? "this cuDNN does not take a device's properties" : d.text);
		skip();
	}
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		struct stx__cudnn_conv c = spec(&all[i]);
		struct stx__cudnn_graph g;
		struct stx__cudnn_engine e[7];
		int planned = 0, status = stx__cudnn_conv_graph(q, NULL, &c, &g);
		if (status)
			fail_msg("%s: %s", all[i].name, q->error_string(status));
		uint32_t n = stx__cudnn_engines(q, &g, c.type, device, 7, e);
		for (uint32_t k = 0; k < n; k++) {
			if (c.is_gradient && c.type == STX_CUDNN_DATA_HALF)
				assert_null(strstr(e[k].name, "engine=2 "));
			if (k < 2)
				planned +=
					stx__cudnn_plan(q, NULL, device, &e[k], (int64_t)512 << 20);
			print_message("%s: %s%s\n", all[i].name, e[k].name,
				      e[k].failed ? ": no plan" : "");
			stx__cudnn_engine_free(q, &e[k]);
		}
		if (!planned)
			fail_msg("%s: no plan among %u engines", all[i].name, n);
		stx__cudnn_graph_free(q, &g);
	}
	q->desc_destroy(device);
}

/* [batch, heads, rows, elements of a head], the heads behind the rows in memory or before them. */
static struct stx__cudnn_tensor heads(int64_t h, int64_t rows, int64_t size, int is_last)
{
	return (struct stx__cudnn_tensor){ .size = { 2, h, rows, size, 1 },
					   .stride = { h * rows * size,
						       is_last ? size : rows * size,
						       is_last ? h * size : size, 1, 1 } };
}

static struct stx__cudnn_tensor bias(int64_t b, int64_t h, int64_t rows)
{
	return (struct stx__cudnn_tensor){ .size = { b, h, rows, 256, 1 },
					   .stride = { h * rows * 256, rows * 256, 256, 1, 1 } };
}

/* Each operation and the whole graph pass the library's checks. Its engines compile their code and
 * load it into a driver, so without one it lists none; with the toolkit's stub of one (libcuda.so.1 on
 * the library path) cuDNN 9.19 lists its flash engines for these graphs. */
static void test_cudnn_takes_our_graphs_of_attention(void **state)
{
	(void)state;
	struct stx_diag d = { 0 };
	const struct stx__cudnn *q = stx__cudnn(&d);
	void *device = q ? device_of(q) : NULL;
	if (!device) {
		print_message("skipped: %s\n",
			      q ? "this cuDNN does not take a device's properties" : d.text);
		skip();
	}
	for (int i = 0; i < 16; i++) {
		int64_t kv = i & 2 ? 2 : 8, rows = i & 4 ? 77 : 256;
		struct stx__cudnn_attention a = {
			.type = i & 1 ? STX_CUDNN_DATA_BFLOAT16 : STX_CUDNN_DATA_HALF,
			.is_causal = i & 1,
			.q = heads(8, rows, 64, i & 2),
			.k = heads(kv, 256, 64, i & 2),
			.v = heads(kv, 256, 128, i & 2),
			.y = heads(8, rows, 128, i & 2),
			.is_biased = i >= 8,
			.bias_type = i & 4   ? STX_CUDNN_DATA_FLOAT
				     : i & 1 ? STX_CUDNN_DATA_BFLOAT16
					     : STX_CUDNN_DATA_HALF,
			.bias = bias(i & 2 ? 1 : 2, i & 1 ? 8 : 1, i & 4 ? rows : 1),
			.alignment = 16,
		};
		struct stx__cudnn_graph g;
		struct stx__cudnn_engine e[7];
		int status = stx__cudnn_attention_graph(q, NULL, &a, &g);
		if (status)
			fail_msg("%d: %s", i, q->error_string(status));
		uint32_t n = stx__cudnn_engines(q, &g, a.type, device, 7, e);
		print_message("attention %d: %u engines\n", i, n);
		while (n)
			stx__cudnn_engine_free(q, &e[--n]);
		stx__cudnn_graph_free(q, &g);
	}
	q->desc_destroy(device);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cudnn_takes_our_graphs_of_attention),
		cmocka_unit_test(test_cudnn_takes_our_graphs_and_has_plans_for_them),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
