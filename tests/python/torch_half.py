"""Skips what needs the half of the package that a build without PyTorch does not have."""

from pathlib import Path

import pytest
import rtf


def need_torch_half():
    torch = pytest.importorskip("torch")
    if not (Path(rtf._core.__file__).parent / "librtf_torch.so").exists():
        pytest.skip("a build without PyTorch", allow_module_level=True)
    return torch
