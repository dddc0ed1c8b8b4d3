"""The readers of the public data sets and the prepared files, against NumPy and Python's own tar, UTF-8 and counting."""

import json
import random
import tarfile
from concurrent.futures import ThreadPoolExecutor

import data_sets
import numpy as np
import pytest
from conftest import real_data
from data_sets import folder, prepare, start  # noqa: F401


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


def test_imdb_itself(tmp_path):
    got = prepare("text", real_data("imdb"), tmp_path, 0, 24_999, 25_000, 49_999)
    assert got["counts"] == [25_000, 0, 25_000] and len(got["vocabulary"]) == 134
    assert got["labels"] == [1, 0, 1, 0] and got["vocabulary"][3:6] == [" ", "e", "t"]
    assert all(len(tokens) <= 4096 and tokens[-1] == 2 for (tokens,) in got["samples"])


def test_cifar_itself(tmp_path):
    for name in ("cifar10-gray", "cifar-10-batches-bin-sample"):
        with tarfile.open(real_data(f"cifar10/{name}.tar.xz")) as tar:
            tar.extractall(tmp_path, filter="data")
    got = prepare("image", tmp_path, tmp_path / "cache", *range(50_000, 60_000, 500))
    assert got["counts"] == [45_000, 5_000, 10_000]
    test = np.frombuffer((tmp_path / "cifar10-gray" / "test.bin").read_bytes(), np.uint8).reshape(-1, 1025)[::500]
    assert np.array_equal(got["samples"], test[:, 1:]) and np.array_equal(got["labels"], test[:, 0])
    (public,) = (path.parent for path in tmp_path.glob("**/data_batch_1.bin"))
    assert prepare("image", public, tmp_path / "cache", 0)["counts"] == [450, 50, 100]
