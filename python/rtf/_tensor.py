"""The functions of `rtf.functions`, `rtf.response` and `rtf.toolbox` for tensors: the same arguments, over `torch.ops.rtf`.

`lfilter`, `convolve`, `freqz`, `group_delay`, `correct` and `wrap` have gradients, and so has `kernel` with the methods
'auto' and 'wrapped'; forms other than tf and ba are read without any, as everything is by the other functions: they go
through NumPy, and what comes back lies where the first tensor was.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from . import functions, response, toolbox
from ._dispatch import as_array, check_lfilter, count, is_form
from ._library import ops
from .forms import Array, Filter, PolynomialRatio, TrainedTransferFunction, TransferFunction

Coefficients = tuple[Tensor, Tensor, Tensor | None]
R = TypeVar("R")


def _tensors(value: Any) -> Iterator[Tensor]:
    """Those in a value, or in the tuples and lists of it."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for one in value:
            yield from _tensors(one)


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same tuples and lists with other things in them."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_mapped(one, change) for one in value))
    if isinstance(value, tuple | list):
        return type(value)(_mapped(one, change) for one in value)
    return change(value)


def _through_numpy(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    device = next(_tensors([args, list(kwargs.values())])).device

    def to_array(value: Any) -> Any:
        return as_array(value) if isinstance(value, Tensor) else value

    def to_tensor(value: Any) -> Any:
        return torch.from_numpy(value).to(device) if isinstance(value, np.ndarray) else value

    arrays = {name: _mapped(value, to_array) for name, value in kwargs.items()}
    return _mapped(function(*_mapped(args, to_array), **arrays), to_tensor)


def _device(operation: str, *values: Any) -> torch.device:
    """Where all tensors among the values lie."""
    first, *rest = (tensor.device for tensor in _tensors(values))
    for other in rest:
        if other != first:
            raise ValueError(f"[rtf::{operation}] there are tensors on {first} and on {other}; one device is needed")
    return first


def _real(operation: str, name: str, value: Any, device: torch.device) -> Tensor:
    """A tensor of real numbers: of what is none, and of whole numbers, in float64."""
    if not isinstance(value, Tensor | np.ndarray):
        value = torch.as_tensor(value, dtype=torch.float64, device=device)
    found = torch.as_tensor(value, device=device)
    if found.is_complex():
        raise ValueError(f"[rtf::{operation}] {name} has numbers of type {found.dtype}; real ones are needed")
    return found if found.is_floating_point() else found.double()


def _count(operation: str, name: str, value: int) -> int:
    return value if torch.compiler.is_compiling() else count(operation, name, value)  # it may be a symbol there


def _called(operation: str, operator: Callable[..., R], *args: Any) -> R:
    """What the operator returns; a refusal of one of its parts bears the name of the function that was called."""
    if torch.compiler.is_compiling():
        return operator(*args)
    try:
        return operator(*args)
    except (ValueError, RuntimeError) as error:
        head, mark, rest = str(error).partition("] ")
        if not head.startswith("[rtf::") or head == f"[rtf::{operation}":
            raise
        raise type(error)(f"[rtf::{operation}{mark}{rest}") from None


def _coefficients(operation: str, a: Any, b: Any, h0: Any, *beside: Any) -> Coefficients:
    """a, b and h0 as tensors of one device; numbers and lists among them are float64."""
    if b is None:
        raise ValueError(f"[rtf::{operation}] b is missing; a and b are needed, or a filter of rtf.forms")
    device = _device(operation, *beside, a, b, h0)
    gain = None if h0 is None else _real(operation, "h0", h0, device)
    return _real(operation, "a", a, device), _real(operation, "b", b, device), gain


def _rational(operation: str, a: Any, b: Any, h0: Any, *beside: Any) -> Coefficients | None:
    """The coefficients of a filter, None for one that has others."""
    if not is_form(a):
        return _coefficients(operation, a, b, h0, *beside)
    if b is not None or h0 is not None:
        raise ValueError(f"[rtf::{operation}] a filter of rtf.forms has its coefficients; b and h0 must be left out")
    if isinstance(a, TrainedTransferFunction):
        a = functions.correct(a)
    if isinstance(a, PolynomialRatio):
        return _coefficients(operation, a.a, a.b, None, *beside)
    return _coefficients(operation, *a, *beside) if isinstance(a, TransferFunction) else None


def lfilter(x: Any, a: Any, b: Any = None, h0: Any = None, zi: Any = None, return_zf: bool = False) -> Any:
    if not is_form(a):
        check_lfilter(b, h0)
    found = _rational("lfilter", a, b, h0, x, zi)
    if found is None:
        found = _coefficients("lfilter", *functions.plain_coefficients(a), x, zi)
    device = found[0].device
    x = _real("lfilter", "x", x, device)
    if zi is not None:
        zi = _real("lfilter", "zi", zi, device)
    y, zf = _called("lfilter", ops.lfilter, x, *found, zi, return_zf)
    return (y, zf) if return_zf else y


def kernel(a: Any, b: Any = None, h0: Any = None, *, length: int, method: str = "auto") -> Tensor:
    length = _count("kernel", "length", length)
    trained = a.length if isinstance(a, TrainedTransferFunction) else None
    wrapped = method == "wrapped" or (method == "auto" and trained is not None and length <= trained)
    found: Coefficients | None = None
    if wrapped and trained is not None:
        found = _coefficients("kernel", a.a, a.b, a.h0)
    elif method in ("auto", "wrapped"):
        found = _rational("kernel", a, b, h0)
    k: Tensor
    if found is None:
        k = _through_numpy(functions.kernel, a, b, h0, length=length, method=method)
        return k
    rows = any(c is not None and c.dim() == (1 if i == 2 else 2) for i, c in enumerate(found))
    single = all(c is None or c.dtype == torch.float32 for c in found)
    rational = _called("kernel", ops.rational, *found)
    k = ops.kernel(*rational, trained or length)[:, :length] if wrapped else ops.exact_kernel(*rational, length)
    k = k.float() if single else k
    return k if rows else k[0]


def convolve(x: Any, kernel: Any, *, bidirectional: bool = False) -> Tensor:
    device = _device("convolve", x, kernel)
    x, taps = _real("convolve", "x", x, device), _real("convolve", "kernel", kernel, device)
    taps = taps.to(torch.float64 if x.dtype == torch.float64 else torch.float32)
    axes = taps.dim() - bidirectional
    if axes not in (1, 2) or (bidirectional and taps.shape[0] != 2):
        needed = "(2, taps) or (2, channels, taps)" if bidirectional else "(taps) or (channels, taps)"
        raise ValueError(f"[rtf::convolve] the kernel has shape {list(taps.shape)}; {needed} is needed")
    if x.dim() < axes:
        needed = "(..., channels, length)" if axes == 2 else "(..., length)"
        raise ValueError(f"[rtf::convolve] x has shape {list(x.shape)}; {needed} is needed")
    if axes == 2 and taps.shape[-2] != x.shape[-2]:
        raise ValueError(f"[rtf::convolve] the kernel has {taps.shape[-2]} rows; there are {x.shape[-2]} channels")
    if taps.shape[-1] == 0 or (axes == 2 and x.shape[-2] == 0):
        what = "the kernel has no taps" if taps.shape[-1] == 0 else f"x has shape {list(x.shape)}: there are no channels"
        raise ValueError(f"[rtf::convolve] {what}")
    if x.numel() == 0:
        none: Tensor = x + 0 * taps.sum().to(x.dtype)  # with a gradient of zeros
        return none
    if axes == 1:  # for all rows, which are then the channels
        rows = x.reshape(1, -1, x.shape[-1])
        taps = taps.unsqueeze(-2).expand(*taps.shape[:-1], rows.shape[1], taps.shape[-1])
    else:
        rows = x.reshape(-1, *x.shape[-2:])
    y: Tensor = ops.convolve(rows.transpose(1, 2), taps, bidirectional)
    return y.transpose(1, 2).reshape(x.shape)


def _between(operation: str, filter: Any, form: type[Any], length: int) -> tuple[Tensor, Tensor, Tensor]:
    """a, and what the operator makes of b and h0, with rows where the filter has them."""
    if type(filter) is not form:
        raise ValueError(f"[rtf::{operation}] the filter is not an rtf.{form.__name__}")
    operator, length = getattr(ops, operation), _count(operation, "length", length)
    a, b, h0 = _coefficients(operation, filter.a, filter.b, filter.h0)
    assert h0 is not None
    if b.dim() == 2:
        return a, *operator(a, b, h0, length)
    b, h0 = operator(a[None], b[None], h0.reshape(1), length)
    return a, b[0], h0[0]


def correct(trained: TrainedTransferFunction) -> TransferFunction:
    length = getattr(trained, "length", 1)  # of what has none nothing is computed
    return TransferFunction(*_between("correct", trained, TrainedTransferFunction, length))


def wrap(filter: TransferFunction, length: int) -> TrainedTransferFunction:
    return TrainedTransferFunction(*_between("wrap", filter, TransferFunction, length), length)


def _grid(operation: str, points: Any, whole: bool, device: torch.device) -> Tensor:
    """The angles that `points` and `whole` stand for."""
    if not isinstance(points, Tensor | list | tuple) and getattr(points, "ndim", 0) == 0:
        if torch.compiler.is_compiling():  # the same numbers, by what can be traced
            step: float = (2 if whole else 1) * math.pi / points
            return torch.arange(points, dtype=torch.float64, device=device) * step
        return torch.from_numpy(response.grid(operation, points, whole)).to(device)
    angles = _real(operation, "points", points, device)
    if whole:
        raise ValueError(f"[rtf::{operation}] whole is for a number of points; here points are angles")
    if angles.dim() != 1:
        raise ValueError(f"[rtf::{operation}] points has shape {list(angles.shape)}; a number or (angles) is needed")
    return angles


def _response(operation: str, a: Any, b: Any, h0: Any, points: Any, whole: bool) -> tuple[Tensor, Tensor]:
    found = None if is_form(a) and not list(_tensors(a)) else _rational(operation, a, b, h0, points)
    if found is None:
        angles, values = _through_numpy(getattr(response, operation), a, b, h0, points=points, whole=whole)
        return angles, values
    angles = _grid(operation, points, whole, found[0].device)
    return angles, getattr(ops, operation)(*found, angles)


def freqz(a: Any, b: Any = None, h0: Any = None, *, points: Any = 512, whole: bool = False) -> tuple[Tensor, Tensor]:
    return _response("freqz", a, b, h0, points, whole)


def group_delay(a: Any, b: Any = None, h0: Any = None, *, points: Any = 512, whole: bool = False) -> tuple[Tensor, Tensor]:
    return _response("group_delay", a, b, h0, points, whole)


def poles(a: Array | Filter, b: Array = None, h0: Array = None) -> Any:
    return _through_numpy(response.poles, a, b, h0)


def convert(filter: Filter, to: str, **options: Any) -> Any:
    return _through_numpy(toolbox.convert, filter, to, **options)


def fit(kernel: Array, order: int, **options: Any) -> toolbox.Fit:
    found: toolbox.Fit = _through_numpy(toolbox.fit, kernel, order, **options)
    return found


def reduce(filter: Filter, order: int, **options: Any) -> toolbox.Reduction:
    found: toolbox.Reduction = _through_numpy(toolbox.reduce, filter, order, **options)
    return found


def stabilize(filter: Filter, method: str, **options: Any) -> toolbox.Stabilized:
    found: toolbox.Stabilized = _through_numpy(toolbox.stabilize, filter, method, **options)
    return found
