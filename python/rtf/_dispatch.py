"""What comes in decides who computes: tensors go to `_tensor`, everything else becomes NumPy arrays for `_core`."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from .forms import FORMS, NAMES

P = ParamSpec("P")
R = TypeVar("R")
Packed: TypeAlias = tuple[str, tuple[Any, ...]]
"""The name of a form and its fields."""


def has_tensor(values: Iterable[Any]) -> bool:
    """Whether a tensor is among the values, or in a form or a list among them."""
    torch = sys.modules.get("torch")  # whoever has a tensor has imported it
    if torch is None:
        return False
    return any(isinstance(v, torch.Tensor) or (isinstance(v, tuple | list) and has_tensor(v)) for v in values)


def tensors_too(function: Callable[P, R]) -> Callable[P, R]:
    """Calls the function of the same name in `_tensor` when a tensor is among the arguments."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if has_tensor(args) or has_tensor(kwargs.values()):
            from . import _tensor

            result: R = getattr(_tensor, function.__name__)(*args, **kwargs)
            return result
        return function(*args, **kwargs)

    return call


def samples(operation: str, name: str, value: Any) -> NDArray[Any]:
    """A contiguous array of float32 where it is that, else of float64."""
    array = np.asarray(value)
    if array.dtype != np.float32:
        array = numbers(operation, name, array)
    return np.ascontiguousarray(array)


def numbers(operation: str, name: str, value: Any) -> NDArray[np.float64]:
    """A contiguous array of float64."""
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"[rtf::{operation}] {name} has numbers of type {array.dtype}; real ones are needed")
    return np.asarray(array, dtype=np.float64, order="C")


def is_form(value: Any) -> bool:
    """Whether it is a value of `rtf.forms`, or a list of such values."""
    return type(value) in NAMES or (isinstance(value, list) and bool(value) and all(type(v) in NAMES for v in value))


def packed(operation: str, a: Any, b: Any = None, h0: Any = None) -> list[Packed]:
    """A filter as `_core` takes it, the names and fields of its forms: given as a form, or by coefficients."""
    if is_form(a):
        if b is not None or h0 is not None:
            raise ValueError(f"[rtf::{operation}] a filter of rtf.forms has its coefficients; b and h0 must be left out")
        return [(NAMES[type(form)], tuple(form)) for form in (a if isinstance(a, list) else [a])]
    if b is None:
        raise ValueError(f"[rtf::{operation}] b is missing; a and b are needed, or a filter of rtf.forms")
    return [("ba", (b, a)) if h0 is None else ("tf", (a, b, h0))]


def unpacked(found: Packed | list[Packed]) -> Any:
    """Back to values of `rtf.forms`: one, or a list where there are several channels."""
    if isinstance(found, list):
        return [unpacked(one) for one in found]
    name, fields = found
    return FORMS[name](*fields)
