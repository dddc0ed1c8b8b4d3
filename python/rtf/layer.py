"""`rtf.nn.RTF`: the trainable layer."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ._dispatch import count, flag
from ._library import constant_in_graphs, ops
from .forms import TrainedTransferFunction, TransferFunction

__all__ = ["RTF", "Realization"]

Realization = tuple[Tensor, Tensor, Tensor]
"""a, b and h0 of the recurrence, float64: what `prefill` and `step` run on."""

_CHOICES = {
    "numerator": ("wrapped", "exact"),
    "init": ("zero", "xavier", "montel", "uniform_montel"),
    "initial_gain": ("paper", "release"),
    "constraint": ("none", "montel", "montel_paper"),
}


def check_choice(module: str, option: str, value: object, choices: tuple[object, ...]) -> None:
    """One clear line for a value that is none of the choices."""
    if value not in choices:
        raise ValueError(f"[rtf::{module}] {option} is '{value}'; expected one of {', '.join(map(str, choices))}")


def check_dropout(module: str, name: str, p: Any) -> None:
    """One clear line for what is no probability of dropout."""
    try:
        good = not isinstance(p, str) and 0 <= float(p) < 1
    except (TypeError, ValueError):
        good = False
    if not good:
        raise ValueError(f"[rtf::{module}] {name} is {p!r}; a number in [0, 1) is needed")


def check_signal(module: str, name: str, x: Tensor, channels: int) -> None:
    """One clear line for what is no signal of so many channels."""
    if not isinstance(x, Tensor) or x.dim() != 3 or x.shape[2] != channels:
        found = f"has shape {list(x.shape)}" if isinstance(x, Tensor) else f"is of type {type(x).__name__}, not a tensor"
        raise ValueError(f"[rtf::{module}] {name} {found}; (batch, length, {channels}) is needed")


def draw_generator(device: torch.device) -> Tensor:
    """(seed, step) of the dropout of one pass, from torch's own random numbers."""
    return torch.randint(2**31, (2,), device=device)


@constant_in_graphs
def _largest_filtered_order(device: torch.device) -> int:
    """Up to which order a filter costs less than an exact kernel and a convolution: on the GPU, where it runs in chunks."""
    return int(ops.largest_chunked_order(torch.empty(0, device=device))) if device.type == "cuda" else -1


def wide(u: Tensor) -> Tensor:
    """float16 in float32, which is what it is computed in."""
    return u.float() if u.dtype == torch.float16 else u


def _cut(u: Tensor, lengths: Tensor) -> Tensor:
    """Zeros in place of the samples past the lengths."""
    if lengths.shape != u.shape[:1]:
        raise ValueError(f"[rtf::RTF] lengths has shape {list(lengths.shape)}; ({u.shape[0]}) is needed")
    past = torch.arange(u.shape[1], device=u.device) >= lengths.to(u.device).unsqueeze(1)
    return u.masked_fill(past.unsqueeze(2), 0)


class RTF(nn.Module):
    """u (batch, length, channels) -> y of the same shape, by convolution with the kernels of rational functions.

    Parameters
    ----------
    channels, order : int
        H(z) = h0 + (b_1 w + ... + b_n w^n) / (1 + a_1 w + ... + a_n w^n) for each channel, n the order.
    length : int
        The longest input, and where a wrapped numerator is trained.
    denominators : int
        How many different ones there are; divides channels, and neighbouring channels share one.
    bidirectional : bool
        A second system sees the sequence from its end.
    numerator : {'wrapped', 'exact'}
        b as Algorithm 1 trains it at `length`, or the numerator of the recurrence itself.
    kernel_dropout : float
    init : {'zero', 'xavier', 'montel', 'uniform_montel'}
        First values of a and b.
    initial_gain : {'paper', 'release'}
        First h0: 1, or normal random numbers.
    constraint : {'none', 'montel', 'montel_paper'}
        What keeps the poles inside the unit circle.
    index : int
        Which layer of a model: its dropout has random numbers of its own.

    Attributes
    ----------
    a, b, h0 : Parameter
        (denominators, order), (channels, order), (channels), doubled with two directions, forward rows first. With
        'montel_paper' a has a column more.
    sigma : Parameter
        (denominators), with 'montel'

    Examples
    --------
    >>> import rtf, torch
    >>> layer = rtf.nn.RTF(channels=4, order=8, length=32, init="montel")
    >>> u = torch.randn(2, 32, 4)
    >>> y = layer(u)
    >>> realization, state = layer.realize(), layer.zero_state(2)
    >>> z, state = layer.prefill(realization, u[:, :31], state)
    >>> last, state = layer.step(realization, u[:, 31], state)
    >>> torch.allclose(y, torch.cat((z, last[:, None]), 1), atol=1e-5)
    True
    """

    def __init__(
        self,
        channels: int,
        order: int,
        length: int,
        *,
        denominators: int = 1,
        bidirectional: bool = False,
        numerator: str = "wrapped",
        kernel_dropout: float = 0.0,
        init: str = "zero",
        initial_gain: str = "paper",
        constraint: str = "none",
        index: int = 0,
    ) -> None:
        super().__init__()
        channels, order = count("RTF", "channels", channels), count("RTF", "order", order, 0)
        length, index = count("RTF", "length", length), count("RTF", "index", index, 0)
        denominators = count("RTF", "denominators", denominators)
        if channels % denominators != 0:
            raise ValueError(f"[rtf::RTF] {denominators} denominators do not divide {channels} channels")
        check_dropout("RTF", "kernel_dropout", kernel_dropout)
        chosen = {"numerator": numerator, "init": init, "initial_gain": initial_gain, "constraint": constraint}
        for option, choice in chosen.items():
            check_choice("RTF", option, choice, _CHOICES[option])
        self.channels, self.order, self.length, self.denominators = channels, order, length, denominators
        self.bidirectional, self.numerator, self.kernel_dropout = flag("RTF", "bidirectional", bidirectional), numerator, kernel_dropout
        self.init, self.initial_gain, self.constraint, self.index = init, initial_gain, constraint, index
        directions = 2 if self.bidirectional else 1
        self.a = nn.Parameter(torch.empty(directions * denominators, order + (constraint == "montel_paper")))
        self.b = nn.Parameter(torch.empty(directions * channels, order))
        self.h0 = nn.Parameter(torch.empty(directions * channels))
        self.sigma = nn.Parameter(torch.empty(directions * denominators)) if constraint == "montel" else None
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draws first values anew."""
        for rows in (self.a, self.b):
            columns = max(rows.shape[1], 1)
            if self.init == "zero":
                rows.zero_()
            elif self.init == "uniform_montel":
                rows.uniform_(0, 1)
            else:
                bound = columns**-0.5 if self.init == "xavier" else 1 / columns
                rows.uniform_(-bound, bound)
        if self.init == "uniform_montel":
            self.a.copy_(nn.functional.normalize(self.a, p=1, dim=1))
        if self.constraint == "montel_paper" and self.init == "zero":
            self.a[:, -1] = 1  # all zero cannot be normalised; a last number of 1 gives the same a = 0
        if self.initial_gain == "paper":
            self.h0.fill_(1)
        else:
            self.h0.normal_()
        if self.sigma is not None:
            self.sigma.uniform_(0, 1)

    def denominator(self) -> Tensor:
        """a through the constraint."""
        return self._constrained(self.a)

    def _constrained(self, a: Tensor) -> Tensor:
        if self.sigma is not None:
            a = ops.montel(a, self.sigma.to(a.dtype))
        elif self.constraint == "montel_paper":
            a = ops.montel_paper(a)
        return a

    def transfer_function(self) -> TransferFunction | TrainedTransferFunction:
        """The filters of the layer as the functions of this package take them; differentiable."""
        return self._filter(self.denominator(), self.b, self.h0)

    def wide_transfer_function(self) -> TransferFunction | TrainedTransferFunction:
        """The same in float64, with the constraint computed there: what `realize`, `rtf.Stream`, `rtf.export` and
        `rtf.write_filter` take."""
        return self._filter(self._constrained(self.a.double()), self.b.double(), self.h0.double())

    def _filter(self, a: Tensor, b: Tensor, h0: Tensor) -> TransferFunction | TrainedTransferFunction:
        if self.numerator == "exact":
            return TransferFunction(a, b, h0)
        return TrainedTransferFunction(a, b, h0, self.length)

    def kernel(self, length: int | None = None) -> Tensor:
        """The first samples of the kernels, (channels, length), or (2, channels, length): forward, then backward."""
        length = self.length if length is None else length
        self._check_length(length)
        k: Tensor
        if self.numerator == "exact":
            k = ops.exact_kernel(self.denominator(), self.b, self.h0, length)
        else:
            k = ops.kernel(self.denominator(), self.b, self.h0, self.length)
            if length < self.length:
                k = k[:, :length]
        return k.reshape(2, self.channels, length) if self.bidirectional else k

    def _check_length(self, length: int) -> None:
        if not 1 <= length <= self.length:
            raise ValueError(f"[rtf::RTF] a sequence of {length} samples; the layer takes 1 to {self.length}")

    def forward(self, u: Tensor, lengths: Tensor | None = None, generator: Tensor | None = None) -> Tensor:
        """u (batch, length, channels), of any length up to `self.length`.

        lengths (batch): samples of sequence s from lengths[s] on are read as zero. generator (seed, step), int64, draws the
        kernel dropout; without it torch's random numbers do. float16 is computed in float32.
        """
        check_signal("RTF", "u", u, self.channels)
        x = wide(u)
        drops = self.training and self.kernel_dropout > 0
        recursive = self.numerator == "exact" and not self.bidirectional and not drops
        y: Tensor
        if recursive and self.order <= _largest_filtered_order(u.device):
            self._check_length(u.shape[1])
            y, _ = ops.filter(x if lengths is None else _cut(x, lengths), self.denominator(), self.b, self.h0)
            return y.to(u.dtype)
        if self.numerator == "wrapped" and not drops:
            self._check_length(u.shape[1])
            y, _ = ops.wrapped_convolve(x, self.denominator(), self.b, self.h0, self.length, self.bidirectional, lengths=lengths)
            return y.to(u.dtype)
        k = self.kernel(u.shape[1])
        if drops:
            generator = draw_generator(u.device) if generator is None else generator
            k = ops.dropout(k, self.kernel_dropout, generator, 3 * self.index)
        y = ops.convolve(x, k, self.bidirectional, lengths=lengths)
        return y.to(u.dtype)

    def realize(self) -> Realization:
        """a, b and h0 of the recurrence; differentiable."""
        if self.bidirectional:
            raise ValueError("[rtf::RTF] a bidirectional layer has no recurrence: it sees the whole sequence")
        a, b, h0 = self.wide_transfer_function()[:3]
        if self.numerator == "wrapped":
            b, h0 = ops.correct(a, b, h0, self.length)
        return a, b, h0

    def zero_state(self, batch: int) -> Tensor:
        """Of streams that have seen nothing, (batch, channels, order) in float64."""
        return torch.zeros(batch, self.channels, self.order, dtype=torch.float64, device=self.h0.device)

    def prefill(self, at: Realization, u: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """A prompt u (batch, length, channels) of any length: y and the state after it."""
        y, state = ops.prefill(wide(u), *at, state)
        return y.to(u.dtype), state

    def step(self, at: Realization, u: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One sample u (batch, channels): y and the next state."""
        y, state = ops.step(wide(u), *at, state)
        return y.to(u.dtype), state

    @torch.no_grad()
    def set_length(self, length: int) -> None:
        """A new truncation length for the same system: a wrapped numerator is corrected and wrapped again."""
        length = count("RTF", "length", length)
        if self.numerator == "wrapped" and length != self.length:
            a = self.denominator().double()
            b, h0 = ops.wrap(a, *ops.correct(a, self.b.double(), self.h0.double(), self.length), length)
            self.b.copy_(b)
            self.h0.copy_(h0)
        self.length = length

    def extra_repr(self) -> str:
        text = f"{self.channels}, order={self.order}, length={self.length}, denominators={self.denominators}"
        return f"{text}, bidirectional={self.bidirectional}, numerator={self.numerator}, constraint={self.constraint}"
