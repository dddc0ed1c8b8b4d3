"""TensorBoard's own reader reads our event files."""

import math
import os
import struct
import subprocess
from pathlib import Path

import pytest
from conftest import COMMAND

PROGRAM = Path(COMMAND).resolve().parent / "tests" / "event_file_test"
if not PROGRAM.exists():
    pytest.skip("built without training", allow_module_level=True)
accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("events")
    subprocess.run(
        [PROGRAM, "--gtest_filter=EventFile.WritesARun"], env={**os.environ, "RTF_EVENT_FOLDER": str(path)}, check=True
    )
    return path


def read(folder):
    events = accumulator.EventAccumulator(str(folder), size_guidance={accumulator.SCALARS: 0})
    events.Reload()
    return events


def test_one_start(folder, tmp_path):
    first, second = sorted(folder.iterdir())
    (tmp_path / first.name).write_bytes(first.read_bytes())
    events = read(tmp_path)
    assert sorted(events.Tags()["scalars"]) == ["train/loss", "val/accuracy"]
    points = events.Scalars("train/loss")
    assert [p.step for p in points] == [*range(1, 301), 2**40]
    single = struct.unpack("f", struct.pack("f", 1 / 3))[0]
    assert points[2].value == single and points[-1].value == -2.5
    assert all(x.wall_time <= y.wall_time for x, y in zip(points, points[1:]))
    assert math.isnan(events.Scalars("val/accuracy")[0].value)
    (text,) = events.Tensors("config/text_summary")
    assert text.tensor_proto.string_val[0] == b"  task: copying\n"
    assert events.SummaryMetadata("config/text_summary").plugin_data.plugin_name == "text"


def test_a_resumed_run_forgets_what_came_after_the_checkpoint(folder):
    points = read(folder).Scalars("train/loss")
    assert [p.step for p in points] == list(range(1, 221))
    assert [p.value for p in points[200:]] == [7] * 20


def test_a_file_cut_short_reads_to_the_last_whole_record(folder, tmp_path):
    first = min(folder.iterdir())
    (tmp_path / first.name).write_bytes(first.read_bytes()[:-200])
    steps = [p.step for p in read(tmp_path).Scalars("train/loss")]
    assert 290 < len(steps) < 301 and steps == list(range(1, len(steps) + 1))
