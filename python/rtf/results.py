"""What the functions of `rtf.toolbox` return beside a filter: how good it is."""

from __future__ import annotations

from typing import NamedTuple

from .forms import Array, Filter

__all__ = ["ConversionReport", "Fit", "Reduction", "Stabilized"]


class ConversionReport(NamedTuple):
    """What a conversion cost one channel."""

    error: float
    """The largest difference of the two kernels over the largest value of the source's, measured."""
    condition: float
    """How far a relative change of the numbers of either form is amplified in the kernel, at least 1."""
    length: int
    """Samples compared: fewer than asked for when the kernel outgrows a double."""
    method: str
    """What was computed on the way; empty when the form was copied."""
    response_error: float
    """Of coefficients, the same of |H| next to poles that outlive those samples."""


class Fit(NamedTuple):
    """A filter fitted to kernels, and how well it fits."""

    filter: Filter
    """A TransferFunction; with to='ss' a StateSpace, or a list of them for several kernels."""
    error: Array
    """|samples - fit| / |samples| in l2, one a kernel."""
    radius: Array
    """The largest pole modulus, one a denominator; with to='ss' one a kernel."""
    hankel: list[Array]
    """Of each denominator the leading order + 1 Hankel singular values of the samples; empty for prony."""


class Reduction(NamedTuple):
    """A filter of lower order, and what that cost."""

    filter: Filter
    error: Array
    """max |H - reduced H| on the unit circle, one a channel."""
    bound: Array
    """What it can be at most: twice the sum of the singular values cut off, one a channel."""
    hankel: list[Array]
    """Hankel singular values of the given filter, largest first, one list a channel."""


class Stabilized(NamedTuple):
    """A filter with its poles inside the circle, and what that cost."""

    filter: Filter
    error: Array
    """|kernel - new kernel| / |kernel| in l2, one a channel."""
