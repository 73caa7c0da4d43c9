"""Cases of the CPU table that fit into the L2: every elementary function, narrow types, rows, gathers, windows.

A case is what bench_cpu.cases() says. `draw` among its sizes makes an input of a normal draw and its number."""

ELEMS = 1 << 16

# graph operator -> what its argument is drawn as; torch has most under the same name
UNARY = {
    "exp": None, "exp2": None, "expm1": None, "tanh": None, "sigmoid": None, "erf": None, "erfc": None, "sin": None,
    "cos": None, "tan": None, "sinh": None, "cosh": None, "asinh": None, "atan": None, "relu": None,
    "log": "positive", "log2": "positive", "log10": "positive", "log1p": "positive", "sqrt": "positive",
    "rsqrt": "positive", "asin": "unit", "acos": "unit", "atanh": "unit", "acosh": "above 1",
}


def drawn(torch, how, x, which):
    if how == "positive":
        return x.abs() + 1e-3
    if how == "unit":
        return x.tanh() * 0.999
    if how == "above 1":
        return x.abs() + 1
    if how == "power":
        return x.abs() + 1e-3 if which == 0 else x
    return x


def unary(torch, name, t, n):
    how, F = UNARY.get(name), torch.nn.functional
    fn = out = getattr(torch, name, None)
    if name == "relu":
        out = lambda x, out: torch.clamp_min(x, 0, out=out)
    text = ["%x : {t}[{n}] = placeholder()", f"%y = {name}.default(%x)", "return (%y)"]
    if name == "softplus":
        fn, out = F.softplus, lambda x, out: torch._C._nn.softplus(x, 1, 20, out=out)
    if name == "silu":
        fn, out = F.silu, lambda x, out: torch.ops.aten.silu.out(x, out=out)
    if name == "gelu":
        fn, out = F.gelu, lambda x, out: torch.ops.aten.gelu.out(x, out=out)
    label = name + ("" if t == "f32" else " " + t) + f" {n >> 10}K"
    return (label, "pointwise", text, {"t": t, "n": n, "draw": how}, fn, out)


def functions(torch):
    found = []
    for t, n in (("f32", ELEMS), ("f64", ELEMS // 2), ("bf16", ELEMS), ("f16", ELEMS)):
        for name in list(UNARY) + ["softplus", "silu"] + (["gelu"] if t != "f32" else []):
            if t != "f32" or name not in ("exp", "tanh", "erf"):  # the table has them
                found.append(unary(torch, name, t, n))
        two = ["%x : {t}[{n}] = placeholder()", "%z : {t}[{n}] = placeholder()", "", "return (%y)"]
        for name, op, fn in (("pow", "pow.Tensor_Tensor", torch.pow), ("atan2", "atan2.default", torch.atan2),
                             ("add", "add.Tensor", torch.add), ("div", "div.Tensor", torch.div)):
            found.append((f"{name}{'' if t == 'f32' else ' ' + t} {n >> 10}K", "pointwise",
                          two[:2] + [f"%y = {op}(%x, %z)"] + two[3:],
                          {"t": t, "n": n, "draw": "power" if name == "pow" else None}, fn, fn))
    return found


def case(name, group, types, body, fn, out=None, **sizes):
    text = [f"%{v} : {t} = placeholder()" for v, t in zip("xzwv", types)]
    return (name, group, text + body + ["return (%y)"], sizes, fn, out)


def moves(torch):
    """Copies of parts, and the first of an order."""
    F = torch.nn.functional
    return [
        case("cat columns 256x256", "pointwise", ["f32[256,256]"] * 2, ["%y = cat.default([%x, %z], 1)"],
             lambda x, z: torch.cat([x, z], 1), lambda x, z, out: torch.cat([x, z], 1, out=out)),
        case("cat rows 8192x4", "pointwise", ["f32[8192,4]"] * 2, ["%y = cat.default([%x, %z], 0)"],
             lambda x, z: torch.cat([x, z]), lambda x, z, out: torch.cat([x, z], out=out)),
        case("repeat 2x2 of 256x257", "pointwise", ["f32[256,257]"], ["%y = repeat.default(%x, [2, 2])"],
             lambda x: x.repeat(2, 2)),
        case("roll 33x2048", "pointwise", ["f32[33,2048]"],
             ["%a = slice.Tensor(%x, 1, 1365, 2048)", "%b = slice.Tensor(%x, 1, 0, 1365)",
              "%y = cat.default([%a, %b], 1)"], lambda x: x.roll(683, 1)),
        case("reflection pad 1 of 16x64x64", "pointwise", ["f32[1,16,64,64]"],
             ["%y = reflection_pad2d.default(%x, [1, 1, 1, 1])"], lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect")),
        case("zero pad 1 of 16x64x64", "pointwise", ["f32[1,16,64,64]"],
             ["%y = constant_pad_nd.default(%x, [1, 1, 1, 1])"], lambda x: F.pad(x, (1, 1, 1, 1))),
        case("tril 256x256", "pointwise", ["f32[256,256]"], ["%y = tril.default(%x)"], torch.tril,
             lambda x, out: torch.tril(x, out=out)),
        case("bilinear x2 of 64x28x28", "pointwise", ["f32[1,64,28,28]"],
             ["%y = upsample_bilinear2d.vec(%x, [56, 56], False, None)"],
             lambda x: F.interpolate(x, (56, 56), mode="bilinear")),
    ] + [
        case(f"top {k} of {r}x{c}", "row", [f"f32[{r},{c}]"], [f"%y = topk.default(%x, {k})"],
             lambda x, k=k: x.topk(k)[0])
        for k, r, c in ((2, 4096, 8), (8, 1024, 64), (5, 64, 1000), (50, 1, 50257))
    ]


def odd_rows(torch):
    """Rows that are no number of vectors."""
    F, found = torch.nn.functional, []
    for r, c in ((4096, 16), (2048, 33)):
        found += [
            case(f"log_softmax {r}x{c}", "row", [f"f32[{r},{c}]"], ["%y = _log_softmax.default(%x, -1, False)"],
                 lambda x: F.log_softmax(x, -1), lambda x, out: torch.log_softmax(x, -1, out=out)),
            case(f"layer_norm bf16 {r}x{c}", "row", [f"bf16[{r},{c}]", f"bf16[{c}]", f"bf16[{c}]"],
                 [f"%y = layer_norm.default(%x, [{c}], %z, %w)"], lambda x, z, w: F.layer_norm(x, z.shape, z, w)),
            case(f"sum f64 {r}x{c}", "row", [f"f64[{r},{c}]"], ["%y = sum.dim_IntList(%x, [-1])"],
                 lambda x: x.sum(-1), lambda x, out: torch.sum(x, -1, out=out)),
            case(f"cumsum {r}x{c}", "row", [f"f32[{r},{c}]"], ["%y = cumsum.default(%x, -1)"],
                 lambda x: x.cumsum(-1), lambda x, out: torch.cumsum(x, -1, out=out)),
        ]
    found.append(case("mean 8192x49", "row", ["f32[8192,49]"], ["%y = mean.dim(%x, [-1])"], lambda x: x.mean(-1),
                      lambda x, out: torch.mean(x, -1, out=out)))
    return found


def rest(torch):
    F, n = torch.nn.functional, ELEMS
    f32, i64, u8 = torch.float32, torch.int64, torch.uint8
    found = [
        case("where 64K", "pointwise", [f"f32[{n}]"] * 2, ["%c = gt.Tensor(%x, %z)", "%y = where.self(%c, %x, %z)"],
             lambda x, z: torch.where(x > z, x, z), lambda x, z, out: torch.where(x > z, x, z, out=out)),
        case("masked_fill 64K", "pointwise", [f"f32[{n}]", f"bool[{n}]"],
             ["%k = full.default([], -inf, dtype=f32)", "%y = where.self(%z, %k, %x)"],
             lambda x, z: x.masked_fill(z, float("-inf"))),
        case("clamp 64K", "pointwise", [f"f32[{n}]"], ["%y = clamp.default(%x, -0.5, 0.5)"],
             lambda x: x.clamp(-0.5, 0.5), lambda x, out: torch.clamp(x, -0.5, 0.5, out=out)),
        case("addcmul 64K", "pointwise", [f"f32[{n}]"] * 3, ["%m = mul.Tensor(%z, %w)", "%y = add.Tensor(%x, %m)"],
             lambda x, z, w: x + z * w, lambda x, z, w, out: torch.addcmul(x, z, w, out=out)),
        case("strided 4096x7 of 4096x9", "pointwise", ["f32[4096,9]"],
             ["%s = slice.Tensor(%x, 1, 1, 8)", "%y = mul.Scalar(%s, 2)"],
             lambda x: x[:, 1:8] * 2, lambda x, out: torch.mul(x[:, 1:8], 2, out=out)),
        case("strided 8192x3 of 8192x4", "pointwise", ["f32[8192,4]"],
             ["%s = slice.Tensor(%x, 1, 0, 3)", "%y = mul.Scalar(%s, 2)"],
             lambda x: x[:, :3] * 2, lambda x, out: torch.mul(x[:, :3], 2, out=out)),
        case("every second 64K", "pointwise", [f"f32[{2 * n}]"],
             [f"%s = slice.Tensor(%x, 0, 0, {2 * n}, 2)", "%y = mul.Scalar(%s, 2)"],
             lambda x: x[::2] * 2, lambda x, out: torch.mul(x[::2], 2, out=out)),
        case("rows of 3, row broadcast", "pointwise", ["f32[16384,3]", "f32[3]"], ["%y = add.Tensor(%x, %z)"],
             lambda x, z: x + z, lambda x, z, out: torch.add(x, z, out=out)),
        case("rows of 3, column broadcast", "pointwise", ["f32[16384,3]", "f32[16384,1]"], ["%y = add.Tensor(%x, %z)"],
             lambda x, z: x + z, lambda x, z, out: torch.add(x, z, out=out)),
        case("rows of 7, column broadcast", "pointwise", ["f32[8192,7]", "f32[8192,1]"], ["%y = mul.Tensor(%x, %z)"],
             lambda x, z: x * z, lambda x, z, out: torch.mul(x, z, out=out)),
        case("permute 16x64x64", "pointwise", ["f32[16,64,64]"], ["%p = permute.default(%x, [2, 0, 1])",
                                                                 "%y = clone.default(%p)"],
             lambda x: x.permute(2, 0, 1).contiguous(), lambda x, out: out.copy_(x.permute(2, 0, 1))),
        case("embedding 1024 of 4096x32", "pointwise", ["f32[4096,32]", "i64[1024]"], ["%y = embedding.default(%x, %z)"],
             lambda x, z: F.embedding(z, x), lambda x, z, out: torch.index_select(x, 0, z, out=out), high=4096),
        case("embedding 8192 of 4096x8", "pointwise", ["f32[4096,8]", "i64[8192]"], ["%y = embedding.default(%x, %z)"],
             lambda x, z: F.embedding(z, x), lambda x, z, out: torch.index_select(x, 0, z, out=out), high=4096),
        case("take 32K of 64K", "pointwise", ["f32[65536]", "i64[32768]"], ["%y = index_select.default(%x, 0, %z)"],
             lambda x, z: x[z], lambda x, z, out: torch.index_select(x, 0, z, out=out), high=65536),
        case("gather 256x128 of 256x256", "pointwise", ["f32[256,256]", "i64[256,128]"],
             ["%y = gather.default(%x, 1, %z)"],
             lambda x, z: torch.gather(x, 1, z), lambda x, z, out: torch.gather(x, 1, z, out=out), high=256),
        case("max_pool2d 2x2 of 16x64x64", "row", ["f32[1,16,64,64]"],
             ["%p = max_pool2d_with_indices.default(%x, [2, 2], [2, 2])", "%y = relu.default(%p)"],
             lambda x: F.max_pool2d(x, 2, 2).relu()),
        case("avg_pool2d 2x2 of 16x64x64", "row", ["f32[1,16,64,64]"],
             ["%y = avg_pool2d.default(%x, [2, 2], [2, 2])"], lambda x: F.avg_pool2d(x, 2, 2),
             lambda x, out: torch._C._nn.avg_pool2d(x, [2, 2], [2, 2], out=out)),
        case("max_pool2d 3x3 of 16x64x64", "row", ["f32[1,16,64,64]"],
             ["%p = max_pool2d_with_indices.default(%x, [3, 3], [1, 1], [1, 1])", "%y = relu.default(%p)"],
             lambda x: F.max_pool2d(x, 3, 1, 1).relu()),
    ]
    for op, t, inputs in (("abs", "bf16", 1), ("neg", "bf16", 1), ("copysign", "bf16", 2), ("logical_xor", "bool", 2)):
        fn = getattr(torch, op)
        overload = "Tensor" if op == "copysign" else "default"
        found.append(case(f"{op} {t} 64K", "pointwise", [f"{t}[{n}]"] * inputs,
                          [f"%y = {op}.{overload}({', '.join(['%x', '%z'][:inputs])})"], fn,
                          lambda *x, out, fn=fn: fn(*x, out=out)))
    found += moves(torch) + odd_rows(torch)
    for a, b, size in (("f32", "bf16", n), ("bf16", "f32", n), ("f32", "f16", n), ("f16", "f32", n), ("f32", "i32", n),
                       ("f32", "i64", n), ("f32", "u8", n), ("u8", "f32", n), ("i64", "f32", n), ("f32", "f64", n),
                       ("f64", "f32", n), ("i32", "f32", n), ("f32", "bool", n), ("f64", "bf16", n), ("f64", "f16", n),
                       ("f64", "i32", n), ("i32", "bf16", n)):
        found.append(case(f"cast {a} to {b} {size >> 10}K", "pointwise", [f"{a}[{size}]"],
                          [f"%y = _to_copy.default(%x, dtype={b})"],
                          lambda x, b=b: x.to(getattr(torch, TORCH[b])), lambda x, out: out.copy_(x), high=100))
    for r, c in ((64, 1024), (1024, 64)):
        for name, body, fn, out in (
                ("sum", "sum.dim_IntList(%x, [-1])", lambda x: x.sum(-1), lambda x, out: torch.sum(x, -1, out=out)),
                ("amax", "amax.default(%x, [-1])", lambda x: x.amax(-1), lambda x, out: torch.amax(x, -1, out=out)),
                ("argmax", "argmax.default(%x, -1)", lambda x: x.argmax(-1), lambda x, out: torch.argmax(x, -1, out=out)),
                ("cumsum", "cumsum.default(%x, -1)", lambda x: x.cumsum(-1), lambda x, out: torch.cumsum(x, -1, out=out)),
                ("log_softmax", "_log_softmax.default(%x, -1, False)", lambda x: F.log_softmax(x, -1),
                 lambda x, out: torch.log_softmax(x, -1, out=out)),
                ("logsumexp", "logsumexp.default(%x, [-1])", lambda x: x.logsumexp(-1),
                 lambda x, out: torch.logsumexp(x, -1, out=out)),
                ("var", "var.correction(%x, [-1])", lambda x: x.var(-1), lambda x, out: torch.var(x, -1, out=out)),
                ("rms_norm", None, lambda x: F.rms_norm(x, x.shape[-1:], eps=1e-5), None)):
            lines = [f"%y = {body}"] if body else [
                "%q = mul.Tensor(%x, %x)", "%m = mean.dim(%q, [-1], True)", "%e = add.Scalar(%m, 1e-5)",
                "%s = rsqrt.default(%e)", "%y = mul.Tensor(%x, %s)"]
            found.append(case(f"{name} {r}x{c}", "row", [f"f32[{r},{c}]"], lines, fn, out))
        found.append(case(f"argmax columns {r}x{c}", "row", [f"f32[{r},{c}]"], ["%y = argmax.default(%x, 0)"],
                          lambda x: x.argmax(0), lambda x, out: torch.argmax(x, 0, out=out)))
        found.append(case(f"cumsum columns {r}x{c}", "row", [f"f32[{r},{c}]"], ["%y = cumsum.default(%x, 0)"],
                          lambda x: x.cumsum(0), lambda x, out: torch.cumsum(x, 0, out=out)))
        found.append(case(f"softmax bf16 {r}x{c}", "row", [f"bf16[{r},{c}]"], ["%y = _softmax.default(%x, -1, False)"],
                          lambda x: F.softmax(x, -1), lambda x, out: torch.softmax(x, -1, out=out)))
    return found


TORCH = {"f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16", "i64": "int64", "i32": "int32",
         "u8": "uint8", "bool": "bool"}


def small_cases(torch):
    return functions(torch) + rest(torch)
