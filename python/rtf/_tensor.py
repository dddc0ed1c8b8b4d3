"""The functions of `rtf.functions` and `rtf.toolbox` for tensors: the same arguments, over `torch.ops.rtf`.

`lfilter`, `convolve`, `freqz`, `group_delay`, `correct` and `wrap` have gradients, and so has `kernel` with the methods
'auto' and 'wrapped'; forms other than tf and ba are read without any, as everything is by the other functions: they go
through NumPy, and what comes back lies where the first tensor was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from . import functions, toolbox
from ._dispatch import is_form
from ._library import ops
from .forms import Array, Filter, PolynomialRatio, TrainedTransferFunction, TransferFunction

Coefficients = tuple[Tensor, Tensor, Tensor | None]


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
        return value.detach().cpu().numpy() if isinstance(value, Tensor) else value

    def to_tensor(value: Any) -> Any:
        return torch.from_numpy(value).to(device) if isinstance(value, np.ndarray) else value

    arrays = {name: _mapped(value, to_array) for name, value in kwargs.items()}
    return _mapped(function(*_mapped(args, to_array), **arrays), to_tensor)


def _coefficients(operation: str, a: Any, b: Any, h0: Any, *beside: Any) -> Coefficients:
    """a, b and h0 as tensors of one device; numbers and lists among them are float64."""
    if b is None:
        raise ValueError(f"[rtf::{operation}] b is missing; a and b are needed, or a filter of rtf.forms")
    device = next(_tensors([a, b, h0, *beside])).device

    def tensor(value: Any) -> Tensor:
        return value if isinstance(value, Tensor) else torch.as_tensor(value, dtype=torch.float64, device=device)

    return tensor(a), tensor(b), None if h0 is None else tensor(h0)


def _rational(operation: str, a: Any, b: Any, h0: Any) -> Coefficients | None:
    """The coefficients of a filter, None for one that has others."""
    if not is_form(a):
        return _coefficients(operation, a, b, h0)
    if b is not None or h0 is not None:
        raise ValueError(f"[rtf::{operation}] a filter of rtf.forms has its coefficients; b and h0 must be left out")
    if isinstance(a, TrainedTransferFunction):
        a = correct(a)
    if isinstance(a, PolynomialRatio):
        return _coefficients(operation, a.a, a.b, None)
    return _coefficients(operation, *a) if isinstance(a, TransferFunction) else None


def lfilter(x: Any, a: Any, b: Any, h0: Any = None, zi: Any = None, return_zf: bool = False) -> Any:
    a, b, h0 = _coefficients("lfilter", a, b, h0, x, zi)
    x = torch.as_tensor(x, device=a.device)
    if zi is not None:
        zi = torch.as_tensor(zi, device=a.device)
    y, zf = ops.lfilter(x, a, b, h0, zi, return_zf)
    return (y, zf) if return_zf else y


def kernel(a: Any, b: Any = None, h0: Any = None, *, length: int, method: str = "auto") -> Tensor:
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
    rational = ops.rational(*found)
    k = ops.kernel(*rational, trained or length)[:, :length] if wrapped else ops.exact_kernel(*rational, length)
    k = k.float() if single else k
    return k if rows else k[0]


def convolve(x: Any, kernel: Any, *, bidirectional: bool = False) -> Tensor:
    device = next(_tensors([x, kernel])).device
    x, taps = torch.as_tensor(x, device=device), torch.as_tensor(kernel, device=device)
    if taps.dim() == 1 + bidirectional:  # for all rows, which are then the channels
        rows = x.reshape(1, -1, x.shape[-1])
        taps = taps.unsqueeze(-2).expand(*taps.shape[:-1], rows.shape[1], taps.shape[-1])
    else:
        if x.dim() < 2:
            raise ValueError(f"[rtf::convolve] x has shape {list(x.shape)}; (..., channels, length) is needed for a "
                             f"kernel of shape {list(taps.shape)}")  # fmt: skip
        rows = x.reshape(-1, *x.shape[-2:])
    y: Tensor = ops.convolve(rows.transpose(1, 2), taps, bidirectional)
    return y.transpose(1, 2).reshape(x.shape)


def _between(operator: Callable[..., Any], filter: Any, length: int) -> tuple[Tensor, Tensor, Tensor]:
    """a, and what the operator makes of b and h0, with rows where the filter has them."""
    a, b, h0 = _coefficients(operator.__name__, filter.a, filter.b, filter.h0)
    assert h0 is not None
    if b.dim() == 2:
        return a, *operator(a, b, h0, length)
    b, h0 = operator(a[None], b[None], h0.reshape(1), length)
    return a, b[0], h0[0]


def correct(trained: TrainedTransferFunction) -> TransferFunction:
    return TransferFunction(*_between(ops.correct, trained, trained.length))


def wrap(filter: TransferFunction, length: int) -> TrainedTransferFunction:
    return TrainedTransferFunction(*_between(ops.wrap, filter, length), length)


def _response(operation: str, a: Any, b: Any, h0: Any, points: Any, whole: bool) -> tuple[Tensor, Tensor]:
    found = None if is_form(a) and not list(_tensors(a)) else _rational(operation, a, b, h0)
    if found is None:
        angles, response = _through_numpy(getattr(toolbox, operation), a, b, h0, points=points, whole=whole)
        return angles, response
    if not isinstance(points, Tensor):
        points = torch.from_numpy(toolbox.grid(operation, points, whole)).to(found[0].device)
    elif whole:
        raise ValueError(f"[rtf::{operation}] whole is for a number of points; here points are angles")
    return points, getattr(ops, operation)(*found, points)


def freqz(a: Any, b: Any = None, h0: Any = None, *, points: Any = 512, whole: bool = False) -> tuple[Tensor, Tensor]:
    return _response("freqz", a, b, h0, points, whole)


def group_delay(a: Any, b: Any = None, h0: Any = None, *, points: Any = 512, whole: bool = False) -> tuple[Tensor, Tensor]:
    return _response("group_delay", a, b, h0, points, whole)


def poles(a: Array | Filter, b: Array = None, h0: Array = None) -> Any:
    return _through_numpy(toolbox.poles, a, b, h0)


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
