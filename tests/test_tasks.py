"""The samples of the tasks, against the layout and the statistics of the experiments, in NumPy."""

import gzip
import subprocess

import numpy as np
import pytest
from safetensors import safe_open

from conftest import from_environment, real_data


@pytest.fixture
def samples(tmp_path):
    """samples(config text, split, epoch, count): input, target, size of the split."""

    def draw(config, split="train", epoch=0, count=64):
        (tmp_path / "task.yaml").write_text(config)
        out = tmp_path / "samples.safetensors"
        subprocess.run(
            [from_environment("RTF_TASK_SAMPLES"), tmp_path / "task.yaml", split, str(epoch), str(count), out],
            check=True, timeout=120)  # fmt: skip
        with safe_open(out, "np") as file:
            return file.get_tensor("input"), file.get_tensor("target"), int(file.metadata()["size"])

    return draw


def test_copying(samples):
    x, y, size = samples("task: {name: copying, symbols: 12, memory: 40, noise: 7}", count=500)
    assert size == 10_000 and x.shape == (500, 87) and y.shape == (500, 40)
    assert np.array_equal(x[:, :40], y)
    assert (x[:, 40:47] == 0).all() and (x[:, 47:] == 11).all()
    # 20,000 draws from 1..10: each count is binomial with deviation sqrt(20000 * 0.1 * 0.9) = 42; 6 of them.
    counts = np.bincount(y.astype(int).ravel(), minlength=12)
    assert counts[0] == counts[11] == 0
    assert np.abs(counts[1:11] - 2000).max() < 6 * 42.5
    assert samples("task: {name: copying}", "val", count=1)[2] == 1_000


NOISE = "name: {}, length: 4000, dt: {}, band: {}, rms: 0.5"


def check_noise(x, highest):
    """Signals (count, 4000) with coefficients 1..highest of the transform."""
    assert np.abs(x[:, 0]).max() == 0
    spectrum = np.fft.rfft(x, axis=1)
    # Float32 samples of size 1: rounding 6e-8 each, sqrt(4000) of it in a coefficient.
    assert np.abs(spectrum[:, highest + 1 :]).max() < 10 * 6e-8 * np.sqrt(4000)
    # Without the subtracted offset the mean is zero, so the variance around it is that of the noise: 0.25, estimated
    # from 2 * highest normal numbers in each of the signals.
    variance = x.var(axis=1)
    deviation = 0.25 * np.sqrt(2 / (2 * highest))
    assert abs(variance.mean() - 0.25) < 6 * deviation / np.sqrt(len(x))
    assert np.abs(variance - 0.25).max() < 6 * deviation
    # White inside the band: every coefficient has the same share of the power.
    power = (np.abs(spectrum[:, 1 : highest + 1]) ** 2).mean(axis=0)
    expected = 0.25 * 4000**2 / (2 * highest)
    assert abs(power.mean() / expected - 1) < 6 / np.sqrt(highest * len(x))
    assert np.abs(power / expected - 1).max() < 8 / np.sqrt(len(x))
    assert abs((spectrum[:, 1 : highest + 1].real ** 2).mean() / (expected / 2) - 1) < 0.05


def test_delay(samples):
    config = "{task: {" + NOISE.format("delay", 0.00025, 1000) + ", lag: 1000}, model: {length: 4000}}"
    x, y, size = samples(config, count=256)
    assert size == 16_384 and x.shape == y.shape == (256, 4000, 1)
    x, y = x[:, :, 0], y[:, :, 0]
    check_noise(x, 1000)
    assert np.abs(y[:, :1000]).max() == 0 and np.array_equal(y[:, 1000:], x[:, :-1000])
    # The best that is known without memory: the offset from t = 1000 on. 0.433 = sqrt(0.25 * 3/4); 0.61 for zero.
    offset = np.where(np.arange(4000) < 1000, 0, 1)[None] * x.mean(axis=1, keepdims=True)
    assert abs(np.sqrt(np.mean((y - offset) ** 2)) - 0.433) < 0.01
    assert abs(np.sqrt(np.mean(y**2)) - np.sqrt(0.25 * 2 * 0.75)) < 0.03
    assert samples(config, "val", count=1)[2] == 1_024


def test_reconstruct(samples):
    config = "{task: {" + NOISE.format("reconstruct", 0.001, 100) + ", window: 1000}}"
    x, y, size = samples(config, count=128)
    assert size == 16_384 and x.shape == (128, 4000, 1) and y.shape == (128, 1, 1000)
    check_noise(x[:, :, 0], 400)
    assert np.array_equal(y[:, 0], x[:, 3000:, 0])


def test_odd_length_and_no_band_limit(samples):
    x, _, _ = samples("task: {name: delay, length: 51, dt: 0.01, band: 50, lag: 3, rms: 2}", count=4000)
    # All 26 coefficients of 52 points, the last one real: variance 4 (1 - 3 / 104); 51 of the points are kept.
    around = x[:, :, 0] - x[:, :, 0].mean(axis=1, keepdims=True)
    assert x.shape == (4000, 51, 1)
    assert abs((around**2).mean() / 4 - (1 - 3 / 104)) < 0.02


def test_mnist_itself(samples):
    mnist = real_data("mnist")

    def read(name, header):
        return np.frombuffer(gzip.open(mnist / f"{name}-ubyte.gz").read()[header:], np.uint8)

    images = read("train-images-idx3", 16).reshape(-1, 784)
    labels = read("train-labels-idx1", 8)
    config = f"{{task: {{name: smnist}}, data: {{path: {mnist}}}}}"
    x, y, size = samples(config, count=100)
    assert size == 55_000
    assert np.array_equal(x[:, :, 0], (images[:100].astype(np.float32) / np.float32(255)).astype(float))
    assert np.array_equal(y, labels[:100])
    x, y, size = samples(config, "val", count=10)
    assert size == 5_000 and np.array_equal(y, labels[55_000:55_010])
    assert samples(config, "test", count=1)[2] == 10_000
