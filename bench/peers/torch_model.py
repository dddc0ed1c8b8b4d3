"""The paper's backbone in eager PyTorch with the published layer: what its users train today.

torch_model.py CONFIG: trains the model of a JSON config on random tokens for some steps and prints the median
milliseconds of those after the first, as JSON.
"""

import json
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F


class Layer(nn.Module):
    """The published layer: activations (batch, channels, length), real FFTs padded to twice the length, autograd."""

    def __init__(self, channels, order, length, denominators):
        super().__init__()
        self.ab = nn.Parameter(torch.zeros(denominators + channels, order))
        self.h_0 = nn.Parameter(torch.randn(channels, 1))
        self.channels, self.length, self.denominators = channels, length, denominators

    def kernel(self, length):
        a, b = self.ab.split([self.denominators, self.channels])
        a = F.pad(a, (1, 0), value=1.0).repeat_interleave(self.channels // self.denominators, 0)
        spectrum = torch.fft.rfft(F.pad(b, (1, 0)), n=self.length) / torch.fft.rfft(a, n=self.length)
        return torch.fft.irfft(spectrum, n=self.length)[:, :length] + F.pad(self.h_0, (0, length - 1))

    def forward(self, u):
        length = u.shape[-1]
        k = torch.fft.rfft(self.kernel(length), n=2 * length)
        return torch.fft.irfft(torch.fft.rfft(u, n=2 * length) * k, n=2 * length)[..., :length]


class TiedDropout(nn.Module):
    """One mask for all positions of (batch, channels, length)."""

    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        if not self.training or self.p == 0:
            return x
        return x * torch.rand(*x.shape[:2], 1).lt(1 - self.p) / (1 - self.p)


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        channels = c["channels"]
        self.prenorm = c["prenorm"]
        self.norm = nn.BatchNorm1d(channels)
        self.layer = Layer(channels, c["order"], c["length"], c["denominators"])
        self.inner = nn.Dropout(c["inner_dropout"])
        self.output = nn.Linear(channels, 2 * channels)
        self.outer = TiedDropout(c["dropout"])

    def normalize(self, x):
        return self.norm(x.transpose(1, 2)).transpose(1, 2)

    def forward(self, x):
        y = self.normalize(x) if self.prenorm else x
        y = self.inner(F.gelu(self.layer(y.transpose(1, 2))))
        y = F.glu(self.output(y.transpose(1, 2)), dim=-1)
        x = x + self.outer(y.transpose(1, 2)).transpose(1, 2)
        return x if self.prenorm else self.normalize(x)


class Model(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.encoder = nn.Embedding(c["vocabulary"], c["channels"])
        self.blocks = nn.ModuleList(Block(c) for _ in range(c["layers"]))
        self.norm = nn.BatchNorm1d(c["channels"]) if c["prenorm"] else nn.Identity()
        self.decoder = nn.Linear(c["channels"], c["vocabulary"])
        self.last = c["last"]

    def forward(self, tokens):
        x = self.encoder(tokens)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x.transpose(1, 2)).transpose(1, 2)
        return self.decoder(x[:, -self.last :])


def main(c):
    torch.manual_seed(1)
    torch.set_num_threads(c["threads"])
    model = Model(c)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
    seconds = []
    for _ in range(c["steps"]):
        tokens = torch.randint(c["vocabulary"], (c["batch"], c["length"]))
        target = torch.randint(c["vocabulary"], (c["batch"], c["last"]))
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(tokens).flatten(0, 1), target.flatten())
        loss.backward()
        optimizer.step()
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"ms": 1e3 * statistics.median(seconds[1:])}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
