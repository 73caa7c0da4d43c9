/* kernels.h
 * kernel texts used by several tests: one of each form emitters must know. */
#ifndef TEST_KERNELS_H
#define TEST_KERNELS_H

/* out[i] = a[i] + b[i] over 10000 elements in chunks with a tail. */
static const char text_flat[] = "kernel \"poi_fused_add_0\" poi bits 32 target cpu\n"
				"param p0 f32 read elems 10000 \"a\"\n"
				"param p1 f32 read elems 10000 \"b\"\n"
				"param p2 f32 write elems 10000 \"out\"\n"
				"axis x0 grid 3\n"
				"axis x1 vector min(4096, -4096*x0 + 10000)\n"
				"grain 4\n"
				"begin\n"
				"  loop x1\n"
				"    t1 = load f32 p0[4096*x0 + x1]\n"
				"    t2 = load f32 p1[4096*x0 + x1]\n"
				"    t3 = add f32 t1 t2\n"
				"    store f32 p2[4096*x0 + x1] t3\n"
				"  end\n"
				"end\n";

/* Example 1.1: sum over rows of relu(a + b) * 2, 64x128. */
static const char text_rowsum[] = "kernel \"per_fused_add_relu_mul_sum_0\" per bits 32 target cpu\n"
				  "param p0 f32 read elems 8192 \"a\"\n"
				  "param p1 f32 read elems 8192 \"b\"\n"
				  "param p2 f32 write elems 64 \"out\"\n"
				  "axis x0 grid 64\n"
				  "axis r0 vector reduction 128\n"
				  "grain 64\n"
				  "begin\n"
				  "  t0 = const f32 0x0p+0\n"
				  "  t1 = const f32 0x1p+1\n"
				  "  t2 = acc sum lanes f32 r0\n"
				  "  loop r0\n"
				  "    t4 = load f32 p0[128*x0 + r0]\n"
				  "    t5 = load f32 p1[128*x0 + r0]\n"
				  "    t6 = add f32 t4 t5\n"
				  "    t7 = max f32 t6 t0\n"
				  "    t8 = mul f32 t7 t1\n"
				  "    update t2 t8\n"
				  "  end\n"
				  "  t11 = result f32 t2 0\n"
				  "  store f32 p2[x0] t11\n"
				  "end\n";

/* Sum of columns of 100x70 in bf16, with rows taken in order. */
static const char text_colsum[] = "kernel \"red_fused_sum_0\" red bits 32 target cpu\n"
				  "param p0 bf16 read elems 7000 \"a\"\n"
				  "param p1 bf16 write elems 70 \"out\"\n"
				  "axis x0 grid 2\n"
				  "axis x1 vector min(64, -64*x0 + 70)\n"
				  "axis r0 loop reduction 100\n"
				  "grain 1\n"
				  "begin\n"
				  "  loop x1\n"
				  "    t1 = acc sum plain f32 r0\n"
				  "    loop r0\n"
				  "      t3 = load bf16 p0[64*x0 + x1 + 70*r0]\n"
				  "      t4 = cast f32 t3\n"
				  "      update t1 t4\n"
				  "    end\n"
				  "    t7 = result f32 t1 0\n"
				  "    t8 = cast bf16 t7\n"
				  "    store bf16 p1[64*x0 + x1] t8\n"
				  "  end\n"
				  "end\n";

/* [6,5] @ [5,70], two rows at a time. */
static const char text_matmul[] = "kernel \"red_fused_mm_0\" red bits 32 target cpu\n"
				  "param p0 f32 read elems 30 \"a\"\n"
				  "param p1 f32 read elems 350 \"b\"\n"
				  "param p2 f32 write elems 420 \"out\"\n"
				  "axis x0 grid 3\n"
				  "axis x1 vector 70\n"
				  "axis r0 loop reduction 5\n"
				  "grain 1\n"
				  "begin\n"
				  "  loop x1\n"
				  "    t1 = acc dot plain f32 r0\n"
				  "    t2 = acc dot plain f32 r0\n"
				  "    loop r0\n"
				  "      t4 = load f32 p0[10*x0 + r0]\n"
				  "      t5 = load f32 p1[x1 + 70*r0]\n"
				  "      update t1 t4 t5\n"
				  "      t7 = load f32 p0[10*x0 + r0 + 5]\n"
				  "      update t2 t7 t5\n"
				  "    end\n"
				  "    t10 = result f32 t1 0\n"
				  "    t11 = result f32 t2 0\n"
				  "    store f32 p2[140*x0 + x1] t10\n"
				  "    store f32 p2[140*x0 + x1 + 70] t11\n"
				  "  end\n"
				  "end\n";

/* out[i,j] = table[idx[i], j], rows checked and wrapped, a dynamic number of rows. */
static const char text_gather[] = "kernel \"poi_fused_embedding_0\" poi bits 64 target cpu\n"
				  "scalar s0 range 1 100000000 hint 64\n"
				  "param p0 i64 read elems s0 \"idx\"\n"
				  "param p1 f32 read elems 32000 \"table\"\n"
				  "param p2 f32 write elems 32*s0 \"out\"\n"
				  "axis x0 grid s0\n"
				  "axis x1 vector 32\n"
				  "grain 64\n"
				  "begin\n"
				  "  t0 = load i64 p0[x0]\n"
				  "  t1 = indirect t0 bound 1000 axis 0 wrap check\n"
				  "  loop x1\n"
				  "    t3 = load f32 p1[x1 + 32*t1]\n"
				  "    store f32 p2[32*x0 + x1] t3\n"
				  "  end\n"
				  "end\n";

/* out[i] = i < 10 ? a[i] : NaN, and the position of the greatest of a: constants, masks, arg
 * reductions. */
static const char text_mixed[] =
	"kernel \"red_\\x22odd\\x5c name\\xc3\\xa9\" red bits 32 target cpu\n"
	"param p0 f32 read elems 10 \"a\"\n"
	"param p1 f32 write elems 16 \"out\"\n"
	"param p2 i64 write elems 1 \"where\"\n"
	"axis x0 grid 1\n"
	"axis x1 vector 16\n"
	"axis r0 vector reduction 10\n"
	"grain 1\n"
	"begin\n"
	"  t0 = const f32 nan(0x7ff8000000000000)\n"
	"  t1 = const i64 10\n"
	"  loop x1\n"
	"    t3 = index i64 x1\n"
	"    t4 = lt bool t3 t1\n"
	"    t5 = load f32 p0[x1] mask t4\n"
	"    t6 = select f32 t4 t5 t0\n"
	"    store f32 p1[x1] t6\n"
	"  end\n"
	"  t9 = acc argmax lanes f32 r0\n"
	"  loop r0\n"
	"    t11 = load f32 p0[r0]\n"
	"    t12 = index i64 r0\n"
	"    update t9 t11 t12\n"
	"  end\n"
	"  t15 = result i64 t9 1\n"
	"  barrier\n"
	"  store i64 p2[0] t15\n"
	"end\n";

static const char *const all_texts[] = { text_flat,   text_rowsum, text_colsum,
					 text_matmul, text_gather, text_mixed };
#define N_TEXTS (sizeof all_texts / sizeof *all_texts)

#endif
