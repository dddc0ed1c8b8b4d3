"""The layer on the GPU beside its peers: forward, and forward + backward, over lengths and orders."""

import itertools
import statistics
import sys

from cuda_peer import run_peer
from cuda_plan import BATCH, BATCHES, CHANNELS, CHUNKED_ORDERS, LENGTHS, orders, peer_orders
from cuda_timing import captured_ms, events_ms, rotation
from peers import torch_filter
from peers.torch_layer import ReleasedLayer, TorchLayer, run_pass

import torch

ROUNDS = 5  # over all orders, so that what a clock or a place in memory does to one figure is not taken for its order's


def draw(batch, length, order, dtype=torch.float32, sets=1):
    """A stable filter for each channel, sum |a| = 0.9, and `sets` of signals with the samples of a row side by side."""
    generator = torch.Generator("cuda").manual_seed(length + order)
    normal = lambda *shape: torch.randn(*shape, device="cuda", generator=generator)
    a = normal(CHANNELS, order)
    a = 0.9 * a / a.abs().sum(1, keepdim=True)
    b, h0 = normal(CHANNELS, order) / order**0.5, normal(CHANNELS)
    signals = [normal(batch, CHANNELS, length).to(dtype).transpose(1, 2) for _ in range(sets)]
    return a, b, h0, signals


def copy_ms(batch, length, dtype, seconds):
    """The floor: the samples read once and written once, by cudaMemcpyAsync or an elementwise kernel, captured or not,
    whichever is fastest."""
    sets = rotation(2 * batch * length * CHANNELS * dtype.itemsize)
    source = [torch.randn(batch, CHANNELS, length, device="cuda").to(dtype) for _ in range(sets)]
    target = [torch.empty_like(one) for one in source]
    copies = [lambda i: target[i].copy_(source[i]), lambda i: torch.neg(source[i], out=target[i])]
    in_turn = itertools.cycle(range(sets))
    captured = [captured_ms(copy, sets, seconds) for copy in copies]
    return min(*captured, *(events_ms(lambda: copy(next(in_turn)), seconds) for copy in copies))


class Ours:
    """torch.ops.rtf.kernel and convolve, captured in a CUDA graph; nothing else is in it."""

    def __init__(self, batch, length, order, dtype=torch.float32):
        self.sets = rotation(2 * batch * length * CHANNELS * dtype.itemsize)
        self.a, self.b, self.h0, self.signals = draw(batch, length, order, dtype, self.sets)
        self.length = length

    def forward(self, i=0):
        return torch.ops.rtf.convolve(self.signals[i], torch.ops.rtf.kernel(self.a, self.b, self.h0, self.length))

    def milliseconds(self, seconds):
        with torch.inference_mode():
            return captured_ms(self.forward, self.sets, seconds)

    def eager_milliseconds(self, seconds):
        with torch.inference_mode():
            return events_ms(self.forward, seconds)

    def mixed_milliseconds(self, seconds):
        """With a product by a (channels, channels) matrix after it, which S5 has built in."""
        batch = self.signals[0].shape[0]
        mix = torch.randn(CHANNELS, CHANNELS, device="cuda").div_(CHANNELS**0.5).expand(batch, -1, -1)
        with torch.inference_mode():
            return captured_ms(lambda i: self.forward(i) @ mix, self.sets, seconds)

    def filter(self, i):
        """The same filter with state, torch.ops.rtf.filter: chunks where the order is small."""
        return torch.ops.rtf.filter(self.signals[i], self.a, self.b, self.h0)[0]

    def chunked_milliseconds(self, seconds):
        with torch.inference_mode():
            return captured_ms(self.filter, self.sets, seconds)

    def forward_backward_milliseconds(self, forward, seconds):
        leaves = [one.requires_grad_() for one in (*self.signals, self.a, self.b, self.h0)]
        coefficients = leaves[self.sets :]
        y_gradient = torch.randn_like(self.signals[0])

        def call(i):
            return torch.autograd.grad(forward(i), [leaves[i], *coefficients], y_gradient)

        return captured_ms(call, self.sets, seconds)

    def error(self):
        """Of the first sequence against the padded computation in double, relative to the largest value."""
        exact = TorchLayer.of_filters(self.a, self.b, self.h0, self.length, torch.float64)
        with torch.inference_mode():
            expected = exact(self.signals[0][:1].double())
            got = self.forward()[:1]
        return float((got - expected).abs().max() / expected.abs().max())


def measure_ours(batch, length, seconds):
    """Rows {"what", "batch", "length", "order", "ms"}."""

    def row(what, order, ms):
        rows.append({"what": what, "batch": batch, "length": length, "order": order, "ms": ms})

    rows = []
    row("copy", None, copy_ms(batch, length, torch.float32, seconds))
    rounds = []
    for _ in range(ROUNDS):
        torch.cuda.empty_cache()  # other places in memory
        rounds.append([Ours(batch, length, order).milliseconds(seconds) for order in orders(length)])
    for order, times in zip(orders(length), zip(*rounds)):
        ours = Ours(batch, length, order)
        row("ours", order, statistics.median(times))
        if order == 64:
            rows[-1]["error"] = ours.error()
        if order in peer_orders("PyTorch", batch, length):
            row("ours, eager", order, ours.eager_milliseconds(seconds))
        if order in peer_orders("S5", batch, length):
            row("ours, mixed", order, ours.mixed_milliseconds(seconds))
        if order == 64 and batch > 1:
            row("ours, forward + backward", order, ours.forward_backward_milliseconds(ours.forward, seconds))
    if batch > 1:
        row("copy, bf16", None, copy_ms(batch, length, torch.bfloat16, seconds))
        row("ours, bf16", 64, Ours(batch, length, 64, torch.bfloat16).milliseconds(seconds))
        for order in CHUNKED_ORDERS:
            ours = Ours(batch, length, order)
            row("ours, filter", order, ours.chunked_milliseconds(seconds))
            both = ours.forward_backward_milliseconds(ours.filter, seconds)
            row("ours, filter, forward + backward", order, both)
    return rows


def attempt(what, call):
    """Milliseconds, or None where a peer fails: what it needs may exceed the memory."""
    try:
        return call()
    except RuntimeError as error:
        print(f"layer: {what} failed: {str(error).splitlines()[0]}", file=sys.stderr)
        return None


def measure_torch(batch, length, seconds):
    """Eager PyTorch: the published computation, the same with the samples of a row side by side, and lfilter."""

    def row(what, order, measure):
        ms = attempt(f"{what}, batch {batch}, length {length}, order {order}", measure)
        rows.append({"what": what, "batch": batch, "length": length, "order": order, "ms": ms})

    rows = []
    for what, kind, in_layout in (
        ("release", ReleasedLayer, lambda u: u.contiguous()),
        ("PyTorch", TorchLayer, lambda u: u),
    ):
        for order in peer_orders(what, batch, length):
            a, b, h0, signals = draw(batch, length, order)
            layer, u = kind.of_filters(a, b, h0, length), in_layout(signals[0])
            row(what, order, lambda: events_ms(lambda: run_pass(layer, "forward", u, None), seconds))
            if order == 64 and batch > 1:
                x, y_gradient = u.clone().requires_grad_(), torch.randn_like(u)
                both = lambda: run_pass(layer, "forward_backward", x, y_gradient)
                row(f"{what}, forward + backward", order, lambda: events_ms(both, seconds))
    for order in peer_orders("lfilter", batch, length):
        a, b, h0, signals = draw(batch, length, order)
        with torch.inference_mode():
            row("lfilter", order, lambda: events_ms(torch_filter.call(a, b, h0, signals[0].transpose(1, 2)), seconds))
    return rows


def jax_jobs(seconds):
    for length in LENGTHS:
        for layer, what in (("rtf", "JAX"), ("s5", "S5")):
            cases = [(batch, n, "forward") for batch in BATCHES for n in peer_orders(what, batch, length)]
            if layer == "rtf":
                cases.append((BATCH, 64, "forward_backward"))
            for batch, order, name in cases:
                yield {"layer": layer, "batch": batch, "length": length, "channels": CHANNELS, "order": order,
                       "pass": name, "seconds": seconds}  # fmt: skip


def measure_jax(seconds):
    """A row for every job: without a time where the job or the whole program failed."""
    names = {("rtf", "forward"): "JAX", ("rtf", "forward_backward"): "JAX, forward + backward", ("s5", "forward"): "S5"}
    jobs = list(jax_jobs(seconds))
    key = lambda job: (names[job["layer"], job["pass"]], job["batch"], job["length"], job["order"])
    ms = {key(done): done.get("ms") for done in run_peer("jax_layer.py", "time", jobs=jobs)}
    return [dict(zip(("what", "batch", "length", "order", "ms"), (*key(job), ms.get(key(job))))) for job in jobs]


def measure(seconds):
    rows = []
    torch.backends.cuda.matmul.allow_tf32 = True  # as in JAX
    for length in LENGTHS:
        print(f"layer: length {length}", file=sys.stderr)
        for batch in BATCHES:
            rows += measure_ours(batch, length, seconds)
            rows += measure_torch(batch, length, seconds)
    print("layer: JAX", file=sys.stderr)
    return rows + measure_jax(seconds)
