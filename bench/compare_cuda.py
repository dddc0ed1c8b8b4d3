"""Runs our layer and training step on the GPU beside the peers, in one run, and prints the tables.

Exit code 0 if everything that must be reached is, else 1.
"""

import argparse
import datetime
import hashlib
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
LIBRARIES = ("librtf_torch.so", "librtf_torch_cuda.so")


def machine():
    def version(package):
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            return None

    return {
        "gpu": torch.cuda.get_device_name(),
        "cuda": torch.version.cuda,
        "versions": {package: version(package) for package in ("torch", "jax", "torchaudio")},
    }


def build_hash(build):
    """Of the libraries and of the program whose times are taken."""
    digest = hashlib.sha256()
    for name in (*LIBRARIES, "bench/training_cuda"):
        if (build / name).exists():
            digest.update((build / name).read_bytes())
    return digest.hexdigest()[:16]


def earlier(path, about, build):
    """The parts that were measured before with the same build on the same machine with the same versions."""
    results = json.loads(path.read_text()) if path.exists() else {}
    if results.get("machine") != about:
        return {"parts": {}}
    parts = {name: part for name, part in results.get("parts", {}).items() if part["build"] == build}
    return {"parts": parts, **{name: results[name] for name in parts}}


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
        print(f"compare_cuda: {sys.executable} has no JAX, so all that is compared with it is missed; "
              "RTF_BENCH_PYTHON=python make bench-cuda takes one that has it and PyTorch", file=sys.stderr)  # fmt: skip
    for name in LIBRARIES:
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
    about, build = machine(), build_hash(options.build)
    results = earlier(path, about, build) if options.only else {"parts": {}}
    for name in [options.only] if options.only else PARTS:
        date = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        results = {**results, "machine": about, name: parts[name]()}
        results["parts"] = {**results["parts"], name: {"date": date, "build": build}}
        path.write_text(json.dumps(results, indent=1) + "\n")  # what is measured is kept if a later part fails
    return cuda_report.report(results, path.with_suffix(".png"))


if __name__ == "__main__":
    sys.exit(main())
