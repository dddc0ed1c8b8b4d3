"""Random model files, and what they answer, computed by SciPy in double."""

import sys
from pathlib import Path

import numpy as np
from scipy.signal import lfilter
from scipy.special import erf, expit

sys.path.insert(0, str(Path(__file__).parent / "fuzz"))
import seeds


class RandomModel:
    """Layers of order `order` with sum |a| < 1, a denominator for each channel or one for all."""

    def __init__(self, number, precision="f32", decoder="position", vocabulary=0, features=1, order=4, norm="layer", shared=False, glu=True, weights=None):
        rng = np.random.default_rng(number)
        channels, layers, self.outputs = 5, 2, 3
        self.decoder, self.vocabulary, self.inputs, self.norm, self.glu, self.precision = decoder, vocabulary, 1 if vocabulary else features, norm, glu, precision
        held = lambda *shape, scale=1.0: (scale * rng.standard_normal(shape)).astype(np.float32).astype(np.float64)  # noqa: E731
        t = {"encoder.weight": held(vocabulary or channels, channels if vocabulary else features)}
        if not vocabulary:
            t["encoder.bias"] = held(channels)
        for i in range(layers):
            block = f"blocks.{i}"
            a = held(1 if shared else channels, order, scale=0.5 / max(order, 1))
            t[f"{block}.layer.a"] = a / np.maximum(1, 1.1 * np.abs(a).sum(1, keepdims=True))
            t[f"{block}.layer.b"], t[f"{block}.layer.h0"] = held(channels, order), held(channels)
            if norm != "none":
                t[f"{block}.norm.weight"], t[f"{block}.norm.bias"] = 1 + held(channels, scale=0.1), held(channels)
            if glu:
                t[f"{block}.output.weight"], t[f"{block}.output.bias"] = held(2 * channels, channels, scale=0.4), held(2 * channels)
        if norm != "none":
            t["norm.weight"], t["norm.bias"] = 1 + held(channels, scale=0.1), held(channels)
        if decoder == "pair":
            t |= {"decoder.0.weight": held(channels, 4 * channels), "decoder.0.bias": held(channels), "decoder.1.weight": held(self.outputs, channels), "decoder.1.bias": held(self.outputs)}
        else:
            t |= {"decoder.weight": held(self.outputs, channels), "decoder.bias": held(self.outputs)}
        self.tensors = {name: value.astype(np.float32).astype(np.float64) for name, value in t.items()}
        self.layers, self.channels = layers, channels
        stored, more = dict(self.tensors), {"weights": weights} if weights else {}
        for name in [name for name, value in stored.items() if weights and name.endswith(".weight") and value.ndim == 2]:
            self.tensors[name] = narrow(name, stored, weights)
        self.file = seeds.model(
            [("companion", precision)] * layers, {name: (value.shape, value.ravel().tolist()) for name, value in stored.items()}, precision,
            vocabulary=vocabulary, features=features, channels=channels, norm=norm, glu=glu, decoder=decoder, outputs=self.outputs, **more)  # fmt: skip
        self.rng = rng

    def samples(self, length):
        if self.vocabulary:
            return self.rng.integers(0, self.vocabulary, (length, 1))
        return self.rng.standard_normal((length, self.inputs)).astype(np.float32).astype(np.float64)

    def linear(self, name, x):
        return x @ self.tensors[name + ".weight"].T + self.tensors[name + ".bias"]

    def normalize(self, name, x):
        if self.norm == "none":
            return x
        if self.norm == "layer":
            x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return x * self.tensors[name + ".weight"] + self.tensors[name + ".bias"]

    def states(self, samples):
        t = self.tensors
        h = t["encoder.weight"][samples[:, 0]] if self.vocabulary else self.linear("encoder", samples)
        for i in range(self.layers):
            layer = f"blocks.{i}.layer"
            y = self.normalize(f"blocks.{i}.norm", h).copy()
            a = np.broadcast_to(t[layer + ".a"], t[layer + ".b"].shape)
            for c in range(self.channels):
                denominator = np.r_[1, a[c]]
                y[:, c] = lfilter(t[layer + ".h0"][c] * denominator + np.r_[0, t[layer + ".b"][c]], denominator, y[:, c])
            y = gelu(y)
            if self.glu:
                p, q = np.split(self.linear(f"blocks.{i}.output", y), 2, axis=-1)
                y = p * expit(q)
            h = h + y
        return self.normalize("norm", h)

    def answers(self, samples):
        h = self.states(samples)
        if self.decoder == "pool":
            h = np.cumsum(h, 0) / np.arange(1, len(h) + 1)[:, None]
        return self.linear("decoder", h)

    def answer_pair(self, one, two):
        e, f = self.states(one).mean(0), self.states(two).mean(0)
        return self.linear("decoder.1", gelu(self.linear("decoder.0", np.concatenate([e, f, e - f, e * f]))))


def narrow(name, stored, weights):
    """The tensor as bf16 or int8 hold it, put into `stored` as a file has it; returns what it stands for."""
    value = stored[name]
    if weights == "bf16":
        bits = value.astype(np.float32).view(np.uint32)
        stored[name] = ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32).astype(np.float64)
        return stored[name]
    scale = np.float64(np.float32(abs(value).max(1) / 127))
    stored[name], stored[name.replace(".weight", ".scale")] = np.rint(value / scale[:, None]).astype(int), scale
    return stored[name] * scale[:, None]


def gelu(x):
    return 0.5 * x * (1 + erf(x / np.sqrt(2)))
