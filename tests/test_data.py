"""`rtf data`: ListOps against an evaluator and a generator written here, Pathfinder's files, and what is refused."""

import os
import random
import signal
import socket
import statistics
import struct
import subprocess
import sys
import time

import numpy as np
import pytest
from conftest import COMMAND, TIMEOUT
from matplotlib.image import imread

sys.setrecursionlimit(10000)
OPERATORS = {
    "[MIN": min,
    "[MAX": max,
    "[MED": lambda values: int(statistics.median(values)),
    "[SM": lambda values: sum(values) % 10,
}


def rtf(*arguments, cwd=None):
    return subprocess.run([COMMAND, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, timeout=120)


def generate(folder, *arguments):
    done = rtf("data", *arguments, "--out", folder)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def parse(tokens):
    """`( x y )` is a pair, anything else a leaf; tokens are taken off the end of a reversed list."""
    token = tokens.pop()
    if token != "(":
        return token
    pair = parse(tokens), parse(tokens)
    assert tokens.pop() == ")"
    return pair


def evaluate(tree, argument_counts):
    if isinstance(tree, str):
        return int(tree)
    tree, end = tree
    assert end == "]"
    arguments = []
    while isinstance(tree, tuple):
        tree, last = tree
        arguments.append(last)
    argument_counts.append(len(arguments))
    return OPERATORS[tree]([evaluate(argument, argument_counts) for argument in reversed(arguments)])


def read_listops(path):
    lines = path.read_text().split("\n")
    assert lines[0] == "Source\tTarget" and lines[-1] == ""
    return [line.split("\t") for line in lines[1:-1]]


def draw(source, depth=1):
    """A value, a length and the argument counts by the law itself."""
    if depth >= 10 or source.random() > 0.25:
        return source.randrange(10), 1, []
    arguments = [draw(source, depth + 1) for _ in range(source.randint(2, 10))]
    counts = [len(arguments)] + [count for argument in arguments for count in argument[2]]
    value = OPERATORS[source.choice(list(OPERATORS))]([argument[0] for argument in arguments])
    return value, 2 + sum(argument[1] for argument in arguments), counts


@pytest.fixture(scope="module")
def listops(tmp_path_factory):
    folder = tmp_path_factory.mktemp("listops")
    generate(folder, "listops", "--train", 400, "--val", 30, "--test", 20)
    return folder


def test_listops_values_lengths_and_splits(listops):
    rows = {split: read_listops(listops / f"basic_{split}.tsv") for split in ("train", "val", "test")}
    assert [len(of_split) for of_split in rows.values()] == [400, 30, 20]
    everything = [row for of_split in rows.values() for row in of_split]
    assert len({source for source, _ in everything}) == 450
    for source, target in everything:
        tokens = source.split(" ")
        assert 500 < sum(token not in "()" for token in tokens) < 2000
        tokens.reverse()
        tree = parse(tokens)
        assert tokens == []
        counts = []
        assert evaluate(tree, counts) == int(target)
        assert 2 <= min(counts) and max(counts) <= 10


def test_listops_follows_the_law(listops):
    """Against as many trees that are drawn here: two samples of one law, apart by no more than chance allows."""
    ours = []
    for source, target in read_listops(listops / "basic_train.tsv"):
        counts = []
        evaluate(parse(source.split(" ")[::-1]), counts)
        ours.append((int(target), sum(token not in "()" for token in source.split(" ")), counts))
    source, theirs = random.Random(1), []
    while len(theirs) < len(ours):
        drawn = draw(source)
        if 500 < drawn[1] < 2000:
            theirs.append(drawn)
    # Classes: chi-square of two equal samples, 9 degrees of freedom; 45 is passed once in a million.
    a, b = (np.bincount([one[0] for one in sample], minlength=10) for sample in (ours, theirs))
    assert np.sum((a - b) ** 2 / (a + b)) < 45
    # Lengths, arguments of a list and lists of a tree: means of independent trees, five standard errors.
    for measure in (lambda one: one[1], lambda one: np.mean(one[2]), lambda one: len(one[2]), lambda one: np.std(one[2])):
        x, y = (np.array([measure(one) for one in sample], float) for sample in (ours, theirs))
        assert abs(x.mean() - y.mean()) < 5 * np.hypot(x.std(), y.std()) / np.sqrt(len(x))


def read_records(path):
    """The file as docs/data.md describes it."""
    data = path.read_bytes()
    magic, version, _, _, kind = struct.unpack_from("<8sIIII", data)
    rows, columns, documents, classes, *counts = struct.unpack_from("<7Q", data, 24)
    (values,) = struct.unpack_from("<Q", data, 80)
    assert (magic, version, kind, documents, classes) == (b"rtfdata\n", 1, 1, 0, 2)
    assert values == sum(counts) * rows * columns
    pixels = np.frombuffer(data, np.uint8, values, 128).reshape(-1, rows, columns)
    labels = np.frombuffer(data, "<u2", sum(counts), 128 + -(-values // 64) * 64)
    return pixels, labels, counts


@pytest.mark.parametrize("name, side, size", [("pathfinder", 32, 1100), ("pathx", 128, 20)])
def test_pathfinder_files(tmp_path, name, side, size):
    generate(tmp_path / "records", name, "--size", size, "--threads", 1)
    pixels, labels, counts = read_records(tmp_path / "records" / f"{name}.records")
    assert counts == [size - 2 * (size // 10), size // 10, size // 10]
    assert pixels.shape == (size, side, side)
    # A fair coin, five standard deviations.
    assert abs(labels.mean() - 0.5) < 2.5 / np.sqrt(size)
    assert (pixels.min((1, 2)) == 0).all() and (pixels.max((1, 2)) == 255).all()
    generate(tmp_path / "png", name, "--size", size, "--threads", 3, "--png")
    for batch in range(-(-size // 1000)):
        lines = [line.split() for line in (tmp_path / "png" / "metadata" / f"{batch}.npy").read_text().splitlines()]
        assert len(lines) == min(1000, size - 1000 * batch)
        for k, line in enumerate(lines):
            assert line[:3] == [f"imgs/{batch}", f"sample_{k}.png", str(k)] and len(line) == 11
            assert line[5:7] == ["14", "4"]
            assert int(line[3]) == labels[1000 * batch + k]
        for k in (0, len(lines) - 1):
            picture = imread(tmp_path / "png" / lines[k][0] / lines[k][1])
            assert picture.ndim == 2
            assert (np.rint(picture * 255) == pixels[1000 * batch + k]).all()
    assert sorted(path.name for path in (tmp_path / "png").iterdir()) == ["imgs", "metadata"]


def test_pictures_are_one_set(tmp_path):
    """Two runs never share a folder, and one that is cut short leaves no set."""
    generate(tmp_path, "pathfinder", "--size", 1001, "--png")
    files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert len(files) == 1003
    done = rtf("data", "pathfinder", "--size", 3, "--seed", 9, "--png", "--out", tmp_path)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and f"{tmp_path}/imgs" in done.stderr, done
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == files
    command = [COMMAND, "data", "pathfinder", "--size", "100000", "--png", "--out", str(tmp_path / "cut")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as cut:
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob("cut/.rtf-*.tmp/1/*.png")) and time.monotonic() < deadline:
            time.sleep(0.01)
        cut.kill()
    assert [path.name for path in (tmp_path / "cut").glob("[!.]*")] == []
    generate(tmp_path / "cut", "pathfinder", "--size", 3, "--png")
    assert sorted(path.name for path in (tmp_path / "cut").glob("[!.]*")) == ["imgs", "metadata"]
    assert len(list(tmp_path.glob("cut/imgs/*/*.png"))) == 3


def dead_process():
    with subprocess.Popen(["true"]) as process:
        pass
    return process.pid


@pytest.mark.parametrize("arguments", [["listops"], ["pathfinder"], ["pathfinder", "--png"]], ids=" ".join)
def test_what_a_killed_run_left_goes_with_the_next(tmp_path, arguments):
    command = [COMMAND, "data", *arguments, "--size", "1000000", "--out", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as cut:
        deadline = time.monotonic() + 60
        while len(list(tmp_path.glob(".rtf-*.tmp"))) < {1: 1, 2: 2}[len(arguments)] and time.monotonic() < deadline:
            time.sleep(0.01)
        # It still lives: its files stay.
        cut.send_signal(signal.SIGSTOP)
        files = {path.name for path in tmp_path.iterdir()}
        rtf("data", "listops", "--size", 60, "--out", tmp_path)
        assert files and files <= {path.name for path in tmp_path.iterdir()}
        cut.kill()
    # Nor is anything else touched: of other hosts and living processes, and names that are like ours.
    host, dead = socket.gethostname().replace("/", "_"), dead_process()
    kept = [f".rtf-else.{host}-{dead}-0.tmp", f".rtf-{host}-{os.getpid()}-0.tmp", f".rtf-{host}-{dead}-0.tmp.png",
            f".rtf-{host}-{dead}.tmp", f".rtf-{host}-{dead}x-0.tmp", f".rtf-{host}--{dead}-0.tmp", f"rtf-{host}-{dead}-0.tmp",
            f".rtf-{host}-{dead}-0", f".imgs.{dead}.tmp"]  # fmt: skip
    for name in kept:
        (tmp_path / name).mkdir()
    (tmp_path / f".rtf-{host}-{dead}-7.tmp").symlink_to(tmp_path / kept[0])
    generate(tmp_path, *arguments, "--size", 60)
    assert {path.name for path in tmp_path.glob("*.tmp")} | {path.name for path in tmp_path.glob(".*")} == set(kept)


def test_of_two_that_make_one_set_one_is_told(tmp_path):
    command = [COMMAND, "data", "pathfinder", "--size", "1000", "--png", "--quiet", "--out", str(tmp_path / "both"), "--seed"]
    runs = [subprocess.Popen([*command, seed], stderr=subprocess.PIPE, text=True) for seed in "12"]
    errors = [run.communicate(timeout=TIMEOUT)[1] for run in runs]
    first = min(range(2), key=lambda i: runs[i].returncode)
    assert sorted(run.returncode for run in runs) == [0, 2] and errors[1 - first].count("\n") == 1, errors
    generate(tmp_path / "alone", "pathfinder", "--size", 1000, "--png", "--seed", first + 1)
    sets = [{path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
            for folder in (tmp_path / "both", tmp_path / "alone")]  # fmt: skip
    assert sets[0] == sets[1]


@pytest.mark.parametrize("name", ["listops", "pathfinder"])
def test_threads_and_repeats_change_nothing(tmp_path, name):
    files = {}
    for threads in (1, 5):
        folder = tmp_path / str(threads)
        generate(folder, name, "--size", 120, "--seed", 7, "--threads", threads)
        files[threads] = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert files[1] == files[5]
    generate(tmp_path / "1", name, "--size", 120, "--seed", 8)
    assert {path.name: path.read_bytes() for path in (tmp_path / "1").iterdir()} != files[1]


@pytest.mark.parametrize("name", ["pathfinder", "pathx"])
def test_sheet(tmp_path, name):
    done = rtf("data", name, "--sheet", tmp_path / "sheet.png")
    assert (done.returncode, done.stderr) == (0, "")
    picture = imread(tmp_path / "sheet.png")
    assert picture.shape == (1092, 1092, 3)


def test_output_lines_up(tmp_path):
    lines = generate(tmp_path, "pathfinder", "--train", 30, "--val", 0, "--test", 4).splitlines()
    assert "34 images" in lines[0] and "a second" in lines[0]
    assert [line.split()[:2] for line in lines[1:]] == [["split", "samples"], ["train", "30"], ["val", "0"], ["test", "4"]]
    assert len({len(line) for line in lines[1:]}) == 1


REFUSED = {
    "unknown set": (["imagenet", "--out", "d"], "imagenet"),
    "no folder": (["listops"], "--out DIR is missing"),
    "pictures of text": (["listops", "--out", "d", "--png"], "listops is text"),
    "a sheet of text": (["listops", "--sheet", "s.png"], "listops is text"),
    "splits of pictures": (["pathx", "--out", "d", "--png", "--train", "5"], "--size"),
    "no train": (["pathfinder", "--out", "d", "--val", "5"], "--train"),
    "size and splits": (["pathfinder", "--out", "d", "--size", "5", "--train", "5"], "--size"),
    "size zero": (["pathfinder", "--out", "d", "--size", "0"], "'0' is not a whole number"),
    "size negative": (["listops", "--out", "d", "--size", "-3"], "-3"),
    "size a word": (["listops", "--out", "d", "--size", "many"], "'many' is not a whole number"),
    "too many images": (["pathfinder", "--out", "d", "--size", "5000000000"], "5000000000 images"),
    "seed negative": (["listops", "--out", "d", "--seed", "-1"], "-1"),
    "threads zero": (["listops", "--out", "d", "--threads", "0"], "'0' is not a whole number"),
    "folder is a file": (["listops", "--out", "file", "--size", "10"], "file"),
    "folder below a file": (["pathx", "--out", "file/d", "--size", "10"], "file/d"),
    "sheet is a folder": (["pathx", "--sheet", "folder"], "folder"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(tmp_path, case):
    arguments, message = REFUSED[case]
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    done = rtf("data", *arguments, cwd=tmp_path)
    assert done.returncode == 2 and done.stdout == "", done
    assert done.stderr.startswith("rtf data: ") and done.stderr.count("\n") == 1 and message in done.stderr, done.stderr
    assert (tmp_path / "file").read_text() == "mine"
    assert [path for path in tmp_path.rglob("*") if path.name not in ("file", "folder", "d")] == []
