"""The half of `export` for models of PyTorch: what a file can say of one, and its numbers."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from . import _core
from ._dispatch import called, first_line, packed_filter, running
from .block import Block, Embedding, Linear, Norm
from .layer import RTF
from .sequence_model import SequenceModel

if TYPE_CHECKING:
    from typing import Unpack  # of Python 3.11

M = TypeVar("M", bound=nn.Module)
Options = tuple[str, str, str, "str | None"]
"""precision, weights, realization and stabilize, as `export` has them."""


def export_model(model: Any, file: str, *options: Unpack[Options]) -> tuple[_core.ModelExport, float]:
    """What was written, and how far its answers are off."""
    _check(model)
    with torch.no_grad():
        frozen = _copied(model).eval()  # weights of some parametrizations change as they are read
        found = _core.ModelExport(
            file,
            json.dumps({**_architecture(frozen), "precision": options[0]}),
            {name: _numbers(name, values) for name, values in _weights(frozen).items()},
            [direction for index, block in enumerate(frozen._blocks()) for direction in _directions(index, block.layer)],
            *options,
        )
        return found, _write(found, frozen)


def export_layer(layer: nn.Module, file: str, *options: Unpack[Options]) -> tuple[_core.ModelExport, float]:
    """The same of a layer, whose forward pass says what it computes, whatever it is."""
    with torch.no_grad():
        frozen = _copied(layer).eval()
        length = getattr(frozen, "length", getattr(frozen, "L", 1024))
        found = _core.ModelExport(file, packed_filter("export", running("export", frozen)), length, *options)
        return found, _write(found, frozen)


def _write(found: _core.ModelExport, frozen: nn.Module) -> float:
    wanted = called("export", frozen.cpu().double(), torch.from_numpy(found.input()))
    if not isinstance(wanted, Tensor):
        _refuse(f"the answer of a {type(frozen).__name__} is of type {type(wanted).__name__}, not a tensor")
    return found.write(_numbers("the answer", wanted))


def _refuse(why: str) -> NoReturn:
    raise ValueError(f"[rtf::export] {why}")


def _check(model: Any) -> None:
    """Refuses what computes something that a model file does not say."""
    if not isinstance(model, SequenceModel):
        inside = [name for name, part in model.named_modules() if isinstance(part, SequenceModel)]
        hint = f": its .{inside[0]} is one" if inside else ", a layer or a filter"
        _refuse(f"the model is a {type(model).__name__}; an rtf.nn.SequenceModel is needed{hint}")
    _check_own("the model", model, (SequenceModel,), ("forward", "_encode", "_decode"))
    if model.glu not in (True, False):
        _refuse(f"glu is '{model.glu}'; half gated blocks have no place in a model file")
    linear, embedding = (nn.Linear, Linear), (nn.Embedding, Embedding)
    for index, block in enumerate(model._blocks()):
        where = f"block {index}"
        _check_own(where, block, (Block,), ("forward", "_gate_and_add"))
        _check_own(f"layer {index}", block.layer, (RTF,), ("forward", "kernel", "denominator", "wide_transfer_function"))
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
        own, needed = type(module), "rtf.nn.RTF" if kinds[0] is RTF else kinds[0].__name__
        _refuse(f"{where} is a {own.__module__}.{own.__qualname__}; {needed} is needed")
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


def _copied(model: M) -> M:
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


def _numbers(name: str, values: Tensor) -> NDArray[np.float64]:
    if values.is_meta or not values.is_floating_point():
        _refuse(f"{name} is a {values.dtype} tensor on {values.device}; real numbers are needed")
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


def _directions(index: int, layer: RTF) -> list[tuple[Any, Any, Any, int | None]]:
    """What each direction of a layer computes: a, b and h0, and the length at which b is trained where it is."""
    values = [_numbers(f"{name} of layer {index}", one) for name, one in zip("a b h0".split(), layer.wide_transfer_function()[:3])]
    halves = zip(*(np.split(one, 2) for one in values), strict=True) if layer.bidirectional else [values]
    length = layer.length if layer.numerator == "wrapped" else None
    return [(a, b, h0, length) for a, b, h0 in halves]
