"""The numbers of the two halves: digits that must not be lost, gradients that must not vanish, what is no number."""

from fractions import Fraction

import numpy as np
import pytest
import rtf
from both_halves import assert_same, tensors, torch
from rtf._library import ops
from scipy import signal

X = np.random.default_rng(2).standard_normal((2, 30))
A, B = np.array([1.0, -1.2, 0.81]), np.array([0.5, 0.25, 1.0])
PLAIN = rtf.TransferFunction(A[1:], B[1:], np.array(0.5))


def slow(seed, order=8, length=256):
    """A trained filter in float32 with poles of moduli from 0.97 to 0.9995: rounding b to float32 is amplified."""
    rng = np.random.default_rng(seed)
    poles = rng.uniform(0.97, 0.9995, order // 2) * np.exp(1j * rng.uniform(0.05, 0.8, order // 2))
    a = np.poly([*poles, *poles.conj()]).real[1:]
    numbers = a, rng.standard_normal(order), np.array(0.5)
    return rtf.TrainedTransferFunction(*(v.astype(np.float32) for v in numbers), length)


@pytest.mark.parametrize("seed", range(5))
def test_trained_filters_in_float32(seed):
    """Corrected and run in float64, whatever the type that was trained in."""
    trained = slow(seed)
    assert_same(rtf.correct, trained)
    assert_same(rtf.wrap, rtf.TransferFunction(*trained[:3]), 64)
    assert_same(rtf.lfilter, np.eye(1, 256)[0], trained)
    for length in (100, 256, 257):
        assert_same(rtf.kernel, trained, length=length)
    plain = rtf.correct(trained)
    angles, wanted = rtf.freqz(trained, points=64)
    below = np.concatenate(([1.0], plain.a))
    # Sums over k of c_k e^{-i k angle} in double, k up to 8: a few roundings of every term and of its angle.
    lost = [np.abs(c).sum() / np.abs(signal.freqz(c, worN=angles)[1]) for c in (below, plain.h0 * below + np.append(0, plain.b))]
    bound = np.finfo(float).eps * (8 * np.pi + 4) * (lost[0] + lost[1])
    assert (np.abs(rtf.freqz(tensors(trained), points=64)[1].numpy() - wanted) <= bound * np.abs(wanted)).all()
    leaf = rtf.TrainedTransferFunction(*(torch.tensor(v, requires_grad=True) for v in trained[:3]), 256)
    rtf.lfilter(torch.ones(9), leaf).sum().backward()
    assert all(v.grad.dtype == torch.float32 and v.grad.abs().max() > 0 for v in leaf[:3])


@pytest.mark.parametrize("scale", [1.0, 3.0, -0.7])
@pytest.mark.parametrize("seed", range(5))
def test_proper_parts_have_all_their_digits(seed, scale):
    """(b - h0 a) / a_0 next to cancellation, against fractions: three operations round, by half a unit each."""
    rng = np.random.default_rng(seed)
    a = scale * np.concatenate(([1.0], rng.uniform(-2, 2, 6)))
    b = 0.8 * a * (1 + rng.uniform(-1e-9, 1e-9, 7) * rng.choice([0, 1], 7))
    _, got, h0 = ops.rational(torch.tensor(a), torch.tensor(b))
    for i in range(6):
        exact = (Fraction(b[i + 1]) - Fraction(float(h0)) * Fraction(a[i + 1])) / Fraction(a[0])
        assert abs(Fraction(float(got[0, i])) - exact) <= 4 * Fraction(2) ** -53 * abs(exact)
    huge = torch.tensor([1.0, 1e300, 3.0], dtype=torch.float64)
    assert ops.rational(huge, huge)[1].tolist() == [[0, 0]]


@pytest.mark.parametrize("form", [rtf.TransferFunction, rtf.PolynomialRatio])
def test_gradients_go_through_lists_of_filters(form):
    """One a channel, of orders of their own."""
    numbers = ([-0.5], [2.0], 0.5), ([-1.2, 0.81], [1.0, 0.4], 0.25)
    if form is rtf.PolynomialRatio:
        numbers = ([2.0, 1.0, 0.5], [2.0, -1]), ([1.0], [1.0, -1.2, 0.81])
    arrays = [form(*(np.array(v) for v in one)) for one in numbers]
    wanted = assert_same(rtf.lfilter, X, arrays)
    np.testing.assert_allclose(wanted[1], rtf.lfilter(X[1], arrays[1]), rtol=1e-12, atol=1e-12)
    leaves = [v.requires_grad_() for one in tensors(arrays) for v in one]
    size = len(arrays[0])
    filters = [form(*leaves[i * size : (i + 1) * size]) for i in (0, 1)]
    for compute in (
        lambda: rtf.lfilter(tensors(X), filters),
        lambda: rtf.kernel(filters, length=9),
        lambda: rtf.freqz(filters, points=5)[1].abs(),
        lambda: rtf.group_delay(filters, points=5)[1],
    ):
        assert all(g is not None for g in torch.autograd.grad(compute().sum(), leaves, allow_unused=True))
    for several in ([PLAIN, rtf.convert(PLAIN, "ba")], [rtf.TransferFunction(A[None, 1:], B[None, 1:], np.ones(1))] * 2):
        assert "channel" in assert_same(rtf.lfilter, X, several)


def test_gradients_go_through_lists_of_tensors():
    p = torch.tensor(-0.5, requires_grad=True)
    y = rtf.lfilter(torch.ones(3), [1, p], [2.0])
    np.testing.assert_allclose(y.detach(), [2, 3, 3.5])
    assert torch.autograd.grad(y[2], p)[0] == pytest.approx(2 * (-1 - 2 * -0.5 * -1))  # 2 (1 - p + p^2)
    rows = [torch.tensor([1.0, -0.5], requires_grad=True), torch.tensor([1.0, 0.5])]
    y = rtf.lfilter(torch.ones(2, 3), rows, [1.0])
    np.testing.assert_allclose(y.detach(), [[1, 1.5, 1.75], [1, 0.5, 0.75]])
    assert torch.autograd.grad(y.sum(), rows[0])[0].abs().max() > 0
    angle = torch.tensor(0.3, requires_grad=True)
    assert torch.autograd.grad(rtf.freqz([1, -0.5], [1], points=[angle])[1].abs().sum(), angle)[0] != 0
    with pytest.raises(ValueError, match=r"^\[rtf::lfilter\] a is a list of the shapes \[\(2,\), \(1,\)\]; one shape is needed$"):
        rtf.lfilter(torch.ones(2, 3), [rows[0], torch.ones(1)], [1.0])
    with pytest.raises(ValueError, match=r"^\[rtf::lfilter\] b has numbers of type <U1; real ones are needed$"):
        rtf.lfilter(torch.ones(3), [1, p], ["a"])


@pytest.mark.parametrize("form", ["zpk", "sos", "ss", "modal"])
def test_gradients_that_would_vanish_are_refused(form):
    converted = tensors(rtf.convert(PLAIN, form))
    first = converted[0].requires_grad_()
    calls = [
        lambda filter: rtf.kernel(filter, length=9),
        lambda filter: rtf.freqz(filter, points=5),
        lambda filter: rtf.group_delay(filter, points=5),
    ]
    if form != "sos":  # which has one there
        calls += [lambda filter: rtf.lfilter(tensors(X), filter), lambda filter: rtf.lfilter(tensors(X[:1]), [filter])]
    for compute in calls:
        with pytest.raises(ValueError, match=rf"a tensor requires a gradient, and a {type(converted).__name__} has none; detach it$"):
            compute(converted)
        with torch.no_grad():
            compute(converted)
        compute(converted._replace(**{converted._fields[0]: first.detach()}))
    x = tensors(X).requires_grad_()
    assert rtf.lfilter(x, tensors(rtf.convert(PLAIN, form))).requires_grad  # that of the signal is there
    assert len(rtf.poles(converted)) == 2  # which is said to have none
    leaf = rtf.TransferFunction(*(v.requires_grad_() for v in tensors(PLAIN)))
    with pytest.raises(ValueError, match=r"\[rtf::kernel\] a tensor requires a gradient, and method 'newton' has none"):
        rtf.kernel(leaf, length=9, method="newton")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused(bad):
    functions = (rtf.kernel, {"length": 9}), (rtf.freqz, {"points": 5}), (rtf.group_delay, {"points": 5}), (rtf.poles, {})
    for place in range(3):
        a, b = A.copy(), B.copy()
        a[place] = b[place] = bad
        for function, options in functions:
            assert "finite" in assert_same(function, a, B, **options)
            assert "finite" in assert_same(function, A, b, **options)
        for numbers in ((a, B), (A, b), (A[1:], B[1:], np.array(bad)), (a[1:] + bad, B[1:], np.array(0.5))):
            assert "finite" in assert_same(rtf.lfilter, X, *numbers)
    for function in (rtf.freqz, rtf.group_delay):
        assert "finite" in assert_same(function, A, B, points=np.array([0.1, bad]))
    for field in range(3):
        numbers = [v + bad if i == field else v for i, v in enumerate(PLAIN)]
        assert "finite" in assert_same(rtf.correct, rtf.TrainedTransferFunction(*numbers, 16))
        assert "finite" in assert_same(rtf.wrap, rtf.TransferFunction(*numbers), 16)


def test_refusals_bear_the_name_of_the_function():
    for function, options in (rtf.kernel, {"length": 9}), (rtf.freqz, {"points": 5}), (rtf.poles, {}):
        said = assert_same(function, np.array([0.0, 1]), B, **options)
        assert said.endswith("a_0 of denominator 0 is 0; it must be finite and not 0")
        assert_same(function, np.ones(0), B, **options)
    assert_same(rtf.poles, np.array([0.0, 1]))
    assert_same(rtf.poles, np.ones(0))
    unstable = np.array([1.0, -3]), np.ones(1)
    assert "rounding" in assert_same(rtf.lfilter, np.ones(2000), *unstable)
    outside = rtf.TrainedTransferFunction(np.array([-3.0]), np.ones(1), np.array(0.0), 2000)
    for call in (rtf.kernel, {"length": 2001}), (rtf.freqz, {}), (rtf.group_delay, {}), (rtf.correct, {}):
        assert "amplify rounding" in assert_same(call[0], outside, **call[1])
    layer = rtf.RTF(2, 3, 16)
    torch.nn.init.constant_(layer.ab, torch.nan)
    with pytest.raises(ValueError, match=r"^\[rtf::kernel\] denominator 0 has numbers that are not finite$"):
        layer(torch.ones(1, 16, 2))
    with pytest.raises(ValueError, match=r"^\[rtf::correct\] "):
        layer.step(torch.ones(1, 2), layer.x_0(1))


def test_responses_at_poles():
    """Infinite without a direction; nan where a zero lies too. The other angles keep their gradients."""
    for a, angle in ([1.0, -1], 0.0), ([1.0, 1], np.pi), ([1.0, 0, 1], np.pi / 2):
        got = assert_same(rtf.freqz, np.array(a), np.ones(1), points=np.array([angle, 0.3]))[1]
        assert got[0] == np.inf and np.isfinite(got[1])
        assert np.isnan(assert_same(rtf.freqz, np.array(a), 2 * np.array(a), points=np.array([angle]))[1][0])
    leaf = torch.tensor([1.0, -1], dtype=torch.float64, requires_grad=True)
    rtf.freqz(leaf, [1.0], points=torch.tensor([0.0, 0.3]).double())[1][1].abs().backward()
    assert leaf.grad.isfinite().all()


def test_lengths_that_no_memory_holds():
    for filter in (PLAIN, rtf.TrainedTransferFunction(*PLAIN, 16)):
        said = assert_same(rtf.kernel, filter, length=10**13)
        assert said.startswith("[rtf::kernel] a kernel of 10000000000000 samples needs at least 80000 GB")
    assert_same(rtf.kernel, PLAIN, length=10**13, method="wrapped")


def test_half_precision():
    """Computed in float32, as by the layers; answers have the type of the samples."""
    x = torch.tensor(X).half()
    for y in rtf.lfilter(x, A, B), rtf.lfilter(x, torch.tensor(A).half(), torch.tensor(B).half()):
        assert y.dtype == torch.float16
    wanted = rtf.lfilter(x.float(), A, B)
    assert torch.equal(rtf.lfilter(x, A, B), wanted.half())
    assert torch.equal(rtf.convolve(x, B), rtf.convolve(x.float(), B).half())


SHAPES = {
    "rows of b, one gain": ((2,), (3, 2), ()),
    "a gain for each": ((2,), (2,), (3,)),
    "rows of a": ((2, 2), (2,), ()),
    "a row of a, of b two": ((1, 2), (2, 2), (2,)),
    "neighbours that share": ((2, 2), (4, 2), (4,)),
    "one gain in a row": ((2,), (2,), (1,)),
    "order 0": ((0,), (0,), ()),
    "other orders": ((2,), (1,), ()),
    "gains of two": ((2,), (3, 2), (2,)),
    "three axes": ((1, 1, 2), (2,), ()),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_of_trained_filters(name):
    rng = np.random.default_rng(0)
    a, b, h0 = (rng.uniform(-0.4, 0.4, shape) for shape in SHAPES[name])
    plain, trained = rtf.TransferFunction(a, b, h0), rtf.TrainedTransferFunction(a, b, h0, 16)
    outcomes = [assert_same(rtf.wrap, plain, 16), assert_same(rtf.correct, trained)]
    outcomes += [assert_same(rtf.kernel, trained, length=length) for length in (7, 16, 40)]
    outcomes += [assert_same(f, trained, points=5) for f in (rtf.freqz, rtf.group_delay)]
    refused = name in ("other orders", "gains of two", "three axes")
    assert all(isinstance(found, str) == refused for found in outcomes)


def test_layers_are_filters():
    layer = rtf.nn.RTF(channels=2, order=3, length=16, init="montel")
    trained = layer.transfer_function()
    assert torch.equal(rtf.poles(layer), rtf.poles(trained))
    assert torch.equal(rtf.kernel(layer, length=16), rtf.kernel(trained, length=16))
    assert torch.equal(rtf.freqz(a=layer)[1], rtf.freqz(trained)[1])
    assert len(rtf.convert(layer, "zpk")) == 2


def test_tuples_are_no_filters():
    for function, more in (rtf.convert, ("zpk",)), (rtf.reduce, (1,)), (rtf.stabilize, ("reflect",)), (rtf.wrap, (8,)), (rtf.correct, ()):
        said = assert_same(function, (B, A), *more)
        assert said == f"[rtf::{function.__name__}] the filter is a tuple; a value of rtf.forms is needed"
