"""What a filter does: its poles, its frequency response and its group delay.

Filters come as coefficients a, b and h0 in the conventions of `rtf.functions`, or as a value of `rtf.forms` or a layer
in place of a. No gradient goes through `poles`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _core
from ._dispatch import called, count, flag, is_form, numbers, packed, tensors_too
from .forms import Array, Filter

__all__ = ["freqz", "group_delay", "poles"]


@tensors_too
def poles(a: Array | Filter, b: Array = None, h0: Array = None) -> Any:
    """The poles of a filter, largest modulus first.

    Parameters
    ----------
    a, b, h0 : coefficients as in `lfilter`, or a filter of `rtf.forms` in place of a
        Without h0 the numerator b may be left out: `rtf.poles([a_0, a_1, ...])`.

    Returns
    -------
    complex128 (order); (denominators, order) where coefficients have rows; a list of arrays for a list of forms

    Examples
    --------
    >>> import rtf
    >>> rtf.poles([1, -1.2, 0.81]).round(4)
    array([0.6+0.6708j, 0.6-0.6708j])
    >>> rtf.poles(rtf.StateSpace(A=[[0.5, 1], [0, 0.25]], B=[0, 1], C=[1, 0], D=0))
    array([0.5 +0.j, 0.25+0.j])
    """
    if b is None and h0 is None and not is_form(a):
        b = [0.0]
    return _core.poles(packed("poles", a, b, h0))


@tensors_too
def freqz(
    a: Array | Filter, b: Array = None, h0: Array = None, *, points: int | Array = 512, whole: bool = False
) -> tuple[Array, Array]:
    """The frequency response H(e^{i angle}).

    Parameters
    ----------
    a, b, h0 : coefficients as in `lfilter`, or a filter of `rtf.forms` in place of a
    points : int, or an array of angles in radians a sample
        A number N stands for the angles pi k / N, k = 0, ..., N - 1.
    whole : bool
        Take 2 pi k / N instead, around the circle.

    Returns
    -------
    angles : float64 (N), or `points` themselves
    response : complex128 (N), or (channels, N) where coefficients have rows
        inf at a pole, nan where a zero lies there too; for tensors also so close to it that double precision cannot tell.

    Examples
    --------
    >>> import rtf
    >>> angles, response = rtf.freqz(a=[1, -0.5], b=[1], points=4)
    >>> abs(response).round(4)
    array([2.    , 1.3572, 0.8944, 0.7148])
    """
    angles = grid("freqz", points, whole)
    return angles, _core.freqz(packed("freqz", a, b, h0), angles)


@tensors_too
def group_delay(
    a: Array | Filter, b: Array = None, h0: Array = None, *, points: int | Array = 512, whole: bool = False
) -> tuple[Array, Array]:
    """The group delay -d arg H / d angle in samples, by its formula; arguments as in `freqz`.

    Returns
    -------
    angles : float64 (N), or `points` themselves
    delay : float64 (N), or (channels, N) where coefficients have rows
        nan where H is zero or infinite, or so close to it that rounding decides on which side: the phase jumps there.
        Next to zeros, numerators of high order keep few digits of it; poles and zeros, or sections, keep them.

    Examples
    --------
    >>> import rtf
    >>> angles, delay = rtf.group_delay(a=[1], b=[0, 0, 1], points=3)
    >>> delay
    array([2., 2., 2.])
    """
    angles = grid("group_delay", points, whole)
    return angles, _core.group_delay(packed("group_delay", a, b, h0), angles)


def grid(operation: str, points: int | Array, whole: bool) -> Array:
    """The angles that `points` and `whole` stand for."""
    if not isinstance(points, list | tuple) and np.ndim(points) == 0:
        return called(operation, _core.angle_grid, count(operation, "points", points), flag(operation, "whole", whole))
    angles = numbers(operation, "points", points)
    check_angles(operation, angles.shape, whole)
    return angles


def check_angles(operation: str, shape: Sequence[int], whole: bool) -> None:
    """Angles of either half are a list, and the whole circle is not asked for beside them."""
    if whole:
        raise ValueError(f"[rtf::{operation}] whole is for a number of points; here points are angles")
    if len(shape) != 1:
        raise ValueError(f"[rtf::{operation}] points has shape {tuple(shape)}; a number or (angles) is needed")
