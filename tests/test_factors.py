"""Files of poles and zeros or of sections (zpk, sos) through the command: what is computed from the factors stays right
where the coefficients of the same filter, in doubles, are lost."""

import decimal
import json

import numpy as np
import pytest
import sound
from scipy import signal

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


def test_norms_are_given_where_coefficients_hold(rtf, tmp_path):
    save(tmp_path / "f.json", DESIGNS["butter 12"], "sos")
    text = rtf("freqz", "f.json", "-o", "h.npy")
    assert text.splitlines()[2].split() == ["0", "yes", "1", "0", "-", "-", "-"]
    assert "are left out" in text.splitlines()[3]
    channel = json.loads(rtf("freqz", "f.json", "-o", "h.npy", "--json"))["channels"][0]
    assert channel["stable"] and channel["h_infinity_norm"] is channel["h2_norm"] is channel["hankel_singular_values"] is None
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
    for command in (["kernel", "f.json", "--length", "10", "--method", "newton", "-o", "k.npy"], ["poles", "f.json"]):
        done = rtf_raw(*command)
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and "f.json" in done.stderr


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
