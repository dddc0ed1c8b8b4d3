"""Files of poles and zeros or of sections (zpk, sos) through the command: what is computed from the factors stays right
where the coefficients of the same filter, in doubles, are lost."""

import decimal
import json
from fractions import Fraction

import numpy as np
import pytest
import sound
from scipy import linalg, signal

# Designs whose coefficients leave no digit (butter 12), few, or all of them (butter 4).
DESIGNS = {
    "butter 12": signal.butter(12, 0.02, output="zpk"),
    "butter 13 highpass": signal.butter(13, 0.03, "highpass", output="zpk"),
    "ellip 10": signal.ellip(10, 0.5, 60, 0.03, output="zpk"),
    "bandpass 8": signal.butter(8, [0.05, 0.06], "bandpass", output="zpk"),
    "butter 4": signal.butter(4, 0.3, output="zpk"),
}


def pairs(values):
    return [[float(x.real), float(x.imag)] for x in np.asarray(values, complex)]


def save(path, design, form, h0=0.0):
    z, p, k = design
    if form == "sos":
        content = {"form": "sos", "sections": signal.zpk2sos(z, p, k).tolist()}
    else:
        content = {"form": "zpk", "zeros": pairs(z), "poles": pairs(p), "gain": float(k), "h0": h0}
    path.write_text(json.dumps(content))


def expect(actual, expected, tolerance=1e-12):
    assert actual.shape == expected.shape
    assert np.max(np.abs(actual - expected)) <= tolerance * np.max(np.abs(expected))


@pytest.fixture(params=[(name, form) for name in DESIGNS for form in ("zpk", "sos")], ids="-".join)
def case(request, tmp_path):
    name, form = request.param
    save(tmp_path / "f.json", DESIGNS[name], form)
    return DESIGNS[name]


def test_filter_is_sosfilt(rtf, tmp_path, case):
    u = np.random.default_rng(0).standard_normal(5000)
    np.save(tmp_path / "u.npy", u)
    expected = signal.sosfilt(signal.zpk2sos(*case), u)
    for how in ([], ["--chunk", "700"], ["--method", "recurrence"]):
        text = rtf("filter", "f.json", "--input", "u.npy", "-o", "y.npy", *how)
        # Four poles far apart run from their coefficients.
        sections = f" of {(len(case[1]) + 1) // 2} sections" if len(case[1]) > 4 else ""
        assert text == f"y.npy: output (5000), f64, method recurrence{sections}\n"
        expect(np.load(tmp_path / "y.npy"), expected)
    rtf("filter", "f.json", "--input", "u.npy", "-o", "y.npy", "--dtype", "f32")
    expect(np.load(tmp_path / "y.npy"), signal.sosfilt(signal.zpk2sos(*case), u.astype(np.float32)), 2e-7)


@pytest.mark.parametrize("form", ["zpk", "sos"])
@pytest.mark.parametrize("taps", [64, 129, 201])
def test_many_zeros_neither_amplify_nor_cancel(rtf, tmp_path, taps, form):
    u = np.random.default_rng(2).standard_normal(3000)
    np.save(tmp_path / "u.npy", u)
    b = signal.firwin(taps, 0.3)
    (tmp_path / "b.json").write_text(json.dumps({"form": "ba", "b": b.tolist(), "a": [1.0]}))
    rtf("convert", "b.json", "--to", form, "-o", "f.json")
    rtf("filter", "f.json", "--input", "u.npy", "-o", "y.npy")
    expect(np.load(tmp_path / "y.npy"), signal.lfilter(b, [1.0], u))


FINITE = {
    "firwin257": signal.firwin(257, 0.3),
    "firwin1025": signal.firwin(1025, 0.3),
    "kaiser401": signal.firwin(401, 0.05, window=("kaiser", 8)),
    "remez201": signal.remez(201, [0, 0.1, 0.13, 0.5], [1, 0]),
}


def expanded(zeros, gain):
    """The polynomial of these doubles, whatever the order costs."""
    with decimal.localcontext(prec=400):
        polynomial = [decimal.Decimal(gain)]
        for x, y in zeros:
            x, y = decimal.Decimal(x), decimal.Decimal(y)
            factor = [1, -x] if y == 0 else [1, -2 * x, x * x + y * y]
            if y >= 0:
                padded = [0] * 2 + polynomial + [0] * (len(factor) - 1)
                polynomial = [sum(c * padded[k - i] for i, c in enumerate(factor)) for k in range(2, len(padded))]
        return np.array([float(x) for x in polynomial])


@pytest.mark.parametrize("name", FINITE)
def test_a_long_fir_filter_has_factors(rtf, tmp_path, name):
    b = FINITE[name]
    (tmp_path / "b.json").write_text(json.dumps({"form": "ba", "b": b.tolist(), "a": [1.0]}))
    rtf("convert", "b.json", "--to", "zpk", "--feed-through", "inside", "-o", "zpk.json")
    zpk = json.loads((tmp_path / "zpk.json").read_text())
    zeros = [x if isinstance(x, list) else [x, 0.0] for x in zpk["zeros"]]
    expect(expanded(zeros, zpk["gain"]), b, 2e-14)  # the rounding of that many zeros
    # The order in which sections are run neither amplifies nor cancels.
    rtf("convert", "b.json", "--to", "sos", "-o", "sos.json")
    sections = json.loads((tmp_path / "sos.json").read_text())["sections"]
    expect(signal.sosfilt(sections, np.eye(1, len(b))[0]), b, 1e-13)


def test_filter_carries_the_state_of_every_section(rtf, tmp_path, case):
    u = np.random.default_rng(1).standard_normal((2, 900, 1))
    np.save(tmp_path / "u.npy", u)
    rtf("filter", "f.json", "--input", "u.npy", "-o", "y.npy", "--final-state", "last.npy")
    whole = np.load(tmp_path / "y.npy")
    assert np.load(tmp_path / "last.npy").shape == (2, 1, len(case[1]))
    np.save(tmp_path / "u1.npy", u[:, :411])
    np.save(tmp_path / "u2.npy", u[:, 411:])
    rtf("filter", "f.json", "--input", "u1.npy", "-o", "y1.npy", "--final-state", "x.npy")
    rtf("filter", "f.json", "--input", "u2.npy", "-o", "y2.npy", "--initial-state", "x.npy")
    expect(np.concatenate([np.load(tmp_path / "y1.npy"), np.load(tmp_path / "y2.npy")], axis=1), whole)


def test_kernel_is_the_response_to_an_impulse(rtf, tmp_path, case):
    rtf("kernel", "f.json", "--length", "3000", "-o", "k.npy")
    expect(np.load(tmp_path / "k.npy")[0], signal.sosfilt(signal.zpk2sos(*case), np.eye(1, 3000)[0]))
    rtf("kernel", "f.json", "--length", "3000", "--step", "-o", "k.npy")
    expect(np.load(tmp_path / "k.npy")[0], signal.sosfilt(signal.zpk2sos(*case), np.ones(3000)), 1e-11)


def test_freqz_is_freqz_zpk(rtf, tmp_path, case):
    rtf("freqz", "f.json", "-o", "h.npy", "--points", "700", "--group-delay", "d.npy")
    z, p, k = case
    angles, expected = signal.freqz_zpk(z, p, k, 700)
    expect(np.load(tmp_path / "h.npy")[0], expected)
    # -d arg / d angle of e^{i angle} - root, root by root; on a zero there is no phase.
    w = np.exp(1j * angles)[:, None]
    at_zero = np.abs(w - z).min(axis=1, initial=1) < 1e-9
    w = w[~at_zero]
    delay = (w / (w - p)).real.sum(axis=1) - (w / (w - z)).real.sum(axis=1)
    expect(np.load(tmp_path / "d.npy")[0][~at_zero], delay, 1e-11)


def test_what_is_beside_the_factors_is_added(rtf, tmp_path):
    z, p, k = DESIGNS["butter 12"]
    save(tmp_path / "f.json", (z, p, k), "zpk", h0=2)
    u = np.random.default_rng(2).standard_normal(2000)
    np.save(tmp_path / "u.npy", u)
    rtf("filter", "f.json", "--input", "u.npy", "-o", "y.npy")
    expect(np.load(tmp_path / "y.npy"), signal.sosfilt(signal.zpk2sos(z, p, k), u) + 2 * u)
    rtf("kernel", "f.json", "--length", "50", "-o", "k.npy")
    assert np.load(tmp_path / "k.npy")[0, 0] == k + 2
    rtf("freqz", "f.json", "-o", "h.npy", "--points", "40000", "--group-delay", "d.npy")
    h = np.load(tmp_path / "h.npy")[0]
    expect(h, signal.freqz_zpk(z, p, k, 40000)[1] + 2)
    # The phase by differences, between the angles.
    middle = -np.diff(np.unwrap(np.angle(h))) / (np.pi / 40000)
    d = np.load(tmp_path / "d.npy")[0]
    assert np.max(np.abs(middle - (d[1:] + d[:-1]) / 2)) < 1e-3 * np.max(np.abs(d))


def test_channels_of_different_orders(rtf, tmp_path):
    channels = [DESIGNS["butter 12"], DESIGNS["butter 4"], ([], [], 3.0)]
    content = [{"zeros": pairs(z), "poles": pairs(p), "gain": float(k)} for z, p, k in channels]
    (tmp_path / "f.json").write_text(json.dumps({"form": "zpk", "channels": content}))
    u = np.random.default_rng(3).standard_normal((800, 3))
    np.save(tmp_path / "u.npy", u)
    rtf("filter", "f.json", "--input", "u.npy", "-o", "y.npy")
    rtf("freqz", "f.json", "-o", "h.npy")
    rtf("kernel", "f.json", "--length", "800", "-o", "k.npy")
    for c, (z, p, k) in enumerate(channels):
        sections = signal.zpk2sos(z, p, k)
        expect(np.load(tmp_path / "y.npy")[:, c], signal.sosfilt(sections, u[:, c]))
        expect(np.load(tmp_path / "h.npy")[c], signal.freqz_zpk(z, p, k, 512)[1])
        expect(np.load(tmp_path / "k.npy")[c], signal.sosfilt(sections, np.eye(1, 800)[0]))


def test_sound_through_sections(rtf, tmp_path):
    save(tmp_path / "f.json", DESIGNS["butter 12"], "sos")
    values = np.random.default_rng(4).uniform(-0.5, 0.5, (200000, 2))
    (tmp_path / "in.wav").write_bytes(sound.wav(values, "f64"))
    rtf("filter", "f.json", "--input", "in.wav", "-o", "out.wav")
    _, actual = sound.read(tmp_path / "out.wav", "f64")
    expect(actual, signal.sosfilt(signal.zpk2sos(*DESIGNS["butter 12"]), values, axis=0))


@pytest.mark.parametrize("form", ["zpk", "sos"])
def test_norms_of_narrow_filters(rtf, tmp_path, form):
    save(tmp_path / "f.json", DESIGNS["butter 12"], form)
    channel = json.loads(rtf("freqz", "f.json", "-o", "h.npy", "--json"))["channels"][0]
    kernel = signal.sosfilt(signal.zpk2sos(*DESIGNS["butter 12"]), np.eye(1, 6000)[0])
    assert channel["stable"] and channel["h2_norm"] == pytest.approx(np.linalg.norm(kernel), rel=1e-9)
    assert channel["h_infinity_norm"] == pytest.approx(1, rel=1e-9)
    expected = linalg.svdvals(linalg.hankel(kernel[1:1500], kernel[1499:2998]))[:12]
    np.testing.assert_allclose(channel["hankel_singular_values"], expected, atol=1e-9)


def test_norms_are_found_channel_by_channel(rtf, tmp_path):
    z, p, k = DESIGNS["ellip 10"]
    channels = [{"zeros": pairs(z), "poles": pairs(p), "gain": float(k)}]
    channels += [{"zeros": [], "poles": [0.5], "gain": 2.0}, {"zeros": [], "poles": [1.5], "gain": 2.0}]
    (tmp_path / "f.json").write_text(json.dumps({"form": "zpk", "channels": channels}))
    rows = [line.split() for line in rtf("freqz", "f.json", "-o", "h.npy").splitlines()[2:]]
    assert [row[1] for row in rows] == ["yes", "yes", "NO"]
    assert float(rows[0][4]) == pytest.approx(1, rel=1e-5) and float(rows[1][4]) == 4
    assert rows[2][4:] == ["inf", "-", "inf"]
    kernel = signal.sosfilt(signal.zpk2sos(z, p, k), np.eye(1, 6000)[0])
    assert float(rows[0][6]) == pytest.approx(np.linalg.norm(kernel), rel=1e-5)
    assert float(rows[1][6]) == pytest.approx(2 / np.sqrt(0.75), rel=1e-5)


def test_norms_where_coefficients_hold(rtf, tmp_path):
    save(tmp_path / "f.json", DESIGNS["butter 4"], "sos")
    channel = json.loads(rtf("freqz", "f.json", "-o", "h.npy", "--json"))["channels"][0]
    kernel = signal.sosfilt(signal.zpk2sos(*DESIGNS["butter 4"]), np.eye(1, 2000)[0])
    assert channel["h2_norm"] == pytest.approx(np.linalg.norm(kernel), rel=1e-9)
    assert channel["h_infinity_norm"] == pytest.approx(1, rel=1e-9)


def test_plot_shows_the_poles_of_the_file(rtf, tmp_path, case):
    rtf("plot", "f.json", "-o", "f.svg")
    text = (tmp_path / "f.svg").read_text()
    assert f"pole radius {np.max(np.abs(case[1])):.6g}, stable" in text


def test_methods_of_coefficients_are_still_refused(rtf_raw, tmp_path):
    save(tmp_path / "f.json", DESIGNS["butter 12"], "sos")
    for command, hint in (
        (["kernel", "f.json", "--length", "10", "--method", "newton", "-o", "k.npy"], "as a transfer function"),
        (["reduce", "f.json", "--order", "12", "-o", "r.json"], "--to ss needs no coefficients"),
        (["stabilize", "f.json", "--method", "refit", "-o", "r.json"], "its own poles are all inside the circle"),
    ):
        done = rtf_raw(*command)
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
        assert "f.json" in done.stderr and hint in done.stderr


@pytest.mark.parametrize("form", ["zpk", "sos", "modal", "ss"])
def test_poles_and_info_are_those_of_the_file(rtf, tmp_path, form):
    for name in ("butter 12", "butter 4"):
        design = DESIGNS[name]
        save(tmp_path / "f.json", design, "sos" if form == "sos" else "zpk")
        if form in ("modal", "ss"):
            rtf("convert", "f.json", "--to", form, "-o", "f.json")
        group = json.loads(rtf("poles", "f.json", "--json"))["groups"][0]
        found = np.sort_complex([complex(*pole) for pole in group["poles"]])
        # Eigenvalues of a chain of sections move by the rounding of its numbers, times some 1e4 here.
        tolerance = 1e-11 if form == "ss" else 1e-14
        np.testing.assert_allclose(found, np.sort_complex(design[1]), atol=tolerance)
        radius = np.abs(design[1]).max()
        assert group["stable"] and group["radius"] == pytest.approx(radius, abs=tolerance)
        info = json.loads(rtf("info", "f.json", "--json"))
        assert info["stable"] and info["order"] == len(design[1]) and (info["channels"], info["groups"]) == (1, 1)
        assert info["pole_radius"]["max"] == pytest.approx(radius, abs=tolerance)
        assert info["h0"]["max"] == pytest.approx(design[2], rel=1e-9)
        assert (info["condition"] is None) == (info["sum_abs_a"] is None) == (name == "butter 12")
        assert ("doubles do not hold them" in rtf("info", "f.json")) == (name == "butter 12")


@pytest.mark.parametrize("form", ["zpk", "sos"])
@pytest.mark.parametrize("name", DESIGNS)
def test_reflecting_factors_is_exact(rtf, tmp_path, name, form):
    z, p, k = DESIGNS[name]
    outside = np.abs(p.imag) < np.median(np.abs(p.imag))  # some pairs, and a real pole where there is one
    given = np.where(outside, 1 / p.conj(), p)
    save(tmp_path / "f.json", (z, given, k), form)
    printed = rtf("stabilize", "f.json", "--method", "reflect", "--length", 30, "-o", "s.json")
    assert f"form {form}" in printed and float(printed.split("at most ")[1].split()[0]) < 1e-12
    stable = json.loads((tmp_path / "s.json").read_text())
    if form == "zpk":
        found, gain = np.array([complex(*pole) for pole in stable["poles"]]), stable["gain"]
        np.testing.assert_allclose(found, p, atol=1e-15)
        assert gain == pytest.approx(k / np.abs(given[outside]).prod(), rel=1e-14)
    sections = signal.zpk2sos(z, given, k) if form == "sos" else None
    angles = np.linspace(0.01, 3.1, 1000)
    response = signal.freqz_sos(stable["sections"], angles)[1] if form == "sos" else signal.freqz_zpk(z, p, gain, angles)[1]
    before = signal.freqz_sos(sections, angles)[1] if form == "sos" else signal.freqz_zpk(z, given, k, angles)[1]
    np.testing.assert_allclose(np.abs(response), np.abs(before), rtol=1e-9)
    assert json.loads(rtf("poles", "s.json", "--json"))["groups"][0]["stable"]


def test_reflecting_sections_with_one_real_pole_outside(rtf, rtf_raw, tmp_path):
    section = [1.0, 0.5, 0.2, 2.0, -2.0 * (-1.25 + 0.5), 2.0 * -1.25 * 0.5]
    (tmp_path / "f.json").write_text(json.dumps({"form": "sos", "sections": [section]}))
    rtf("stabilize", "f.json", "--method", "reflect", "-o", "s.json", "--length", 20)
    (found,) = json.loads((tmp_path / "s.json").read_text())["sections"]
    np.testing.assert_allclose(found, [0.8, 0.4, 0.16, 2.0, -2.0 * (-0.8 + 0.5), 2.0 * -0.8 * 0.5], rtol=1e-15)
    section[3:] = [1.0, -1.0, 0.0]
    (tmp_path / "f.json").write_text(json.dumps({"form": "sos", "sections": [section]}))
    done = rtf_raw("stabilize", "f.json", "--method", "reflect", "-o", "t.json")
    assert (done.returncode, done.stderr) == (
        2,
        "rtf stabilize: f.json: channel 0: a pole on the unit circle, where |H| has no finite value to keep\n",
    )
    assert not (tmp_path / "t.json").exists()


def test_a_kernel_that_overflows_is_refused(rtf_raw, tmp_path):
    save(tmp_path / "f.json", ([], [1.5, 0.2], 1), "zpk")
    done = rtf_raw("kernel", "f.json", "--length", "2000", "-o", "k.npy")
    assert (done.returncode, done.stderr) == (2, "rtf kernel: f.json: the response overflows within 2000 samples\n")
    assert not (tmp_path / "k.npy").exists()


def test_matrices_of_narrow_filters_are_run_by_their_sections(rtf, rtf_raw, tmp_path):
    save(tmp_path / "f.json", signal.butter(64, 0.1, output="zpk"), "zpk")
    rtf("reduce", "f.json", "--order", 24, "--to", "ss", "-o", "ss.json")
    A, B, C, D = (np.array(json.loads((tmp_path / "ss.json").read_text())[key]) for key in "ABCD")
    A, B, C, D = A.reshape(24, 24), B.reshape(24), C.reshape(24), D.item()
    length = 1500
    kernel, state = [D], B
    for _ in range(length - 1):
        kernel.append(C @ state)
        state = A @ state
    kernel = np.array(kernel)
    angles = np.pi * np.arange(512) / 512
    response = np.array([D + C @ np.linalg.solve(np.exp(1j * w) * np.eye(24) - A, B) for w in angles])
    u = np.random.default_rng(8).standard_normal(length)
    np.save(tmp_path / "u.npy", u)

    for form in ("zpk", "sos", "modal"):
        rtf("convert", "ss.json", "--to", form, "-o", f"{form}.json")
    for form in ("ss", "zpk", "sos", "modal"):
        rtf("kernel", f"{form}.json", "--length", length, "-o", "k.npy")
        expect(np.load(tmp_path / "k.npy")[0], kernel, 1e-11)
        rtf("freqz", f"{form}.json", "-o", "h.npy")
        expect(np.load(tmp_path / "h.npy")[0], response, 1e-11)
        printed = rtf("filter", f"{form}.json", "--input", "u.npy", "-o", "y.npy")
        assert "12 sections" in printed
        expect(np.load(tmp_path / "y.npy"), np.convolve(u, kernel)[:length], 1e-11)
        rtf("plot", f"{form}.json", "-o", "f.svg")
    # Coefficients are refused, and nothing is written.
    refused = rtf_raw("convert", "ss.json", "--to", "tf", "-o", "tf.json")
    assert refused.returncode == 2 and "would be off by" in refused.stderr and not (tmp_path / "tf.json").exists()
    refused = rtf_raw("kernel", "ss.json", "--length", 100, "--method", "division", "-o", "k2.npy")
    assert refused.returncode == 2 and "as a transfer function" in refused.stderr
    assert not (tmp_path / "k2.npy").exists()


@pytest.mark.parametrize("form", ["zpk", "sos", "modal"])
def test_state_spaces_of_narrow_filters_keep_the_kernel(rtf, tmp_path, form):
    design = DESIGNS["butter 12"]
    save(tmp_path / "f.json", design, "sos" if form == "sos" else "zpk")
    if form == "modal":
        rtf("convert", "f.json", "--to", "modal", "-o", "f.json")
    printed = rtf("convert", "f.json", "--to", "ss", "-o", "ss.json")
    assert ("poles side by side" if form == "modal" else "chain of sections") in printed
    ss = json.loads((tmp_path / "ss.json").read_text())
    A, B, C = np.reshape(ss["A"], (12, 12)), np.ravel(ss["B"]), np.ravel(ss["C"])
    kernel, state = [np.ravel(ss["D"])[0]], B
    for _ in range(1499):
        kernel.append(C @ state)
        state = A @ state
    expect(np.array(kernel), signal.sosfilt(signal.zpk2sos(*design), np.eye(1, 1500)[0]))


@pytest.mark.parametrize("design", [signal.butter(7, 0.9, output="zpk"), signal.cheby2(8, 60, 0.9, output="zpk")])
def test_coefficients_that_are_costly_to_run_are_not_run(rtf, tmp_path, design):
    """Doubles hold these coefficients to 1e-12, and a recurrence over them loses a thousand times that."""
    save(tmp_path / "f.json", design, "zpk")
    rtf("reduce", "f.json", "--order", len(design[1]), "--to", "ss", "-o", "ss.json")
    rtf("convert", "f.json", "--to", "modal", "-o", "modal.json")
    for form in ("ss", "modal"):
        rtf("kernel", f"{form}.json", "--length", 300, "-o", "k.npy")
        expect(np.load(tmp_path / "k.npy")[0], signal.sosfilt(signal.zpk2sos(*design), np.eye(1, 300)[0]))


def wide_filter(b, a, u):
    """The recurrence in integers, 2^-400 of a unit apart."""
    one = 1 << 400
    b, a, u = ([int(Fraction(float(x)) * one) for x in row] for row in (b, a, u))
    state, y = [0] * (len(a) - 1), []
    for x in u:
        v = x - (sum(p * q for p, q in zip(a[1:], state)) >> 400)
        state.insert(0, v)
        y.append(sum(p * q for p, q in zip(b, state)) / one / one)
        state.pop()
    return np.array(y)


# Designs whose coefficients lose more than the tolerance when they are run, and some that do not.
RATIOS = {
    "butter 14": signal.butter(14, 0.1),
    "butter 14 wide": signal.butter(14, 0.7),
    "butter 7": signal.butter(7, 0.02),
    "cheby1": signal.cheby1(10, 1, 0.1),
    "cheby2": signal.cheby2(12, 60, 0.2),
    "ellip": signal.ellip(8, 0.5, 60, 0.05),
    "bessel": signal.bessel(10, 0.1),
    "highpass": signal.butter(4, 20 / 24000, "highpass"),
}


@pytest.mark.parametrize("method", ["recurrence", "fft", "block"])
@pytest.mark.parametrize("name", RATIOS)
def test_the_rounding_that_is_printed(rtf, rtf_raw, tmp_path, name, method):
    (b, a), rng = RATIOS[name], np.random.default_rng(11)
    (tmp_path / "ba.json").write_text(json.dumps({"form": "ba", "b": b.tolist(), "a": a.tolist()}))
    rtf("convert", "ba.json", "--to", "tf", "-o", "f.json")  # what is run, and measured from
    tf = json.loads((tmp_path / "f.json").read_text())
    a = np.concatenate([[1.0], np.ravel(tf["a"])])
    h0 = np.ravel(tf["h0"])[0]
    u = rng.standard_normal(1200)
    np.save(tmp_path / "u.npy", u)
    exact = wide_filter(np.concatenate([[0.0], np.ravel(tf["b"])]), a, u) + h0 * u
    done = rtf_raw("filter", "f.json", "--input", "u.npy", "-o", "y.npy", "--method", method)
    error = np.abs(np.load(tmp_path / "y.npy") - exact).max() / np.abs(exact).max()
    assert done.returncode == 0
    if done.stderr:
        estimate = float(done.stderr.split("is estimated at ")[1].split()[0])
        assert estimate / 4 <= error <= 4 * estimate
    else:
        assert error <= 1e-10
    if method == "recurrence":
        warned = rtf_raw("kernel", "f.json", "--length", 1200, "-o", "k.npy").stderr
        exact = wide_filter(np.concatenate([[0.0], np.ravel(tf["b"])]), a, np.eye(1, 1200)[0])
        exact[0] = h0
        error = np.abs(np.load(tmp_path / "k.npy")[0] - exact).max() / np.abs(exact).max()
        assert bool(warned) == (error > 1e-10)
        assert not warned or float(warned.split("is estimated at ")[1].split()[0]) == pytest.approx(error, rel=0.1)


def test_sections_that_lose_nothing_do_not_warn(rtf_raw, tmp_path):
    save(tmp_path / "f.json", signal.butter(4, 20 / 24000, "highpass", output="zpk"), "sos")
    np.save(tmp_path / "u.npy", np.random.default_rng(0).standard_normal(20000))
    done = rtf_raw("filter", "f.json", "--input", "u.npy", "-o", "y.npy")
    assert (done.returncode, done.stderr) == (0, "")
