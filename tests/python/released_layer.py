"""The released class, written down anew from its description: what `rtf.RTF` is held against.

One matrix `ab`, denominators first and forward rows first within each kind; kernels on an even number of points; the
correction without its transpose; the gain without the sample that wraps around.
"""

import torch
from torch import nn


class ReleasedRTF(nn.Module):
    def __init__(self, d_model, state_size, trunc_len, num_a=None, bidirectional=False, constraint="no"):
        super().__init__()
        self.channels, self.order, self.length = d_model, state_size, trunc_len
        self.groups = num_a or d_model
        self.both = bidirectional
        sides = 2 if bidirectional else 1
        self.denominators = sides * self.groups
        self.ab = nn.Parameter(torch.zeros(self.denominators + sides * d_model, state_size))
        self.h_0 = nn.Parameter(torch.randn(sides * d_model))
        if constraint == "l1_montel":
            self.scalar = nn.Parameter(torch.rand(self.groups))

    @property
    def a(self):
        a = self.ab[: self.denominators]
        if not hasattr(self, "scalar"):
            return a
        return a / (a.abs().sum(1) + self.scalar.abs() + 1e-6).unsqueeze(1)

    def get_k(self, length=None):
        length = length or self.length
        points = self.length + self.length % 2
        spectrum = lambda rows, first: torch.fft.rfft(
            torch.cat((torch.full_like(rows[:, :1], first), rows), 1), n=points
        )
        below = spectrum(self.a, 1.0).repeat_interleave(self.channels // self.groups, 0)
        quotient = spectrum(self.ab[self.denominators :], 0.0) / below + self.h_0.unsqueeze(1)
        k = torch.fft.irfft(quotient, n=points)[:, :length]
        return torch.cat((k[: self.channels], k[self.channels :].flip(1)), 1) if self.both else k

    def forward(self, u):
        length = u.shape[1]
        back = 2 * length - length % 2
        there = 2 * length if self.both else back
        spectrum = torch.fft.rfft(self.get_k(length), n=there).T * torch.fft.rfft(u, n=there, dim=1)
        return torch.fft.irfft(spectrum, n=back, dim=1)[:, :length]

    @torch.no_grad()
    def get_C(self):
        found = []
        for channel, b in enumerate(self.ab[self.denominators :]):
            companion = torch.diag(torch.ones(self.order - 1), -1)
            companion[0] = -self.a[channel // (self.channels // self.groups)]
            left = torch.eye(self.order) - torch.linalg.matrix_power(companion, self.length)
            found.append(torch.linalg.solve(left, b))
        return torch.stack(found)

    def step(self, u, x):
        """x (batch, order, channels)."""
        a = self.a.repeat_interleave(self.channels // self.groups, 0)
        y = (x * self.get_C().T).sum(1) + self.h_0 * u
        return y, torch.cat(((u - (x * a.T).sum(1)).unsqueeze(1), x[:, :-1]), 1)
