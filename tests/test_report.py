"""rtf report against the run folders read by Python: the numbers, the rows, the curves, and what it says of damaged runs."""

import json
import math
import re
import statistics
import xml.etree.ElementTree as xml
from pathlib import Path

import pytest
from conftest import COMMAND
from training_runs import refused, rows, start, status, wait_for

if not (Path(COMMAND).resolve().parent / "rtf-train").exists():
    pytest.skip("built without training", allow_module_level=True)

EXPERIMENTS = Path(__file__).parent.parent / "experiments"
SMALL = """
task: {name: copying, symbols: 4, memory: 3, train_size: 32, val_size: 8}
model: {layers: 1, channels: 2, order: 2}
optimizer: {lr: 0.05}
train: {epochs: 5, batch: 8, threads: 1}
log: {every: 1}
"""


def table(text):
    """The rows of a Markdown table, each a dict by column."""
    lines = [re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines() if line.startswith("|")]
    header, rule, *cells = [[cell.strip() for cell in line] for line in lines]
    assert all(re.fullmatch(r"-{2,}[-:]", mark) for mark in rule)
    return [dict(zip(header, row, strict=True)) for row in cells]


def write_run(folder, config, evaluations, split_names=("val", "test"), state="finished", steps=None, metric="accuracy"):
    """A run whose evaluations, {step: a value for each split}, chose the best by `metric`, the larger the better."""
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(config)
    lines = ["step,epoch,split,loss,accuracy"]
    for step, values in evaluations.items():
        lines.append(f"{step},0,train,{1 / step},")
        lines += [f"{step},0,{split},{2 / step},{value}" for split, value in zip(split_names, values, strict=True)]
    (folder / "metrics.csv").write_text("\n".join(lines) + "\n")
    last = max(evaluations, default=0)
    known = {"state": state, "step": last, "epoch": 1, "seconds": 90, "metric": metric,
             "best": max((values[0] for values in evaluations.values()), default=None)}  # fmt: skip
    (folder / "status.json").write_text(json.dumps(known | ({"steps": steps} if steps else {})))


def image(**keys):
    model = {"layer": "rtf", "order": 64, **keys}
    seed = model.pop("seed", 1)
    return (f"task: {{name: image}}\ndata: {{path: nowhere}}\ntrain: {{seed: {seed}, device: cuda, precision: tf32}}\n"
            f"model: {json.dumps(model)}\n")  # fmt: skip


def test_seeds_are_one_row_with_mean_and_deviation(rtf, tmp_path):
    (tmp_path / "c.yaml").write_text(SMALL)
    rtf("sweep", "c.yaml", "model.layer=rtf,s4d", "train.seed=3,1,2", "--out", "runs")
    text = rtf("report", "runs", "--out", "out/deep")
    found = table(text)
    assert [row["layer"] for row in found] == ["rtf", "s4d"]
    for row in found:
        accuracies, last, seconds = [], [], []
        for seed in (1, 2, 3):
            run = tmp_path / "runs" / f"layer={row['layer']}_seed={seed}"
            best = min((r for r in rows(run) if r["split"] == "val"), key=lambda r: float(r["loss"]))
            assert float(best["loss"]) == status(run)["best"]
            accuracies.append(100 * float(best["accuracy"]))
            last.append(100 * float([r for r in rows(run) if r["split"] == "val"][-1]["accuracy"]))
            seconds.append(status(run)["seconds"])
        assert row["val"] == f"{statistics.mean(accuracies):.3f} ± {statistics.stdev(accuracies):.3f}"
        assert row["last"] == f"{statistics.mean(last):.3f} ± {statistics.stdev(last):.3f}"
        assert row["minutes"] == f"{statistics.mean(seconds) / 60:.1f}"
        assert row["run"] == f"runs/layer={row['layer']}_seed=1 and 2 more"
        assert {key: row[key] for key in row if key not in ("run", "layer", "val", "last", "minutes")} == {
            "task": "copying", "order": "2", "channels": "2", "state": "finished", "steps": "20 / 20", "epochs": "5",
            "metric": "accuracy, %", "test": "", "paper": "", "runs": "3", "seeds": "1, 2, 3", "device": "cpu",
            "precision": "fp32",
        }  # fmt: skip

    # The file is what was printed, and pictures that are there.
    written = (tmp_path / "out/deep/report.md").read_text()
    assert written.startswith(text)
    assert re.findall(r"\]\((.*?)\)", written) == ["copying.svg"]
    assert sorted(path.name for path in (tmp_path / "out/deep").iterdir()) == ["copying.svg", "report.md"]
    # Every line of the table is as wide as its first.
    assert len({len(line) for line in text.splitlines() if line.startswith("|")}) == 1


def test_test_is_that_of_the_best_checkpoint(rtf, tmp_path):
    write_run(tmp_path / "a", image(), {900: (0.5, 0.4), 1800: (0.8, 0.7), 2700: (0.75, 0.9)})
    write_run(tmp_path / "b", image(layer="s4d"), {900: (0.5,)}, ("val",), state="interrupted", steps=180000)
    a, b = table(rtf("report", "a", "b"))
    assert (a["val"], a["test"], a["steps"], a["state"]) == ("80.000", "70.000", "2700 / 2700", "finished")
    assert (b["val"], b["test"], b["steps"], b["state"]) == ("50.000", "", "900 / 180000", "interrupted")
    assert (a["last"], b["last"]) == ("90.000", "50.000")
    assert (a["minutes"], a["device"], a["precision"], a["paper"], b["paper"]) == ("1.5", "cuda", "tf32", "90.51", "89.18")


def test_only_finished_runs_that_differ_by_seed_share_a_row(rtf, tmp_path):
    done = {900: (0.5, 0.5)}
    for name, config, state in [
        ("a", image(seed=1), "finished"),
        ("b", image(seed=2), "finished"),
        ("c", image(seed=2), "finished"),  # the same run twice is no second seed
        ("d", image(seed=3), "interrupted"),
        ("e", image(seed=4, dropout=0.5), "finished"),
        ("f", image(seed=5) + "checkpoint: {part_size: 16}\nlog: {every: 7}\n", "finished"),
        ("g", image(seed=6).replace("device: cuda", "device: cpu"), "finished"),
    ]:
        write_run(tmp_path / "runs" / name, config.replace("tf32", "fp32"), done, state=state)
    write_run(tmp_path / "runs" / "i", image(seed=8).replace("tf32", "fp32").replace("nowhere", "elsewhere"), done)
    write_run(tmp_path / "runs" / "h", image(seed=7).replace("tf32", "fp32"), {450: (0.5, 0.5)})  # not as long
    found = table(rtf("report", "runs", "runs/a", "./runs/../runs"))  # each once
    assert [(row["run"], row["seeds"], row["runs"]) for row in found] == [
        ("runs/a and 2 more", "1, 2, 5", "3"),
        *((f"runs/{name}", str(seed), "1") for name, seed in zip("cdeghi", (2, 3, 4, 6, 7, 8), strict=True)),
    ]


def test_rows_are_sorted_by_task_layer_and_order(rtf, tmp_path):
    for name, layer, order in [("a", "s4", 64), ("b", "rtf", 1024), ("c", "rtf", 64), ("d", "rtf", 128)]:
        write_run(tmp_path / "runs" / name, image(layer=layer, order=order), {900: (0.5, 0.5)})
    write_run(tmp_path / "runs" / "b2", image().replace("image", "text"), {900: (0.5, 0.5)})
    found = table(rtf("report", "runs", "--out", "out"))
    assert [(row["task"], row["layer"], row["order"]) for row in found] == [
        ("image", "rtf", "64"), ("image", "rtf", "128"), ("image", "rtf", "1024"), ("image", "s4", "64"), ("text", "rtf", "64"),
    ]  # fmt: skip
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"report.md", "image.svg", "text.svg"}


def test_the_papers_numbers_are_those_that_the_configs_name(rtf, tmp_path):
    """The configs of the experiments say in their first lines what the paper reports."""
    expected = {}
    for file in sorted((EXPERIMENTS / "lra").glob("*.yaml")):
        found = re.search(r"(?:paper reports |: )([\d.]+) %", file.read_text().partition("task:")[0].replace("\n# ", " "))
        if not found or file.stem == "init_zero":  # the same model as image.yaml, whose number is the main table's
            continue
        expected[f"runs/{file.stem}"] = found[1]
        write_run(tmp_path / "runs" / file.stem, f"include: {file}\n", {1: (0.5, 0.5)})
    assert len(expected) >= 8
    for name in ("copying", "delay"):
        text = (EXPERIMENTS / f"{name}.yaml").read_text()
        orders = re.search(r"^#   order +(.*)$", text, re.MULTILINE)[1].split()
        numbers = re.search(r"^#   (?:accuracy|rmse) +(.*)$", text, re.MULTILINE)[1].split()
        for order, number in zip(orders, numbers, strict=True):
            run = f"{name}_{order}"
            expected[f"runs/{run}"] = number
            write_run(tmp_path / "runs" / run, f"include: {EXPERIMENTS / name}.yaml\nmodel: {{order: {order}}}\n", {1: (0.5, 0.5)})
    # Other state sizes, and easier tasks, are not in the paper.
    for run, change in [("other", "model: {order: 65}"), ("easy", "task: {memory: 32}"), ("part", "task: {train_size: 80}")]:
        expected[f"runs/{run}"] = ""
        write_run(tmp_path / "runs" / run, f"include: {EXPERIMENTS}/copying.yaml\n{change}\n", {1: (0.5, 0.5)})
    assert {row["run"]: row["paper"] for row in table(rtf("report", "runs"))} == expected


def polylines(svg, training):
    found = [line for line in svg.iter("{http://www.w3.org/2000/svg}polyline") if ("faint" in line.get("class")) == training]
    return [[tuple(map(float, point.split(","))) for point in line.get("points").split()] for line in found]


def test_curves_show_every_run(rtf, tmp_path):
    accuracies = {900 * i: (i / 10, 0.5) for i in range(1, 10)}
    for seed in (1, 2):
        write_run(tmp_path / "runs" / f"s{seed}", image(seed=seed), accuracies)
    write_run(tmp_path / "runs" / "a&b <|> c", image(layer="s4"), {900: (0.25, 0.5), 4500: (0.75, 0.5)})
    rtf("report", "runs", "--out", "out")
    assert table((tmp_path / "out/report.md").read_text())[1]["run"] == r"runs/a&b <\|> c"
    svg = xml.parse(tmp_path / "out/image.svg").getroot()
    texts = [text.text for text in svg.iter("{http://www.w3.org/2000/svg}text")]
    for text in ("image", "Loss", "Accuracy, %", "steps", "rtf, order 64: runs/s1 and 1 more", "s4, order 64: runs/a&b <|> c"):
        assert text in texts
    strong, faint = polylines(svg, False), polylines(svg, True)
    assert [len(line) for line in faint] == [9, 9, 2]
    assert [len(line) for line in strong] == [9, 9, 2, 9, 9, 2]  # loss, then accuracy
    # The ticks say where values are; the accuracies lie there.
    ticks = {float(text.text): float(text.get("y")) - 4 for text in svg.iter("{http://www.w3.org/2000/svg}text")
             if text.get("text-anchor") == "end" and float(text.get("x")) > 480}  # fmt: skip
    (low, low_y), (high, high_y) = min(ticks.items()), max(ticks.items())
    shown = [low + (y - low_y) / (high_y - low_y) * (high - low) for _, y in strong[3]]
    assert shown == pytest.approx([10 * i for i in range(1, 10)], abs=0.05)  # a hundredth of a pixel is 0.004 %
    assert [x - strong[3][0][0] for x, _ in strong[3]] == pytest.approx([400 / 9 * i for i in range(9)], abs=0.02)
    rings = [ring for ring in svg.iter("{http://www.w3.org/2000/svg}circle")]
    assert len(rings) == 6 and (float(rings[3].get("cx")), float(rings[3].get("cy"))) == strong[3][-1]


def test_losses_that_fall_far_are_shown_by_their_logarithm(rtf, tmp_path):
    write_run(tmp_path / "run", image(), {10**i: (0.5 + i / 10, 0.5) for i in range(4)})  # losses of training 1/step, else 2/step
    rtf("report", "run", "--out", "out")
    svg = xml.parse(tmp_path / "out/image.svg").getroot()
    ticks = {float(text.text): float(text.get("y")) - 4 for text in svg.iter("{http://www.w3.org/2000/svg}text")
             if text.get("text-anchor") == "end" and float(text.get("x")) < 480}  # fmt: skip
    assert list(ticks) == [0.001, 0.01, 0.1, 1]
    decade = ticks[0.1] - ticks[1]
    assert [ticks[0.001] - y for _, y in polylines(svg, True)[0]] == pytest.approx([3 * decade, 2 * decade, decade, 0], abs=0.03)
    higher = math.log10(2) * decade
    assert [y for _, y in polylines(svg, False)[0]] == pytest.approx([y - higher for _, y in polylines(svg, True)[0]], abs=0.03)


def test_a_run_that_is_written_while_it_is_read(rtf, rtf_raw, tmp_path):
    (tmp_path / "c.yaml").write_text(SMALL)
    process = start(tmp_path, "train", "c.yaml", "train.epochs=100000", "checkpoint.every_minutes=0", "log.poles_every=0", "--out", "run")
    try:
        assert wait_for(lambda: (tmp_path / "run/metrics.csv").exists() and len(rows(tmp_path / "run")) > 10, process)
        for _ in range(10):
            done = rtf_raw("report", "run", "--out", "out")
            assert (done.returncode, done.stderr) == (0, "")
            (row,) = table(done.stdout)
            assert row["state"] == "running" and row["steps"].endswith(" / 400000")
            xml.parse(tmp_path / "out/copying.svg")
    finally:
        process.kill()
        process.communicate()
    (row,) = table(rtf("report", "run"))
    assert row["state"] == "interrupted"


def test_half_written_and_missing_metrics(rtf, tmp_path):
    write_run(tmp_path / "runs/half", image(), {900: (0.5, 0.5)}, state="running")
    with open(tmp_path / "runs/half/metrics.csv", "a") as file:
        file.write("1800,0,val,0.1")
    (tmp_path / "runs/new").mkdir()
    (tmp_path / "runs/new/config.yaml").write_text(image(layer="s4"))
    half, new = table(rtf("report", "runs", "--out", "out"))
    assert (half["state"], half["val"]) == ("interrupted", "50.000")
    assert (new["state"], new["steps"], new["metric"], new["val"]) == ("not begun", "0", "", "")
    xml.parse(tmp_path / "out/image.svg")
    rtf("report", "runs/new", "--out", "new")
    assert "nothing has been measured yet" in (tmp_path / "new/image.svg").read_text()


DAMAGES = {
    "config.yaml": ("task: {name: imag}", "config.yaml"),
    "status.json": ("{", "status.json is not a run's status"),
    "metrics.csv": ("step,epoch,split,loss,accuracy\n1,0,val,1,1\nx,0,val,1,1\n", "metrics.csv: line 3 is not a row of"),
}


@pytest.mark.parametrize("name", [*DAMAGES, "no best row"])
def test_damaged_runs_are_named_and_left_out(rtf_raw, tmp_path, name):
    write_run(tmp_path / "runs/bad", image(), {900: (0.5, 0.5)})
    file, (contents, part) = (name, DAMAGES[name]) if name in DAMAGES else (
        "metrics.csv", ("step,epoch,split,loss,accuracy\n900,0,val,1,0.25\n", "no val row with the accuracy that"))  # fmt: skip
    (tmp_path / "runs/bad" / file).write_text(contents)
    done = rtf_raw("report", "runs", "--out", "out")
    assert (done.returncode, done.stdout) == (2, "")
    left_out, last = done.stderr.splitlines()
    assert left_out.startswith("rtf report: runs/bad is left out: ") and part in left_out and "[rtf::" not in left_out
    assert last == "rtf report: none of these runs can be read"
    assert not (tmp_path / "out").exists()

    write_run(tmp_path / "runs/good", image(), {900: (0.5, 0.5)})
    done = rtf_raw("report", "runs")
    assert done.returncode == 0 and done.stderr.splitlines() == [left_out]
    assert [row["run"] for row in table(done.stdout)] == ["runs/good"]


def test_what_is_no_run_is_refused(rtf_raw, tmp_path):
    write_run(tmp_path / "run", image(), {900: (0.5, 0.5)})
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    for path, part in [("none", "none is not a folder"), ("file", "file is not a folder"), ("empty", "empty holds no runs")]:
        done = rtf_raw("report", "run", path, "--out", "out")
        refused(done, part)
        assert done.stdout == "" and not (tmp_path / "out").exists()
    refused(rtf_raw("report"), "RUNS")
    # All files or none.
    (tmp_path / "out/report.md").mkdir(parents=True)
    refused(rtf_raw("report", "run", "--out", "out"), "out/report.md: it is a folder")
    refused(rtf_raw("report", "run", "--out", "file/out"), "cannot make the folder file/out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["report.md"]
