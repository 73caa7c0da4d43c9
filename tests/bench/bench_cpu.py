#!/usr/bin/env python3
"""The CPU table: stax against PyTorch (eager and torch.compile) and, for products, OpenBLAS, in one process.

Called by bench.sh, which starts a daemon and finds a Python with torch and numpy. torch computes products and
convolutions with oneDNN or its BLAS; numpy's wheel carries OpenBLAS.

Method: a process for one thread and one for all. In each, contenders alternate: a round times every contender once,
over calls that take 4 ms or more; 11 rounds. With several threads a contender begins when the pools of the others sleep. A ratio is the time of the better torch form by ours (of products: of
the best peer), round by round: its median, and the second smallest and second largest, which hold the median of the
distribution with 98.8% (95% asked for). Outputs are allocated before, for torch too (out= in eager, a copy into the
output that inductor fuses). Cases that do not fit into the L2 rotate over 150 MB of buffers. Inputs are random normal
numbers. Networks have their weights prepared (stax_prepare), as inference has. Errors are largest differences from float64, relative to the largest magnitude. The call overhead is the time
of a call with nothing to do but the 64x128 example."""

import argparse
import datetime
import fnmatch
import itertools
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time

from bench_models import NETWORKS, network
from bench_small import drawn, small_cases

for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):  # they make OpenBLAS choose other kernels
    os.environ.pop(name, None)

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
ROUNDS = 11
ROTATE = 150 << 20
L2 = 1 << 20


def pointwise(op):
    return ["%x : f32[{n}] = placeholder()", f"%y = {op}", "return (%y)"]


ROW_SUM = ["%a : f32[{r},{c}] = placeholder()", "%b : f32[{r},{c}] = placeholder()", "%s = add.Tensor(%a, %b)",
           "%t = relu.default(%s)", "%m = mul.Scalar(%t, 2)", "%y = sum.dim_IntList(%m, [-1])", "return (%y)"]
SOFTMAX = ["%x : f32[{r},{c}] = placeholder()", "%y = _softmax.default(%x, -1, False)", "return (%y)"]
LAYERNORM = ["%x : f32[{r},{c}] = placeholder()", "%w : f32[{c}] = placeholder()", "%b : f32[{c}] = placeholder()",
             "%y = layer_norm.default(%x, [{c}], %w, %b)", "return (%y)"]
COLUMN_SUM = ["%x : f32[{r},{c}] = placeholder()", "%y = sum.dim_IntList(%x, [0])", "return (%y)"]
TRANSPOSE_ADD = ["%a : f32[{r},{c}] = placeholder()", "%b : f32[{c},{r}] = placeholder()",
                 "%t = permute.default(%a, [1, 0])", "%y = add.Tensor(%t, %b)", "return (%y)"]
MATMUL = ["%a : f32[{m},{k}] = placeholder()", "%b : f32[{k},{n}] = placeholder()", "%y = mm.default(%a, %b)",
          "return (%y)"]
LINEAR_GELU = ["%x : {t}[{m},{k}] = placeholder()", "%w : {t}[{n},{k}] = placeholder()",
               "%b : {t}[{n}] = placeholder()", "%v = permute.default(%w, [1, 0])",
               "%p = addmm.default(%b, %x, %v)", "%y = gelu.default(%p)", "return (%y)"]
CONV = ["%x : f32[1,{c},{h},{h}] = placeholder()", "%w : f32[{o},{i},{k},{k}] = placeholder()",
        "%y = convolution.default(%x, %w, None, [{s},{s}], [{p},{p}], [1,1], False, [0,0], {g})", "return (%y)"]
ATTENTION = ["%q : f32[{b},{h},{s},{d}] = placeholder()", "%k : f32[{b},{h},{s},{d}] = placeholder()",
             "%v : f32[{b},{h},{s},{d}] = placeholder()",
             "%i = arange.start_step(0, {s}, 1, dtype=i64)", "%j = view.default(%i, [{s}, 1])",
             "%m = gt.Tensor(%i, %j)", "%t = permute.default(%k, [0, 1, 3, 2])", "%s = matmul.default(%q, %t)",
             "%c = mul.Scalar(%s, 0.125)", "%n = full.default([], -inf, dtype=f32)", "%w = where.self(%m, %n, %c)",
             "%p = _softmax.default(%w, -1, False)", "%y = matmul.default(%p, %v)", "return (%y)"]

SDPA = ["%q : {t}[{b},{h},{s},{d}] = placeholder()", "%k : {t}[{b},{h},{s},{d}] = placeholder()",
        "%v : {t}[{b},{h},{s},{d}] = placeholder()",
        "%y = scaled_dot_product_attention.default(%q, %k, %v, None, 0.0, {c})", "return (%y)"]
SDPA_MASK = SDPA[:3] + ["%m : {t}[{s},{s}] = placeholder()",
                        "%y = scaled_dot_product_attention.default(%q, %k, %v, %m)", "return (%y)"]


def cases(torch):
    """(name, group, graph, sizes, torch function, what writes into `out` in eager)"""
    F = torch.nn.functional
    big, small = 1 << 24, 1 << 16

    def row_sum(a, b):
        return (torch.relu(a + b) * 2).sum(-1)

    def row_sum_out(a, b, out):
        return torch.sum(torch.relu(a + b) * 2, -1, out=out)

    def gelu_tanh(x):
        return F.gelu(x, approximate="tanh")

    def linear_gelu(x, w, b):
        return F.gelu(F.linear(x, w, b))

    found = []
    for n, tag in ((big, "16M"), (small, "64K")):
        for name, fn, out in (("exp", torch.exp, torch.exp), ("tanh", torch.tanh, torch.tanh),
                              ("erf", torch.erf, torch.erf)):
            found.append((f"{name} {tag}", "pointwise", pointwise(name + ".default(%x)"), {"n": n}, fn, out))
        for approximate, label in (("none", "gelu"), ("tanh", "gelu-tanh")):
            fn = gelu_tanh if approximate == "tanh" else F.gelu
            found.append((f"{label} {tag}", "pointwise",
                          pointwise(f"gelu.default(%x, approximate='{approximate}')"), {"n": n}, fn,
                          lambda x, out, a=approximate: torch.ops.aten.gelu.out(x, approximate=a, out=out)))
    found.append(("example 64x128", "row", ROW_SUM, {"r": 64, "c": 128}, row_sum, row_sum_out))
    for r, c in ((4096, 8192), (64, 1024)):
        found.append((f"relu-add-mul row sum {r}x{c}", "row", ROW_SUM, {"r": r, "c": c}, row_sum, row_sum_out))
    for r, c in ((4096, 4096), (4096, 1024), (64, 1024)):
        found.append((f"softmax {r}x{c}", "row", SOFTMAX, {"r": r, "c": c}, lambda x: F.softmax(x, -1),
                      lambda x, out: torch.softmax(x, -1, out=out)))
        found.append((f"layernorm {r}x{c}", "row", LAYERNORM, {"r": r, "c": c},
                      lambda x, w, b: F.layer_norm(x, w.shape, w, b), None))
    for r, c in ((65536, 1024), (1024, 64)):
        found.append((f"column sum {r}x{c}", "row", COLUMN_SUM, {"r": r, "c": c}, lambda x: x.sum(0),
                      lambda x, out: torch.sum(x, 0, out=out)))
    for n in (4096, 256):
        found.append((f"transpose-add {n}x{n}", "pointwise", TRANSPOSE_ADD, {"r": n, "c": n}, lambda a, b: a.t() + b,
                      lambda a, b, out: torch.add(a.t(), b, out=out)))
    for m, k, n in ((512,) * 3, (1024,) * 3, (2048,) * 3, (4096,) * 3, (64, 1024, 1024), (1, 1024, 1024),
                    (4, 256, 256)):
        found.append((f"sgemm {m}x{k}x{n}", "product", MATMUL, {"m": m, "k": k, "n": n}, torch.mm,
                      lambda a, b, out: torch.mm(a, b, out=out)))
    found.append(("linear+gelu 1024x4096x1024", "product", LINEAR_GELU, {"t": "f32", "m": 1024, "k": 4096, "n": 1024},
                  linear_gelu, None))
    found.append(("bf16 linear+gelu 32x4096x4096", "product", LINEAR_GELU, {"t": "bf16", "m": 32, "k": 4096, "n": 4096},
                  linear_gelu, None))
    for c, h, o, k, s, g in ((64, 56, 64, 3, 1, 1), (256, 14, 256, 3, 1, 1), (3, 224, 64, 7, 2, 1), (256, 56, 64, 1, 1, 1),
                             (256, 56, 256, 3, 1, 256), (64, 112, 64, 3, 2, 64), (1024, 7, 1024, 3, 1, 1024), (256, 28, 256, 3, 2, 1),
                             (512, 28, 1024, 1, 2, 1), (3, 224, 768, 16, 16, 1), (32, 150, 32, 3, 1, 1),
                             (96, 56, 96, 7, 1, 96)):
        p = 0 if s == k else k // 2  # patches
        found.append((f"conv {c}-{o} {h}x{h} {k}x{k}" + (f" /{s}" if s > 1 else "") + (" depthwise" if g > 1 else ""),
                      "product", CONV, {"c": c, "h": h, "o": o, "i": c // g, "k": k, "s": s, "p": p, "g": g},
                      lambda x, w, s=s, p=p, g=g: F.conv2d(x, w, None, s, p, 1, g), None))
    found.append(("causal attention 1x16x1024x64", "product", ATTENTION, {"b": 1, "h": 16, "s": 1024, "d": 64},
                  lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), None))
    for name, t, h, s, d, causal in (("attention 1x16x1024x64", "f32", 16, 1024, 64, False),
                                     ("causal attention 1x8x2048x128", "f32", 8, 2048, 128, True),
                                     ("bf16 causal attention 1x16x1024x64", "bf16", 16, 1024, 64, True),
                                     ("attention 8x12x197x64", "f32", 96, 197, 64, False)):
        found.append((name, "product", SDPA, {"t": t, "b": 1, "h": h, "s": s, "d": d, "c": causal},
                      lambda q, k, v, c=causal: F.scaled_dot_product_attention(q, k, v, is_causal=c), None))
    found.append(("masked attention 1x16x1024x64", "product", SDPA_MASK, {"t": "f32", "b": 1, "h": 16, "s": 1024, "d": 64},
                  lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m), None))
    found += small_cases(torch)
    for name in NETWORKS:
        text, fn, _ = network(name, torch)
        found.append((name, "network", text.splitlines(), {}, fn, None))
    return found


# ---- one process: a number of threads --------------------------------------------------------------


def time_us(run, calls):
    start = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - start) / calls * 1e6


def rotating(make, count):
    """A function that runs the next of count equal ones."""
    if count == 1:
        return make(0)
    runs = itertools.cycle([make(i) for i in range(count)])
    return lambda: next(runs)()


def settle(run):
    """Threads of other contenders' pools wait spinning before they sleep (OpenBLAS's 26 ms): not beside this one. Then
    three scheduler ticks of it, for its own threads to be spread over the processors again."""
    time.sleep(0.05)
    end = time.perf_counter() + 0.012
    while time.perf_counter() < end:
        run()


def measure(contenders, rounds, threads):
    """Microseconds a call, of every round."""
    calls, times = {}, {who: [] for who in contenders}
    for who, run in contenders.items():
        run()
        calls[who] = max(1, min(5000, int(4000 / max(0.1, time_us(run, 3)))))
        time_us(run, calls[who])
    for _ in range(rounds):
        for who, run in contenders.items():
            if threads != 1:
                settle(run)
            times[who].append(time_us(run, calls[who]))
    return times


def interval(values):
    """Median, second smallest and second largest."""
    v = sorted(values)
    return [statistics.median(v), v[min(1, len(v) - 1)], v[max(-2, -len(v))]]


def torch_peers(torch, fn, eager_out, inputs, outputs, compile_):
    count = len(inputs)

    def eager(i):
        x, o = inputs[i], outputs["eager"][i]
        if eager_out:
            return lambda: eager_out(*x, out=o)
        return lambda: fn(*x)

    peers = {"eager": rotating(eager, count)}
    if compile_:
        torch._dynamo.reset()
        # the output comes first: inductor writes its copy straight into it
        compiled = torch.compile(lambda o, *x: o.copy_(fn(*x)))
        compiled(outputs["compile"][0], *inputs[0])
        peers["compile"] = rotating(lambda i: lambda x=inputs[i], o=outputs["compile"][i]: compiled(o, *x), count)
    return peers


def largest_error(got, want):
    """0 where both are the same infinity."""
    got = got.double()
    return ((got - want).abs().masked_fill(got == want, 0)).max().item()


def run_case(stax, torch, case, args, types):
    name, group, graph, sizes, fn, eager_out = case
    text = "\n".join(graph).format(**sizes) + "\n"
    torch.manual_seed(1)
    artifact, facts, seconds = stax.compile(text, "cpu")
    shape, number = stax.outputs(artifact)[0]
    dtype = next(t for t, of in types.items() if of == number)
    one = network(name, torch)[2]() if group == "network" else stax.random_inputs(text, sizes)
    size = sum(x.numel() * x.element_size() for x in one) + math.prod(shape) * dtype.itemsize
    count = 1 if size <= L2 else max(1, min(8, ROTATE // size))
    inputs = [one] + [[x.clone() for x in one] for _ in range(count - 1)]
    outputs = {who: [torch.empty(shape, dtype=dtype) for _ in range(count)]
               for who in ("stax", "eager", "compile", "openblas")}
    packed = [stax.prepare(artifact, x, types) if group == "network" else None for x in inputs]
    contenders = {"stax": rotating(
        lambda i: stax.launcher(artifact, inputs[i], [outputs["stax"][i]], types, None, packed[i]), count)}
    contenders.update(torch_peers(torch, fn, eager_out, inputs, outputs, args.compile))
    if name.startswith("sgemm"):
        import numpy
        views = [[x.numpy() for x in inputs[i] + [outputs["openblas"][i]]] for i in range(count)]
        contenders["openblas"] = rotating(lambda i: lambda v=views[i]: numpy.matmul(v[0], v[1], out=v[2]), count)
    want = fn(*[x.double() if x.is_floating_point() else x for x in one]).double()
    row = {"case": name, "group": group, "bytes": size, "buffers": count, "compile_ms": seconds * 1e3,
           "hit": facts["hit"]}
    contenders["stax"]()
    contenders["eager"]()
    scale = want[want.isfinite()].abs().max().item()
    row["error"] = largest_error(outputs["stax"][0], want) / scale
    row["eager_error"] = largest_error(fn(*one), want) / scale
    del want
    times = measure(contenders, args.rounds, args.threads)
    for who, t in times.items():
        row[who + "_us"] = statistics.median(t)
    peers = [times[p] for p in times if p != "stax"]
    row["ratio"] = interval([min(p[i] for p in peers) / times["stax"][i] for i in range(args.rounds)])
    row["best_peer"] = min((p for p in times if p != "stax"), key=lambda p: row[p + "_us"])
    row["is_wrong"] = not row["error"] <= max(4 * row["eager_error"], 2**-7 if "f16" in name else 1e-5)
    return row


def child(args):
    import warnings
    warnings.filterwarnings("ignore")
    os.environ.setdefault("TORCHINDUCTOR_FORCE_DISABLE_CACHES", "1")
    import torch
    from bench_gpu import DTYPES, Stax

    class Client(Stax):
        def random_inputs(self, graph, sizes):
            import re
            found = []
            for dtype, shape in re.findall(r": (\w+)\[([\d,]+)\] = placeholder", graph):
                dtype, shape = DTYPES[dtype], [int(n) for n in shape.split(",")]
                if dtype.is_floating_point:
                    found.append(drawn(torch, sizes.get("draw"), torch.randn(shape), len(found)).to(dtype))
                else:
                    found.append(torch.randint(2 if dtype == torch.bool else sizes["high"], shape).to(dtype))
            return found

    torch.set_num_threads(args.threads or 1)
    stax = Client(args.build)
    text = "".join(f"%a_{n} : {n}[1] = placeholder()\n" for n in DTYPES)
    artifact, _, _ = stax.compile(text + "return (" + ", ".join(f"%a_{n}" for n in DTYPES) + ")\n", "cpu")
    types = {t: number for t, (_, number) in zip(DTYPES.values(), stax.outputs(artifact))}
    for case in cases(torch):
        if args.list:
            print(case[0])
            continue
        if args.cases and not any(fnmatch.fnmatch(case[0], c) for c in args.cases):
            continue
        try:
            row = run_case(stax, torch, case, args, types)
        except Exception as e:  # a backend's own error too: the case is reported, the others run
            row = {"case": case[0], "group": case[1], "failed": f"{type(e).__name__}: {str(e)[:300]}"}
        row["threads"] = args.threads
        print("ROW " + json.dumps(row), flush=True)
    return 0


# ---- the table, the plot, the comparison with the committed figures --------------------------------


def machine():
    def run(code):
        p = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        return p.stdout.strip() or "?"

    def cpu(what):
        return next((l.split(":", 1)[1].strip() for l in open("/proc/cpuinfo") if l.startswith(what)), "")

    core = ("import numpy, glob, ctypes, os\n"
            "d = os.path.join(os.path.dirname(os.path.dirname(numpy.__file__)), 'numpy.libs')\n"
            "l = ctypes.CDLL(glob.glob(d + '/*openblas*')[0])\n"
            "f = l.scipy_openblas_get_corename64_; f.restype = ctypes.c_char_p\n"
            "g = l.scipy_openblas_get_config64_; g.restype = ctypes.c_char_p\n"
            "print(g().decode().split()[1], 'kernel', f().decode())")
    return {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
            "stax": os.popen(f"git -C '{ROOT}' describe --always --dirty 2>/dev/null").read().strip(),
            "cpu": cpu("model name"), "cores": os.cpu_count(), "linux": platform.release(),
            "python": platform.python_version(), "torch": run("import torch; print(torch.__version__)"),
            "onednn": run("import torch, re; print(re.search(r'oneDNN\\) v([0-9.]+)|MKL-DNN v([0-9.]+)', "
                          "torch.__config__.show()).group(0))"),
            "openblas": run(core), "rounds": ROUNDS}


COLUMNS = (("case", 30), ("thr", 3), ("stax us", 9), ("eager", 9), ("compile", 9), ("openblas", 9), ("ratio", 6),
           ("95%", 11), ("last us", 9), ("last", 5), ("error", 7))


def number(x, digits=1):
    return "-" if x is None else f"{x:.{digits}f}"


def line(cells):
    return " ".join(str(c).ljust(w) if i == 0 else str(c).rjust(w) for i, (c, (_, w)) in enumerate(zip(cells, COLUMNS)))


def describe(r, last):
    if "failed" in r:
        return f"{r['case']:30} {r['threads']:3} {r['failed']}"
    old = last.get((r["case"], r["threads"] == 1), {})
    return line([r["case"], r["threads"]] + [number(r.get(w + "_us")) for w in ("stax", "eager", "compile", "openblas")] +
                [number(r["ratio"][0], 2), f"{r['ratio'][1]:.2f}-{r['ratio'][2]:.2f}", number(old.get("stax_us")),
                 number(old.get("ratio", [None])[0], 2), f"{r['error']:.0e}"]) + ("  WRONG" if r["is_wrong"] else "")


def summary(rows):
    """Geometric means of the ratios, in the L2 and beyond."""
    out = []
    for group in ("pointwise", "row", "product", "network"):
        for threads in sorted({r["threads"] for r in rows}):
            for label, inside in (("in L2", True), ("beyond", False)):
                found = [r["ratio"][0] for r in rows if "ratio" in r and r["group"] == group and
                         r["threads"] == threads and (r["buffers"] == 1 and r["bytes"] <= L2) == inside]
                if found:
                    mean = math.exp(sum(math.log(v) for v in found) / len(found))
                    out.append(f"{group:10} {label:7} threads {threads}: geometric mean {mean:.2f} of {len(found)}")
    cold = [r["compile_ms"] for r in rows if "ratio" in r and not r["hit"]]
    if cold:
        out.append(f"cold compiles: median {statistics.median(cold):.1f} ms of {len(cold)}, networks " +
                   ", ".join(f"{r['case']} {r['compile_ms']:.0f}" for r in rows if r["group"] == "network" and
                             "ratio" in r and not r["hit"]))
    return out


def plot(rows, title):
    """Ratios as bars on a logarithmic axis, intervals as lines; SVG."""
    rows = [r for r in rows if "ratio" in r]
    left, width, step = 300, 560, 18
    high = 60 + step * len(rows)

    def x(v):
        return left + width * (math.log2(min(8, max(0.25, v))) + 2) / 5

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 60}" height="{high + 20}" '
           f'font-family="sans-serif" font-size="12">', f'<text x="10" y="20">{title}</text>']
    for v in (0.25, 0.5, 1, 2, 4, 8):
        out.append(f'<line x1="{x(v)}" y1="34" x2="{x(v)}" y2="{high}" stroke="{"#000" if v == 1 else "#ccc"}"/>'
                   f'<text x="{x(v)}" y="{high + 14}" text-anchor="middle">{v:g}</text>')
    for i, r in enumerate(rows):
        y, (mid, low, top) = 40 + step * i, r["ratio"]
        a, b = sorted((x(1), x(mid)))
        colour = "#2a7" if mid >= 1 else "#c43"
        out.append(f'<text x="{left - 8}" y="{y + 11}" text-anchor="end">{r["case"]}, {r["threads"]} thr</text>'
                   f'<rect x="{a}" y="{y}" width="{b - a}" height="12" fill="{colour}"/>'
                   f'<line x1="{x(low)}" y1="{y + 6}" x2="{x(top)}" y2="{y + 6}" stroke="#000"/>')
    return "\n".join(out + ["</svg>"]) + "\n"


def write_json(path, machine, rows):
    """A line a case, four digits: what changes is seen in a diff."""
    def short(v):
        if isinstance(v, list):
            return [short(x) for x in v]
        return float(f"{v:.4g}") if isinstance(v, float) else v

    lines = ",\n".join("  " + json.dumps({k: short(v) for k, v in r.items()}) for r in rows)
    with open(path, "w") as f:
        f.write('{"machine": ' + json.dumps(machine) + ',\n "rows": [\n' + lines + "\n]}\n")


def parent(args):
    committed = os.path.join(HERE, "cpu.json")
    last = {}
    if os.path.exists(committed):
        old = json.load(open(committed))
        last = {(r["case"], r["threads"] == 1): r for r in old["rows"]}
        print("last: " + "; ".join(f"{k} {v}" for k, v in old["machine"].items()))
    m = machine()
    print("today: " + "; ".join(f"{k} {v}" for k, v in m.items()))
    print("ratio: the best peer's time by ours, above 1 favours stax; last: the committed figures (tests/bench/cpu.json)")
    print(line([c for c, _ in COLUMNS]))
    rows = []
    for threads in sorted({1, os.cpu_count()}) if not args.threads else [args.threads]:
        env = dict(os.environ, STAX_THREADS=str(threads), OMP_NUM_THREADS=str(threads), OPENBLAS_NUM_THREADS=str(threads))
        p = subprocess.Popen([sys.executable, os.path.realpath(__file__), "--child", "--threads", str(threads), "--rounds",
                              str(args.rounds)] + (["--no-compile"] if not args.compile else []) +
                             ["--build", args.build] + args.cases, env=env, stdout=subprocess.PIPE, text=True)
        for text in p.stdout:
            if text.startswith("ROW "):
                rows.append(json.loads(text[4:]))
                print(describe(rows[-1], last), flush=True)
        if p.wait():
            return 1
    print("\n".join(summary(rows)))
    if args.json:
        write_json(args.json, m, rows)
    if args.plot:
        open(args.plot, "w").write(plot(rows, f"best peer / stax, {m['cpu']}, {m['cores']} cores, {m['date']}"))
    return 1 if any(r.get("is_wrong") or "failed" in r for r in rows) else 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("cases", nargs="*", help="names or globs; all by default")
    p.add_argument("--json", metavar="FILE", help="writes everything measured; tests/bench/cpu.json is the committed one")
    p.add_argument("--plot", metavar="FILE", help="writes an SVG")
    p.add_argument("--rounds", type=int, default=ROUNDS)
    p.add_argument("--threads", type=int, help="only this number")
    p.add_argument("--no-compile", dest="compile", action="store_false", help="leaves torch.compile out")
    p.add_argument("--list", action="store_true", help="names of the cases")
    p.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    p.add_argument("--build", default=os.environ.get("STAX_BUILD", os.path.join(ROOT, "build")))
    args = p.parse_args()
    return child(args) if args.child or args.list else parent(args)


if __name__ == "__main__":
    sys.exit(main())
