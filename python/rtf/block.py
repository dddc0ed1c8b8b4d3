"""One residual block of `rtf.nn.SequenceModel`, and its norm."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from ._library import ops
from .layer import RTF, wide

if TYPE_CHECKING:
    from .sequence_model import SequenceModel

__all__ = ["Block", "Embedding", "Linear", "Norm", "wants_length_last"]

_EPSILON = 1e-5
_MOMENTUM = 0.1


def wants_length_last(x: Tensor) -> bool:
    """Whether the answer to x is to have the samples of a row side by side in memory, as the operators want them on the
    GPU. A single position has its channels so in either order; a compiler chooses for itself."""
    return not x.is_cpu and x.shape[1] != 1 and not torch.compiler.is_compiling()


class Linear(nn.Linear):
    """One matrix for all positions."""

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() != 3 or not wants_length_last(x):
            return super().forward(x)
        if x.shape[2] == 1:
            spread: Tensor = ops.spread(wide(x.squeeze(2)), self.weight.squeeze(1), self.bias)
            return spread
        weight = self.weight.expand(x.shape[0], -1, -1)
        return torch.baddbmm(self.bias.unsqueeze(1), weight, x.transpose(1, 2)).transpose(1, 2)

    def product(self, x: Tensor) -> Tensor:
        """The same without the bias."""
        return torch.bmm(self.weight.expand(x.shape[0], -1, -1), x.transpose(1, 2)).transpose(1, 2)


class Embedding(nn.Embedding):
    """One of its rows for every token."""

    def forward(self, tokens: Tensor) -> Tensor:
        rows: Tensor = ops.embedding(tokens, self.weight) if wants_length_last(tokens) else super().forward(tokens)
        return rows


class Norm(nn.Module):
    """Batch norm over every position, the padded ones included, or layer norm over the channels."""

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, kind: str, channels: int) -> None:
        super().__init__()
        self.kind = kind
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        if kind == "batch":
            self.register_buffer("running_mean", torch.zeros(channels))
            self.register_buffer("running_var", torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor
        if self.kind == "layer":
            y = ops.layer_norm(x, self.weight, self.bias, _EPSILON)[0]
        elif self.training:
            positions = x.shape[0] * x.shape[1]
            if positions < 2:
                raise ValueError(f"[rtf::SequenceModel] batch norm in training mode over {positions} positions has no variance; "
                                 "at least 2 are needed")  # fmt: skip
            averages = {"running_mean": self.running_mean, "running_var": self.running_var}
            y = ops.batch_norm(x, self.weight, self.bias, _EPSILON, **averages, momentum=_MOMENTUM)[0]
        else:
            # As an image (batch, channels, length, 1) with its channels last: no copy.
            image = x.unsqueeze(2).permute(0, 3, 1, 2)
            image = nn.functional.batch_norm(
                image, self.running_mean, self.running_var, self.weight, self.bias, False, _MOMENTUM, _EPSILON
            )
            y = image.permute(0, 2, 3, 1).squeeze(2)
        return y


class Block(nn.Module):
    """One residual block: norm, layer, activation, gate."""

    def __init__(self, model: SequenceModel, index: int, layer: RTF) -> None:
        super().__init__()
        self.index, self.prenorm, self.residual = index, model.prenorm, model.residual
        self.activation, self.glu = model.activation, model.glu
        self.dropout, self.inner_dropout = model.dropout, model.inner_dropout
        self.tie_dropout, self.tie_inner_dropout = model.tie_dropout, model.tie_inner_dropout
        self.layer = layer
        self.norm = Norm(model.norm_kind, layer.channels) if model.residual and model.norm_kind != "none" else None
        self.output: Linear | None = None
        if self.glu is not False:
            self.output = Linear(layer.channels, (2 if self.glu is True else 1) * layer.channels)

    def forward(self, x: Tensor, generator: Tensor, run_layer: Callable[[Tensor], Tensor]) -> Tensor:
        """The block around one way of running its layer."""
        y = run_layer(self.norm(x) if self.norm is not None and self.prenorm else x)
        p = self.inner_dropout if self.training else 0.0
        site = 3 * self.index + 1  # each place that drops has random numbers of its own
        g = y
        if self.activation == "gelu":
            g = ops.gelu(y, p, generator, site, self.tie_inner_dropout)
        elif p > 0:
            g = ops.dropout(y, p, generator, site, self.tie_inner_dropout)
        x = self._gate_and_add(x, y, g, generator)
        return self.norm(x) if self.norm is not None and not self.prenorm else x

    def _gate_and_add(self, x: Tensor, y: Tensor, g: Tensor, generator: Tensor) -> Tensor:
        p = self.dropout if self.training and self.residual else 0.0
        site = 3 * self.index + 2
        if self.output is None:
            g = ops.dropout(g, p, generator, site, self.tie_dropout) if p > 0 else g
            return x + g if self.residual else g
        residual, bias = x if self.residual else None, None
        if self.glu is not True:
            z = torch.cat((g if self.glu == "half_glu1" else y, self.output(g)), -1)
        elif wants_length_last(g):
            z, bias = self.output.product(g), self.output.bias  # glu adds it, which saves a pass over twice the channels
        else:
            z = self.output(g)
        gated: Tensor = ops.glu(wide(z), residual, p, generator, site, self.tie_dropout, bias=bias)
        return gated
