#!/usr/bin/env python3
"""Networks of the CPU table: each written once, as graph text for stax and as a function of torch.

network(NAME) -> (graph text, torch function of the inputs, inputs). Weights are inputs, random, of the sizes and the
scale that keep activations near 1. Run alone it prints the graph: bench_models.py NAME."""

import math
import sys


class Net:
    """A value is (name, sizes). Operators append a line of text and a step of the torch program."""

    def __init__(self):
        self.inputs, self.lines, self.steps = [], [], []

    def input(self, sizes, kind="data"):
        name = f"x{len(self.inputs)}"
        self.inputs.append((name, sizes, kind))
        return name, list(sizes)

    def call(self, text, sizes, fn, *operands):
        """text: the operator with {} for operands; fn: the same of torch, of operand tensors."""
        name = f"n{len(self.steps)}"
        self.lines.append(f"%{name} = " + text.format(*("%" + v[0] for v in operands)))
        self.steps.append((name, fn, [v[0] for v in operands]))
        return name, list(sizes)

    def text(self, result):
        heads = [f"%{n} : f32[{','.join(map(str, s))}] = placeholder({'param=True' if kind == 'weight' else ''})"
                 for n, s, kind in self.inputs]
        return "\n".join(heads + self.lines + [f"return (%{result[0]})"]) + "\n"

    def function(self, result):
        def run(*values):
            at = dict(zip((n for n, _, _ in self.inputs), values))
            for name, fn, operands in self.steps:
                at[name] = fn(*(at[o] for o in operands))
            return at[result[0]]
        return run

    def data(self, torch):
        made = []
        for _, sizes, kind in self.inputs:
            x = torch.randn(sizes)
            if kind == "weight":  # [out, in...]
                x = x / math.sqrt(math.prod(sizes[1:]))
            if kind == "variance":
                x = x.abs() + 0.5
            if kind == "gain":
                x = 1 + 0.1 * x
            made.append(x)
        return made


def resnet50(net, F, batch=1):
    def conv(x, out, k, stride=1):
        (n, c, h, _), pad = x[1], k // 2
        side = (h + 2 * pad - k) // stride + 1
        w = net.input((out, c, k, k), "weight")
        y = net.call("convolution.default({}, {}, None, [%d, %d], [%d, %d], [1, 1], False, [0, 0], 1)" %
                     (stride, stride, pad, pad), (n, out, side, side), lambda x, w: F.conv2d(x, w, None, stride, pad), x, w)
        norm = [net.input((out,), kind) for kind in ("gain", "data", "data", "variance")]
        return net.call("_native_batch_norm_legit_no_training.default({}, {}, {}, {}, {}, 0.1, 1e-05)", y[1],
                        lambda x, g, b, m, v: F.batch_norm(x, m, v, g, b, False, 0.1, 1e-5), y, *norm)

    def relu(x):
        return net.call("relu.default({})", x[1], F.relu, x)

    def block(x, width, stride):
        y = relu(conv(relu(conv(x, width, 1)), width, 3, stride))
        y = conv(y, 4 * width, 1)
        if x[1] != y[1]:
            x = conv(x, 4 * width, 1, stride)
        return relu(net.call("add.Tensor({}, {})", y[1], lambda a, b: a + b, y, x))

    x = relu(conv(net.input((batch, 3, 224, 224)), 64, 7, 2))
    x = net.call("max_pool2d_with_indices.default({}, [3, 3], [2, 2], [1, 1])", (batch, 64, 56, 56),
                 lambda x: F.max_pool2d(x, 3, 2, 1), x)
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(blocks):
            x = block(x, width, stride if i == 0 else 1)
    x = net.call("mean.dim({}, [2, 3])", (batch, 2048), lambda x: x.mean((2, 3)), x)
    return linear(net, F, x, 1000)


def linear(net, F, x, out):
    w, b = net.input((out, x[1][-1]), "weight"), net.input((out,))
    return net.call("linear.default({}, {}, {})", x[1][:-1] + [out], F.linear, x, w, b)


def gpt2(net, F, blocks=1, tokens=1024, width=768, heads=12):
    """GPT-2's block: pre-norm, causal attention, 4x MLP with the tanh GELU."""
    def norm(x):
        g, b = net.input((width,), "gain"), net.input((width,))
        return net.call("layer_norm.default({}, [%d], {}, {})" % width, x[1],
                        lambda x, g, b: F.layer_norm(x, (width,), g, b), x, g, b)

    def add(a, b):
        return net.call("add.Tensor({}, {})", a[1], lambda a, b: a + b, a, b)

    def attention(x):
        size = width // heads
        parts = linear(net, F, x, 3 * width)
        qkv = [net.call("slice.Tensor({}, 2, %d, %d)" % (i * width, (i + 1) * width), (1, tokens, width),
                        lambda p, i=i: p[:, :, i * width:(i + 1) * width], parts) for i in range(3)]
        split = [net.call("view.default({}, [1, %d, %d, %d])" % (tokens, heads, size), (1, tokens, heads, size),
                          lambda x: x.view(1, tokens, heads, size), x) for x in qkv]
        q, k, v = [net.call("permute.default({}, [0, 2, 1, 3])", (1, heads, tokens, size),
                            lambda x: x.permute(0, 2, 1, 3), x) for x in split]
        k = net.call("permute.default({}, [0, 1, 3, 2])", (1, heads, size, tokens), lambda k: k, k)
        s = net.call("matmul.default({}, {})", (1, heads, tokens, tokens), lambda q, k: (q, k), q, k)
        s = net.call("mul.Scalar({}, %.17g)" % size ** -0.5, s[1], lambda s: s, s)
        s = net.call("where.self(%later, %none, {})", s[1], lambda s: s, s)
        s = net.call("_softmax.default({}, -1, False)", s[1], lambda s: s, s)
        y = net.call("matmul.default({}, {})", q[1],
                     lambda s, v: F.scaled_dot_product_attention(*s, v, is_causal=True), s, v)
        y = net.call("permute.default({}, [0, 2, 1, 3])", (1, tokens, heads, size), lambda x: x.permute(0, 2, 1, 3), y)
        y = net.call("reshape.default({}, [1, %d, %d])" % (tokens, width), (1, tokens, width),
                     lambda x: x.reshape(1, tokens, width), y)
        return linear(net, F, y, width)

    net.lines += [f"%row = arange.start_step(0, {tokens}, 1, dtype=i64)", f"%column = view.default(%row, [{tokens}, 1])",
                  "%later = gt.Tensor(%row, %column)", "%none = full.default([], -inf, dtype=f32)"]
    x = net.input((1, tokens, width))
    for _ in range(blocks):
        x = add(x, attention(norm(x)))
        h = net.call("gelu.default({}, approximate='tanh')", (1, tokens, 4 * width),
                     lambda x: F.gelu(x, approximate="tanh"), linear(net, F, norm(x), 4 * width))
        x = add(x, linear(net, F, h, width))
    return x


NETWORKS = {
    "resnet-50": resnet50,
    "gpt-2 block": gpt2,
    "12 gpt-2 blocks": lambda net, F: gpt2(net, F, blocks=12),
}


def network(name, torch):
    net = Net()
    result = NETWORKS[name](net, torch.nn.functional if torch else Nothing())
    return net.text(result), net.function(result), lambda: net.data(torch)


class Nothing:
    """In torch's place where only the text is wanted."""

    def __getattr__(self, name):
        return None


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in NETWORKS:
        sys.exit(f"usage: bench_models.py NAME, of: {', '.join(NETWORKS)}")
    print(network(sys.argv[1], None)[0], end="")
