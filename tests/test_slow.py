"""Filters whose kernels live far longer than any look at their first samples: DC blockers, mains notches, low-passes
below a hertz. Sections and poles hold them; what is said of them is that of the file, not of coefficients."""

import json
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy import signal

SLOW = {
    "dc blocker": signal.butter(4, 1e-5, "high", output="zpk"),
    "hum": signal.butter(3, [45, 55], "bandstop", fs=48000, output="zpk"),
    "notch": signal.butter(3, [0.2, 0.2 + 1e-5], "bandstop", output="zpk"),
    "sub-hertz": signal.butter(4, 1e-6, output="zpk"),
    "low-pass": signal.butter(4, 1e-4, output="zpk"),
    "low-pass 5": signal.butter(5, 1e-3, output="zpk"),
    "butter 8": signal.butter(8, 0.02, output="zpk"),
}


def pairs(values):
    return [[float(x.real), float(x.imag)] for x in np.asarray(values, complex)]


def save(path, design, form="sos"):
    z, p, k = design
    content = {"form": "zpk", "zeros": pairs(z), "poles": pairs(p), "gain": float(k)}
    if form == "sos":
        content = {"form": "sos", "sections": signal.zpk2sos(z, p, k).tolist()}
    path.write_text(json.dumps(content))


def near_the_poles(p):
    """Angles around every pole, from a hundredth of its distance from the circle on."""
    angles = [np.linspace(0, np.pi, 2001)]
    for pole in p:
        offsets = (1 - abs(pole)) * np.geomspace(1e-2, 1e6, 400)
        angles += [np.abs(np.angle(pole)) + offsets, np.abs(np.angle(pole)) - offsets, [np.abs(np.angle(pole))]]
    angles = np.concatenate(angles)
    return np.unique(angles[(angles >= 0) & (angles <= np.pi)])


def h2_norm(design):
    """The integral of |H|^2 over the circle, in steps that grow with the distance from the poles."""
    z, p, k = design
    angles = near_the_poles(p)
    nodes, weights = np.polynomial.legendre.leggauss(8)
    half = np.diff(angles)[:, None] / 2
    points = (angles[:-1, None] + half) + half * nodes
    h = signal.freqz_zpk(z, p, k, points.ravel())[1].reshape(points.shape)
    return np.sqrt((np.abs(h) ** 2 * weights * half).sum() / np.pi)


@pytest.mark.parametrize("form", ["sos", "zpk", "ss"])
@pytest.mark.parametrize("name", SLOW)
def test_norms(rtf, tmp_path, name, form):
    save(tmp_path / "f.json", SLOW[name], "zpk" if form == "zpk" else "sos")
    if form == "ss":
        rtf("convert", "f.json", "--to", "ss", "-o", "f.json")
    channel = json.loads(rtf("freqz", "f.json", "-o", "h.npy", "--json"))["channels"][0]
    # What rounding of the sections moves the poles by, over their distance from the circle.
    allowed = 1e-9 + 4e-16 / (1 - np.abs(SLOW[name][1]).max()) ** 2 * (name == "sub-hertz")
    assert channel["stable"] and channel["h_infinity_norm"] == pytest.approx(1, rel=allowed)
    assert channel["h2_norm"] == pytest.approx(h2_norm(SLOW[name]), rel=max(allowed, 1e-6))


@pytest.mark.parametrize("to", ["tf", "ba"])
@pytest.mark.parametrize("name", SLOW)
def test_conversion_to_coefficients_says_what_it_loses(rtf_raw, tmp_path, name, to):
    z, p, k = SLOW[name]
    save(tmp_path / "f.json", SLOW[name])
    done = rtf_raw("convert", "f.json", "--to", to, "-o", "g.json", "--json")
    if done.returncode:
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and not (tmp_path / "g.json").exists()
        assert "would not be stable" in done.stderr or "next to a pole" in done.stderr
        return
    g = json.loads((tmp_path / "g.json").read_text())
    a = np.concatenate([[1.0], np.ravel(g["a"])]) if to == "tf" else np.ravel(g["a"])
    b = np.ravel(g["h0"])[0] * a + np.concatenate([[0.0], np.ravel(g["b"])]) if to == "tf" else np.ravel(g["b"])
    angles = near_the_poles(p)
    error = np.abs(exact_ratio(b, a, angles) - signal.freqz_sos(signal.zpk2sos(z, p, k), angles)[1]).max()
    report = json.loads(done.stdout)["channels"][0]["response_error"]
    assert error / 3 <= report <= 1.1 * error
    assert bool(done.stderr) == (report > 1e-3)


def exact_ratio(b, a, angles):
    """Of polynomials, in fractions: their terms cancel next to slow poles."""
    values = []
    for w in np.exp(-1j * angles):
        x, y = Fraction(w.real), Fraction(w.imag)
        sums = []
        for c in (b, a):
            re = im = Fraction(0)
            for value in c[::-1]:
                re, im = re * x - im * y + Fraction(float(value)), re * y + im * x
            sums.append(complex(float(re), float(im)))
        values.append(sums[0] / sums[1])
    return np.array(values)


@pytest.mark.parametrize("name,order", [("low-pass", 4), ("low-pass", 3), ("low-pass 5", 5), ("low-pass 5", 4), ("butter 8", 8)])
def test_reduce_compares_with_the_file(rtf_raw, tmp_path, name, order):
    z, p, k = SLOW[name]
    save(tmp_path / "f.json", SLOW[name])
    done = rtf_raw("reduce", "f.json", "--order", order, "-o", "r.json")
    assert done.returncode == 0
    error, bound = (float(x) for x in done.stdout.splitlines()[-1].split()[1:3])
    r = json.loads((tmp_path / "r.json").read_text())
    a, h0 = np.concatenate([[1.0], np.ravel(r["a"])]), np.ravel(r["h0"])[0]
    angles = near_the_poles(p)
    found = exact_ratio(np.concatenate([[0.0], np.ravel(r["b"])]), a, angles) + h0
    expected = signal.freqz_sos(signal.zpk2sos(z, p, k), angles)[1]
    assert error == pytest.approx(np.abs(found - expected).max(), rel=1e-2)
    assert ("more than their bound" in done.stderr) == (error > bound + 1e-9)


def test_stable_files_are_not_taken_for_unstable(rtf, rtf_raw, tmp_path):
    save(tmp_path / "f.json", SLOW["dc blocker"])
    for command, hint in (
        (["stabilize", "f.json", "--method", "refit"], "its own poles are all inside the circle already"),
        (["stabilize", "f.json", "--method", "montel"], "--method reflect to a JSON file needs no coefficients"),
        (["reduce", "f.json", "--order", 4], "--to ss needs no coefficients"),
    ):
        done = rtf_raw(*command, "-o", "r.json")
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and not (tmp_path / "r.json").exists()
        assert "would not be stable, which the sos is" in done.stderr and hint in done.stderr
    assert "doubles do not hold them" in rtf("info", "f.json")
    rtf("reduce", "f.json", "--order", 2, "--to", "ss", "-o", "r.json")
    # What takes no notice of coefficients is as it was.
    rtf("stabilize", "f.json", "--method", "reflect", "-o", "s.json")
    assert json.loads((tmp_path / "s.json").read_text()) == json.loads((tmp_path / "f.json").read_text())


@pytest.mark.parametrize("cutoff", [1e-5, 1e-6, 1e-7])
@pytest.mark.parametrize("order", [2, 4])
def test_freqz_of_poles_and_zeros_multiplies_no_sections(rtf, tmp_path, order, cutoff):
    z, p, k = signal.butter(order, cutoff, output="zpk")
    save(tmp_path / "f.json", (z, p, k), "zpk")
    channel = json.loads(rtf("freqz", "f.json", "-o", "h.npy", "--json", "--points", 300, "--group-delay", "d.npy"))
    squares = [(1 - Fraction(x.real)) ** 2 + Fraction(x.imag) ** 2 for x in p[p.imag > 0]]
    exact = Fraction(float(k)) * 2**order / np.prod(squares)  # all zeros are at -1
    h = np.load(tmp_path / "h.npy")[0]
    assert abs(h[0] / float(exact) - 1) < 1e-14
    assert channel["channels"][0]["at_0"] == h[0].real
    np.testing.assert_allclose(h[1:], signal.freqz_zpk(z, p, k, 300)[1][1:], rtol=1e-12)
    delay = 2 * sum((1 - Fraction(x.real)) / square for x, square in zip(p[p.imag > 0], squares)) - Fraction(order, 2)
    assert np.load(tmp_path / "d.npy")[0][0] == pytest.approx(float(delay), rel=1e-13)


@pytest.mark.parametrize(
    "design,length",
    [
        (signal.butter(2, 1e-5, output="zpk"), 400_000),
        (signal.butter(4, 1e-6, "high", output="zpk"), 400_000),
        (signal.butter(2, 1e-5, output="zpk"), 3000),
        (signal.butter(4, 0.2, output="zpk"), 20_000),
    ],
)
def test_the_rounding_of_sections_is_printed(rtf, rtf_raw, tmp_path, design, length):
    save(tmp_path / "f.json", design, "zpk")
    np.save(tmp_path / "u.npy", np.ones(length))
    done = rtf_raw("filter", "f.json", "--input", "u.npy", "-o", "y.npy")
    rtf("kernel", "f.json", "--length", length, "--step", "-o", "s.npy")  # from 106 bits
    exact = np.load(tmp_path / "s.npy")[0]
    error = np.abs(np.load(tmp_path / "y.npy") - exact).max() / np.abs(exact).max()
    estimate = float(done.stderr.split("is estimated at ")[1].split()[0]) if done.stderr else 1e-10
    assert done.returncode == 0 and error <= 4 * estimate
    assert not done.stderr or estimate <= 30 * error


def test_poles_of_coefficients_are_those_of_a_zpk(rtf, tmp_path):
    b, a = signal.cheby1(10, 1, 0.05)
    (tmp_path / "f.json").write_text(json.dumps({"form": "ba", "b": b.tolist(), "a": a.tolist()}))
    group = json.loads(rtf("poles", "f.json", "--json"))["groups"][0]
    moduli = [abs(complex(*pole)) for pole in group["poles"]]
    assert max(moduli) == pytest.approx(group["radius"], rel=1e-11)
    rtf("convert", "f.json", "--to", "zpk", "-o", "zpk.json")
    zpk = json.loads((tmp_path / "zpk.json").read_text())
    assert [list(pole) for pole in group["poles"]] == [x if isinstance(x, list) else [x, 0] for x in zpk["poles"]]


@pytest.mark.parametrize("distance", [1e-6, 1e-9, 1e-10, 1e-11])
def test_the_largest_value_next_to_the_circle(rtf, tmp_path, distance):
    """1/A of order 2: |A|^2 is a parabola in the cosine."""
    r, angle = 1 - distance, 1.1
    a1, a2 = -2 * r * np.cos(angle), r * r
    (tmp_path / "f.json").write_text(json.dumps({"form": "ba", "b": [1.0], "a": [1.0, a1, a2]}))
    channel = json.loads(rtf("freqz", "f.json", "-o", "h.npy", "--json"))["channels"][0]
    a1, a2 = Fraction(a1), Fraction(a2)
    x = -a1 * (1 + a2) / (4 * a2)
    square = 1 + a1**2 + a2**2 + 2 * a1 * (1 + a2) * x + 2 * a2 * (2 * x**2 - 1)
    with localcontext(prec=60):
        exact = float((Decimal(square.denominator) / Decimal(square.numerator)).sqrt())
    assert channel["h_infinity_norm"] == pytest.approx(exact, rel=1e-9)


def test_poles_of_several_inputs_and_outputs(rtf, tmp_path):
    A = np.array([[0.5, 0.3], [-0.3, 0.5]])
    system = {"A": A.tolist(), "B": np.eye(2).tolist(), "C": [[1.0, 2.0]], "D": [[0.0, 1.0]]}
    (tmp_path / "f.json").write_text(json.dumps({"form": "ss", **system}))
    rtf("convert", "f.json", "--to", "tf", "-o", "mimo.json")
    for name in ("f.json", "mimo.json"):
        group = json.loads(rtf("poles", name, "--json"))["groups"][0]
        np.testing.assert_allclose(sorted(group["poles"]), [[0.5, -0.3], [0.5, 0.3]], atol=1e-15)
        assert group["stable"] and group["radius"] == pytest.approx(np.hypot(0.5, 0.3), rel=1e-12)
        info = json.loads(rtf("info", name, "--json"))
        assert (info["channels"], info["groups"], info["order"], info["stable"]) == (2, 1, 2, True)
        assert info["h0"] == {"min": 0, "max": 1}


def test_messages_name_what_is_wrong(rtf, rtf_raw, tmp_path):
    save(tmp_path / "f.json", ([], [1e200, 0.5], 1.0), "zpk")
    done = rtf_raw("stabilize", "f.json", "--method", "reflect", "-o", "s.json")
    assert done.returncode == 2 and "a pole of modulus 1e+200: the product of the poles overflows" in done.stderr
    assert max(len(line) for line in rtf("poles", "f.json").splitlines()) < 90
    (tmp_path / "f.json").write_text(json.dumps({"form": "ba", "b": [1.0], "a": [1e-320, 0.5]}))
    done = rtf_raw("convert", "f.json", "--to", "tf", "-o", "s.json")
    assert done.returncode == 2 and "a[0], which they are divided by, is 1e-320" in done.stderr
    (tmp_path / "f.json").write_text('{"a": [0.5], "b": [1], "h0": 0, "length": 8}')
    assert "1 channel, order 1" in rtf("correct", "f.json", "-o", "c.json")
    assert "1 channel, order 1" in rtf("wrap", "c.json", "--length", 8, "-o", "w.json")
