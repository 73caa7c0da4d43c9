#!/usr/bin/env python3
"""The GPU table: stax against PyTorch (eager and torch.compile) and a copy of the same bytes, in one process.

Called by bench_gpu.sh, which starts a daemon and finds NVRTC. Needs torch. Every case is a graph of
tests/bench/gpu and a function here that computes the same with torch.

Method: contenders alternate, ROUNDS rounds of RUNS runs each, every run behind a write that empties the L2;
times are of the device, between events; the median of all runs counts. Inputs are random normal numbers, memory
is there before: stax writes into given outputs, torch takes its own from its caching allocator. stax launches the
configurations that its first run measured (--no-tune: the heuristic's). The floor is a copy that moves the same
bytes (each input read once, each output written once). Errors are largest absolute differences from float64. Host
times are of calls that are not waited for, stax's through ctypes. A compile is cold when neither artifact nor
kernel is known, in a worker that has compiled before."""

import argparse
import ctypes as C
import datetime
import fnmatch
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import torch.nn.functional as F

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))

# ---- libstax: client/stax.h, proto/base/stax_abi.h -------------------------------------------------


class Error(C.Structure):
    _fields_ = [("code", C.c_int), ("stage", C.c_char * 24), ("node", C.c_char * 96),
                ("location", C.c_char * 160), ("text", C.c_char * 512)]


class Tensor(C.Structure):
    _fields_ = [("data", C.c_void_p), ("dtype", C.c_uint8), ("rank", C.c_uint8), ("flags", C.c_uint16),
                ("reserved", C.c_uint32), ("offset", C.c_int64), ("sizes", C.c_int64 * 16), ("strides", C.c_int64 * 16)]


class Env(C.Structure):
    _fields_ = [("ctx", C.c_void_p), ("parallel_for", C.c_void_p), ("allocate", C.c_void_p),
                ("release", C.c_void_p), ("stream", C.c_void_p)]


class Request(C.Structure):
    _fields_ = [("format", C.c_int), ("graph", C.c_char_p), ("graph_bytes", C.c_size_t), ("target", C.c_char_p),
                ("training", C.c_int), ("dynamic", C.c_int), ("fast", C.c_int), ("allow_fallback", C.c_int),
                ("recache", C.c_int), ("deadline_ms", C.c_uint32), ("ns", C.c_char_p), ("values", C.c_void_p),
                ("nvalues", C.c_size_t), ("blockings", C.c_void_p), ("nblockings", C.c_size_t), ("progress", C.c_void_p),
                ("progress_ctx", C.c_void_p)]


class Stage(C.Structure):
    _fields_ = [("name", C.c_char_p), ("us", C.c_uint64)]


class Tuning(C.Structure):
    _fields_ = [("request", C.c_void_p), ("target", C.c_char_p), ("ns", C.c_char_p), ("fast", C.c_int),
                ("measurements", C.c_uint32), ("runs", C.c_uint32), ("sweep", C.c_uint32), ("report", C.c_void_p), ("ctx", C.c_void_p)]


class Tuned(C.Structure):
    _fields_ = [("kernel", C.c_char_p), ("heuristic", C.c_char_p), ("chosen", C.c_char_p), ("threads", C.c_uint32),
                ("heuristic_us", C.c_double), ("chosen_us", C.c_double), ("swept_us", C.c_double),
                ("swept", C.c_char_p), ("candidates", C.c_uint32), ("measured", C.c_uint32)]


class Answer(C.Structure):  # its first fields
    _fields_ = [("key", C.c_char * 65), ("digest", C.c_char * 65), ("target", C.c_char * 64),
                ("size_bytes", C.c_uint64), ("path", C.c_char_p), ("reason", C.c_char_p), ("hit", C.c_int),
                ("stored", C.c_int), ("stages", C.POINTER(Stage)), ("nstages", C.c_size_t)]


DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64, "f64": torch.float64,
          "i32": torch.int32, "u8": torch.uint8, "bool": torch.bool}


class StaxError(Exception):
    pass


class Stax:
    """A client of libstax. Calls raise StaxError with the error's text."""

    def __init__(self, build):
        self.lib = C.CDLL(os.path.join(build, "libstax.so"))
        self.lib.stax_error_name.restype = C.c_char_p
        self.client = C.c_void_p()
        self.call("stax_connect", None, C.byref(self.client))

    def call(self, name, *args):
        e = Error()
        if getattr(self.lib, name)(*args, C.byref(e)):
            raise StaxError(f"{self.lib.stax_error_name(e.code).decode()}: {e.text.decode()}")

    def request(self, text, target, fast=False):
        text = text.encode()
        return Request(format=2, graph=text, graph_bytes=len(text), target=target.encode(), fast=fast)

    def target(self, text):
        out = C.create_string_buffer(64)
        self.call("stax_target", text.encode(), out, C.c_size_t(64))
        return out.value.decode()

    def compile(self, text, target, fast=False):
        """The answer's facts and its seconds; .artifact is loaded."""
        r, a = self.request(text, target, fast), C.POINTER(Answer)()
        start = time.perf_counter()
        self.call("stax_compile", self.client, C.byref(r), C.byref(a))
        seconds = time.perf_counter() - start
        artifact = C.c_void_p()
        self.call("stax_load", self.client, a, C.byref(artifact))
        k = a.contents
        facts = {"hit": bool(k.hit),
                 "stages_us": {k.stages[i].name.decode(): k.stages[i].us for i in range(k.nstages)}}
        self.lib.stax_answer_free(a)
        return artifact, facts, seconds

    def tune(self, artifact, sweep):
        """The next run measures; tuned() then tells what it found."""
        t = Tuning(sweep=sweep)
        self.call("stax_tune_next_run", artifact, self.client, C.byref(t))

    def tuned(self, artifact):
        found = (Tuned * 64)()
        n = min(64, self.lib.stax_tuned(artifact, found, 64))
        return [{name: v.decode() if isinstance(v, bytes) else v
                 for name, v in ((f[0], getattr(t, f[0])) for f in Tuned._fields_)} for t in found[:n]]

    def source(self, text, target, fast=False):
        r, out, n = self.request(text, target, fast), C.c_void_p(), C.c_size_t()
        self.call("stax_dump", self.client, C.byref(r), b"source", b"text", C.byref(out), C.byref(n))
        return C.string_at(out, n.value).decode()

    def outputs(self, artifact):
        """Shapes and dtype numbers of the outputs."""
        found = []
        for i in range(self.lib.stax_noutputs(artifact)):
            t = Tensor()
            self.lib.stax_output(artifact, i, C.byref(t), None)
            found.append((tuple(t.sizes[:t.rank]), t.dtype))
        return found

    @staticmethod
    def tensors(all_, numbers):
        made = (Tensor * max(1, len(all_)))()
        for to, x in zip(made, all_):
            to.data, to.dtype, to.rank = x.data_ptr(), numbers[x.dtype], x.dim()
            to.sizes[:x.dim()], to.strides[:x.dim()] = list(x.shape), list(x.stride())
        return made

    def prepare(self, artifact, inputs, numbers):
        """Parameters packed, for launcher(); they stay packed as long as the process."""
        p = C.c_void_p()
        self.call("stax_prepare", artifact, self.tensors(inputs, numbers), len(inputs), None, C.byref(p))
        return p

    def launcher(self, artifact, inputs, outputs, numbers, stream, prepared=None):
        """A function of no arguments: one run, launched and not waited for."""
        ins, outs, env, e = self.tensors(inputs, numbers), self.tensors(outputs, numbers), Env(stream=stream), Error()
        run, ne, no = self.lib.stax_run_prepared, len(inputs), len(outputs)
        args = (artifact, prepared, ins, ne, outs, no, C.byref(env), C.byref(e))

        def go():
            if run(*args):
                raise StaxError(e.text.decode())
        return go


# ---- NVRTC alone -----------------------------------------------------------------------------------


class Nvrtc:
    """The library that workers load, with the options of kernels/5_codegen/nvrtc.c."""

    def __init__(self):
        self.lib = None
        home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
        for path in [f"{home}/{d}/libnvrtc.so.{v}" for d in ("lib64", "lib") for v in (13, 12)] + ["libnvrtc.so.13"]:
            try:
                self.lib = C.CDLL(path)
                break
            except OSError:
                pass

    def version(self):
        a, b = C.c_int(), C.c_int()
        return f"{a.value}.{b.value}" if self.lib and not self.lib.nvrtcVersion(C.byref(a), C.byref(b)) else None

    def seconds(self, source, arch):
        options = [f"--gpu-architecture={arch}", "--std=c++17", "--device-as-default-execution-space", "--ftz=false",
                   "--prec-div=true", "--prec-sqrt=true", "--fmad=false"]
        if (self.version() or "0") >= "13":  # its cache would answer from the second time on
            options += ["--minimal", "--no-cache"]
        argv = (C.c_char_p * len(options))(*[o.encode() for o in options])
        p, n = C.c_void_p(), C.c_size_t()
        start = time.perf_counter()
        failed = (self.lib.nvrtcCreateProgram(C.byref(p), source.encode(), b"kernel.cu", 0, None, None)
                  or self.lib.nvrtcCompileProgram(p, len(options), argv) or self.lib.nvrtcGetCUBINSize(p, C.byref(n)))
        if not failed:
            self.lib.nvrtcGetCUBIN(p, C.create_string_buffer(n.value))
        seconds = time.perf_counter() - start
        self.lib.nvrtcDestroyProgram(C.byref(p))
        return None if failed else seconds

    def of_graph(self, sources, arch):
        """All kernels one after the other: the median of three."""
        each = [re.split(r"^// ---- .* ----\n", sources, flags=re.M)[1:]] * 3
        times = [[self.seconds(s, arch) for s in kernels] for kernels in each]
        return None if any(None in t for t in times) else statistics.median(sum(t) for t in times)


# ---- cases: what torch does for each graph ---------------------------------------------------------

EPS = 1e-6


def up(x):  # the precision that half types are computed in; float64 stays
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def rmsnorm(x, r, w):
    return F.rms_norm(x + r, [x.shape[-1]], w, EPS)


def rmsnorm_backward(g, x, s, w):
    gf, n = up(g), up(x) * s
    gw = gf * up(w)
    dx = (gw - n * (gw * n).mean(-1, True)) * s
    return dx.to(x.dtype), (gf * n).sum(0).to(x.dtype)


def rmsnorm_backward_library(g, x, s, w):
    return torch.ops.aten._fused_rms_norm_backward(g, x, [x.shape[-1]], s, w, [True, True])


def layernorm_backward(g, x, m, s, w):
    if x.is_cuda and x.dtype != torch.float64:
        return torch.ops.aten.native_layer_norm_backward(g, x, [x.shape[-1]], m, s, w, w, [True, True, True])
    gf = up(g)
    n, gw = (up(x) - m) * s, gf * up(w)
    dx = (gw - gw.mean(-1, True) - n * (gw * n).mean(-1, True)) * s
    return dx.to(x.dtype), (gf * n).sum(0).to(x.dtype), gf.sum(0).to(x.dtype)


def batchnorm_relu_nhwc(x, w, b, m, v):
    y = F.relu(F.batch_norm(x, m, v, w, b, False, 0.1, 1e-5))
    return y.contiguous(memory_format=torch.channels_last).permute(0, 2, 3, 1)


def nhwc(x):  # as NCHW, channels last in memory
    return x.permute(0, 3, 1, 2)


def convolution(stride, padding):
    return lambda x, w: F.conv2d(nhwc(x), nhwc(w), None, stride, padding).permute(0, 2, 3, 1)


def attention(causal):
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal)


def attention_mask(q, k, v, m):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=m)


def padding(m):
    """A tenth of the keys is hidden."""
    return torch.where(torch.rand_like(m) < 0.1, float("-inf"), 0.0).to(m.dtype)


def conv_block(x, w, b, v, c):
    y = F.relu(F.conv2d(nhwc(x), nhwc(w), b, 1, 1))
    return F.relu(F.conv2d(y, nhwc(v), c, 1, 1)).permute(0, 2, 3, 1)


def dropped(outputs, x, y):
    """A dropout's numbers are no other's: what is kept is right, and a tenth is not."""
    got, want = outputs[0].double(), F.gelu(x.double()) * y.double() / 0.9
    kept = got != 0
    share = 1 - kept.double().mean().item()
    if abs(share - 0.1) > 0.1 / x.numel()**0.25:
        return float("inf"), want.abs().max().item()
    return ((got - want) * kept).abs().max().item(), want.abs().max().item()


def row_statistics(inputs, x):
    f = x.float()
    return f.mean(-1, True), torch.rsqrt(f.var(-1, False, True) + 1e-5)


# name: (function, what makes inputs that are not normal numbers, the check when it is not float64's)
CASES = {
    "relu_add_mul_row_sum": (lambda a, b: (torch.relu(a + b) * 2).sum(-1), None, None),
    "transpose_add": (lambda a, b: a.t() + b, None, None),
    "swiglu": (lambda a, b: F.silu(a) * b, None, None),
    "gelu_backward": (lambda g, x: torch.ops.aten.gelu_backward(g, x), None, None),
    "square_row_sum": (lambda x: (x * x).sum(-1), None, None),
    "sum": (lambda x: x.sum(), None, None),
    "softmax_f32": (lambda x: x.softmax(-1), None, None),
    "softmax_bf16_32k": (lambda x: x.softmax(-1), None, None),
    "softmax_bf16_128k": (lambda x: x.softmax(-1), None, None),
    "column_sum": (lambda x: x.sum(0), None, None),
    "layernorm": (lambda x, w, b: F.layer_norm(x, [x.shape[-1]], w, b), None, None),
    "residual_rmsnorm": (rmsnorm, None, None),
    "cross_entropy": (lambda x, t: F.cross_entropy(up(x), t),
                      lambda i: {"t": torch.randint(0, i["x"].shape[1], i["t"].shape, device=i["x"].device)}, None),
    "gelu_mul_dropout": (lambda x, y: F.dropout(F.gelu(x) * y, 0.1, True), None, dropped),
    "batchnorm_relu_nhwc": (batchnorm_relu_nhwc, lambda i: {"v": i["v"].abs() + 0.5}, None),
    "layernorm_backward": (layernorm_backward,
                           lambda i: dict(zip("ms", row_statistics(i, i["x"]))), None),
    "rmsnorm_backward": (rmsnorm_backward, lambda i: {"s": row_statistics(i, i["x"])[1]}, None),
    "conv_3x3_f16": (convolution(1, 1), None, None),
    "conv_1x1_f16": (convolution(1, 0), None, None),
    "conv_7x7_f16": (convolution(2, 3), None, None),
    "conv_3x3_f32": (lambda x, w: F.conv2d(x, w, None, 1, 1), None, None),
    "conv_block_f16": (conv_block, None, None),
    "attention_f16": (attention(False), None, None),
    "attention_causal_f16": (attention(True), None, None),
    "attention_bf16": (attention(False), None, None),
    "attention_causal_bf16": (attention(True), None, None),
    "attention_mask_bf16": (attention_mask, lambda i: {"m": padding(i["m"])}, None),
    "attention_bias_f16": (attention_mask, None, None),
}

# Compiled with --fast, which torch's own rounding of attention's weights is.
FAST = {name for name in CASES if name.startswith("attention_")}

# Where the library has one function for what torch.compile is given spelt out: eager's, if it is there and runs.
EAGER = {"rmsnorm_backward": rmsnorm_backward_library}

# ---- measuring -------------------------------------------------------------------------------------


class Bench:
    def __init__(self, args):
        self.args = args
        self.gpu = args.device == "cuda"
        self.device = torch.device(args.device)
        self.stax = Stax(args.build)
        self.target = self.stax.target(args.device)
        self.numbers = self.dtype_numbers()
        self.nvrtc = Nvrtc()
        if self.gpu:
            torch.cuda.init()
            torch.backends.cudnn.allow_tf32 = False  # as strict has it
            torch.backends.cudnn.benchmark = True  # eager measures its engines too
            self.stream = torch.cuda.current_stream().cuda_stream
            self.flush = torch.empty(max(256 << 20, 4 * getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 0)),
                                     dtype=torch.uint8, device="cuda")

    def dtype_numbers(self):
        text = "".join(f"%a_{n} : {n}[1] = placeholder()\n" for n in DTYPES)
        text += "return (" + ", ".join(f"%a_{n}" for n in DTYPES) + ")\n"
        artifact, _, _ = self.stax.compile(text, "cpu")
        return {t: number for t, (_, number) in zip(DTYPES.values(), self.stax.outputs(artifact))}

    def sync(self):
        if self.gpu:
            torch.cuda.synchronize()

    def device_times(self, fn):
        """Microseconds of RUNS runs, each with a cold L2."""
        if not self.gpu:
            times = []
            for _ in range(self.args.runs):
                start = time.perf_counter()
                fn()
                times.append((time.perf_counter() - start) * 1e6)
            return times
        events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
                  for _ in range(self.args.runs)]
        for begin, end in events:
            self.flush.zero_()
            begin.record()
            fn()
            end.record()
        self.sync()
        return [begin.elapsed_time(end) * 1e3 for begin, end in events]

    def host_us(self, fn):
        """Of one call, nothing waited for; the device's queue is never full."""
        times = []
        for _ in range(5):
            self.sync()
            start = time.perf_counter()
            for _ in range(20):
                fn()
            times.append((time.perf_counter() - start) / 20 * 1e6)
        self.sync()
        return statistics.median(times)

    def inputs(self, text, make):
        made = {}
        for name, dtype, sizes in re.findall(r"^%(\w+) : (\w+)\[([\d,]*)\] = placeholder", text, re.M):
            sizes = [int(n) for n in sizes.split(",") if n]
            made[name] = torch.randn(sizes, device=self.device, dtype=DTYPES[dtype]) if dtype != "i64" else \
                torch.zeros(sizes, device=self.device, dtype=torch.int64)
        made.update(make(made) if make else {})
        return list(made.values())

    def error(self, fn, check, got, inputs, reference):
        """The largest difference from float64, and the largest magnitude there."""
        if check:
            return check(got, *inputs)
        worst, scale = 0.0, 0.0
        for g, want in zip(got, reference):
            worst = max(worst, (g.double() - want).abs().max().item())
            scale = max(scale, want.abs().max().item())
        return worst, scale


def as_tuple(x):
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


def eager_function(name, fn, inputs):
    library = EAGER.get(name, fn)
    try:
        library(*inputs)
        return library
    except (AttributeError, NotImplementedError, RuntimeError):
        return fn


def kernels_of(b, name, text):
    """As the tool tells them."""
    with tempfile.NamedTemporaryFile("w", prefix=name, suffix=".stax") as f:
        f.write(text)
        f.flush()
        said = subprocess.run([os.path.join(b.args.build, "stax"), "compile", f.name, "--target", b.target, "--json"] +
                              ["--fast"] * (name in FAST), capture_output=True, text=True)
    return json.loads(said.stdout).get("kernels") if said.returncode == 0 else None


def run_case(b, name):
    fn, make, check = CASES[name]
    text = open(os.path.join(HERE, "gpu", name + ".stax")).read()
    if b.args.small:
        text = re.sub(r"\[[\d, ]+\]", lambda m: re.sub(
            r"\d+", lambda n: n.group() if int(n.group()) < 100 else str(int(n.group()) // 16), m.group()), text)
    row = {"case": name}
    torch.manual_seed(1)
    inputs = b.inputs(text, make)
    contenders = {}

    try:
        artifact, facts, cold = b.stax.compile(text, b.target, name in FAST)
        _, again, warm = b.stax.compile(text, b.target, name in FAST)
        row.update(facts, cold_ms=cold * 1e3, warm_ms=warm * 1e3, is_cold=not facts["hit"])
        types = {number: t for t, number in b.numbers.items()}
        outputs = [torch.full(shape, float("nan"), device=b.device).to(types[number])
                   for shape, number in b.stax.outputs(artifact)]
        launch = b.stax.launcher(artifact, inputs, outputs, b.numbers, b.stream if b.gpu else None)
        if b.gpu and b.args.tune:
            b.stax.tune(artifact, b.args.sweep)
        launch()
        row["tuned"] = b.stax.tuned(artifact)
        row["kernels"] = kernels_of(b, name, text)
        contenders["stax"] = launch
    except StaxError as e:
        row["refused"] = str(e)
        outputs = None
    if outputs is not None and b.gpu and b.nvrtc.lib:
        seconds = b.nvrtc.of_graph(b.stax.source(text, b.target, name in FAST), b.target.split(":")[1])
        row["nvrtc_ms"] = seconds and seconds * 1e3

    moved = inputs + list(outputs if outputs is not None else as_tuple(fn(*inputs)))
    row["bytes"] = sum(x.numel() * x.element_size() for x in moved)
    half = torch.empty(max(1, row["bytes"] // 2), dtype=torch.uint8, device=b.device)
    other = torch.empty_like(half)
    contenders["copy"] = lambda: other.copy_(half)
    eager = eager_function(name, fn, inputs)
    contenders["eager"] = lambda: eager(*inputs)
    if b.args.compile:
        torch._dynamo.reset()
        compiled = torch.compile(fn)
        start = time.perf_counter()
        try:
            compiled(*inputs)
            b.sync()
            row["compile_cold_ms"] = (time.perf_counter() - start) * 1e3
            contenders["compile"] = lambda: compiled(*inputs)
        except Exception as e:  # any backend's own error
            row["compile_refused"] = str(e).splitlines()[0][:200]

    reference = None
    if not check:
        reference = as_tuple(fn(*[x.double() if x.is_floating_point() else x for x in inputs]))
    scale = 0.0
    for who, run in contenders.items():
        if who != "copy":
            got = run()
            b.sync()
            row[who + "_error"], scale = b.error(fn, check, outputs if who == "stax" else as_tuple(got), inputs, reference)
            del got
    del reference
    torch.cuda.empty_cache()
    if "stax" in contenders:
        half_type = any(x.dtype == torch.bfloat16 for x in outputs)
        bound = max([row.get(p + "_error", 0) * 4 for p in ("eager", "compile")] + [scale * (2**-7 if half_type else 1e-5)])
        row["is_wrong"] = not row["stax_error"] <= bound

    times = {who: [] for who in contenders}
    for run in contenders.values():
        for _ in range(3):
            run()
    for _ in range(b.args.rounds):
        for who, run in contenders.items():
            times[who].append(b.device_times(run))
    for who, rounds in times.items():
        row[who + "_us"] = statistics.median(t for r in rounds for t in r)
        row[who + "_rounds_us"] = [statistics.median(r) for r in rounds]
        if who != "copy":
            row[who + "_host_us"] = b.host_us(contenders[who])
    peers = {p: row[p + "_us"] for p in ("eager", "compile") if p in contenders}
    if "stax" in contenders:
        row["floor_fraction"] = row["copy_us"] / row["stax_us"]
        row["best_peer"] = min(peers, key=peers.get)
        row["ratio"] = min(peers.values()) / row["stax_us"]
    return row


# ---- the table -------------------------------------------------------------------------------------

COLUMNS = (("case", 21), ("MB", 7), ("stax us", 9), ("copy", 9), ("eager", 9), ("compile", 9), ("floor", 6),
           ("ratio", 6), ("host us", 15), ("error", 19), ("cold ms", 7), ("nvrtc", 6), ("warm", 6), ("t.c. ms", 7))


def line(cells):
    return "| " + " | ".join(str(c).ljust(w) if i == 0 else str(c).rjust(w)
                             for i, (c, (_, w)) in enumerate(zip(cells, COLUMNS))) + " |"


def number(x, digits=1):
    return "-" if x is None else f"{x:.{digits}f}"


def describe(r):
    g = r.get
    host = "/".join(number(g(p + "_host_us"), 0 if p != "stax" else 1) for p in ("stax", "eager", "compile"))
    errors = "/".join("-" if g(p + "_error") is None else f"{g(p + '_error'):.0e}" for p in ("stax", "eager", "compile"))
    return line([r["case"], number(r["bytes"] / 1e6), number(g("stax_us")), number(g("copy_us")), number(g("eager_us")),
                 number(g("compile_us")), number(g("floor_fraction"), 2), number(g("ratio"), 2), host, errors,
                 number(g("cold_ms")) + ("" if g("is_cold", True) else "h"), number(g("nvrtc_ms")), number(g("warm_ms"), 2),
                 number(g("compile_cold_ms"), 0)])


def machine(b):
    def first(path, what):
        try:
            return next((l.split(":", 1)[1].strip() for l in open(path) if l.startswith(what)), "")
        except OSError:
            return ""
    try:
        revision = open(os.path.join(ROOT, "REVISION")).read().strip()
    except OSError:
        revision = os.popen(f"git -C '{ROOT}' describe --always --dirty 2>/dev/null").read().strip()
    m = {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"), "stax": revision,
         "target": b.target, "torch": torch.__version__, "cuda_of_torch": torch.version.cuda, "nvrtc": b.nvrtc.version(),
         "python": platform.python_version(), "cpu": first("/proc/cpuinfo", "model name"), "cores": os.cpu_count(),
         "linux": platform.release(), "rounds": b.args.rounds, "runs": b.args.runs, "small": b.args.small}
    try:
        import triton
        m["triton"] = triton.__version__
    except ImportError:
        pass
    if b.gpu:
        p = torch.cuda.get_device_properties(0)
        m.update(gpu=p.name, sms=p.multi_processor_count, memory_gib=round(p.total_memory / 2**30, 1),
                 driver=os.popen("nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null").readline().strip(),
                 clocks=os.popen("nvidia-smi --query-gpu=clocks.max.sm,clocks.max.mem --format=csv,noheader 2>/dev/null")
                 .readline().strip())
    return m


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("cases", nargs="*", help="names or globs; all by default")
    p.add_argument("--json", metavar="FILE", help="writes everything measured")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--runs", type=int, default=50)
    p.add_argument("--no-compile", dest="compile", action="store_false", help="leaves torch.compile out")
    p.add_argument("--no-tune", dest="tune", action="store_false", help="the heuristic's configurations, not measured ones")
    p.add_argument("--sweep", type=int, default=0, metavar="N", help="N other configurations measured beside, for comparison")
    p.add_argument("--small", action="store_true", help="sizes over 100 divided by 16: a trial, no measurement")
    p.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: tries the script out")
    p.add_argument("--list", action="store_true")
    p.add_argument("--build", default=os.environ.get("STAX_BUILD", os.path.join(ROOT, "build")))
    args = p.parse_args()
    names = [n for n in CASES if not args.cases or any(fnmatch.fnmatch(n, c) for c in args.cases)]
    if args.list or not names:
        print("\n".join(CASES))
        return 0 if args.list else 2
    os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"
    b = Bench(args)
    b.stax.compile(open(os.path.join(ROOT, "tests/gpu/graphs/pointwise_1d.stax")).read(), b.target)  # warms a worker
    if b.nvrtc.lib and b.gpu:
        b.nvrtc.of_graph("// ---- warm ----\nextern \"C\" __global__ void warm(float *p) { *p = 0; }", b.target.split(":")[1])
    result = {"machine": machine(b), "rows": []}
    print("; ".join(f"{k} {v}" for k, v in result["machine"].items()))
    print("floor: the copy's time / ours; ratio: the best peer's time / ours; host us and error: ours/eager/compile;\n"
          "nvrtc: alone, on our source; t.c.: torch.compile's first call")
    print(line([c for c, _ in COLUMNS]))
    print("|" + "|".join("-" * (w + 2) for _, w in COLUMNS) + "|")
    bad = 0
    for name in names:
        try:
            row = run_case(b, name)
        except (RuntimeError, StaxError) as e:  # out of memory is one
            row = {"case": name, "bytes": 0, "failed": str(e).splitlines()[0]}
        result["rows"].append(row)
        print(describe(row) + (" WRONG" if row.get("is_wrong") else ""), flush=True)
        for t in row.get("tuned", []):
            print(f"  {t['kernel']}: {t['chosen']} {t['chosen_us']:.1f} us; heuristic {t['heuristic']} {t['heuristic_us']:.1f} us"
                  + (f"; best swept {t['swept']} {t['swept_us']:.1f} us" if t["swept"] else ""), flush=True)
        for why in ("refused", "compile_refused", "failed"):
            if why in row:
                print(f"  {why}: {row[why]}", flush=True)
        bad += bool(row.get("is_wrong") or "refused" in row or "failed" in row)
        torch.cuda.empty_cache()
    if args.json:
        with open(args.json, "w") as f:
            json.dump(result, f, indent=1)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
