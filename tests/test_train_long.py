"""The small experiments reach what their files promise: minutes each, `make test-long` runs them."""

import csv
import subprocess
from pathlib import Path

import pytest
from conftest import COMMAND, real_data

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.long
if not (Path(COMMAND).resolve().parent / "rtf-train").exists():
    pytest.skip("built without training", allow_module_level=True)


def scores(tmp_path, experiment, split, *keys):
    """The rows of `split` in the order of training."""
    config = ROOT / "experiments" / "small" / experiment
    run = tmp_path / "run"
    done = subprocess.run([COMMAND, "train", config, *keys, "--out", run, "-q"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with open(run / "metrics.csv") as file:
        return [row for row in csv.DictReader(file) if row["split"] == split]


def test_small_copying(tmp_path):
    assert max(float(row["accuracy"]) for row in scores(tmp_path, "copying.yaml", "val")) >= 0.99


def test_small_delay(tmp_path):
    assert min(float(row["rmse"]) for row in scores(tmp_path, "delay.yaml", "val")) < 0.05


def test_small_sequential_mnist(tmp_path):
    (row,) = scores(tmp_path, "smnist.yaml", "test", f"data.path={real_data('mnist')}")
    assert float(row["accuracy"]) > 0.9
