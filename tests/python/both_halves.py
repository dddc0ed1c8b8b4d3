"""One half of the package against the other: the same call with arrays and with tensors."""

import numpy as np
import pytest
from torch_half import need_torch_half

torch = need_torch_half()


def tensors(value):
    """Arrays as tensors, also those in a form or a list."""
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.copy())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(tensors, value))
    if isinstance(value, tuple):
        return tuple(map(tensors, value))
    return [tensors(v) for v in value] if isinstance(value, list) and not isinstance(value[0], float) else value


def outcome(function, args, kwargs):
    try:
        return function(*args, **kwargs)
    except ValueError as error:
        return str(error)


def assert_same(function, *args, **kwargs):
    """Both halves compute the same, or both refuse in the name of the function; returns what NumPy said."""
    wanted = outcome(function, args, kwargs)
    got = outcome(function, [tensors(v) for v in args], {name: tensors(v) for name, v in kwargs.items()})
    if isinstance(wanted, str):
        assert isinstance(got, str), (wanted, got)
        assert got.startswith(f"[rtf::{function.__name__}]") and wanted.startswith(f"[rtf::{function.__name__}]"), (wanted, got)
        assert "\n" not in got
        return wanted
    for g, w in zip(*(v if isinstance(v, tuple) else (v,) for v in (got, wanted)), strict=True):
        if not isinstance(w, np.ndarray):
            assert float(g) == pytest.approx(float(w), rel=1e-12)
            continue
        assert isinstance(g, torch.Tensor), got
        assert g.shape == w.shape and str(g.dtype) == f"torch.{w.dtype}"
        np.testing.assert_allclose(g.detach().numpy(), w, rtol=1e-10, atol=1e-10)
    return wanted
