"""Random sizes, filters and signals for the tests on the GPU, and the bounds that go with them."""

import math

import numpy as np
import oracle
from scipy import signal

import torch

DEVICE = "cuda"
# Relative to the largest value, for well-conditioned filters.
BOUNDS = {torch.float32: 1e-5, torch.bfloat16: 1e-2}
# Reflection coefficients make denominators whose condition number has no formula; past this order the others serve.
REFLECTION_MOST = 64
CONDITION_MOST = 1 << 21
# Of a sum over rows: this many times its largest value with other signs.
CANCELS = 4


def is_prime(number):
    return number > 1 and all(number % divisor for divisor in range(2, math.isqrt(number) + 1))


def draw_length(rng, longest):
    """1, a power of two, its neighbours, a prime, an odd number or any; as many short ones as long ones."""
    length = int(np.exp(rng.uniform(0, np.log(longest + 1))))
    power = 1 << (length.bit_length() - 1)
    kind = rng.integers(6)
    if kind == 0:
        length = power
    elif kind == 1:
        length = power + int(rng.choice([-1, 1]))
    elif kind == 2:
        while length > 2 and not is_prime(length):
            length -= 1
    elif kind == 3:
        length |= 1
    return min(max(length, 1), longest)


def draw_order(rng, length, most):
    """0, small, anything up to the length, and a little past it."""
    any_order = int(np.exp(rng.uniform(0, np.log(length + 1))))
    return int(
        min(
            most,
            rng.choice([0, 1, 2, 3, 8, 16, 33, any_order, length // 2, length - 1, length, length + 1, length + 5]),
        )
    )


def condition(a, length):
    """kappa = |a|_1 |1/A|_1, the larger of the recurrence's over the length and the circular one's of Algorithm 1."""
    largest = 1.0
    for row in np.unique(a, axis=0):
        denominator = np.concatenate([[1.0], row])
        norm = np.abs(row).sum()
        circular = np.abs(np.fft.ifft(1 / np.fft.fft(oracle.fold(denominator, length)))).sum()
        if len(row) * length > CONDITION_MOST and norm < 1:
            recurrent = 1 / (1 - norm)  # the geometric series bounds it
        else:
            recurrent = np.abs(signal.lfilter([1.0], denominator, np.eye(1, length)[0])).sum()
        largest = max(largest, (1 + norm) * max(circular, recurrent))
    return largest


class Case:
    """Sizes, coefficients as float32 numbers, and what they are compared by."""

    def __init__(self, rng, longest, most_order=1 << 15):
        self.rng = rng
        self.cancelled = 0  # gradients that are measured by their terms
        self.in_double = False  # whether all arithmetic is, so that only the ends are rounded to the storage
        self.storage = [torch.float32, torch.bfloat16][int(rng.random() < 0.4)]
        self.length = draw_length(rng, longest)
        self.order = draw_order(rng, self.length, most_order)
        # Long signals come few at a time: the CPU computes them in double.
        most = 6 if self.length <= 4096 else 3
        self.batch = int(rng.integers(1, most + 1))
        self.groups = int(rng.integers(1, 4)) if self.length <= 4096 else 1
        self.channels = self.groups * int(rng.integers(1, 4))

    def __str__(self):
        return (f"batch {self.batch}, length {self.length}, channels {self.channels}, denominators {self.groups}, "
                f"order {self.order}")  # fmt: skip

    def coefficients(self):
        kinds = (0, 1, 2) if self.order <= REFLECTION_MOST else (1, 2)
        f = oracle.draw_filter(self.rng, self.channels, self.groups, self.order, kinds=kinds)
        a, b, h0 = (torch.tensor(x, dtype=torch.float32) for x in (f.a, f.b / np.sqrt(self.order + 1), f.h0))
        self.kappa = condition(a.double().numpy(), self.length)
        return a, b, h0

    def bound(self):
        """targets: as it stands up to kappa 1e2, multiplied by kappa over that beyond."""
        kappa = getattr(self, "kappa", 1.0)
        if not self.in_double:
            return BOUNDS[self.storage] * max(1.0, kappa / 1e2)
        # Each number is a sum of order + 1 products, on both sides, and gradients go through two filters.
        return max(BOUNDS[self.storage], 4 * (self.order + 1) * kappa * 2.0**-53)

    def normal(self, *shape, dtype=None):
        values = torch.from_numpy(self.rng.standard_normal(shape, dtype=np.float32))
        return values.to(dtype or self.storage)

    def samples(self):
        """(batch, length, channels) in one of the layouts that operators meet."""
        shape = (self.batch, self.length, self.channels)
        kind = self.rng.integers(5)
        if kind == 0:
            return self.normal(*shape)
        if kind == 1:
            return self.normal(self.batch, self.length, 2 * self.channels)[..., ::2]
        if kind == 2:
            return self.normal(self.batch, self.channels, self.length + 1)[..., :-1].transpose(1, 2)
        return self.normal(self.batch, self.channels, self.length).transpose(1, 2)

    def lengths(self):
        """None, or how much of each sequence counts."""
        return torch.from_numpy(self.rng.integers(0, self.length + 1, self.batch)) if self.rng.random() < 0.3 else None

    def offsets(self):
        inner = np.sort(self.rng.integers(0, self.length + 1, int(self.rng.integers(0, 4))))
        return torch.tensor([0, *inner.tolist(), self.length])


def on_device(tensor):
    """The same values with the same strides on the GPU; a copy between devices would pack them."""
    if tensor is None or not tensor.is_floating_point() or tensor.is_contiguous():
        return None if tensor is None else tensor.to(DEVICE)
    strides, sizes = tensor.stride(), tensor.shape
    extent = 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides))
    storage = torch.zeros(max(extent, 1), dtype=tensor.dtype, device=DEVICE)
    return storage.as_strided(sizes, strides).copy_(tensor)


def differentiate(function, inputs, *outgoing):
    """Outputs, and for each list of `outgoing` the gradients to all inputs of outputs that are pulled back along it."""
    leaves = [x.detach().requires_grad_() for x in inputs]
    outputs = function(*leaves)
    outputs = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
    differentiable = [y for y in outputs if y.requires_grad]
    gradients = []
    for each in outgoing:
        along = [g.to(y.device, y.dtype) for g, y in zip(each, differentiable)]
        again = each is not outgoing[-1]
        found = torch.autograd.grad(differentiable, leaves, along, allow_unused=True, retain_graph=again)
        gradients.append([torch.zeros_like(x) if g is None else g for x, g in zip(leaves, found)])
    return [y.detach() for y in outputs], *gradients


def turned(outgoing):
    """With the signs of every other row, a sequence or a channel, turned: sums over rows have the same terms."""
    signs = lambda g: 1 - 2 * (torch.arange(len(g)) % 2).view(-1, *[1] * (g.dim() - 1))
    return [g * signs(g) for g in outgoing]


def scale_of(case, gradient, other):
    """By what a gradient is measured, settled before anything is compared: its largest value. Where this is less than a
    CANCELS-th of what it is with signs turned, the sum over rows cancels, rounding is that of its terms, and it is
    measured by the other; such gradients are counted."""
    own, terms = float(gradient.abs().max()), float(other.abs().max())
    if terms <= CANCELS * own:
        return own
    case.cancelled += 1
    return terms


def compare(case, function, inputs):
    """The worst error of outputs and gradients on the GPU against the CPU in double, each relative to the largest value
    of its own (`scale_of`), as a share of the bound. `function(device, *inputs)`; floating-point inputs are
    differentiated."""
    with torch.no_grad():
        shapes = function("cpu", *(x.double() for x in inputs))
    shapes = shapes if isinstance(shapes, (tuple, list)) else [shapes]
    outgoing = [case.normal(*y.shape) for y in shapes]
    outputs, gradients, others = differentiate(
        lambda *x: function("cpu", *x), [x.double() for x in inputs], outgoing, turned(outgoing)
    )
    got = differentiate(lambda *x: function(DEVICE, *x), [on_device(x) for x in inputs], outgoing)
    # What is zero but for rounding in double, as the gradient to a of one sample from rest.
    nothing = 1e-10 * max(float(y.abs().max()) for y in (*outputs, *gradients) if y.numel())
    scales = [float(y.abs().max()) if y.numel() else 0.0 for y in outputs]
    scales += [scale_of(case, y, other) if y.numel() else 0.0 for y, other in zip(gradients, others)]
    names = [f"output {i}" for i in range(len(outputs))] + [f"gradient {i}" for i in range(len(gradients))]
    worst = 0.0
    for name, x, y, scale in zip(names, (*got[0], *got[1]), (*outputs, *gradients), scales):
        assert x.shape == y.shape, f"{name}: shape {tuple(x.shape)}, on the CPU {tuple(y.shape)}"
        if y.numel() == 0:
            continue
        scale = max(scale, nothing)
        error = float((x.cpu().double() - y).abs().max())
        share = error / max(case.bound() * scale, 1e-300)
        assert share <= 1, f"{name}: off by {error / max(scale, 1e-300):.2e}, bound {case.bound():.2e}; {case}"
        worst = max(worst, share)
    return worst
