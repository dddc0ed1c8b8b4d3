"""Kernels, convolution and the two numerators on NumPy arrays, against SciPy, direct sums and dense matrices."""

import numpy as np
import oracle
import pytest
import rtf
from oracle import assert_close, draw_filter, draw_sizes
from scipy import signal

SEEDS = range(30)


def draw(seed, length=None):
    rng = np.random.default_rng(seed)
    channels, groups, order, samples = draw_sizes(rng)
    return rng, draw_filter(rng, channels, groups, order, length), samples


@pytest.mark.parametrize("method", ["auto", "recurrence", "division", "newton"])
@pytest.mark.parametrize("seed", SEEDS)
def test_kernel_equals_scipy(seed, method):
    _, f, length = draw(seed)
    kappa = oracle.condition(f, length)
    expected = oracle.exact_kernel(f, length)
    assert_close(rtf.kernel(f.a, f.b, f.h0, length=length, method=method), expected, kappa)
    filter = rtf.TransferFunction(f.a, f.b, f.h0)
    assert (rtf.kernel(filter, length=length) == rtf.kernel(f.a, f.b, f.h0, length=length)).all()
    one = rtf.kernel(f.denominator(0) * 2, f.numerator(0) * 2, length=length, method=method)
    assert_close(one, expected[0], kappa)


@pytest.mark.parametrize("seed", SEEDS)
def test_wrapped_kernel_is_algorithm_1(seed):
    _, f, length = draw(seed)
    expected = oracle.wrapped_kernel(f, length)
    assert_close(rtf.kernel(f.a, f.b, f.h0, length=length, method="wrapped"), expected, oracle.condition(f, length))
    trained = rtf.TrainedTransferFunction(f.a, f.b, f.h0, length)
    assert_close(rtf.kernel(trained, length=length), expected, oracle.condition(f, length))


@pytest.mark.parametrize("seed", SEEDS)
def test_correct_equals_a_dense_solve_and_wrap_is_the_way_back(seed):
    _, f, length = draw(seed)
    f.length = length
    trained = rtf.TrainedTransferFunction(f.a, f.b, f.h0, length)
    plain = rtf.correct(trained)
    kappa = oracle.condition(f, length + f.order)
    expected = oracle.dense_correction(f)
    assert (plain.a == f.a).all()
    if f.order:
        assert_close(plain.b, expected.b, kappa)
    assert_close(plain.h0, expected.h0, kappa)
    assert_close(rtf.kernel(plain, length=length), oracle.wrapped_kernel(f, length), kappa)
    back = rtf.wrap(plain, length)
    assert back.length == length
    if f.order:
        assert_close(back.b, f.b, kappa)
    assert_close(back.h0, f.h0, kappa)


def test_a_vector_stays_a_vector():
    assert rtf.kernel([-0.5], [1], 0, length=3).shape == (3,)
    assert rtf.kernel([[-0.5]], [1], 0, length=3).shape == (1, 3)
    assert rtf.kernel([-0.5], [1], [0, 0], length=3).shape == (2, 3)
    plain = rtf.correct(rtf.TrainedTransferFunction([-0.5], [1], 0, 4))
    assert plain.a.shape == plain.b.shape == (1,) and isinstance(plain.h0, float)
    assert rtf.kernel(*(np.float32(v) for v in ([-0.5], [1], 0)), length=3).dtype == np.float32
    assert rtf.kernel(np.float32([-0.5]), [1.0], 0, length=3).dtype == np.float64


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("seed", SEEDS)
def test_convolve_equals_the_direct_sum(seed, dtype):
    rng = np.random.default_rng(seed)
    length, taps = (int(n) for n in rng.choice([1, 2, 3, 8, 31, 100, 257], 2))
    batch = [(), (2,), (2, 3)][seed % 3]
    x = rng.standard_normal((*batch, 4, length)).astype(dtype)
    kernel = rng.standard_normal((4, taps)).astype(dtype)
    backward = rng.standard_normal((4, taps)).astype(dtype)
    t, j = np.ogrid[:length, :length]
    padded = lambda k: np.pad(k.astype(float), ((0, 0), (0, length)))  # noqa: E731
    matrix = np.where(t >= j, padded(kernel)[:, (t - j).clip(0)], 0)
    expected = np.einsum("ctj,...cj->...ct", matrix, x)
    scale = np.abs(matrix).sum(-1).max() * np.abs(x).max()
    bound = (1e-14 if dtype == np.float64 else 1e-6) * np.log2(length + 1)  # of a transform, a few roundings a level
    y = rtf.convolve(x, kernel)
    assert y.dtype == dtype and y.shape == x.shape
    assert np.abs(y - expected).max() <= bound * scale
    one = rtf.convolve(x[..., 0, :], kernel[0])
    assert np.abs(one - expected[..., 0, :]).max() <= bound * scale
    expected = expected + np.einsum("ctj,...cj->...ct", np.where(t < j, padded(backward)[:, (j - t - 1).clip(0)], 0), x)
    both = rtf.convolve(x, np.stack([kernel, backward]), bidirectional=True)
    assert np.abs(both - expected).max() <= 2 * bound * scale * max(1, np.abs(backward).sum(-1).max() / np.abs(kernel).sum(-1).max())


def test_convolve_with_the_kernel_is_lfilter():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 2, 200))
    a, b, h0 = [[-1.2, 0.81]], rng.standard_normal((2, 2)), [1.0, 2.0]
    y = rtf.convolve(x, rtf.kernel(a, b, h0, length=200))
    np.testing.assert_allclose(y, rtf.lfilter(x, a, b, h0), rtol=0, atol=1e-12 * np.abs(y).max())


def test_sections_of_a_narrow_filter():
    """Coefficients leave no digit of it; its factors do."""
    z, p, k = signal.butter(12, 0.02, output="zpk")
    kernel = rtf.kernel(rtf.ZeroPoleGain(z, p, k), length=500)
    sos = signal.butter(12, 0.02, output="sos")
    expected = signal.sosfilt(sos, np.eye(1, 500)[0])
    assert np.abs(kernel - expected).max() < 1e-9 * np.abs(expected).max()
    assert np.abs(rtf.kernel(rtf.SecondOrderSections(sos), length=500) - expected).max() < 1e-12 * np.abs(expected).max()


@pytest.mark.parametrize("design", [(24, 0.001), (20, 1e-4), (30, 1e-3), (40, 0.02)])
def test_factors_of_a_high_pass(design):
    """All its zeros are at 1: poles that were not met by as many would be integrators, one after the other."""
    sos = signal.butter(*design, "high", output="sos")
    expected = signal.sosfilt(sos, np.eye(1, 10000)[0])
    kernel = rtf.kernel(rtf.ZeroPoleGain(*signal.butter(*design, "high", output="zpk")), length=10000)
    assert np.abs(kernel - expected).max() < 1e-10 * np.abs(expected).max()


REFUSED = {
    "wrapping past memory": (lambda: rtf.wrap(rtf.TransferFunction(np.full((2048, 1), -0.5), np.ones((2048, 1)), np.zeros(2048)), 2**53),
                             "[rtf::wrap] a kernel of 9007199254740994 samples needs"),
    "a kernel past memory": (lambda: rtf.correct(rtf.TrainedTransferFunction([-0.5], [1], 0, 2**53)), "[rtf::correct] a kernel of 9007199254740992 samples"),
    "a list of trained ones": (lambda: rtf.correct([rtf.TrainedTransferFunction([-0.5], [1], 0, 8)]), "channel 0 of the list is a trained filter; a list has plain"),
    "no length": (lambda: rtf.kernel([-0.5], [1], 0, length=0), "length is 0; at least 1"),
    "half a length": (lambda: rtf.kernel([-0.5], [1], 0, length=2.5), "length is 2.5; a whole number"),
    "a huge kernel": (lambda: rtf.kernel([-0.5], [1], 0, length=10**14), "GB of memory"),
    "no numerator": (lambda: rtf.kernel([-0.5], length=3), "b is missing"),
    "a form and a numerator": (lambda: rtf.kernel(rtf.TransferFunction([], [], 1), [1], length=3), "must be left out"),
    "an unknown method": (lambda: rtf.kernel([-0.5], [1], 0, length=3, method="qr"), "method is 'qr'; auto, wrapped"),
    "a vanishing denominator": (lambda: rtf.kernel([-1.0], [1], 0, length=3, method="wrapped"), "vanishes"),
    "taps of no signal": (lambda: rtf.convolve(np.ones((3, 4)), np.ones((2, 4))), "2 rows; there are 3 channels"),
    "no taps": (lambda: rtf.convolve([1.0], []), "no taps"),
    "one direction": (lambda: rtf.convolve([1.0], [[1.0]], bidirectional=True), "(2, taps)"),
    "a plain filter": (lambda: rtf.correct(rtf.TransferFunction([], [], 1)), "not an rtf.TrainedTransferFunction"),
    "a trained filter": (lambda: rtf.wrap(rtf.TrainedTransferFunction([], [], 1, 4), 4), "not an rtf.TransferFunction"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_are_one_line(name):
    call, expected = REFUSED[name]
    with pytest.raises(ValueError, match=r"^\[rtf::\w+\] [^\n]*$") as caught:
        call()
    assert expected in str(caught.value)
