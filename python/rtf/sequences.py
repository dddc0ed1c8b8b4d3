"""`Sequences`: whole sequences through an exported model."""

from __future__ import annotations

import os
from typing import Any

from numpy.typing import ArrayLike, NDArray

from . import _core
from ._dispatch import named_array, path_text
from .stream import model_numbers

__all__ = ["Sequences"]


class Sequences:
    """Whole sequences through a model file that `rtf export` or `rtf.export` wrote: of every model, also of those that no
    stream runs, bidirectional ones and such as compare pairs.

    Each sequence begins anew. Several threads may use one at a time. Memory grows with the length, three numbers a channel and
    sample, of 16 channels at least; a `Stream` does without, and is faster for models that it runs. Needs no PyTorch.

    Parameters
    ----------
    path : a model file

    Examples
    --------
    >>> import pathlib, tempfile, rtf
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "model.safetensors"
    >>> _ = rtf.export(rtf.TransferFunction(a=[-0.5], b=[1.0], h0=0.0), file)
    >>> rtf.Sequences(file).process([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])[:, :, 0]
    array([[0. , 1. , 0.5],
           [0. , 0. , 1. ]], dtype=float32)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._model = _core.load_sequences(path_text("Sequences", path, "that of a model file is needed"))

    @property
    def inputs(self) -> int:
        """Numbers of a sample; 1 for tokens."""
        return self._model.inputs

    @property
    def outputs(self) -> int:
        """Numbers of an answer."""
        return self._model.outputs

    @property
    def vocabulary(self) -> int:
        """How many tokens there are; 0 for a model that takes numbers."""
        return self._model.vocabulary

    @property
    def precision(self) -> str:
        """'f32' or 'f64': the type of the arithmetic, the samples and the answers."""
        return self._model.precision

    def process(self, x: ArrayLike) -> NDArray[Any]:
        """The answers to sequences of one length: (batch, length, inputs), or (batch, length) where inputs is 1.

        (batch, length, outputs); of a model that pools over the samples (batch, outputs), and of one of pairs, the
        sequences i and i + batch / 2, (batch / 2, outputs).
        """
        samples = named_array("Sequences::process", "x", x)
        samples = samples[:, :, None] if samples.ndim == 2 and self.inputs == 1 else samples
        return self._model.process(model_numbers("Sequences::process", samples, self.vocabulary, self.precision))
