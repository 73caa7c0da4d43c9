/* seeds.c: writes the seed corpora of the fuzzers: valid envelopes, wire graphs, texts, plans and
 * tensor files. Usage: seeds DIR (gets DIR/frame, DIR/wire, DIR/text, DIR/plan, DIR/tensor) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "frame.h"
#include "graph.pb-c.h"
#include "model.h"
#include "planbuild.h"
#include "wire.h"

static void put(const char *dir, const char *kind, const char *name, const void *p, size_t n)
{
	char path[4096];
	snprintf(path, sizeof path, "%s/%s", dir, kind);
	mkdir(path, 0755);
	snprintf(path, sizeof path, "%s/%s/%s", dir, kind, name);
	FILE *f = fopen(path, "wb");
	if (!f || fwrite(p, 1, n, f) != n || fclose(f)) {
		perror(path);
		exit(1);
	}
}

static void put_frame(const char *dir, const char *name, const Stx__Envelope *e)
{
	struct stx_bytes b = { 0 };
	if (!stx_frame_pack(e, 0, &b))
		put(dir, "frame", name, b.at + STX_FRAME_PREFIX, b.n - STX_FRAME_PREFIX);
	stx_bytes_free(&b);
}

static void frames(const char *dir)
{
	Stx__Envelope e = STX__ENVELOPE__INIT;
	Stx__Hello hello = STX__HELLO__INIT;
	Stx__Lookup lookup = STX__LOOKUP__INIT;
	Stx__Compile compile = STX__COMPILE__INIT;
	uint8_t digest[32] = { 1, 2, 3 };
	e.request_id = 7;
	hello.version_min = hello.version_max = 1;
	hello.client = "fuzz";
	e.msg_case = STX__ENVELOPE__MSG_HELLO;
	e.hello = &hello;
	put_frame(dir, "hello", &e);
	lookup.body_digest = (ProtobufCBinaryData){ 32, digest };
	lookup.format = 2;
	lookup.target = "cpu:x86-64-v3";
	e.msg_case = STX__ENVELOPE__MSG_LOOKUP;
	e.lookup = &lookup;
	put_frame(dir, "lookup", &e);
	compile.what = &lookup;
	e.msg_case = STX__ENVELOPE__MSG_COMPILE;
	e.compile = &compile;
	put_frame(dir, "compile", &e);
}

static void wires(const char *dir)
{
	Stx__WireGraph g = STX__WIRE_GRAPH__INIT;
	Stx__WireInput in = STX__WIRE_INPUT__INIT, *ins[1] = { &in };
	Stx__WireDim dim[2] = { STX__WIRE_DIM__INIT, STX__WIRE_DIM__INIT },
		     *dims[2] = { &dim[0], &dim[1] };
	Stx__WireNode node = STX__WIRE_NODE__INIT, *nodes[1] = { &node };
	Stx__WireRef ref = STX__WIRE_REF__INIT, out_ref = STX__WIRE_REF__INIT;
	Stx__WireArg arg = STX__WIRE_ARG__INIT, *args[1] = { &arg };
	Stx__WireOutput out = STX__WIRE_OUTPUT__INIT, *outs[1] = { &out };
	g.version = 1;
	in.name = "x";
	in.dtype = 11;
	for (int i = 0; i < 2; i++) {
		dim[i].d_case = STX__WIRE_DIM__D_VALUE;
		dim[i].value = 4 + i;
	}
	in.sizes = dims;
	in.n_sizes = 2;
	g.inputs = ins;
	g.n_inputs = 1;
	ref.name = "x";
	arg.v_case = STX__WIRE_ARG__V_TENSOR;
	arg.tensor = &ref;
	node.name = "y";
	node.target = "relu.default";
	node.args = args;
	node.n_args = 1;
	g.nodes = nodes;
	g.n_nodes = 1;
	out_ref.name = "y";
	out.name = "out";
	out.value = &out_ref;
	g.outputs = outs;
	g.n_outputs = 1;
	uint8_t buf[1024];
	size_t n = stx__wire_graph__pack(&g, buf);
	put(dir, "wire", "relu", buf, n);
}

static void plans(const char *dir)
{
	struct planbuild b = { 0 };
	uint32_t n = pb_sym(&b, pb_size(&b, "n", 0, 0, 1, 100, 8)), one = pb_const(&b, 1);
	uint32_t bytes = pb_bin(&b, STX_X_MUL, n, pb_const(&b, 4)), zero = pb_const(&b, 0);
	uint32_t x = pb_value(&b, STX_VALUE_INPUT, STX_F32, "x", 1, &n, &one, bytes, zero);
	uint32_t t = pb_value(&b, STX_VALUE_TEMP, STX_F32, "t", 1, &n, &one, bytes, zero);
	uint32_t y = pb_value(&b, STX_VALUE_OUTPUT, STX_F32, "y", 1, &n, &one, bytes, zero);
	uint32_t k = pb_kernel(&b, "poi_0", n, one, 1, &n);
	pb_step(&b, STX_STEP_ALLOC, t, 0);
	pb_prepared(&b, k, "stx_p0", 2, 64);
	pb_extern(&b, "all", 2, (uint32_t[]){ x, t }, 1, &one, STX_PLAN_NONE, STX_PLAN_NONE);
	pb_covers(&b, 1);
	pb_launch(&b, k, 2, (uint32_t[]){ x, t });
	pb_step(&b, STX_STEP_COPY, t, y);
	pb_step(&b, STX_STEP_RELEASE, t, 0);
	pb_guard(&b, pb_bin(&b, STX_X_LT, zero, n));
	b.workspace = bytes;
	struct stx_bytes plan = pb_finish(&b);
	put(dir, "plan", "one", plan.at, plan.n);
	stx_bytes_free(&plan);
}

static void tensors(const char *dir)
{
	struct stx_bytes npy = { 0 }, proto = { 0 }, graph = { 0 }, model = { 0 };
	struct stx_host h;
	if (stx_host_new(&h, STX_F32, 2, (int64_t[]){ 3, 7 }, NULL))
		exit(1);
	stx_host_random(&h, 1);
	if (stx_npy_format(&h, &npy, NULL))
		exit(1);
	put(dir, "tensor", "npy", npy.at, npy.n);
	stx_wire_put_uint(&proto, 1, 3);
	stx_wire_put_uint(&proto, 1, 7);
	stx_wire_put_uint(&proto, 2, 1);
	stx_wire_put_bytes(&proto, 8, (struct stx_span){ (const uint8_t *)"w", 1 });
	stx_wire_put_bytes(&proto, 9, (struct stx_span){ h.t.data, h.bytes });
	put(dir, "tensor", "proto", proto.at, proto.n);
	stx_wire_put_bytes(&graph, 5, (struct stx_span){ proto.at, proto.n });
	stx_wire_put_bytes(&model, 7, (struct stx_span){ graph.at, graph.n });
	put(dir, "tensor", "model", model.at, model.n);
	stx_bytes_free(&npy);
	stx_bytes_free(&proto);
	stx_bytes_free(&graph);
	stx_bytes_free(&model);
	stx_host_free(&h);
}

int main(int argc, char **argv)
{
	static const char *const texts[] = {
		"%primals_1 : f32[64,128] = placeholder()\n%primals_2 : f32[64,128] = "
		"placeholder()\n"
		"%add = add.Tensor(%primals_1, %primals_2)\n%relu = relu.default(%add)\n"
		"%mul = mul.Scalar(%relu, 2)\n%sum_0 = sum.dim_IntList(%mul, [-1])\nreturn "
		"(%sum_0,)\n",
		"%a : i64[2,3] = placeholder()\n%v = view.default(%a, [3,2])\n%p = "
		"permute.default(%v, [1,0])\n"
		"%c = cat.default([%p, %a], 0)\nreturn (%c, %v)\n",
	};
	if (argc != 2)
		return 2;
	mkdir(argv[1], 0755);
	frames(argv[1]);
	wires(argv[1]);
	plans(argv[1]);
	tensors(argv[1]);
	for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++) {
		char name[16];
		snprintf(name, sizeof name, "t%u", i);
		put(argv[1], "text", name, texts[i], strlen(texts[i]));
	}
	return 0;
}
