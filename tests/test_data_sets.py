"""The readers of the public data sets and the prepared files, against NumPy and Python's own tar, UTF-8 and counting."""

import json
import os
import random
import subprocess
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import data_sets
import numpy as np
import pytest
from conftest import from_environment

DATA = Path(__file__).parent.parent.parent / "shared" / "data"


def start(name, path, cache, *samples, **environment):
    program = from_environment("RTF_PREPARE_DATA")
    return subprocess.run([program, name, str(path), str(cache), *map(str, samples)], capture_output=True, text=True,
                          timeout=300, env={**os.environ, **environment})  # fmt: skip


def prepare(name, path, cache, *samples, says=()):
    done = start(name, path, cache, *samples)
    assert done.returncode == 0, done.stderr
    assert (done.stderr.count("\n") == 1) == bool(says) and all(part in done.stderr for part in says), done.stderr
    return json.loads(done.stdout)


def refused(name, path, cache, *parts):
    done = start(name, path, cache)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done
    for part in parts:
        assert part in done.stderr, done.stderr
    assert not cache.is_dir() or not list(cache.iterdir())


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def check_texts(got, samples, words, counts):
    assert got["vocabulary"] == words and got["counts"] == counts
    assert got["labels"] == [label for _, label in samples]
    assert got["samples"] == [[data_sets.encoded(text, words) for text in texts] for texts, _ in samples]


@pytest.mark.parametrize("seed", range(3))
def test_listops(folder, tmp_path, seed):
    rng = np.random.default_rng(seed)
    splits = data_sets.write_listops(folder, rng, sizes := (40 + seed, 7, 3))
    words = data_sets.vocabulary([tokens for tokens, _ in splits[0]])
    assert len(words) == 18
    samples = [([tokens], label) for split in splits for tokens, label in split]
    got = prepare("listops", folder, tmp_path / "cache")
    check_texts(got, samples, words, list(sizes))
    assert got["classes"] == 10
    # The vocabulary lies beside it, a token a row.
    (text,) = (tmp_path / "cache").glob("*.vocabulary.txt")
    assert [json.loads(row) for row in text.read_text().splitlines()] == words


def test_listops_are_cut(folder, tmp_path):
    data_sets.write_listops(folder, np.random.default_rng(0))
    (folder / "basic_test.tsv").write_text(f"Source\tTarget\n( [SM {'1 ' * 3000} ] )\t3\n")
    got = prepare("listops", folder, tmp_path / "cache", 60)
    one = got["vocabulary"].index("1")
    assert got["samples"] == [[[got["vocabulary"].index("[SM"), *[one] * 2046, 2]]]


@pytest.mark.parametrize("seed", range(2))
def test_imdb(folder, tmp_path, seed):
    rng = np.random.default_rng(seed)
    splits = data_sets.write_imdb(folder, rng, size=15, long=True)
    cut = [text[:4095] for text, _ in splits["train"]]
    words = data_sets.vocabulary(cut, occurrences=15)
    samples = [([text[:4095]], label) for split in ("train", "test") for text, label in splits[split]]
    got = prepare("text", folder, tmp_path / "cache")
    check_texts(got, samples, words, [32, 0, 32])
    assert got == prepare("text", folder, tmp_path / "cache")
    # The same from the folder itself, and from every kind of archive.
    archives = {"a.tar.gz": tarfile.USTAR_FORMAT, "b.tar": tarfile.GNU_FORMAT, "c.tar.gz": tarfile.PAX_FORMAT}
    for name, form in archives.items():
        data_sets.pack(folder, tmp_path / name, form, root="x" * 60 + "/" + "y" * 60 + "/aclImdb")
    for path in [folder / "aclImdb"] + [tmp_path / name for name in archives]:
        other = prepare("text", path, tmp_path / "other")
        assert {**other, "fingerprint": 0, "cache": 0} == {**got, "fingerprint": 0, "cache": 0}


def test_names_longer_than_a_header(folder, tmp_path):
    data_sets.write_imdb(folder, np.random.default_rng(3), size=2)
    got = prepare("text", folder, tmp_path / "cache")
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        data_sets.pack(folder, tmp_path / f"{form}.tar.gz", form, root="x" * 300 + "/aclImdb")
        assert prepare("text", tmp_path / f"{form}.tar.gz", tmp_path / "cache")["samples"] == got["samples"]


def test_characters_that_are_none(folder, tmp_path):
    """Python's own decoder is the rule for bytes that are no UTF-8."""
    data_sets.write_imdb(folder, np.random.default_rng(4), size=2)
    rng = random.Random(5)
    texts = [bytes(rng.choice([*b"ab", 0xE2, 0x82, 0xAC, 0xF0, 0x9F, 0x8E, 0xAC, 0xC0, 0xED, 0xA0, 0xF4, 0x90, 0xFF])
                   for _ in range(rng.randrange(1, 40))) for _ in range(300)]  # fmt: skip
    place = folder / "aclImdb" / "train" / "pos"
    for i, text in enumerate(texts):
        (place / f"z{i:03}.txt").write_bytes(text)
    got = prepare("text", folder, tmp_path / "cache")
    first = len(list(place.iterdir())) - len(texts)
    for text, (tokens,) in zip(texts, got["samples"][first:]):
        assert tokens == data_sets.encoded(text.decode("utf-8", "replace"), got["vocabulary"])


def test_aan(folder, tmp_path):
    splits = data_sets.write_aan(folder, np.random.default_rng(6))
    words = data_sets.vocabulary([text for texts, _ in splits[0] for text in texts])
    samples = [sample for split in splits for sample in split]
    check_texts(prepare("retrieval", folder, tmp_path / "cache"), samples, words, [30, 10, 10])


def test_cifar(folder, tmp_path):
    rng = np.random.default_rng(7)
    pixels, labels = data_sets.write_cifar(folder, rng)
    got = prepare("image", folder, tmp_path / "cache")
    assert got["counts"] == [90, 10, 20] and got["classes"] == 10 and got["rows"] == got["columns"] == 32
    # Every training image once, in an order of its own; the test images as they are.
    place = {image.tobytes(): i for i, image in enumerate(pixels)}
    order = [place[np.array(image, np.int64).tobytes()] for image in got["samples"]]
    assert sorted(order[:100]) == list(range(100)) and order[:100] != sorted(order[:100])
    assert order[100:] == list(range(100, 120)) and got["labels"] == labels[order].tolist()
    # The grey records are split by the same permutation.
    grey = tmp_path / "cifar10-gray"
    grey.mkdir()
    records = np.hstack([labels[:, None], pixels]).astype(np.uint8)
    (grey / "train.bin").write_bytes(records[:100].tobytes())
    (grey / "test.bin").write_bytes(records[100:].tobytes())
    assert prepare("image", grey, tmp_path / "cache")["samples"] == got["samples"]


@pytest.mark.parametrize("side", (32, 128))
def test_pathfinder(folder, tmp_path, side):
    images, labels = data_sets.write_pathfinder(folder / "curv_contour_length_14", np.random.default_rng(8), side)
    got = prepare("pathfinder" if side == 32 else "pathx", folder, tmp_path / "cache")
    assert got["counts"] == [24, 3, 3] and got["rows"] == side
    place = {image.tobytes(): i for i, image in enumerate(images)}
    order = [place[np.array(image, np.uint8).tobytes()] for image in got["samples"]]
    assert sorted(order) == list(range(30)) and order != sorted(order)
    assert got["labels"] == labels[order].tolist()


def test_threads_do_not_matter(folder, tmp_path):
    data_sets.write_imdb(folder, np.random.default_rng(9), size=30)
    for threads in ("1", "3"):
        start("text", folder, tmp_path / threads, RTF_THREADS=threads)
    (one,), (three,) = ((tmp_path / threads).glob("*.records") for threads in ("1", "3"))
    assert one.read_bytes() == three.read_bytes()


TSV = {
    "basic_train.tsv": [
        ("Source Target\n", "row 1", "1 column, expected 2"),
        ("Source\tGoal\n", "row 1", "header"),
        ("Source\tTarget\n( [SM 1 ] )\t3\n( [SM 1 ] )\t12\n", "row 3", "'12'"),
        ("Source\tTarget\n( [SM 1 ] )\t3\n( [SUM 1 ] )\t1\n", "row 3", "'[SUM'"),
        ("Source\tTarget\n( )\t3\n", "row 2", "empty"),
        ("Source\tTarget\n( [SM 1 ] )\t3\n( [SM 1", "row 3", "1 column"),
        ("Source\tTarget\n", "no rows"),
        ("", "no rows"),
    ],
    "new_aan_pairs.train.tsv": [
        ("1.0\ta\tb\tx\ty\n2.0\ta\tb\tx\ty\n", "row 2", "'2.0'"),
        ("1.0\ta\tb\tx\ty\n0.0\ta\tb\tx", "row 2", "4 columns, expected 5"),
        ("0.0\ta\tb\tx\ty\tz\n", "row 1", "6 columns"),
        ("", "no rows"),
    ],
}


@pytest.mark.parametrize("file, case", [(file, case) for file in TSV for case in TSV[file]])
def test_corrupt_rows(folder, tmp_path, file, case):
    listops = file.startswith("basic")
    (data_sets.write_listops if listops else data_sets.write_aan)(folder, np.random.default_rng(0))
    (folder / file).write_text(case[0])
    refused("listops" if listops else "retrieval", folder, tmp_path / "cache", str(folder / file), *case[1:])


def test_what_is_missing(folder, tmp_path):
    cache = tmp_path / "cache"
    refused("listops", folder, cache, "basic_train.tsv", "not there")
    refused("retrieval", folder, cache, "new_aan_pairs.train.tsv", "not there")
    refused("text", folder, cache, str(folder), "aclImdb")
    refused("image", folder, cache, str(folder), "data_batch_1.bin", "train.bin")
    refused("pathfinder", folder, cache, str(folder), "metadata/")
    data_sets.write_imdb(folder, np.random.default_rng(0), size=1)
    for file in (folder / "aclImdb/test/neg").iterdir():
        file.unlink()
    refused("text", folder, cache, "test/neg", "*.txt")
    data_sets.pack(folder, tmp_path / "a.tar.gz")
    refused("text", tmp_path / "a.tar.gz", cache, "a.tar.gz", "test/neg")


def test_damaged_archives(folder, tmp_path):
    data_sets.write_imdb(folder, np.random.default_rng(1), size=3)
    archive, cache = tmp_path / "a.tar", tmp_path / "cache"
    data_sets.pack(folder, archive)
    whole = archive.read_bytes()
    rng = random.Random(2)
    for cut in [rng.randrange(1, 6000) for _ in range(8)] + [512, 1024, 5120]:
        archive.write_bytes(whole[:cut])
        refused("text", archive, cache, "a.tar", "truncated")
    archive.write_bytes(b"not a tar archive at all" * 100)
    refused("text", archive, cache, "not a tar archive")
    zipped = tmp_path / "a.tar.gz"
    data_sets.pack(folder, zipped)
    packed = zipped.read_bytes()
    zipped.write_bytes(packed[: len(packed) // 2])
    refused("text", zipped, cache, "a.tar.gz", "truncated")
    zipped.write_bytes(packed[:200] + bytes([packed[200] ^ 255]) + packed[201:])
    refused("text", zipped, cache, "a.tar.gz")


def test_damaged_images(folder, tmp_path):
    rng, cache = np.random.default_rng(3), tmp_path / "cache"
    data_sets.write_cifar(folder, rng)
    batch = folder / "data_batch_2.bin"
    whole = batch.read_bytes()
    batch.write_bytes(whole[:-1])
    refused("image", folder, cache, str(batch), "truncated")
    batch.write_bytes(whole[: 3073 * 4] + b"\x0a" + whole[3073 * 4 + 1 :])
    refused("image", folder, cache, str(batch), "record 5", "label 10")
    paths = folder / "paths"
    data_sets.write_pathfinder(paths, rng)
    png = paths / "imgs/10/sample_3.png"
    picture = png.read_bytes()
    for bytes_ in (b"", picture[:40], picture[:-30], b"no picture" * 9):
        png.write_bytes(bytes_)
        refused("pathfinder", paths, cache, str(png))
    data_sets.write_png(png, np.zeros((16, 32), np.uint8))
    refused("pathfinder", paths, cache, str(png), "16 x 32", "32 x 32")
    png.unlink()
    refused("pathfinder", paths, cache, str(png))
    metadata = paths / "metadata/2.npy"
    rows = metadata.read_text().splitlines()
    for row, part in (("imgs/2 sample_1.png 1", "label"), ("imgs/2 sample_1.png 1 7 1.0", "'7'")):
        metadata.write_text("\n".join([rows[0], row, *rows[2:]]))
        refused("pathfinder", paths, cache, str(metadata), "row 2", part)


def test_broken_caches_are_made_anew(folder, tmp_path):
    data_sets.write_listops(folder, np.random.default_rng(4))
    cache = tmp_path / "cache"
    got = prepare("listops", folder, cache)
    (records,), (words,) = cache.glob("*.records"), cache.glob("*.txt")
    whole = records.read_bytes()
    rng = random.Random(1)
    at = rng.randrange(200, len(whole))
    damages = {
        "truncated": whole[: len(whole) // 2], "no record file": b"another file", "no record": b"",
        "damaged": whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :],
    }  # fmt: skip
    for why, bytes_ in damages.items():
        records.write_bytes(bytes_)
        assert prepare("listops", folder, cache, says=(str(records), why, "anew")) == got
        assert records.read_bytes() == whole
    text = words.read_text()
    for wrong, row in (("", 1), (text.replace('"X"', '"Y"'), 1 + text.split("\n").index('"X"')), (text + "more", 19)):
        words.write_text(wrong)
        assert prepare("listops", folder, cache, says=(str(words), f"row {row}", "anew")) == got
        assert words.read_text() == text
    # Stale: the source changed. What a killed process left beside it does no harm.
    (cache / (records.name + ".12345.tmp")).write_bytes(b"half")
    with open(folder / "basic_val.tsv", "a") as file:
        file.write("( [SM 1 ] )\t1\n")
    again = prepare("listops", folder, cache, says=(str(records), "other sizes or times", "anew"))
    assert again["counts"] == [40, 21, 20]
    later = time.time() + 5
    os.utime(folder / "basic_val.tsv", (later, later))
    prepare("listops", folder, cache, says=("other sizes or times",))
    prepare("listops", folder, cache)


def test_several_processes_at_once(folder, tmp_path):
    data_sets.write_imdb(folder, np.random.default_rng(5), size=40)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: start("text", folder, tmp_path / "cache"), range(4)))
    assert all(done.returncode == 0 for done in results), results
    assert len({done.stdout for done in results}) == 1
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_where_prepared_data_go(folder, tmp_path):
    data_sets.write_listops(folder, np.random.default_rng(6))
    assert prepare("listops", folder, "")["cache"] == str(folder / "prepared")
    folder.chmod(0o555)
    try:
        done = start("listops", folder, "", XDG_CACHE_HOME=str(tmp_path / "x"))
        assert json.loads(done.stdout)["cache"] == str(tmp_path / "x" / "rtf"), done.stderr
        done = start("listops", folder, "", XDG_CACHE_HOME="", HOME=str(tmp_path / "h"))
        assert json.loads(done.stdout)["cache"] == str(tmp_path / "h" / ".cache" / "rtf"), done.stderr
    finally:
        folder.chmod(0o755)


@pytest.mark.skipif(not (DATA / "imdb").is_dir(), reason="the IMDB reviews are not at hand")
def test_imdb_itself(tmp_path):
    got = prepare("text", DATA / "imdb", tmp_path, 0, 24_999, 25_000, 49_999)
    assert got["counts"] == [25_000, 0, 25_000] and len(got["vocabulary"]) == 134
    assert got["labels"] == [1, 0, 1, 0] and got["vocabulary"][3:6] == [" ", "e", "t"]
    assert all(len(tokens) <= 4096 and tokens[-1] == 2 for (tokens,) in got["samples"])


@pytest.mark.skipif(not (DATA / "cifar10").is_dir(), reason="CIFAR-10 is not at hand")
def test_cifar_itself(tmp_path):
    for name in ("cifar10-gray", "cifar-10-batches-bin-sample"):
        with tarfile.open(DATA / "cifar10" / f"{name}.tar.xz") as tar:
            tar.extractall(tmp_path, filter="data")
    got = prepare("image", tmp_path, tmp_path / "cache", *range(50_000, 60_000, 500))
    assert got["counts"] == [45_000, 5_000, 10_000]
    test = np.frombuffer((tmp_path / "cifar10-gray" / "test.bin").read_bytes(), np.uint8).reshape(-1, 1025)[::500]
    assert np.array_equal(got["samples"], test[:, 1:]) and np.array_equal(got["labels"], test[:, 0])
    (public,) = (path.parent for path in tmp_path.glob("**/data_batch_1.bin"))
    assert prepare("image", public, tmp_path / "cache", 0)["counts"] == [450, 50, 100]
