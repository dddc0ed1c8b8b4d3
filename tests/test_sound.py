"""`rtf filter` on wav files against scipy.io.wavfile and scipy.signal."""

import os
import subprocess

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import signal
from scipy.io import wavfile

import sound
from conftest import COMMAND, real_data
from oracle import Filter, condition, draw_filter, filter_signal, save_json, tolerance

RESOLUTION = {"pcm16": 2.0**-15, "pcm24": 2.0**-23, "pcm32": 2.0**-31, "f32": 0, "f64": 0}


def quiet_filter(rng, channels, groups, order):
    """Scaled so that no input of size 0.5 can reach full scale."""
    f = draw_filter(rng, channels, groups, order)
    impulse = np.zeros(4000)
    impulse[0] = 1
    gain = max(np.abs(signal.lfilter(f.numerator(c), f.denominator(c), impulse)).sum() for c in range(channels))
    return Filter(f.a, f.b / gain, f.h0 / gain)


def expect(actual, expected, name, kappa):
    """Rounded to the nearest value of the format; a value within rounding of a tie may go either way."""
    slack = tolerance(kappa, "f64") * np.abs(expected).max()
    if name == "f32":
        slack = slack + 2.0**-24 * np.abs(expected) + 2.0**-149
    assert actual.shape == expected.shape
    assert np.all(np.abs(actual - expected) <= RESOLUTION[name] / 2 + slack)


@pytest.mark.parametrize("name", sound.FORMATS)
@pytest.mark.parametrize("seed", range(10))
def test_every_format_against_lfilter(rtf, tmp_path, seed, name):
    rng = np.random.default_rng(seed)
    channels, frames = int(rng.choice([1, 1, 2, 3, 5])), int(rng.choice([1, 2, 7, 100, 1001, 20000]))
    order = int(rng.choice([0, 1, 2, 8, 30]))
    one_for_all = bool(rng.integers(2))
    f = quiet_filter(rng, 1 if one_for_all else channels, 1, order)
    save_json(tmp_path / "f.json", f)
    stored, values = sound.draw(rng, name, frames, channels)
    rate = int(rng.choice([1, 8000, 44100, 192000]))
    (tmp_path / "in.wav").write_bytes(sound.wav(stored, name, rate, extensible=bool(rng.integers(2))))
    chunk = ["--chunk", int(rng.integers(1, frames + 2))] if rng.integers(2) else []
    text = rtf("filter", "f.json", "--input", "in.wav", "-o", "out.wav", *chunk)
    assert text.startswith(f"out.wav: {frames} frames, {channels} channel") and f"{rate} Hz, {name}" in text

    if one_for_all:
        f = Filter(f.a, np.repeat(f.b, channels, 0), np.repeat(f.h0, channels))
    expected = filter_signal(f, values[None])[0][0]
    out_rate, actual = sound.read(tmp_path / "out.wav", name)
    assert out_rate == rate
    expect(actual, expected, name, condition(f, frames))
    assert sorted(os.listdir(tmp_path)) == ["f.json", "in.wav", "out.wav"]


@pytest.mark.parametrize("dtype", ["int16", "int32", "float32", "float64"])
def test_files_that_scipy_wrote_come_back_through_a_gain_of_one(rtf, tmp_path, dtype):
    (tmp_path / "one.json").write_text('{"a": [], "b": [], "h0": 1}')
    rng = np.random.default_rng(1)
    data = rng.standard_normal((999, 3)).astype(dtype) if "float" in dtype else rng.integers(
        np.iinfo(dtype).min, np.iinfo(dtype).max, (999, 3), dtype, endpoint=True
    )  # fmt: skip
    wavfile.write(tmp_path / "in.wav", 22050, data)
    rtf("filter", "one.json", "--input", "in.wav", "-o", "out.wav")
    rate, back = wavfile.read(tmp_path / "out.wav")
    assert rate == 22050
    assert_array_equal(back, data)


def test_sections_of_a_butterworth_filter(rtf, tmp_path):
    """A filter as people design it, against sosfilt."""
    sections = signal.butter(6, 0.2, output="sos")
    b, a = signal.butter(6, 0.2)
    f = Filter(a[None, 1:], (b[1:] - b[0] * a[1:])[None], b[:1])
    save_json(tmp_path / "f.json", f)
    stored, values = sound.draw(np.random.default_rng(2), "f64", 50000, 2)
    (tmp_path / "in.wav").write_bytes(sound.wav(stored, "f64"))
    rtf("filter", "f.json", "--input", "in.wav", "-o", "out.wav")
    expect(sound.read(tmp_path / "out.wav", "f64")[1], signal.sosfilt(sections, values, axis=0), "f64", condition(f, 50000))


@pytest.mark.parametrize("file", ["rir_clap.wav", "xmas.wav"])
def test_recordings(rtf, tmp_path, file):
    path = real_data(f"audio/{file}")
    rate, data = wavfile.read(path)
    name = {"int16": "pcm16", "int32": "pcm32", "float32": "f32"}[str(data.dtype)]
    b, a = signal.butter(4, [0.02, 0.3], "bandpass")
    f = Filter(a[None, 1:], (b[1:] - b[0] * a[1:])[None] / 2, b[:1] / 2)
    save_json(tmp_path / "f.json", f)
    rtf("filter", "f.json", "--input", path, "-o", "out.wav", "--dtype", "f64")
    scale = 1 if name == "f32" else 2.0 ** (8 * data.dtype.itemsize - 1)
    out_rate, actual = sound.read(tmp_path / "out.wav", "f64")
    assert out_rate == rate
    u = data.reshape(len(data), -1) / scale
    expected = signal.lfilter(b / 2, a, u, axis=0)
    # The zeros at 0 and pi cancel most of v = u / A, and rounding is relative to v (docs/math.md, 10).
    largest = np.abs(signal.lfilter([1.0], a, u, axis=0)).max() * (np.abs(f.b).sum() + np.abs(f.h0[0]))
    assert np.abs(actual - expected).max() <= 2.0**-52 * condition(f, len(u)) * largest
    assert np.abs(actual - expected).max() <= 1e-7 * np.abs(expected).max()


def test_chunks_are_passed_over_in_any_order(rtf, tmp_path):
    (tmp_path / "one.json").write_text('{"a": [], "b": [], "h0": 1}')
    samples = np.arange(-5, 6, dtype="<i2")
    data, header = sound.chunk(b"data", samples.tobytes()), sound.format_chunk()
    odd, list_ = sound.chunk(b"junk", b"abc"), sound.chunk(b"LIST", b"INFOISFT\x02\0\0\0x\0")
    files = {
        "odd chunk first": sound.riff(odd, header, list_, data),
        "data before format": sound.riff(odd, data, list_, header),
        "text after the end": sound.riff(header, data) + b"TAG and more text",
        "open lengths of a stream": sound.riff(header, sound.chunk(b"data", samples.tobytes(), 2**32 - 1), claimed=2**32 - 1),
        "length 0 of a stream": sound.riff(header, data, claimed=0),
        "RF64": sound.riff(
            sound.chunk(b"ds64", np.array([100, 22, 11], "<u8").tobytes() + bytes(4)), header,
            sound.chunk(b"data", samples.tobytes(), 2**32 - 1), form=b"RF64", claimed=2**32 - 1),
        "format chunk of 18 bytes": sound.riff(sound.chunk(b"fmt ", header[8:] + b"\0\0"), data),
        "20 valid bits of 24": None,
    }  # fmt: skip
    for name, content in files.items():
        expected = samples / 2.0**15
        if content is None:
            content = sound.riff(sound.format_chunk(bits=24, extensible=True, valid=20), sound.chunk(b"data", sound.encode(samples * 256, "pcm24")))
        (tmp_path / "in.wav").write_bytes(content)
        rtf("filter", "one.json", "--input", "in.wav", "-o", "out.wav", "--dtype", "f64")
        assert_array_equal(sound.read(tmp_path / "out.wav", "f64")[1][:, 0], expected, err_msg=name)


def test_clipping_is_counted_and_dtype_avoids_it(rtf_raw, tmp_path):
    (tmp_path / "two.json").write_text('{"a": [], "b": [], "h0": 2}')
    samples = np.array([0, 1000, 16383, 16384, 20000, -16384, -16385, -32768], "<i2")
    (tmp_path / "in.wav").write_bytes(sound.wav(samples, "pcm16"))
    done = rtf_raw("filter", "two.json", "--input", "in.wav", "-o", "out.wav")
    assert done.returncode == 0 and "warning: 4 of 8 samples were clipped" in done.stderr
    assert_array_equal(wavfile.read(tmp_path / "out.wav")[1], np.clip(samples.astype(int) * 2, -32768, 32767))
    done = rtf_raw("filter", "two.json", "--input", "in.wav", "-o", "out.wav", "--dtype", "f32")
    assert (done.returncode, done.stderr) == (0, "")
    assert_array_equal(wavfile.read(tmp_path / "out.wav")[1], samples / np.float32(2**14))


def test_states_of_two_halves_are_the_whole(rtf, tmp_path):
    rng = np.random.default_rng(3)
    f = quiet_filter(rng, 2, 1, 5)
    save_json(tmp_path / "f.json", f)
    stored, values = sound.draw(rng, "f64", 501, 2)
    for name, part in (("a", stored[:200]), ("b", stored[200:])):
        (tmp_path / f"{name}.wav").write_bytes(sound.wav(part, "f64"))
    rtf("filter", "f.json", "--input", "a.wav", "-o", "ya.wav", "--final-state", "x.npy")
    rtf("filter", "f.json", "--input", "b.wav", "-o", "yb.wav", "--initial-state", "x.npy", "--final-state", "x.npy")
    y = np.concatenate([sound.read(tmp_path / "ya.wav", "f64")[1], sound.read(tmp_path / "yb.wav", "f64")[1]])
    expected, final = filter_signal(f, values[None])
    expect(y, expected[0], "f64", condition(f, 501))
    expect(np.load(tmp_path / "x.npy"), final, "f64", condition(f, 501))


def test_output_may_be_the_input(rtf, tmp_path):
    (tmp_path / "half.json").write_text('{"a": [], "b": [], "h0": 0.5}')
    (tmp_path / "s.WAV").write_bytes(sound.wav(np.arange(-100, 100, 2, dtype="<i2"), "pcm16"))
    rtf("filter", "half.json", "--input", "s.WAV", "-o", "s.WAV")
    assert_array_equal(wavfile.read(tmp_path / "s.WAV")[1], np.arange(-50, 50))


@pytest.mark.skipif(bool(os.environ.get("RTF_SANITIZED")), reason="sanitizers take memory of their own")
def test_a_long_file_takes_little_memory(tmp_path):
    """50 MB of stereo through order 64, in less than 64 MB in all."""
    rng = np.random.default_rng(4)
    save_json(tmp_path / "f.json", quiet_filter(rng, 1, 1, 64))
    frames = 12_500_000
    block = (1000 * rng.standard_normal((frames // 100, 2))).astype("<i2").tobytes()
    with open(tmp_path / "in.wav", "wb") as file:
        file.write(sound.riff(sound.format_chunk(channels=2), claimed=36 + 4 * frames) + b"data" + (4 * frames).to_bytes(4, "little"))
        for _ in range(100):
            file.write(block)
    # Peak memory of a process of its own: what ru_maxrss counts for children is the largest so far.
    script = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    done = subprocess.run(
        ["python3", "-c", script, COMMAND, "filter", "f.json", "--input", "in.wav", "-o", "out.wav", "--quiet"],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    assert (tmp_path / "out.wav").stat().st_size == 44 + 4 * frames
    assert int(done.stdout) < 64 * 1024, f"{int(done.stdout) / 1024:.0f} MB"
