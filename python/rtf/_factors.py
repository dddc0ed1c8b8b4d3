"""Filters in factors, for `lfilter`: sections in a row hold narrow filters whose coefficients doubles do not."""

from __future__ import annotations

from typing import Any

from ._dispatch import called
from .forms import NAMES, Array, SecondOrderSections, ZeroPoleGain
from .toolbox import convert


def is_one(filter: Any) -> bool:
    """Whether it is a filter for everything, not one for each channel."""
    return type(filter) in NAMES


def in_factors(filter: Any) -> bool:
    """Whether it is sections, or zeros and poles, or a list of such."""
    forms = [filter] if is_one(filter) else filter
    one_of = (SecondOrderSections, ZeroPoleGain)
    return isinstance(forms, list | tuple) and len(forms) > 0 and all(type(form) in one_of for form in forms)


def factors(filter: Any) -> tuple[list[Array], list[float]]:
    """Of each channel its sections, of zeros and poles those that `convert` gives, and what is added to them."""
    sections, beside = [], []
    for form in [filter] if is_one(filter) else filter:
        zpk = isinstance(form, ZeroPoleGain)
        beside.append(float(form.h0) if zpk else 0.0)
        sections.append((called("lfilter", convert, form._replace(h0=0.0), "sos") if zpk else form).sections)
    return sections, beside


def check_channels(filter: Any, shape: tuple[int, ...]) -> None:
    """Refuses a list that has not one filter for each channel of x."""
    if not is_one(filter) and (len(shape) < 2 or shape[-2] != len(filter)):
        message = f"[rtf::lfilter] x has shape {shape}; (..., {len(filter)}, length) is needed for {len(filter)} filters"
        raise ValueError(message)


def check_sections(shape: tuple[int, ...]) -> None:
    """Refuses what are no sections."""
    if len(shape) != 2 or shape[0] == 0 or shape[1] != 6:
        raise ValueError(f"[rtf::lfilter] sections has shape {shape}; (sections, 6) is needed")


def check_section_states(shape: tuple[int, ...], sections: int) -> None:
    """Refuses states that are not one for each section; the rest of the shape is seen to with each."""
    if len(shape) < 2 or shape[0] != sections:
        raise ValueError(f"[rtf::lfilter] zi has shape {shape}; ({sections}, ..., 2) is needed, a state for each section")
