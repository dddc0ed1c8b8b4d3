"""Filters in factors, for `lfilter`: sections in a row hold narrow filters whose coefficients doubles do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ._dispatch import called, named_array
from .forms import NAMES, Array, SecondOrderSections, ZeroPoleGain
from .toolbox import convert

Filtered = tuple[Array, Array | None]
"""Samples, and the state after them where it is wanted."""


def is_one(filter: Any) -> bool:
    """Whether it is a filter for everything, not one for each channel."""
    return type(filter) in NAMES


def forms_of(filter: Any) -> Any:
    """The forms, one for each channel, or the one for everything."""
    return [filter] if is_one(filter) else filter


def in_factors(filter: Any) -> bool:
    """Whether it is sections, or zeros and poles, or a list of such."""
    forms = forms_of(filter)
    one_of = (SecondOrderSections, ZeroPoleGain)
    return isinstance(forms, list | tuple) and len(forms) > 0 and all(type(form) in one_of for form in forms)


def factors(filter: Any) -> tuple[list[Array], list[float]]:
    """Of each channel its sections, of zeros and poles those that `convert` gives, and what is added to them."""
    sections, beside = [], []
    for form in forms_of(filter):
        zpk = isinstance(form, ZeroPoleGain)
        beside.append(_gain(form.h0) if zpk else 0.0)
        sections.append((called("lfilter", convert, form._replace(h0=0.0), "sos") if zpk else form).sections)
    return sections, beside


def _gain(h0: Any) -> float:
    found = named_array("lfilter", "h0", h0)
    if found.ndim > 0:
        raise ValueError(f"[rtf::lfilter] h0 has shape {found.shape}; a finite number is needed")
    if found.dtype.kind not in "biuf" or not np.isfinite(found):
        raise ValueError(f"[rtf::lfilter] h0 is {h0!r}; a finite number is needed")
    return float(found)


def check_shapes(filter: Any, sections: Sequence[Array], x: Array, zi: Array | None) -> None:
    """Refuses sections that are none, x without a channel for each, and states of other sections or rows."""
    for one in sections:
        if len(one.shape) != 2 or one.shape[0] == 0 or one.shape[1] != 6:
            raise ValueError(f"[rtf::lfilter] sections has shape {tuple(one.shape)}; (sections, 6) is needed")
    shape = tuple(x.shape)
    if not is_one(filter) and shape[-2:-1] != (len(sections),):
        needed = f"(..., {len(sections)}, length) is needed for {len(sections)} filters"
        raise ValueError(f"[rtf::lfilter] x has shape {shape}; {needed}")
    if zi is None:
        return
    given, wanted = tuple(zi.shape), (max(len(one) for one in sections), *shape[:-1], 2)
    fits = 2 <= len(given) <= len(wanted) and (given[0], given[-1]) == (wanted[0], wanted[-1])
    if not fits or any(g not in (1, w) for g, w in zip(given[-2:0:-1], wanted[-2::-1], strict=False)):
        raise ValueError(f"[rtf::lfilter] zi has shape {given}; {wanted} is needed, or fewer axes after the first")


def in_a_row(stages: Sequence[Array], y: Array, run: Callable[[int, Array, Array, Array], Filtered]) -> tuple[Array, list[Any]]:
    """y after all sections, and the states that they end in; run(number, samples, a, b) is one of them."""
    ends = []
    for number, stage in enumerate(stages):
        try:
            y, end = run(number, y, stage[..., 3:], stage[..., :3])
        except ValueError as error:
            raise ValueError(f"{error}; in section {number}" if len(stages) > 1 else str(error)) from None
        ends.append(end)
    return y, ends
