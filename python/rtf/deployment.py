"""`export`: a model that was trained in Python as the file that the torch-free runtime runs."""

from __future__ import annotations

import copy
import json
import os
from typing import Any, NamedTuple, NoReturn, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from . import _core
from ._dispatch import called, first_line, path_text, text
from .block import Block, Embedding, Linear, Norm
from .layer import RTF
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
    model: SequenceModel,
    path: str | os.PathLike[str],
    *,
    precision: str = "f32",
    weights: str = "f32",
    realization: str = "auto",
    stabilize: str | None = None,
) -> Export:
    """A model as the file that `rtf.Stream`, `rtf stream`, C++ and C run without PyTorch, as `rtf export` makes one of a run.

    The file appears whole or not at all. The model stays as it is, and where it is. A bidirectional model, and one that
    compares pairs of sequences, has no answer for one stream: `rtf stream`, C++ and C run it over whole sequences.

    Parameters
    ----------
    model : rtf.nn.SequenceModel
    path : safetensors
    precision : {'f32', 'f64'}
        Of weights and arithmetic.
    weights : {'f32', 'bf16', 'int8'}
        Of matrices and embeddings, with precision 'f32'; 'int8' has a scale for each row.
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
    >>> import pathlib, tempfile, rtf, torch
    >>> model = rtf.nn.SequenceModel(channels=8, order=4, length=32, layers=2, outputs=3, decoder="position", init="montel")
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "model.safetensors"
    >>> report = rtf.export(model, file)
    >>> report.answer_error < 1e-5, report.layers[0].precision
    (True, 'f32')
    >>> x = torch.randn(32, 1)
    >>> answers = torch.from_numpy(rtf.Stream(file).process(x))
    >>> torch.allclose(answers, model.eval()(x[None])[0], atol=1e-5)
    True
    """
    _check(model)
    file = path_text("export", path, "that of the file to write is needed")
    with torch.no_grad():
        frozen = _copied(model).eval()  # weights of some parametrizations change as they are read
        architecture = {**_architecture(frozen), "precision": text("export", "precision", precision)}
        found = _core.ModelExport(
            file,
            json.dumps(architecture),
            {name: _numbers(values) for name, values in _weights(frozen).items()},
            [direction for block in frozen._blocks() for direction in _directions(block.layer)],
            precision,
            text("export", "weights", weights),
            text("export", "realization", realization),
            None if stabilize is None else text("export", "stabilize", stabilize),
        )
        wanted = called("export", frozen.cpu().double(), torch.from_numpy(found.input()))
        error = found.write(_numbers(wanted))
    return Export([ExportedLayer(*layer) for layer in found.layers], error)


def _refuse(why: str) -> NoReturn:
    raise ValueError(f"[rtf::export] {why}")


def _check(model: Any) -> None:
    """Refuses what computes something that a model file does not say."""
    if not isinstance(model, SequenceModel):
        inside = [name for name in ("module", "_orig_mod") if isinstance(getattr(model, name, None), SequenceModel)]
        hint = f"its .{inside[0]} is one" if inside else "Layers alone are filters: rtf.Stream runs them, rtf.write_filter writes them"
        _refuse(f"the model is a {type(model).__name__}; an rtf.nn.SequenceModel is needed. {hint}")
    for name, values in (*model.named_parameters(), *model.named_buffers()):
        if values.is_meta or not values.is_floating_point():
            _refuse(f"{name} is a {values.dtype} tensor on {values.device}; real numbers are needed")
    _check_own("the model", model, (SequenceModel,), ("forward", "_encode", "_decode"))
    if model.glu not in (True, False):
        _refuse(f"glu is '{model.glu}'; half gated blocks have no place in a model file")
    linear, embedding = (nn.Linear, Linear), (nn.Embedding, Embedding)
    for index, block in enumerate(model._blocks()):
        where = f"block {index}"
        _check_own(where, block, (Block,), ("forward", "_gate_and_add"))
        _check_own(f"layer {index}", block.layer, (RTF,), ("forward", "kernel", "denominator"))
        if block.norm is not None:
            _check_norm(f"the norm of {where}", block.norm, model)
        if block.output is not None:
            _check_own(f"the output of {where}", block.output, linear)
        for name in ("prenorm", "residual", "activation", "glu"):
            _check_alike(name, (where, block), ("the model", model))
        for name in ("channels", "bidirectional"):
            _check_alike(name, (f"layer {index}", block.layer), ("layer 0", model._blocks()[0].layer))
        _check_alike("length", (f"layer {index}", block.layer), ("the model", model))
    if model.norm is not None:
        _check_norm("the last norm", model.norm, model)
    _check_own("the encoder", model.encoder, embedding if model.vocabulary > 0 else linear)
    if getattr(model.encoder, "max_norm", None) is not None:
        _refuse(f"max_norm of the encoder is {model.encoder.max_norm}, which has no place in a model file")
    for part in model.decoder if isinstance(model.decoder, nn.ModuleList) else [model.decoder]:
        _check_own("the decoder", part, linear)


def _check_own(where: str, module: Any, kinds: tuple[type[nn.Module], ...], methods: tuple[str, ...] = ("forward",)) -> None:
    """Refuses a module of another kind, another's methods in it, and hooks."""
    if not isinstance(module, kinds):
        needed = "rtf.nn.RTF" if kinds[0] is RTF else kinds[0].__name__  # rtf.RTF is another
        _refuse(f"{where} is a {type(module).__name__}; {needed} is needed")
    for method in ("__call__", *methods):
        if method in module.__dict__ or all(getattr(type(module), method) is not getattr(kind, method) for kind in kinds):
            _refuse(f"{where} has a {method} of its own, which has no place in a model file")
    if module._forward_hooks or module._forward_pre_hooks:
        _refuse(f"{where} has a forward hook, which has no place in a model file; take it off first, one of pruning by prune.remove")


def _check_norm(where: str, norm: Any, model: SequenceModel) -> None:
    _check_own(where, norm, (Norm,))
    if norm.kind != model.norm_kind:
        _refuse(f"{where} is of kind '{norm.kind}' and the model's '{model.norm_kind}'; a model file has one for all")


def _check_alike(name: str, one: tuple[str, Any], other: tuple[str, Any]) -> None:
    got, wanted = getattr(one[1], name), getattr(other[1], name)
    if got != wanted:
        _refuse(f"{name} of {one[0]} is {got} and of {other[0]} {wanted}; a model file has one for all")


def _copied(model: SequenceModel) -> SequenceModel:
    try:
        return copy.deepcopy(model)
    except Exception as error:  # whatever the modules in it raise
        _refuse(f"the model cannot be copied: {first_line(error)}")


def _architecture(model: SequenceModel) -> dict[str, Any]:
    """As a model file's metadata has it."""
    blocks, encoder = model._blocks(), cast(Any, model.encoder)
    last = cast(Any, model.decoder[1] if isinstance(model.decoder, nn.ModuleList) else model.decoder)
    return {
        "vocabulary": int(model.vocabulary),
        "features": int(model.features),
        "channels": encoder.weight.shape[1 if model.vocabulary > 0 else 0],
        "layers": len(blocks),
        "norm": model.norm_kind,
        "prenorm": bool(model.prenorm),
        "residual": bool(model.residual),
        "activation": model.activation,
        "glu": bool(model.glu),
        "decoder": model.decoder_kind,
        "outputs": last.weight.shape[0],
        "last": int(model.last),
        "bidirectional": bool(blocks and blocks[0].layer.bidirectional),
        "length": int(model.length),
    }


def _numbers(values: Tensor) -> NDArray[np.float64]:
    found: NDArray[np.float64] = values.detach().double().cpu().contiguous().numpy()
    return found


def _weights(model: SequenceModel) -> dict[str, Tensor]:
    """What lies outside the layers, by the names of a checkpoint. Read off the modules: a parametrization counts."""
    modules: dict[str, Any] = {"encoder": model.encoder, "norm": model.norm}
    for index, block in enumerate(model._blocks()):
        modules[f"blocks.{index}.norm"], modules[f"blocks.{index}.output"] = block.norm, block.output
    if isinstance(model.decoder, nn.ModuleList):
        modules["decoder.0"], modules["decoder.1"] = model.decoder
    else:
        modules["decoder"] = model.decoder
    found = {}
    for name, module in modules.items():
        for part in ("weight", "bias", "running_mean", "running_var"):
            values = getattr(module, part, None)
            if values is not None:
                found[f"{name}.{part}"] = values
    return found


def _directions(layer: RTF) -> list[tuple[Any, Any, Any, int | None]]:
    """What each direction of a layer computes: a, b and h0, and the length at which b is trained where it is."""
    values = layer.wide_transfer_function()[:3]
    halves = zip(*(one.chunk(2) for one in values), strict=True) if layer.bidirectional else [values]
    length = layer.length if layer.numerator == "wrapped" else None
    return [(_numbers(a), _numbers(b), _numbers(h0), length) for a, b, h0 in halves]
