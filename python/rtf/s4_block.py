"""`rtf.nn.S4Block`: what the models of S4 put around a layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ._dispatch import count
from ._library import ops
from .block import wants_length_last
from .layer import check_dropout, check_signal, draw_generator, wide

__all__ = ["S4Block"]


def _is_plain(output: nn.Module) -> bool:
    """Whether calling it is a product with its weight, and its bias added."""
    return isinstance(output, nn.Linear) and type(output).forward is nn.Linear.forward and "forward" not in output.__dict__


class S4Block(nn.Module):
    """x (batch, length, channels) -> GLU(W dropout(GELU(layer(x))) + bias), all but the layer in one operator.

    On a GPU the layer gets its samples with those of a row side by side in memory, and where it keeps that order, as ours do,
    the answer has it too. Nothing is copied where x has it already: a block after another, or (batch, channels, length)
    transposed. Samples in float16 are computed in float32.

    Parameters
    ----------
    layer : Module
        `rtf.RTF`, `rtf.nn.RTF` or any other from (batch, length, channels) to the same shape.
    channels : int
    dropout : float
        After the GELU, in training mode.
    tie_dropout : bool
        One mask for all positions of a sequence.

    Attributes
    ----------
    layer : Module
    output : Linear
        From the channels to twice as many: values, then gates. Its weight and bias are read; it is not called, so that
        hooks on it do not run. What is put in its place and has a `forward` of its own, an adapter say, is called.

    Examples
    --------
    >>> import rtf, torch
    >>> block = rtf.nn.S4Block(rtf.RTF(d_model=8, state_size=4, trunc_len=32), channels=8, dropout=0.1).eval()
    >>> x = torch.randn(2, 32, 8)
    >>> y = torch.nn.functional.glu(block.output(torch.nn.functional.gelu(block.layer(x))), dim=-1)
    >>> torch.allclose(block(x), y, atol=1e-6)
    True
    """

    def __init__(self, layer: nn.Module, channels: int, *, dropout: float = 0.0, tie_dropout: bool = False) -> None:
        super().__init__()
        self.channels = count("S4Block", "channels", channels)
        check_dropout("S4Block", "dropout", dropout)
        self.dropout, self.tie_dropout = dropout, tie_dropout
        self.layer, self.output = layer, nn.Linear(self.channels, 2 * self.channels)

    def forward(self, x: Tensor) -> Tensor:
        """x (batch, length, channels) -> the same shape."""
        check_signal("S4Block", "x", x, self.channels)
        y = self.layer(ops.length_last(x) if wants_length_last(x) and x.stride(1) != 1 else x)
        check_signal("S4Block", "the answer of the layer", y, self.channels)
        p = self.dropout if self.training else 0.0
        gated: Tensor
        generator = draw_generator(x.device) if p > 0 else torch.zeros(2, dtype=torch.int64, device=x.device)
        samples = wide(y)
        if not _is_plain(self.output):
            gated = nn.functional.glu(self.output(ops.gelu(samples, p, generator, 0, self.tie_dropout)), dim=-1)
            gated = gated.to(y.dtype) if y.dtype == torch.float16 else gated
            return ops.length_last(gated) if wants_length_last(x) and y.stride(1) == 1 else gated
        weight, kind, dtype = self.output.weight, x.device.type, y.dtype
        if kind in ("cpu", "cuda") and torch.is_autocast_enabled(kind) and weight.dtype == torch.float32:
            dtype = torch.get_autocast_dtype(kind)
            weight = weight.to(dtype) if dtype == torch.bfloat16 else weight
        gated = ops.gate(samples, weight, self.output.bias, p, generator, 0, self.tie_dropout)[0]
        return gated.to(dtype) if dtype == torch.float16 else gated

    def extra_repr(self) -> str:
        return f"dropout={self.dropout}, tie_dropout={self.tie_dropout}"
