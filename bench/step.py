"""A deployed model beside the same model stepped in eager PyTorch: 6 layers of 256 channels, order 64, channel mixing.

step.py --build build/release [--json]: makes a model of fresh weights, exports it, and steps the one file in both. The
bounds are those of a core that reads its cache at 65 GB/s: 16,000 steps a second, and everywhere 65 % of what reading
the weights alone allows, 8 times PyTorch, p99.9 at most 3 times p50. Then the same model with narrow weights.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch.nn import functional as F

CONFIG = """
task: {name: delay, length: 256, dt: 0.01, band: 20, lag: 5, train_size: 1, val_size: 1}
model: {layers: 6, channels: 256, order: 64, denominators: 256, init: montel, norm: batch}
train: {steps: 1, batch: 1, threads: 1}
"""


class EagerModel:
    """The recurrence as it is written down: y = b . x + h0 u, then x <- (u - a . x, x_1, ..., x_{n-1})."""

    def __init__(self, path):
        self.t = load_file(path)
        self.layers = sum(name.endswith(".layer.b") for name in self.t)
        self.states = [torch.zeros_like(self.t[f"blocks.{i}.layer.b"]) for i in range(self.layers)]

    def step(self, u):
        t = self.t
        h = F.linear(u, t["encoder.weight"], t["encoder.bias"])
        for i, x in enumerate(self.states):
            block = f"blocks.{i}"
            a, b, h0 = (t[f"{block}.layer.{name}"] for name in ("a", "b", "h0"))
            v = h * t[f"{block}.norm.weight"] + t[f"{block}.norm.bias"]
            y = (b * x).sum(-1) + h0 * v
            self.states[i] = torch.cat([(v - (a * x).sum(-1))[:, None], x[:, :-1]], 1)
            h = h + F.glu(F.linear(F.gelu(y), t[f"{block}.output.weight"], t[f"{block}.output.bias"]), -1)
        h = h * t["norm.weight"] + t["norm.bias"]
        return F.linear(h, t["decoder.weight"], t["decoder.bias"])


def eager_seconds(model, samples, warm_up=200, steps=2000):
    times = []
    for i in range(warm_up + steps):
        begin = time.perf_counter()
        model.step(samples[i % len(samples)])
        times.append(time.perf_counter() - begin)
    return statistics.median(times[warm_up:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=Path("build/release"), help="folder of the build")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()
    rtf = str((options.build / "rtf").resolve())
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        call = lambda *arguments: subprocess.run([rtf, *arguments], cwd=folder, check=True, capture_output=True).stdout  # noqa: E731
        (Path(folder) / "model.yaml").write_text(CONFIG)
        call("train", "model.yaml", "--out", "run", "--quiet")
        call("export", "run", "-o", "model.safetensors", "--realization", "companion")
        peer = EagerModel(f"{folder}/model.safetensors")
        samples = torch.randn(256, 1)
        samples.numpy().tofile(f"{folder}/x.raw")
        ours = torch.frombuffer(bytearray(call("stream", "model.safetensors", "x.raw")), dtype=torch.float32)
        theirs = torch.cat([peer.step(u) for u in samples])
        difference = float((ours - theirs).abs().max() / theirs.abs().max())
        if not difference < 1e-4:
            sys.exit(f"step.py: the answers differ by {difference:.2e} of the largest")
        eager = eager_seconds(peer, samples)
        figures = json.loads(call("bench", "step", "model.safetensors", "--json"))
        for weights in ("bf16", "int8"):
            report = call("export", "run", "-o", "narrow.safetensors", "--realization", "companion", "--weights", weights).decode()
            narrow = json.loads(call("bench", "step", "narrow.safetensors", "--json"))
            error = float(re.search(r"answers are off by (\S+)", report).group(1))
            figures[weights] = {**narrow, "answer_error": error, "times_f32": figures["p50"] / narrow["p50"]}
    figures |= {"difference": difference, "eager_p50": eager, "times_eager": eager / figures["p50"]}
    if options.json:
        print(json.dumps(figures))
        return
    rows = (
        ("steps a second", f"{figures['steps_per_second']:,.0f}", "16,000 where weights are read at 65 GB/s"),
        ("share of the bound", f"{100 * figures['share_of_bound']:.0f} %", "65 %"),
        ("weights read at", f"{figures['read_bytes_per_second'] / 1e9:.1f} GB/s", f"bound {figures['bound_steps_per_second']:,.0f} steps a second"),
        ("p50, eager PyTorch", f"{1e6 * figures['p50']:.1f} us, {1e6 * eager:.1f} us", ""),
        ("times eager PyTorch", f"{figures['times_eager']:.1f}", "8"),
        ("p99.9 over p50", f"{figures['p99.9'] / figures['p50']:.2f}", "at most 3"),
        ("of undisturbed steps", f"{figures['undisturbed_p99.9'] / figures['p50']:.2f}", f"{figures['disturbed_steps']} steps were disturbed"),
        ("answers differ by", f"{difference:.1e}", "1e-4 of the largest"),
        *((f"{weights} weights", f"{figures[weights]['steps_per_second']:,.0f} a second", f"{figures[weights]['times_f32']:.2f} times f32, {figures[weights]['weight_bytes'] / 1e6:.2f} MB, answers off by {figures[weights]['answer_error']:.1e}") for weights in ("bf16", "int8")),
    )
    print(f"{'':<20}  {'measured':>22}  wanted")
    for label, value, wanted in rows:
        print(f"{label:<20}  {value:>22}  {wanted}".rstrip())


if __name__ == "__main__":
    main()
