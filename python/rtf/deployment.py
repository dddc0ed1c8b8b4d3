"""`export`: a model that was trained in Python, or a filter, as the file that the torch-free runtime runs."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from . import _core, functions
from ._dispatch import called, is_form, numbers, packed_filter, path_text, running, text
from .forms import Filter, Form, TrainedTransferFunction

if TYPE_CHECKING:
    from .sequence_model import SequenceModel

__all__ = ["Export", "ExportedLayer", "export"]


class ExportedLayer(NamedTuple):
    """How a layer will run; of a bidirectional model, one direction of it."""

    realization: str
    """'companion', 'sos' or 'modal'."""
    precision: str
    """'f32' or 'f64', of its numbers and of the arithmetic."""
    pole_radius: float
    """Modulus of the outermost pole."""
    error: float
    """The largest difference from the layer's kernel in double, over the kernel's largest value."""
    drift: float | None
    """How far one in float32 is off when it runs on, from that in double."""
    stabilize_error: float | None
    """How far the kernel was moved, in l2, where the layer had to be stabilized."""


class Export(NamedTuple):
    """What exporting a model cost."""

    layers: list[ExportedLayer]
    """Of a bidirectional model both directions of each in turn."""
    answer_error: float
    """The largest difference between the answers of the file and those of the model in float64 to a random input, over the
    largest of these."""


def export(
    model: SequenceModel | Filter,
    path: str | os.PathLike[str],
    *,
    precision: str = "f32",
    weights: str = "f32",
    realization: str = "auto",
    stabilize: str | None = None,
) -> Export:
    """A model as the file that `rtf.Stream`, `rtf stream`, C++ and C run without PyTorch, as `rtf export` makes one of a run;
    or a layer or a filter, as a model of so many inputs and outputs.

    The file appears whole or not at all. The model stays as it is, and where it is. A bidirectional model, and one that
    compares pairs of sequences, has no answer for one stream: `rtf.Sequences`, `rtf stream`, C++ and C run it over whole
    ones.

    A file whose answers are off by more than a hundredth, or with narrow weights a tenth, is not written: it would be
    another model. Where `stabilize` moved a kernel by more than a thousandth it is, with a RuntimeWarning.

    Parameters
    ----------
    model : rtf.nn.SequenceModel, or a layer, or a value of `rtf.forms`
    path : safetensors
    precision : {'f32', 'f64'}
        Of weights and arithmetic.
    weights : {'f32', 'bf16', 'int8'}
        Of matrices and embeddings, with precision 'f32'; 'int8' has a scale for each row. A filter has none.
    realization : {'auto', 'companion', 'sos', 'modal'}
        Of every layer. 'auto': the cheapest whose error is within 1e-5 in float32 and 1e-10 in float64, and which does not
        drift by 1e-3.
    stabilize : {'refit', 'reflect'}, optional
        What to do with layers that have poles on or outside the unit circle, otherwise refused: 'refit' keeps the kernel as
        well as a stable one can, 'reflect' its magnitude response.

    Returns
    -------
    Export

    Examples
    --------
    >>> import pathlib, tempfile, rtf
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "model.safetensors"
    >>> report = rtf.export(rtf.TransferFunction(a=[-0.5], b=[1.0], h0=0.0), file)
    >>> report.layers[0].realization, report.answer_error < 1e-5
    ('companion', True)
    >>> rtf.Stream(file).process([[1.0], [0.0], [0.0]]).ravel()
    array([0. , 1. , 0.5], dtype=float32)
    """
    file = path_text("export", path, "that of the file to write is needed")
    precision, weights = text("export", "precision", precision), text("export", "weights", weights)
    realization = text("export", "realization", realization)
    stabilize = None if stabilize is None else text("export", "stabilize", stabilize)
    options = (precision, weights, realization, stabilize)
    torch_nn = getattr(sys.modules.get("torch"), "nn", None)  # whoever has a module has imported it
    if torch_nn is not None and isinstance(model, torch_nn.Module):
        from . import _model_export

        export_it = _model_export.export_layer if hasattr(model, "transfer_function") else _model_export.export_model
        found, error = export_it(model, file, *options)
    elif is_form(source := running("export", model)):
        found, error = _export_filter(source, file, *options)
    else:
        raise ValueError(f"[rtf::export] the model is a {type(model).__name__}; an rtf.nn.SequenceModel, a layer or a filter is needed")
    if error > found.most:
        what = f"the file was written, but its answers to a random input are off by {error:.3g} of the largest"
        warnings.warn(f"[rtf::export] {what}: kernels were moved to be stable", RuntimeWarning, stacklevel=2)
    return Export([ExportedLayer(*layer) for layer in found.layers], error)


def _export_filter(
    filter: Form | Sequence[Form], file: str, precision: str, weights: str, realization: str, stabilize: str | None
) -> tuple[_core.ModelExport, float]:
    length = filter.length if isinstance(filter, TrainedTransferFunction) else 1024
    found = _core.ModelExport(file, packed_filter("export", filter), length, precision, weights, realization, stabilize)
    x = found.input()[0].T
    response = called("export", lambda: functions.kernel(filter, length=x.shape[-1]))
    return found, found.write(numbers("export", "the answer", functions.convolve(x, response).T[None]))
