/* test_orders.c: sorts and the first of an order: stated cases on every path. */
#include "cases.h"

/* The memory a sort works in keeps its number when buffers get new ones: long sums cut in two
 * layers, copies before an update that go. */
static void test_orders_sorts_beside_renumbered_buffers(void **state)
{
	(void)state;
	case_check(&(struct stated){
		.text = "%x : f32[2,1] = placeholder()\n%e = expand.default(%x, [2, 300000])\n%s = "
			"sum.dim_IntList(%e, [1])\n%a = sort.default(%s)\nreturn (%a, %a:1)\n",
		.in = { V(2, 1) },
		.out = { V(300000, 600000), V(1, 0) } });
	case_check(&(struct stated){
		.text = "%x : f32[3] = placeholder()\n%i : i64[3] = placeholder()\n%y = "
			"mul.Scalar(%x, 2)\n%r = remainder.Scalar(%y, 100)\n%c = "
			"clone.default(%r)\n%s = "
			"scatter.src(%c, 0, %i, %x)\n%a = sort.default(%x)\nreturn (%s, %a)\n",
		.in = { V(3, 1, 2), V(0, 1, 1) },
		.out = { V(3, 2, 4), V(1, 2, 3) } });
}

/* NaN is greatest, -0 equals +0, equal elements keep their order; every length of run and merge. */
static void test_orders_sorts_are_stable(void **state)
{
	(void)state;
	case_check(&(struct stated){
		.text = "%x : f32[6] = placeholder()\n%a = sort.default(%x)\n%b = "
			"sort.stable(%x, stable=True, dim=0, descending=True)\n%c = "
			"topk.default(%x, 3)\n%d = topk.default(%x, 2, 0, False)\n"
			"return (%a, %a:1, %b, %b:1, %c, %c:1, %d, %d:1)\n",
		.in = { V(3, NAN, -0.0, 0, -INFINITY, 3) },
		.out = { V(-INFINITY, -0.0, 0, 3, 3, NAN), V(4, 2, 3, 0, 5, 1),
			 V(NAN, 3, 3, -0.0, 0, -INFINITY), V(1, 0, 5, 2, 3, 4), V(NAN, 3, 3),
			 V(1, 0, 5), V(-INFINITY, -0.0), V(4, 2) } });
	case_check(&(struct stated){
		.text = "%x : i8[2,3] = placeholder()\n%a = sort.default(%x, 0)\n%b = "
			"argsort.default(%x, -1, True)\n%c = topk.default(%x, 0, 1)\n%d = "
			"kthvalue.default(%x, 2)\n%e = median.dim(%x, 0, True)\n"
			"return (%a, %a:1, %b, %c, %d, %d:1, %e, %e:1)\n",
		.in = { V(-128, 5, 127, 3, 5, -1) },
		.shape = { "2,3", "2,3", "2,3", "2,0", "2", "2", "1,3", "1,3" },
		.out = { V(-128, 5, -1, 3, 5, 127), V(0, 0, 1, 1, 1, 0), V(2, 1, 0, 1, 0, 2), V(0),
			 V(5, 3), V(1, 0), V(-128, 5, -1), V(0, 0, 1) } });
	case_check(&(struct stated){
		.text = "%x : f64[] = placeholder()\n%y : u64[4] = placeholder()\n%a = "
			"sort.default(%x)\n%b = topk.default(%x, 1, 0)\n%c = argsort.default(%x)\n"
			"%d = sort.default(%y)\nreturn (%a, %a:1, %b, %b:1, %c, %d, %d:1)\n",
		.in = { V(7), V(0x1p63, 1, 0x1.8p63, 0) },
		.out = { V(7), V(0), V(7), V(0), V(0), V(0, 1, 0x1p63, 0x1.8p63),
			 V(3, 1, 0, 2) } });
	/* as PyTorch: one NaN makes the median NaN, the first of them */
	case_check(&(struct stated){ .text = "%x : f32[2,5] = placeholder()\n%a = median.dim(%x, "
					     "1)\nreturn (%a, %a:1)\n",
				     .in = { V(5, 1, 4, 2, 3, 1, NAN, NAN, 2, NAN) },
				     .out = { V(3, NAN), V(4, 1) } });
}

static void test_orders_sorts_of_every_length(void **state)
{
	static const int64_t lengths[] = { 1,  2,  15, 16, 17,  31,  32,   33,
					   63, 64, 65, 96, 511, 512, 1025, 5000 };
	(void)state;
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		int64_t n = lengths[i];
		double *x = calloc(3 * (size_t)n, sizeof *x), *y = x + n, *at = y + n;
		for (int64_t k = 0; k < n; k++) { /* three of each, then sorted by counting */
			x[k] = (double)(k * 7919 % n / 3);
		}
		int64_t out = 0;
		for (int64_t v = 0; out < n; v++)
			for (int64_t k = 0; k < n; k++)
				if (x[k] == (double)v) {
					y[out] = (double)v;
					at[out++] = (double)k;
				}
		case_check_at(&(struct stated){ .text = "%x : i64[@] = placeholder()\n%s = "
							"sort.default(%x)\nreturn (%s, %s:1)\n",
						.in = { { x, n } },
						.out = { { y, n }, { at, n } },
						.skip = CASE_NO_FOLD },
			      n);
		free(x);
	}
}

/* topk of x[k] = values of which three each are equal, or of ascending or descending ones: the first of
 * the order, of keys of 32 and 64 bits; of short rows, of few, of many, of nearly all. */
static void first_of_order(const char *dtype, int64_t n, int64_t k, int kind)
{
	char text[200];
	double *x = calloc(3 * (size_t)n, sizeof *x), *y = x + n, *at = y + n;
	int64_t out = 0;
	for (int64_t i = 0; i < n; i++)
		x[i] = (double)(kind == 0 ? i * 7919 % n / 3 : kind == 1 ? i : n - i);
	for (int64_t v = n; out < k; v--)
		for (int64_t i = 0; i < n && out < k; i++)
			if (x[i] == (double)v) {
				y[out] = (double)v;
				at[out++] = (double)i;
			}
	snprintf(text, sizeof text,
		 "%%x : %s[%lld] = placeholder()\n%%s = topk.default(%%x, %lld)\nreturn (%%s, "
		 "%%s:1)\n",
		 dtype, (long long)n, (long long)k);
	case_check(&(struct stated){ .text = text,
				     .in = { { x, n } },
				     .out = { { y, k }, { at, k } },
				     .skip = CASE_NO_FOLD });
	free(x);
}

static void test_orders_first_of_an_order_is_that_of_the_sort(void **state)
{
	static const int64_t lengths[] = { 3, 8, 9, 64, 100, 257, 1024, 1025, 3000 };
	static const int64_t counts[] = { 1, 3, 8, 9, 33, 64, 65 };
	(void)state;
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
		for (size_t j = 0; j < sizeof counts / sizeof *counts; j++)
			if (counts[j] <= lengths[i])
				first_of_order((i + j) % 3 ? "f32" : "i64", lengths[i], counts[j],
					       (int)(i + 2 * j) % 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_orders_sorts_beside_renumbered_buffers),
		cmocka_unit_test(test_orders_sorts_are_stable),
		cmocka_unit_test(test_orders_sorts_of_every_length),
		cmocka_unit_test(test_orders_first_of_an_order_is_that_of_the_sort),
	};
	return cmocka_run_group_tests(tests, case_setup, NULL);
}
