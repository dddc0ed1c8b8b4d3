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
from torch_layer import ReleasedLayer, TorchLayer


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
        kind = ReleasedLayer if c["released_order"] else TorchLayer
        self.layer = kind(channels, c["order"], c["length"], c["denominators"], c["bidirectional"])
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
