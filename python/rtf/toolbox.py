"""From filter to filter: other forms, a filter for samples, a lower order, a stable one.

Filters come as values of `rtf.forms`, or as layers. No gradient goes through these functions: tensors are read, and
tensors come back.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from . import _core
from ._dispatch import count, flag, numbers, packed_filter, tensors_too, text, unpacked
from .forms import Array, Filter

__all__ = ["ConversionReport", "Fit", "Reduction", "Stabilized",
           "convert", "fit", "reduce", "stabilize"]  # fmt: skip


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

    filter: Any
    """A TransferFunction; with to='ss' a StateSpace, or a list of them for several kernels."""
    error: Array
    """|samples - fit| / |samples| in l2, one a kernel."""
    radius: Array
    """The largest pole modulus, one a denominator; with to='ss' one a kernel."""
    hankel: list[Array]
    """Of each denominator the leading order + 1 Hankel singular values of the samples; empty for prony."""


class Reduction(NamedTuple):
    """A filter of lower order, and what that cost."""

    filter: Any
    """In the form that was asked for; several state spaces are a list."""
    error: Array
    """max |H - reduced H| on the unit circle, one a channel."""
    bound: Array
    """What it can be at most: twice the sum of the singular values cut off, one a channel."""
    hankel: list[Array]
    """Hankel singular values of the given filter, largest first, one list a channel."""


class Stabilized(NamedTuple):
    """A filter with its poles inside the circle, and what that cost."""

    filter: Any
    """In the form of the given one where that can be, else a TransferFunction."""
    error: Array
    """|kernel - new kernel| / |kernel| in l2, one a channel."""


@tensors_too
def convert(
    filter: Filter,
    to: str,
    *,
    feed_through: str = "auto",
    method: str = "auto",
    report_length: int = 1024,
    return_report: bool = False,
) -> Any:
    """The same filter in another form.

    Parameters
    ----------
    filter : a value of `rtf.forms`, or a list of them
    to : {'tf', 'ba', 'ss', 'modal', 'zpk', 'sos'}
    feed_through : {'auto', 'separate', 'inside'}
        For 'zpk': zeros and gain of H - h0 ('separate'), or of H itself with h0 = 0, as SciPy has it ('inside'). 'auto'
        takes those that the source has, as zpk and sos do, else 'separate'.
    method : {'auto', 'eigenvalues', 'markov'}
        From 'ss': how its transfer function is computed.
    report_length : int
        Samples of the kernel over which the error is measured.
    return_report : bool
        Whether to return a `ConversionReport` for each channel too.

    Returns
    -------
    converted : a value of `rtf.forms`
        A list of them for a filter with rows, or for a list; of these, 'tf' makes one TransferFunction with rows.
    report : ConversionReport, or a list of them; only with return_report

    Warns
    -----
    RuntimeWarning
        When less than three digits are left. With none left the conversion is refused.

    Examples
    --------
    >>> import rtf
    >>> filter = rtf.TransferFunction(a=[-1.2, 0.81], b=[1, 0.4], h0=0)
    >>> zpk = rtf.convert(filter, "zpk")
    >>> zpk.zeros, zpk.gain
    (array([-0.4+0.j]), 1.0)
    >>> rtf.convert(zpk, "tf").a.round(12)
    array([-1.2 ,  0.81])
    """
    converted, reports, lines = _core.convert(
        packed_filter("convert", filter),
        text("convert", "to", to),
        text("convert", "feed_through", feed_through),
        text("convert", "method", method),
        count("convert", "report_length", report_length),
    )
    for line in lines:
        warnings.warn(line, RuntimeWarning, stacklevel=3)
    if not return_report:
        return unpacked(converted)
    found = [ConversionReport(*report) for report in reports]
    return unpacked(converted), found if has_rows(converted) else found[0]


def has_rows(found: Any) -> bool:
    """Whether a filter out of `_core` has an axis of channels."""
    return isinstance(found, list) or (found[0] == "tf" and np.ndim(found[1][1]) == 2)


@tensors_too
def fit(kernel: Array, order: int, *, method: str = "iterative", shared: bool = False, to: str = "tf") -> Fit:
    """A stable filter of a given order for samples of a kernel.

    Parameters
    ----------
    kernel : (length), or (channels, length)
    order : int, from 0 on
    method : {'iterative', 'hankel', 'prony'}
        'hankel' is balanced truncation of the samples, 'prony' linear prediction; 'iterative' improves the better one.
    shared : bool
        One denominator for all channels.
    to : {'tf', 'ss'}
        'ss', with method 'hankel': balanced state spaces, which hold poles close together where coefficients do not.

    Returns
    -------
    Fit

    Examples
    --------
    >>> import rtf
    >>> kernel = rtf.kernel([-1.2, 0.81], [1, 0.4], 0, length=50)
    >>> fitted = rtf.fit(kernel, order=2)
    >>> fitted.filter.a.round(9)
    array([-1.2 ,  0.81])
    """
    found, error, radius, hankel = _core.fit(
        numbers("fit", "kernel", kernel),
        count("fit", "order", order, 0),
        text("fit", "method", method),
        flag("fit", "shared", shared),
        text("fit", "to", to),
    )
    return Fit(unpacked(found), error, radius, hankel)


@tensors_too
def reduce(filter: Filter, order: int, *, to: str = "tf") -> Reduction:
    """A filter of lower order by balanced truncation; the given one has to be stable.

    Parameters
    ----------
    filter : a value of `rtf.forms`, or a list of them
        A `TrainedTransferFunction` stays one.
    order : int
    to : {'tf', 'ss'}
        'ss' reads the form without its coefficients and returns balanced state spaces: for narrow filters.

    Returns
    -------
    Reduction

    Examples
    --------
    >>> import rtf
    >>> filter = rtf.TransferFunction(a=[-1.7, 1.22, -0.42, 0.08], b=[1, 0.5, 0.1, 0.02], h0=0)
    >>> reduced = rtf.reduce(filter, 2)
    >>> reduced.error.round(4), reduced.bound.round(4)
    (array([0.2574]), array([0.4958]))
    """
    order, to = count("reduce", "order", order, 0), text("reduce", "to", to)
    found, error, bound, hankel = _core.reduce(packed_filter("reduce", filter), order, to)
    return Reduction(unpacked(found), error, bound, hankel)


@tensors_too
def stabilize(filter: Filter, method: str, *, length: int | None = None) -> Stabilized:
    """A filter with all poles inside the unit circle in place of one with poles outside.

    Parameters
    ----------
    filter : a value of `rtf.forms`, or a list of them
        A `TrainedTransferFunction` stays one; with 'reflect' so do sos, and zpk with h0 = 0.
    method : {'reflect', 'refit', 'montel'}
        'reflect' mirrors poles and keeps |H|; 'refit' fits stable poles to the kernel; 'montel' scales the denominator to
        sum |a| <= 0.999 and fits the numerator.
    length : int, optional
        Samples of the kernel to fit and compare: 1000 unless said; a trained filter has its own.

    Returns
    -------
    Stabilized

    Examples
    --------
    >>> import rtf
    >>> stable = rtf.stabilize(rtf.TransferFunction(a=[-1.25], b=[1], h0=0), "reflect")
    >>> stable.filter.a
    array([-0.8])
    """
    if length is not None:
        length = count("stabilize", "length", length)
    found, error = _core.stabilize(packed_filter("stabilize", filter), text("stabilize", "method", method), length)
    return Stabilized(unpacked(found), error)
