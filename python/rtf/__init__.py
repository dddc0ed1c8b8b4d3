"""Rational transfer functions as layers and filters: H(z) = h0 + (b_1 w + ...) / (1 + a_1 w + ...), w = 1/z.

Functions take NumPy arrays or tensors and give back the same kind (`rtf.functions`, `rtf.response`, `rtf.toolbox`);
filters in other forms are the values of `rtf.forms`. `rtf.Stream` runs an exported model sample by sample, `rtf.export`
makes such files. None of these needs PyTorch:
`rtf.RTF`, `rtf.nn` and, for what `rtf train` left behind, `rtf.load`, which do, are imported when they are first used.
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _core
from ._core import version as __version__
from .deployment import Export, ExportedLayer, export
from .filter_file import read_filter, write_filter
from .forms import (
    MimoTransferFunction,
    Modal,
    PolynomialRatio,
    SecondOrderSections,
    StateSpace,
    TrainedTransferFunction,
    TransferFunction,
    ZeroPoleGain,
)
from .functions import convolve, correct, kernel, lfilter, wrap
from .response import freqz, group_delay, poles
from .sequences import Sequences
from .stream import Stream
from .toolbox import (
    ConversionReport,
    Fit,
    Reduction,
    Stabilized,
    convert,
    fit,
    reduce,
    stabilize,
)

if TYPE_CHECKING:  # what is imported when it is first used, see below
    from . import nn, plot
    from .checkpoint import load
    from .released import RTF

__all__ = [
    "ConversionReport",
    "Export",
    "ExportedLayer",
    "Fit",
    "MimoTransferFunction",
    "Modal",
    "PolynomialRatio",
    "RTF",
    "Reduction",
    "SecondOrderSections",
    "Sequences",
    "Stabilized",
    "StateSpace",
    "Stream",
    "TrainedTransferFunction",
    "TransferFunction",
    "ZeroPoleGain",
    "__version__",
    "convert",
    "convolve",
    "correct",
    "export",
    "fit",
    "freqz",
    "group_delay",
    "kernel",
    "lfilter",
    "load",
    "nn",
    "plot",
    "poles",
    "read_filter",
    "reduce",
    "stabilize",
    "wrap",
    "write_filter",
]

# What takes long to import: the module that has the name, and the name there.
_LATER = {"RTF": ("released", "RTF"), "load": ("checkpoint", "load"), "nn": ("nn", ""), "plot": ("plot", "")}
_NEEDED = {"torch": "PyTorch", "matplotlib": "matplotlib"}


def _installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):  # of a stand-in for it
        return False


if not TYPE_CHECKING:  # which takes all for installed, and a name that is not there for an error
    # What cannot be had is not listed, so that `from rtf import *` and `help(rtf)` do without it.
    if not _installed("torch") or not (Path(_core.__file__).parent / "librtf_torch.so").exists():
        __all__.remove("RTF")
        __all__.remove("nn")
    if not _installed("matplotlib"):
        __all__.remove("plot")

    def __getattr__(name: str) -> Any:
        if name not in _LATER:
            raise AttributeError(f"module 'rtf' has no attribute '{name}'")
        module, attribute = _LATER[name]
        try:
            found: Any = importlib.import_module(f".{module}", __name__)
        except ModuleNotFoundError as error:
            package = (error.name or "").partition(".")[0]
            if package not in _NEEDED:
                raise
            raise AttributeError(f"rtf.{name} needs {_NEEDED[package]}, which is not installed") from None
        globals()[name] = getattr(found, attribute) if attribute else found
        return globals()[name]


def __dir__() -> list[str]:
    return __all__
