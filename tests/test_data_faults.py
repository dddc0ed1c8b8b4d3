"""Data sets that are not what they should be: one line that names the file and the row, and nothing half-made; prepared
files that are broken are made anew."""

import os
import random
import subprocess
import sys
import tarfile
import time

import data_sets
import numpy as np
import pytest
from conftest import from_environment
from data_sets import folder, prepare, refused  # noqa: F401

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


def peak_bytes(*arguments):
    """Of a program that must succeed; started by a small process, because a child's peak begins with its parent's size."""
    code = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    return 1024 * int(subprocess.run([sys.executable, "-S", "-c", code, *map(str, arguments)], capture_output=True, text=True, check=True, timeout=300).stdout)


def test_huge_reviews_are_not_unpacked(folder, tmp_path):
    """A small archive can hold files of any size: no more of a review is kept than can be used."""
    data_sets.write_imdb(folder, np.random.default_rng(2), size=3)
    program, peaks, size = from_environment("RTF_PREPARE_DATA"), [], 200 << 20
    for huge in (False, True):
        archive = tmp_path / f"{huge}.tar.gz"
        with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
            tar.add(folder / "aclImdb", "aclImdb")
            if huge:
                entry = tarfile.TarInfo("aclImdb/train/pos/9_9.txt")
                entry.size = size
                with open("/dev/zero", "rb") as zeros:
                    tar.addfile(entry, zeros)
        assert archive.stat().st_size < size / 100
        peaks.append(peak_bytes(program, "text", archive, tmp_path / "cache"))
    assert peaks[1] < peaks[0] + size / 8, peaks
    got = prepare("text", archive, tmp_path / "cache")
    assert got["counts"] == [7, 0, 6] and max(len(tokens) for (tokens,) in got["samples"]) == 4096


def test_archives_of_images(folder, tmp_path):
    """CIFAR-10 comes as an archive: the line says to unpack it."""
    archive = folder / "cifar10-gray.tar.xz"
    archive.write_bytes(b"\xfd7zXZ")
    for path in (folder, archive):
        refused("image", path, tmp_path / "cache", str(path), archive.name, "tar -xf")


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
        refused("pathfinder", paths, cache, f"{paths}/metadata/10.npy, row 4: ", str(png), *[] if bytes_ else ["empty"])
    data_sets.write_png(png, np.zeros((16, 32), np.uint8))
    refused("pathfinder", paths, cache, "10.npy, row 4: ", str(png), "16 x 32", "32 x 32")
    png.unlink()
    refused("pathfinder", paths, cache, "10.npy, row 4: ", str(png))
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
