"""`Stream`: a deployed model, or a filter, run sample by sample by the torch-free runtime."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _core
from ._dispatch import is_form, named_array, numbers, packed_filter, path_text, running, text
from .forms import Filter

__all__ = ["Stream"]


class Stream:
    """One stream of samples or tokens through a model file that `rtf export` or `rtf.export` wrote, or
    through a filter.

    A sample has `inputs` numbers, or is a token, a whole number below `vocabulary`; an answer has `outputs` numbers.
    Answers do not depend on how the samples are cut into calls, to the last bit. Arrays are NumPy's, float32 or float64 as
    the `precision` of the model says. Threads may use streams of their own at once; one stream serves one call at a time.

    Parameters
    ----------
    source : path of a model file, or a filter of `rtf.forms`, or a layer
        The channels of a filter become inputs and outputs. It has to be stable, and is run by the cheapest recurrence
        whose measured error holds 1e-5 in float32, 1e-10 in float64, or what rounding its coefficients does; poles and zeros
        or sections that coefficients do not hold so well, as sections in float64. It is measured over 1,024 samples;
        poles and zeros or sections are run on for as long as the slowest pole rings, where they may be off by 2.5e-4.
    precision : {'f32', 'f64'}, optional
        Of a filter, 'f64' unless said; a model file has its own.

    Examples
    --------
    >>> import rtf
    >>> stream = rtf.Stream(rtf.TransferFunction(a=[-0.5], b=[2], h0=2))
    >>> stream.step(1.0)
    array([2.])
    >>> saved = stream.save()
    >>> stream.process([0, 0, 0])
    array([[2. ],
           [1. ],
           [0.5]])
    >>> stream.restore(saved)
    >>> stream.step(0.0)
    array([2.])
    """

    def __init__(self, source: str | os.PathLike[str] | Filter, precision: str | None = None) -> None:
        source = running("stream", source)
        if is_form(source):
            precision = "f64" if precision is None else text("stream", "precision", precision)
            self._stream = _core.filter_stream(packed_filter("stream", source), precision)
        elif not isinstance(source, str | os.PathLike):
            raise ValueError(f"[rtf::stream] source is a {type(source).__name__}; a path or a filter of rtf.forms is needed")
        elif precision is not None:
            raise ValueError("[rtf::stream] precision is for a filter; a model file has its own")
        else:
            self._stream = _core.load_stream(path_text("stream", source, "that of a model file is needed"))

    @property
    def inputs(self) -> int:
        """Numbers of a sample; 1 for tokens."""
        return self._stream.inputs

    @property
    def outputs(self) -> int:
        """Numbers of an answer."""
        return self._stream.outputs

    @property
    def vocabulary(self) -> int:
        """How many tokens there are; 0 for a model that takes numbers."""
        return self._stream.vocabulary

    @property
    def precision(self) -> str:
        """'f32' or 'f64': the type of the arithmetic, the samples and the answers."""
        return self._stream.precision

    @property
    def finite(self) -> bool:
        """False once a number that is not finite has entered the state, until `reset` or `restore`."""
        return self._stream.finite

    def step(self, x: ArrayLike) -> NDArray[Any]:
        """The answer (outputs) to one sample: (inputs), or a number where that is 1."""
        sample = named_array("stream::step", "x", x)
        return self._stream.step(self._numbers("step", sample[None] if sample.ndim == 0 else sample))

    def process(self, x: ArrayLike) -> NDArray[Any]:
        """The answers (length, outputs) to a block: (length, inputs), or (length) where inputs is 1."""
        return self._stream.process(self._block("process", x))

    def prefill(self, x: ArrayLike) -> None:
        """Takes in a block whose answers are not wanted."""
        self._stream.prefill(self._block("prefill", x))

    def answer(self) -> NDArray[Any]:
        """The answer (outputs) for all samples so far, of a model that pools over them."""
        return self._stream.answer()

    def reset(self) -> None:
        """Forgets all samples."""
        self._stream.reset()

    def save(self) -> bytes:
        """The state: `restore` goes on from it, also in another process."""
        return self._stream.save()

    def restore(self, state: bytes) -> None:
        """Goes on from a saved state; one of another model is refused, and nothing changes."""
        if not isinstance(state, bytes):
            raise ValueError(f"[rtf::stream::restore] the state is a {type(state).__name__}; the bytes of save() are needed")
        self._stream.restore(state)

    def fork(self) -> Stream:
        """Another stream that goes on from where this one is, with the same weights in memory."""
        other = Stream.__new__(Stream)
        other._stream = self._stream.fork()
        return other

    def __copy__(self) -> Stream:
        return self.fork()

    def __deepcopy__(self, memo: dict[int, Any]) -> Stream:
        return self.fork()

    def __reduce__(self) -> Any:
        raise TypeError("[rtf::stream] a stream does not pickle; save() gives its state, for a stream of the same model")

    def _block(self, operation: str, x: ArrayLike) -> NDArray[Any]:
        """(length, inputs) in the type that the model takes."""
        block = named_array(f"stream::{operation}", "x", x)
        return self._numbers(operation, block[:, None] if block.ndim == 1 and self.inputs == 1 else block)

    def _numbers(self, operation: str, x: NDArray[Any]) -> NDArray[Any]:
        return model_numbers(f"stream::{operation}", x, self.vocabulary, self.precision)


def model_numbers(operation: str, x: NDArray[Any], vocabulary: int, precision: str) -> NDArray[Any]:
    """Samples in the type that a model takes: tokens, or its own."""
    if vocabulary == 0:
        return np.ascontiguousarray(numbers(operation, "x", x), dtype=np.float32 if precision == "f32" else np.float64)
    if x.dtype.kind not in "iu":
        raise ValueError(f"[rtf::{operation}] x has numbers of type {x.dtype}; the model takes tokens, whole numbers")
    return np.ascontiguousarray(x, dtype=np.int64)
