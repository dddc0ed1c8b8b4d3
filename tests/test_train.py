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
    for part in ("optimizer.exp_avg.", "optimizer.exp_avg_sq."):
        assert {n.removeprefix(part) for n in tensors if n.startswith(part)} == weights
    # Running statistics are averaged with the weights they belong to.
    averaged = {n.removeprefix("ema.") for n in tensors if n.startswith("ema.")}
    assert averaged == {n.removeprefix("model.") for n in tensors if n.startswith("model.")}
    mean = "blocks.0.norm.running_mean"
    assert not np.array_equal(tensors[f"model.{mean}"], tensors[f"ema.{mean}"])
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
            "layer_0/pole_radius", "layer_1/min_abs_denominator", "layer_1/unstable_denominators"} <= tags  # fmt: skip
    text = events.Tensors("config/text_summary")[0].tensor_proto.string_val[0].decode()
    assert (tmp_path / "run/config.yaml").read_text() in text
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


PLAIN = ["model.dropout=0", "model.inner_dropout=0", "model.norm=layer", "optimizer.ema=0"]
# Four kills each, the second and the third as soon as a write is seen.
KILLED = {
    "average, batch norm and dropout": (TINY, ["train.epochs=40", "train.eval_every=10"]),
    "plain": (TINY, [*PLAIN, "train.epochs=40", "train.eval_every=10"]),
    "accumulate": (TINY, ["train.accumulate=3", "train.epochs=160", "train.eval_every=40"]),
    "chunk": (DELAY, ["train.chunk=20", "train.epochs=16", "train.eval_every=4"]),
    "steps": (TINY, ["train.steps=301", "train.epochs=60", "train.eval_every=10"]),
}


@pytest.mark.parametrize("name", KILLED)
def test_killed_and_resumed_is_bitwise_the_same(rtf, tmp_path, name):
    text, keys = KILLED[name]
    (tmp_path / "c.yaml").write_text(text)
    rtf("train", "c.yaml", *keys, "--out", "whole", "-q")

    run, checkpoints = tmp_path / "run", tmp_path / "run" / "checkpoints"
    picks = random.Random(name)
    arguments = ["train", "c.yaml", *keys, "checkpoint.every_steps=1", "--out", "run", "-q"]
    kills = inside = 0

    def temporary():
        try:
            return any(entry.name.endswith(".tmp") for entry in os.scandir(checkpoints))
        except FileNotFoundError:
            return False

    while kills < 4 or inside < 1:
        assert kills < 12, f"only {inside} of {kills} kills fell into a write"
        process = start(tmp_path, *arguments)
        # A new latest tells that this process has begun; then some moment, or as soon as a write is seen.
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
    assert kills >= 4 and inside >= 1, f"the run ended after {kills} kills, {inside} of them inside a write"
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
    refused(rtf_raw("train", "--resume", "cosine", "train.epochs=3"), "optimizer.total is 16", "a longer schedule is a new run")


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
    # One more step: the damaged file does not take the place of the good one.
    previous = tmp_path / "run/checkpoints/previous.safetensors"
    saved = contents(previous)
    rtf("train", "--resume", "run", "--from", "previous", "train.steps=30", "-q")
    assert contents(previous) == saved
    rtf("train", "--resume", "run", "train.steps=0", "-q")
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


@pytest.mark.parametrize("text, keys", [
    (TINY, ["optimizer.lr=1e308", "optimizer.ssm_lr=null", "optimizer.schedule=constant", "optimizer.warmup=0"]),
    (TINY, ["optimizer.lr=1e308", "optimizer.ssm_lr=null", "optimizer.schedule=constant", "optimizer.warmup=0",
            "model.constraint=montel"]),
    (DELAY, ["optimizer.lr=3", "train.chunk=20"]),
], ids=["kernel", "constrained kernel", "chunks"])  # fmt: skip
def test_an_operator_that_refuses_stops_the_run(rtf_raw, tmp_path, text, keys):
    (tmp_path / "c.yaml").write_text(text)
    done = rtf_raw("train", "c.yaml", *keys, "--out", "run", "-q")
    refused(done, "rtf train: stopped at step ", "; largest gradient ", "; smallest |A| ", " in blocks.")
    assert "-nan" not in done.stderr.partition("; largest gradient ")[2] and "[rtf::" not in done.stderr
    # No epoch was over: nothing was saved, and nothing is promised.
    assert "checkpoints are kept" not in done.stderr and not any((tmp_path / "run/checkpoints").iterdir())
    assert status(tmp_path / "run")["state"] == "failed"


def test_stops_when_the_validation_loss_is_not_finite(rtf_raw, tmp_path):
    """The last step of the epoch breaks the weights: only the evaluation sees it."""
    (tmp_path / "c.yaml").write_text(DELAY)
    done = rtf_raw("train", "c.yaml", "optimizer.lr=1e30", "train.batch=64", "train.eval_batch=16", "--out", "run", "-q")
    refused(done, "stopped at step 1: ", "smallest |A|")
    assert status(tmp_path / "run")["best"] is None


def test_config_changed_by_hand_is_refused(rtf, rtf_raw, tiny, tmp_path):
    rtf("train", tiny, "train.steps=15", "optimizer.total=24", "--out", "run", "-q")
    config = tmp_path / "run/config.yaml"
    good = config.read_text()
    for key, old, new in [("accumulate", "1", "2"), ("batch", "8", "16"), ("lr", "0.01", "0.02"),
                          ("precision", "fp32", "fp64"), ("seed", "5", "6")]:  # fmt: skip
        config.write_text(good.replace(f" {key}: {old} ", f" {key}: {new} "))
        assert config.read_text() != good
        refused(rtf_raw("train", "--resume", "run"), f".{key} is {new} in config.yaml", "changed by hand", f"and {old} in")
    config.write_text(good.replace(" steps: 15 ", " steps: 16 "))
    rtf("train", "--resume", "run", "-q")
    assert status(tmp_path / "run")["step"] == 16


def test_position_outside_the_run_is_refused(rtf, rtf_raw, tmp_path):
    """Half of the images are gone since: the order of the samples would end too early."""
    folder = tmp_path / "digits"
    folder.mkdir()
    for name, count in (("train", 60), ("t10k", 20)):
        write_digits(folder, count, name, np.random.default_rng(0))
    (tmp_path / "c.yaml").write_text("""
task: {name: smnist}
model: {layers: 1, channels: 4, order: 4}
train: {epochs: 2, batch: 5, eval_batch: 1, steps: 9, threads: 1}
data: {path: digits}
""")
    rtf("train", "c.yaml", "--out", "run", "-q")
    write_digits(folder, 30, "train", np.random.default_rng(0))
    refused(rtf_raw("train", "--resume", "run", "train.steps=0"), "step 9 at batch 9", "no position of this run")


def test_resume_without_its_files(rtf, rtf_raw, tiny, tmp_path):
    run = tmp_path / "run"
    rtf("train", tiny, "--out", "run", "-q")
    # Nothing is committed before metrics.csv has been read.
    metrics, config = (run / "metrics.csv").read_text(), (run / "config.yaml").read_text()
    (run / "metrics.csv").write_text("garbage\n")
    refused(rtf_raw("train", "--resume", "run", "log.every=4"), "metrics.csv has the columns garbage")
    assert (run / "config.yaml").read_text() == config
    (run / "metrics.csv").write_text(metrics)

    best = (run / "checkpoints/best.safetensors").read_bytes()
    (run / "checkpoints/best.safetensors").unlink()
    refused(rtf_raw("eval", "run"), "no best weights before its first evaluation", "--checkpoint latest")
    (run / "checkpoints/best.safetensors").write_bytes(best)
    for name in ("latest", "previous"):
        (run / f"checkpoints/{name}.safetensors").unlink()
    refused(rtf_raw("train", "--resume", "run"), "neither latest.safetensors", "at step 24", "--from best")
    # A run that was killed before its first checkpoint begins again, and says so.
    (run / "status.json").unlink()
    done = rtf_raw("train", "--resume", "run")
    assert done.returncode == 0 and "run has no checkpoint yet and begins again" in done.stderr


def test_not_enough_memory_is_one_line(rtf_raw, tiny, tmp_path):
    for keys in (["task.symbols=2147483647", "model.channels=1000000"], ["model.channels=1000000", "model.layers=1"]):
        refused(rtf_raw("train", tiny, *keys, "--out", "run"), "not enough memory")
    assert not (tmp_path / "run").exists()


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
    "warm-up past the end": (["optimizer.warmup=24"], "optimizer.warmup is 24", "24 steps"),
    "too many steps": (["train.epochs=2147483647"], "train.epochs is 2147483647", "8 steps"),
    "too many epochs": (["train.epochs=9223372036854775807"], "train.epochs is '9223372036854775807'"),
    "too many threads": (["train.threads=100000"], "train.threads is '100000'", "1024"),
    "not UTF-8": (["data.path=\udcff"], "data.path is not UTF-8"),
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


def test_batch_norm_of_one_position_is_refused(rtf, rtf_raw, tmp_path):
    (tmp_path / "c.yaml").write_text(DELAY)
    keys = ["task.length=13", "train.chunk=4", "model.norm=batch"]
    refused(rtf_raw("train", "c.yaml", *keys, "train.batch=1", "--out", "run"),
            "model.norm is batch", "train.batch is 1", "train.chunk is 4")  # fmt: skip
    assert not (tmp_path / "run").exists()
    rtf("train", "c.yaml", *keys, "train.batch=2", "train.epochs=1", "--out", "run", "-q")


@pytest.mark.parametrize("left", ["metrics.csv", "checkpoints/latest.safetensors"])
def test_files_of_another_run_are_left_alone(rtf_raw, tiny, tmp_path, left):
    (tmp_path / "run" / left).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "run" / left).write_text("mine")
    refused(rtf_raw("train", tiny, "--out", "run"), left)
    assert [p.name for p in (tmp_path / "run").rglob("*") if p.is_file()] == [Path(left).name]


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
    refused(rtf_raw("train", "--resume", "run"), "model.order is 4 in config.yaml", "6 in")
    refused(rtf_raw("eval", "run", "--checkpoint", "latest"), "checkpoint of another model", "blocks.0.layer.a is (1, 6) there and (1, 4) here")
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
