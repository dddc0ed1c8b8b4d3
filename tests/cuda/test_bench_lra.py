"""rtf bench lra on the GPU: layers are recorded as graphs, forward and backward."""

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMAND = os.environ.get("RTF_COMMAND", str(ROOT / "build" / "release" / "rtf"))
SMALL = ["model.channels=16", "model.length=128", "model.denominators=1", "train.batch=2"]


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16"])
def test_every_layer_is_recorded(tmp_path, precision):
    configs = ["--configs", str(ROOT / "experiments" / "lra"), "--tasks", "listops,image", "--layers", "rtf,s4d,s4,spacetime"]
    choices = ["--orders", "4,64", "--repeats", "3", "--precision", precision, "--json", "lra.json"]
    done = subprocess.run([COMMAND, "bench", "lra", *configs, *choices, *SMALL], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "in a CUDA graph" in done.stdout
    figures = json.loads((tmp_path / "lra.json").read_text())
    assert (figures["device"], figures["precision"]) == ("cuda", precision)
    assert len(figures["times"]) == 2 * 4 * 2
    assert all(time["forward"] > 0 and time["training"] > 0 for time in figures["times"])
    assert sum(time["forward"] for time in figures["times"]) < sum(time["training"] for time in figures["times"])
