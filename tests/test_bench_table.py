"""rtf bench table: the paper's tables with our figures, on the CPU."""

import re
from pathlib import Path

import pytest
from conftest import COMMAND
from training_runs import refused

if not (Path(COMMAND).resolve().parent / "rtf-train").exists():
    pytest.skip("built without training", allow_module_level=True)


def test_latency_has_the_papers_rows(rtf):
    head, columns, *lines = rtf("bench", "table", "latency", "--device", "cpu", "--batch", 1, "--longest", 4096).splitlines()
    assert "ms" in head and "cpu" in head and "batch 1" in head
    rows = [line for line in lines if re.match(r"\s*\d", line)]
    assert [row.split()[0] for row in rows] == ["0.25", "0.50", "1", "2", "4", "8"]
    # Two lengths, each: ours, the paper's layer, its S5.
    ours = [re.findall(r"([\d.]+) \| ([\d.-]+) \| ([\d.]+)", row) for row in rows]
    assert all(len(cells) == 2 and all(float(ms) > 0 for ms, _, _ in cells) for cells in ours)
    assert ours[0][0][1:] == ("-", "0.126") and ours[-1][1][1:] == ("0.372", "4.363")


def test_refusals(rtf_raw):
    refused(rtf_raw("bench", "table", "memory", "--device", "cpu"), "the memory table is measured on a GPU")
    refused(rtf_raw("bench", "table", "speed"), "speed")
    refused(rtf_raw("bench", "table", "latency", "--device", "tpu"), "tpu")
    refused(rtf_raw("bench", "table", "latency", "--longest", 100), "100")
