"""The backbone written down in plain PyTorch, as a specification: what the C++ model must compute.

Every step is taped, kernels come from torch.fft in the type of the parameters, and convolutions take 2 L points.
Parameter names are those of the C++ model, so a state_dict moves between the two.
"""

import torch
import torch.nn.functional as F
from torch import nn

DEFAULTS = dict(
    vocabulary=0, features=1, layers=2, channels=8, order=4, length=32, denominators=1, numerator="wrapped",
    bidirectional=False, kernel_dropout=0.0, constraint="none", norm="batch", prenorm=True, residual=True,
    dropout=0.0, inner_dropout=0.0, tie_dropout=True, tie_inner_dropout=False, activation="gelu", glu=True,
    decoder="pool", outputs=3, last=1,
)  # fmt: skip


def no_drop(x, p, layer, tied):
    return x


def wrapped_kernel(a, b, h0, length):
    """Algorithm 1. a, b (channels, order), h0 (channels) -> (channels, length)."""
    # At the length-th roots of unity coefficients `length` apart add up.
    points = torch.arange(length, device=a.device)
    powers = torch.arange(1, a.shape[1] + 1, device=a.device)
    fold = (powers[:, None] % length == points).to(a.dtype)
    one = (points == 0).to(a.dtype)
    spectrum = torch.fft.rfft(b @ fold) / torch.fft.rfft(one + a @ fold) + h0[:, None]
    return torch.fft.irfft(spectrum, n=length)


def exact_kernel(a, b, h0, length):
    """h_t = b_t - sum_k a_k h_{t-k}, sample by sample."""
    order = a.shape[1]
    h = [h0]
    for t in range(1, length):
        value = b[:, t - 1] if t <= order else torch.zeros_like(h0)
        for k in range(1, min(order, t - 1) + 1):
            value = value - a[:, k - 1] * h[t - k]
        h.append(value)
    return torch.stack(h, 1)


class Layer(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.o = o
        directions = 2 if o["bidirectional"] else 1
        denominators, channels = directions * o["denominators"], directions * o["channels"]
        self.a = nn.Parameter(torch.zeros(denominators, o["order"] + (o["constraint"] == "montel_paper")))
        self.b = nn.Parameter(torch.zeros(channels, o["order"]))
        self.h0 = nn.Parameter(torch.ones(channels))
        if o["constraint"] == "montel":
            self.sigma = nn.Parameter(torch.rand(denominators))

    def denominator(self):
        if self.o["constraint"] == "montel":
            return self.a / (self.a.abs().sum(1, keepdim=True) + self.sigma.abs()[:, None] + 1e-6)
        if self.o["constraint"] == "montel_paper":
            return (self.a / self.a.abs().sum(1, keepdim=True))[:, :-1]
        return self.a

    def kernel(self, length):
        a = self.denominator()
        a = a.repeat_interleave(self.b.shape[0] // a.shape[0], 0)
        if self.o["numerator"] == "exact":
            return exact_kernel(a, self.b, self.h0, length)
        return wrapped_kernel(a, self.b, self.h0, self.o["length"])[:, :length]

    def forward(self, u, drop_kernel):
        """u (batch, length, channels). Lag 0 belongs to the forward kernel, the backward one starts a sample ahead."""
        length = u.shape[1]
        kernel = drop_kernel(self.kernel(length))
        if self.o["bidirectional"]:
            forward, backward = kernel.chunk(2, 0)
            circle = torch.cat([forward, backward.flip(1)], 1)
        else:
            circle = F.pad(kernel, (0, length))
        spectrum = torch.fft.rfft(u, n=2 * length, dim=1) * torch.fft.rfft(circle).T
        return torch.fft.irfft(spectrum, n=2 * length, dim=1)[:, :length]


class Norm(nn.Module):
    def __init__(self, kind, channels):
        super().__init__()
        self.kind = kind
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        if kind == "batch":
            self.register_buffer("running_mean", torch.zeros(channels))
            self.register_buffer("running_var", torch.ones(channels))

    def forward(self, x):
        if self.kind == "layer":
            mean, var = x.mean(2, keepdim=True), x.var(2, unbiased=False, keepdim=True)
        elif self.training:
            mean, var = x.mean((0, 1)), x.var((0, 1), unbiased=False)
            with torch.no_grad():
                self.running_mean.lerp_(mean, 0.1)
                self.running_var.lerp_(x.var((0, 1), unbiased=True), 0.1)
        else:
            mean, var = self.running_mean, self.running_var
        return (x - mean) / torch.sqrt(var + 1e-5) * self.weight + self.bias


class Block(nn.Module):
    def __init__(self, o, index):
        super().__init__()
        self.o, self.index = o, index
        self.layer = Layer(o)
        if o["residual"] and o["norm"] != "none":
            self.norm = Norm(o["norm"], o["channels"])
        if o["glu"]:
            self.output = nn.Linear(o["channels"], 2 * o["channels"])

    def s4_block(self, x, mask, drop):
        o = self.o
        if mask is not None:
            x = x * mask
        y = self.layer(x, lambda kernel: drop(kernel, o["kernel_dropout"], 0, False))
        if o["activation"] == "gelu":
            y = 0.5 * y * (1 + torch.erf(y / 2**0.5))
        y = drop(y, o["inner_dropout"], 1, o["tie_inner_dropout"])
        if o["glu"]:
            p, q = self.output(y).chunk(2, 2)
            y = p * torch.sigmoid(q)
        return y

    def forward(self, x, mask, model_drop):
        def drop(values, p, site, tied):
            return model_drop(values, p, 3 * self.index + site, tied) if self.training and p > 0 else values

        o, normed = self.o, hasattr(self, "norm")
        y = self.s4_block(self.norm(x) if normed and o["prenorm"] else x, mask, drop)
        if not o["residual"]:
            return y
        x = x + drop(y, o["dropout"], 2, o["tie_dropout"])
        return self.norm(x) if normed and not o["prenorm"] else x


class SequenceModel(nn.Module):
    """drop(x, p, layer, tied) is called where the model drops in training mode."""

    def __init__(self, drop=no_drop, **options):
        super().__init__()
        self.o = o = {**DEFAULTS, **options}
        assert o.keys() == DEFAULTS.keys(), options
        self.drop = drop
        channels = o["channels"]
        if o["vocabulary"]:
            self.encoder = nn.Embedding(o["vocabulary"], channels)
        else:
            self.encoder = nn.Linear(o["features"], channels)
        self.blocks = nn.ModuleList(Block(o, i) for i in range(o["layers"]))
        if o["residual"] and o["prenorm"] and o["norm"] != "none":
            self.norm = Norm(o["norm"], channels)
        if o["decoder"] == "pair":
            self.decoder = nn.ModuleList([nn.Linear(4 * channels, channels), nn.Linear(channels, o["outputs"])])
        else:
            self.decoder = nn.Linear(channels, o["outputs"])

    def forward(self, x, lengths=None):
        x = self.encoder(x)
        mask = None
        if lengths is not None:
            mask = (torch.arange(x.shape[1]) < lengths[:, None])[:, :, None].to(x.dtype)
        for block in self.blocks:
            x = block(x, mask, self.drop)
        if hasattr(self, "norm"):
            x = self.norm(x)
        decoder = self.o["decoder"]
        if decoder == "position":
            return self.decoder(x)
        if decoder == "last":
            return self.decoder(x[:, -self.o["last"] :])
        mean = x.mean(1) if mask is None else (x * mask).sum(1) / lengths[:, None]
        if decoder == "pool":
            return self.decoder(mean)
        e1, e2 = mean.chunk(2, 0)
        features = torch.cat([e1, e2, e1 - e2, e1 * e2], 1)
        return self.decoder[1](F.gelu(self.decoder[0](features)))


def loss(output, target):
    """Classes (integers): cross-entropy, the mean over every target. Numbers: the mean squared error."""
    if target.is_floating_point():
        return ((output - target) ** 2).mean()
    return F.cross_entropy(output.flatten(0, -2), target.flatten())


def adamw_step(parameters, states, groups, betas=(0.9, 0.999), eps=1e-8):
    """One step of AdamW over named parameters; groups(name) is (lr, weight_decay), states[name] is (step, m, v)."""
    with torch.no_grad():
        for name, p in parameters.items():
            lr, weight_decay = groups(name)
            step, m, v = states.get(name, (0, torch.zeros_like(p), torch.zeros_like(p)))
            step, m, v = step + 1, betas[0] * m + (1 - betas[0]) * p.grad, betas[1] * v + (1 - betas[1]) * p.grad**2
            states[name] = step, m, v
            p.mul_(1 - lr * weight_decay)
            p.sub_(lr * (m / (1 - betas[0] ** step)) / ((v / (1 - betas[1] ** step)).sqrt() + eps))
            p.grad = None
