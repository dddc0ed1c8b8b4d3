"""Small files in the public forms of the data sets, and what they are once prepared: written from the specification. And
the program that prepares them."""

import json
import os
import subprocess
import tarfile
from collections import Counter

import numpy as np
import pytest
from conftest import from_environment

SPECIALS = ["<pad>", "<unk>", "<eos>"]
OPERATORS = ["[MIN", "[MAX", "[MED", "[SM"]


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


def vocabulary(tokens, occurrences=1):
    """`tokens` are the lists of the training texts, as they are cut."""
    counts = Counter(token for text in tokens for token in text)
    kept = [token for token in counts if counts[token] >= occurrences]
    return SPECIALS + sorted(kept, key=lambda token: (-counts[token], token))


def encoded(tokens, words):
    number = {token: i for i, token in enumerate(words) if i >= 3}
    return [number.get(token, 1) for token in tokens] + [2]


def random_tree(rng, depth=1):
    """The tokens of a ListOps expression and its public form."""
    if depth > 1 and rng.random() < 0.6:
        digit = str(rng.integers(10))
        return [digit], digit
    operator = OPERATORS[rng.integers(4)]
    arguments = [random_tree(rng, depth + 1) for _ in range(rng.integers(2, 5 if depth < 5 else 3))] if depth < 7 else [
        ([d], d) for d in map(str, rng.integers(0, 10, 2))]  # fmt: skip
    tokens, text = [operator], operator
    for inner, inner_text in arguments:
        tokens += inner
        text = f"( {text} {inner_text} )"
    return tokens + ["X"], f"( {text} ] )"


def write_listops(folder, rng, sizes=(40, 20, 20)):
    """Returns (tokens, label) of every sample, one list a split."""
    splits = []
    for name, size in zip(("train", "val", "test"), sizes):
        samples = [(*random_tree(rng), int(rng.integers(10))) for _ in range(size)]
        rows = ["Source\tTarget"] + [f"{text}\t{label}" for _, text, label in samples]
        (folder / f"basic_{name}.tsv").write_text("\n".join(rows) + "\n")
        splits.append([(tokens, label) for tokens, _, label in samples])
    return splits


ALPHABET = list("etaoin shrdlu,.!?\"'<br />") + ["é", "–", "数", "🎬"]


def random_text(rng, longest=60):
    # Frequencies that differ, so that some characters are rare.
    weights = 1 / np.arange(1, len(ALPHABET) + 1) ** 1.5
    return "".join(rng.choice(ALPHABET, rng.integers(1, longest), p=weights / weights.sum()))


def write_imdb(folder, rng, size=20, long=False):
    """Returns {split: [(text, label)]} in the order of the prepared samples: positive first, by file name."""
    splits = {}
    for split in ("train", "test"):
        splits[split] = []
        for label, kind in ((1, "pos"), (0, "neg")):
            place = folder / "aclImdb" / split / kind
            place.mkdir(parents=True)
            texts = {f"{i}_{rng.integers(1, 11)}.txt": random_text(rng) for i in range(size)}
            if long:
                texts["0_long.txt"] = "".join(rng.choice(ALPHABET, 5000))
            for name, text in texts.items():
                (place / name).write_bytes(text.encode())
            splits[split] += [(texts[name], label) for name in sorted(texts)]
    (folder / "aclImdb" / "README").write_text("not a review")
    return splits


def pack(folder, archive, format=tarfile.USTAR_FORMAT, root="aclImdb"):
    with tarfile.open(archive, "w:gz" if archive.suffix == ".gz" else "w", format=format) as tar:
        tar.add(folder / "aclImdb", root)


def write_aan(folder, rng, sizes=(30, 10, 10)):
    """Returns ((text, text), label) of every sample, one list a split."""
    splits = []
    for name, size in zip(("train", "eval", "test"), sizes):
        samples = [((random_text(rng), random_text(rng, 120)), int(rng.integers(2))) for _ in range(size)]
        samples[0] = (("b'quoted \"text", '"'), 1)
        rows = [f"{label}.0\tP{i}\tQ{i}\t{x}\t{y}" for i, ((x, y), label) in enumerate(samples)]
        (folder / f"new_aan_pairs.{name}.tsv").write_text("\n".join(rows) + "\n")
        splits.append(samples)
    return splits


def write_cifar(folder, rng, size=20):
    """The public batches; returns the grey images and labels in the order of the files, the test images last."""
    pixels, labels = [], []
    for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
        label = rng.integers(0, 10, size).astype(np.uint8)
        colours = rng.integers(0, 256, (size, 3, 1024)).astype(np.uint8)
        (folder / name).write_bytes(np.hstack([label[:, None], colours.reshape(size, -1)]).tobytes())
        wide = colours.astype(np.int64)
        pixels.append((19595 * wide[:, 0] + 38470 * wide[:, 1] + 7471 * wide[:, 2] + 32768) >> 16)
        labels.append(label)
    return np.concatenate(pixels), np.concatenate(labels)


def write_png(path, image):
    import struct
    import zlib

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    rows, columns = image.shape
    body = b"".join(b"\0" + row.tobytes() for row in image)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", columns, rows, 8, 0, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(body))
        + chunk(b"IEND", b"")
    )


def write_pathfinder(folder, rng, side=32, batches=(2, 10, 1), size=10):
    """Returns images and labels in the order of the metadata files' numbers."""
    (folder / "metadata").mkdir(parents=True)
    images, labels = {}, {}
    for batch in batches:
        (folder / "imgs" / str(batch)).mkdir(parents=True)
        rows = []
        for k in range(size):
            label = int(rng.integers(2))
            image = rng.integers(0, 256, (side, side)).astype(np.uint8)
            write_png(folder / "imgs" / str(batch) / f"sample_{k}.png", image)
            images[batch, k], labels[batch, k] = image.ravel(), label
            rows.append(f"imgs/{batch} sample_{k}.png {k} {label} 1.0 14 4 2 0.5 1 1")
        (folder / "metadata" / f"{batch}.npy").write_text("\n".join(rows) + "\n")
    order = [(batch, k) for batch in sorted(batches) for k in range(size)]
    return np.array([images[i] for i in order]), np.array([labels[i] for i in order])
