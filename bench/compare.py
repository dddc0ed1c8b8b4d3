"""Runs our benchmarks and the peers on the same cores in turns, and prints one table of ratios.

Exit code 0 if every required ratio and every accuracy bound holds, else 1.
"""

import argparse
import dataclasses
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy
import torch

import report
import training
from peers import scipy_filter
from peers.torch_layer import TorchLayer, run_pass, step

CORES = len(os.sched_getaffinity(0))
FAMILIES = ("montel", "slow")
PASS_TITLES = {"forward": "forward", "forward_backward": "forward + backward"}


@dataclasses.dataclass
class Measurement:
    value: float
    error: float | None = None
    bound: float | None = None
    label: str = ""


@dataclasses.dataclass
class Row:
    """One line of the table: two ways to do the same, and how many times better ours must be."""

    section: str
    title: str
    unit: str
    required: float | None
    ours: Callable[[], Measurement]
    peer: Callable[[], Measurement]
    rounds: int
    our_rounds: list = dataclasses.field(default_factory=list)
    peer_rounds: list = dataclasses.field(default_factory=list)

    def measure(self):
        self.our_rounds.append(self.ours())
        self.peer_rounds.append(self.peer())

    def result(self):
        ours = statistics.median(one.value for one in self.our_rounds)
        peer = statistics.median(one.value for one in self.peer_rounds)
        first = self.our_rounds[0]
        accurate = first.error is None or first.error <= first.bound
        fast = self.required is None or peer / ours >= self.required
        return {
            "section": self.section, "title": self.title, "unit": self.unit, "ours": ours, "peer": peer,
            "ratio": peer / ours, "required": self.required, "error": first.error, "bound": first.bound,
            "peer_error": self.peer_rounds[0].error, "label": first.label, "passed": accurate and fast,
            "our_rounds": [one.value for one in self.our_rounds],
            "peer_rounds": [one.value for one in self.peer_rounds],
        }  # fmt: skip


class Bench:
    """Measures one thing at a time: our programs in a process of their own, the peers in this one."""

    def __init__(self, build, filters, rounds, seconds):
        self.build = build
        self.programs = build / "bench"
        self.filters = filters
        self.rounds = rounds
        self.seconds = seconds

    def run(self, *command):
        environment = {**os.environ, "RTF_THREADS": str(CORES), "OMP_NUM_THREADS": str(CORES)}
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=environment)
        if done.returncode != 0:
            sys.exit(f"compare: {command[0]} failed: {done.stderr.strip()}")
        return done.stdout

    def ours(self, program, name, unit):
        """The median of a Google Benchmark's repetitions, in `unit`, with its counters."""
        output = self.run(
            self.programs / program, f"--benchmark_filter=^{re.escape(name)}/real_time$", "--benchmark_format=json",
            "--benchmark_repetitions=3", f"--benchmark_min_time={self.seconds / 3:.2f}",
        )  # fmt: skip
        entries = json.loads(output[output.index("{") :])["benchmarks"]
        one = next(entry for entry in entries if entry.get("aggregate_name") == "median")
        seconds = one["real_time"] * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}[one["time_unit"]]
        value = (one["sample"] if "sample" in one else seconds) * {"ms": 1e3, "us": 1e6, "ns": 1e9}[unit]
        return Measurement(value, one.get("error"), one.get("bound"), one.get("label", ""))

    def median_seconds(self, call):
        call()
        times = []
        while len(times) < 3 or sum(times) < self.seconds:
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        return statistics.median(times)

    def filter_file(self, name):
        return self.filters / f"{name}.json"

    def filter(self, name):
        content = json.loads(self.filter_file(name).read_text())
        return {key: numpy.array(content[key]) for key in ("a", "b", "h0")}

    def torch_layer(self, name, pass_, batch, length):
        coefficients = self.filter(name)
        layer = TorchLayer.of_filters(**coefficients, length=length)
        rows = (batch, len(coefficients["h0"]), length)
        u = torch.randn(rows).transpose(1, 2).requires_grad_(pass_ == "forward_backward")
        y_gradient = torch.randn(rows).transpose(1, 2)
        seconds = self.median_seconds(lambda: run_pass(layer, pass_, u, y_gradient))
        return Measurement(seconds * 1e3, layer_error(layer, pass_, u, y_gradient))

    def torch_step(self, name):
        coefficients = {key: torch.tensor(value).float() for key, value in self.filter(name).items()}
        u, x = torch.randn(1, len(coefficients["h0"])), torch.zeros(1, *coefficients["a"].shape)
        with torch.inference_mode():
            seconds = self.median_seconds(lambda: step(u, x, **coefficients))
        return Measurement(seconds * 1e6)

    def scipy(self, name, length, channels):
        coefficients = {key: value.ravel() for key, value in self.filter(name).items()}
        seconds, error = scipy_filter.fastest(
            **coefficients, length=length, channels=channels, median_seconds=self.median_seconds
        )
        return Measurement(seconds / (length * channels) * 1e9, error)

    def our_memory(self, *arguments):
        return Measurement(int(self.run(self.programs / "layer_memory", *arguments)) / 2**20)

    def torch_memory(self, name, pass_, batch, length):
        script = Path(__file__).parent / "peers" / "torch_memory.py"
        output = self.run(sys.executable, "-B", script, self.filter_file(name), pass_, batch, length)
        return Measurement(int(output) / 2**20)


def layer_error(layer, pass_, u, y_gradient):
    """The worst error of outputs and gradients of the first and last channel against the layer in double, relative to
    the largest value of each."""
    ends = [0, -1]
    exact = TorchLayer.of_filters(*(p.detach()[ends] for p in (layer.a, layer.b, layer.h_0)), layer.length, torch.float64)
    v = u.detach()[..., ends].double().requires_grad_(u.requires_grad)
    y = run_pass(layer, pass_, u, y_gradient)
    z = run_pass(exact, pass_, v, y_gradient[..., ends].double())
    checked = [(z[-1], y[-1][:, ends], y)]
    if pass_ == "forward_backward":
        gradients = lambda of: (*of.ab.grad.chunk(2), of.h_0.grad)
        checked += [(v.grad[-1], u.grad[-1][:, ends], u.grad)]
        checked += [(p, q[ends], q) for p, q in zip(gradients(exact), gradients(layer))]
    return max(float((p - q).abs().max() / whole.abs().max()) for p, q, whole in checked)


def layer_rows(bench):
    cases = [(family, 16, 4096, order, 8 if order == 64 else 5) for family in FAMILIES for order in (64, 1024)]
    cases += [("montel", 16, 1024, 64, None), ("montel", 4, 16384, 64, None)]
    for family, batch, length, order, required in cases:
        for pass_ in PASS_TITLES:
            yield Row(
                "layer / PyTorch", f"{PASS_TITLES[pass_]}, {family} n={order} ({batch}, {length}, 128)", "ms", required,
                lambda f=family, b=batch, l=length, n=order, p=pass_: bench.ours(
                    "layer_bench", f"layer/{p}/{f}/{b}x{l}x128/n{n}", "ms"),
                lambda f=family, b=batch, l=length, n=order, p=pass_: bench.torch_layer(f"{f}-layer-n{n}", p, b, l),
                bench.rounds,
            )  # fmt: skip


def memory_rows(bench):
    for family in FAMILIES:
        for order in (64, 1024):
            for pass_ in PASS_TITLES:
                yield Row(
                    "memory / PyTorch", f"{PASS_TITLES[pass_]}, {family} n={order} (16, 4096, 128)", "MiB", 3,
                    lambda f=family, n=order, p=pass_: bench.our_memory(p, f, 16, 4096, 128, n),
                    lambda f=family, n=order, p=pass_: bench.torch_memory(f"{f}-layer-n{n}", p, 16, 4096),
                    1,
                )  # fmt: skip


def filter_rows(bench):
    for length, channels, required in ((65536, 1, 1), (8192, 128, 8)):
        for family in FAMILIES:
            for order in (2, 8, 16, 64):
                yield Row(
                    "filter / lfilter", f"{family} n={order} ({length}, {channels})", "ns", required,
                    lambda f=family, n=order, l=length, c=channels: bench.ours(
                        "filter_bench", f"filter/{f}/1x{l}x{c}/n{n}", "ns"),
                    lambda f=family, n=order, l=length, c=channels: bench.scipy(f"{f}-filter-n{n}", l, c),
                    bench.rounds,
                )  # fmt: skip


def step_rows(bench):
    yield Row(
        "step / PyTorch", "256 channels n=64", "us", None,
        lambda: bench.ours("step_bench", "step/channels:256/order:64", "us"),
        lambda: bench.torch_step("montel-step-n64"),
        bench.rounds,
    )  # fmt: skip


def training_rows(bench):
    """Both of a step's figures come from one run of each side, kept for the second row."""
    for dropout in (0.0, 0.1):
        runs = {}

        def measured(side, quantity, dropout=dropout, runs=runs):
            done = runs.setdefault(side, [])
            if len(done) <= runs.get((side, quantity), 0):
                done.append(training.ours(bench.build, dropout, CORES) if side == "ours" else training.torchs(dropout, CORES))
            number = runs[(side, quantity)] = runs.get((side, quantity), 0) + 1
            one = done[number - 1]
            return Measurement(one["ms"] if quantity == "ms" else one["peak_bytes"] / 2**20)

        title = f"6 layers (16, 1024, 256) n=64, dropout {dropout:g}"
        for quantity, what in (("ms", "step"), ("MiB", "peak memory")):
            yield Row(
                "training / PyTorch", f"{what}, {title}", quantity, 2,
                lambda q=quantity, m=measured: m("ours", q), lambda q=quantity, m=measured: m("peer", q),
                min(3, bench.rounds),
            )  # fmt: skip


def measure(rows):
    rounds = max(row.rounds for row in rows)
    for number in range(rounds):
        due = [row for row in rows if number < row.rounds]
        for done, row in enumerate(due):
            report.progress(f"round {number + 1}/{rounds}, {done + 1}/{len(due)}: {row.section}, {row.title}")
            row.measure()
    report.progress("")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, required=True, metavar="DIR", help="build folder, as build/release")
    parser.add_argument("--only", metavar="WORD", help="rows whose section or title holds this word")
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--out", type=Path, default=Path(".bench"), metavar="FOLDER", help="results (default .bench)")
    options = parser.parse_args()
    if not (options.build / "bench" / "write_filters").exists():
        parser.error(f"{options.build} has no benchmark programs; run make build")

    other_work = report.OtherWork()
    torch.manual_seed(3)
    torch.set_num_threads(CORES)
    filters = options.out / "filters"
    filters.mkdir(parents=True, exist_ok=True)
    bench = Bench(options.build, filters, rounds=1 if options.quick else 5, seconds=0.2 if options.quick else 0.5)
    bench.run(bench.programs / "write_filters", filters)
    rows = [*layer_rows(bench), *memory_rows(bench), *filter_rows(bench), *step_rows(bench), *training_rows(bench)]
    rows = [row for row in rows if not options.only or options.only in f"{row.section}, {row.title}"]
    if not rows:
        parser.error(f"no row holds '{options.only}'")
    measure(rows)

    results = [row.result() for row in rows]
    machine = report.machine(CORES, other_work.cores(), bench.run(options.build / "rtf", "--version").strip())
    report.save(options.out, machine, results)
    print(report.table(machine, results))
    return 0 if all(result["passed"] for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
