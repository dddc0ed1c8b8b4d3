"""Training on the GPU: what it computes beside the CPU, the same bits twice, going on, and what it refuses."""

import csv
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

COMMAND = os.environ.get("RTF_COMMAND", str(Path(__file__).parents[2] / "build" / "release" / "rtf"))
GPU = "train.device=cuda"
QUIET = ["log.poles_every=0", "checkpoint.every_minutes=0"]

# Everything that a step can hold: running statistics, dropout, two groups, clipping, an average, a schedule.
COPYING = """
task: {name: copying, symbols: 16, memory: 24, noise: 5, train_size: 1600, val_size: 64}
model: {layers: 2, channels: 32, order: 12, norm: batch, dropout: 0.1, inner_dropout: 0.1}
optimizer: {lr: 0.002, ssm_lr: 0.001, weight_decay: 0.01, clip: 1, schedule: cosine, warmup: 20, total: 200, ema: 0.9}
train: {epochs: 1, batch: 8, seed: 5}
log: {every: 1}
"""

DELAY = """
task: {name: delay, length: 200, dt: 0.01, band: 20, lag: 5, train_size: 256, val_size: 32}
model: {layers: 2, channels: 8, order: 8, norm: layer}
optimizer: {lr: 0.005}
train: {epochs: 1, batch: 8, seed: 3}
log: {every: 1}
"""

# The shape of Pathfinder: images pixel by pixel, two directions, a denominator for each channel, the mean decoded.
IMAGES = """
task: {name: smnist, train_size: 3200, val_size: 32}
data: {path: images}
model: {layers: 2, channels: 32, order: 16, denominators: 32, bidirectional: true, dropout: 0.1, inner_dropout: 0.1}
optimizer: {lr: 0.002, weight_decay: 0.05}
train: {epochs: 1, batch: 16, seed: 1}
log: {every: 1}
"""

# Texts of many lengths: batches of several shapes, each a graph of its own.
TEXTS = """
task: {name: listops}
data: {path: texts, pad_to: 16}
model: {layers: 2, channels: 32, order: 4, bidirectional: true, prenorm: false}
optimizer: {lr: 0.005, weight_decay: 0.05}
train: {epochs: 1, batch: 8, seed: 4}
log: {every: 1}
"""


def write_texts(folder):
    """Flat ListOps expressions of 3 to 60 tokens: the largest of their digits."""
    rng = np.random.default_rng(1)
    folder.mkdir()
    for split, count in (("train", 1600), ("val", 32), ("test", 32)):
        rows = [rng.integers(0, 10, rng.integers(1, 59)) for _ in range(count)]
        lines = [f"[MAX {' '.join(map(str, row))} ]\t{row.max()}\n" for row in rows]
        (folder / f"basic_{split}.tsv").write_text("Source\tTarget\n" + "".join(lines))


def write_images(folder, size=32):
    """Random images in MNIST's format, brighter for some labels."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    for prefix, count in (("train", 3232), ("t10k", 32)):
        labels = rng.integers(0, 10, count).astype(np.uint8)
        images = rng.integers(0, 128, (count, size, size)).astype(np.uint8) + 12 * labels[:, None, None]
        header = np.array([0x803, count, size, size], ">u4").tobytes()
        (folder / f"{prefix}-images-idx3-ubyte").write_bytes(header + images.astype(np.uint8).tobytes())
        header = np.array([0x801, count], ">u4").tobytes()
        (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(header + labels.tobytes())


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with the configs, where runs are shared."""
    folder = tmp_path_factory.mktemp("train")
    for name, text in (("copying", COPYING), ("delay", DELAY), ("images", IMAGES), ("texts", TEXTS)):
        (folder / f"{name}.yaml").write_text(text)
    write_images(folder / "images")
    write_texts(folder / "texts")
    return folder


def rtf(work, *arguments, fails=False):
    done = subprocess.run([COMMAND, *map(str, arguments)], cwd=work, capture_output=True, text=True, timeout=120)
    assert (done.returncode != 0) == fails, done.stderr
    return done


def train(work, config, run, *keys):
    """Once for all tests that name the same run. A step that could not become a graph would say so."""
    if not (work / run).exists():
        assert rtf(work, "train", f"{config}.yaml", *QUIET, *keys, "--out", run, "-q").stderr == ""
    return work / run


def losses(run, split="train"):
    with open(run / "metrics.csv") as file:
        return np.array([float(row["loss"]) for row in csv.DictReader(file) if row["split"] == split])


def tensors(run, name="latest"):
    """The tensors of a checkpoint as bytes."""
    data = (run / "checkpoints" / f"{name}.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__")
    return {key: data[8 + size :][slice(*value["data_offsets"])] for key, value in header.items()}


def status(run):
    return json.loads((run / "status.json").read_text())


def refused(done, *parts):
    assert done.returncode == 2, done
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("rtf"), done.stderr
    for part in parts:
        assert part in done.stderr, done.stderr


@pytest.mark.parametrize("config", ["copying", "images", "texts"])
def test_losses_of_200_steps_agree_with_the_cpu(work, config):
    cpu, gpu = (losses(train(work, config, f"{config}-{device}", f"train.device={device}"))
                for device in ("cpu", "cuda"))  # fmt: skip
    assert len(cpu) == len(gpu) == 200
    assert cpu[-20:].mean() < 0.98 * cpu[:20].mean()  # it learns something
    assert np.abs(gpu - cpu).max() < 1e-3 * np.abs(cpu).max()
    # Before rounding has had time to grow: float32 sums in another order.
    assert np.abs(gpu - cpu)[:10].max() < 2e-5 * np.abs(cpu).max()


def test_more_shapes_than_graphs(work):
    """Not padded, so that steps that are replayed, recorded and neither take turns in the memory that graphs share."""
    keys = ["data.pad_to=1", "train.epochs=3"]
    cpu, gpu, again = (train(work, "texts", f"shapes-{run}", *keys, f"train.device={run.split('-')[0]}")
                       for run in ("cpu", "cuda", "cuda-again"))  # fmt: skip
    assert len(losses(cpu)) == 600
    assert np.abs(losses(gpu) - losses(cpu))[:200].max() < 1e-3 * losses(cpu).max()
    assert tensors(gpu) == tensors(again)


@pytest.mark.parametrize("keys", [["train.accumulate=3"], ["train.precision=fp64"], ["train.chunk=64"]])
def test_other_steps_agree_with_the_cpu(work, keys):
    config = "delay" if "chunk" in keys[0] else "copying"
    runs = [train(work, config, f"{config}-{keys[0]}-{device}", *keys, "train.steps=20", f"train.device={device}")
            for device in ("cpu", "cuda")]  # fmt: skip
    cpu, gpu = map(losses, runs)
    assert len(cpu) == 20
    # A GPU reads the learning rate as float32.
    assert np.abs(gpu - cpu).max() < (1e-6 if "fp64" in keys[0] else 1e-4) * np.abs(cpu).max()


BASELINES = {
    "s4": ["model.init=legs", "model.denominators=1"],
    "s4d": ["model.init=lin"],
    "s5": ["model.denominators=1", "model.blocks=2", "model.glu=half_glu1"],
    "spacetime": ["model.bidirectional=false", "model.skip=false"],
}


@pytest.mark.parametrize("layer", BASELINES)
def test_baselines_agree_with_the_cpu(work, layer):
    keys = [f"model.layer={layer}", *BASELINES[layer], "train.steps=20"]
    cpu, gpu = (losses(train(work, "images", f"{layer}-{device}", *keys, f"train.device={device}"))
                for device in ("cpu", "cuda"))  # fmt: skip
    assert len(cpu) == 20
    assert np.abs(gpu - cpu).max() < 1e-4 * np.abs(cpu).max()
    again = train(work, "images", f"{layer}-again", *keys, GPU)
    assert tensors(again) == tensors(work / f"{layer}-cuda")


@pytest.mark.parametrize("config", ["copying", "texts"])
def test_twice_the_same_bits(work, config):
    one, two = (train(work, config, run, GPU) for run in (f"{config}-cuda", f"{config}-again"))
    assert tensors(one) == tensors(two)
    assert (one / "metrics.csv").read_text() == (two / "metrics.csv").read_text()


def test_a_run_in_pieces_has_the_same_bits(work):
    """The first three steps of a process are not replayed from a graph: pieces of two steps never are."""
    whole = train(work, "copying", "six", GPU, "train.steps=6")
    pieces = train(work, "copying", "pieces", GPU, "train.steps=2")
    for steps in (4, 6):
        assert rtf(work, "train", "--resume", pieces, f"train.steps={steps}", "-q").stderr == ""
    assert tensors(whole) == tensors(pieces)


def test_a_signal_stops_a_run_that_goes_on_with_the_same_bits(work):
    run = work / "stopped"
    process = subprocess.Popen([COMMAND, "train", "copying.yaml", *QUIET, GPU, "--out", run, "-q"], cwd=work,
                               stderr=subprocess.PIPE, text=True)  # fmt: skip
    while process.poll() is None and not (run / "status.json").exists():
        time.sleep(0.001)
    process.send_signal(signal.SIGTERM)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 143 and "interrupted at step" in error
    rtf(work, "train", "--resume", run, "-q")
    assert tensors(run) == tensors(train(work, "copying", "copying-cuda", GPU))


def test_runs_move_between_devices(work):
    gpu = train(work, "copying", "copying-cuda", GPU)
    scores = []
    for device in ("cpu", "cuda"):
        lines = rtf(work, "eval", gpu, "--device", device, "--mode", "prefill").stdout.splitlines()
        values = dict(zip(lines[1].split(), lines[2].split()))
        assert float(lines[2].split()[-1]) < 1e-3  # streamed outputs beside the convolution's
        scores.append(float(values["loss"]))
    assert abs(scores[0] - scores[1]) < 1e-4 * scores[0]
    assert abs(scores[0] - losses(gpu, "val")[-1]) < 1e-4 * scores[0]
    for first, second in (("cpu", "cuda"), ("cuda", "cpu")):
        run = train(work, "copying", f"moved-{first}", f"train.device={first}", "train.steps=10")
        rtf(work, "train", "--resume", run, f"train.device={second}", "train.steps=20", "-q")
        assert f"device: {second}" in (run / "config.yaml").read_text()
        whole = losses(train(work, "copying", "copying-cpu", "train.device=cpu"))[:20]
        assert np.abs(losses(run) - whole).max() < 1e-4 * whole.max()


@pytest.mark.parametrize("precision, tolerance", [("tf32", 0.01), ("bf16", 0.05)])
def test_lower_precisions_are_near(work, precision, tolerance):
    lower = train(work, "copying", precision, GPU, f"train.precision={precision}", "train.steps=20")
    full = losses(train(work, "copying", "copying-cpu", "train.device=cpu"))[:20]
    difference = np.abs(losses(lower) - full).max()
    assert 0 < difference < tolerance * full.max()
    assert all(len(data) % 4 == 0 for data in tensors(lower).values())  # weights are float32
    rtf(work, "eval", lower, "--device", "cpu")


def test_sweeps_train_there(work):
    rtf(work, "sweep", "copying.yaml", GPU, "train.steps=4", "model.order=4,8", "--out", "sweep")
    assert [status(work / "sweep" / f"order={n}")["state"] for n in (4, 8)] == ["finished"] * 2


def test_refusals(work):
    refused(rtf(work, "train", "copying.yaml", "train.device=cuda:99", "--out", "none", fails=True),
            "device cuda:99: device 99 does not exist")  # fmt: skip
    # One activation of a training batch takes 3.4 TB.
    large = ["task.memory=100000", "task.train_size=64", "model.channels=65536", "model.glu=false", "model.layers=1",
             "model.order=1", "train.batch=64", "train.eval_batch=1"]  # fmt: skip
    refused(rtf(work, "train", "copying.yaml", *large, GPU, "--out", "large", "-q", fails=True),
            "not enough memory", "train.batch", "train.precision=bf16")  # fmt: skip


def test_stops_when_numbers_are_not_finite(work):
    """Seen late, but told as it was: the step, its gradients, and the weights before it. They grow by
    |1 - 0.002 * 2000| = 3 a step, so that steps have long been replayed when they overflow."""
    lines = []
    for run, every in (("at-once", 1), ("late", 0)):
        done = rtf(work, "train", "copying.yaml", *QUIET, GPU, "optimizer.weight_decay=2000",
                   "optimizer.ssm_weight_decay=0", "optimizer.warmup=0", "optimizer.schedule=constant",
                   f"checkpoint.every_steps={every}", "--out", run, "-q", fails=True)  # fmt: skip
        refused(done, "stopped at step ", ": the loss is", "; largest gradient ", "; smallest |A| ")
        assert int(done.stderr.split("stopped at step ")[1].split(":")[0]) > 10
        assert status(work / run)["state"] == "failed"
        lines.append(done.stderr.strip())
    assert lines[0] == lines[1] + "; earlier checkpoints are kept"
    tensors(work / "at-once")
