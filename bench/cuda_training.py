"""One training step of the paper's models on the GPU: ours, JAX and eager PyTorch, each in a process of its own.

cuda_training.py BUILD NAME [OPTION...] measures ours alone, with further options of training_cuda, as --profile.
"""

import subprocess
import sys
from pathlib import Path

from cuda_peer import run, run_peer

PRECISIONS = ("fp32", "tf32", "bf16")

# What the paper and its released configs say of these experiments. Batch norm everywhere; `last` positions are decoded,
# or, with 0, their mean.
DEFAULTS = {"layers": 6, "channels": 256, "denominators": 1, "bidirectional": True, "prenorm": True, "dropout": 0.0,
            "inner_dropout": 0.0, "vocabulary": 0, "last": 0}  # fmt: skip
CONFIGURATIONS = [
    {"name": "copying", "batch": 8, "length": 2048, "layers": 4, "channels": 1024, "order": 64, "bidirectional": False,
     "vocabulary": 64, "last": 1024, "outputs": 64},
    {"name": "listops", "batch": 32, "length": 2048, "order": 4, "prenorm": False, "vocabulary": 18, "outputs": 10},
    {"name": "image", "batch": 50, "length": 1024, "channels": 512, "order": 64, "prenorm": False, "dropout": 0.1,
     "inner_dropout": 0.1, "outputs": 10},
    {"name": "pathfinder", "batch": 64, "length": 1024, "order": 64, "denominators": 256, "dropout": 0.1,
     "inner_dropout": 0.1, "outputs": 2},
    {"name": "path-x", "batch": 16, "length": 16384, "order": 2048, "denominators": 256, "dropout": 0.1, "outputs": 2},
]  # fmt: skip
CONFIGURATIONS = [{**DEFAULTS, **configuration} for configuration in CONFIGURATIONS]


# JAX draws its masks by the default generator, and by one that costs less.
GENERATORS = ("threefry2x32", "rbg")


def jax_jobs(seconds):
    for one in CONFIGURATIONS:
        drops = one["dropout"] > 0 or one["inner_dropout"] > 0
        for generator in GENERATORS if drops else GENERATORS[:1]:
            yield {**one, "generator": generator, "seconds": seconds}


def measure_jax(seconds):
    """A row for every configuration, with the time of the faster generator; without one where all failed."""
    done = run_peer("jax_model.py", jobs=list(jax_jobs(seconds)))
    rows = []
    for one in CONFIGURATIONS:
        ms = {line["generator"]: line["ms"] for line in done if line["name"] == one["name"] and "ms" in line}
        rows.append({"what": "JAX", "name": one["name"], "ms": min(ms.values(), default=None), "generators": ms})
    return rows


def measure_torch():
    jobs = [{**one, "device": "cuda", "released_order": True, "steps": 30, "warm_up": 10} for one in CONFIGURATIONS]
    ms = {done["name"]: done["ms"] for done in run_peer("torch_model.py", jobs=jobs)}
    return [{"what": "release", "name": one["name"], "ms": ms.get(one["name"])} for one in CONFIGURATIONS]


def our_command(build, configuration):
    sizes = [f"--{key.replace('_', '-')}={str(value).lower()}" for key, value in configuration.items()]
    return [str(build / "bench" / "training_cuda"), *sizes]


def measure_ours(build, seconds):
    """bench/training_cuda.cpp: our trainer's step, the whole of it in one CUDA graph."""
    options = ["--precision", ",".join(PRECISIONS), "--seconds", 10 * seconds]
    lines = [line for one in CONFIGURATIONS for line in run([*our_command(build, one), *options])]
    return [{"what": f"ours, {done['precision']}", "name": done["name"], "ms": done["ms_per_step"],
             "peak_memory": done["peak_memory"]} for done in lines]  # fmt: skip


def measure(build, seconds):
    rows = []
    for name, part in (
        ("ours", lambda: measure_ours(build, seconds)),
        ("JAX", lambda: measure_jax(seconds)),
        ("PyTorch", measure_torch),
    ):
        print(f"training: {name}", file=sys.stderr)
        rows += part()
    return rows


def main():
    if len(sys.argv) < 3:
        sys.exit("cuda_training: BUILD and NAME are needed, as build/release pathfinder")
    build, name, *options = sys.argv[1:]
    known = {one["name"]: one for one in CONFIGURATIONS}
    if name not in known:
        sys.exit(f"cuda_training: no model '{name}'; expected one of {', '.join(known)}")
    return subprocess.run([*our_command(Path(build), known[name]), *options]).returncode


if __name__ == "__main__":
    sys.exit(main())
