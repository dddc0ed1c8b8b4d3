"""`RTF` with the interface of the published code: its scripts run, and its checkpoints load."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ._dispatch import count, flag
from ._library import count_or_symbol, ops
from .forms import TrainedTransferFunction
from .layer import check_choice, check_signal

__all__ = ["RTF"]

_METHODS = ("get_k", "a_constraint", "get_C", "step")
"""Others may be put into a layer in their place."""

_BOUNDS = {"zeros": 0.0, "xavier": 0.5, "montel": 1.0}
"""First values of a and b are uniform up to order to the power of minus this; zeros are zeros."""


class RTF(nn.Module):
    """A layer of rational transfer functions, as the paper's authors published it (ruke1ire/RTF).

    Signature, parameters, their storage and the methods are those of the published class; results agree with it to
    rounding where it is right. Where it is not, this class is: for inputs of odd length with two directions, in the
    numerator and the gain of the recurrence (`step`, `get_C`, `get_k_step`), and for the constraint with two
    directions, whose `scalar` has an entry for each denominator here. `quirks='release'` computes what the published
    code does in all of these.

    What is changed later counts: `L`, `dropout`, a `get_k`, `a_constraint`, `a`, `get_C` or `step` of a subclass, and all of
    these but `a` that are put into a layer. `step` and `transfer_function` know nothing of another `get_k`.

    Parameters
    ----------
    d_model : int
        Channels.
    state_size : int
        Order of each transfer function.
    trunc_len : int
        The longest input, and where the numerator is trained; of an odd number the next one is that.
    num_a : int, optional
        How many different denominators there are; divides d_model, which it is by default.
    dropout : float
        Of the kernel.
    bidirectional : bool
        A second system sees the sequence from its end.
    flash_fft_conv : bool
        Changes nothing: there is one convolution.
    init : {'zeros', 'xavier', 'montel'}
    constraint : {'no', 'l1_montel'}
        'l1_montel' keeps poles inside the unit circle.
    quirks : {'none', 'release'}

    Attributes
    ----------
    ab : Parameter
        Denominators, then numerators, (directions * (num_a + d_model), state_size); of two directions the forward rows
        of each kind come first.
    h_0 : Parameter
        (directions * d_model)
    scalar : Parameter
        (directions * num_a), with 'l1_montel'
    constraint_flag : bool
        Whether there is a constraint.
    flash_fft_conv : None

    Examples
    --------
    >>> import rtf, torch
    >>> layer = rtf.RTF(d_model=4, state_size=8, trunc_len=64, init="montel")
    >>> layer(torch.randn(2, 64, 4)).shape
    torch.Size([2, 64, 4])
    >>> x = layer.x_0(2)
    >>> y, x = layer.step(torch.randn(2, 4), x)
    >>> y.shape, x.shape
    (torch.Size([2, 4]), torch.Size([2, 8, 4]))
    >>> torch.allclose(layer.get_k(), layer.get_k_step(), atol=1e-6)
    True
    """

    def __init__(
        self,
        d_model: int,
        state_size: int,
        trunc_len: int,
        num_a: int | None = None,
        dropout: float = 0.0,
        bidirectional: bool = False,
        flash_fft_conv: bool = False,
        init: str = "zeros",
        constraint: str | None = "no",
        *,
        quirks: str = "none",
    ) -> None:
        super().__init__()
        d_model, state_size = count("RTF", "d_model", d_model), count("RTF", "state_size", state_size, 0)
        trunc_len = count("RTF", "trunc_len", trunc_len)
        num_a = d_model if num_a is None else count("RTF", "num_a", num_a)
        if d_model % num_a != 0:
            raise ValueError(f"[rtf::RTF] num_a is {num_a}; it must divide d_model, {d_model}")
        check_choice("RTF", "init", init, tuple(_BOUNDS))
        check_choice("RTF", "constraint", "no" if constraint is None else constraint, ("no", "l1_montel"))
        check_choice("RTF", "quirks", quirks, ("none", "release"))
        bidirectional = flag("RTF", "bidirectional", bidirectional)
        if quirks == "release" and bidirectional and constraint == "l1_montel" and num_a != 1:
            raise ValueError(f"[rtf::RTF] l1_montel with two directions works with num_a = 1 alone there, and num_a is {num_a}; "
                             "quirks='none' serves others")  # fmt: skip
        self.D, self.N, self.L, self.num_a, self.bdir = d_model, state_size, trunc_len, num_a, bidirectional
        self.quirks = quirks
        self.flash_fft_conv = None
        self.constraint_flag = constraint == "l1_montel"
        directions = 2 if bidirectional else 1
        self.a_channels = directions * num_a

        # Drawn in the order of the published code: the same torch.manual_seed makes the same layer.
        ab = torch.zeros(directions * (d_model + num_a), state_size)
        if init != "zeros" and state_size > 0:
            bound = state_size ** -_BOUNDS[init]
            ab.uniform_(-bound, bound)
        self.ab = nn.Parameter(ab)
        self.h_0 = nn.Parameter(torch.randn(directions * d_model))
        self.scalar: nn.Parameter | None = None
        if self.constraint_flag:
            self.scalar = nn.Parameter(torch.rand(num_a if quirks == "release" else self.a_channels))
        self.dropout: nn.Module = nn.Dropout(dropout)
        self._used: Tensor | int | None = None
        self._running: tuple[list[_Noted], object, tuple[Tensor, Tensor, Tensor]] | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in _METHODS and isinstance(value, nn.Module):
            self.__dict__[name] = value  # which is found before the method; PyTorch's list of modules is not

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        if name in _METHODS:
            self.__dict__.pop(name, None)

    def _has_other_kernels(self) -> bool:
        """Whether `get_k`, `a_constraint` or `a` is somebody else's."""
        kind = type(self)
        if kind.get_k is not _GET_K or kind.a_constraint is not _A_CONSTRAINT or kind.a is not _A:
            return True
        return "get_k" in self.__dict__ or "a_constraint" in self.__dict__

    def train(self, mode: bool = True) -> RTF:
        self._running = None
        return super().train(mode)

    @property
    def _points(self) -> int:
        """Of every kernel, as the published code has them."""
        return self.L + self.L % 2

    @property
    def a(self) -> Tensor:
        """The denominators, through the constraint."""
        return self.a_constraint(self.ab[: self.a_channels])

    def a_constraint(self, coefs: Tensor) -> Tensor:
        """Denominators (directions * num_a, state_size) through the constraint."""
        if self.scalar is None:
            return coefs
        found: Tensor = ops.montel(coefs, self.scalar.to(coefs.dtype).expand(self.a_channels))
        return found

    def transfer_function(self) -> TrainedTransferFunction:
        """The filters of the layer as the functions of this package take them; differentiable."""
        return TrainedTransferFunction(self.a, self.ab[self.a_channels :], self.h_0, self._points)

    def wide_transfer_function(self) -> TrainedTransferFunction:
        """The same in float64, with the constraint computed there: what `step`, `rtf.Stream` and `rtf.write_filter` take."""
        ab = self.ab.double()
        a = self.a.double() if self._has_other_kernels() else self.a_constraint(ab[: self.a_channels])
        return TrainedTransferFunction(a, ab[self.a_channels :], self.h_0.double(), self._points)

    def get_k(self, L: int | None = None) -> Tensor:
        """The first L samples of the kernels, (d_model, L); with two directions (d_model, 2 L), the second half the
        backward kernels from their end."""
        length = self.L if L is None else count_or_symbol("RTF", "L", L)
        self._check_length(length)
        # The published code asks for the constraint where one was named.
        plain = self.quirks == "release" and not self.constraint_flag
        a = self.ab[: self.a_channels] if plain else self.a
        k: Tensor = ops.kernel(a, self.ab[self.a_channels :], self.h_0, self._points)[:, :length]
        return torch.cat((k[: self.D], k[self.D :].flip(-1)), dim=-1) if self.bdir else k

    def _check_length(self, length: int) -> None:
        if not 1 <= length <= self.L:
            raise ValueError(f"[rtf::RTF] a sequence of {length} samples; the layer takes 1 to {self.L}")

    @property
    def k(self) -> Tensor | None:
        """The kernels of the last `forward`: after its dropout, or else of the layer as it is now."""
        used: Tensor | int | None = self.__dict__.get("_used")
        return self.get_k(used) if isinstance(used, int) else used

    @k.setter
    def k(self, value: Tensor | None) -> None:
        self._used = value

    def forward(self, u: Tensor, **kwargs: Any) -> Tensor:
        """u (batch, length, d_model), of any length up to trunc_len -> y of the same shape.

        float16 is computed in float32, whole numbers in the type of the parameters. Other arguments are allowed and mean
        nothing, as in the published code.
        """
        check_signal("RTF", "u", u, self.D)
        length = u.shape[1]
        self._check_length(length)
        x = self._numbers(u)
        wrong = self.quirks == "release" and self.bdir and length % 2 == 1
        drop = self._get("dropout", self._modules)
        drops = not isinstance(drop, nn.Dropout) or (drop.training and drop.p > 0)
        others = self._has_other_kernels()
        if drops or wrong or others:
            k = taps = drop(self.get_k(length))
            if self.bdir:
                forward, backward = k.chunk(2, -1)
                taps = torch.stack((forward, backward.flip(-1)))
            y = ops.release_convolve(x, taps) if wrong else ops.convolve(x, taps, self.bdir)
        else:
            ab, b = self._get("ab", self._parameters), None
            if self.scalar is not None:
                ab, b = self.a, ab[self.a_channels :]
            y, _ = ops.wrapped_convolve(x, ab, b, self._get("h_0", self._parameters), self._points, self.bdir)
        # Past nn.Module's __setattr__, which takes a third of the time of all that Python does here.
        self.__dict__["_used"] = k if drops or others else length
        if self._running is not None and torch.is_grad_enabled():
            self._running = None  # its numbers may be about to change
        found: Tensor = y if y.dtype == u.dtype or not u.is_floating_point() else y.to(u.dtype)
        return found

    _names_of_class: tuple[str, ...] = ()  # what a class has of the numbers and the dropout when it is made

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._names_of_class = tuple(name for name in ("ab", "h_0", "dropout") if hasattr(cls, name))

    def _get(self, name: str, registered: dict[str, Any]) -> Any:
        """getattr, but what is `registered` without nn.Module's __getattr__: Python comes to that by an error that it raises and
        catches, and takes ten times as long as for other names."""
        if name in registered and name not in self.__dict__ and name not in self._names_of_class:
            return registered[name]
        return getattr(self, name)

    def _numbers(self, u: Tensor) -> Tensor:
        """Whole numbers in the type of the parameters, float16 in float32, anything else as it is."""
        if u.dtype == torch.float16:
            return u.float()
        whole = not u.is_floating_point() and not u.is_complex()
        return u.to(torch.promote_types(self.ab.dtype, torch.float32)) if whole else u

    def step(self, u: Tensor, x_i: Tensor, correct_C: bool = True) -> tuple[Tensor, Tensor]:
        """One sample u (batch, d_model) from state x_i (batch, state_size, d_model): y and the next state, in the type of
        x_i; float64 keeps the digits that slow poles need. Without `correct_C` the numerator is taken as it is stored.

        With gradients, the recurrence is computed anew and the state holds the graph of all steps before: stream under
        `torch.no_grad()`. Without, the recurrence is kept from step to step, unless `get_C` is another. In training mode its
        numbers are compared first; in eval mode what PyTorch does not count, written by way of a parameter's `data` or by a
        fused optimizer, is seen after the next `x_0`, or the next `forward` or `step` with gradients."""
        if isinstance(u, Tensor) and u.dim() == 2 and x_i.shape != (u.shape[0], self.N, self.D):
            raise ValueError(f"[rtf::RTF] the state has shape {list(x_i.shape)}; {[u.shape[0], self.N, self.D]} is needed")
        y, x = ops.step(self._numbers(u), *self._recurrence(correct_C), x_i.transpose(1, 2).double())
        if self.quirks == "release" and not (u.requires_grad or x_i.requires_grad):
            x = x.detach()  # there, no parameter has a part in its gradients
        return y.to(u.dtype) if u.dtype == torch.float16 else y, x.transpose(1, 2).to(x_i.dtype)

    @torch.no_grad()
    def get_C(self) -> Tensor:
        """The numerator of the recurrence, (d_model, state_size)."""
        _, c, _ = self._corrected()
        return c.to(self.ab.dtype)

    def x_0(self, batch_shape: int, device: torch.device | str | None = None) -> Tensor:
        """The state of a stream that has seen nothing, (batch, state_size, d_model), in the type of the parameters."""
        batch_shape = count_or_symbol("RTF", "batch_shape", batch_shape, 0)
        self._running = None
        x = torch.zeros(batch_shape, self.D, self.N, dtype=self.ab.dtype, device=device or self.h_0.device)
        return x.transpose(1, 2)  # in memory as the operator has it: no step copies it

    def get_k_step(self, correct_C: bool = True) -> Tensor:
        """The kernels (d_model, trunc_len) by the recurrence, an impulse through it; `correct_C` as `step` has it."""
        impulse = torch.zeros(1, self.L, self.D, dtype=self.ab.dtype, device=self.ab.device)
        impulse[0, 0] = 1.0
        if self._is_other("step", _STEP):
            options, x, k = {} if correct_C else {"correct_C": False}, self.x_0(1), []
            for u in impulse.unbind(1):
                sample, x = self.step(u, x, **options)
                k.append(sample[0])
            return torch.stack(k, 1)
        y: Tensor = ops.filter(impulse, *self._recurrence(correct_C))[0]
        return y[0].transpose(0, 1)

    def _realize(self, correct_C: bool = True) -> tuple[Tensor, Tensor, Tensor]:
        """a, b and h0 of the recurrence."""
        self._refuse_two_directions()
        if not correct_C:
            a = self.a.detach() if self.quirks == "release" else self.a
            return a, self.ab[self.a_channels :], self.h_0
        a, b, h0 = self._corrected()
        return a, self.get_C().to(b.dtype) if self._is_other("get_C", _GET_C) else b, h0

    def _corrected(self) -> tuple[Tensor, Tensor, Tensor]:
        """The same, whatever `get_C` is."""
        self._refuse_two_directions()
        if self.quirks == "release":
            with torch.no_grad():
                a, b = self.a, self.ab[self.a_channels :]
                return a, ops.release_numerator(a, b, self.L) if self.N > 0 else b, self.h_0
        wide = self.wide_transfer_function()
        return wide.a, *ops.correct(*wide)

    def _refuse_two_directions(self) -> None:
        if self.bdir:
            raise ValueError("[rtf::RTF] a bidirectional layer has no recurrence: it sees the whole sequence")

    def _is_other(self, name: str, own: Any) -> bool:
        """Whether a method is somebody else's."""
        return getattr(type(self), name) is not own or name in self.__dict__

    def _recurrence(self, correct_C: bool) -> tuple[Tensor, Tensor, Tensor]:
        """The same; without gradients it is kept until one of its numbers changes."""
        if not correct_C or torch.compiler.is_compiling():
            return self._realize(correct_C)
        values: list[Tensor] = [value for value in (self.ab, self.h_0, self.scalar) if value is not None]
        if self._has_other_kernels() or self._is_other("get_C", _GET_C) or not _countable(values):
            self._running = None
            return self._realize()
        running, options = self._running, (self.L, self.quirks)
        same = running is not None and running[1] == options and len(running[0]) == len(values)
        if running is None or not same or not all(map(_Noted.holds, running[0], values)):
            with torch.inference_mode(False), torch.no_grad():  # what is kept may meet gradients later
                self._running = running = [_Noted(value, self.training) for value in values], options, self._realize()
        return running[2]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_used": None, "_running": None}  # neither belongs to the layer

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        # The published code has one scalar for both directions of a denominator.
        scalar = state_dict.get(prefix + "scalar")
        if self.scalar is not None and scalar is not None and 2 * scalar.numel() == self.scalar.numel():
            state_dict[prefix + "scalar"] = scalar.repeat(2)
        super()._load_from_state_dict(state_dict, prefix, *args)

    def extra_repr(self) -> str:
        text = f"{self.D}, state_size={self.N}, trunc_len={self.L}, num_a={self.num_a}, bidirectional={self.bdir}"
        return text if self.quirks == "none" else f"{text}, quirks={self.quirks}"


def _countable(values: list[Tensor]) -> bool:
    """Whether no gradient goes to them and PyTorch counts how often they are written: not inside transforms of torch.func
    and on the meta device, whose tensors have no memory, nor of what was made in inference mode."""
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return False
    if any(value.is_meta or type(value) not in (Tensor, nn.Parameter) for value in values):
        return False
    return not any(value.is_inference() or (value.requires_grad and torch.is_grad_enabled()) for value in values)


class _Noted:
    """A tensor whose numbers something was computed of, and a copy of them where they are to be compared."""

    def __init__(self, value: Tensor, compare: bool) -> None:
        self.memory, self.version = value.detach(), value._version
        self.numbers = value.detach().clone() if compare else None

    def holds(self, value: Tensor) -> bool:
        """Whether memory, which is held, and count of writes are the same, and the numbers: to compare those takes as long
        as a step, and waits for a GPU."""
        same = value.data_ptr() == self.memory.data_ptr() and value._version == self.version
        if not same or self.numbers is None or (value.is_cuda and torch.cuda.is_current_stream_capturing()):
            return same
        return torch.equal(value, self.numbers)


_GET_K, _A_CONSTRAINT, _A, _GET_C, _STEP = RTF.get_k, RTF.a_constraint, RTF.a, RTF.get_C, RTF.step
