"""Runs our layer and training step on the GPU beside the peers, in one run, and prints the tables.

Exit code 0 if everything that must be reached is, else 1.
"""

import argparse
import datetime
import importlib.util
import json
import sys
from importlib import metadata
from pathlib import Path

import cuda_layer
import cuda_memory
import cuda_report
import cuda_training

import torch

PARTS = ("layer", "memory", "training")


def machine():
    def version(package):
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            return None

    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "gpu": torch.cuda.get_device_name(),
        "cuda": torch.version.cuda,
        "versions": {package: version(package) for package in ("torch", "jax", "torchaudio")},
    }


def earlier(path):
    """What was measured before on the same machine with the same versions."""
    results = json.loads(path.read_text()) if path.exists() else {}
    then, now = results.get("machine", {}), machine()
    return results if {**then, "date": None} == {**now, "date": None} else {}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, required=True, metavar="DIR", help="build folder, as build/release")
    parser.add_argument("--only", choices=PARTS, help="one part of the three")
    parser.add_argument("--seconds", type=float, default=0.1, help="time for one figure (default 0.1); ten times that for a training step of ours")
    parser.add_argument(
        "--out", type=Path, default=Path(".bench/cuda"), metavar="FOLDER", help="results (default .bench/cuda)"
    )
    options = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("PyTorch finds no CUDA device")
    if importlib.util.find_spec("jax") is None:
        parser.error(
            f"{sys.executable} has no JAX; RTF_BENCH_PYTHON=python make bench-cuda takes one that has it and PyTorch"
        )
    for name in ("librtf_torch.so", "librtf_torch_cuda.so"):
        if not (options.build / name).exists():
            parser.error(f"{options.build} has no {name}; build with a CUDA toolkit (make build)")
        torch.ops.load_library(options.build / name)

    parts = {
        "layer": lambda: cuda_layer.measure(options.seconds),
        "memory": cuda_memory.measure,
        "training": lambda: cuda_training.measure(options.build, options.seconds),
    }
    path = options.out / "results.json"
    options.out.mkdir(parents=True, exist_ok=True)
    results = earlier(path) if options.only else {}
    for name in [options.only] if options.only else PARTS:
        results = {**results, "machine": machine(), name: parts[name]()}
        path.write_text(json.dumps(results, indent=1) + "\n")  # what is measured is kept if a later part fails
    return cuda_report.report(results, path.with_suffix(".png"))


if __name__ == "__main__":
    sys.exit(main())
