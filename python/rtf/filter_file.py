"""`read_filter` and `write_filter`: the filter files of the command and of C++."""

from __future__ import annotations

import os
from typing import Any

from . import _core
from ._dispatch import given, packed_filter, path_text, unpacked
from .forms import Filter

__all__ = ["read_filter", "write_filter"]


_NEEDED = "that of a filter file is needed"


def read_filter(path: str | os.PathLike[str]) -> Any:
    """The filter of a file, in the form that it has there.

    Parameters
    ----------
    path : JSON, or safetensors by the suffix .safetensors
        As `write_filter`, the command and C++ write them.

    Returns
    -------
    filter : a value of `rtf.forms`
        With rows, or a list of values, where the file has several channels. A `mimo` of one input and one output is a
        TransferFunction.

    Examples
    --------
    >>> import pathlib, tempfile, rtf
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "low.json"
    >>> _ = file.write_text('{"a": [-0.5], "b": [0.25], "h0": 0.25}')
    >>> rtf.read_filter(file)
    TransferFunction(a=array([-0.5]), b=array([0.25]), h0=0.25)
    """
    return unpacked(_core.read_filter(path_text("read_filter", path, _NEEDED)))


def write_filter(path: str | os.PathLike[str], filter: Filter) -> None:
    """A filter as a file, for the command, for C++ and for `read_filter`. It appears whole or not at all.

    Parameters
    ----------
    path : JSON, or safetensors by the suffix .safetensors, which holds a TransferFunction or TrainedTransferFunction
    filter : a value of `rtf.forms`, or a list of them, or a layer
        Written in float64, so that `read_filter` gives the same numbers. Of a layer with two directions the rows of both,
        forward first, which nothing in the file says: of kernels (2 channels, length) `rtf.convolve` takes
        `kernels.reshape(2, channels, length)` with `bidirectional=True`.

    Examples
    --------
    >>> import pathlib, tempfile, rtf
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "low.json"
    >>> rtf.write_filter(file, rtf.ZeroPoleGain(zeros=[-1], poles=[0.5], gain=0.25))
    >>> rtf.read_filter(file)
    ZeroPoleGain(zeros=array([-1.+0.j]), poles=array([0.5+0.j]), gain=0.25, h0=0.0)
    """
    _core.write_filter(path_text("write_filter", path, _NEEDED), packed_filter("write_filter", given(filter, wide=True)))
