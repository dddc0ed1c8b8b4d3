"""Poles, responses, forms, fits, lower orders and stable filters on NumPy arrays, against SciPy and NumPy."""

import warnings

import numpy as np
import oracle
import pytest
import rtf
from oracle import draw_filter
from scipy import signal

SEEDS = range(20)


def draw(seed, channels=1, groups=1, largest=16):
    rng = np.random.default_rng(seed)
    return draw_filter(rng, channels, groups, int(rng.integers(0, largest)))


def value_of(f, c=None):
    if c is None:
        return rtf.TransferFunction(f.a, f.b, f.h0)
    return rtf.TransferFunction(f.denominator(c)[1:], f.b[c], f.h0[c])


def assert_same_set(actual, expected, tolerance=1e-7):
    """Each number has one of its own within the tolerance, which is that of roots of the orders drawn."""
    assert len(actual) == len(expected)
    left = list(expected)
    for x in actual:
        nearest = min(range(len(left)), key=lambda i: abs(left[i] - x))
        assert abs(left.pop(nearest) - x) <= tolerance * max(1, abs(x))


@pytest.mark.parametrize("seed", SEEDS)
def test_poles_are_the_roots_of_the_denominator(seed):
    f = draw(seed, 4, 2)
    found = rtf.poles(f.a, f.b, f.h0)
    assert found.shape == (2, f.order) and found.dtype == np.complex128
    for group in range(2):
        roots = np.roots(np.r_[1, f.a[group]])
        padded = np.r_[roots, np.zeros(f.order - len(roots))]
        assert_same_set(found[group], padded, 1e-6)
        assert (np.diff(np.abs(found[group])) <= 1e-9).all()
    assert_same_set(rtf.poles(f.denominator(0)), found[0])
    assert_same_set(rtf.poles(value_of(f, 0)), found[0])
    # In a list every form has its own.
    for form in ("zpk", "ss"):
        listed = rtf.poles(rtf.convert(value_of(f), form))
        assert isinstance(listed, list) and len(listed) == 4
        assert_same_set(listed[3], found[1], 1e-5)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_freqz_equals_scipy(seed, whole):
    f = draw(seed, 2, 1)
    angles, response = rtf.freqz(f.a, f.b, f.h0, points=100, whole=whole)
    assert response.shape == (2, 100) and response.dtype == np.complex128
    for c in range(2):
        w, h = signal.freqz(f.numerator(c), f.denominator(c), 100, whole=whole)
        np.testing.assert_allclose(angles, w, rtol=1e-15)
        np.testing.assert_allclose(response[c], h, rtol=0, atol=1e-10 * np.abs(h).max())
        again, one = rtf.freqz(f.denominator(c), f.numerator(c), points=w)
        assert (again == w).all()
        np.testing.assert_allclose(one, h, rtol=0, atol=1e-10 * np.abs(h).max())


@pytest.mark.parametrize("seed", SEEDS)
def test_group_delay_equals_scipy(seed):
    f = draw(seed, 1, 1, 8)
    angles = np.linspace(0.1, 3, 30)
    same, delay = rtf.group_delay(f.denominator(0), f.numerator(0), points=angles)
    assert (same == angles).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, expected = signal.group_delay((f.numerator(0), f.denominator(0)), angles)
    np.testing.assert_allclose(delay, expected, rtol=1e-7, atol=1e-7 * max(1, np.abs(expected).max()))
    assert rtf.group_delay(f.a, f.b, f.h0, points=5)[1].shape == (1, 5)


@pytest.mark.parametrize("taps", [3, 5, 8, 16, 64, 100])
def test_the_group_delay_next_to_zeros(taps):
    """The angles of the grid are those of zeros but for their rounding: there it is nan, or the delay all the same."""
    delay = rtf.group_delay([1.0], np.ones(taps))[1]
    assert np.nanmax(np.abs(delay - (taps - 1) / 2)) < 1e-9
    assert np.isnan(delay).sum() <= taps // 2


@pytest.mark.parametrize("design", [signal.ellip(8, 0.5, 60, 0.3, output="zpk"), signal.cheby2(9, 60, 0.4, output="zpk")])
def test_the_group_delay_at_zeros_of_designs(design):
    """Half a sample for each zero on the circle, whatever the form, and what the poles add."""
    zeros, poles, _ = design
    angles = np.sort(np.concatenate((np.abs(np.angle(zeros)), np.linspace(0.01, 3, 50))))
    z = np.exp(1j * angles)
    wanted = sum(np.real(z / (z - p)) for p in poles) - len(zeros) / 2
    ratio = rtf.PolynomialRatio(*signal.zpk2tf(*design))
    beside = rtf.convert(ratio, "zpk")
    assert beside.h0 != 0
    for filter in (rtf.ZeroPoleGain(*design), rtf.SecondOrderSections(signal.zpk2sos(*design)), ratio, beside):
        delay = rtf.group_delay(filter, points=angles)[1]
        assert np.isnan(delay).sum() <= len(zeros)
        assert np.nanmax(np.abs(delay - wanted)) < 1e-3 * wanted.max()


def test_poles_of_any_size():
    others = [0.8, 0.5, -0.3, 0.25]
    np.testing.assert_allclose(rtf.poles(np.convolve(np.poly(others), [1, 1e100])), [-1e100, *others], rtol=1e-9)
    np.testing.assert_allclose(rtf.poles([1e-200, 1e-200, 1]), [-0.5 + 1e100j, -0.5 - 1e100j], rtol=1e-12)


def test_angles_of_any_size():
    """Beyond what a multiple of pi / 2 is rounded by, an angle is what it is."""
    angles = np.array([1e3, 1e9, 1e20])
    found = rtf.freqz([1, 0.5], [1.0], points=angles)[1]
    np.testing.assert_allclose(found, 1 / (1 + 0.5 * np.exp(-1j * angles)), rtol=1e-12)


def test_responses_of_factors():
    sos = signal.butter(12, 0.02, output="sos")
    w, expected = signal.sosfreqz(sos, 64)
    angles, response = rtf.freqz(rtf.SecondOrderSections(sos), points=64)
    np.testing.assert_allclose(response, expected, rtol=0, atol=1e-9)
    listed = rtf.freqz([rtf.SecondOrderSections(sos), rtf.SecondOrderSections(sos[:1])], points=64)[1]
    assert listed.shape == (2, 64)
    np.testing.assert_allclose(listed[0], response)


@pytest.mark.parametrize("seed", SEEDS)
def test_convert_agrees_with_scipy(seed):
    f = draw(seed)
    b, a = f.numerator(0), f.denominator(0)
    kernel = oracle.exact_kernel(f, 64)[0]
    atol = 1e-8 * max(np.abs(kernel).max(), 1e-300)
    zpk = rtf.convert(rtf.PolynomialRatio(b, a), "zpk", feed_through="inside")
    assert zpk.h0 == 0
    impulse = np.eye(1, 64)[0]
    assert_kernel = lambda k: np.testing.assert_allclose(k, kernel, rtol=0, atol=atol)  # noqa: E731
    assert_kernel(signal.lfilter(*signal.zpk2tf(zpk.zeros, zpk.poles, zpk.gain), impulse).real)
    sos = rtf.convert(rtf.PolynomialRatio(b, a), "sos")
    assert sos.sections.shape[1] == 6
    assert_kernel(signal.sosfilt(sos.sections, impulse))
    ss = rtf.convert(rtf.PolynomialRatio(b, a), "ss")
    system = signal.StateSpace(*ss, dt=1)
    assert_kernel(signal.dlsim(system, impulse)[1][:, 0] if f.order else ss.D[0, 0] * impulse)
    plain = rtf.convert(rtf.PolynomialRatio(2 * b, 2 * a), "tf")
    assert plain.a.shape == (f.order,)
    np.testing.assert_allclose(plain.a, f.a[0], rtol=1e-12, atol=1e-12)
    ratio = rtf.convert(plain, "ba")
    assert_kernel(signal.lfilter(*ratio, impulse))


def assert_within(kernel, expected, reports):
    """What the conditions of the conversions leave of double precision."""
    bound = max(1e-15 * report.condition for report in reports)
    assert np.abs(kernel - expected).max() <= max(1e-9, 100 * bound) * np.abs(expected).max()


@pytest.mark.parametrize("seed", SEEDS)
def test_every_form_is_read_back(seed):
    f = draw(seed, 3, 3, 8)
    expected = oracle.exact_kernel(f, 50)
    for form in ("tf", "ba", "ss", "zpk", "sos", "modal"):
        try:
            converted, reports = rtf.convert(value_of(f), form, return_report=True)
        except ValueError as error:  # drawn with a pole twice
            assert form == "modal" and ("distinct poles" in str(error) or "apart" in str(error))
            continue
        assert len(reports) == 3 and all(report.error < 1e-6 for report in reports)
        assert isinstance(converted, list) == (form != "tf")
        kernel = rtf.kernel(converted, length=50)
        assert_within(kernel, expected, reports)
        back, again = rtf.convert(converted, "tf", return_report=True)
        assert_within(rtf.kernel(back, length=50), expected, [*reports, *again])


def test_a_report_of_one_channel_and_a_trained_filter():
    trained = rtf.TrainedTransferFunction([-1.2, 0.81], [1, 0.5], 1, 64)
    plain, report = rtf.convert(trained, "tf", return_report=True)
    assert report.method.startswith("corrected at length 64")
    corrected = rtf.correct(trained)
    np.testing.assert_allclose(plain.b, corrected.b, rtol=1e-14)


def test_several_inputs_and_outputs():
    rng = np.random.default_rng(0)
    system = rtf.StateSpace(0.3 * rng.standard_normal((3, 3)), rng.standard_normal((3, 2)), rng.standard_normal((2, 3)), np.zeros((2, 2)))
    mimo = rtf.convert(system, "tf")
    assert isinstance(mimo, rtf.MimoTransferFunction)
    assert mimo.a.shape == (3,) and mimo.b.shape == (2, 2, 3) and mimo.h0.shape == (2, 2)
    for i in range(2):
        for j in range(2):
            markov = [system.C[i] @ np.linalg.matrix_power(system.A, t) @ system.B[:, j] for t in range(20)]
            kernel = rtf.kernel(mimo.a, mimo.b[i, j], mimo.h0[i, j], length=21)
            np.testing.assert_allclose(kernel[1:], markov, rtol=0, atol=1e-12)
    assert_same_set(rtf.poles(mimo), np.linalg.eigvals(system.A))
    assert_same_set(rtf.poles(system), np.linalg.eigvals(system.A))
    again = rtf.convert(mimo, "ss")
    assert again.B.shape[1] == 2


def test_a_conversion_with_few_digits_warns():
    zpk = rtf.ZeroPoleGain(*signal.butter(9, 0.01, output="zpk"))
    with pytest.warns(RuntimeWarning, match=r"^\[rtf::convert\] channel 0 is off by .*: form tf cannot hold it$"):
        rtf.convert(zpk, "tf")
    with pytest.raises(ValueError, match=r"^\[rtf::convert\] "):
        rtf.convert(rtf.ZeroPoleGain(*signal.butter(16, 0.02, output="zpk")), "tf")


@pytest.mark.parametrize("method", ["iterative", "hankel", "prony"])
@pytest.mark.parametrize("seed", range(8))
def test_fit_finds_the_filter_of_a_kernel(seed, method):
    rng = np.random.default_rng(seed)
    f = draw_filter(rng, 2, 2, int(rng.integers(1, 5)), kinds=(0, 1))
    kernel = oracle.exact_kernel(f, 300)
    fitted = rtf.fit(kernel, f.order, method=method)
    assert (fitted.error < 1e-6).all() and (fitted.radius < 1).all() and fitted.filter.a.shape == (2, f.order)
    found = rtf.kernel(fitted.filter, length=300)
    np.testing.assert_allclose(found, kernel, rtol=0, atol=1e-5 * np.abs(kernel).max())
    np.testing.assert_allclose(fitted.error, np.linalg.norm(found - kernel, axis=1) / np.linalg.norm(kernel, axis=1), atol=1e-9)
    assert len(fitted.hankel) == 2 and all(len(values) == (0 if method == "prony" else f.order + 1) for values in fitted.hankel)
    shared = rtf.fit(kernel, 2 * f.order, method=method, shared=True)
    assert shared.filter.a.shape == (1, 2 * f.order) and shared.radius.shape == (1,)
    one = rtf.fit(kernel[0], f.order, method=method)
    assert one.filter.a.shape == (f.order,) and one.error.shape == (1,)


def test_fit_to_state_spaces():
    kernel = rtf.kernel([-1.2, 0.81], [[1, 0.4], [0.2, 1]], 0, length=100)
    fitted = rtf.fit(kernel, 2, method="hankel", to="ss")
    assert [type(system) for system in fitted.filter] == [rtf.StateSpace] * 2
    np.testing.assert_allclose(rtf.kernel(fitted.filter, length=100), kernel, rtol=0, atol=1e-9)


@pytest.mark.parametrize("to", ["tf", "ss"])
@pytest.mark.parametrize("seed", range(8))
def test_reduce_holds_its_bound(seed, to):
    rng = np.random.default_rng(seed)
    f = draw_filter(rng, 2, 2, 8, kinds=(0, 1))
    reduced = rtf.reduce(value_of(f), 4, to=to)
    angles, before = rtf.freqz(f.a, f.b, f.h0, points=4096)
    after = rtf.freqz(reduced.filter, points=angles)[1]
    largest = np.abs(before - after).max(1)
    assert (largest <= reduced.error * (1 + 1e-6) + 1e-9).all()
    assert (reduced.error <= reduced.bound * (1 + 1e-6) + 1e-9 * np.abs(before).max()).all()
    assert reduced.bound.shape == (2,) and len(reduced.hankel) == 2
    assert isinstance(reduced.filter, list) == (to == "ss")


@pytest.mark.parametrize("method", ["reflect", "refit", "montel"])
def test_stabilize(method):
    unstable = rtf.TransferFunction([-1.9, 1.02], [1.0, 0.2], 0.5)
    stable = rtf.stabilize(unstable, method, length=64)
    assert np.abs(rtf.poles(stable.filter)).max() < 1
    before, after = (rtf.kernel(filter, length=64) for filter in (unstable, stable.filter))
    np.testing.assert_allclose(stable.error, np.linalg.norm(before - after) / np.linalg.norm(before), rtol=1e-6)
    trained = rtf.stabilize(rtf.TrainedTransferFunction(*unstable, 64), method)
    assert isinstance(trained.filter, rtf.TrainedTransferFunction) and trained.filter.length == 64
    if method == "reflect":
        angles, response = rtf.freqz(unstable, points=50)
        np.testing.assert_allclose(np.abs(rtf.freqz(stable.filter, points=angles)[1]), np.abs(response), rtol=1e-9)
        zpk = rtf.stabilize(rtf.ZeroPoleGain([0.5], [1.25], 2.0), method)
        assert isinstance(zpk.filter, rtf.ZeroPoleGain)
        np.testing.assert_allclose(zpk.filter.poles, [0.8])


ZPK = rtf.ZeroPoleGain([], [0.5], 1)
REFUSED = {
    "an unknown form": (lambda: rtf.convert(ZPK, "fir"), "to is 'fir'; tf, ba"),
    "coefficients": (lambda: rtf.convert([1.0, 2.0], "tf"), "the filter is a list; a value of rtf.forms is needed"),
    "a method without matrices": (lambda: rtf.convert(ZPK, "tf", method="markov"), "is for an ss"),
    "zeros of no zpk": (lambda: rtf.convert(ZPK, "ss", feed_through="inside"), "which is for zpk"),
    "an unknown place": (lambda: rtf.convert(ZPK, "zpk", feed_through="out"), "auto, separate or inside"),
    "half a pair": (lambda: rtf.convert(rtf.ZeroPoleGain([], [0.5j], 1), "tf"), "conjugate"),
    "two forms": (lambda: rtf.convert([ZPK, rtf.SecondOrderSections([[1, 0, 0, 1, 0, 0]])], "tf"), "one form is needed"),
    "five numbers a section": (lambda: rtf.convert(rtf.SecondOrderSections([[1.0] * 5]), "tf"), "(sections, 6)"),
    "matrices of other sizes": (lambda: rtf.convert(rtf.StateSpace(np.eye(2), [1.0], [1, 1], 0), "tf"), "B of a ss has shape (1)"),
    "text": (lambda: rtf.convert(rtf.ZeroPoleGain([], ["a"], 1), "tf"), "poles has numbers of type"),
    "ragged points": (lambda: rtf.freqz([1], [1], points=[[1], [1, 2]]), "points has rows of different lengths"),
    "more points than memory": (lambda: rtf.freqz([1], [1], points=2**53), "[rtf::freqz] a circle of 9007199254740992 points needs"),
    "an array as an order": (lambda: rtf.fit(2, np.arange(30.0)), "order is of type ndarray; a whole number"),
    "no points": (lambda: rtf.freqz([1], [1], points=0), "points is 0"),
    "angles of the whole": (lambda: rtf.freqz([1], [1], points=[0.1], whole=True), "whole is for a number"),
    "no samples": (lambda: rtf.fit([], 2), "shape (0)"),
    "a sample that is nan": (lambda: rtf.fit([1.0, np.nan], 1), "finite"),
    "an unknown fit": (lambda: rtf.fit([1.0, 0.5], 1, method="qr"), "hankel, prony or iterative"),
    "a negative order": (lambda: rtf.fit([1.0, 0.5], -1), "order is -1"),
    "matrices by coefficients": (lambda: rtf.fit([1.0, 0.5], 1, to="ss"), "hankel"),
    "an unstable filter": (lambda: rtf.reduce(rtf.TransferFunction([-1.5, 0], [1, 0], 0), 1), "pole"),
    "an unknown way": (lambda: rtf.stabilize(ZPK, "hope"), "reflect, refit or montel"),
    "another length": (lambda: rtf.stabilize(rtf.TrainedTransferFunction([-1.5], [1], 0, 8), "refit", length=9), "trained at 8"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_are_one_line(name):
    call, expected = REFUSED[name]
    with pytest.raises(ValueError, match=r"^\[rtf::\w+\] [^\n]*$") as caught:
        call()
    assert expected in str(caught.value)
