"""What is drawn, against SciPy."""

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
    low, high = axes.get_ylim()
    assert low == pytest.approx(20 * np.log10(abs(1 - np.exp(-7j * np.pi / 8))) - 100)


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
