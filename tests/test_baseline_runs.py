"""Every kind of layer trains in every small task, reproducibly; what a run of one refuses."""

from pathlib import Path

import numpy as np
import pytest
from conftest import COMMAND
from training_runs import refused, rows, same_run

if not (Path(COMMAND).resolve().parent / "rtf-train").exists():
    pytest.skip("built without training", allow_module_level=True)

EXPERIMENTS = Path(__file__).parent.parent / "experiments"
KINDS = {
    "rtf": [],
    "s4": ["model.rank=2"],
    "s4d": ["model.init=legs", "model.output_dropout=0.1"],
    "s5": ["model.blocks=2", "model.glu=half_glu1"],
    "spacetime": [],
}
TASKS = {
    "copying": "task: {name: copying, symbols: 6, memory: 8, train_size: 160, val_size: 16}\nmodel: {layers: 2}\n",
    "delay": "task: {name: delay, length: 48, dt: 0.01, band: 20, lag: 5, train_size: 160, val_size: 16}\nmodel: {layers: 2}\n",
}
COMMON = ["model.channels=8", "model.order=8", "train.batch=8", "train.epochs=1", "train.threads=1", "log.every=1", "optimizer.lr=0.005"]


@pytest.mark.parametrize("layer", KINDS)
@pytest.mark.parametrize("task", TASKS)
def test_trains_and_gives_the_same_bits_again(rtf, tmp_path, task, layer):
    (tmp_path / "config.yaml").write_text(TASKS[task])
    choice = [f"model.layer={layer}", *KINDS[layer]]
    for name in ("one", "two"):
        rtf("train", "config.yaml", *COMMON, *choice, "--out", name)
    same_run(tmp_path / "one", tmp_path / "two")
    losses = [float(row["loss"]) for row in rows(tmp_path / "one") if row["split"] == "train"]
    assert len(losses) == 20 and losses[-1] < losses[0]
    # Steps and prompts answer as the convolution does.
    rtf("eval", "one", "--mode", "step")


@pytest.mark.parametrize("file", sorted((EXPERIMENTS / "synthetics").glob("*.yaml")), ids=lambda file: file.stem)
def test_synthetic_configs_train(rtf, tmp_path, file):
    small = ["model.order=8", "train.steps=20", "train.batch=2", "train.threads=1", "task.train_size=40", "task.val_size=2",
             "log.every=1"]  # fmt: skip
    if file.stem.startswith("copying"):
        small += ["model.channels=8", "model.layers=1", "task.memory=16"]
    else:
        small += ["model.channels=4", "task.length=128", *(["task.window=32"] if "reconstruct" in file.stem else ["task.lag=32"])]
    for name in ("one", "two"):
        rtf("train", file, *small, "--out", name)
    same_run(tmp_path / "one", tmp_path / "two")
    losses = [float(row["loss"]) for row in rows(tmp_path / "one") if row["split"] == "train"]
    assert len(losses) == 20 and np.isfinite(losses).all()


def test_export_takes_rtf_alone(rtf, rtf_raw, tmp_path):
    (tmp_path / "config.yaml").write_text(TASKS["delay"])
    rtf("train", "config.yaml", *COMMON, "model.layer=s4d", "train.steps=1", "--out", "run")
    done = rtf_raw("export", "run", "-o", "model.safetensors")
    refused(done, "layers other than rtf have no place in a model file")
    assert not (tmp_path / "model.safetensors").exists()
