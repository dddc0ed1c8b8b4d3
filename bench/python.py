"""The Python package beside what it replaces, in turns on the same cores or the same GPU: `rtf.lfilter` beside
torchaudio's, and `rtf.RTF` beside the published layer, alone and in a block. Forward and backward, float32, eager.

    PYTHONPATH=build/release/python python bench/python.py [--device cuda] [--json FILE]

Exit code 0 if every required ratio holds, else 1.
"""

import argparse
import json
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


class Block(nn.Module):
    """An S4 block as training loops have it: layer, GELU, dropout, gated projection, residual, norm."""

    def __init__(self, layer):
        super().__init__()
        self.layer, self.output = layer, nn.Linear(CHANNELS, 2 * CHANNELS)
        self.dropout, self.norm = nn.Dropout(0.1), nn.LayerNorm(CHANNELS)

    def forward(self, x):
        y = self.dropout(nn.functional.gelu(self.layer(x)))
        return self.norm(x + nn.functional.glu(self.output(y), dim=-1))


def seconds(run, device, least=0.4):
    """Of one call: the median of calls over at least that long, three of them at least."""
    times = []
    begin = time.perf_counter()
    while len(times) < 3 or time.perf_counter() - begin < least:
        start = time.perf_counter()
        run()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def backward(function, leaves):
    """A forward and backward pass of `function` into fresh gradients."""
    gradient = torch.randn_like(function())

    def run():
        for leaf in leaves:
            leaf.grad = None
        function().backward(gradient)

    return run


def filters(order, device):
    """x (rows, samples) through one filter; its poles lie inside the circle, |a|_1 = 0.9."""
    a = torch.randn(order, dtype=torch.float64)
    a = torch.cat((torch.ones(1), 0.9 * a / a.abs().sum())).float()
    leaves = [torch.randn(ROWS, SAMPLES), a, torch.randn(order + 1)]
    x, a, b = (leaf.to(device).requires_grad_() for leaf in leaves)
    ours = lambda: rtf.lfilter(x, a, b)
    peer = lambda: torch_filter.lfilter(x, a, b, clamp=False)
    error = (ours() - peer()).abs().max() / peer().abs().max()
    return backward(ours, (x, a, b)), backward(peer, (x, a, b)), error.item()


def layers(device, wrapped):
    ours = wrapped(rtf.RTF(CHANNELS, ORDER, LENGTH, init="montel")).to(device)
    peer = wrapped(ReleasedLayer(CHANNELS, ORDER, LENGTH)).to(device)
    peer.load_state_dict(ours.state_dict())
    x = torch.randn(BATCH, LENGTH, CHANNELS, device=device, requires_grad=True)
    for module in (ours, peer):
        module.eval()
    error = ((ours(x) - peer(x)).abs().max() / peer(x).abs().max()).item()
    for module in (ours, peer):
        module.train()
    return (backward(lambda: ours(x), (x, *ours.parameters())), backward(lambda: peer(x), (x, *peer.parameters())), error)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", metavar="FILE", help="write machine, versions and every round here")
    at = parser.parse_args()
    other_work = report.OtherWork()
    torch.manual_seed(0)
    required = REQUIRED[at.device]
    rows = []
    if torch_filter.lfilter is not None:
        for order in (8, 64):
            rows.append((f"lfilter, ({ROWS}, {SAMPLES}), order {order}", required["lfilter"], *filters(order, at.device)))
    else:
        print("torchaudio is not installed: lfilter is left out")
    sizes = f"({BATCH}, {LENGTH}, {CHANNELS}), order {ORDER}"
    rows.append((f"layer, {sizes}", required["layer"], *layers(at.device, lambda layer: layer)))
    rows.append((f"block, {sizes}", required["block"], *layers(at.device, Block)))

    kind = torch.cuda.get_device_name() if at.device == "cuda" else f"{torch.get_num_threads()} threads"
    print(f"forward + backward, float32, {kind}, torch {torch.__version__}; medians of {at.rounds} rounds")
    print(f"{'':<45}{'rtf, ms':>9}{'peer, ms':>10}{'ratio':>8}{'required':>10}{'difference':>12}")
    results = []
    for title, least, ours, peer, error in rows:
        pairs = [(1e3 * seconds(ours, at.device), 1e3 * seconds(peer, at.device)) for _ in range(at.rounds)]
        mine, theirs = (statistics.median(column) for column in zip(*pairs))
        results.append({"title": title, "unit": "ms", "ours": mine, "peer": theirs, "ratio": theirs / mine, "required": least,
                        "difference": error, "passed": theirs / mine >= least and error < 1e-4, "rounds": pairs})  # fmt: skip
        print(f"{title:<45}{mine:>9.2f}{theirs:>10.2f}{theirs / mine:>8.2f}{least:>10}{error:>12.1e}")
    about = {**report.machine(torch.get_num_threads(), other_work.cores(), rtf.__version__), "device": kind}
    busy = about["cores_busy_with_other_work"]
    if busy > 0.1:
        print(f"Other programs kept {busy:.2f} cores busy meanwhile: the ratios say little.")
    if at.json:
        Path(at.json).write_text(json.dumps({**about, "rows": results}, indent=2) + "\n")
    return 0 if all(result["passed"] for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
