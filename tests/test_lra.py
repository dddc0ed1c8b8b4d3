"""The tasks of the Long Range Arena: batches against NumPy, and every config trained for a few steps at reduced width."""

import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import data_sets
import numpy as np
import pytest
from conftest import COMMAND, from_environment
from safetensors import safe_open
from training_runs import contents, refused, rows, same_run, status

ROOT = Path(__file__).parent.parent
LRA = ROOT / "experiments" / "lra"
CONFIGS = sorted(path.stem for path in LRA.glob("*.yaml"))
if not (Path(COMMAND).resolve().parent / "rtf-train").exists():
    pytest.skip("built without training", allow_module_level=True)

WRITE = {
    "listops": data_sets.write_listops,
    "text": data_sets.write_imdb,
    "retrieval": data_sets.write_aan,
    "image": data_sets.write_cifar,
    "pathfinder": data_sets.write_pathfinder,
    "pathx": lambda folder, rng: data_sets.write_pathfinder(folder, rng, side=128),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """data(task): a folder with small files in the task's public form, and what they hold."""
    made = {}

    def folder(task):
        if task not in made:
            path = tmp_path_factory.mktemp(task)
            made[task] = path, WRITE[task](path, np.random.default_rng(len(task)))
        return made[task]

    return folder


def task_of(config):
    return "image" if config.startswith("init_") else config.split("_")[0]


def settings(file):
    """The keys of a config file over those of the file that it includes."""
    text, found, section = file.read_text(), {}, ""
    for name in re.findall(r"^include: (\S+)$", text, re.M):
        found = settings(file.parent / name)
    for indent, key, value in re.findall(r"^( *)(\w+):(.*)$", text, re.M):
        section = section if indent else key
        found[f"{section}.{key}"] = value.strip()
    return found


def sharing(config):
    """Whether every channel has a system of its own; otherwise one is for all of them."""
    own = settings(LRA / f"{config}.yaml")
    assert own["model.denominators"] in ("1", own["model.channels"])
    return own["model.denominators"] != "1"


def small(config, path):
    """A config at a width and a batch that the CPU trains in a moment, still with its own shape of model."""
    layers, channels, batch = (1, 2, 1) if task_of(config) == "pathx" else (2, 8, 4)
    return [LRA / f"{config}.yaml", f"data.path={path}", f"model.layers={layers}", f"model.channels={channels}",
            "model.order=4", f"model.denominators={channels if sharing(config) else 1}",
            *(["model.blocks=2"] if config.endswith("_s5") else []), f"train.batch={batch}", "train.eval_batch=3",
            "train.steps=20", "train.threads=1", "optimizer.warmup=4", "optimizer.total=40", "log.every=1",
            "log.poles_every=0", "checkpoint.every_minutes=0", "-q"]  # fmt: skip


@pytest.mark.parametrize("config", CONFIGS)
def test_every_config_trains(rtf, tmp_path, data, config):
    arguments = small(config, data(task_of(config))[0])
    # The same seed gives the same bits, another one others.
    runs = {"run": [], "again": []} | ({"other": ["train.seed=77"]} if config in WRITE else {})
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda run: rtf("train", *arguments, *runs[run], "--out", run), runs))
    same_run(tmp_path / "run", tmp_path / "again")
    assert "other" not in runs or rows(tmp_path / "run") != rows(tmp_path / "other")
    steps = [float(row["loss"]) for row in rows(tmp_path / "run") if row["split"] == "train"]
    assert len(steps) == 20 and np.isfinite(steps).all()
    assert status(tmp_path / "run")["state"] == "finished" and status(tmp_path / "run")["metric"] == "accuracy"
    splits = {row["split"] for row in rows(tmp_path / "run")}
    assert splits == ({"train", "val"} if task_of(config) == "text" else {"train", "val", "test"})
    layer = next((word for word in config.split("_") if word in ("s4", "s4d", "s5", "spacetime")), "rtf")
    assert re.search(r"^  layer: (\w+)", (tmp_path / "run" / "config.yaml").read_text(), re.M)[1] == layer


def test_systems_are_shared_as_the_specification_says():
    own = {config for config in CONFIGS if sharing(config)}
    pictures = {config for config in CONFIGS if config.startswith("path") and not config.endswith("_s5")}
    assert own == pictures | {"image_spacetime", "image_spacetime_paper"}


def test_shortened_schedules_keep_their_shape():
    for config, part in [(config, 10 if config.endswith("_tenth") else 20) for config in CONFIGS if config.endswith("th")]:
        short, whole = (settings(LRA / f"{name}.yaml") for name in (config, config.rsplit("_", 1)[0]))
        for key in ("optimizer.warmup", "optimizer.total"):
            assert int(short.pop(key)) * part == int(whole.pop(key))
        assert short.pop("train.steps") == settings(LRA / f"{config}.yaml")["optimizer.total"]
        assert short == whole | {"include.include": short["include.include"]}


def test_the_arena_learns(rtf, tmp_path, data):
    """Reviews that tell their class by one character: a few epochs find it."""
    folder = tmp_path / "aclImdb"
    rng = np.random.default_rng(1)
    for split in ("train", "test"):
        for kind, sign in (("pos", "!"), ("neg", "?")):
            (folder / split / kind).mkdir(parents=True)
            for i in range(40):
                text = rng.choice(list("abcdefgh "), rng.integers(5, 40))
                text[rng.integers(len(text))] = sign
                (folder / split / kind / f"{i}.txt").write_text("".join(text))
    rtf("train", *small("text", folder), "train.steps=120", "train.epochs=20", "optimizer.total=400",
        "optimizer.lr=0.02", "--out", "run")  # fmt: skip
    assert status(tmp_path / "run")["best"] > 0.9


@pytest.fixture
def samples(tmp_path):
    """samples(task, path, split, count, ...): input, target, lengths and the size of the split."""

    def draw(task, path, split="train", count=8, **keys):
        settings = {"name": task, **{key: keys.pop(key) for key in ("train_size", "val_size") if key in keys}}
        model = {"length": keys.pop("length")} if "length" in keys else {}
        config = {"task": settings, "data": {"path": str(path), "cache": str(tmp_path / "cache"), **keys}}
        (tmp_path / "task.yaml").write_text(str({**config, "model": model}).replace("'", '"'))
        out = tmp_path / "samples.safetensors"
        done = subprocess.run(
            [from_environment("RTF_TASK_SAMPLES"), tmp_path / "task.yaml", split, "0", str(count), out],
            capture_output=True, text=True, timeout=120)  # fmt: skip
        if done.returncode != 0:
            return done
        with safe_open(out, "np") as file:
            lengths = file.get_tensor("lengths") if "lengths" in file.keys() else None
            return file.get_tensor("input"), file.get_tensor("target"), lengths, int(file.metadata()["size"])

    return draw


def padded(texts, columns):
    return np.array([text + [0] * (columns - len(text)) for text in texts])


@pytest.mark.parametrize("pad_to", (1, 16, 1000))
def test_padded_batches(samples, data, pad_to):
    path, splits = data("listops")
    words = data_sets.vocabulary([tokens for tokens, _ in splits[0]])
    for split, part in zip(("train", "val", "test"), splits):
        x, y, lengths, size = samples("listops", path, split, 9, pad_to=pad_to)
        texts = [data_sets.encoded(tokens, words) for tokens, _ in part[:9]]
        longest = max(map(len, texts))
        assert size == len(part) and lengths.tolist() == [len(text) for text in texts]
        assert np.array_equal(x, padded(texts, -(-longest // pad_to) * pad_to))
        assert y.tolist() == [label for _, label in part[:9]]
    # Never beyond the length of the model.
    longest = max(len(tokens) + 1 for part in splits for tokens, _ in part)
    x, *_ = samples("listops", path, count=40, pad_to=100_000, length=longest + 3)
    assert x.shape == (40, longest + 3)


def test_text_validates_on_the_test_reviews(samples, data):
    path, splits = data("text")
    x, y, lengths, size = samples("text", path, "val", 40)
    assert size == 40 and y.tolist() == [label for _, label in splits["test"]]
    assert lengths.tolist() == [len(text) + 1 for text, _ in splits["test"]]
    # Fewer samples are some of each class, though the files are sorted by class.
    *_, size = samples("text", path, "train", 10, train_size=20, val_size=10)
    _, y, _, _ = samples("text", path, "train", 20, train_size=20)
    assert size == 20 and 3 < y.sum() < 17
    done = samples("text", path, train_size=41)
    assert done.returncode == 2 and "task.train_size is 41" in done.stderr and "40" in done.stderr


def test_pairs(samples, data):
    path, splits = data("retrieval")
    words = data_sets.vocabulary([text for texts, _ in splits[0] for text in texts])
    x, y, lengths, _ = samples("retrieval", path, "val", 6)
    part = splits[1][:6]
    texts = [data_sets.encoded(texts[d], words) for d in (0, 1) for texts, _ in part]
    assert np.array_equal(x, padded(texts, max(map(len, texts)))) and lengths.tolist() == [len(t) for t in texts]
    assert y.tolist() == [label for _, label in part]


@pytest.mark.parametrize("task", ("image", "pathfinder", "pathx"))
def test_pixels(samples, data, task):
    path, (images, labels) = data(task)
    x, y, lengths, size = samples(task, path, "test", 3)
    assert lengths is None and x.shape == (3, images.shape[1], 1)
    if task == "image":
        assert size == 20 and y.tolist() == labels[100:103].tolist()
        expected = (images[100:103] / 255 - 122.6 / 255) / (61 / 255)
    else:
        assert size == 3
        place = {image.astype(np.float64).tobytes(): i for i, image in enumerate(images)}
        order = [place[np.rint(image[:, 0] * 255).tobytes()] for image in x]
        expected, labels = images[order] / 255, labels[order]
        assert y.tolist() == labels.tolist()
    # Numbers of size at most 3 in float32.
    assert np.abs(x[:, :, 0] - expected).max() <= 2**-23


def test_bucketed_runs_go_on_as_they_were(rtf, tmp_path, data):
    arguments = small("listops", data("listops")[0]) + ["data.bucket=3", "data.pad_to=8", "train.epochs=2"]
    rtf("train", *arguments, "--out", "whole")
    rtf("train", *arguments, "train.steps=7", "--out", "parts")
    rtf("train", "--resume", "parts", "train.steps=20", "-q")
    one, two = ((tmp_path / run / "checkpoints/latest.safetensors") for run in ("whole", "parts"))
    weights = {name: value for name, value in contents(one)[0].items() if name.startswith("model.")}
    assert weights == {name: value for name, value in contents(two)[0].items() if name.startswith("model.")}
    rtf("train", *arguments, "data.bucket=1", "--out", "plain")
    assert rows(tmp_path / "plain") != rows(tmp_path / "whole")


def test_what_the_command_refuses(rtf_raw, tmp_path, data):
    path, splits = data("listops")
    config = small("listops", path)
    longest = max(len(tokens) + 1 for split in splits for tokens, _ in split)
    refused(rtf_raw("train", *config, f"model.length={longest - 1}", "--out", "run"), f"is {longest - 1}", str(longest))
    refused(rtf_raw("train", *config, "data.path=", "--out", "run"), "data.path is empty", "listops")
    refused(rtf_raw("train", *config, "data.path=nowhere", "--out", "run"), "nowhere/basic_train.tsv")
    bad = tmp_path / "bad"
    bad.mkdir()
    data_sets.write_listops(bad, np.random.default_rng(0))
    with open(bad / "basic_val.tsv", "a") as file:
        file.write("half a row")
    refused(rtf_raw("train", *config, f"data.path={bad}", "--out", "run"), "basic_val.tsv, row 22", "1 column")
    refused(rtf_raw("train", *small("image", path), "--out", "run"), "data_batch_1.bin")
    refused(rtf_raw("train", *config, "data.cache=/dev/null/x", "--out", "run"), "data.cache '/dev/null/x'")
    refused(rtf_raw("train", *small("image", path), "data.bucket=2", "--out", "run"), "data.bucket means nothing")
    assert not (tmp_path / "run").exists()
