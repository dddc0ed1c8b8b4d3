"""rtf export, then rtf stream: the same answers as the trainer's own forward pass; what cannot be exported is refused."""

import json
import os
import re
import shutil
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest
from conftest import COMMAND, from_environment
from training_runs import DELAY, TINY, refused

torch = pytest.importorskip("torch")

from model_cases import options_of  # noqa: E402
from safetensors import safe_open  # noqa: E402
from safetensors.numpy import save_file  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

TOLERANCE = {"f32": 1e-4, "f64": 1e-9}  # relative to the largest answer
CHECKPOINT = "checkpoints/best.safetensors"
SIZES = {"tiny": dict(order=4, denominators=1), "delay": dict(order=8, denominators=1), "both": dict(order=8, denominators=1)}


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """One run of each kind, which no test changes."""
    from_environment("RTF_MODEL_RUNNER")
    folder = tmp_path_factory.mktemp("exported_runs")
    for name, config, more in (("tiny", TINY, []), ("delay", DELAY, []), ("both", DELAY, ["model.bidirectional=true", "train.epochs=1"])):
        (folder / f"{name}.yaml").write_text(config)
        subprocess.run([COMMAND, "train", f"{name}.yaml", "--out", name, "--quiet", *more], cwd=folder, check=True, timeout=120)
    return folder


@pytest.fixture
def run(runs, tmp_path):
    """run(name): a copy of that run in tmp_path, whose name it returns."""
    return lambda name: shutil.copytree(runs / name, tmp_path / name).name


def metadata_of(path):
    with safe_open(path, "np") as file:
        return file.metadata()


def forward(model_runner, checkpoint, architecture, x, precision):
    """By the trainer's convolution, with the weights that it evaluates."""
    tensors = load_file(checkpoint)
    weights = {name.removeprefix("model."): value for name, value in tensors.items() if name.startswith("model.")}
    weights |= {name.removeprefix("ema."): value for name, value in tensors.items() if name.startswith("ema.")}
    options = {key: value for key, value in architecture.items() if key != "precision"}
    request = {"options": options_of(**options), "type": {"f32": "float32", "f64": "float64"}[precision],
               "commands": [{"do": "forward", "save": "y", "samples": x.shape[1]}]}  # fmt: skip
    return model_runner(request, {"x": x, **{"weights." + name: value for name, value in weights.items()}})["y"].numpy()


@pytest.mark.parametrize("realization", ["auto", "companion", "sos", "modal"])
@pytest.mark.parametrize("precision", ["f32", "f64"])
@pytest.mark.parametrize("name", ["tiny", "delay"])
def test_streamed_answers_are_the_trainers(rtf, run, model_runner, tmp_path, name, precision, realization):
    folder = run(name)
    report = rtf("export", folder, "-o", "m.safetensors", "--precision", precision, "--realization", realization).splitlines()
    layers = [line.split() for line in report[2:-2]]
    assert len(layers) == 2 and report[0].startswith(f"{folder}/{CHECKPOINT}, step ") and report[-1].startswith("m.safetensors: ")
    for number, layer in enumerate(layers):
        assert layer[0] == str(number) and 0 <= float(layer[1]) < 1 and layer[3] == precision
        assert layer[2] == realization or realization == "auto"
        assert float(layer[4]) <= {"f32": 1e-5, "f64": 1e-10}[precision]
    assert float(re.search(r"answers are off by (\S+)", report[-2]).group(1)) <= TOLERANCE[precision]

    architecture = json.loads(metadata_of(tmp_path / "m.safetensors")["architecture"]) | SIZES[name]
    rng = np.random.default_rng(1)
    length = architecture["length"]
    x = torch.tensor(rng.integers(0, 6, (1, length)) if name == "tiny" else rng.standard_normal((1, length, 1)).astype("f4"))
    np.save(tmp_path / "x.npy", x[0].numpy())
    rtf("stream", "m.safetensors", "x.npy", "-o", "y.npy")
    wanted = forward(model_runner, tmp_path / folder / CHECKPOINT, architecture, x, precision)[0]
    got = np.load(tmp_path / "y.npy")[-len(wanted) :]
    assert got.shape == wanted.shape
    assert np.abs(got - wanted).max() <= TOLERANCE[precision] * np.abs(wanted).max()


@pytest.mark.parametrize("weights", ["f32", "bf16", "int8"])
@pytest.mark.parametrize("name", ["tiny", "delay", "both"])
def test_weights_and_the_error_of_the_answers(rtf, run, tmp_path, name, weights):
    """The file holds the rounded weights, and the report says what that costs: at most what rounding each by this much
    can do through two blocks whose gain is of the order of 1."""
    folder = run(name)
    report = rtf("export", folder, "-o", "m.safetensors", "--weights", weights)
    error = float(re.search(r"answers are off by (\S+) of the largest, against the model in float64", report).group(1))
    assert ("weights in " + weights in report) == (weights != "f32")
    low, high = {"f32": (0, 1e-4), "bf16": (1e-5, 0.05), "int8": (1e-5, 0.1)}[weights]
    assert low <= error <= high
    metadata = json.loads(metadata_of(tmp_path / "m.safetensors")["architecture"])
    assert metadata.get("weights", "f32") == weights
    rtf("export", folder, "-o", "f32.safetensors", "--quiet")
    exact, held = load_file(tmp_path / "f32.safetensors"), load_file(tmp_path / "m.safetensors")
    matrices = [name for name, value in held.items() if name.endswith(".weight") and value.dim() == 2]
    assert {"encoder.weight", "decoder.weight", "blocks.0.output.weight"} <= set(matrices)
    for matrix in matrices:
        wanted, got = exact[matrix].double(), held[matrix]
        assert got.dtype == {"f32": torch.float32, "bf16": torch.bfloat16, "int8": torch.int8}[weights]
        if weights == "bf16":
            assert (got == wanted.bfloat16()).all()
        elif weights == "int8":
            scale = held[matrix.replace(".weight", ".scale")].double()[:, None]
            assert (got.abs().amax(1) == 127).all() and ((got * scale - wanted).abs() <= 0.501 * scale).all()
    assert all(value.dtype == torch.float32 for name, value in held.items() if name not in matrices)


def test_weights_of_f64_are_not_narrow(rtf_raw, run, tmp_path):
    folder = run("tiny")
    refused(rtf_raw("export", folder, "-o", "m", "--precision", "f64", "--weights", "bf16"), "--weights bf16 goes with --precision f32")
    refused(rtf_raw("export", folder, "-o", "m", "--weights", "int4"), "--weights")
    assert not (tmp_path / "m").exists()


def test_checkpoints(rtf, rtf_raw, run, tmp_path):
    """best by default, others by name or by themselves; away from their run too. The same run gives the same bytes."""
    folder = run("tiny")
    exported = lambda *arguments: (rtf("export", *arguments, "-o", "m", "--quiet"), (tmp_path / "m").read_bytes())[1]  # noqa: E731
    best, latest = exported(folder), exported(folder, "--checkpoint", "latest")
    assert best == exported(folder) == exported(f"{folder}/{CHECKPOINT}")
    assert latest == exported(f"{folder}/checkpoints/latest.safetensors")
    # A config.yaml that was edited does not change what the weights belong to.
    config = tmp_path / folder / "config.yaml"
    config.write_text(config.read_text().replace("activation: gelu", "activation: identity"))
    assert "activation: identity" in config.read_text() and exported(folder) == best
    shutil.copy(tmp_path / folder / CHECKPOINT, tmp_path / "alone.safetensors")
    assert exported("alone.safetensors") == best
    (tmp_path / folder / CHECKPOINT).unlink()
    refused(rtf_raw("export", folder, "-o", "n"), "no best weights", "--checkpoint latest")


def rewrite(path, change):
    """The checkpoint with changed tensors, and the checksum that belongs to them."""
    tensors = {name: value.numpy() for name, value in load_file(path).items()}
    metadata = {key: value for key, value in metadata_of(path).items() if key != "crc32"}
    change(tensors)
    total = 0
    for name in sorted(tensors):
        value = tensors[name]
        total = zlib.crc32(struct.pack(f"<{value.ndim}Q", *value.shape), zlib.crc32(name.encode() + b"\0", total))
        total = zlib.crc32(value.astype("<f8").tobytes(), total)
    for key in sorted(metadata):
        total = zlib.crc32(metadata[key].encode() + b"\0", zlib.crc32(key.encode() + b"\0", total))
    save_file(tensors, path, {**metadata, "crc32": str(total)})


def test_unstable_layer(rtf, rtf_raw, run, tmp_path):
    folder = run("delay")

    def move_pole(tensors):
        tensors["model.blocks.1.layer.a"][:] = 0
        tensors["model.blocks.1.layer.a"][0, 0] = -1.125

    rewrite(tmp_path / folder / CHECKPOINT, move_pole)
    refused(rtf_raw("export", folder, "-o", "m.safetensors"), "layer 1: denominator 0 has a pole of modulus 1.125", "--stabilize refit")
    assert not (tmp_path / "m.safetensors").exists()
    for method in ("refit", "reflect"):
        report = rtf("export", folder, "-o", "m.safetensors", "--stabilize", method).splitlines()
        cells = re.split(r"  +", report[3].strip())
        assert "moved by" in report[1] and float(cells[1]) < 1 and float(cells[6]) > 0, report
        assert rtf("stream", "m.safetensors", "-", "-o", "y.txt", "--quiet") == ""


@pytest.mark.parametrize("precision", ["f32", "f64"])
def test_bidirectional_model_is_for_blocks(rtf, rtf_raw, run, model_runner, tmp_path, precision):
    folder = run("both")
    report = rtf("export", folder, "-o", "m.safetensors", "--precision", precision)
    assert "0 forward" in report and "1 backward" in report and "cannot be streamed" in report.splitlines()[-1]
    architecture = json.loads(metadata_of(tmp_path / "m.safetensors")["architecture"]) | SIZES["both"]
    for length in (1, 2, 47, 48):
        x = np.random.default_rng(length).standard_normal((1, length, 1)).astype("f4")
        np.save(tmp_path / "x.npy", x[0])
        rtf("stream", "m.safetensors", "x.npy", "-o", "y.npy")
        wanted = forward(model_runner, tmp_path / folder / CHECKPOINT, architecture, torch.tensor(x), precision)[0]
        assert np.abs(np.load(tmp_path / "y.npy") - wanted).max() <= TOLERANCE[precision] * np.abs(wanted).max()
    refused(rtf_raw("stream", "m.safetensors", "x.npy", "--state-out", "s"), "sees whole sequences", "no state")
    refused(rtf_raw("bench", "step", "m.safetensors"), "it has no step")


def test_answers_that_are_not_finite(rtf_raw, run, tmp_path):
    folder = run("delay")

    def overflow(tensors):
        tensors["model.decoder.weight"][:] = 3e38

    rewrite(tmp_path / folder / CHECKPOINT, overflow)
    refused(rtf_raw("export", folder, "-o", "m.safetensors"), "answers are not finite", "--precision f64 holds larger numbers")
    assert not (tmp_path / "m.safetensors").exists()


def test_checkpoints_are_not_written_over(rtf_raw, run, tmp_path):
    folder = run("tiny")
    checkpoints = {path: path.read_bytes() for path in (tmp_path / folder / "checkpoints").iterdir()}
    for source, output in ((folder, CHECKPOINT), (f"{folder}/{CHECKPOINT}", CHECKPOINT), (folder, "checkpoints/latest.safetensors")):
        refused(rtf_raw("export", source, "-o", f"{folder}/{output}"), "is a checkpoint of the run that is read")
    assert checkpoints == {path: path.read_bytes() for path in checkpoints}


def test_an_exported_model_is_no_checkpoint(rtf, rtf_raw, run):
    rtf("export", run("tiny"), "-o", "m.safetensors", "--quiet")
    refused(rtf_raw("export", "m.safetensors", "-o", "n.safetensors"), "m.safetensors", "it is an exported model; a run or a checkpoint is needed")


def test_bad_input(rtf_raw, run, tmp_path):
    folder = run("tiny")
    for arguments, part in (
        (["none", "-o", "m"], "cannot read none"),
        ([".", "-o", "m"], "is not a run folder: it has no config.yaml"),
        (["tiny", "-o", "no/m"], "cannot write no/m"),
        (["tiny", "-o", "m", "--precision", "f16"], "f16"),
        (["tiny", "-o", "m", "--realization", "lattice"], "lattice"),
        (["tiny", "-o", "m", "--stabilize", "hope"], "hope"),
        (["tiny"], "--output"),
    ):
        refused(rtf_raw("export", *arguments), part)
    cut = tmp_path / folder / CHECKPOINT
    cut.write_bytes(cut.read_bytes()[:-1])
    refused(rtf_raw("export", folder, "-o", "m"), CHECKPOINT)
    assert not (tmp_path / "m").exists()


def test_help_examples_run(rtf, runs, tmp_path):
    """rtf export's example, then rtf stream's, after a run of that name."""
    (tmp_path / "runs").mkdir()
    shutil.copytree(runs / "tiny", tmp_path / "runs/copying")
    for command in ("export", "stream"):
        example = rtf(command, "--help").split("Example:\n")[1]
        script = "".join(line + "\n" for line in example.splitlines() if line.startswith("  "))
        assert script.count(f"rtf {command}") >= 2
        done = subprocess.run(["bash", "-c", f'set -e; rtf() {{ "$COMMAND" "$@"; }}\n{script}'], cwd=tmp_path,
                              env={**os.environ, "COMMAND": COMMAND, "PYTHON": sys.executable}, capture_output=True, text=True)  # fmt: skip
        assert (done.returncode, done.stderr) == (0, ""), done
