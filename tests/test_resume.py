"""Runs that end where they should, whatever happens on the way: kills, signals, full disks, damaged or changed files."""

import json
import os
import random
import resource
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import COMMAND
from safetensors.numpy import load as safetensors_load
from training_runs import DELAY, TINY, contents, refused, rows, same_run, start, status, wait_for, write_digits

if not (Path(COMMAND).resolve().parent / "rtf-train").exists():
    pytest.skip("built without training", allow_module_level=True)


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


# A model whose checkpoint has several MiB.
LARGE = ["model.channels=96", "model.layers=4", "train.epochs=2", "optimizer.total=16"]


def test_parts_of_a_checkpoint(rtf, tmp_path, tiny):
    rtf("train", tiny, *LARGE, "--out", "whole", "-q")
    rtf("train", tiny, *LARGE, "checkpoint.part_size=1", "checkpoint.every_steps=3", "train.steps=7", "--out", "run",
        "-q")  # fmt: skip
    checkpoints = tmp_path / "run" / "checkpoints"

    def joined(name):
        index = json.loads((checkpoints / f"{name}.safetensors").read_text())
        return b"".join((checkpoints / part["file"]).read_bytes() for part in index["parts"])

    parts = list(checkpoints.glob("*.part"))
    assert len(parts) >= 3 and all(part.stat().st_size <= 2**20 for part in parts)
    used = {part["file"] for name in ("latest", "previous", "best")
            for part in json.loads((checkpoints / f"{name}.safetensors").read_text())["parts"]}  # fmt: skip
    assert used == {part.name for part in parts}
    assert safetensors_load(joined("latest")).keys() == safetensors_load(
        (tmp_path / "whole/checkpoints/latest.safetensors").read_bytes()).keys()  # fmt: skip
    # On another machine: a copy of the folder, and either form.
    (tmp_path / "run").rename(tmp_path / "moved")
    checkpoints = tmp_path / "moved" / "checkpoints"
    rtf("train", "--resume", "moved", "train.steps=0", "-q")
    assert rtf("eval", "moved")
    last = tmp_path / "moved/checkpoints/last.safetensors"
    last.write_bytes(joined("latest"))
    assert contents(last)[0] == contents(tmp_path / "whole/checkpoints/latest.safetensors")[0]


def test_damaged_parts_are_named(rtf, rtf_raw, tmp_path, tiny):
    rtf("train", tiny, *LARGE, "checkpoint.part_size=1", "checkpoint.every_steps=3", "train.steps=7", "--out", "run",
        "-q")  # fmt: skip
    checkpoints = tmp_path / "run" / "checkpoints"
    part = checkpoints / json.loads((checkpoints / "latest.safetensors").read_text())["parts"][1]["file"]
    whole = part.read_bytes()
    part.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    refused(rtf_raw("train", "--resume", "run"), "damaged", part.name, "--from previous")
    part.unlink()
    refused(rtf_raw("train", "--resume", "run"), "incomplete", part.name, "--from previous")
    rtf("train", "--resume", "run", "--from", "previous", "checkpoint.part_size=0", "-q")
    assert not part.exists() and contents(checkpoints / "latest.safetensors")


def test_minutes(rtf_raw, rtf, tmp_path, tiny):
    """A run that would take long stops in time, says how to go on, and ends as one that was never stopped."""
    keys = ["train.epochs=300", "train.eval_every=100"]
    rtf("train", tiny, *keys, "--out", "whole", "-q")
    begin = time.monotonic()
    done = rtf_raw("train", tiny, *keys, "--minutes", 0.02, "--out", "run", "-q")
    assert time.monotonic() - begin < 20
    stops = 1
    while done.stderr:
        assert done.returncode == 0 and "stopped after 0.02 minutes" in done.stderr, done
        assert "rtf train --resume run" in done.stderr and done.stderr.count("\n") == 1
        assert status(tmp_path / "run")["state"] == "interrupted"
        step = status(tmp_path / "run")["step"]
        done = rtf_raw("train", "--resume", "run", "--minutes", 0.02 if stops < 3 else 10, "-q")
        assert status(tmp_path / "run")["step"] > step
        stops += 1
    assert done.returncode == 0 and status(tmp_path / "run")["state"] == "finished"
    same_run(tmp_path / "whole", tmp_path / "run")
    for minutes in ("0", "-1", "soon", "inf", "nan", "1e999", "5m"):
        refused(rtf_raw("train", tiny, "--minutes", minutes, "--out", "x"), "--minutes")


def test_minutes_shorter_than_an_evaluation(rtf_raw, rtf, tmp_path, tiny):
    """Whatever is done when the time is up, the next start goes on from there: evaluations too come to their end."""
    keys = ["task.train_size=16", "task.val_size=24", "train.eval_batch=8", "train.epochs=1", "optimizer.schedule=constant",
            "optimizer.warmup=0"]  # fmt: skip
    rtf("train", tiny, *keys, "--out", "whole", "-q")
    done = rtf_raw("train", tiny, *keys, "--minutes", "1e-6", "--out", "run", "-q")
    # A step or a batch of the evaluation each time: two steps, three batches.
    starts = 1
    while done.stderr and starts < 10:
        assert done.returncode == 0 and "stopped after 1e-06 minutes" in done.stderr, done
        done = rtf_raw("train", "--resume", "run", "--minutes", "1e-6", "-q")
        starts += 1
    assert (done.returncode, done.stderr) == (0, "") and starts >= 5
    same_run(tmp_path / "whole", tmp_path / "run")


def test_an_evaluation_of_other_weights_is_not_gone_on_with(rtf_raw, rtf, tmp_path, tiny):
    keys = ["task.val_size=32", "train.eval_batch=8", "optimizer.total=24"]
    rtf("train", tiny, *keys, "train.steps=4", "--out", "whole", "-q")
    rtf("train", "--resume", "whole", "train.steps=0", "-q")
    rtf_raw("train", tiny, *keys, "train.steps=4", "--minutes", "1e-6", "--out", "run", "-q")
    latest = tmp_path / "run/checkpoints/latest.safetensors"
    while "evaluation.val" not in contents(latest)[0]:
        assert "stopped" in rtf_raw("train", "--resume", "run", "--minutes", "1e-6", "-q").stderr
    # More steps before the evaluation is done.
    rtf("train", "--resume", "run", "train.steps=0", "-q")
    assert [row for row in rows(tmp_path / "run") if row["step"] != "4"] == [
        row for row in rows(tmp_path / "whole") if row["step"] != "4"]  # fmt: skip


def test_an_evaluation_of_other_data_is_not_gone_on_with(rtf_raw, rtf, tmp_path):
    """Neither from another folder, nor from the same one with other files."""
    rng = np.random.default_rng(3)
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        for prefix, count in (("train", 64), ("t10k", 32)):
            write_digits(tmp_path / folder, count, prefix, rng)
    (tmp_path / "c.yaml").write_text("""
task: {name: smnist, train_size: 16, val_size: 32}
model: {layers: 1, channels: 4, order: 4}
train: {epochs: 1, batch: 8, threads: 1}
data: {path: one}
""")
    latest = tmp_path / "run/checkpoints/latest.safetensors"
    for other in ("two", "moved"):
        rtf("train", "c.yaml", "--minutes", "1e-6", "--out", "run", "-q")
        while "evaluation.val" not in contents(latest)[0]:
            assert "stopped" in rtf_raw("train", "--resume", "run", "--minutes", "1e-6", "-q").stderr
        if other == "moved":
            (tmp_path / "one").rename(tmp_path / "first")
            (tmp_path / "two").rename(tmp_path / "one")
        rtf("train", "--resume", "run", *(["data.path=two"] if other == "two" else []), "-q")
        found = {row["split"]: row for row in rows(tmp_path / "run") if row["split"] != "train"}
        for split, _, loss, accuracy in (line.split() for line in rtf("eval", "run", "--checkpoint", "latest").splitlines()[2:]):
            assert float(found[split]["accuracy"]) == pytest.approx(float(accuracy), rel=1e-5)
            assert float(found[split]["loss"]) == pytest.approx(float(loss), rel=1e-5)  # as printed, of the same weights
        shutil.rmtree(tmp_path / "run")


def test_minutes_without_end(rtf, tmp_path, tiny):
    for minutes in ("1e9", "1e300"):
        assert "finished" in rtf("train", tiny, "train.steps=6", "--minutes", minutes, "--out", minutes)
