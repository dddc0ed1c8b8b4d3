"""What comes in decides who computes: tensors go to `_tensor`, everything else becomes NumPy arrays for `_core`."""

from __future__ import annotations

import functools
import operator
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from .forms import FORMS, NAMES, Form, PolynomialRatio, TrainedTransferFunction, TransferFunction

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


def given(value: Any, *, wide: bool = False) -> Any:
    """What the functions take: a layer's filter in place of the layer. `wide` has its constraint computed in float64, as
    the recurrence of a layer has."""
    if not _is_layer(value):
        return value
    if wide and hasattr(value, "wide_transfer_function"):
        return value.wide_transfer_function()
    return value.transfer_function()


def _is_layer(value: Any) -> bool:
    # Numbers first: hasattr of a symbol is more than torch.compile can trace. Of an array it takes longest.
    return not isinstance(value, (int, float, type, np.ndarray, type(None))) and hasattr(value, "transfer_function")


def running(operation: str, value: Any) -> Any:
    """What is run sample by sample: of a layer its filter, in float64."""
    refuse_two_directions(operation, value)
    return given(value, wide=True)


def refuse_two_directions(operation: str, value: Any) -> None:
    """Refuses a layer that a recurrence cannot stand for."""
    if _is_layer(value) and (getattr(value, "bdir", False) or getattr(value, "bidirectional", False)):
        raise ValueError(f"[rtf::{operation}] a bidirectional layer has no recurrence: it sees the whole sequence")


def tensors_too(function: Callable[P, R]) -> Callable[P, R]:
    """Calls the function of the same name in `_tensor` when a tensor is among the arguments, or a layer."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> R:
        args = tuple(given(value) for value in args)
        kwargs = {name: given(value) for name, value in kwargs.items()}
        if has_tensor(args) or has_tensor(kwargs.values()):
            from . import _tensor

            result: R = getattr(_tensor, function.__name__)(*args, **kwargs)
            return result
        return function(*args, **kwargs)

    return call


def one_direction(function: Callable[P, R]) -> Callable[P, R]:
    """Refuses layers with two directions, of which others take the filters of both."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        for value in (*args, *kwargs.values()):
            refuse_two_directions(function.__name__, value)
        return function(*args, **kwargs)

    return call


def called(operation: str, part: Callable[..., R], *args: Any) -> R:
    """What a part of an operation returns; its refusals bear the name of the function that was called."""
    try:
        return part(*args)
    except (ValueError, RuntimeError) as error:
        head, mark, rest = str(error).partition("] ")
        if not head.startswith("[rtf::") or head == f"[rtf::{operation}":
            raise
        raise type(error)(f"[rtf::{operation}{mark}{rest}") from None


_LARGEST = 2**53  # whole number that the library takes


def as_array(value: Any) -> NDArray[Any]:
    """An array; of a tensor its numbers, wherever it lies, without its gradient."""
    if not has_tensor((value,)) or isinstance(value, tuple | list):
        return np.asarray(value)
    value = value.detach().cpu()
    found: NDArray[Any] = (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy()
    return found


def first_line(error: Exception) -> str:
    """Of what an error says."""
    return str(error).strip().partition("\n")[0] or "no reason given"


def named_array(operation: str, name: str, value: Any) -> NDArray[Any]:
    """The same, or one clear line."""
    try:
        found = as_array(value)
    except (RuntimeError, TypeError, ValueError) as error:  # PyTorch's and NumPy's, which do not say of what
        why = first_line(error)
        what = "has rows of different lengths" if "inhomogeneous" in why else f"cannot be read ({why})"
        raise ValueError(f"[rtf::{operation}] {name} {what}; an array is needed") from None
    if found.dtype == object and found.ndim == 0:
        raise ValueError(f"[rtf::{operation}] {name} is of type {type(value).__name__}; an array is needed")
    return found


def samples(operation: str, name: str, value: Any) -> NDArray[Any]:
    """A contiguous array of float32 where it is that, else of float64."""
    array = named_array(operation, name, value)
    if array.dtype.kind == "f" and array.dtype.itemsize == 4:
        return np.asarray(array, dtype=np.float32, order="C")  # of either byte order
    return numbers(operation, name, array)


def numbers(operation: str, name: str, value: Any) -> NDArray[np.float64]:
    """A contiguous array of float64."""
    array = named_array(operation, name, value)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"[rtf::{operation}] {name} has numbers of type {array.dtype}; real ones are needed")
    return np.asarray(array, dtype=np.float64, order="C")


def states(operation: str, name: str, value: Any, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """An array of float64 of this shape; leading axes of size 1, or missing at the front, are repeated."""
    array = numbers(operation, name, value)
    if array.shape == shape:
        return array
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
        found = repr(value) if value is None or isinstance(value, str | float) else f"of type {type(value).__name__}"
        raise ValueError(f"[rtf::{operation}] {name} is {found}; a whole number is needed") from None
    if number < lowest:
        raise ValueError(f"[rtf::{operation}] {name} is {number}; at least {lowest} is needed")
    if number > _LARGEST:
        raise ValueError(f"[rtf::{operation}] {name} is {number}; at most 2^53 can be asked for")
    return number


def flag(operation: str, name: str, value: Any) -> bool:
    """True or False, NumPy's too, or 1 or 0."""
    if isinstance(value, bool | np.bool_ | int | np.integer) and value in (0, 1):
        return bool(value)
    raise ValueError(f"[rtf::{operation}] {name} is {value!r}; True or False is needed")


def text(operation: str, name: str, value: Any) -> str:
    """A name, one of those that the library knows; which, it says itself."""
    if not isinstance(value, str) or not value.isprintable():
        raise ValueError(f"[rtf::{operation}] {name} is {value!r}; a name is needed")
    return value


def path_text(operation: str, path: Any, needed: str) -> str:
    """A path as the library takes it."""
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"[rtf::{operation}] path is a {type(path).__name__}; {needed}")
    found = os.fsdecode(path)
    try:
        found.encode()
    except UnicodeEncodeError:
        raise ValueError(f"[rtf::{operation}] path is {found!r}; one in UTF-8 is needed") from None
    if "\0" in found:
        raise ValueError(f"[rtf::{operation}] path is {found!r}; no path has a zero byte in it")
    return found


def is_form(value: Any) -> bool:
    """Whether it is a value of `rtf.forms`, or a list or tuple of such values."""
    if type(value) in NAMES:
        return True
    return isinstance(value, list | tuple) and len(value) > 0 and all(type(v) in NAMES for v in value)


def check_filter(operation: str, filter: Any) -> None:
    """Refuses what is no value of `rtf.forms`."""
    if not is_form(filter):
        name = type(filter).__name__
        raise ValueError(f"[rtf::{operation}] the filter is a {name}; a value of rtf.forms is needed")


def check_given(operation: str, a: Any, b: Any, h0: Any) -> None:
    """Refuses a without b, and either beside a form."""
    if is_form(a):
        if b is not None or h0 is not None:
            raise ValueError(f"[rtf::{operation}] a filter of rtf.forms has its coefficients; b and h0 must be left out")
    elif b is None:
        raise ValueError(f"[rtf::{operation}] b is missing; a and b are needed, or a filter of rtf.forms")


def check_lfilter(a: Any, b: Any, h0: Any) -> None:
    """The same, and refuses what torchaudio has in the place of h0."""
    check_given("lfilter", a, b, h0)
    if isinstance(h0, bool | np.bool_):
        raise ValueError(f"[rtf::lfilter] h0 is {h0}; torchaudio's clamp is not an argument here")


def check_convolve(x: Sequence[int], kernel: Sequence[int], bidirectional: bool) -> bool:
    """Refuses shapes that do not fit; whether the kernel has rows."""
    axes = len(kernel) - bidirectional
    if axes not in (1, 2) or (bidirectional and kernel[0] != 2):
        needed = "(2, taps) or (2, channels, taps)" if bidirectional else "(taps) or (channels, taps)"
        raise ValueError(f"[rtf::convolve] the kernel has shape {tuple(kernel)}; {needed} is needed")
    if len(x) < axes:
        needed = "(..., channels, length)" if axes == 2 else "(..., length)"
        raise ValueError(f"[rtf::convolve] x has shape {tuple(x)}; {needed} is needed")
    if axes == 2 and x[-2] == 0:
        raise ValueError(f"[rtf::convolve] x has shape {tuple(x)}: there are no channels")
    if axes == 2 and kernel[-2] != x[-2]:
        raise ValueError(f"[rtf::convolve] the kernel has {kernel[-2]} rows; there are {x[-2]} channels")
    if kernel[-1] == 0:
        raise ValueError("[rtf::convolve] the kernel has no taps")
    return axes == 2


def packed(operation: str, a: Any, b: Any, h0: Any) -> Packed | list[Packed]:
    """A filter as `_core` takes it: given as a form or a list of forms, or by coefficients."""
    check_given(operation, a, b, h0)
    if is_form(a):
        return packed_filter(operation, a)
    return packed_form(operation, PolynomialRatio(b, a) if h0 is None else TransferFunction(a, b, h0))


def packed_filter(operation: str, filter: Any) -> Packed | list[Packed]:
    """The same of a form or a list of forms."""
    check_filter(operation, filter)
    if type(filter) not in NAMES:
        return [packed_form(operation, form) for form in filter]
    return packed_form(operation, filter)


def packed_form(operation: str, form: Form) -> Packed:
    """The name of a form, and its fields as arrays."""
    fields: tuple[Any, ...] = tuple(packed_field(operation, name, value) for name, value in zip(form._fields, form, strict=True))
    if isinstance(form, TransferFunction | TrainedTransferFunction | PolynomialRatio):
        numbers_of = dict(zip(form._fields, fields, strict=True))
        check_finite(operation, "b", numbers_of["b"])
        check_finite(operation, "a", numbers_of["a"], int(isinstance(form, PolynomialRatio)))
    return NAMES[type(form)], fields


def check_finite(operation: str, name: str, coefficients: NDArray[np.float64], first: int = 0) -> None:
    """Refuses what is not finite by its place among the coefficients as they were given, from the first one on."""
    if coefficients.ndim == 0 or np.isfinite(coefficients[..., first:]).all():
        return  # a single number is refused for that
    for *rows, column in np.argwhere(~np.isfinite(coefficients[..., first:]))[:1]:
        place = (*rows, column + first)
        where = "".join(f"[{index}]" for index in place)
        raise ValueError(f"[rtf::{operation}] {name}{where} is {coefficients[place]}; coefficients must be finite")


def packed_field(operation: str, name: str, value: Any) -> Any:
    if name == "length":
        return count(operation, name, value)
    if name not in ("poles", "zeros", "residues"):
        return numbers(operation, name, value)
    array = named_array(operation, name, value)
    if array.dtype.kind not in "biufc":
        raise ValueError(f"[rtf::{operation}] {name} has numbers of type {array.dtype}; complex ones are needed")
    return np.asarray(array, dtype=np.complex128, order="C")


def unpacked(found: Any) -> Any:
    """Back to values of `rtf.forms`: one, or a list where there are several channels."""
    if isinstance(found, list):
        return [unpacked(one) for one in found]
    name, fields = found
    return FORMS[name](*fields)
