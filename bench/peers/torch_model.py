"""The paper's backbone in eager PyTorch with the published layer: what its users train today.

torch_model.py: reads a list of configs from standard input, as JSON (training.py and cuda_training.py have them),
trains each on random data and prints one JSON line a config, {"name", "ms"}: the median milliseconds of a
step after the first "warm_up". On a GPU matrix products are in TF32.
"""

import json
import statistics
import sys
import time

from torch.nn import functional as F

import torch
from torch import nn


class Layer(nn.Module):
    """The published layer on (batch, length, channels): real FFTs padded to twice the length, along rows whose samples
    lie side by side, autograd. The backward kernel follows the forward one, reversed, on the circle of 2 L points."""

    def __init__(self, c):
        super().__init__()
        self.channels, self.length, self.denominators = c["channels"], c["length"], c["denominators"]
        self.directions = 2 if c["bidirectional"] else 1
        self.ab = nn.Parameter(torch.zeros(self.directions * (self.denominators + self.channels), c["order"]))
        self.h_0 = nn.Parameter(torch.randn(self.directions * self.channels, 1))

    def kernel(self, length):
        a, b = self.ab.split([self.directions * self.denominators, self.directions * self.channels])
        a = F.pad(a, (1, 0), value=1.0).repeat_interleave(self.channels // self.denominators, 0)
        spectrum = torch.fft.rfft(F.pad(b, (1, 0)), n=self.length) / torch.fft.rfft(a, n=self.length)
        k = torch.fft.irfft(spectrum, n=self.length)[:, :length] + F.pad(self.h_0, (0, length - 1))
        return k if self.directions == 1 else torch.cat((k[: self.channels], k[self.channels :].flip(-1)), -1)

    def forward(self, u):
        length = u.shape[1]
        k = torch.fft.rfft(self.kernel(length), n=2 * length)
        y = torch.fft.irfft(torch.fft.rfft(u.transpose(1, 2), n=2 * length) * k, n=2 * length)
        return y[..., :length].transpose(1, 2)


class ReleasedLayer(Layer):
    """In the order of the published code: the kernel and all samples in one array and one transform, the products and
    the transform back with the channels side by side."""

    def forward(self, u):
        batch, length, channels = u.shape
        k, size = self.kernel(length), (batch, channels)
        if self.directions == 2:
            rows = torch.cat((k, F.pad(u.transpose(1, 2).flatten(0, 1), (0, length))))
            spectra = torch.fft.rfft(rows)
            products = spectra[:channels].T * spectra[channels:].unflatten(0, size).transpose(1, 2)
        else:
            columns = torch.cat((k.T, u.transpose(0, 1).flatten(1)), dim=1)
            spectra = torch.fft.rfft(columns, n=2 * length, dim=0)
            products = spectra[:, :channels] * spectra[:, channels:].unflatten(1, size).transpose(0, 1)
        return torch.fft.irfft(products, n=2 * length, dim=1)[:, :length]


class TiedDropout(nn.Module):
    """One mask for all positions of (batch, channels, length)."""

    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        if not self.training or self.p == 0:
            return x
        return x * torch.rand(*x.shape[:2], 1, device=x.device).lt(1 - self.p) / (1 - self.p)


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        channels = c["channels"]
        self.prenorm = c["prenorm"]
        self.norm = nn.BatchNorm1d(channels)
        self.layer = (ReleasedLayer if c["released_order"] else Layer)(c)
        self.inner = nn.Dropout(c["inner_dropout"])
        self.output = nn.Linear(channels, 2 * channels)
        self.outer = TiedDropout(c["dropout"])

    def normalize(self, x):
        return self.norm(x.transpose(1, 2)).transpose(1, 2)

    def forward(self, x):
        y = self.normalize(x) if self.prenorm else x
        y = self.inner(F.gelu(self.layer(y)))
        y = F.glu(self.output(y), dim=-1)
        x = x + self.outer(y.transpose(1, 2)).transpose(1, 2)
        return x if self.prenorm else self.normalize(x)


class Model(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.tokens = c["vocabulary"] > 0
        self.encoder = nn.Embedding(c["vocabulary"], c["channels"]) if self.tokens else nn.Linear(1, c["channels"])
        self.blocks = nn.ModuleList(Block(c) for _ in range(c["layers"]))
        self.norm = nn.BatchNorm1d(c["channels"]) if c["prenorm"] else nn.Identity()
        self.decoder = nn.Linear(c["channels"], c["outputs"])
        self.last = c["last"]

    def forward(self, x):
        x = self.encoder(x if self.tokens else x[..., None])
        for block in self.blocks:
            x = block(x)
        x = self.norm(x.transpose(1, 2)).transpose(1, 2)
        return self.decoder(x[:, -self.last :] if self.last else x.mean(1, keepdim=True))


def draw(c, device):
    if c["vocabulary"] > 0:
        x = torch.randint(c["vocabulary"], (c["batch"], c["length"]), device=device)
    else:
        x = torch.randn(c["batch"], c["length"], device=device)
    return x, torch.randint(c["outputs"], (c["batch"], c["last"] or 1), device=device)


def measure(c, device):
    torch.manual_seed(1)
    model = Model(c).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    seconds = []
    for _ in range(c["steps"]):
        x, target = draw(c, device)
        wait()
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(x).flatten(0, 1), target.flatten())
        loss.backward()
        optimizer.step()
        wait()
        seconds.append(time.perf_counter() - start)
    return 1e3 * statistics.median(seconds[c["warm_up"] :])


def main(configs):
    for c in configs:
        if c["device"] == "cuda":
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        else:
            torch.set_num_threads(c["threads"])
        print(json.dumps({"name": c["name"], "ms": measure(c, c["device"])}), flush=True)


if __name__ == "__main__":
    main(json.load(sys.stdin))
