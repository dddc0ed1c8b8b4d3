"""Wav files, built byte by byte so that each respect of them can be chosen, or be wrong."""

import struct

import numpy as np

GUID_TAIL = bytes.fromhex("000000001000800000aa00389b71")
FORMATS = {"pcm16": (1, 16), "pcm24": (1, 24), "pcm32": (1, 32), "f32": (3, 32), "f64": (3, 64)}


def encode(samples, name):
    """Bytes of integers (PCM) or floats, any shape."""
    if name == "pcm24":
        return np.ascontiguousarray(samples, "<i4").reshape(-1, 1).view("u1")[:, :3].tobytes()
    return np.ascontiguousarray(samples, {"pcm16": "<i2", "pcm32": "<i4", "f32": "<f4", "f64": "<f8"}[name]).tobytes()


def chunk(name, content, claimed=None):
    size = len(content) if claimed is None else claimed
    return name + struct.pack("<I", size) + content + b"\0" * (len(content) % 2)


def format_chunk(tag=1, channels=1, rate=8000, bits=16, align=None, extensible=False, valid=None, mask=0, tail=GUID_TAIL):
    align = channels * bits // 8 if align is None else align
    outer = 0xFFFE if extensible else tag
    content = struct.pack("<HHIIHH", outer, channels, rate, (rate * align) % 2**32, align, bits)
    if extensible:
        content += struct.pack("<HHI", 22, bits if valid is None else valid, mask) + struct.pack("<H", tag) + tail
    return chunk(b"fmt ", content)


def riff(*chunks, form=b"RIFF", kind=b"WAVE", claimed=None):
    content = kind + b"".join(chunks)
    return form + struct.pack("<I", len(content) if claimed is None else claimed) + content


def wav(samples, name, rate=8000, extensible=False):
    """A whole file of (frames) or (frames, channels)."""
    tag, bits = FORMATS[name]
    channels = 1 if samples.ndim == 1 else samples.shape[1]
    return riff(format_chunk(tag, channels, rate, bits, extensible=extensible), chunk(b"data", encode(samples, name)))


def draw(rng, name, frames, channels, amplitude=0.5):
    """Samples as the file holds them, and what they stand for."""
    values = amplitude * rng.uniform(-1, 1, (frames, channels))
    if name in ("f32", "f64"):
        stored = values.astype({"f32": "f4", "f64": "f8"}[name])
        return stored, stored.astype(float)
    scale = 2.0 ** (FORMATS[name][1] - 1)
    stored = np.round(values * scale).astype(np.int64)
    return stored.astype("<i4"), stored / scale


def read(path, name):
    """Rate, and samples (frames, channels) as numbers, read by SciPy."""
    from scipy.io import wavfile

    rate, data = wavfile.read(path)
    data = data.reshape(len(data), -1)
    assert data.dtype == {"pcm16": "i2", "pcm24": "i4", "pcm32": "i4", "f32": "f4", "f64": "f8"}[name]
    # SciPy puts 24 bits into the upper bytes of 32.
    return rate, data / {"pcm16": 2.0**15, "pcm24": 2.0**31, "pcm32": 2.0**31}.get(name, 1)
