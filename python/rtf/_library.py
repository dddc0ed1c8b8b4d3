"""The operators of `torch.ops.rtf`, loaded: those for the GPU too where PyTorch finds one and the build has them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import torch

from . import _core
from ._dispatch import count

__all__ = ["constant_in_graphs", "count_or_symbol", "ops"]

P = ParamSpec("P")
R = TypeVar("R")


def constant_in_graphs(function: Callable[P, R]) -> Callable[P, R]:
    """`torch.compiler.assume_constant_result`, whose first use imports the compiler: seconds."""
    setattr(function, "_dynamo_marked_constant", True)  # noqa: B010
    return function


def count_or_symbol(operation: str, name: str, value: int, lowest: int = 1) -> int:
    """`count`, or in what is compiled the value as it is, a symbol perhaps."""
    return value if torch.compiler.is_compiling() else count(operation, name, value, lowest)


def _load() -> None:
    folder = Path(_core.__file__).parent
    load: Any = torch.ops.load_library
    # Who has loaded them from elsewhere, a build of C++ say, keeps those: a second library would end the process.
    if not hasattr(torch.ops.rtf, "kernel"):
        if not (folder / "librtf_torch.so").exists():
            raise ImportError("rtf was built without PyTorch; install it again where PyTorch is")
        try:
            load(folder / "librtf_torch.so")
        except OSError as error:
            why = str(error).splitlines()[0]
            raise ImportError(f"rtf was built for another PyTorch than {torch.__version__}; install it again ({why})") from None
    on_gpu = folder / "librtf_torch_cuda.so"
    if not torch.cuda.is_available() or not on_gpu.exists():
        return
    if torch._C._dispatch_has_kernel_for_dispatch_key("rtf::kernel", "CUDA"):
        return
    try:
        load(on_gpu)
    except OSError as error:
        warnings.warn(f"rtf runs on the CPU alone: {str(error).splitlines()[0]}", RuntimeWarning, stacklevel=2)


_load()
ops: Any = torch.ops.rtf
