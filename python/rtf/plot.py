"""Pictures of filters with matplotlib, which `pip install rtf[plot]` brings along.

Filters come as coefficients a, b and h0 in the conventions of `rtf.functions`, as a value of `rtf.forms` in place of a,
or as a layer there: whatever has a `transfer_function()`. Each function draws into `ax`, or into an axes of its own, and
returns it. Rows are channels, a curve each. Other keywords go to `Axes.plot`, as `color` and `label` do.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cbook import normalize_kwargs
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from . import functions, toolbox
from . import response as responses
from ._dispatch import given, is_form
from .forms import Array, Filter, PolynomialRatio, TrainedTransferFunction, TransferFunction

__all__ = ["group_delay", "impulse", "magnitude", "overview", "phase", "pole_zero"]

_STEMS = 100
"""Up to so many samples of one channel are drawn apart."""
_DECIBELS = 100.0
"""So far below its peak a magnitude is shown: a zero on the circle goes down without end."""
_REACH = 2.5
"""Poles and zeros farther out are counted instead of drawn: one zero at 1000 would leave a dot of all else."""
_SAME = 1e-6
"""Roots so close together are one mark with their number."""


def impulse(
    a: Array | Filter, b: Array = None, h0: Array = None, *, length: int | None = None, ax: Axes | None = None, **style: Any
) -> Axes:
    """The impulse response.

    Parameters
    ----------
    a, b, h0 : see the top of this module
    length : int, optional
        Samples; 100 unless said, and for a trained filter or a layer the length of training.
    ax : Axes, optional

    Returns
    -------
    Axes

    Examples
    --------
    >>> import rtf
    >>> axes = rtf.plot.impulse([1, -0.5], [1], length=4)
    >>> axes.lines[0].get_ydata()
    array([1.   , 0.5  , 0.25 , 0.125])
    """
    a = given(a)
    if length is None:
        length = a.length if isinstance(a, TrainedTransferFunction) else 100
    values = _array(functions.kernel(a, b, h0, length=length))
    axes = _axes(ax, "sample", "impulse response")
    apart = values.ndim == 1 and length <= _STEMS
    if apart:
        style = {"marker": "o", "linestyle": "", "markersize": 4} | normalize_kwargs(style, Line2D)
    (*_, last) = axes.plot(np.arange(length), values.T, **style)
    if apart:
        axes.vlines(np.arange(length), 0, values, color=last.get_color(), linewidth=1)
        axes.axhline(0, color="0.7", linewidth=0.8, zorder=0)
    return axes


def magnitude(
    a: Array | Filter, b: Array = None, h0: Array = None, *, points: int | Array = 512, ax: Axes | None = None, **style: Any
) -> Axes:
    """The magnitude of the frequency response in decibels.

    Parameters
    ----------
    a, b, h0 : see the top of this module
    points : int, or an array of angles in radians a sample
        As in `freqz`. A peak narrower than pi / points needs more of them.
    ax : Axes, optional

    Returns
    -------
    Axes

    Examples
    --------
    >>> import rtf
    >>> axes = rtf.plot.magnitude([1, -0.5], [1], points=4)
    >>> axes.lines[0].get_ydata().round(2)
    array([ 6.02,  2.65, -0.97, -2.92])
    """
    angles, response = responses.freqz(given(a), b, h0, points=points)
    with np.errstate(divide="ignore"):
        decibels = 20 * np.log10(np.abs(_array(response)))
    peak = decibels.max(axis=-1, keepdims=True, where=np.isfinite(decibels), initial=-np.inf)
    return _curves(angles, decibels, "magnitude in dB", points, ax, style, floor=peak - _DECIBELS)


def phase(
    a: Array | Filter, b: Array = None, h0: Array = None, *, points: int | Array = 512, ax: Axes | None = None, **style: Any
) -> Axes:
    """The phase of the frequency response in turns of pi, unwrapped; arguments as in `magnitude`.

    Examples
    --------
    >>> import rtf
    >>> axes = rtf.plot.phase([1], [0, 0, 1], points=4)
    >>> axes.lines[0].get_ydata()
    array([ 0. , -0.5, -1. , -1.5])
    """
    angles, response = responses.freqz(given(a), b, h0, points=points)
    return _curves(angles, _unwrapped(_array(response)) / np.pi, "phase / π", points, ax, style)


def group_delay(
    a: Array | Filter, b: Array = None, h0: Array = None, *, points: int | Array = 512, ax: Axes | None = None, **style: Any
) -> Axes:
    """The group delay in samples; arguments as in `magnitude`.

    Examples
    --------
    >>> import rtf
    >>> axes = rtf.plot.group_delay([1], [0, 0, 1], points=4)
    >>> axes.lines[0].get_ydata()
    array([2., 2., 2., 2.])
    """
    angles, delay = responses.group_delay(given(a), b, h0, points=points)
    return _curves(angles, _array(delay), "group delay in samples", points, ax, style)


def pole_zero(
    a: Array | Filter, b: Array = None, h0: Array = None, *, zeros: bool = True, ax: Axes | None = None, **style: Any
) -> Axes:
    """Poles as crosses and zeros as rings, of all channels, around the unit circle.

    Where several coincide their number is beside them; those of modulus above 2.5 are counted instead of drawn.

    Parameters
    ----------
    a, b, h0 : see the top of this module
        Without h0 the numerator b may be left out: `rtf.plot.pole_zero([a_0, a_1, ...])` draws poles.
    zeros : bool
        Whether to draw zeros too. Those of a trained filter are those of its recurrence, which one with poles outside the
        circle does not have.
    ax : Axes, optional

    Returns
    -------
    Axes

    Examples
    --------
    >>> import rtf
    >>> axes = rtf.plot.pole_zero([1, -1.2, 0.81], [1, 0.4])
    >>> poles, zeros = axes.lines[-2:]
    >>> poles.get_xdata(), zeros.get_xdata()
    (array([0.6, 0.6]), array([-0.4,  0. ]))
    """
    a = given(a)
    marks = {"x": _roots(responses.poles(a, b, h0))}
    if zeros and (b is not None or is_form(a)):
        marks["o"] = _zeros(a, b, h0)
    axes = _axes(ax, "real part", "imaginary part")
    style = normalize_kwargs(style, Line2D)
    turn = np.linspace(0, 2 * np.pi, 361)
    axes.plot(np.cos(turn), np.sin(turn), color="0.7", linewidth=0.8, zorder=0)
    within = [roots[np.abs(roots) <= _REACH] for roots in marks.values()]
    reach = max(1.25, *(1.1 * np.abs(roots).max(initial=0.0) for roots in within), *np.abs(axes.get_xlim()) if ax else ())
    for marker, near in zip(marks, within, strict=True):
        (line,) = axes.plot(near.real, near.imag, **{"marker": marker, "linestyle": "", "markerfacecolor": "none"} | style)
        style = {"color": line.get_color()} | style | {"label": None}
        _number(axes, near, -10 if marker == "x" else 4)
    axes.set(aspect="equal", xlim=(-reach, reach), ylim=(-reach, reach))
    beyond = sum(roots.size for roots in marks.values()) - sum(near.size for near in within)
    if beyond:
        axes.text(0.02, 0.02, f"{beyond} beyond {_REACH}", transform=axes.transAxes, fontsize="small", color="0.4")
    return axes


def overview(a: Array | Filter, b: Array = None, h0: Array = None, *, length: int | None = None) -> NDArray[Any]:
    """Impulse response, magnitude, poles and zeros, and phase in one figure.

    Parameters
    ----------
    a, b, h0 : see the top of this module
    length : int, optional
        Of the impulse response, as in `impulse`.

    Returns
    -------
    array of Axes, (2, 2)

    Examples
    --------
    >>> import rtf
    >>> axes = rtf.plot.overview([1, -1.2, 0.81], [1, 0.4])
    >>> axes[0, 0].figure.savefig("filter.png")  # doctest: +SKIP
    """
    _, axes = plt.subplots(2, 2, figsize=(9, 6.5), layout="constrained")
    impulse(a, b, h0, length=length, ax=axes[0, 0])
    magnitude(a, b, h0, ax=axes[0, 1])
    pole_zero(a, b, h0, ax=axes[1, 0])
    phase(a, b, h0, ax=axes[1, 1])
    found: NDArray[Any] = axes
    return found


def _array(values: Any) -> NDArray[Any]:
    """A NumPy array, of a tensor too."""
    return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)


def _unwrapped(response: NDArray[Any]) -> NDArray[Any]:
    """The phase, nan where the response is not finite: `np.unwrap` would spread that over all that follows."""
    phase = np.where(np.isfinite(response), np.angle(response), np.nan)
    for row in np.atleast_2d(phase):
        there = np.isfinite(row)
        row[there] = np.unwrap(row[there])
    return phase


def _roots(found: Any) -> NDArray[Any]:
    """All of them in one row, out of the arrays of several channels."""
    return np.concatenate([_array(one).ravel() for one in found]) if isinstance(found, list) else _array(found).ravel()


def _zeros(a: Any, b: Any, h0: Any) -> NDArray[Any]:
    """The zeros of H itself, feed-through included."""
    if isinstance(a, TrainedTransferFunction):
        a = functions.correct(a)
    filter = a if is_form(a) else PolynomialRatio(b, a) if h0 is None else TransferFunction(a, b, h0)
    found = toolbox.convert(filter, "zpk", feed_through="inside")
    return _roots([one.zeros for one in found] if isinstance(found, list) else found.zeros)


def _number(axes: Axes, roots: NDArray[Any], offset: int) -> None:
    """Beside roots that coincide, how many they are."""
    left = roots
    while left.size:
        same = np.abs(left - left[0]) < _SAME
        if same.sum() > 1:
            at = (left[0].real, left[0].imag)
            axes.annotate(str(same.sum()), at, (6, offset), textcoords="offset points", fontsize="small")
        left = left[~same]


def _axes(ax: Axes | None, x: str, y: str) -> Axes:
    axes = plt.subplots(layout="constrained")[1] if ax is None else ax
    axes.set(xlabel=x, ylabel=y)
    return axes


def _curves(
    angles: Any, values: NDArray[Any], name: str, points: Any, ax: Axes | None, style: dict[str, Any], floor: Any = -np.inf
) -> Axes:
    """Over the angle, with a grid to read them by. Limits stay automatic, where what lies below `floor` does not count."""
    axes = _axes(ax, "angle / π", name)
    lines = axes.plot(_array(angles) / np.pi, np.maximum(values, floor).T, **style)
    for line, row in zip(lines, np.atleast_2d(values), strict=True):
        line.set_ydata(row)  # matplotlib keeps the limits of what was there before
    if np.ndim(points) == 0:
        axes.set_xmargin(0)
        axes.update_datalim([(0, 0), (1, 0)], updatey=False)
    axes.grid(color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    return axes
