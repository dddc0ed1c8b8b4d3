"""rtf.lfilter of either half against SciPy, states among them."""

import numpy as np
import pytest
import rtf
from oracle import draw_denominator, tolerance
from scipy import signal
from torch_half import need_torch_half

SEEDS = range(40)


@pytest.fixture(params=["arrays", "tensors"])
def lfilter(request):
    """Of arrays, and the same by way of tensors."""
    if request.param == "arrays":
        return rtf.lfilter
    torch = need_torch_half()

    def of_tensors(*args, **kwargs):
        args = [torch.tensor(np.asarray(v)) for v in args]
        kwargs = {name: torch.tensor(v) if isinstance(v, np.ndarray) else v for name, v in kwargs.items()}
        found = rtf.lfilter(*args, **kwargs)
        return tuple(v.numpy() for v in found) if isinstance(found, tuple) else found.numpy()

    return of_tensors


LENGTHS = (1, 2, 3, 5, 8, 17, 64, 97, 100, 255, 512, 1009)


def draw(rng, length):
    """SciPy's (b, a) with any a_0, of sizes that may differ; orders below, at and above the length."""
    n, m = (min(int(rng.choice([0, 1, 2, 3, 7, 16, 33, length - 1, length, length + 1, length + 5])), 120) for _ in range(2))
    scale = rng.choice([-1, 1]) * rng.uniform(0.3, 3)
    return scale * rng.standard_normal(m + 1), scale * np.concatenate([[1.0], draw_denominator(rng, n)])


def condition(a, length):
    """|a|_1 |1/A|_1 over the length, of the denominator divided by a_0."""
    a = np.asarray(a) / a[0]
    return np.abs(a).sum() * np.abs(signal.lfilter([1.0], a, np.eye(1, length)[0])).sum()


def assert_close(actual, expected, kappa, scale, dtype="f64"):
    """To 1e-10 of the scale (1e-5 in float32), more where rounding is amplified by over 1e6 (1e2) in any form."""
    assert actual.shape == expected.shape
    assert np.abs(actual - expected).max(initial=0) <= tolerance(kappa, dtype) * scale


def size_of(*arrays):
    return max(np.abs(array).max(initial=1e-300) for array in arrays)


def test_most_filters_are_held_to_1e_10():
    rngs = [np.random.default_rng(seed) for seed in SEEDS]
    lengths = [int(rng.choice(LENGTHS)) for rng in rngs]
    conditions = [condition(draw(rng, length)[1], length) for rng, length in zip(rngs, lengths)]
    assert np.mean(np.array(conditions) < 1e6) > 0.9
    assert tolerance(0.999e6, "f64") == 1e-10


@pytest.mark.parametrize("seed", SEEDS)
def test_equals_scipy_with_states(seed, lfilter):
    rng = np.random.default_rng(seed)
    length = int(rng.choice(LENGTHS))
    b, a = draw(rng, length)
    batch = [(), (1,), (3,), (2, 3)][seed % 4]
    x = rng.standard_normal((*batch, length))
    kappa = condition(a, length)
    zi = rng.standard_normal((*batch, max(len(a), len(b)) - 1))
    expected, expected_zf = signal.lfilter(b, a, x, zi=zi)
    y, zf = lfilter(x, a, b, zi=zi, return_zf=True)
    assert y.dtype == zf.dtype == np.float64
    assert_close(y, expected, kappa, size_of(expected, x, zi))
    # The state is a sum over a y and b x.
    weight = (np.abs(a).sum() + np.abs(b).sum()) / abs(a[0])
    assert_close(zf, expected_zf, kappa, weight * size_of(expected, x, zi))
    assert_close(lfilter(x, a, b), signal.lfilter(b, a, x), kappa, size_of(signal.lfilter(b, a, x), x))


@pytest.mark.parametrize("seed", SEEDS)
def test_channels_have_their_own_coefficients(seed, lfilter):
    """Rows of b, denominators that neighbouring channels share, and either convention."""
    rng = np.random.default_rng(seed)
    groups = int(rng.integers(1, 4))
    channels, length = groups * int(rng.integers(1, 4)), int(rng.choice(LENGTHS))
    order = min(int(rng.choice([0, 1, 2, 5, 16, length + 1])), 60)
    rows = np.array([draw_denominator(rng, order) for _ in range(groups)]).reshape(groups, order)
    numerator, h0 = rng.standard_normal((channels, order)), rng.standard_normal(channels)
    x = rng.standard_normal((2, channels, length))
    zi = rng.standard_normal((2, channels, order))
    y, zf = lfilter(x, rows, numerator, h0, zi=zi, return_zf=True)
    full = np.concatenate([np.ones((groups, 1)), rows], 1)
    scipys = np.array([h0[c] * full[c * groups // channels] + np.r_[0, numerator[c]] for c in range(channels)])
    vectors, vectors_zf = lfilter(x, 2.5 * full, 2.5 * scipys, zi=zi, return_zf=True)
    for c in range(channels):
        a = full[c * groups // channels]
        expected, expected_zf = signal.lfilter(scipys[c], a, x[:, c], zi=zi[:, c])
        scale, kappa = size_of(expected, x, zi), condition(a, length)
        weight = np.abs(a).sum() + np.abs(scipys[c]).sum()
        for got, got_zf in ((y, zf), (vectors, vectors_zf)):
            assert_close(got[:, c], expected, kappa, scale)
            assert_close(got_zf[:, c], expected_zf, kappa, weight * scale)


def by_long_doubles(b, a, x):
    """The transposed direct form as textbooks have it, in long double."""
    b, a, x = (np.asarray(v, np.longdouble) for v in (b, a, x))
    state, y = np.zeros(len(a), np.longdouble), np.empty_like(x)
    for t, sample in enumerate(x):
        y[t] = b[0] * sample + state[0]
        state[:-1] = b[1:] * sample - a[1:] * y[t] + state[1:]
    return y


BLOCKING = {
    "a notch": signal.iirnotch(1e-4, 30),
    "a narrow notch": signal.iirnotch(1e-3, 1000),
    "a high-pass of order 2": signal.butter(2, 5e-4, "high"),
    "a high-pass of order 4": signal.butter(4, 1e-3, "high"),
    "a steep high-pass": signal.cheby1(4, 1, 2e-3, "high"),
}


@pytest.mark.parametrize("name", BLOCKING)
def test_an_offset_is_blocked(name, lfilter):
    """b and h0 a nearly cancel there, and what is left of the offset hangs on the digits of their difference. No form in
    double holds 1e-10 of all of these; SciPy's own error says what can be asked for."""
    b, a = BLOCKING[name]
    x = np.random.default_rng(0).standard_normal(3000) + 100
    exact = by_long_doubles(b, a, x)
    allowed = np.abs(signal.lfilter(b, a, x) - exact).max() + 1e-15 * np.abs(x).max()
    assert np.abs(lfilter(x, a, b) - exact).max() <= allowed


NARROW = {
    "order 5": signal.butter(5, 1e-3),
    "order 6, ripples": signal.cheby1(6, 1, 5e-3),
    "order 8": signal.butter(8, 0.012),
    "order 8, ripples in both bands": signal.ellip(8, 1, 60, 0.02),
    "order 12, a high-pass": signal.butter(12, 0.05, "high"),
}


@pytest.mark.parametrize("name", NARROW)
def test_narrow_filters_run_as_they_do_in_scipy(name, lfilter):
    """A bound on rounding is past what is allowed, 1e-3, and what it does is not. Signals of the same kind differ by a
    factor of four and less."""
    b, a = NARROW[name]
    length = 1000
    assert 2.0**-52 * condition(a, length) > 1e-3
    x = np.random.default_rng(0).uniform(-1, 1, length)
    exact = by_long_doubles(b, a, x)
    largest = np.abs(exact).max()
    assert np.abs(lfilter(x, a, b) - exact).max() <= 4 * np.abs(signal.lfilter(b, a, x) - exact).max() <= 4e-3 * largest


def test_what_drives_a_narrow_filter_furthest_is_measured_too(lfilter):
    """Of a constant a narrow high-pass has much to subtract."""
    for order, cut in ((8, 0.00847), (6, 0.00143), (12, 0.042)):
        b, a = signal.butter(order, cut, "high")
        with pytest.raises(ValueError, match="rounding would grow to"):
            lfilter(np.ones(1000), a, b)


CUT = {
    **{f"{kind} {order} {cut}": signal.butter(order, cut, kind) for kind in ("low", "high") for order, cut in ((2, 5e-4), (4, 5e-4), (4, 5e-3), (6, 0.02), (8, 0.05))},
    **BLOCKING,
    **NARROW,
}  # fmt: skip


@pytest.mark.parametrize("name", CUT)
def test_narrow_filters_may_be_cut_anywhere(name, lfilter):
    """What is lost is of the size of what SciPy loses, whose states go with its outputs from sample to sample."""
    b, a = CUT[name]
    x = np.random.default_rng(0).standard_normal(4096)
    exact = by_long_doubles(b, a, x)
    filters = (lambda u, z: signal.lfilter(b, a, u, zi=z)), (lambda u, z: lfilter(u, a, b, zi=z, return_zf=True))
    errors = []
    for run in filters:
        state, pieces = np.zeros(len(a) - 1), []
        for piece in np.split(x, 16):
            y, state = run(piece, state)
            pieces.append(y)
        errors.append(np.abs(np.concatenate(pieces) - exact).max())
    assert errors[1] <= 4 * errors[0] + 1e-14 * np.abs(exact).max()


def test_what_is_noise_in_scipy_is_refused(lfilter):
    b, a = signal.butter(10, 5e-3)
    x = np.random.default_rng(0).uniform(-1, 1, 3000)
    sections = signal.sosfilt(signal.butter(10, 5e-3, output="sos"), x)
    assert np.abs(signal.lfilter(b, a, x) - sections).max() > np.abs(sections).max()
    with pytest.raises(ValueError, match=r"^\[rtf::lfilter\] over 3000 samples rounding (would|may) grow to"):
        lfilter(x, a, b)


def test_one_filter_serves_every_row_and_rows_one_numerator():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3, 40))
    a = np.array([[1, -0.5, 0.2], [1, 0.3, 0.1], [2, 0.1, 0.5]])
    y = rtf.lfilter(x, a, [1, 2])
    for c in range(3):
        np.testing.assert_allclose(y[:, c], signal.lfilter([1, 2], a[c], x[:, c]), rtol=0, atol=1e-12)
    np.testing.assert_allclose(rtf.lfilter(x, a[0], [1, 2]), signal.lfilter([1, 2], a[0], x), rtol=0, atol=1e-12)
    only_h0 = rtf.lfilter(x, [-0.5], [1], [0, 1, 2])
    for c in range(3):
        np.testing.assert_allclose(only_h0[:, c], signal.lfilter([c, 1 - 0.5 * c], [1, -0.5], x[:, c]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_a_signal_may_be_cut_anywhere(seed, lfilter):
    rng = np.random.default_rng(seed)
    length = 300
    b, a = draw(rng, 20)
    x = rng.standard_normal((2, length)).astype([np.float64, np.float32][seed % 2])
    whole, last = lfilter(x, a, b, return_zf=True)
    cuts = np.sort(rng.integers(0, length + 1, 4))
    state, pieces = None, []
    for piece in np.split(x, cuts, axis=1):
        y, state = lfilter(piece, a, b, zi=state, return_zf=True)
        pieces.append(y)
    kappa = condition(a, length)
    scale = size_of(whole, x)
    assert_close(np.concatenate(pieces, 1), whole, kappa, scale, "f32" if x.dtype == np.float32 else "f64")
    # Whatever the samples, states are computed in float64.
    assert_close(state, last, kappa, (np.abs(a).sum() + np.abs(b).sum()) / abs(a[0]) * scale)


def test_types():
    b, a = signal.butter(3, 0.2)
    x = np.random.default_rng(1).standard_normal((4, 500))
    expected = signal.lfilter(b, a, x)
    single = rtf.lfilter(x.astype(np.float32), a.astype(np.float32), b)
    assert single.dtype == np.float32
    assert np.abs(single - expected).max() < 1e-5 * np.abs(expected).max()
    whole = rtf.lfilter(np.arange(10), a, b)
    np.testing.assert_allclose(whole, signal.lfilter(b, a, np.arange(10.0)), rtol=0, atol=1e-12)
    # Strided, read-only and reversed memory.
    x.flags.writeable = False
    np.testing.assert_allclose(rtf.lfilter(x[::2, ::-3], a, b), signal.lfilter(b, a, x[::2, ::-3]), rtol=0, atol=1e-12)


def test_steady_state_of_scipy():
    b, a = signal.butter(4, 0.1)
    zi = signal.lfilter_zi(b, a)
    y = rtf.lfilter(np.full((3, 200), 2.0), a, b, zi=2 * zi)  # one state for all rows
    np.testing.assert_allclose(y, 2.0, rtol=0, atol=1e-10)


@pytest.mark.parametrize("a", [[1, -1], [1, -0.9999], [1, -1.99, 0.9901], [1, 0, 0, 0, 1], [1, *[0] * 40, -0.5]])
def test_a_state_that_outlives_the_signal(a, lfilter):
    """On the circle, next to it, and with long silences in between."""
    zi = np.random.default_rng(2).standard_normal((2, len(a) - 1))
    zi[0, 1:] = 0
    expected, expected_zf = signal.lfilter([1], a, np.zeros((2, 3000)), zi=zi)
    y, zf = lfilter(np.zeros((2, 3000)), a, [1], zi=zi, return_zf=True)
    kappa = condition(np.array(a, float), 3000)
    assert_close(y, expected, kappa, size_of(expected))
    assert_close(zf, expected_zf, kappa, np.abs(a).sum() * size_of(expected))
    assert np.isnan(lfilter(np.zeros(500), a, [1], zi=np.full(len(a) - 1, np.nan))).any()


def test_no_samples_leave_the_state():
    y, zf = rtf.lfilter(np.zeros((2, 0)), [1, -0.5, 0.2], [1], zi=[1, 2], return_zf=True)
    assert y.shape == (2, 0)
    assert (zf == [[1, 2], [1, 2]]).all()
    assert rtf.lfilter(np.zeros((0, 5)), [1, -0.5], [1]).shape == (0, 5)


def test_the_input_stays_as_it_was():
    x = np.ones(5)
    zi = np.ones(1)
    rtf.lfilter(x, [1, -0.5], [1], zi=zi, return_zf=True)
    assert (x == 1).all() and zi == 1


REFUSED = {
    "a number": (dict(x=1.0), "x has shape"),
    "complex samples": (dict(x=[1j]), "x has numbers of type complex128"),
    "text": (dict(x=["a"]), "x has numbers of type"),
    "a_0 of zero": (dict(a=[0, 1]), "a_0 of denominator 0 is 0"),
    "no denominator": (dict(a=[]), "a has 0 numbers"),
    "no numerator": (dict(b=[]), "b has 0 numbers"),
    "three axes": (dict(a=np.ones((1, 1, 2))), "a has shape (1, 1, 2)"),
    "nan": (dict(b=[np.nan]), "b[0] is nan; coefficients must be finite"),
    "nan behind a_0": (dict(a=[1, np.nan]), "a[1] is nan; coefficients must be finite"),
    "infinity of a channel": (dict(x=np.ones((2, 4)), b=[[1, 2], [3, np.inf]]), "b[1][1] is inf; coefficients must be finite"),
    "nan beside h0": (dict(a=[np.nan], b=[1], h0=0), "a[0] is nan; coefficients must be finite"),
    "rows of different lengths": (dict(x=[[1, 2], [3]]), "x has rows of different lengths; an array is needed"),
    "other channels": (dict(x=np.ones((2, 4)), b=np.ones((3, 2))), "b has 3 rows; there are 2 channels"),
    "no channels": (dict(b=np.ones((3, 2))), "(..., channels, length) is needed"),
    "denominators that do not divide": (dict(x=np.ones((3, 4)), a=np.ones((2, 1))), "2 rows, which do not divide the 3"),
    "orders beside h0": (dict(a=[0.5], b=[1, 2], h0=0), "a has 1 coefficients and b has 2"),
    "h0 of other channels": (dict(x=np.ones((3, 4)), a=[0.5], b=[1], h0=[1, 2]), "h0 has 2 numbers; there are 3"),
    "a state of another order": (dict(zi=[1, 2]), "zi has shape (2,); (1,) is needed"),
    "an unstable filter": (dict(x=np.ones(2000), a=[1, -1.5]), "denominator 0 has a pole on or outside the unit circle"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_are_one_line(name):
    changed, expected = REFUSED[name]
    with pytest.raises(ValueError) as caught:
        rtf.lfilter(**{"x": np.ones(4), "a": [1, -0.5], "b": [1], **changed})
    assert str(caught.value).startswith("[rtf::lfilter] ") and "\n" not in str(caught.value)
    assert expected in str(caught.value)
