"""The ways to write a filter, as plain values: what `rtf.convert` goes between.

H(z) is written in w = 1/z. Fields are NumPy arrays, or tensors where tensors came in. A `TransferFunction` or a
`TrainedTransferFunction` may hold several channels; any other form is one channel, and several are a list of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, Union

Array: TypeAlias = Any
"""A numpy.ndarray, or a torch.Tensor where a tensor came in."""


class TransferFunction(NamedTuple):
    """h0 + (b_1 w + ... + b_n w^n) / (1 + a_1 w + ... + a_n w^n): form `tf`.

    One channel: a (order), b (order), h0 a number. Several: a (denominators, order), b (channels, order),
    h0 (channels); the denominators divide the channels, and neighbouring channels share one.
    """

    a: Array
    b: Array
    h0: Array


class TrainedTransferFunction(NamedTuple):
    """The same with the numerator b that Algorithm 1 trains at `length`; `rtf.correct` makes it a TransferFunction."""

    a: Array
    b: Array
    h0: Array
    length: int


class PolynomialRatio(NamedTuple):
    """SciPy's (b, a): sum b_k w^k / sum a_k w^k, a_0 not 0: form `ba`."""

    b: Array
    a: Array


class StateSpace(NamedTuple):
    """D + C (zI - A)^-1 B: form `ss`. A (order, order), B (order, inputs), C (outputs, order), D (outputs, inputs)."""

    A: Array
    B: Array
    C: Array
    D: Array


class Modal(NamedTuple):
    """h0 + sum r_i w / (1 - p_i w), distinct poles, complex ones with their conjugates: form `modal`."""

    poles: Array
    residues: Array
    h0: float = 0.0


class ZeroPoleGain(NamedTuple):
    """h0 + gain prod (z - z_i) / prod (z - p_i): form `zpk`. SciPy's (z, p, k) is the same with h0 = 0."""

    zeros: Array
    poles: Array
    gain: float
    h0: float = 0.0


class SecondOrderSections(NamedTuple):
    """The product of (b_0 + b_1 w + b_2 w^2) / (a_0 + a_1 w + a_2 w^2): form `sos`. Rows b_0 b_1 b_2 a_0 a_1 a_2."""

    sections: Array


class MimoTransferFunction(NamedTuple):
    """Several inputs and outputs over one denominator: form `mimo`.

    a (order), b (outputs, inputs, order), h0 (outputs, inputs). `rtf.convert` makes it of such a `StateSpace`.
    """

    a: Array
    b: Array
    h0: Array


Form: TypeAlias = Union[
    TransferFunction,
    TrainedTransferFunction,
    PolynomialRatio,
    StateSpace,
    Modal,
    ZeroPoleGain,
    SecondOrderSections,
    MimoTransferFunction,
]


class _HasTransferFunction(Protocol):
    """What may stand where a filter does: a layer."""

    def transfer_function(self) -> TransferFunction | TrainedTransferFunction: ...


Filter: TypeAlias = Union[Form, Sequence[Form], _HasTransferFunction]
"""A filter as the functions take it: one value, a list of one-channel values of one form, or a layer."""

FORMS: dict[str, type[Form]] = {
    "tf": TransferFunction,
    "trained": TrainedTransferFunction,
    "ba": PolynomialRatio,
    "ss": StateSpace,
    "modal": Modal,
    "zpk": ZeroPoleGain,
    "sos": SecondOrderSections,
    "mimo": MimoTransferFunction,
}
NAMES: dict[type[Form], str] = {value: name for name, value in FORMS.items()}
