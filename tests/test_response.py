"""`rtf freqz`, `rtf kernel --step` and `rtf plot` against SciPy called live."""

import json
import re
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from scipy import linalg, signal

from oracle import Filter, condition, draw_filter, draw_sizes, load_json, save_json, tolerance
from test_bad_input import expect_refusal, folder  # noqa: F401

EPSILON = 2.0**-52


def polynomial_errors(f, c, w):
    """|H|'s relative error when A and N are evaluated in double, as SciPy does: roundings over what is left."""
    powers = np.exp(-1j * np.outer(w, np.arange(f.order + 1)))
    error = 0.0
    for p in (f.numerator(c), f.denominator(c)):
        value = np.abs(powers @ p)
        # Rounding of the coefficients (h0 A + B), of the sum, and of the angle.
        error = error + 8 * EPSILON * (f.order + 2) * np.abs(p).sum() / np.maximum(value, 1e-300)
    return error


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_freqz(rtf, tmp_path, seed, whole):
    rng = np.random.default_rng(seed)
    channels, groups, order, points = draw_sizes(rng)
    f = draw_filter(rng, channels, groups, order)
    save_json(tmp_path / "f.json", f)
    text = rtf("freqz", "f.json", "-o", "h.npy", "--points", points, *(["--whole"] if whole else []))
    h = np.load(tmp_path / "h.npy")
    assert h.shape == (channels, points) and h.dtype == np.complex128
    assert text.count("\n") == 2 + channels
    for c in range(channels):
        w, expected = signal.freqz(f.numerator(c), f.denominator(c), points, whole=whole)
        assert np.all(np.abs(h[c] - expected) <= (polynomial_errors(f, c, w) + 2e-12) * np.abs(expected))


def test_freqz_has_512_points_unless_told(rtf, tmp_path):
    b, a = signal.butter(3, 0.3)
    save_json(tmp_path / "f.json", Filter(a[None, 1:], (b[1:] - b[0] * a[1:])[None], b[:1]))
    rtf("freqz", "f.json", "-o", "h.npy")
    np.testing.assert_allclose(np.load(tmp_path / "h.npy")[0], signal.freqz(b, a)[1], rtol=0, atol=1e-14)


@pytest.mark.parametrize("seed", range(20))
def test_group_delay(rtf, tmp_path, seed):
    rng = np.random.default_rng(100 + seed)
    channels, groups, order, points = draw_sizes(rng)
    f = draw_filter(rng, channels, groups, order)
    save_json(tmp_path / "f.json", f)
    rtf("freqz", "f.json", "-o", "h.npy", "--points", points, "--group-delay", "g.npy")
    delays = np.load(tmp_path / "g.npy")
    assert delays.shape == (channels, points)
    for c in range(channels):
        w, expected = signal.group_delay((f.numerator(c), f.denominator(c)), points)
        # SciPy forms N(w) A(1/w) as one polynomial of twice the degree; its rounding is relative to that.
        product = np.convolve(f.numerator(c), f.denominator(c)[::-1])
        value = np.abs(np.exp(-1j * np.outer(w, np.arange(len(product)))) @ product)
        size = np.abs(f.numerator(c)).sum() * np.abs(f.denominator(c)).sum()
        rounding = 8 * EPSILON * (len(product) + 2) * size / np.maximum(value, 1e-300)
        allowed = rounding * (len(product) + np.abs(expected))
        # Where SciPy sees a singularity it returns 0.
        regular = rounding < 1e-4
        assert regular.mean() > 0.9
        assert np.all(np.abs(delays[c] - expected)[regular] <= allowed[regular] + 1e-11 * (1 + order))


@pytest.mark.parametrize("seed", range(10))
def test_kernel_and_step_response(rtf, tmp_path, seed):
    rng = np.random.default_rng(200 + seed)
    channels, groups, order, length = draw_sizes(rng)
    f = draw_filter(rng, channels, groups, order)
    save_json(tmp_path / "f.json", f)
    rtf("kernel", "f.json", "--length", length, "-o", "k.npy")
    assert "step response" in rtf("kernel", "f.json", "--length", length, "--step", "-o", "s.npy")
    kernel, step = np.load(tmp_path / "k.npy"), np.load(tmp_path / "s.npy")
    slack = tolerance(condition(f, length), "f64")
    for c in range(channels):
        if order == 0:  # SciPy's state space has none
            np.testing.assert_array_equal(kernel[c], f.h0[c] * (np.arange(length) == 0))
            np.testing.assert_array_equal(step[c], np.full(length, f.h0[c]))
            continue
        system, largest = (f.numerator(c), f.denominator(c), 1), np.abs(kernel[c]).max()
        assert np.abs(kernel[c] - signal.dimpulse(system, n=length)[1][0][:, 0]).max() <= slack * largest
        assert np.abs(step[c] - signal.dstep(system, n=length)[1][0][:, 0]).max() <= slack * length * largest


def gramians(f, c):
    n = f.order
    A = np.eye(n, k=-1)
    A[0] = -f.denominator(c)[1:]
    B, C = np.eye(n, 1), f.b[c][None]
    return linalg.solve_discrete_lyapunov(A, B @ B.T), linalg.solve_discrete_lyapunov(A.T, C.T @ C), C


@pytest.mark.parametrize("seed", range(12))
def test_norms_and_hankel_singular_values(rtf, tmp_path, seed):
    rng = np.random.default_rng(300 + seed)
    f = draw_filter(rng, 4, 2, int(rng.integers(1, 13)))
    save_json(tmp_path / "f.json", f)
    figures = json.loads(rtf("freqz", "f.json", "-o", "h.npy", "--json"))["channels"]
    assert len(figures) == 4
    for c, channel in enumerate(figures):
        P, Q, C = gramians(f, c)
        assert channel["stable"]
        assert channel["h2_norm"] == pytest.approx(np.sqrt((C @ P @ C.T)[0, 0] + f.h0[c] ** 2), rel=1e-9)
        # The product of Gramians loses half the digits of the small ones.
        expected = np.sqrt(np.sort(np.abs(np.linalg.eigvals(P @ Q)))[::-1])
        np.testing.assert_allclose(channel["hankel_singular_values"], expected, rtol=0, atol=1e-6 * expected[0])
        w = np.linspace(0, np.pi, 20001)
        magnitude = np.abs(signal.freqz(f.numerator(c), f.denominator(c), w)[1])
        assert magnitude.max() <= channel["h_infinity_norm"] * (1 + 1e-9)
        _, attained = signal.freqz(f.numerator(c), f.denominator(c), [channel["h_infinity_angle"]])
        assert channel["h_infinity_norm"] == pytest.approx(np.abs(attained[0]), rel=1e-9)
        assert channel["at_0"] == pytest.approx(f.numerator(c).sum() / f.denominator(c).sum(), rel=1e-9)


def test_norms_of_an_unstable_channel_are_infinite(rtf, tmp_path):
    save_json(tmp_path / "f.json", Filter(np.array([[-0.5], [-2.0]]), np.ones((2, 1)), np.zeros(2)))
    text = rtf("freqz", "f.json", "-o", "h.npy")
    assert re.search(r"^ +0 +yes +2 +-?0\.666667 +2 +0\.000000 +1\.1547$", text, re.MULTILINE)
    assert re.search(r"^ +1 +NO +-1 .* inf +- +inf$", text, re.MULTILINE)
    stable, unstable = json.loads(rtf("freqz", "f.json", "-o", "h.npy", "--json"))["channels"]
    assert stable["hankel_singular_values"] == [pytest.approx(4 / 3)]
    assert unstable["h2_norm"] is unstable["h_infinity_norm"] is unstable["hankel_singular_values"] is None


@pytest.mark.parametrize("gain", [1e160, 1e300, 1e-160, 1e-300])
def test_norms_of_gains_whose_squares_are_no_doubles(rtf, tmp_path, gain):
    b, a = signal.ellip(5, 1, 60, 0.3)
    (tmp_path / "f.json").write_text(json.dumps({"form": "ba", "b": list(gain * b), "a": list(a)}))
    channel = json.loads(rtf("freqz", "f.json", "-o", "h.npy", "--json"))["channels"][0]
    assert channel["h_infinity_norm"] == pytest.approx(gain, rel=1e-9)  # the ripple's tops
    rtf("plot", "f.json", "-o", "f.svg")
    assert "largest |H| 1e" in (tmp_path / "f.svg").read_text()


def test_a_norm_that_is_not_found_costs_nothing_else(rtf, tmp_path):
    # Eight poles 2^-56 inside the circle: the powers of a matrix of doubles do not die out.
    (tmp_path / "f.json").write_text(json.dumps({"a": [0] * 7 + [-(1 - 2**-53)], "b": [1] + [0] * 7, "h0": 0}))
    channel = json.loads(rtf("freqz", "f.json", "-o", "h.npy", "--json"))["channels"][0]
    assert channel["stable"] and channel["hankel_singular_values"] is None
    assert channel["h_infinity_norm"] == pytest.approx(2.0**53, rel=1e-6)
    assert np.load(tmp_path / "h.npy").shape == (1, 512)


def test_a_nan_has_no_sign(rtf, tmp_path):
    # A and N vanish at 0; then A alone.
    a = np.array([[-1.0, 0.0], [0.0, -1.0]])
    save_json(tmp_path / "f.json", Filter(a, np.array([[-1.0, 1.0], [1.0, 0.5]]), np.zeros(2)))
    both, alone = rtf("freqz", "f.json", "-o", "h.npy").splitlines()[2:]
    assert both.split()[2] == "nan"
    assert alone.split()[2] == "inf"


def test_norms_of_a_high_order_wait_to_be_asked_for(rtf, tmp_path):
    f = draw_filter(np.random.default_rng(4), 1, 1, 257)
    save_json(tmp_path / "f.json", f)
    row, note = rtf("freqz", "f.json", "-o", "h.npy").splitlines()[2:]
    assert row.split()[4:6] == ["-", "-"] and float(row.split()[6]) > 0
    assert "beyond order 256" in note and "--norms" in note
    (asked,) = rtf("freqz", "f.json", "-o", "h.npy", "--norms").splitlines()[2:]
    (figures,) = json.loads(rtf("freqz", "f.json", "-o", "h.npy", "--json"))["channels"]
    assert float(asked.split()[4]) == pytest.approx(figures["h_infinity_norm"], rel=1e-5)
    rtf("plot", "f.json", "-o", "f.svg")
    content = (tmp_path / "f.svg").read_text()
    assert "H2 norm" in content and "largest |H|" not in content


def test_a_trained_file_is_corrected_first(rtf, tmp_path):
    f = draw_filter(np.random.default_rng(1), 2, 1, 3, length=40)
    save_json(tmp_path / "f.json", f)
    rtf("correct", "f.json", "-o", "plain.json")
    rtf("freqz", "f.json", "-o", "h.npy")
    plain = load_json(tmp_path / "plain.json")
    expected = [signal.freqz(plain.numerator(c), plain.denominator(c))[1] for c in range(2)]
    np.testing.assert_allclose(np.load(tmp_path / "h.npy"), expected, rtol=1e-9)


# --- pictures ----------------------------------------------------------------------------------------------------------

SVG = "{http://www.w3.org/2000/svg}"
PLOTS = Path(__file__).resolve().parent.parent / "docs" / "plots"
CASES = {
    "resonator": Filter(np.array([[-1.2, 0.81]]), np.array([[1.0, 0.4]]), np.array([0.0])),
    "gain": Filter(np.zeros((1, 0)), np.zeros((1, 0)), np.array([2.0])),
    "nothing": Filter(np.zeros((1, 1)), np.zeros((1, 1)), np.array([0.0])),
    "delay": Filter(np.zeros((1, 5)), np.eye(1, 5, 4), np.array([0.0])),
    "unstable": Filter(np.array([[-3.0]]), np.array([[1.0]]), np.array([0.0])),
    "far from the triangle": Filter(np.array([[90.0, 400.0]]), np.array([[1.0, 0.0]]), np.array([0.0])),
    "pole on the circle": Filter(np.array([[-1.0]]), np.array([[1.0]]), np.array([0.0])),
    "zero on the circle": Filter(np.array([[0.0]]), np.array([[-1.0]]), np.array([1.0])),
    "zero at infinity": Filter(np.array([[0.5, 0.1]]), np.array([[1e-300, 1e300]]), np.array([0.0])),
    "order 64": draw_filter(np.random.default_rng(2), 1, 1, 64),
}


@pytest.mark.parametrize("name", CASES)
def test_plot_is_svg_with_every_panel(rtf, tmp_path, name):
    f = CASES[name]
    save_json(tmp_path / "f.json", f)
    rtf("plot", "f.json", "-o", "f.svg")
    content = (tmp_path / "f.svg").read_text()
    root = ElementTree.fromstring(content)
    assert root.tag == SVG + "svg" and len(content) < 200_000
    assert "nan" not in content and "inf" not in content.replace("infinity", "")
    texts = [element.text for element in root.iter(SVG + "text")]
    for title in ("Impulse response", "Magnitude", "Phase", "Stability triangle" if f.order == 2 else "Step response"):
        assert title in texts
    assert any(text.startswith(f"order {f.order}, pole radius") for text in texts)
    assert "prefers-color-scheme: dark" in content
    # Every number of a coordinate is inside the picture or near it.
    for element in root.iter():
        for key in ("x", "y", "x1", "y1", "cx", "cy"):
            assert -20_000 < float(element.get(key, 0)) < 20_000


def test_plot_of_order_1024_takes_seconds(rtf, tmp_path):
    """Half a second; by eigenvalues of matrices of this size it would be twenty and more."""
    rng = np.random.default_rng(3)
    a = rng.standard_normal((1, 1024))
    save_json(tmp_path / "f.json", Filter(0.9 * a / np.abs(a).sum(), rng.standard_normal((1, 1024)), np.ones(1)))
    start = time.perf_counter()
    rtf("plot", "f.json", "-o", "f.svg")
    assert time.perf_counter() - start < 10


def test_plot_marks_poles_zeros_and_samples_where_they_are(rtf, tmp_path):
    f = CASES["resonator"]
    save_json(tmp_path / "f.json", f)
    rtf("plot", "f.json", "-o", "f.svg", "--length", 30)
    root = ElementTree.parse(tmp_path / "f.svg").getroot()
    # The map is 2.5 units wide on 262 pixels around (803, 223).
    place = lambda z: np.array([803 + z.real * 262 / 2.5, 223 - z.imag * 262 / 2.5])  # noqa: E731
    zeros = [np.array([float(e.get("cx")), float(e.get("cy"))]) for e in root.iter(SVG + "circle") if e.get("class") == "zero"]
    assert len(zeros) == 1 and np.abs(zeros[0] - place(-0.4 + 0j)).max() < 0.02
    crosses = [e for e in root.iter(SVG + "line") if e.get("class") == "pole"]
    centres = [np.array([float(e.get("x1")) + float(e.get("x2")), float(e.get("y1")) + float(e.get("y2"))]) / 2 for e in crosses]
    for pole in np.roots([1, -1.2, 0.81]):
        assert min(np.abs(c - place(pole)).max() for c in centres) < 0.02
    dots = [float(e.get("cy")) for e in root.iter(SVG + "circle") if e.get("class") == "dot"]
    kernel = signal.dimpulse(([0, 1, 0.4], [1, -1.2, 0.81], 1), n=30)[1][0][:, 0]
    assert len(dots) == 30
    fit = np.polyfit(kernel, dots, 1)
    assert fit[0] < 0 and np.abs(np.polyval(fit, kernel) - dots).max() < 0.02


@pytest.mark.parametrize("file", sorted(PLOTS.glob("*.json")), ids=lambda path: path.stem)
def test_pictures_in_the_documents_are_what_the_command_draws(rtf, tmp_path, file):
    rtf("plot", file, "-o", "f.svg")
    drawn, shown = (path.read_text() for path in (tmp_path / "f.svg", file.with_suffix(".svg")))
    number = r"-?\d+\.?\d*(?:e[+-]?\d+)?"
    assert re.sub(number, "0", drawn) == re.sub(number, "0", shown)
    # Processors may differ in the last bit, and so in a hundredth of a pixel.
    np.testing.assert_allclose(*(np.array(re.findall(number, text), float) for text in (drawn, shown)), atol=0.02)


def test_texts_of_a_plot_are_apart(rtf, tmp_path):
    for a in ([90.0, 400.0], [90.0, 0.5], [0.5, -30.0]):
        save_json(tmp_path / "f.json", Filter(np.array([a]), np.array([[1.0, 0.0]]), np.array([0.0])))
        rtf("plot", "f.json", "-o", "f.svg")
        texts = [e for e in ElementTree.parse(tmp_path / "f.svg").getroot().iter(SVG + "text") if e.text]
        (place,) = (float(e.get("y")) for e in texts if e.text.startswith("the filter is at"))
        others = [float(e.get("y")) for e in texts if e.text.startswith(("inner:", "real", "stable inside")) and e.text != "real part"]
        assert len(others) == 3 and min(abs(place - other) for other in others) > 12


def test_markers_shrink_with_their_number(rtf, tmp_path):
    def radius(order):
        save_json(tmp_path / "f.json", draw_filter(np.random.default_rng(5), 1, 1, order))
        rtf("plot", "f.json", "-o", "f.svg")
        circles = ElementTree.parse(tmp_path / "f.svg").getroot().iter(SVG + "circle")
        return {float(e.get("r")) for e in circles if e.get("class") == "zero"}

    assert radius(8) == {4.5} and max(radius(250)) < 2.4


@pytest.mark.parametrize("size", [1e307, 1e308, 1.7e308])
def test_a_plot_of_huge_values_draws_them_or_says_so(rtf, tmp_path, size):
    save_json(tmp_path / "f.json", Filter(np.array([[-0.9]]), np.array([[size]]), np.array([-size])))
    rtf("plot", "f.json", "-o", "f.svg", "--length", 40)
    content = (tmp_path / "f.svg").read_text()
    assert "nan" not in content and "inf" not in content.replace("infinity", "")
    dots = [float(e.get("cy")) for e in ElementTree.fromstring(content).iter(SVG + "circle") if e.get("class") == "dot"]
    assert len({round(y) for y in dots if 92 <= y <= 242}) > 5
    # Of the step response at least, which goes to nine times the size.
    assert "samples beyond 4e+307 are not shown" in content
    magnitude = [e for e in ElementTree.fromstring(content).iter(SVG + "polyline") if e.get("class") == "curve"]
    assert magnitude or "at every angle" in content


def test_plot_escapes_the_name_of_the_file(rtf, tmp_path):
    name = 'a<b>&"c\x01.json'
    save_json(tmp_path / name, CASES["gain"])
    rtf("plot", name, "-o", "f.svg")
    assert ElementTree.parse(tmp_path / "f.svg").getroot().find(SVG + "title").text.startswith('a<b>&"c?.json')


def test_plot_of_one_of_several_channels(rtf, tmp_path):
    f = draw_filter(np.random.default_rng(3), 3, 1, 4)
    save_json(tmp_path / "f.json", f)
    rtf("plot", "f.json", "-o", "f.svg", "--channel", 2, "--length", 100_000)
    content = (tmp_path / "f.svg").read_text()
    assert "f.json, channel 2" in content and len(content) < 200_000


REFUSALS = {
    "points zero": (["freqz", "good.json", "-o", "out", "--points", "0"], "'0'"),
    "points beyond memory": (["freqz", "good.json", "-o", "out", "--points", str(10**15)], "memory"),
    "response and delay in one file": (["freqz", "good.json", "-o", "out", "--group-delay", "./out"], "both"),
    "delay in no folder": (["freqz", "good.json", "-o", "out", "--group-delay", "none/g.npy"], "none/g.npy"),
    "response of an unstable trained file": (["freqz", "unstable.json", "-o", "out"], "unstable.json"),
    "response of no file": (["freqz", "none.json", "-o", "out"], "none.json"),
    "no output": (["freqz", "good.json"], "--output"),
    "channel that is not there": (["plot", "good.json", "-o", "out.svg", "--channel", "2"], "channels 0 to 1"),
    "channel negative": (["plot", "good.json", "-o", "out", "--channel", "-1"], "-1"),
    "length beyond memory": (["plot", "good.json", "-o", "out.svg", "--length", str(10**15)], "memory"),
    "picture of another kind": (["plot", "good.json", "-o", "out"], "does not end in .svg"),
    "picture over the filter": (["plot", "good.json", "-o", "./good.json"], "is the file that is read"),
    "response over the filter": (["freqz", "good.json", "-o", "good.json"], "is the file that is read"),
    "delay over the filter": (["freqz", "good.json", "-o", "out", "--group-delay", "good.json"], "is the file that is read"),
    "picture in no folder": (["plot", "good.json", "-o", "none/f.svg"], "none/f.svg"),
    "step response of length zero": (["kernel", "good.json", "--step", "--length", "0", "-o", "out"], "'0'"),
}


@pytest.mark.parametrize("arguments, text", REFUSALS.values(), ids=REFUSALS.keys())
def test_refusals(rtf_raw, folder, arguments, text):  # noqa: F811
    expect_refusal(rtf_raw, folder, arguments, text)
