"""The example products: the room against NumPy and SciPy, the digits against SciPy and `rtf eval`. Data are made up here."""

import re
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import COMMAND
from random_model import RandomModel
from safetensors.numpy import load_file
from scipy.io import wavfile
from scipy.signal import fftconvolve, lfilter
from training_runs import write_digits

ROOT = Path(__file__).parent.parent
PROGRAMS = Path(COMMAND).resolve().parent / "tests" / "examples"
RATE, POLES = 44100, 128 * 128


@pytest.fixture
def program(tmp_path):
    """program(name, *arguments) runs a program of an example in tmp_path: exit code, standard output, standard error."""

    def run(name, *arguments):
        path = next(PROGRAMS.glob(f"*/{name}"), None)
        if path is None:
            pytest.skip(f"there is no {name} below {PROGRAMS}")
        done = subprocess.run([path, *map(str, arguments)], cwd=tmp_path, capture_output=True, text=True, timeout=300)
        return done.returncode, done.stdout, done.stderr

    return run


def succeed(done):
    assert (done[0], done[2]) == (0, "")
    return done[1]


def refused(done, name, text):
    code, out, error = done
    assert (code, out, error.count("\n")) == (2, "", 1) and error.startswith(f"{name}: ") and text in error, done


# --- The room ---------------------------------------------------------------------------------------------------------


def write_pcm(path, samples):
    values = np.int16(np.rint(32768 * samples))
    wavfile.write(path, RATE, values)
    return values / 32768


def draw_response(rng, length, falls):
    """Noise that falls by 60 dB in so many samples to a floor, behind a loud first sample."""
    response = 0.2 * rng.uniform(-1, 1, length) * np.maximum(10 ** (-3 * np.arange(length) / falls), 1e-3)
    response[0] = 0.5
    return response


def bank_kernel(response, length):
    """radius^t c[t mod POLES], nearest to the response in least squares."""
    left = np.r_[np.cumsum(response[::-1] ** 2)[::-1], 0]
    apart = np.argmax(left <= left[0] * 10**-2.5) - np.argmax(left <= left[0] * 10**-0.5)
    fall = lambda t: 10 ** (-t / max(apart, POLES / 3))  # noqa: E731
    t = np.arange(-(-len(response) // POLES) * POLES)
    weight = np.where(t < len(response), fall(t), 0).reshape(-1, POLES)
    products = (weight * np.pad(response, (0, len(t) - len(response))).reshape(-1, POLES)).sum(0)
    squares = (weight**2).sum(0)
    c = np.divide(products, squares, out=np.zeros(POLES), where=squares > 0)
    return fall(np.arange(length)) * np.resize(c, length)


@pytest.mark.parametrize("length, falls", [(1, 10), (700, 300), (POLES, 20000), (POLES + 999, 300), (40000, 25000)])
def test_room_is_fitted_and_streamed(program, tmp_path, length, falls):
    rng = np.random.default_rng(length)
    response = write_pcm(tmp_path / "room.wav", draw_response(rng, length, falls))
    response *= 0.5 / np.linalg.norm(response)
    report = succeed(program("fit_room", "room.wav", "room.safetensors"))
    error = np.linalg.norm(bank_kernel(response, length) - response) / np.linalg.norm(response)
    assert float(re.search(r"error of the fit: ([\d.]+) %", report)[1]) == pytest.approx(100 * error, abs=0.006)

    # The last block of the voice is not full; behind it there is a second for the room to die away.
    voice = write_pcm(tmp_path / "voice.wav", 0.25 * rng.uniform(-1, 1, 12345))
    report = succeed(program("room", "room.safetensors", "voice.wav", "after.wav"))
    assert "real-time factor" in report and "over the 1.451 ms" in report and "clipped" not in report
    rate, after = wavfile.read(tmp_path / "after.wav")
    assert rate == RATE and after.dtype == np.int16 and len(after) % 64 == 0 and 0 <= len(after) - len(voice) - RATE < 64

    # The channels add up to the kernel and the answers to their convolution. fit_room allows each channel 1e-4 of
    # its largest answer; PCM adds half a step.
    tensors = load_file(tmp_path / "room.safetensors")
    a, b, h0 = (tensors[f"blocks.0.layer.{name}"].astype(float) for name in ("a", "b", "h0"))
    assert a.shape == (128, 128)
    kernel = bank_kernel(response, len(after))
    for u, y, step in ((np.eye(1, len(after))[0], None, 0), (np.pad(voice, (0, len(after) - len(voice))), after / 32768, 0.5 / 32768)):
        channels = [lfilter(h * np.r_[1, d] + np.r_[0, n], np.r_[1, d], u) for d, n, h in zip(a, b, h0, strict=True)]
        allowed = step + 1e-4 * sum(np.abs(channel).max() for channel in channels)
        wanted = fftconvolve(u, kernel)[: len(after)]
        np.testing.assert_allclose(sum(channels) if y is None else y, wanted, rtol=0, atol=allowed)

    # The picture measures against the measured response itself.
    (tmp_path / "voice.wav").rename(tmp_path / "before.wav")
    direct = np.pad(fftconvolve(voice, response), (0, len(after)))[: len(after)]
    done = subprocess.run([sys.executable, ROOT / "examples/audio/picture.py", "room.wav", "."], cwd=tmp_path, capture_output=True, text=True, check=True)
    wanted = 100 * np.linalg.norm(after / 32768 - direct) / np.linalg.norm(direct)
    assert float(re.search(r"by ([\d.]+) %", done.stdout)[1]) == pytest.approx(wanted, abs=0.006)
    assert (tmp_path / "room.png").read_bytes()[:4] == b"\x89PNG"


def test_room_refuses(program, tmp_path):
    wavfile.write(tmp_path / "two.wav", RATE, np.ones((100, 2), np.int16))
    wavfile.write(tmp_path / "silent.wav", RATE, np.zeros(100, np.int16))
    for name, text in (("two.wav", "two.wav has several channels"), ("silent.wav", "silent.wav is silent"), ("none.wav", "none.wav")):
        refused(program("fit_room", name, "m.safetensors"), "fit_room", text)
        assert not (tmp_path / "m.safetensors").exists()
    (tmp_path / "m.safetensors").write_bytes(RandomModel(1, features=2).file)
    refused(program("room", "m.safetensors", "silent.wav", "after.wav"), "room", "no model of one input and one output")
    (tmp_path / "m.safetensors").write_bytes(one_to_one(tmp_path, program))
    refused(program("room", "m.safetensors", "two.wav", "after.wav"), "room", "two.wav has several channels")
    refused(program("room", "m.safetensors", "none.wav", "after.wav"), "room", "none.wav")
    assert not (tmp_path / "after.wav").exists()


def one_to_one(folder, program):
    write_pcm(folder / "click.wav", np.array([0.5]))
    succeed(program("fit_room", "click.wav", "click.safetensors"))
    return (folder / "click.safetensors").read_bytes()


def test_room_says_what_it_clipped(program, tmp_path):
    (tmp_path / "m.safetensors").write_bytes(one_to_one(tmp_path, program))  # a gain of 0.5
    loud = np.array([0.5, 3, -4, 1], np.float32)
    wavfile.write(tmp_path / "loud.wav", RATE, loud)
    assert "clipped" not in succeed(program("room", "m.safetensors", "loud.wav", "after.wav"))
    np.testing.assert_allclose(wavfile.read(tmp_path / "after.wav")[1][:4], loud / 2, rtol=1e-6)


# --- The digits -------------------------------------------------------------------------------------------------------


def write_idx(path, values):
    path.write_bytes(struct.pack(f">{values.ndim + 1}I", 0x800 + values.ndim, *values.shape) + values.astype(np.uint8).tobytes())


def test_digits_are_decided_as_the_model_says(program, tmp_path):
    rng = np.random.default_rng(3)
    count, rows, columns = 117, 8, 5  # the last of the batches of 50 is not full
    images, labels = rng.integers(0, 256, (count, rows, columns)), rng.integers(0, 3, count)
    write_idx(tmp_path / "images", images)
    write_idx(tmp_path / "labels", labels)
    model = RandomModel(4, decoder="pool", order=6)
    (tmp_path / "m.safetensors").write_bytes(model.file)
    report = succeed(program("digits", "m.safetensors", "images", "labels", "."))

    inputs = (images.reshape(count, -1, 1) / np.float32(255)).astype(np.float32).astype(float)
    answers = np.array([model.answers(x) for x in inputs])
    found = np.load(tmp_path / "answers.npy")
    assert found.shape == (6, 40, 3)
    np.testing.assert_allclose(found, answers[:6], rtol=0, atol=1e-4 * np.abs(answers).max())
    # Two answers as close as that may change places.
    top = np.sort(answers, -1)
    certain = top[..., -1] - top[..., -2] > 2e-4 * np.abs(answers).max()
    right = (answers.argmax(-1) == labels[:, None])
    accuracy = np.load(tmp_path / "accuracy.npy")
    low, high = (right & certain).mean(0), (right | ~certain).mean(0)
    assert np.all(accuracy >= low - 1e-12) and np.all(accuracy <= high + 1e-12)
    assert f"right after the last pixel: {round(accuracy[-1] * count)} of {count}, accuracy {accuracy[-1]:.4f}\n" in report
    lines = report.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("rows seen"))
    assert lines[start].split()[2:4] == ["4", "8"]
    for i in range(6):
        words, decisions = lines[start + 1 + i].split(), found[i].argmax(-1)
        settled = 40 - np.argmax(np.r_[(decisions != decisions[-1])[::-1], True]) + 1
        assert words == ["a", str(labels[i]), str(decisions[19]), str(decisions[39]), str(settled), "of", "40"]


def test_digits_refuses(program, tmp_path):
    write_idx(tmp_path / "images", np.zeros((4, 3, 3)))
    write_idx(tmp_path / "labels", np.array([0, 1, 2, 1]))
    write_idx(tmp_path / "few", np.array([0, 1, 2]))
    write_idx(tmp_path / "large", np.array([0, 1, 2, 3]))
    good = (tmp_path / "images").read_bytes()
    (tmp_path / "short").write_bytes(good[:-1])
    (tmp_path / "huge").write_bytes(good[:4] + b"\xff" * 12 + good[16:])
    (tmp_path / "text").write_text("digits")
    (tmp_path / "m.safetensors").write_bytes(RandomModel(1, decoder="pool").file)
    (tmp_path / "tokens.safetensors").write_bytes(RandomModel(1, decoder="pool", vocabulary=4).file)
    for model, images, labels, text in (
        ("m", "none", "labels", "cannot read none"), ("m", "text", "labels", "text is no idx file"), ("m", "short", "labels", "short does not hold"),
        ("m", "huge", "labels", "huge does not hold"), ("m", "images", "few", "no images with a label each"), ("m", "labels", "labels", "no images"),
        ("m", "images", "large", "large holds a label"), ("tokens", "images", "labels", "tokens.safetensors is no model that classifies"),
    ):  # fmt: skip
        refused(program("digits", f"{model}.safetensors", images, labels, "."), "digits", text)
    assert not (tmp_path / "answers.npy").exists()


def test_digits_of_a_trained_model_are_those_of_eval(rtf, program, tmp_path):
    if not (Path(COMMAND).resolve().parent / "rtf-train").exists():
        pytest.skip("built without training")
    rng = np.random.default_rng(0)
    write_digits(tmp_path, 600, "train", rng)
    write_digits(tmp_path, 150, "t10k", rng)
    rtf("train", ROOT / "examples/sensor/digits.yaml", f"data.path={tmp_path}", "model.channels=16", "model.order=8", "optimizer.lr=0.01",
        "train.epochs=6", "train.batch=25", "train.threads=1", "--out", "run", "-q")  # fmt: skip
    rtf("export", "run", "-o", "m.safetensors", "-q")
    evaluated = float(rtf("eval", "run", "--split", "test").split()[-1])
    report = succeed(program("digits", "m.safetensors", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte", "."))
    assert evaluated > 0.5 and f"accuracy {evaluated:.4f}\n" in report  # chance is 1/6
    subprocess.run([sys.executable, ROOT / "examples/sensor/picture.py", "."], cwd=tmp_path, capture_output=True, check=True)
    assert (tmp_path / "digits.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize("product", ["audio", "sensor"])
def test_products_skip_without_data(tmp_path, product):
    prefix = tmp_path / "prefix"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin" / "rtf").symlink_to(COMMAND)
    done = subprocess.run([ROOT / "examples" / product / "run.sh", prefix, tmp_path], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "") and re.fullmatch(f"{product}: skipped, there is no .*\n", done.stdout), done
    done = subprocess.run([ROOT / "examples" / product / "run.sh"], capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.startswith("usage: ") and done.stderr.count("\n") == 1
