"""rtf runs and rtf sweep: runs one after the other, results that can be trusted, and going on after a stop."""

import csv
import json
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import COMMAND

if not (Path(COMMAND).resolve().parent / "rtf-train").exists():
    pytest.skip("built without training", allow_module_level=True)

CONFIG = """
task: {name: copying, symbols: 4, memory: 3, train_size: 32, val_size: 8}
model: {layers: 1, channels: 2, order: 2}
train: {epochs: 2, batch: 8, threads: 1}
"""


@pytest.fixture
def config(tmp_path):
    (tmp_path / "c.yaml").write_text(CONFIG)
    return "c.yaml"


def results(tmp_path):
    with open(tmp_path / "out" / "sweep.csv") as file:
        return list(csv.DictReader(file))


def test_every_combination_is_a_run(rtf, rtf_raw, config, tmp_path):
    sweep = ["sweep", config, "model.order=2,4", "optimizer.lr=0.1,0.01", "train.seed=7", "--out", "out"]
    table = rtf(*sweep)
    rows = results(tmp_path)
    assert [(r["model.order"], r["optimizer.lr"]) for r in rows] == [("2", "0.1"), ("2", "0.01"), ("4", "0.1"), ("4", "0.01")]
    assert {(r["state"], r["train.seed"], r["metric"]) for r in rows} == {("finished", "7", "loss")}
    assert rows[3]["run"] == "order=4_lr=0.01"
    for row in rows:
        status = json.loads((tmp_path / "out" / row["run"] / "status.json").read_text())
        assert status["best"] == float(row["best"]) and status["step"] == int(row["step"]) == 8
    lines = table.splitlines()
    header = next(i for i, line in enumerate(lines) if line.split() == ["order", "lr", "state", "step", "metric", "best", "trained"])
    assert [line.split()[:3] for line in lines[header + 1 :]] == [[r["model.order"], r["optimizer.lr"], "finished"] for r in rows]

    # The same command again does nothing, another one of that name is refused.
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*") if path.name != "sweep.csv" and path.is_file()}
    again = rtf_raw(*sweep)
    assert again.returncode == 0 and again.stderr.count("finished already") == 4
    assert all(path.stat().st_mtime_ns == at for path, at in before.items())
    other = rtf_raw("sweep", config, "model.order=2,4", "optimizer.lr=0.1,0.01", "train.seed=8", "--out", "out")
    assert other.returncode == 2 and "train.seed = 7, this sweep has 8" in other.stderr

    listed = rtf("runs", "out").splitlines()
    assert listed[0].split()[:4] == ["run", "task", "state", "step"]
    assert [line.split()[:4] for line in listed[1:]] == sorted([r["run"], "copying", "finished", "8"] for r in rows)


def test_a_failing_run_does_not_stop_the_rest(rtf_raw, config, tmp_path):
    # 64 samples a batch are more than an epoch has, which only the trainer finds out.
    done = rtf_raw("sweep", config, "train.batch=64,8", "--out", "out")
    assert done.returncode == 2
    assert "failed: out/batch=64" in done.stderr.splitlines()[-1]
    assert [r["state"] for r in results(tmp_path)] == ["failed", "finished"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_stopped_sweep_goes_on(rtf, config, tmp_path, number):
    long = ["train.epochs=600", "train.eval_every=100", "log.poles_every=0"]
    sweep = [COMMAND, "sweep", config, "model.order=2,4", *long, "--out", "out"]
    process = subprocess.Popen(sweep, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    first = tmp_path / "out" / "order=2" / "metrics.csv"
    deadline = time.monotonic() + 60
    while not (first.exists() and len(first.read_text().splitlines()) > 3):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)  # both have gone: the pipe is closed
    if number != signal.SIGKILL:
        assert process.returncode == 2 and "the same command goes on" in errors
        assert [r["state"] for r in results(tmp_path)] == ["interrupted", "waiting"]
    assert rtf("runs", "out").splitlines()[1].split()[:3] == ["order=2", "copying", "interrupted"]
    rtf(*sweep[1:])
    assert [(r["state"], r["step"]) for r in results(tmp_path)] == [("finished", "2400")] * 2


@pytest.mark.parametrize(
    "arguments, part",
    [
        (["model.ordr=1"], "did you mean 'model.order'?"),
        (["model.order=1,1"], "model.order has a value twice"),
        (["model.order=1", "model.order=2"], "model.order is given twice"),
        (["model.order=1,x"], "model.order is 'x'"),
        (["model.order=1,"], "model.order is ''"),
        (["order"], "'order' is not of the form"),
    ],
)
def test_bad_sweeps_start_nothing(rtf_raw, config, tmp_path, arguments, part):
    done = rtf_raw("sweep", config, *arguments, "--out", "out")
    assert (done.returncode, done.stdout) == (2, "")
    assert part in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_table_that_cannot_be_written_starts_nothing(rtf_raw, config, tmp_path):
    (tmp_path / "out" / "sweep.csv").mkdir(parents=True)
    done = rtf_raw("sweep", config, "model.order=1,2", "--out", "out")
    assert done.returncode == 2 and "sweep.csv: it is a folder" in done.stderr and done.stderr.count("\n") == 1
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["sweep.csv"]


def test_damaged_runs_do_not_hide_the_others(rtf, config, tmp_path):
    rtf("sweep", config, "train.seed=1,2,3", "--out", "out")
    (tmp_path / "out" / "seed=1" / "config.yaml").write_text("{")
    (tmp_path / "out" / "seed=2" / "status.json").write_text("{")
    lines = rtf("runs", "out").splitlines()[1:]
    assert [line.split()[:3] for line in lines] == [
        ["seed=1", "?", "finished"],
        ["seed=2", "copying", "unreadable"],
        ["seed=3", "copying", "finished"],
    ]


def test_bad_folders(rtf_raw, tmp_path):
    (tmp_path / "empty").mkdir()
    for folder, part in [("none", "none is not a folder"), ("empty", "empty holds no runs")]:
        done = rtf_raw("runs", folder)
        assert done.returncode == 2 and part in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["train", "eval", "report", "runs", "sweep"])
def test_a_build_without_training_says_so(tmp_path, command):
    shutil.copy(COMMAND, tmp_path / "rtf")
    done = subprocess.run([tmp_path / "rtf", command, "x"], env={"PATH": "/nowhere"}, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.startswith(f"rtf {command}: this rtf was built without training")
