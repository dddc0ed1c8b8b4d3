"""Signals through filters: `lfilter`, `kernel`, `convolve`, and between the two numerators `correct` and `wrap`.

Time is the last axis everywhere. Coefficients come in one of two conventions, told apart by h0:

- h0 is None: SciPy's vectors, H(z) = (b_0 + b_1 w + ...) / (a_0 + a_1 w + ...) with w = 1/z; a_0 need not be 1, and
  the two may differ in size. `scipy.signal.lfilter(b, a, x)` is `rtf.lfilter(x, a, b)`.
- h0 given: a = (a_1, ..., a_n) and b = (b_1, ..., b_n) as a layer trains them,
  H(z) = h0 + (b_1 w + ... + b_n w^n) / (1 + a_1 w + ... + a_n w^n).

A value of `rtf.forms`, or a layer, may stand in place of a, without b and h0.

Vectors are one filter, for all of x. Rows are one filter a channel: a (denominators, ..), b (channels, ..) and
h0 (channels), where the denominators divide the channels and neighbouring channels share one; x is then
(..., channels, length).

NumPy arrays (and what becomes one) give NumPy arrays, computed by the torch-free library on threads of its own
(`RTF_THREADS`); tensors give tensors, by `torch.ops.rtf`, with gradients.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _core
from ._dispatch import (
    called,
    check_convolve,
    check_finite,
    check_lfilter,
    count,
    flag,
    is_form,
    numbers,
    one_direction,
    packed,
    packed_filter,
    samples,
    states,
    tensors_too,
    text,
    unpacked,
)
from ._factors import Filtered, check_shapes, factors, in_a_row, in_factors, is_one
from .forms import Array, Filter, PolynomialRatio, TrainedTransferFunction, TransferFunction, _HasTransferFunction
from .toolbox import convert

__all__ = ["convolve", "correct", "kernel", "lfilter", "wrap"]


@one_direction
@tensors_too
def lfilter(
    x: Array, a: Array | Filter, b: Array = None, h0: Array = None, zi: Array = None, return_zf: bool = False
) -> Any:
    """Filter a signal along its last axis, from rest or from a state.

    Rounding errors are in proportion to the largest sample around: orders beyond some hundreds go by way of transforms. For
    the same reason a sample that is nan or infinite makes more than those after it nan: the others of its block, or of its
    transform. `SecondOrderSections` run one after the other, in float64, as in `scipy.signal.sosfilt`, and `ZeroPoleGain`
    as the sections that `convert` makes of it: so narrow filters of high order keep their digits. Other forms become
    coefficients first.

    Parameters
    ----------
    x : (..., length), or (..., channels, length) where coefficients have rows
        float32 or float64; other real numbers become float64. Tensors may be bfloat16 or float16.
    a, b : denominator and numerator, vectors or rows
        SciPy's where h0 is None, else (a_1, ..) and (b_1, ..); see the top of this module. Computed in float64. Or a
        filter of `rtf.forms` in place of a, without b and h0.
    h0 : number, or one a channel, optional
    zi : (..., order), optional
        SciPy's initial state, that of the transposed direct form divided by a_0: `scipy.signal.lfilter_zi` and the zf of
        a call before. The leading axes are those of x, or broadcast to them. The order is
        max(len(a), len(b)) - 1, or that of a and b where h0 is given. Of sections (sections, ..., 2), as `sosfilt` has it.
    return_zf : bool
        Whether to return the final state too.

    Returns
    -------
    y : like x
    zf : float64 (..., order), or (sections, ..., 2); only with return_zf

    Raises
    ------
    ValueError
        For a filter whose rounding errors would drown the answer, as those of a pole well outside the unit circle do, and
        those of coefficients of narrow filters of high order, of which they would leave fewer than three digits. Not for
        tensors on the GPU, where the host would have to wait for it: they give large numbers, inf or nan, as does an a_0
        of 0.

    Examples
    --------
    >>> import numpy as np, rtf
    >>> rtf.lfilter([1.0, 0, 0, 0], a=[1, -0.5], b=[2, 1])
    array([2. , 2. , 1. , 0.5])

    The same filter as a layer has it, 2 + 2 w / (1 - 0.5 w):

    >>> rtf.lfilter([1.0, 0, 0, 0], a=[-0.5], b=[2], h0=2)
    array([2. , 2. , 1. , 0.5])

    In two pieces, with the state between them:

    >>> y, zf = rtf.lfilter([1.0, 0], a=[1, -0.5], b=[2, 1], return_zf=True)
    >>> rtf.lfilter([0.0, 0], a=[1, -0.5], b=[2, 1], zi=zf)
    array([1. , 0.5])

    Or as a value, in any form:

    >>> rtf.lfilter([1.0, 0, 0, 0], rtf.ZeroPoleGain(zeros=[-0.5], poles=[0.5], gain=2))
    array([2. , 2. , 1. , 0.5])

    Sections in a row, `scipy.signal.sosfilt(sos, x)`:

    >>> sos = [[2, 1, 0, 1, 0, 0], [1, 0, 0, 1, -0.5, 0]]
    >>> rtf.lfilter([1.0, 0, 0, 0], rtf.SecondOrderSections(sos))
    array([2. , 2. , 1. , 0.5])

    Two channels with a denominator of their own each:

    >>> x = np.ones((2, 3))
    >>> rtf.lfilter(x, a=[[1, -0.5], [1, 0.5]], b=[1])
    array([[1.  , 1.5 , 1.75],
           [1.  , 0.5 , 0.75]])
    """
    check_lfilter(a, b, h0)
    return_zf = flag("lfilter", "return_zf", return_zf)
    if in_factors(a):
        return _through_sections(x, a, zi, return_zf)
    if is_form(a):
        a, b, h0 = plain_coefficients(a)
    x = samples("lfilter", "x", x)
    a, b = numbers("lfilter", "a", a), numbers("lfilter", "b", b)
    check_finite("lfilter", "b", b)
    check_finite("lfilter", "a", a, int(h0 is None))
    if h0 is not None:
        h0 = numbers("lfilter", "h0", h0)
    if zi is not None:
        order = max(a.shape[-1:] + b.shape[-1:], default=0) - (h0 is None)
        zi = states("lfilter", "zi", zi, (*x.shape[:-1], max(order, 0)))
    y, zf = _core.lfilter(x, a, b, h0, zi, return_zf)
    return (y, zf) if return_zf else y


def _through_sections(x: Array, filter: Any, zi: Array, return_zf: bool) -> Any:
    given, beside = factors(filter)
    channels = [numbers("lfilter", "sections", one) for one in given]
    x = samples("lfilter", "x", x)
    if zi is not None:
        zi = numbers("lfilter", "zi", zi)
    check_shapes(filter, channels, x, zi)
    stages = np.tile([1.0, 0, 0, 1, 0, 0], (max(map(len, channels)), len(channels), 1))  # those that lack pass on
    for c, one in enumerate(channels):
        check_finite("lfilter", "sections", one)
        stages[: len(one), c] = one
    rows = 0 if is_one(filter) else slice(None)

    def run(number: int, y: Array, a: Array, b: Array) -> Filtered:
        start = None if zi is None else states("lfilter", "zi", zi[number], (*x.shape[:-1], 2))
        found: Filtered = _core.lfilter(y, np.ascontiguousarray(a), np.ascontiguousarray(b), None, start, return_zf)
        return found

    y, ends = in_a_row(list(stages[:, rows]), x.astype(np.float64), run)
    if any(beside):
        y += np.array(beside)[:, None][rows] * x
    y = y.astype(x.dtype, copy=False)
    return (y, np.stack(ends)) if return_zf else y


def plain_coefficients(filter: Any) -> tuple[Array, Array, Array]:
    """a, b and h0 of a form."""
    if isinstance(filter, PolynomialRatio):
        return filter.a, filter.b, None
    plain = filter if isinstance(filter, TransferFunction) else called("lfilter", convert, filter, "tf")
    if not isinstance(plain, TransferFunction):
        raise ValueError("[rtf::lfilter] the filter has several inputs or outputs; one of each is needed")
    return plain.a, plain.b, plain.h0


@tensors_too
def kernel(a: Array | Filter, b: Array = None, h0: Array = None, *, length: int, method: str = "auto") -> Array:
    """The first samples of the impulse response.

    Parameters
    ----------
    a, b, h0 : coefficients as in `lfilter`, or a filter of `rtf.forms` in place of a
        A `TrainedTransferFunction` has Algorithm 1's kernel up to its own length, and past it that of `correct`.
    length : int
    method : {'auto', 'wrapped', 'recurrence', 'division', 'newton'}
        'wrapped' is Algorithm 1, for which a plain numerator counts as trained at `length`; the others are exact.

    Returns
    -------
    (length), or (channels, length) where coefficients have rows
        float32 where a, b and h0 are given and all are that, else float64.

    Examples
    --------
    >>> import rtf
    >>> rtf.kernel([-0.5], [2], 2, length=4)
    array([2. , 2. , 1. , 0.5])
    >>> rtf.kernel(rtf.ZeroPoleGain(zeros=[-0.5], poles=[0.5], gain=2), length=4)
    array([2. , 2. , 1. , 0.5])
    """
    found = _core.kernel(packed("kernel", a, b, h0), count("kernel", "length", length), text("kernel", "method", method))
    single = b is not None and all(np.asarray(v).dtype == np.float32 for v in (a, b, h0) if v is not None)
    return found.astype(np.float32) if single else found


@tensors_too
def convolve(x: Array, kernel: Array, *, bidirectional: bool = False) -> Array:
    """Convolve a signal with a kernel along its last axis, by FFT: y_t = sum over j <= t of k_{t-j} x_j.

    Parameters
    ----------
    x : (..., length), or (..., channels, length) where the kernel has rows
        float32 or float64; other real numbers become float64.
    kernel : (taps), or (channels, taps)
        Of any number of taps; those past the length meet no sample.
    bidirectional : bool
        Add the sum over j > t of k^b_{j-t-1} x_j. The kernel has an axis more then, of size 2, at its front: forward,
        then backward.

    Returns
    -------
    y : like x

    Examples
    --------
    >>> import rtf
    >>> rtf.convolve([1.0, 2, 3, 4], [1, 0.5])
    array([1. , 2.5, 4. , 5.5])
    >>> rtf.convolve([1.0, 2, 3, 4], [[1, 0.5], [10, 0]], bidirectional=True)
    array([21. , 32.5, 44. ,  5.5])
    """
    bidirectional = flag("convolve", "bidirectional", bidirectional)
    x = samples("convolve", "x", x)
    taps = np.asarray(numbers("convolve", "kernel", kernel), dtype=x.dtype)
    check_convolve(x.shape, taps.shape, bidirectional)
    return _core.convolve(x, taps, bidirectional)


@tensors_too
def correct(trained: TrainedTransferFunction | _HasTransferFunction) -> TransferFunction:
    """The filter whose recurrence gives Algorithm 1's kernel over the trained length, in float64.

    Parameters
    ----------
    trained : TrainedTransferFunction, or a layer

    Examples
    --------
    >>> import numpy as np, rtf
    >>> trained = rtf.TrainedTransferFunction(a=[-1.2, 0.81], b=[1, 0.5], h0=1, length=64)
    >>> filter = rtf.correct(trained)
    >>> np.allclose(rtf.kernel(trained, length=64), rtf.kernel(filter, length=64), rtol=0, atol=1e-13)
    True
    """
    result: TransferFunction = unpacked(_core.correct(packed_filter("correct", trained)))
    return result


@tensors_too
def wrap(filter: TransferFunction | _HasTransferFunction, length: int) -> TrainedTransferFunction:
    """The way back, in float64: the numerator that Algorithm 1 at `length` turns into the first samples of this filter.

    Parameters
    ----------
    filter : TransferFunction, or a layer with an exact numerator
    length : int

    Examples
    --------
    >>> import rtf
    >>> filter = rtf.TransferFunction(a=[-0.5], b=[2], h0=2)
    >>> rtf.kernel(rtf.wrap(filter, 4), length=4)
    array([2. , 2. , 1. , 0.5])
    """
    result: TrainedTransferFunction = unpacked(_core.wrap(packed_filter("wrap", filter), count("wrap", "length", length)))
    return result
