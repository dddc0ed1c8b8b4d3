"""`rtf.nn.SequenceModel`: encoder, residual blocks around the layer, decoder. The checkpoints of `rtf train` fit it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from ._dispatch import count, flag
from .block import Block, Embedding, Linear, Norm
from .layer import RTF, Realization, check_choice, check_dropout, check_signal, draw_generator, wide

__all__ = ["ModelState", "SequenceModel"]


@dataclass
class ModelState:
    """What a causal model carries from sample to sample, for a batch of streams."""

    layers: list[Realization]
    states: list[Tensor]
    sum: Tensor | None = None
    """Of the pooled positions, (batch, channels)."""
    count: int = 0
    """How many these are."""


class SequenceModel(nn.Module):
    """The backbone of the paper's experiments. Options have the names and values of a config's `model.` keys; `vocabulary`,
    `features`, `decoder`, `outputs` and `last` are what the task of a config decides.

    Parameters
    ----------
    channels, order, length, denominators, bidirectional, numerator, kernel_dropout, init, initial_gain, constraint
        Of every layer, see `rtf.nn.RTF`.
    outputs : int
        Numbers of an answer.
    vocabulary : int
        Tokens in, (batch, length) of int64; 0: numbers, (batch, length, features).
    features : int
        Numbers of a sample, where there is no vocabulary.
    layers : int
    norm : {'batch', 'layer', 'none'}
    prenorm : bool
        Normalise ahead of the layer instead of after the sum.
    residual : bool
        Add the block's input to its output; without it there is neither norm nor outer dropout.
    dropout, inner_dropout : float
        At the end of a block, and after its activation.
    tie_dropout, tie_inner_dropout : bool
        One mask for all positions of a sequence.
    activation : {'gelu', 'identity'}
    glu : {True, False, 'half_glu1', 'half_glu2'}
        The half ones cannot be exported.
    decoder : {'pool', 'last', 'position', 'pair'}
        Mean over the positions; the last ones; all; two halves of the batch compared.
    last : int
        How many positions 'last' answers for.

    Examples
    --------
    >>> import rtf, torch
    >>> model = rtf.nn.SequenceModel(channels=8, order=4, length=32, layers=2, outputs=3, decoder="position").eval()
    >>> x = torch.randn(2, 32, 1)
    >>> y = model(x)
    >>> y.shape
    torch.Size([2, 32, 3])
    >>> state = model.make_state(2)
    >>> steps = [model.step(x[:, t], state) for t in range(32)]
    >>> torch.allclose(torch.stack(steps, 1), y, atol=1e-5)
    True
    """

    def __init__(
        self,
        channels: int,
        order: int,
        length: int,
        outputs: int,
        *,
        vocabulary: int = 0,
        features: int = 1,
        layers: int = 6,
        denominators: int = 1,
        bidirectional: bool = False,
        numerator: str = "wrapped",
        kernel_dropout: float = 0.0,
        init: str = "zero",
        initial_gain: str = "paper",
        constraint: str = "none",
        norm: str = "batch",
        prenorm: bool = True,
        residual: bool = True,
        dropout: float = 0.0,
        inner_dropout: float = 0.0,
        tie_dropout: bool = True,
        tie_inner_dropout: bool = False,
        activation: str = "gelu",
        glu: bool | str = True,
        decoder: str = "pool",
        last: int = 1,
    ) -> None:
        super().__init__()
        channels, outputs = count("SequenceModel", "channels", channels), count("SequenceModel", "outputs", outputs)
        features, last = count("SequenceModel", "features", features), count("SequenceModel", "last", last)
        vocabulary, layers = count("SequenceModel", "vocabulary", vocabulary, 0), count("SequenceModel", "layers", layers, 0)
        prenorm, residual = flag("SequenceModel", "prenorm", prenorm), flag("SequenceModel", "residual", residual)
        glu = glu if isinstance(glu, str) else flag("SequenceModel", "glu", glu)
        for name, p in {"dropout": dropout, "inner_dropout": inner_dropout}.items():
            check_dropout("SequenceModel", name, p)
        check_choice("SequenceModel", "norm", norm, ("none", "batch", "layer"))
        check_choice("SequenceModel", "activation", activation, ("identity", "gelu"))
        check_choice("SequenceModel", "glu", glu, (True, False, "half_glu1", "half_glu2"))
        check_choice("SequenceModel", "decoder", decoder, ("pool", "last", "position", "pair"))
        if decoder == "last" and last > length:
            raise ValueError(f"[rtf::SequenceModel] last is {last}, more than the length {length}")
        self.length, self.vocabulary, self.features = count("SequenceModel", "length", length), vocabulary, features
        self.norm_kind, self.prenorm, self.residual = norm, prenorm, residual
        self.dropout, self.inner_dropout = dropout, inner_dropout
        self.tie_dropout, self.tie_inner_dropout = tie_dropout, tie_inner_dropout
        self.activation, self.glu, self.decoder_kind, self.last = activation, glu, decoder, last
        self.encoder: nn.Module = Embedding(vocabulary, channels) if vocabulary > 0 else Linear(features, channels)
        self.blocks = nn.ModuleList()
        for index in range(layers):
            layer = RTF(channels, order, length, denominators=denominators, bidirectional=bidirectional,
                        numerator=numerator, kernel_dropout=kernel_dropout, init=init, initial_gain=initial_gain,
                        constraint=constraint, index=index)  # fmt: skip
            self.blocks.append(Block(self, index, layer))
        self.norm = Norm(norm, channels) if residual and prenorm and norm != "none" else None
        self.decoder: nn.Module = Linear(channels, outputs)
        if decoder == "pair":
            self.decoder = nn.ModuleList((Linear(4 * channels, channels), Linear(channels, outputs)))

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """x: tokens (batch, length), or numbers (batch, length, features) -> (batch, outputs), or (batch, k, outputs).

        lengths (batch): what follows them is padding. 'pair' takes document 1 of all pairs, then document 2.
        """
        if lengths is not None and self.decoder_kind == "last":
            raise ValueError("[rtf::SequenceModel] the decoder of the last positions takes no lengths: they would be padding")
        h = self._encode(x)
        if lengths is not None:
            _check_lengths(lengths, h.shape[0], h.shape[1])
        if self.decoder_kind == "last" and h.shape[1] < self.last:
            raise ValueError(f"[rtf::SequenceModel] a sequence of {h.shape[1]} samples; the decoder needs the last {self.last}")
        generator = self._generator(x.device)
        for block in self._blocks():

            def run_layer(u: Tensor, layer: RTF = block.layer) -> Tensor:
                y: Tensor = layer(u, lengths, generator)
                return y

            h = block(h, generator, run_layer)
        h = h if self.norm is None else self.norm(h)
        if self.decoder_kind in ("pool", "pair"):
            return self._decode(_pool(h, lengths))
        return self._decode(h[:, h.shape[1] - self.last :] if self.decoder_kind == "last" else h)

    def make_state(self, batch: int) -> ModelState:
        """Of streams that have seen nothing, for `prefill` and `step` of a causal model in evaluation mode."""
        if batch < 1:
            raise ValueError(f"[rtf::SequenceModel] a state for {batch} streams; at least 1 is needed")
        with torch.no_grad():
            layers = [block.layer for block in self._blocks()]
            return ModelState([layer.realize() for layer in layers], [layer.zero_state(batch) for layer in layers])

    def prefill(self, x: Tensor, state: ModelState) -> Tensor:
        """The answers (batch, length, outputs) to a block of samples or tokens; the state moves on. A model that pools
        answers for all samples so far."""
        return self._stream(x, state, RTF.prefill)

    def step(self, x: Tensor, state: ModelState) -> Tensor:
        """One sample (batch, features), or token (batch): the answer (batch, outputs)."""

        def one(layer: RTF, at: Realization, u: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
            y, after = layer.step(at, u.squeeze(1), before)
            return y.unsqueeze(1), after

        return self._stream(x.unsqueeze(1), state, one).squeeze(1)

    @torch.no_grad()
    def _stream(self, x: Tensor, state: ModelState, run: Callable[[RTF, Realization, Tensor, Tensor], tuple[Tensor, Tensor]]) -> Tensor:
        if self.training:
            raise ValueError("[rtf::SequenceModel] streaming runs in evaluation mode; the model is in training mode")
        h = self._encode(x)
        if state.states and state.states[0].shape[0] != h.shape[0]:
            raise ValueError(f"[rtf::SequenceModel] a batch of {h.shape[0]} with a state of {state.states[0].shape[0]} streams")
        generator = self._generator(x.device)
        for i, block in enumerate(self._blocks()):

            def run_layer(u: Tensor, i: int = i, layer: RTF = block.layer) -> Tensor:
                y, state.states[i] = run(layer, state.layers[i], u, state.states[i])
                return y

            h = block(h, generator, run_layer)
        h = h if self.norm is None else self.norm(h)
        return self._decode(self._pool_stream(h, state) if self.decoder_kind in ("pool", "pair") else h)

    def set_length(self, length: int) -> None:
        """A new truncation length for the same layers."""
        length = count("SequenceModel", "length", length)
        if self.decoder_kind == "last" and self.last > length:
            raise ValueError(f"[rtf::SequenceModel] last is {self.last}, more than the length {length}")
        for block in self._blocks():
            block.layer.set_length(length)
        self.length = length

    def _blocks(self) -> list[Block]:
        return cast(list[Block], list(self.blocks))

    def _generator(self, device: torch.device) -> Tensor:
        return draw_generator(device) if self.training else torch.zeros(2, dtype=torch.int64, device=device)

    def _encode(self, x: Tensor) -> Tensor:
        if self.vocabulary == 0:
            check_signal("SequenceModel", "x", x, self.features)
            if not x.is_floating_point():
                raise ValueError(f"[rtf::SequenceModel] x has numbers of type {x.dtype}; floating-point ones are needed")
        elif not isinstance(x, Tensor) or x.dim() != 2 or x.dtype != torch.int64:
            found = f"a {x.dtype} tensor of shape {list(x.shape)}" if isinstance(x, Tensor) else f"of type {type(x).__name__}"
            raise ValueError(f"[rtf::SequenceModel] x is {found}; tokens (batch, length) of int64 are needed")
        h: Tensor
        try:
            h = wide(self.encoder(x))
        except IndexError:  # PyTorch's names no value; on the CPU alone
            message = f"[rtf::SequenceModel] x has tokens from {int(x.min())} to {int(x.max())}; 0 to {self.vocabulary - 1} are known"
            raise ValueError(message) from None
        return h

    def _decode(self, h: Tensor) -> Tensor:
        y: Tensor
        if not isinstance(self.decoder, nn.ModuleList):
            y = self.decoder(h)
            return y
        if h.shape[0] % 2 != 0:
            raise ValueError(f"[rtf::SequenceModel] a batch of {h.shape[0]} sequences; pairs need an even number")
        first, second = h.chunk(2)
        features = torch.cat((first, second, first - second, first * second), -1)
        y = self.decoder[1](nn.functional.gelu(self.decoder[0](features)))
        return y

    def _pool_stream(self, h: Tensor, state: ModelState) -> Tensor:
        """The mean of all positions so far, at every new one."""
        sums = h.double().cumsum(1)
        if state.sum is not None:
            sums = sums + state.sum.unsqueeze(1)
        counts = torch.arange(state.count + 1, state.count + h.shape[1] + 1, dtype=torch.float64, device=h.device)
        if h.shape[1] > 0:
            state.sum, state.count = sums[:, -1], state.count + h.shape[1]
        return (sums / counts.unsqueeze(1)).to(h.dtype)


def _check_lengths(lengths: Tensor, batch: int, length: int) -> None:
    if not isinstance(lengths, Tensor) or lengths.shape != (batch,) or lengths.dtype != torch.int64:
        is_tensor = isinstance(lengths, Tensor)
        found = f"{lengths.dtype} tensor of shape {list(lengths.shape)}" if is_tensor else f"{type(lengths).__name__}, not a tensor"
        raise ValueError(f"[rtf::SequenceModel] lengths is a {found}; one of type torch.int64 for each of {batch} sequences is "
                         "needed")  # fmt: skip
    if torch.compiler.is_compiling() or not lengths.is_cpu or batch == 0:
        return  # elsewhere it would make the host wait
    for one in (int(lengths.min()), int(lengths.max())):
        if not 1 <= one <= length:
            raise ValueError(f"[rtf::SequenceModel] a length of {one} in a batch padded to {length} samples")


def _pool(h: Tensor, lengths: Tensor | None) -> Tensor:
    if lengths is None:
        return h.mean(1)
    count = lengths.to(h.device).unsqueeze(1)
    valid = torch.arange(h.shape[1], device=h.device) < count
    kind = h.device.type
    if h.dtype == torch.bfloat16 or (kind in ("cpu", "cuda") and torch.is_autocast_enabled(kind)):
        return ((h * valid.unsqueeze(2)).sum(1, dtype=torch.float32) / count).to(h.dtype)
    return torch.bmm((valid.to(h.dtype) / count.to(h.dtype)).unsqueeze(1), h).squeeze(1)  # half the time
