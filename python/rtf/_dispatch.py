"""What comes in decides who computes: tensors go to `_tensor`, everything else becomes NumPy arrays for `_core`."""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from .forms import FORMS, NAMES, Form, PolynomialRatio, TransferFunction

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


def as_array(value: Any) -> NDArray[Any]:
    """An array; of a tensor its numbers, wherever it lies, without its gradient."""
    if not has_tensor((value,)) or isinstance(value, tuple | list):
        return np.asarray(value)
    value = value.detach().cpu()
    found: NDArray[Any] = (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy()
    return found


def samples(operation: str, name: str, value: Any) -> NDArray[Any]:
    """A contiguous array of float32 where it is that, else of float64."""
    array = as_array(value)
    if array.dtype != np.float32:
        array = numbers(operation, name, array)
    return np.asarray(array, order="C")


def numbers(operation: str, name: str, value: Any) -> NDArray[np.float64]:
    """A contiguous array of float64."""
    array = as_array(value)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"[rtf::{operation}] {name} has numbers of type {array.dtype}; real ones are needed")
    return np.asarray(array, dtype=np.float64, order="C")


def states(operation: str, name: str, value: Any, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """An array of float64 of this shape; leading axes of size 1, or missing at the front, are repeated."""
    array = numbers(operation, name, value)
    try:
        if array.shape[-1:] != shape[-1:]:
            raise ValueError
        return np.ascontiguousarray(np.broadcast_to(array, shape))
    except ValueError:
        message = f"[rtf::{operation}] {name} has shape {array.shape}; {shape} is needed, or fewer leading axes"
        raise ValueError(message) from None


def count(operation: str, name: str, value: Any, lowest: int = 1) -> int:
    """A whole number that is not below the lowest."""
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"[rtf::{operation}] {name} is {value!r}; a whole number is needed") from None
    if number < lowest:
        raise ValueError(f"[rtf::{operation}] {name} is {number}; at least {lowest} is needed")
    return number


def is_form(value: Any) -> bool:
    """Whether it is a value of `rtf.forms`, or a list of such values."""
    return type(value) in NAMES or (isinstance(value, list) and bool(value) and all(type(v) in NAMES for v in value))


def check_lfilter(b: Any, h0: Any) -> None:
    """Refuses what other libraries have in these places."""
    if b is None:
        raise ValueError("[rtf::lfilter] b is missing; a and b are needed, or a filter of rtf.forms")
    if isinstance(h0, bool | np.bool_):
        raise ValueError(f"[rtf::lfilter] h0 is {h0}; torchaudio's clamp is not an argument here")


def packed(operation: str, a: Any, b: Any = None, h0: Any = None) -> Packed | list[Packed]:
    """A filter as `_core` takes it: given as a form or a list of forms, or by coefficients."""
    if is_form(a):
        if b is not None or h0 is not None:
            raise ValueError(f"[rtf::{operation}] a filter of rtf.forms has its coefficients; b and h0 must be left out")
        return [packed_form(operation, form) for form in a] if isinstance(a, list) else packed_form(operation, a)
    if b is None:
        raise ValueError(f"[rtf::{operation}] b is missing; a and b are needed, or a filter of rtf.forms")
    return packed_form(operation, PolynomialRatio(b, a) if h0 is None else TransferFunction(a, b, h0))


def packed_form(operation: str, form: Form) -> Packed:
    """The name of a form, and its fields as arrays."""
    fields = (packed_field(operation, name, value) for name, value in zip(form._fields, form, strict=True))
    return NAMES[type(form)], tuple(fields)


def packed_field(operation: str, name: str, value: Any) -> Any:
    if name == "length":
        return count(operation, name, value)
    if name not in ("poles", "zeros", "residues"):
        return numbers(operation, name, value)
    array = as_array(value)
    if array.dtype.kind not in "biufc":
        raise ValueError(f"[rtf::{operation}] {name} has numbers of type {array.dtype}; complex ones are needed")
    return np.asarray(array, dtype=np.complex128, order="C")


def unpacked(found: Any) -> Any:
    """Back to values of `rtf.forms`: one, or a list where there are several channels."""
    if isinstance(found, list):
        return [unpacked(one) for one in found]
    name, fields = found
    return FORMS[name](*fields)
