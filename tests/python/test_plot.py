"""What is drawn, against SciPy."""

import itertools
import subprocess
import sys

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
import rtf
from oracle import draw_filter
from scipy import signal
from test_numpy_toolbox import assert_same_set
from torch_half import need_torch_half

matplotlib.use("Agg")
SEEDS = range(8)


@pytest.fixture(autouse=True)
def no_figures_are_left():
    yield
    plt.close("all")


def draw(seed, channels=1, groups=1):
    rng = np.random.default_rng(seed)
    return draw_filter(rng, channels, groups, int(rng.integers(1, 10)))


def ways(f):
    """One channel as the functions take it: SciPy's vectors, a layer's numbers, other forms."""
    layer = (f.a[0], f.b[0], f.h0[0])
    value = rtf.TransferFunction(*layer)
    return [(f.denominator(0), f.numerator(0)), layer, (value,), (rtf.wrap(value, 64),), (rtf.convert(value, "ss"),)]


def drawn(line):
    return line.get_xdata() + 1j * line.get_ydata()


def window(*spans):
    """Limits that show all of them, with matplotlib's margin."""
    low, high = min(low for low, _ in spans), max(high for _, high in spans)
    return low - 0.05 * (high - low), high + 0.05 * (high - low)


@pytest.mark.parametrize("seed", SEEDS)
def test_impulse_is_that_of_scipy(seed):
    f = draw(seed)
    for length in (1, 17, 150):
        expected = signal.lfilter(f.numerator(0), f.denominator(0), np.eye(1, length)[0])
        for given in ways(f):
            (line, *_) = rtf.plot.impulse(*given, length=length).lines
            np.testing.assert_array_equal(line.get_xdata(), np.arange(length))
            np.testing.assert_allclose(line.get_ydata(), expected, rtol=0, atol=1e-9 * abs(expected).max())


@pytest.mark.parametrize("seed", SEEDS)
def test_frequency_responses_are_those_of_scipy(seed):
    f = draw(seed)
    angles, response = signal.freqz(f.numerator(0), f.denominator(0), 100)
    _, delay = signal.group_delay((f.numerator(0), f.denominator(0)), angles)
    expected = {
        rtf.plot.magnitude: 20 * np.log10(abs(response)),
        rtf.plot.phase: np.unwrap(np.angle(response)) / np.pi,
        rtf.plot.group_delay: delay,
    }
    for given in ways(f):
        for function, values in expected.items():
            for points in (100, angles):
                (line,) = function(*given, points=points).lines
                np.testing.assert_allclose(line.get_xdata(), angles / np.pi, rtol=1e-13, atol=0)
                np.testing.assert_allclose(line.get_ydata(), values, rtol=0, atol=1e-6 * max(1, abs(values).max()))
            plt.close("all")


@pytest.mark.parametrize("seed", SEEDS)
def test_poles_and_zeros_are_those_of_scipy(seed):
    f = draw(seed)
    zeros, poles, _ = signal.tf2zpk(f.numerator(0), f.denominator(0))
    near = [roots[abs(roots) <= 2.5] for roots in (poles, zeros)]
    for given in ways(f):
        axes = rtf.plot.pole_zero(*given)
        circle, crosses, rings = axes.lines
        np.testing.assert_allclose(abs(drawn(circle)), 1, rtol=1e-12)
        assert (crosses.get_marker(), rings.get_marker()) == ("x", "o")
        assert_same_set(drawn(crosses), near[0], 1e-5)
        assert_same_set(drawn(rings), near[1], 1e-5)
        notes = [text.get_text() for text in axes.texts if "beyond" in text.get_text()]
        beyond = sum(abs(np.concatenate((zeros, poles))) > 2.5)
        assert notes == ([f"{beyond} beyond 2.5"] if beyond else [])
        assert len(rtf.plot.pole_zero(*given, zeros=False).lines) == 2
    assert_same_set(drawn(rtf.plot.pole_zero(f.denominator(0)).lines[1]), poles, 1e-5)


def test_rows_are_curves():
    f = draw(1, channels=4, groups=2)
    value = rtf.TransferFunction(f.a, f.b, f.h0)
    for given in ((value,), (rtf.convert(value, "zpk"),)):
        kernels = np.array([line.get_ydata() for line in rtf.plot.impulse(*given, length=40).lines])
        np.testing.assert_allclose(kernels, rtf.kernel(value, length=40), rtol=0, atol=1e-10)
        assert len(rtf.plot.magnitude(*given).lines) == 4
        crosses, rings = rtf.plot.pole_zero(*given).lines[1:]
        assert len(crosses.get_xdata()) == (2 if given == (value,) else 4) * f.order
        assert len(rings.get_xdata()) <= 4 * f.order


def test_multiplicities_are_numbered():
    axes = rtf.plot.pole_zero([1], [0, 0, 0, 1])  # three poles at 0
    assert [text.get_text() for text in axes.texts] == ["3"]
    assert not list(rtf.plot.pole_zero([1, -0.5], [1]).texts)


def test_a_zero_on_the_circle_leaves_the_rest_to_be_seen():
    axes = rtf.plot.magnitude([1], [1, -1], points=8)  # its zero is at angle 0
    assert axes.lines[0].get_ydata()[0] == -np.inf
    peak = 20 * np.log10(abs(1 - np.exp(-7j * np.pi / 8)))
    assert axes.get_ylim() == pytest.approx(window((peak - 100, peak)))


@pytest.mark.parametrize(("order", "edge"), [(8, 0.3), (24, 0.05)])
def test_what_is_hidden_takes_no_room(order, edge):
    """These go down to hundreds of decibels below what is shown; their data stay whole."""
    axes = rtf.plot.magnitude(rtf.ZeroPoleGain(*signal.butter(order, edge, output="zpk")))
    assert axes.get_ylim() == pytest.approx(window((-100, 0)))
    assert axes.lines[0].get_ydata().min() < -300
    assert axes.get_xlim() == (0, 1)


@pytest.mark.parametrize("order", itertools.permutations(range(3)))
def test_filters_are_compared_in_one_axes(order):
    """Whatever their order, all are seen, and so are the curves and limits of the caller."""
    b, a = signal.butter(8, 0.3)
    filters = [((a, b), (-100, 0)), ((a, 1000 * b), (-40, 60)), (([1.0], [1e-9]), (-180, -180))]
    _, (axes, mixed, fixed) = plt.subplots(1, 3)
    mixed.plot([0.5, 1.5], [80, 90])
    fixed.set(xlim=(0, 0.5), ylim=(-3, 1))
    for k, last in enumerate(order):
        for one in (axes, mixed, fixed):
            rtf.plot.magnitude(*filters[last][0], ax=one)
        spans = [filters[i][1] for i in order[: k + 1]]
        if len({*itertools.chain(*spans)}) > 1:  # of a level line alone matplotlib makes the window
            assert axes.get_ylim() == pytest.approx(window(*spans))
        assert mixed.get_ylim() == pytest.approx(window(*spans, (80, 90)))
    assert (axes.get_xlim(), mixed.get_xlim()) == ((0, 1), (0, 1.5))
    assert (fixed.get_xlim(), fixed.get_ylim()) == ((0, 0.5), (-3, 1))
    # What the caller adds later does not bring back what is hidden.
    axes.plot([0.2, 0.3], [100, 100])
    assert axes.get_ylim() == pytest.approx(window((-180, 100)))


def test_a_response_that_is_nowhere_above_zero():
    axes = rtf.plot.magnitude([1.0], [0.0])
    assert (axes.lines[0].get_ydata() == -np.inf).all()
    rtf.plot.magnitude([1.0], [1.0, 0.5], ax=axes)
    assert axes.get_ylim() == pytest.approx(window(20 * np.log10([0.5, 1.5])), abs=0.01)


def test_points_without_a_response_leave_the_others():
    """A moving sum as a recurrence, 0 / 0 at angle 0."""
    summing = [1, -1.0], [1, 0, 0, 0, 0, 0, 0, 0, -1.0]
    angles = np.arange(512) * np.pi / 512
    inside = np.arange(1, 512) % 128 != 0  # between the zeros, where the phase jumps
    expected = np.angle(np.exp(1j * np.outer(angles, -np.arange(8))).sum(1))
    overview = rtf.plot.overview(*summing)
    for axes in (rtf.plot.phase(*summing), overview[1, 1]):
        phase = axes.lines[0].get_ydata() * np.pi
        assert np.isnan(phase[0])
        turns = (phase - expected)[1:][inside] / (2 * np.pi)
        np.testing.assert_allclose(turns, turns.round(), atol=1e-9)
        np.testing.assert_allclose(phase[1:128], expected[1:128], atol=1e-9)
        assert abs(np.diff(phase[1:])).max() <= np.pi + 1e-9
    for axes in (rtf.plot.magnitude(*summing), overview[0, 1]):
        assert np.isnan(axes.lines[0].get_ydata()[0])
        peak = 20 * np.log10(abs(np.exp(1j * angles[1] * np.arange(8)).sum()))
        assert axes.get_ylim() == pytest.approx(window((peak - 100, peak)))


def test_a_pole_on_the_circle_has_no_phase():
    """Nor does it take that of another row."""
    poles = [0.5, 1.0]
    rows = rtf.TransferFunction([[-pole] for pole in poles], [[1.0], [1.0]], [0.0, 0.0])
    for pole, line in zip(poles, rtf.plot.phase(rows, points=16).lines, strict=True):
        circle = np.exp(1j * np.pi * line.get_xdata()[1:])
        np.testing.assert_allclose(line.get_ydata()[1:], np.unwrap(np.angle(1 / (circle - pole))) / np.pi, atol=1e-12)
        assert np.isnan(line.get_ydata()[0]) == (pole == 1)
    axes = rtf.plot.magnitude(rows, points=16)
    assert [line.get_ydata()[0] for line in axes.lines] == [pytest.approx(20 * np.log10(2)), np.inf]
    assert np.isfinite(axes.get_ylim()).all()


def test_short_names_of_styles():
    (line, *_) = rtf.plot.impulse([1, -0.5], [1], ls="-", ms=10, c="red").lines
    assert (line.get_linestyle(), line.get_markersize(), line.get_color(), line.get_marker()) == ("-", 10, "red", "o")
    marks = rtf.plot.pole_zero([1, -0.5], [1], c="red", mfc="blue", ms=9).lines[-2:]
    for mark, marker in zip(marks, "xo", strict=True):
        assert (mark.get_color(), mark.get_markerfacecolor(), mark.get_markersize()) == ("red", "blue", 9)
        assert (mark.get_marker(), mark.get_linestyle()) == (marker, "None")
    for function in (rtf.plot.magnitude, rtf.plot.phase, rtf.plot.group_delay):
        (line,) = function([1, -0.5], [1], ls=":", lw=3).lines
        assert (line.get_linestyle(), line.get_linewidth()) == (":", 3)


def test_into_axes_that_are_there():
    """Nothing new is opened, and the style is the caller's."""
    _, axes = plt.subplots()
    for function in (rtf.plot.impulse, rtf.plot.magnitude, rtf.plot.phase, rtf.plot.group_delay, rtf.plot.pole_zero):
        assert function([1, -0.5], [1], ax=axes, color="red", label="one") is axes
        assert "red" in [line.get_color() for line in axes.lines]
        assert [text.get_text() for text in axes.legend().get_texts()] == ["one"]
        axes.clear()
    assert plt.get_fignums() == [1]
    # A second filter in the same picture may not push the first one out of it.
    rtf.plot.pole_zero([1], [1, 2.0], ax=axes)
    rtf.plot.pole_zero([1], [1, 0.5], ax=axes)
    assert axes.get_xlim()[0] < -2


def test_overview_has_all():
    axes = rtf.plot.overview(rtf.TransferFunction([-1.2, 0.81], [1, 0.4], 0), length=30)
    assert axes.shape == (2, 2)
    assert len(axes[0, 0].lines[0].get_xdata()) == 30
    labels = {one.get_ylabel() for one in axes.ravel()}
    assert labels == {"impulse response", "magnitude in dB", "phase / π", "imaginary part"}


def test_layers():
    torch = need_torch_half()
    layer = rtf.nn.RTF(channels=3, order=4, length=50, denominators=3, init="montel")
    torch.nn.init.normal_(layer.b)
    kernels = np.array([line.get_ydata() for line in rtf.plot.impulse(layer).lines])
    np.testing.assert_array_equal(kernels.astype(np.float32), layer.kernel().detach().numpy())
    a, b, h0 = (value.detach().numpy() for value in layer.realize())
    for c, line in enumerate(rtf.plot.magnitude(layer, points=64).lines):
        _, response = signal.freqz(np.r_[h0[c], h0[c] * a[c] + b[c]], np.r_[1, a[c]], 64)
        np.testing.assert_allclose(line.get_ydata(), 20 * np.log10(abs(response)), rtol=0, atol=1e-3)
    crosses, rings = rtf.plot.pole_zero(layer).lines[1:]
    assert_same_set(drawn(crosses), np.concatenate([np.roots(np.r_[1, one]) for one in a]), 1e-4)


def test_poles_of_a_layer_that_has_no_recurrence():
    """Training may leave poles outside; this is the picture that shows them."""
    trained = rtf.TrainedTransferFunction([-1.5], [1], 0, 4096)
    assert drawn(rtf.plot.pole_zero(trained, zeros=False).lines[1]) == [1.5]
    with pytest.raises(ValueError, match=r"^\[rtf::correct\]"):
        rtf.plot.pole_zero(trained)


def test_without_matplotlib_it_says_so():
    code = """
import importlib.abc, sys
class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] == "matplotlib":
            raise ModuleNotFoundError(f"No module named {name!r}", name="matplotlib")
sys.meta_path.insert(0, Blocked())
import rtf
print(rtf.lfilter([1.0], [1], [1]))
try:
    rtf.plot
except AttributeError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "[1.]\nrtf.plot needs matplotlib, which is not installed\n"), done.stderr


def test_tensors_and_the_published_layer():
    """Angles that are the only tensor, and a layer for its filter."""
    torch = need_torch_half()
    angles = torch.tensor([0.1, 0.2])
    assert rtf.plot.magnitude([1, -0.5], [1], points=angles).lines[0].get_xdata().shape == (2,)
    layer = rtf.RTF(2, 3, 16, init="montel")
    assert len(rtf.plot.impulse(layer).lines) >= 1
    rtf.plot.pole_zero(layer)
