"""rtf train and rtf eval: runs that end where they should, whatever happens on the way."""

import csv
import json
import os
import random
import resource
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import COMMAND
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

if not (Path(COMMAND).resolve().parent / "rtf-train").exists():
    pytest.skip("built without training", allow_module_level=True)

MNIST = Path(__file__).parent.parent.parent / "shared" / "data" / "mnist"

# Everything that a checkpoint has to carry: running statistics, dropout, moments, an average, a schedule.
TINY = """
task: {name: copying, symbols: 6, memory: 8, train_size: 64, val_size: 16}
model: {layers: 2, channels: 8, order: 4, norm: batch, dropout: 0.1, inner_dropout: 0.1}
optimizer: {lr: 0.01, ssm_lr: 0.005, weight_decay: 0.01, clip: 1, schedule: cosine, warmup: 4, ema: 0.9}
train: {epochs: 3, batch: 8, seed: 5, threads: 1}
checkpoint: {every_minutes: 0}
log: {every: 3}
"""


@pytest.fixture
def tiny(tmp_path):
    (tmp_path / "tiny.yaml").write_text(TINY)
    return "tiny.yaml"


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


def test_a_run_and_its_files(rtf, tiny, tmp_path):
    out = rtf("train", tiny, "train.epochs=4", "--out", "run", "--profile")
    run = tmp_path / "run"
    assert "finished: 32 steps" in out and "backward" in out and "checkpoint" in out
    state = status(run)
    assert (state["state"], state["step"], state["epoch"], state["metric"]) == ("finished", 32, 4, "loss")

    table = rows(run)
    assert list(table[0]) == ["step", "epoch", "split", "loss", "accuracy"]
    assert [int(r["step"]) for r in table if r["split"] == "train"] == list(range(3, 33, 3))
    val = [r for r in table if r["split"] == "val"]
    assert [(r["step"], r["epoch"]) for r in val] == [("8", "0"), ("16", "1"), ("24", "2"), ("32", "3")]
    assert state["best"] == min(float(r["loss"]) for r in val)
    assert all(r["accuracy"] == "" for r in table if r["split"] == "train")

    tensors = load_file(run / "checkpoints/latest.safetensors")
    weights = {n.removeprefix("model.") for n in tensors if n.startswith("model.") and "running" not in n}
    assert {"encoder.weight", "blocks.1.layer.a", "blocks.0.norm.bias", "decoder.weight"} <= weights
    for part in ("optimizer.exp_avg.", "optimizer.exp_avg_sq.", "ema."):
        assert {n.removeprefix(part) for n in tensors if n.startswith(part)} == weights
    assert "model.blocks.0.norm.running_mean" in tensors
    assert all(v.dtype == np.float32 for v in tensors.values())

    # `best` holds the weights of the best row, and evaluates to its loss.
    with safe_open(run / "checkpoints/best.safetensors", "np") as file:
        best = file.metadata()
    chosen = min(val, key=lambda r: float(r["loss"]))
    assert best["step"] == chosen["step"]
    printed = rtf("eval", "run").splitlines()
    assert printed[1].split() == ["split", "samples", "loss", "accuracy"]
    assert float(printed[2].split()[2]) == pytest.approx(float(chosen["loss"]), rel=1e-5)


def test_tensorboard_reads_the_events(rtf, tiny, tmp_path):
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    rtf("train", tiny, "--out", "run", "-q")
    rtf("train", "--resume", "run", "train.epochs=3", "-q")
    events = accumulators.EventAccumulator(str(tmp_path / "run")).Reload()
    tags = set(events.Tags()["scalars"])
    assert {"train/loss", "train/lr", "train/gradient_norm", "train/steps_per_second", "val/loss", "val/accuracy",
            "layer_0/pole_radius", "layer_1/min_abs_denominator"} <= tags  # fmt: skip
    table = [r for r in rows(tmp_path / "run") if r["split"] == "train"]
    got = events.Scalars("train/loss")
    assert [e.step for e in got] == [int(r["step"]) for r in table]
    assert [e.value for e in got] == pytest.approx([float(r["loss"]) for r in table], rel=1e-6)
    # Warm-up over 4 of 24 steps, then the cosine; the row of step s has the rate that made it, of step s - 1.
    for event in events.Scalars("train/lr"):
        s = event.step - 1
        factor = s / 4 if s < 4 else 0.5 * (1 + np.cos(np.pi * (s - 4) / 20))
        assert event.value == pytest.approx(0.01 * factor, rel=1e-6)


def test_same_seed_same_bits_other_seed_other_weights(rtf, tiny, tmp_path):
    assert rtf("train", tiny, "--out", "one", "-q") == ""
    rtf("train", tiny, "--out", "two", "-q")
    rtf("train", tiny, "train.seed=6", "--out", "three", "-q")
    same_run(tmp_path / "one", tmp_path / "two")
    one, three = (load_file(tmp_path / name / "checkpoints/latest.safetensors") for name in ("one", "three"))
    assert not np.array_equal(one["model.decoder.weight"], three["model.decoder.weight"])


@pytest.mark.parametrize("n", [2, 3])
def test_accumulated_gradients_are_those_of_the_large_batch(rtf, tmp_path, n):
    """Without dropout and batch norm, n batches of 8 make the step of one of 8 n."""
    (tmp_path / "c.yaml").write_text("""
task: {name: copying, symbols: 6, memory: 8, train_size: 48, val_size: 16}
model: {layers: 1, channels: 8, order: 4, norm: layer}
optimizer: {lr: 0.01, eps: 0.001}
train: {epochs: 2, eval_batch: 8, precision: fp64, threads: 1}
""")
    rtf("train", "c.yaml", f"train.batch={8 * n}", "--out", "large", "-q")
    rtf("train", "c.yaml", "train.batch=8", f"train.accumulate={n}", "--out", "small", "-q")
    large, small = (load_file(tmp_path / name / "checkpoints/latest.safetensors") for name in ("large", "small"))
    for name in large:
        # Float64, a few steps of size lr; eps keeps tiny moments from blowing rounding up.
        assert np.abs(large[name] - small[name]).max() < 1e-12, name


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


def test_killed_20_times_and_resumed_is_bitwise_the_same(rtf, tiny, tmp_path):
    keys = ["train.epochs=100", "train.eval_every=10"]
    rtf("train", tiny, *keys, "--out", "whole", "-q")

    run, checkpoints = tmp_path / "run", tmp_path / "run" / "checkpoints"
    picks = random.Random(1)
    arguments = ["train", tiny, *keys, "checkpoint.every_steps=1", "--out", "run", "-q"]
    kills = inside = 0

    def temporary():
        try:
            return any(entry.name.endswith(".tmp") for entry in os.scandir(checkpoints))
        except FileNotFoundError:
            return False

    while kills < 20 or inside < 5:
        assert kills < 60, f"only {inside} of {kills} kills fell into a write"
        process = start(tmp_path, *arguments)
        # The lock tells that this process has begun; then some moment, for two of three as soon as a write is seen.
        latest = checkpoints / "latest.safetensors"
        before = latest.stat().st_ino if latest.exists() else None
        alive = wait_for(lambda: latest.exists() and latest.stat().st_ino != before, process)
        if alive:
            time.sleep(picks.uniform(0, 0.03))
            if kills % 3:
                alive = wait_for(temporary, process)
        process.kill()
        process.communicate()
        if not alive and process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL
        kills += 1
        inside += temporary()
        arguments = ["train", "--resume", "run", "-q"]
    assert kills >= 20 and inside >= 5, f"the run ended after {kills} kills, {inside} of them inside a write"
    rtf("train", "--resume", "run", "-q")
    same_run(tmp_path / "whole", run)
    assert not temporary()


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_saves_and_the_run_goes_on(rtf, tiny, tmp_path, number, code):
    keys = ["train.epochs=60", "train.eval_every=20"]
    rtf("train", tiny, *keys, "--out", "whole", "-q")
    process = start(tmp_path, "train", tiny, *keys, "--out", "run")
    run = tmp_path / "run"
    assert wait_for(lambda: (run / "metrics.csv").exists() and len(rows(run)) > 5, process)
    process.send_signal(number)
    _, error = process.communicate(timeout=60)
    assert process.returncode == code, error
    assert f"interrupted at step {status(run)['step']}; go on with: rtf train --resume run" in error
    assert status(run)["state"] == "interrupted" and 5 < status(run)["step"] < 480
    rtf("train", "--resume", "run", "-q")
    same_run(tmp_path / "whole", run)
    assert status(run)["state"] == "finished"


def test_more_epochs_on_resume(rtf, rtf_raw, tiny, tmp_path):
    constant = ["optimizer.schedule=constant"]
    rtf("train", tiny, *constant, "train.epochs=5", "--out", "whole", "-q")
    rtf("train", tiny, *constant, "train.epochs=2", "--out", "run", "-q")
    rtf("train", "--resume", "run", "train.epochs=5", "-q")
    same_run(tmp_path / "whole", tmp_path / "run")
    assert "epochs: 5" in (tmp_path / "run/config.yaml").read_text()
    refused(rtf_raw("train", "--resume", "run", "optimizer.lr=1"), "'optimizer.lr' cannot change")
    # With a cosine the length of the run is part of the mathematics.
    rtf("train", tiny, "train.epochs=2", "--out", "cosine", "-q")
    refused(rtf_raw("train", "--resume", "cosine", "train.epochs=3"), "optimizer.total is 16")


def test_steps_end_a_run_inside_an_epoch(rtf, tiny, tmp_path):
    rtf("train", tiny, "train.steps=11", "--out", "run", "-q")
    run = tmp_path / "run"
    assert status(run)["step"] == 11
    assert [r["step"] for r in rows(run) if r["split"] == "val"] == ["8", "11"]
    before = (run / "metrics.csv").read_text()
    rtf("train", "--resume", "run", "-q")  # nothing is left to do
    assert (run / "metrics.csv").read_text() == before


def test_damaged_checkpoint_is_refused_and_the_previous_loads(rtf, rtf_raw, tiny, tmp_path):
    keys = ["train.epochs=6", "optimizer.total=48", "checkpoint.every_steps=1"]
    rtf("train", tiny, *keys, "--out", "whole", "-q")
    rtf("train", tiny, *keys, "train.steps=30", "--out", "run", "-q")
    latest = tmp_path / "run/checkpoints/latest.safetensors"
    good = latest.read_bytes()
    flipped = bytearray(good)
    flipped[-100] ^= 4
    for bad in (good[: len(good) // 2], good[:-1], b"", bytes(flipped)):
        latest.write_bytes(bad)
        for _ in range(2):  # refusing changes nothing
            done = rtf_raw("train", "--resume", "run")
            refused(done, "latest.safetensors", "rtf train --resume run --from previous")
        assert latest.read_bytes() == bad
        refused(rtf_raw("eval", "run", "--checkpoint", "latest"), "latest.safetensors")
    rtf("eval", "run", "--checkpoint", "previous")
    rtf("train", "--resume", "run", "--from", "previous", "train.steps=0", "-q")
    assert contents(latest) == contents(tmp_path / "whole/checkpoints/latest.safetensors")


def test_full_disk_loses_no_checkpoint(rtf, rtf_raw, tiny, tmp_path):
    rtf("train", tiny, "checkpoint.every_steps=1", "train.steps=10", "optimizer.total=24", "--out", "run", "-q")
    folder = tmp_path / "run/checkpoints"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    size = len(before["latest.safetensors"])

    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, size // 2))

    # Python ignores SIGXFSZ, and so does the child unless the signal is restored: a write fails, as on a full disk.
    done = rtf_raw("train", "--resume", "run", "train.steps=20", "-q", preexec_fn=limited, restore_signals=False)
    refused(done, "cannot write", "next.safetensors")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert status(tmp_path / "run")["state"] == "failed"
    rtf("train", "--resume", "run", "-q")
    assert status(tmp_path / "run")["step"] == 20


def test_stops_on_infinity_and_says_where(rtf_raw, tiny, tmp_path):
    done = rtf_raw("train", tiny, "optimizer.lr=1e30", "optimizer.schedule=constant", "optimizer.warmup=0",
                   "checkpoint.every_steps=1", "--out", "run", "-q")  # fmt: skip
    refused(done, "stopped at step", "largest gradient", "smallest |A|", ".layer; earlier checkpoints are kept")
    assert status(tmp_path / "run")["state"] == "failed"
    load_file(tmp_path / "run/checkpoints/latest.safetensors")


DELAY = """
task: {name: delay, length: 48, dt: 0.01, band: 20, lag: 5, train_size: 64, val_size: 16}
model: {layers: 2, channels: 4, order: 8, norm: layer}
optimizer: {lr: 0.01}
train: {epochs: 4, batch: 8, seed: 3, threads: 1}
log: {every: 1}
"""


def test_truncated_back_propagation(rtf, rtf_raw, tmp_path):
    (tmp_path / "d.yaml").write_text(DELAY)
    rtf("train", "d.yaml", "train.chunk=20", "train.precision=fp64", "--out", "whole", "-q")
    run = tmp_path / "whole"
    assert status(run)["step"] == 4 * 8 * 3  # chunks of 20, 20 and 8
    # A stop inside a sequence: the states of the layers are in the checkpoint.
    rtf("train", "d.yaml", "train.chunk=20", "train.precision=fp64", "train.steps=20", "--out", "run", "-q")
    carried = load_file(tmp_path / "run/checkpoints/latest.safetensors")
    assert carried["carried.1"].shape == (8, 4, 8) and np.abs(carried["carried.1"]).max() > 0
    rtf("train", "--resume", "run", "train.steps=0", "-q")
    one, two = (contents(tmp_path / name / "checkpoints/latest.safetensors") for name in ("whole", "run"))
    assert one == two
    # With nothing learnt a chunk more or less makes no difference: the first losses are the parts of the whole one.
    rtf("train", "d.yaml", "optimizer.lr=1e-30", "train.precision=fp64", "train.chunk=16", "--out", "chunks", "-q")
    rtf("train", "d.yaml", "optimizer.lr=1e-30", "train.precision=fp64", "--out", "full", "-q")
    parts = [float(r["loss"]) for r in rows(tmp_path / "chunks") if r["split"] == "train"]
    full = [float(r["loss"]) for r in rows(tmp_path / "full") if r["split"] == "train"]
    assert np.reshape(parts, (-1, 3)).mean(axis=1) == pytest.approx(full, rel=1e-9)

    refused(rtf_raw("train", "d.yaml", "train.chunk=20", "model.bidirectional=true", "--out", "x"), "train.chunk is 20", "bidirectional")
    refused(rtf_raw("train", "d.yaml", "train.chunk=20", "train.accumulate=2", "--out", "x"), "train.accumulate is 2")


@pytest.mark.parametrize("mode", ["step", "prefill"])
@pytest.mark.parametrize("config", ["tiny", "delay"])
def test_streaming_gives_the_convolutions_scores(rtf, tiny, tmp_path, mode, config):
    (tmp_path / "c.yaml").write_text(TINY if config == "tiny" else DELAY)
    rtf("train", "c.yaml", "train.precision=fp64", "--out", "run", "-q")
    by_convolution = rtf("eval", "run").splitlines()[2].split()
    streamed = rtf("eval", "run", "--mode", mode).splitlines()[2].split()
    assert streamed[:4] == by_convolution
    assert float(streamed[4]) < 1e-9


CONFIGS = {
    "unknown key": (["optimizer.lrr=1"], "optimizer.lrr", "did you mean 'optimizer.lr'"),
    "wrong type": (["model.layers=many"], "model.layers", "many"),
    "length past model.length": (["model.length=10"], "model.length is 10", "length 16"),
    "batch past the data": (["train.batch=65"], "train.batch is 65", "64 samples"),
    "evaluation batch past the data": (["train.eval_batch=17"], "train.eval_batch is 17", "16 samples"),
    "denominators": (["model.denominators=3"], "model.denominators is 3"),
    "chunks without targets": (["train.chunk=4"], "train.chunk is 4", "copying"),
    "cosine that rises again": (["optimizer.total=20"], "24 steps", "optimizer.total is 20"),
    "nothing to train": (["optimizer.lr=0", "optimizer.ssm_lr=0"], "nothing is trained"),
    "no data folder": (["task.name=smnist", "data.path=none"], "data.path", "none"),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_bad_configs(rtf_raw, tmp_path, name):
    overrides, *parts = CONFIGS[name]
    text = TINY
    if "task.name=smnist" in overrides:
        text = text.replace("symbols: 6, memory: 8, train_size: 64, val_size: 16", "permuted: true")
    (tmp_path / "c.yaml").write_text(text)
    refused(rtf_raw("train", "c.yaml", *overrides, "--out", "run"), *parts)
    assert not (tmp_path / "run").exists()


def test_bad_folders(rtf, rtf_raw, tiny, tmp_path):
    refused(rtf_raw("train", tiny, "--out", "/proc/run"), "/proc/run")
    (tmp_path / "file").write_text("")
    refused(rtf_raw("train", tiny, "--out", "file/run"), "file/run")
    refused(rtf_raw("train", tiny), "--out")
    refused(rtf_raw("train", "none.yaml", "--out", "run"), "none.yaml")
    refused(rtf_raw("train", "--resume", "none"), "none")
    refused(rtf_raw("eval", "none"), "none")
    rtf("train", tiny, "--out", "run", "-q")
    refused(rtf_raw("train", tiny, "--out", "run"), "rtf train --resume run")
    refused(rtf_raw("eval", "run", "--split", "test"), "no split 'test'", "train, val")

    # The checkpoint of another model.
    rtf("train", tiny, "model.order=6", "--out", "other", "-q")
    latest = tmp_path / "run/checkpoints/latest.safetensors"
    latest.write_bytes((tmp_path / "other/checkpoints/latest.safetensors").read_bytes())
    refused(rtf_raw("train", "--resume", "run"), "checkpoint of another model", "blocks.0.layer.a is (1, 6) there and (1, 4) here")
    save_file({"x": np.zeros(3)}, latest)
    refused(rtf_raw("train", "--resume", "run"), "not a checkpoint")


def write_digits(folder, count, prefix, rng):
    """Images of 6 x 6 that are the brighter the larger their label."""
    labels = rng.integers(0, 6, count).astype(np.uint8)
    images = rng.integers(0, 40, (count, 6, 6)).astype(np.uint8) + 40 * labels[:, None, None]
    header = np.array([0x803, count, 6, 6], ">u4").tobytes()
    (folder / f"{prefix}-images-idx3-ubyte").write_bytes(header + images.tobytes())
    (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(np.array([0x801, count], ">u4").tobytes() + labels.tobytes())


def test_small_sequential_mnist(rtf, tmp_path):
    folder = tmp_path / "digits"
    folder.mkdir()
    rng = np.random.default_rng(0)
    write_digits(folder, 600, "train", rng)
    write_digits(folder, 120, "t10k", rng)
    (tmp_path / "c.yaml").write_text("""
task: {name: smnist}
model: {layers: 2, channels: 16, order: 8, norm: batch, bidirectional: true}
optimizer: {lr: 0.01}
train: {epochs: 8, batch: 25, threads: 1}
data: {path: digits}
""")
    rtf("train", "c.yaml", "--out", "run", "-q")
    last = [r for r in rows(tmp_path / "run") if r["split"] == "test"][-1]
    assert float(last["accuracy"]) > 0.9  # chance is 1/6
    assert [r["split"] for r in rows(tmp_path / "run")][-2:] == ["val", "test"]
