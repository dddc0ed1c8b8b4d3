"""rtf train and rtf eval: what a run computes and writes."""

from pathlib import Path

import numpy as np
import pytest
from conftest import COMMAND
from safetensors import safe_open
from safetensors.numpy import load_file
from training_runs import DELAY, TINY, contents, refused, rows, same_run, status, write_digits

if not (Path(COMMAND).resolve().parent / "rtf-train").exists():
    pytest.skip("built without training", allow_module_level=True)


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


def test_steps_end_a_run_inside_an_epoch(rtf, tiny, tmp_path):
    rtf("train", tiny, "train.steps=11", "--out", "run", "-q")
    run = tmp_path / "run"
    assert status(run)["step"] == 11
    assert [r["step"] for r in rows(run) if r["split"] == "val"] == ["8", "11"]
    before = (run / "metrics.csv").read_text()
    rtf("train", "--resume", "run", "-q")  # nothing is left to do
    assert (run / "metrics.csv").read_text() == before


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
