"""The Python package beside what it replaces, in turns on the same cores or the same GPU: `rtf.lfilter` beside
torchaudio's, `rtf.RTF` beside the published layer, alone and in a block, and `rtf.nn.S4Block` beside that block. Forward and
backward, float32, eager. On a GPU the loop is held to one core and keeps the backward pass in its own thread, for both sides
of a row: how long a thread takes to be woken is the machine's, not the layer's. Rows without that, and inside a CUDA graph,
follow.

    PYTHONPATH=build/release/python python bench/python.py [--device cuda] [--json FILE]

Exit code 0 if every required ratio holds, else 1; so it is without torchaudio.
"""

import argparse
import contextlib
import copy
import json
import os
import statistics
import sys
import time
from pathlib import Path

import torch
from torch import nn

import report
import rtf
from peers import torch_filter
from peers.torch_layer import ReleasedLayer

REQUIRED = {"cpu": {"lfilter": 5, "layer": 8, "block": 2.2}, "cuda": {"lfilter": 10, "layer": 5, "block": 3.5}}
BATCH, LENGTH, CHANNELS, ORDER = 16, 4096, 128, 64
ROWS, SAMPLES = 32, 16384
DROPOUT = 0.1


class Block(nn.Module):
    """The S4 block of the published models: layer, GELU, dropout, gated projection."""

    def __init__(self, layer):
        super().__init__()
        self.layer, self.output, self.dropout = layer, nn.Linear(CHANNELS, 2 * CHANNELS), nn.Dropout(DROPOUT)

    def forward(self, x):
        return nn.functional.glu(self.output(self.dropout(nn.functional.gelu(self.layer(x)))), dim=-1)


class ResidualBlock(nn.Module):
    """The same with what stands around it in a model: a norm and the residual, which cost as much with either layer."""

    def __init__(self, layer):
        super().__init__()
        self.norm, self.block = nn.LayerNorm(CHANNELS), Block(layer)

    def forward(self, x):
        return x + self.block(self.norm(x))


def seconds(run, device, least=0.4):
    """Of one call: the median of calls over at least that long, three at least. On a GPU calls are counted by twenties,
    after which it is waited for: nothing waits for every step of a training."""
    together = 20 if device == "cuda" else 1
    times, begin = [], time.perf_counter()
    while len(times) < 3 or time.perf_counter() - begin < least:
        start = time.perf_counter()
        for _ in range(together):
            run()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / together)
    return statistics.median(times)


def hold(cores):
    """Every thread of the process to these cores."""
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
            os.sched_setaffinity(int(thread), cores)


def captured(run):
    """The same as a CUDA graph: what the GPU takes for it, and no time of the host."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def in_one_thread(run):
    """The same with the backward pass in the thread that asks for it: torch gives that of a GPU to one that has to be woken."""

    def alone():
        with torch.autograd.set_multithreading_enabled(False):
            run()

    return alone


def backward(function, leaves):
    """A forward and backward pass of `function` into fresh gradients."""
    gradient = torch.randn_like(function())

    def run():
        for leaf in leaves:
            leaf.grad = None
        function().backward(gradient)

    return run


def difference(got, exact):
    """From what the peer computes in double on the CPU, beside its largest number."""
    return ((got.detach().cpu() - exact).abs().max() / exact.abs().max()).item()


def filters(order, device):
    """x (rows, samples) through one filter; its poles lie inside the circle, |a|_1 = 0.9."""
    a = torch.randn(order, dtype=torch.float64)
    a = torch.cat((torch.ones(1), 0.9 * a / a.abs().sum())).float()
    leaves = [torch.randn(ROWS, SAMPLES), a, torch.randn(order + 1)]
    x, a, b = (leaf.to(device).requires_grad_() for leaf in leaves)
    ours = lambda: rtf.lfilter(x, a, b)
    peer = lambda: torch_filter.lfilter(x, a, b, clamp=False)
    exact = torch_filter.lfilter(*(leaf.double() for leaf in leaves), clamp=False)
    return backward(ours, (x, a, b)), backward(peer, (x, a, b)), *(difference(run(), exact) for run in (ours, peer))


def layers(device, wrapped, ours_wrapped=None):
    ours = (ours_wrapped or wrapped)(rtf.RTF(CHANNELS, ORDER, LENGTH, init="montel")).to(device)
    peer = wrapped(ReleasedLayer(CHANNELS, ORDER, LENGTH)).to(device)
    peer.load_state_dict(ours.state_dict())
    x = torch.randn(BATCH, LENGTH, CHANNELS, device=device, requires_grad=True)
    here = x.detach().cpu().double()
    exact = copy.deepcopy(peer).cpu().double().eval()(here)
    errors = [difference(copy.deepcopy(module).eval()(x), exact) for module in (ours, peer)]
    run = [backward(lambda module=module: module(x), (x, *module.parameters())) for module in (ours, peer)]
    return *run, *errors


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", metavar="FILE", help="write machine, versions and every round here")
    at = parser.parse_args()
    other_work = report.OtherWork()
    torch.manual_seed(0)
    required = REQUIRED[at.device]
    rows, free_rows = [], []
    whole = torch_filter.lfilter is not None
    if whole:
        for order in (8, 64):
            rows.append((f"lfilter, ({ROWS}, {SAMPLES}), order {order}", required["lfilter"], *filters(order, at.device)))
    else:
        print("torchaudio is not installed: lfilter is left out")
    sizes = f"({BATCH}, {LENGTH}, {CHANNELS}), order {ORDER}"
    rows.append((f"layer, {sizes}", required["layer"], *layers(at.device, lambda layer: layer)))
    rows.append((f"S4 block, {sizes}", required["block"], *layers(at.device, Block)))
    fused = lambda layer: rtf.nn.S4Block(layer, CHANNELS, dropout=DROPOUT)
    rows.append((f"the whole block as rtf.nn.S4Block, {sizes}", required["block"], *layers(at.device, Block, fused)))
    rows.append((f"with norm and residual, {sizes}", None, *layers(at.device, ResidualBlock)))
    # As the published training script has it; after the errors were computed without.
    torch.backends.cuda.matmul.allow_tf32 = True
    if at.device == "cuda":
        layer_rows = rows[-4:]
        rows = [(title, least, in_one_thread(ours), in_one_thread(peer), *errors) for title, least, ours, peer, *errors in rows]
        for title, _, ours, peer, *errors in layer_rows:
            name, _ = title.split(",", 1)
            rows.append((f"{name}, in a CUDA graph", None, captured(ours), captured(peer), *errors))
            free_rows.append((f"{name}, any core and torch's thread", None, ours, peer, *errors))

    kind = torch.cuda.get_device_name() if at.device == "cuda" else f"{torch.get_num_threads()} threads"
    how = ", on one core and backward in the loop's thread where not said otherwise" if free_rows else ""
    print(f"forward + backward, float32, {kind}{how}, torch {torch.__version__}; medians of {at.rounds} rounds")
    print(f"{'':<70}{'rtf, ms':>9}{'peer, ms':>10}{'ratio':>8}{'required':>10}{'error':>10}{'of peer':>10}")
    results = []
    cores = os.sched_getaffinity(0)
    try:
        for number, (title, least, ours, peer, error, peer_error) in enumerate(rows + free_rows):
            if free_rows:
                hold({max(cores)} if number < len(rows) else cores)
            pairs = [(1e3 * seconds(ours, at.device), 1e3 * seconds(peer, at.device)) for _ in range(at.rounds)]
            mine, theirs = (statistics.median(column) for column in zip(*pairs))
            passed = theirs / mine >= (least or 0) and error < 1e-4
            results.append({"title": title, "unit": "ms", "ours": mine, "peer": theirs, "ratio": theirs / mine, "required": least,
                            "error": error, "peer_error": peer_error, "passed": passed, "rounds": pairs})  # fmt: skip
            print(f"{title:<70}{mine:>9.2f}{theirs:>10.2f}{theirs / mine:>8.2f}{least or '-':>10}{error:>10.1e}{peer_error:>10.1e}")
    finally:
        if free_rows:
            hold(cores)  # PyTorch can abort at the end of a process held to one
    about = {**report.machine(torch.get_num_threads(), other_work.cores(), rtf.__version__), "device": kind + how}
    busy = about["cores_busy_with_other_work"]
    if busy > 0.1:
        print(f"Other programs kept {busy:.2f} cores busy meanwhile: the ratios say little.")
    if at.json:
        Path(at.json).write_text(json.dumps({**about, "rows": results}, indent=2) + "\n")
    return 0 if whole and all(result["passed"] for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
