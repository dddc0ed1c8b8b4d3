"""One training step of the backbone, ours and PyTorch's: milliseconds and the peak of the process's memory."""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

# 6 layers of 256 channels, n = 64, on 1,024 tokens of which 512 are to be copied.
LENGTH, LAST, VOCABULARY, BATCH = 1024, 512, 64, 16
MODEL = {"layers": 6, "channels": 256, "order": 64, "denominators": 1, "prenorm": True}
STEPS = 5  # the first warms up


def finish(command, cores, text=""):
    """Standard output and peak memory in bytes of a command, which must succeed; `text` is its standard input."""
    process = subprocess.Popen(
        [str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env={**os.environ, "OMP_NUM_THREADS": str(cores)},
    )  # fmt: skip
    process.stdin.write(text)
    process.stdin.close()
    output = process.stdout.read()
    error = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"training: {command[0]} failed: {error.strip()}")
    return output + error, used.ru_maxrss * 1024


def ours(build, dropout, cores):
    config = {
        "task": {"name": "copying", "symbols": VOCABULARY, "memory": LAST, "val_size": BATCH},
        "model": {**MODEL, "norm": "batch", "dropout": dropout, "inner_dropout": dropout},
        "optimizer": {"lr": 0.001, "weight_decay": 0.05},
        "train": {"steps": STEPS, "batch": BATCH, "threads": cores, "eval_every": 1000},
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.yaml"
        path.write_text(json.dumps(config))
        output, peak = finish([build / "rtf", "train", path, "--out", Path(folder) / "run", "--profile"], cores)
    step = re.search(r"median step\s+([\d.]+) ms", output)
    if step is None:
        sys.exit(f"training: no step time in the profile:\n{output}")
    return {"ms": float(step[1]), "peak_bytes": peak}


def torchs(dropout, cores):
    config = {**MODEL, "name": "copying", "bidirectional": False, "vocabulary": VOCABULARY, "outputs": VOCABULARY,
              "length": LENGTH, "last": LAST, "batch": BATCH, "steps": STEPS, "warm_up": 1, "device": "cpu",
              "released_order": False, "threads": cores, "dropout": dropout, "inner_dropout": dropout}  # fmt: skip
    script = Path(__file__).parent / "peers" / "torch_model.py"
    output, peak = finish([sys.executable, "-B", script], cores, json.dumps([config]))
    return {"ms": json.loads(output)["ms"], "peak_bytes": peak}
