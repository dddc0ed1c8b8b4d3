"""The published layer in eager PyTorch, written down anew, defects included: what benchmarks are measured beside and what
the tests hold `rtf.RTF` against."""

import torch
from torch import nn
from torch.nn import functional as F


class ReleasedLayer(nn.Module):
    """Its parameters, storage and order of operations. u is (batch, length, channels).

    One matrix `ab`, denominators first and forward rows first within each kind. Its defects: an odd length with two
    directions comes back on a point less; the numerator of the recurrence is solved for without a transpose; the gain
    of it lacks the sample that wraps around; the constraint has one scalar for both directions.
    """

    def __init__(self, d_model, state_size, trunc_len, num_a=None, bidirectional=False, constraint="no"):
        super().__init__()
        self.channels, self.order, self.length, self.bidirectional = d_model, state_size, trunc_len, bidirectional
        self.groups = num_a or d_model
        directions = 2 if bidirectional else 1
        self.denominators = directions * self.groups
        self.ab = nn.Parameter(torch.zeros(self.denominators + directions * d_model, state_size))
        self.h_0 = nn.Parameter(torch.randn(directions * d_model))
        if constraint == "l1_montel":
            self.scalar = nn.Parameter(torch.rand(self.groups))

    @classmethod
    def of_filters(cls, a, b, h0, length, dtype=torch.float32):
        """The causal layer with these numbers: a and b (channels, order), h0 (channels)."""
        a, b, h0 = (torch.as_tensor(each, dtype=dtype) for each in (a, b, h0))
        layer = cls(*b.shape, length)
        layer.ab, layer.h_0 = nn.Parameter(torch.cat((a, b))), nn.Parameter(h0)
        return layer

    @property
    def a(self):
        a = self.ab[: self.denominators]
        if not hasattr(self, "scalar"):
            return a
        return a / (a.abs().sum(1) + self.scalar.abs() + 1e-6).unsqueeze(1)

    @property
    def b(self):
        return self.ab[self.denominators :]

    def repeat(self, rows):
        """From a row a denominator to one a channel; no copy where these are as many."""
        return rows.unsqueeze(1).expand(-1, self.channels // self.groups, -1).flatten(0, 1)

    def get_k(self, length=None):
        """(channels, length); with two directions the backward kernel follows, reversed."""
        length = length or self.length
        points = self.length + self.length % 2
        ab = torch.cat((self.a, self.b)) if hasattr(self, "scalar") else self.ab
        ab = F.pad(ab, (1, points - self.order - 1))
        ab[: self.denominators, 0] = 1.0
        spectra = torch.fft.rfft(ab)
        quotients = spectra[self.denominators :] / self.repeat(spectra[: self.denominators]) + self.h_0.unsqueeze(1)
        k = torch.fft.irfft(quotients)[:, :length]
        return torch.cat((k[: self.channels], k[self.channels :].flip(1)), 1) if self.bidirectional else k

    def forward(self, u):
        """The kernel and all samples in one array and one transform; the products and the transform back with the
        channels side by side."""
        batch, length, channels = u.shape
        k, points = self.get_k(length), 2 * length - length % 2
        if self.bidirectional:
            spectra = torch.fft.rfft(torch.cat((k, F.pad(u.transpose(1, 2).flatten(0, 1), (0, length)))))
            products = spectra[:channels].T * spectra[channels:].unflatten(0, (batch, channels)).transpose(1, 2)
        else:
            spectra = torch.fft.rfft(torch.cat((k.T, u.transpose(0, 1).flatten(1)), 1), n=points, dim=0)
            products = spectra[:, :channels] * spectra[:, channels:].unflatten(1, (batch, channels)).transpose(0, 1)
        return torch.fft.irfft(products, n=points, dim=1)[:, :length]

    @torch.no_grad()
    def get_C(self):
        """The numerator of the recurrence as published."""
        companion = torch.diag(self.ab.new_ones(self.order - 1), -1).repeat(self.groups, 1, 1)
        companion[:, 0] = -self.a
        left = torch.eye(self.order).to(self.ab) - torch.linalg.matrix_power(companion, self.length)
        return torch.linalg.solve(left.repeat_interleave(self.channels // self.groups, 0), self.b)


class TorchLayer(ReleasedLayer):
    """The same with every row of samples transformed where it lies side by side, on 2 L points: faster, and right for odd
    lengths too. u is (batch, length, channels) all the same."""

    def forward(self, u):
        length = u.shape[1]
        k = torch.fft.rfft(self.get_k(length), n=2 * length)
        y = torch.fft.irfft(torch.fft.rfft(u.transpose(1, 2), n=2 * length) * k, n=2 * length)
        return y[..., :length].transpose(1, 2)


def step(u, x, a, b, h0):
    """One sample u (batch, channels) from state x (batch, channels, order): the output and the next state."""
    y = (b * x).sum(-1) + h0 * u
    v = u - (a * x).sum(-1)
    return y, torch.cat((v[..., None], x[..., :-1]), dim=-1)


def run_pass(layer, name, u, y_gradient):
    """One forward pass without a graph, or forward and backward into fresh gradients."""
    if name == "forward":
        with torch.inference_mode():
            return layer(u)
    u.grad = None
    layer.zero_grad(set_to_none=True)
    y = layer(u)
    y.backward(y_gradient)
    return y.detach()
