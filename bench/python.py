"""The Python package beside torchaudio and the published layer, forward and backward, on the CPU or on a GPU.

In turns, float32, eager: `rtf.lfilter` beside torchaudio's, `rtf.RTF` beside the published layer, alone and in a block, and
`rtf.nn.S4Block` beside that block.

PyTorch gives the backward pass of a GPU to a thread of its own: that thread and the loop's wake each other once a step. A
virtual machine may give a core that sleeps back to its host, and to get it back takes as long as a pass. So on a GPU no core
sleeps, but in the rows that say so: /dev/cpu_dma_latency is held open with a 0 in it, which takes root. It is printed how long
two threads take to wake each other with and without. Rows with the backward pass in the thread of the loop follow, and rows
inside a CUDA graph.

The cores of a virtual machine are often slow for a while. So the rows take turns round by round, the ratio is the median of
the rounds' own, with the middle half of them beside it, and a fixed loop of Python shows how slow the cores were.

    PYTHONPATH=build/release/python python bench/python.py [--device cuda] [--json FILE]

Exit code 1 if a required ratio is missed, an output of ours is off by 1e-4 or more, or torchaudio is missing.
"""

import argparse
import contextlib
import copy
import json
import statistics
import sys
import time
import typing
from pathlib import Path

import torch
from torch import nn

import report
import rtf
from peers import torch_filter
from peers.torch_layer import ReleasedLayer
from waking import Waking, kept_awake

REQUIRED = {"cpu": {"lfilter": 5, "layer": 8, "block": 2.2}, "cuda": {"lfilter": 10, "layer": 5, "block": 3.5}}
BATCH, LENGTH, CHANNELS, ORDER = 16, 4096, 128, 64
ROWS, SAMPLES = 32, 16384
DROPOUT = 0.1
BLOCKS = 6  # the published models of the Long Range Arena have as many, and norms and residuals between them
ROUNDS = {"cpu": 5, "cuda": 20}
ROUND = {"cpu": 0.4, "cuda": 0.1}  # seconds of either side; on a GPU short, so that both meet the same cores
STRETCH = 0.03  # seconds after which a GPU is waited for
SLEEP = "cores may sleep"


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


class Round(typing.NamedTuple):
    """ms of one call on either side, and of a fixed loop of Python meanwhile, on the side where it took longer; 0 on the CPU,
    where torch's threads slow it."""

    ours: float
    peer: float
    probe: float


class Row:
    """One line of the table: ours and the peer's, and how far the outputs of both are from the exact ones."""

    def __init__(self, title, required, ours, peer, error, peer_error):
        self.title, self.required, self.runs, self.errors = title, required, (ours, peer), (error, peer_error)
        self.awake, self.rounds = False, []

    def measure(self, device):
        """One more round; ours goes first in every second."""
        asked = device == "cuda" and not self.title.endswith(SLEEP)
        with kept_awake() if asked else contextlib.nullcontext(False) as self.awake:
            self.measure_now(device)

    def measure_now(self, device):
        if not self.rounds:
            for run in self.runs:
                run()
            self.calls = [1 if device == "cpu" else max(1, round(STRETCH / clock(run, 3))) for run in self.runs]
        sides, probes = [0.0, 0.0], [0.0, 0.0]
        for side in (0, 1) if len(self.rounds) % 2 == 0 else (1, 0):
            times, slow, begin = [], [], time.perf_counter()
            while len(times) < 3 or time.perf_counter() - begin < ROUND[device]:
                times.append(clock(self.runs[side], self.calls[side]))
                slow.append(0.0 if device == "cpu" else clock(count))
            sides[side] = 1e3 * statistics.median(times)
            probes[side] = 1e3 * statistics.median(slow)
        self.rounds.append(Round(*sides, max(probes)))

    def result(self):
        """Medians of the rounds, and the quartiles of their ratios."""
        ours, peer, _ = (statistics.median(side) for side in zip(*self.rounds))
        ratios = [one.peer / one.ours for one in self.rounds]
        low, ratio, high = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else 3 * ratios
        return {
            "title": self.title, "unit": "ms", "ours": ours, "peer": peer, "ratio": ratio, "low": low, "high": high,
            "required": self.required, "asked_to_stay_awake": self.awake, "error": self.errors[0], "peer_error": self.errors[1],
            "passed": ratio >= (self.required or 0) and (self.errors[0] or 0) < 1e-4,
            "rounds": [one._asdict() for one in self.rounds],
        }  # fmt: skip


def measure(rows, device, rounds):
    for number in range(rounds):
        report.progress(f"round {number + 1} of {rounds}")
        for row in rows:
            row.measure(device)
    report.progress("")


def clock(run, calls=1):
    """Seconds of one of these calls, after which the GPU is waited for: nothing waits for every step of a training."""
    start = time.perf_counter()
    for _ in range(calls):
        run()
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return (time.perf_counter() - start) / calls


def count():
    for _ in range(50_000):
        pass


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


def layers(device, build, our_build=None):
    """Runs and errors of build(make_layer), with our layer and the published one; ours by `our_build` where it is given."""
    ours = (our_build or build)(lambda: rtf.RTF(CHANNELS, ORDER, LENGTH, init="montel")).to(device)
    peer = build(lambda: ReleasedLayer(CHANNELS, ORDER, LENGTH)).to(device)
    peer.load_state_dict(ours.state_dict())
    x = torch.randn(BATCH, LENGTH, CHANNELS, device=device, requires_grad=True)
    here = x.detach().cpu().double()
    exact = copy.deepcopy(peer).cpu().double().eval()(here)
    errors = [difference(copy.deepcopy(module).eval()(x), exact) for module in (ours, peer)]
    run = [backward(lambda module=module: module(x), (x, *module.parameters())) for module in (ours, peer)]
    return *run, *errors


def without_layer(device):
    """The block with nothing in the layer's place: PyTorch's share of it."""
    block = Block(nn.Identity()).to(device)
    x = torch.randn(BATCH, LENGTH, CHANNELS, device=device, requires_grad=True)
    return backward(lambda: block(x), (x, *block.parameters()))


def all_rows(device):
    """What is measured, and nothing of it yet."""
    required = REQUIRED[device]
    rows = []
    if torch_filter.lfilter is not None:
        for order in (8, 64):
            title = f"lfilter, ({ROWS}, {SAMPLES}), order {order}"
            rows.append(Row(title, required["lfilter"], *filters(order, device)))
    else:
        print("torchaudio is not installed: lfilter is left out")
    sizes = f"({BATCH}, {LENGTH}, {CHANNELS}), order {ORDER}"
    block = lambda layer: Block(layer())
    fused = lambda layer: rtf.nn.S4Block(layer(), CHANNELS, dropout=DROPOUT)
    layer_rows = [
        Row(f"layer, {sizes}", required["layer"], *layers(device, lambda layer: layer())),
        Row(f"S4 block, {sizes}", required["block"], *layers(device, block)),
        Row(f"the whole block as rtf.nn.S4Block, {sizes}", required["block"], *layers(device, block, fused)),
        Row(f"with norm and residual, {sizes}", None, *layers(device, lambda layer: ResidualBlock(layer()))),
    ]
    if device == "cuda":
        deep = lambda layer: nn.Sequential(*(Block(layer()) for _ in range(BLOCKS)))
        layer_rows.append(Row(f"{BLOCKS} S4 blocks, {sizes}", required["block"], *layers(device, deep)))
    rows += layer_rows
    # As the published training script has it; after the errors were computed without.
    torch.backends.cuda.matmul.allow_tf32 = True
    return rows + other_rows(layer_rows, device) if device == "cuda" else rows


def other_rows(layer_rows, device):
    """The same in other ways to run them, and the block without a layer."""
    title = "S4 block without a layer: PyTorch's share"
    alone = Row(title, None, without_layer(device), layer_rows[1].runs[1], None, None)
    rows = [alone]
    for row in layer_rows[:-1]:
        rows.append(same(row, "backward in the loop's thread", in_one_thread))
        rows.append(same(row, "in a CUDA graph", captured))
    return rows + [same(row, SLEEP, lambda run: run) for row in [*layer_rows, alone]]


def same(row, how, changed):
    """This row's runs, changed."""
    return Row(f"{row.title.split(',', 1)[0]}, {how}", None, *map(changed, row.runs), *row.errors)


def show(results):
    width = 2 + max(len(one["title"]) for one in results)
    print(f"{'':<{width}}{'rtf, ms':>9}{'peer, ms':>10}{'ratio':>8}{'middle half':>16}{'required':>10}{'error':>10}{'of peer':>10}")
    for one in results:
        half = f"{one['low']:.2f} to {one['high']:.2f}"
        errors = "".join(f"{'-' if error is None else f'{error:.1e}':>10}" for error in (one["error"], one["peer_error"]))
        print(f"{one['title']:<{width}}{one['ours']:>9.3f}{one['peer']:>10.3f}{one['ratio']:>8.2f}{half:>16}"
              f"{one['required'] or '-':>10}{errors}")  # fmt: skip


def at_least_one(text):
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} rounds; at least 1 is needed")
    return int(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--rounds", type=at_least_one, help=f"{ROUNDS['cpu']} on the CPU and {ROUNDS['cuda']} on a GPU unless told")
    parser.add_argument("--json", metavar="FILE", help="write machine, versions and every round here")
    at = parser.parse_args()
    other_work = report.OtherWork()
    torch.manual_seed(0)
    rows = all_rows(at.device)
    wakes = Waking.measure() if at.device == "cuda" else None
    measure(rows, at.device, at.rounds or ROUNDS[at.device])
    results = [row.result() for row in rows]
    kind = torch.cuda.get_device_name() if at.device == "cuda" else f"{torch.get_num_threads()} threads"
    how = f"; no core sleeps but where '{SLEEP}' stands" if wakes and wakes.asked else ""
    print(f"forward + backward, float32, {kind}, torch {torch.__version__}; medians of {len(rows[0].rounds)} rounds{how}")
    show(results)
    if at.device == "cuda":
        probes = sorted(one.probe for row in rows for one in row.rounds)
        print(f"A fixed loop of Python took {probes[0]:.2f} ms at least, {statistics.median(probes):.2f} on the median, "
              f"{probes[-1]:.2f} at most: it takes longer where the core is slow.")  # fmt: skip
        wakes.show()
    about = {**report.machine(torch.get_num_threads(), other_work.cores(), rtf.__version__), "device": kind}
    if at.device == "cuda":
        about["waking_us"] = wakes._asdict()
    busy = about["cores_busy_with_other_work"]
    if busy > 0.1:
        print(f"Other programs kept {busy:.2f} cores busy meanwhile: the ratios say little.")
    if at.json:
        Path(at.json).write_text(json.dumps({**about, "rows": results}, indent=2) + "\n")
    missed = [one["title"] for one in results if not one["passed"]]
    for title in missed:
        print(f"Not reached: {title}")
    return 1 if missed or torch_filter.lfilter is None else 0


if __name__ == "__main__":
    sys.exit(main())
