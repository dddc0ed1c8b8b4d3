"""Two small configs, and what the tests of training look at in a run."""

import csv
import json
import subprocess
import time

import numpy as np
from conftest import COMMAND
from safetensors import safe_open
from safetensors.numpy import load_file

# Everything that a checkpoint has to carry: running statistics, dropout, moments, an average, a schedule.
TINY = """
task: {name: copying, symbols: 6, memory: 8, train_size: 64, val_size: 16}
model: {layers: 2, channels: 8, order: 4, norm: batch, dropout: 0.1, inner_dropout: 0.1}
optimizer: {lr: 0.01, ssm_lr: 0.005, weight_decay: 0.01, clip: 1, schedule: cosine, warmup: 4, ema: 0.9}
train: {epochs: 3, batch: 8, seed: 5, threads: 1}
checkpoint: {every_minutes: 0}
log: {every: 3}
"""

DELAY = """
task: {name: delay, length: 48, dt: 0.01, band: 20, lag: 5, train_size: 64, val_size: 16}
model: {layers: 2, channels: 4, order: 8, norm: layer}
optimizer: {lr: 0.01}
train: {epochs: 4, batch: 8, seed: 3, threads: 1}
log: {every: 1}
"""


def rows(run):
    with open(run / "metrics.csv") as file:
        return list(csv.DictReader(file))


def status(run):
    return json.loads((run / "status.json").read_text())


def contents(path):
    """Tensors as bytes, and the metadata that does not depend on the clock."""
    with safe_open(path, "np") as file:
        metadata = {k: v for k, v in file.metadata().items() if k not in ("seconds", "crc32")}
    return {name: (value.dtype, value.shape, value.tobytes()) for name, value in load_file(path).items()}, metadata


def same_run(one, two):
    assert contents(one / "checkpoints/latest.safetensors") == contents(two / "checkpoints/latest.safetensors")
    assert contents(one / "checkpoints/best.safetensors") == contents(two / "checkpoints/best.safetensors")
    assert (one / "metrics.csv").read_text() == (two / "metrics.csv").read_text()


def refused(done, *parts):
    assert done.returncode == 2, done
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("rtf"), done.stderr
    for part in parts:
        assert part in done.stderr, done.stderr


def start(tmp_path, *arguments):
    return subprocess.Popen(
        [COMMAND, *arguments], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip


def wait_for(condition, process, seconds=60):
    """Polls as fast as it can; false when the process ended first."""
    end = time.monotonic() + seconds
    while not condition():
        if process.poll() is not None:
            return False
        assert time.monotonic() < end
    return True


def write_digits(folder, count, prefix, rng):
    """Images of 6 x 6 that are the brighter the larger their label."""
    labels = rng.integers(0, 6, count).astype(np.uint8)
    images = rng.integers(0, 40, (count, 6, 6)).astype(np.uint8) + 40 * labels[:, None, None]
    header = np.array([0x803, count, 6, 6], ">u4").tobytes()
    (folder / f"{prefix}-images-idx3-ubyte").write_bytes(header + images.tobytes())
    (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(np.array([0x801, count], ">u4").tobytes() + labels.tobytes())
