"""rtf.load: runs of the command back in Python, and what it refuses. The command is that of the build, or the one that was
installed with the package."""

import json
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import rtf
from torch_half import need_torch_half

torch = need_torch_half()


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    """command(*arguments) runs `rtf` in a folder, which it returns."""
    program = os.environ.get("RTF_COMMAND") or str(Path(sys.executable).parent / "rtf")
    folder = tmp_path_factory.mktemp("runs")

    def run(*arguments):
        done = subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        return folder

    return run


COPYING = """
task: {name: copying, symbols: 6, memory: 8, train_size: 64, val_size: 16}
model: {layers: 2, channels: 8, order: 4, norm: batch, dropout: 0.1, inner_dropout: 0.1}
optimizer: {lr: 0.01, ema: 0.9}
train: {epochs: 2, batch: 8, seed: 5, threads: 1}
"""
DELAY = """
task: {name: delay, length: 48, dt: 0.01, band: 20, lag: 5, train_size: 64, val_size: 16}
model: {layers: 1, channels: 4, order: 8, norm: layer, bidirectional: true, denominators: 2, constraint: montel, init: montel}
train: {epochs: 2, batch: 8, seed: 3, threads: 1, precision: fp64}
"""


@pytest.fixture(scope="module")
def runs(command):
    for name, text in (("copying", COPYING), ("delay", DELAY)):
        folder = command("--version")
        (folder / f"{name}.yaml").write_text(text)
        command("train", f"{name}.yaml", "--out", name)
    return folder


def weights(file):
    from safetensors.numpy import load_file

    found = load_file(file)
    return {**{k[6:]: v for k, v in found.items() if k.startswith("model.")},
            **{k[4:]: v for k, v in found.items() if k.startswith("ema.")}}  # fmt: skip


@pytest.mark.parametrize("name, dtype", [("copying", torch.float32), ("delay", torch.float64)])
def test_a_run_and_its_checkpoints(runs, name, dtype):
    for path, checkpoint in ((runs / name, "best"), (str(runs / name), "latest"), (runs / name / "checkpoints/best.safetensors", "best")):
        model = rtf.load(path, checkpoint=checkpoint)
        assert isinstance(model, rtf.nn.SequenceModel) and not model.training
        wanted = weights(runs / name / f"checkpoints/{checkpoint}.safetensors")
        assert set(model.state_dict()) == set(wanted)
        for key, value in model.state_dict().items():
            assert value.dtype == dtype
            np.testing.assert_array_equal(value.numpy(), wanted[key], err_msg=key)


def test_an_exported_model_answers_as_the_loaded_one(runs, command):
    command("export", "copying", "-o", "copying.safetensors", "--precision", "f64", "--stabilize", "refit")
    model, stream = rtf.load(runs / "copying"), rtf.load(runs / "copying.safetensors")
    assert isinstance(stream, rtf.Stream)
    tokens = np.random.default_rng(0).integers(0, 6, (1, 16))
    answers = model.double()(torch.tensor(tokens)).detach().numpy()[0]
    assert answers.shape == (8, 6)
    np.testing.assert_allclose(stream.process(tokens[0])[-8:], answers, atol=1e-4 * np.abs(answers).max())


def test_without_torch(runs, command):
    """What was exported streams; a checkpoint says what is missing."""
    command("export", "copying", "-o", "alone.safetensors", "--stabilize", "refit")
    code = ("import sys\nsys.modules['torch'] = None\nimport rtf\nprint(rtf.load('alone.safetensors').outputs)\n"
            "try:\n    rtf.load('copying')\nexcept ImportError as error:\n    print(error)")  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], cwd=runs, capture_output=True, text=True, timeout=120)
    wanted = "rtf.load needs PyTorch, which is not installed, for copying/checkpoints/best.safetensors: a checkpoint"
    assert (done.returncode, done.stdout.splitlines()) == (0, ["6", wanted]), done.stderr


def test_a_checkpoint_in_parts(runs, command):
    command("train", "delay.yaml", "model.channels=256", "model.denominators=64", "model.order=16", "train.epochs=1", "checkpoint.part_size=1", "--out", "parts")
    file = runs / "parts/checkpoints/latest.safetensors"
    index = json.loads(file.read_text())
    assert len(index["parts"]) > 1
    assert rtf.load(file).blocks[0].layer.b.shape == (512, 16)
    part = file.parent / index["parts"][1]["file"]
    kept = part.read_bytes()
    part.write_bytes(kept[:-1] + bytes([kept[-1] ^ 1]))
    with pytest.raises(ValueError, match="damaged: its part .* is not what was written"):
        rtf.load(file)
    part.unlink()
    with pytest.raises(ValueError, match="incomplete: its part .* is not there"):
        rtf.load(file)


def test_refusals(runs, command, tmp_path):
    good = (runs / "copying/checkpoints/best.safetensors").read_bytes()
    (size,) = struct.unpack_from("<Q", good)
    header = json.loads(good[8 : 8 + size])

    def with_metadata(**changes):
        changed = {**header, "__metadata__": {k: v for k, v in {**header["__metadata__"], **changes}.items() if v is not None}}
        text = json.dumps(changed).encode()
        return struct.pack("<Q", len(text)) + text + good[8 + size :]

    table = [
        (b"", "truncated: a safetensors file begins with 8 bytes"),
        (b"hello", "truncated: a safetensors file begins with 8 bytes"),
        (b"PK\3\4" + bytes(96), "a file of torch.save; load_state_dict of a layer or model takes what torch.load finds in it"),
        (good[:100], "the header claims [0-9]+ bytes, the file has 92 left"),
        (good[:-8], "past the end|bytes"),
        (good[:-1] + bytes([good[-1] ^ 1]), "damaged: its checksum does not match"),
        (with_metadata(format="2"), "is of format '2'; this version reads format 1"),
        (with_metadata(format=None), "no 'format': not a checkpoint"),
        (with_metadata(crc32=None), "no 'crc32': not a checkpoint"),
        (with_metadata(step="1"), "damaged: its checksum does not match"),
    ]
    for content, message in table:
        (tmp_path / "file.safetensors").write_bytes(content)
        with pytest.raises(ValueError, match=message) as caught:
            rtf.load(tmp_path / "file.safetensors")
        assert str(caught.value).startswith("[rtf::load] ") and "\n" not in str(caught.value)
    with pytest.raises(FileNotFoundError, match="no such file"):
        rtf.load(tmp_path / "nothing")
    with pytest.raises(ValueError, match=r"\[rtf::load\] checkpoint is 'first'; expected best, latest or previous"):
        rtf.load(runs / "copying", checkpoint="first")
    (runs / "s4d.yaml").write_text(DELAY.replace("bidirectional: true, denominators: 2, constraint: montel, init: montel", "layer: s4d"))
    command("train", "s4d.yaml", "--out", "s4d")
    with pytest.raises(ValueError, match="layers of kind s4d; those of kind rtf are served here"):
        rtf.load(runs / "s4d")
    shutil.rmtree(runs / "s4d")
