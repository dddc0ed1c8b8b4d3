"""rtf bench lra: the layers of the six models, on the CPU at reduced sizes."""

import json
import math
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from conftest import COMMAND
from training_runs import refused

if not (Path(COMMAND).resolve().parent / "rtf-train").exists():
    pytest.skip("built without training", allow_module_level=True)

CONFIGS = Path(__file__).parent.parent / "experiments" / "lra"
SMALL = ("--configs", CONFIGS, "--device", "cpu", "--repeats", 3, "model.channels=8", "model.length=64", "model.denominators=1", "train.batch=2")
TASKS = ["listops", "text", "retrieval", "image", "pathfinder", "pathx"]


def test_table_json_and_picture_agree(rtf, tmp_path):
    text = rtf("bench", "lra", "--orders", "4,16,128", "--json", "lra.json", "--svg", "lra.svg", *SMALL)
    figures = json.loads((tmp_path / "lra.json").read_text())
    assert (figures["device"], figures["precision"], figures["repeats"], figures["unit"]) == ("cpu", "fp32", 3, "ms")
    times = {(row["task"], row["layer"], row["order"]): row for row in figures["times"]}
    assert len(times) == len(figures["times"])
    own = {(task, layer): order for (task, layer, order), row in times.items() if row["own"]}
    # The configs' own orders, and with them those asked for that are not above the length.
    for layer in ("rtf", "s4d", "s4"):
        assert [own[task, layer] for task in TASKS] == [4, 4, 4, 64, 64, 2048 if layer == "rtf" else 64]
        for task in TASKS:
            assert {order for t, l, order in times if (t, l) == (task, layer)} == {4, 16, own[task, layer]}
    for (task, _, _), row in times.items():
        # A sample of Retrieval is two documents.
        assert (row["batch"], row["length"], row["channels"]) == (4 if task == "retrieval" else 2, 64, 8)
        assert row["forward"] > 0 and row["training"] > 0
    # A single one may be disturbed by other work on the machine.
    assert sum(row["forward"] for row in times.values()) < sum(row["training"] for row in times.values())
    for layer in ("s4d", "s4"):
        for kind in ("forward", "training"):
            ratios = [times[task, layer, own[task, layer]][kind] / times[task, "rtf", own[task, "rtf"]][kind] for task in TASKS]
            mean = figures["means"][f"{layer}/rtf"][kind]
            assert mean["tasks"] == 6
            assert mean["arithmetic"] == pytest.approx(sum(ratios) / 6)
            assert mean["geometric"] == pytest.approx(math.prod(ratios) ** (1 / 6))
            assert f"mean of {layer}/rtf over 6 tasks *: {mean['arithmetic']:.3f} (geometric {mean['geometric']:.3f})" in text
    # The tables print those times, one line an order and one for each layer at its own.
    for title, kind in (("\nForward\n", "forward"), ("\nForward and backward (training)\n", "training")):
        lines = text.partition(title)[2].splitlines()
        assert lines[0].split() == ["task", "batch", "length", "channels", "order", "rtf", "s4d", "s4", "s4d/rtf", "s4/rtf"]
        line = next(line for line in lines if line.startswith("image") and "64 *" in line)
        cells = re.search(r"64 \*\s+(.*)", line)[1].split()
        rtf_ms, s4d_ms, s4_ms = (times["image", layer, 64][kind] for layer in ("rtf", "s4d", "s4"))
        assert cells == [f"{rtf_ms:.4f}", f"{s4d_ms:.4f}", f"{s4_ms:.4f}", f"{s4d_ms / rtf_ms:.2f}", f"{s4_ms / rtf_ms:.2f}"]
        assert sum("2048, 64, 64 *" in line for line in lines[:22]) == 1
    picture = ElementTree.parse(tmp_path / "lra.svg").getroot()
    space = "{http://www.w3.org/2000/svg}"
    texts = [node.text for node in picture.iter(space + "text")]
    assert set(TASKS) | {"rtf", "s4d", "s4", "2048"} <= set(texts)
    # A curve for each layer and pass in every panel, but for those of one point, and a ring on each at its own order.
    assert len(list(picture.iter(space + "polyline"))) == 6 * 3 * 2
    assert len([node for node in picture.iter(space + "circle") if node.get("class").startswith("ring")]) == 6 * 3 * 2


def test_choices(rtf, tmp_path):
    text = rtf("bench", "lra", "--tasks", "text,text", "--layers", "spacetime,rtf,rtf", "--orders", "8", "--precision", "fp64", "--json", "x.json", *SMALL)
    assert "s4" not in text and "fp64" in text and "rtf/spacetime" in text
    rows = json.loads((tmp_path / "x.json").read_text())["times"]
    assert [(row["task"], row["layer"], row["order"]) for row in rows] == [("text", layer, order) for layer in ("spacetime", "rtf") for order in (4, 8)]


def test_refusals(rtf_raw, tmp_path):
    refused(rtf_raw("bench", "lra", "--configs", "nowhere"), "no folder nowhere", "--configs")
    refused(rtf_raw("bench", "lra", "--tasks", "chess", *SMALL), "chess")
    refused(rtf_raw("bench", "lra", "--layers", "gru", *SMALL), "gru")
    refused(rtf_raw("bench", "lra", "--orders", "0", *SMALL), "--orders")
    refused(rtf_raw("bench", "lra", "--repeats", "0", *SMALL), "--repeats")
    refused(rtf_raw("bench", "lra", *SMALL, "model.width=4"), "model.width")
    refused(rtf_raw("bench", "lra", "--precision", "bf16", *SMALL), "bf16", "cpu")
    refused(rtf_raw("bench", "lra", "--json", "missing/x.json", *SMALL), "missing/x.json")
    refused(rtf_raw("bench", "lra", *SMALL, "model.denominators=3"), "listops.yaml", "model.denominators is 3")
    # An order that one of the layers cannot have is told before the first measurement.
    refused(rtf_raw("bench", "lra", "--tasks", "image", "--layers", "rtf,s5", *SMALL), "image_s5.yaml", "model.blocks is 3", "model.order, 4")
    # Nothing is half-written when a measurement fails.
    refused(rtf_raw("bench", "lra", "--tasks", "image", "--layers", "s4", "--orders", "5", "--json", "x.json", "--svg", "x.svg", *SMALL), "order is 5", "even")
    assert not list(tmp_path.glob("x.*"))


def test_keys_may_follow_a_list(rtf):
    keys = ["model.channels=8", "model.length=64", "train.batch=2"]
    text = rtf("bench", "lra", "--configs", CONFIGS, "--device", "cpu", "--repeats", 1, "--tasks", "listops", "--layers", "rtf", "--orders", "4", *keys)
    assert "listops" in text and " 64 " in text
