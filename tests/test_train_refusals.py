"""What rtf train refuses before the first step, and what stops it later."""

import os
from pathlib import Path

import data_sets
import numpy as np
import pytest
from conftest import COMMAND
from safetensors.numpy import load_file, save_file
from training_runs import DELAY, TINY, refused, rows, status

if not (Path(COMMAND).resolve().parent / "rtf-train").exists():
    pytest.skip("built without training", allow_module_level=True)


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


@pytest.mark.skipif("RTF_SANITIZED" in os.environ, reason="AddressSanitizer ends the program when memory is short")
def test_not_enough_memory_is_one_line(rtf_raw, tiny, tmp_path):
    for keys in (["task.symbols=2147483647", "model.channels=1000000"], ["model.channels=1000000", "model.layers=1"]):
        refused(rtf_raw("train", tiny, *keys, "--out", "run"), "not enough memory")
    assert not (tmp_path / "run").exists()


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
    "unknown device": (["train.device=gpu"], "train.device is 'gpu'", "cpu, cuda, cuda:N"),
    "precision of the GPU alone": (["train.precision=bf16"], "train.precision is bf16", "train.device is cpu"),
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


def test_no_device_is_one_line(rtf, rtf_raw, tiny, tmp_path):
    """Hidden from the driver, a device that is there is none; a build without the backend says that instead."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    built = (Path(COMMAND).parent / "librtf_torch_cuda.so").exists()
    why = lambda device: f"device {device}: " if built else "this build has no CUDA backend"
    refused(rtf_raw("train", tiny, "train.device=cuda", "--out", "run", env=environment), why("cuda"), "use the CPU")
    assert not (tmp_path / "run").exists()
    rtf("train", tiny, "--out", "run", "-q")
    refused(rtf_raw("eval", "run", "--device", "cuda:1", env=environment), why("cuda:1"), "use the CPU")
    refused(rtf_raw("eval", "run", "--device", "gpu"), "train.device is 'gpu'")


ARENA = """
task: {{name: {0}}}
data: {{path: {1}, cache: {1}/cache}}
model: {{layers: 1, channels: 2, order: 2}}
train: {{batch: 2, steps: 2, threads: 1}}
"""


def test_only_text_validates_on_its_test_split(rtf, rtf_raw, tmp_path):
    (tmp_path / "c.yaml").write_text(ARENA.format("pathfinder", "images"))
    rtf("data", "pathfinder", "--train", 6, "--val", 0, "--test", 4, "--out", "images", "-q")
    refused(rtf_raw("train", "c.yaml", "--out", "run"), "images", "task pathfinder has no samples to validate on")
    assert not (tmp_path / "run").exists()
    (tmp_path / "t.yaml").write_text(ARENA.format("text", "reviews"))
    data_sets.write_imdb(tmp_path / "reviews", np.random.default_rng(0), size=3)
    rtf("train", "t.yaml", "--out", "run", "-q")
    assert {row["split"] for row in rows(tmp_path / "run")} <= {"train", "val"}
