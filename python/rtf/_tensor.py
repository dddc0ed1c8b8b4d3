"""The functions of `rtf.functions`, `rtf.response` and `rtf.toolbox` for tensors: the same arguments, over `torch.ops.rtf`.

`lfilter`, `convolve`, `freqz`, `group_delay`, `correct` and `wrap` have gradients, and so has `kernel` with the methods
'auto' and 'wrapped'; forms other than tf and ba, but for sections in `lfilter`, have none there, and tensors of them that
require one are refused. The other functions go through NumPy: they read the numbers alone, and what comes back lies where
the first tensor was.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from . import functions, response, toolbox
from ._dispatch import (
    as_array,
    called,
    check_convolve,
    check_filter,
    check_given,
    check_lfilter,
    flag,
    has_tensor,
    is_form,
    samples,
)
from ._factors import Filtered, check_shapes, factors, forms_of, in_a_row, in_factors, is_one
from ._library import count_or_symbol, ops
from .forms import NAMES, Array, Filter, PolynomialRatio, TrainedTransferFunction, TransferFunction, ZeroPoleGain

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
    devices = [tensor.device for tensor in _tensors(values)]
    for other in devices[1:]:
        if other != devices[0]:
            message = f"[rtf::{operation}] there are tensors on {devices[0]} and on {other}; one device is needed"
            raise ValueError(message)
    return devices[0] if devices else torch.device("cpu")


def _check_gradient(operation: str, without: Any, *values: Any) -> None:
    """Refuses tensors whose gradient would be lost; `without` is the form or the method that has none."""
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in _tensors(values)):
        one = without[0] if isinstance(without, list | tuple) and type(without) not in NAMES else without
        what = f"method '{one}'" if isinstance(one, str) else f"a {type(one).__name__}"
        raise ValueError(f"[rtf::{operation}] a tensor requires a gradient, and {what} has none; detach it")


def _real(operation: str, name: str, value: Any, device: torch.device) -> Tensor:
    """A tensor of real numbers; whole numbers and lists become float64. A list with tensors in it keeps their gradients."""
    if isinstance(value, tuple | list) and has_tensor(value):
        parts = [_real(operation, name, one, device) for one in value]
        if any(one.shape != parts[0].shape for one in parts):
            shapes = [tuple(one.shape) for one in parts]
            raise ValueError(f"[rtf::{operation}] {name} is a list of the shapes {shapes}; one shape is needed")
        return torch.stack([one.double() for one in parts])
    if not isinstance(value, Tensor) and not torch.compiler.is_compiling():
        value = samples(operation, name, value)  # refuses in the words of the other half
    if isinstance(value, np.ndarray):
        found = torch.as_tensor(value if torch.compiler.is_compiling() else _plain(value), device=device)
    else:
        found = torch.as_tensor(value, dtype=None if isinstance(value, Tensor) else torch.float64, device=device)
    if found.is_complex():
        raise ValueError(f"[rtf::{operation}] {name} has numbers of type {found.dtype}; real ones are needed")
    return found if found.is_floating_point() else found.double()


def _plain(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What PyTorch takes: it warns of arrays that are read-only, and refuses steps backwards, of a single number too."""
    return array if array.flags.writeable and min(array.strides, default=0) >= 0 else array.copy()


def _computed(x: Tensor) -> Tensor:
    """Samples as the operators take them: float16 is computed in float32."""
    return x.float() if x.dtype == torch.float16 else x


def _called(operation: str, operator: Callable[..., R], *args: Any) -> R:
    """`called`, in what is compiled too."""
    return operator(*args) if torch.compiler.is_compiling() else called(operation, operator, *args)


def _coefficients(operation: str, a: Any, b: Any, h0: Any, *beside: Any) -> Coefficients:
    """a, b and h0 as tensors of one device; numbers and lists among them are float64."""
    device = _device(operation, *beside, a, b, h0)
    gain = None if h0 is None else _real(operation, "h0", h0, device)
    return _real(operation, "a", a, device), _real(operation, "b", b, device), gain


def _rational(operation: str, a: Any, b: Any, h0: Any, *beside: Any) -> Coefficients | None:
    """The coefficients of a filter, None for one that has others."""
    check_given(operation, a, b, h0)
    if not is_form(a):
        return _coefficients(operation, a, b, h0, *beside)
    if type(a) not in NAMES:
        return _joined(operation, a, *beside)
    if isinstance(a, TrainedTransferFunction):
        a = _called(operation, functions.correct, a)
    if isinstance(a, PolynomialRatio):
        return _coefficients(operation, a.a, a.b, None, *beside)
    return _coefficients(operation, *a, *beside) if isinstance(a, TransferFunction) else None


def _joined(operation: str, forms: list[Any], *beside: Any) -> Coefficients | None:
    """A row for each filter of a list; None where the NumPy half has to say what is wrong with it."""
    if len({type(form) for form in forms}) > 1 or not isinstance(forms[0], TransferFunction | PolynomialRatio):
        return None
    rows = []
    for form in forms:
        found = _rational(operation, form, None, None, *forms, *beside)
        if found is None or _have_rows(found):
            return None
        rows.append(_called(operation, ops.rational, *found))
    order = max(a.shape[1] for a, _, _ in rows)
    a, b = (torch.cat([torch.nn.functional.pad(row[i], (0, order - row[i].shape[1])) for row in rows]) for i in (0, 1))
    return a, b, torch.cat([h0 for _, _, h0 in rows])


def _have_rows(found: Coefficients) -> bool:
    a, b, h0 = found
    return a.dim() == 2 or b.dim() == 2 or (h0 is not None and h0.dim() == 1)


def lfilter(x: Any, a: Any, b: Any = None, h0: Any = None, zi: Any = None, return_zf: bool = False) -> Any:
    check_lfilter(a, b, h0)
    return_zf = flag("lfilter", "return_zf", return_zf)
    if in_factors(a):
        return _through_sections(x, a, zi, return_zf)
    found = _rational("lfilter", a, b, h0, x, zi)
    if found is None:
        found = _coefficients("lfilter", *functions.plain_coefficients(a), x, zi)
        _check_gradient("lfilter", a, a)
    device = found[0].device
    x = _real("lfilter", "x", x, device)
    if zi is not None:
        zi = _real("lfilter", "zi", zi, device)
    y, zf = _called("lfilter", ops.lfilter, _computed(x), *found, zi, return_zf)
    y = y.to(x.dtype)
    return (y, zf) if return_zf else y


def _through_sections(x: Any, filter: Any, zi: Any, return_zf: bool) -> Any:
    for form in forms_of(filter):
        if isinstance(form, ZeroPoleGain):
            _check_gradient("lfilter", form, form)
    device = _device("lfilter", x, filter, zi)
    given, beside = factors(filter)
    channels = [_real("lfilter", "sections", one, device).double() for one in given]
    x = _real("lfilter", "x", x, device)
    if zi is not None:
        zi = _real("lfilter", "zi", zi, device)
    check_shapes(filter, channels, x, zi)
    count = max(len(one) for one in channels)
    passing = torch.tensor([1.0, 0, 0, 1, 0, 0], dtype=torch.float64, device=device)  # of those that lack
    stages = torch.stack([torch.cat((one, passing.expand(count - len(one), 6))) for one in channels], 1)
    rows = 0 if is_one(filter) else slice(None)

    def run(number: int, y: Tensor, a: Tensor, b: Tensor) -> Filtered:
        found: Filtered = _called("lfilter", ops.lfilter, y, a, b, None, None if zi is None else zi[number], return_zf)
        return found

    y, ends = in_a_row(list(stages[:, rows]), x.double(), run)
    if any(beside):
        y = y + torch.tensor(beside, dtype=torch.float64, device=device)[:, None][rows] * x
    y = y.to(x.dtype)
    return (y, torch.stack(ends)) if return_zf else y


def kernel(a: Any, b: Any = None, h0: Any = None, *, length: int, method: str = "auto") -> Tensor:
    check_given("kernel", a, b, h0)
    length = count_or_symbol("kernel", "length", length)
    trained = count_or_symbol("kernel", "length", a.length) if isinstance(a, TrainedTransferFunction) else None
    found: Coefficients | None = None
    if method in ("auto", "wrapped"):
        found = _rational("kernel", a, b, h0) if trained is None else _coefficients("kernel", *a[:3])
    k: Tensor
    if found is None:
        k = _through_numpy(functions.kernel, a, b, h0, length=length, method=method)
        _check_gradient("kernel", a if method == "auto" else method, a, b, h0)
        return k
    rational = _called("kernel", ops.rational, *found)
    if trained is None:
        k = _called("kernel", ops.kernel if method == "wrapped" else ops.exact_kernel, *rational, length)
    else:
        k = _called("kernel", ops.kernel, *rational, trained)[:, :length]
        if length > trained:
            corrected = _called("kernel", ops.correct, *rational, trained)
            whole = _called("kernel", ops.exact_kernel, rational[0], *corrected, length)
            k = torch.cat((k, whole[:, trained:]), 1)
    if b is not None and all(c is None or c.dtype == torch.float32 for c in found):
        k = k.float()
    return k if _have_rows(found) else k[0]


def convolve(x: Any, kernel: Any, *, bidirectional: bool = False) -> Tensor:
    bidirectional = flag("convolve", "bidirectional", bidirectional)
    device = _device("convolve", x, kernel)
    x, taps = _real("convolve", "x", x, device), _real("convolve", "kernel", kernel, device)
    taps = taps.to(torch.float64 if x.dtype == torch.float64 else torch.float32)
    each_channel = check_convolve(x.shape, taps.shape, bidirectional)
    if x.numel() == 0:
        none: Tensor = x + 0 * taps.sum().to(x.dtype)  # with a gradient of zeros
        return none
    if each_channel:
        rows = _computed(x).reshape(-1, *x.shape[-2:])
    else:  # for all rows, which are then the channels
        rows = _computed(x).reshape(1, -1, x.shape[-1])
        taps = taps.unsqueeze(-2).expand(*taps.shape[:-1], rows.shape[1], taps.shape[-1])
    y: Tensor = ops.convolve(rows.transpose(1, 2), taps, bidirectional)
    return y.transpose(1, 2).reshape(x.shape).to(x.dtype)


def _between(operation: str, filter: Any, form: type[Any], length: int) -> tuple[Tensor, Tensor, Tensor]:
    """a, and what the operator makes of b and h0, in float64, with rows where the filter has them."""
    check_filter(operation, filter)
    if type(filter) is not form:
        raise ValueError(f"[rtf::{operation}] the filter is not an rtf.{form.__name__}")
    length = count_or_symbol(operation, "length", length)
    found = _coefficients(operation, filter.a, filter.b, filter.h0)
    a, b, h0 = _called(operation, ops.rational, *found)
    b, h0 = _called(operation, getattr(ops, operation), a, b, h0, length)
    return (a, b, h0) if _have_rows(found) else (a[0], b[0], h0[0])


def correct(trained: TrainedTransferFunction) -> TransferFunction:
    length = getattr(trained, "length", 1)  # of what has none nothing is computed
    return TransferFunction(*_between("correct", trained, TrainedTransferFunction, length))


def wrap(filter: TransferFunction, length: int) -> TrainedTransferFunction:
    return TrainedTransferFunction(*_between("wrap", filter, TransferFunction, length), length)


def _grid(operation: str, points: Any, whole: bool, device: torch.device) -> Tensor:
    """The angles that `points` and `whole` stand for."""
    if isinstance(points, int) or (not isinstance(points, Tensor | list | tuple) and getattr(points, "ndim", 0) == 0):
        if torch.compiler.is_compiling():  # the same numbers, by what can be traced
            step: float = (2 if whole else 1) * math.pi / points
            return torch.arange(points, dtype=torch.float64, device=device) * step
        return torch.from_numpy(response.grid(operation, points, whole)).to(device)
    angles = _real(operation, "points", points, device)
    response.check_angles(operation, angles.shape, whole)
    return angles


def _response(operation: str, a: Any, b: Any, h0: Any, points: Any, whole: bool) -> tuple[Tensor, Tensor]:
    found = _rational(operation, a, b, h0, points)
    if found is None:
        angles, values = _through_numpy(getattr(response, operation), a, b, h0, points=points, whole=whole)
        _check_gradient(operation, a, a, points)
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
