"""rtf convert against SciPy called live, with the differences of convention made good."""

import json

import numpy as np
import pytest
from scipy import signal

import oracle
from oracle import Filter, draw_filter, load_json, save_json

SEEDS = range(30)
FORMS = ("tf", "ba", "ss", "modal", "zpk", "sos")


def complexes(values):
    return np.array([complex(*value) for value in values], dtype=complex)


def load(path):
    return json.loads(path.read_text())


def save(path, form, **fields):
    def plain(value):
        if isinstance(value, np.ndarray) and np.iscomplexobj(value):
            return [[x.real, x.imag] for x in value]
        return value.tolist() if isinstance(value, np.ndarray) else value

    path.write_text(json.dumps({"form": form, **{name: plain(value) for name, value in fields.items()}}))


def impulse(length):
    return np.eye(1, length)[0]


def draw(seed, largest=24):
    rng = np.random.default_rng(seed)
    f = draw_filter(rng, 1, 1, int(rng.integers(0, largest)))
    if seed % 5 == 0:
        f.b[0, : int(rng.integers(0, f.order + 1))] = 0  # a delay
    if seed % 7 == 0:
        f.h0[0] = 0
    return f


def assert_kernel(actual, expected, condition=1.0):
    """To 1e-8 of the largest value times the condition that was reported: the bound of a round trip."""
    assert np.abs(actual - expected).max() <= 1e-8 * condition * max(np.abs(expected).max(), 1e-300)


def assert_same_set(actual, expected, tolerance=1e-7):
    """Each number has one of its own within the tolerance, which is that of roots of the order drawn."""
    assert len(actual) == len(expected)
    left = list(expected)
    for x in actual:
        nearest = min(range(len(left)), key=lambda i: abs(left[i] - x))
        assert abs(left.pop(nearest) - x) <= tolerance * max(1, abs(x))


def convert(rtf, tmp_path, source, form, *options):
    """The converted file's content and the report of its only channel."""
    report = json.loads(rtf("convert", source, "--to", form, "-o", "out.json", "--json", *options))
    return load(tmp_path / "out.json"), report["channels"][0]


# --- one SciPy function after the other ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_ba_is_lfilter(rtf, tmp_path, seed):
    f = draw(seed)
    save_json(tmp_path / "f.json", f)
    content, report = convert(rtf, tmp_path, "f.json", "ba")
    assert content["form"] == "ba" and content["a"][0] == 1
    kernel = oracle.exact_kernel(f, 200)[0]
    assert_kernel(signal.lfilter(content["b"], content["a"], impulse(200)), kernel, report["condition"])

    # SciPy's vectors of any a_0, and b longer than a.
    rng = np.random.default_rng(seed)
    b, a = rng.standard_normal(int(rng.integers(1, 9))), rng.uniform(0.5, 3) * np.r_[1, f.a[0]]
    save(tmp_path / "ba.json", "ba", b=b, a=a)
    rtf("convert", "ba.json", "--to", "tf", "-o", "tf.json")
    back = load_json(tmp_path / "tf.json")
    assert back.order == max(len(b), len(a)) - 1
    assert_kernel(oracle.exact_kernel(back, 200)[0], signal.lfilter(b, a, impulse(200)), oracle.condition(f, 200))


@pytest.mark.filterwarnings("ignore::scipy.signal.BadCoefficients")  # a delay, to SciPy
@pytest.mark.parametrize("seed", SEEDS)
def test_ss_is_tf2ss_and_dimpulse(rtf, tmp_path, seed):
    """tf2ss takes the numerator with the feed-through inside and comes to the same companion form."""
    f = draw(seed)
    save_json(tmp_path / "f.json", f)
    content, _ = convert(rtf, tmp_path, "f.json", "ss")
    ss = [np.array(content[name], float) for name in "ABCD"]
    n = f.order
    ss = [ss[0].reshape(n, n), ss[1].reshape(n, 1), ss[2].reshape(1, n), ss[3].reshape(1, 1)]
    kernel = oracle.exact_kernel(f, 100)[0]
    if n == 0:
        assert ss[3] == f.h0[0]
        return
    _, (response,) = signal.dimpulse((*ss, 1), n=100)
    kappa = oracle.condition(f, 100)
    assert_kernel(response[:, 0], kernel, kappa)
    A, B, C, D = signal.tf2ss(f.numerator(0), f.denominator(0))
    np.testing.assert_allclose(ss[0], A, atol=1e-12)
    np.testing.assert_allclose(ss[1], B, atol=1e-12)
    np.testing.assert_allclose(ss[2], C, atol=1e-12 * np.abs(f.numerator(0)).max())
    np.testing.assert_allclose(ss[3], D, atol=1e-12)


def draw_state_space(rng, order, inputs=1, outputs=1):
    """A dense stable matrix: random, scaled to a spectral radius below 1."""
    A = rng.standard_normal((order, order))
    A *= rng.uniform(0.3, 0.98) / max(np.abs(np.linalg.eigvals(A)).max(initial=0), 1e-300)
    return A, rng.standard_normal((order, inputs)), rng.standard_normal((outputs, order)), rng.standard_normal((outputs, inputs))


@pytest.mark.parametrize("method", ["auto", "eigenvalues", "markov"])
@pytest.mark.parametrize("seed", SEEDS)
def test_ss_to_tf_is_ss2tf(rtf, tmp_path, seed, method):
    rng = np.random.default_rng(100 + seed)
    order = int(rng.integers(1, 13))
    A, B, C, D = draw_state_space(rng, order)
    save(tmp_path / "ss.json", "ss", A=A, B=B.ravel() if seed % 2 else B, C=C.ravel() if seed % 2 else C, D=D)
    report = json.loads(rtf("convert", "ss.json", "--to", "tf", "-o", "f.json", "--method", method, "--json"))["channels"][0]
    assert method == "auto" or report["method"] == method
    f = load_json(tmp_path / "f.json")
    numerator, denominator = signal.ss2tf(A, B, C, D)
    np.testing.assert_allclose(f.denominator(0), denominator, atol=1e-10 * np.abs(denominator).max())
    np.testing.assert_allclose(f.numerator(0), numerator[0], atol=1e-10 * np.abs(numerator).max())
    _, (response,) = signal.dimpulse((A, B, C, D, 1), n=100)
    assert_kernel(oracle.exact_kernel(f, 100)[0], response[:, 0], report["condition"])


@pytest.mark.parametrize("seed", SEEDS)
def test_ss_of_several_inputs_and_outputs_is_ss2tf_entry_by_entry(rtf, tmp_path, seed):
    rng = np.random.default_rng(200 + seed)
    order, inputs, outputs = int(rng.integers(0, 9)), int(rng.integers(1, 4)), int(rng.integers(2, 5))
    A, B, C, D = draw_state_space(rng, order, inputs, outputs)
    save(tmp_path / "ss.json", "ss", A=A, B=B if order else [], C=C, D=D)
    for method in ("auto", "eigenvalues", "markov"):
        rtf("convert", "ss.json", "--to", "tf", "-o", "mimo.json", "--method", method)
        content = load(tmp_path / "mimo.json")
        assert content["form"] == "mimo"
        np.testing.assert_array_equal(content["h0"], D)
        b = np.array(content["b"], float).reshape(outputs, inputs, order)
        for j in range(inputs if order else 0):
            numerator, denominator = signal.ss2tf(A, B, C, D, input=j)
            np.testing.assert_allclose(np.r_[1, content["a"]], denominator, atol=1e-10 * np.abs(denominator).max())
            actual = D[:, j : j + 1] * denominator + np.c_[np.zeros(outputs), b[:, j]]
            np.testing.assert_allclose(actual, numerator, atol=1e-10 * np.abs(numerator).max())


@pytest.mark.parametrize("seed", SEEDS)
def test_mimo_goes_to_its_block_companion_form_and_back(rtf, rtf_raw, tmp_path, seed):
    rng = np.random.default_rng(seed)
    order, inputs, outputs = rng.integers(0, 5), rng.integers(1, 4), rng.integers(2, 4)
    a = rng.uniform(-1, 1, order) / max(order, 1)
    b, h0 = rng.normal(size=(outputs, inputs, order)), rng.normal(size=(outputs, inputs))
    save(tmp_path / "mimo.json", "mimo", a=a, b=b, h0=h0)
    rtf("convert", "mimo.json", "--to", "ss", "-o", "ss.json")
    ss = load(tmp_path / "ss.json")
    A, B = (np.reshape(ss[name], (order * inputs, -1)) for name in ("A", "B")) if order else (np.zeros((0, 0)), None)
    for j in range(inputs if order else 0):
        response = signal.dimpulse((A, B[:, [j]], ss["C"], np.array(ss["D"])[:, [j]], 1), n=20)[1][0]
        for i in range(outputs):
            numerator = np.r_[h0[i, j], h0[i, j] * a + b[i, j]]
            wanted = signal.lfilter(numerator, np.r_[1, a], np.eye(1, 20)[0])
            np.testing.assert_allclose(response[:, i], wanted, atol=1e-12)
    rtf("convert", "ss.json", "--to", "tf", "-o", "back.json")
    assert load(tmp_path / "back.json") == load(tmp_path / "mimo.json")
    assert "has the forms ss and" in rtf_raw("convert", "mimo.json", "--to", "zpk", "-o", "zpk.json").stderr


@pytest.mark.parametrize("seed", SEEDS)
def test_zpk_is_tf2zpk(rtf, tmp_path, seed):
    f = draw(seed, 12)
    save_json(tmp_path / "f.json", f)
    # SciPy's zeros are those of h0 A + B, and delays are zeros that it does not have.
    content, _ = convert(rtf, tmp_path, "f.json", "zpk", "--feed-through", "inside")
    assert content["h0"] == 0
    if f.numerator(0).any():
        leading = np.flatnonzero(f.numerator(0))[0]
        z, p, k = signal.tf2zpk(f.numerator(0)[leading:], f.denominator(0))
        assert_same_set(complexes(content["zeros"]), np.r_[z, np.zeros(f.order - leading - len(z))])
        assert_same_set(complexes(content["poles"]), np.r_[p, np.zeros(f.order - len(p))])
        assert content["gain"] == pytest.approx(k)
    # Ours are those of B; together with h0 the same system.
    content, report = convert(rtf, tmp_path, "f.json", "zpk")
    assert content["h0"] == f.h0[0]
    z, p = complexes(content["zeros"]), complexes(content["poles"])
    b, a = signal.zpk2tf(z, p, content["gain"])
    b = np.r_[np.zeros(len(a) - len(b)), b] + content["h0"] * a
    assert_kernel(signal.lfilter(b, a, impulse(100)), oracle.exact_kernel(f, 100)[0], report["condition"])


@pytest.mark.parametrize("seed", SEEDS)
def test_sections_are_for_sosfilt(rtf, tmp_path, seed):
    f = draw(seed, 65)
    save_json(tmp_path / "f.json", f)
    content, report = convert(rtf, tmp_path, "f.json", "sos")
    sections = np.array(content["sections"], float)
    assert sections.shape == (max(1, (f.order + 1) // 2), 6)
    u = np.random.default_rng(seed).standard_normal(300)
    expected = signal.lfilter(f.numerator(0), f.denominator(0), u)
    assert_kernel(signal.sosfilt(sections, u), expected, max(report["condition"], oracle.condition(f, 300)))


@pytest.mark.parametrize("seed", SEEDS)
def test_zpk_to_sections_is_zpk2sos(rtf, tmp_path, seed):
    """The same sections as SciPy's but for their order and pairing: the same response to noise."""
    rng = np.random.default_rng(300 + seed)
    pairs, real = int(rng.integers(1, 9)), 2 * int(rng.integers(0, 4))

    def roots(radius):
        upper = radius * np.sqrt(rng.uniform(0, 1, pairs)) * np.exp(1j * rng.uniform(0.1, 3, pairs))
        return np.r_[upper, upper.conj(), radius * rng.uniform(-1, 1, real)]

    z, p, k = roots(1.3), roots(0.97), rng.uniform(0.1, 3)
    save(tmp_path / "zpk.json", "zpk", zeros=z, poles=p, gain=k)
    content, report = convert(rtf, tmp_path, "zpk.json", "sos")
    u = rng.standard_normal(300)
    ours, theirs = np.array(content["sections"]), signal.zpk2sos(z, p, k)
    assert ours.shape == theirs.shape
    assert_kernel(signal.sosfilt(ours, u), signal.sosfilt(theirs, u), report["condition"])
    # Poles nearest to the circle come last in both, and the gain is in the first section.
    assert abs(ours[-1, 5] - theirs[-1, 5]) < 1e-9 or real
    assert ours[0, 0] == pytest.approx(k)


DESIGNS = {
    "butter": lambda n, w: signal.butter(n, w, output="zpk"),
    "cheby1": lambda n, w: signal.cheby1(n, 1, w, output="zpk"),
    "cheby2": lambda n, w: signal.cheby2(n, 60, w, output="zpk"),
    "ellip": lambda n, w: signal.ellip(n, 1, 60, w, output="zpk"),
    "bessel": lambda n, w: signal.bessel(n, w, output="zpk"),
}


@pytest.mark.parametrize("order,cutoff", [(8, 0.005), (12, 0.02), (20, 0.1), (30, 0.3), (30, 0.005)])
@pytest.mark.parametrize("design", DESIGNS)
def test_narrow_designs_keep_their_poles_and_zeros(rtf, rtf_raw, tmp_path, design, order, cutoff):
    """Poles so close that a polynomial in doubles has lost them: from zpk and sos they never go through one."""
    z, p, k = DESIGNS[design](order, cutoff)
    save(tmp_path / "zpk.json", "zpk", zeros=z.astype(complex), poles=p, gain=float(k))
    sections = signal.zpk2sos(z, p, k)
    save(tmp_path / "sos.json", "sos", sections=sections)
    u = np.random.default_rng(order).standard_normal(1000)
    expected = signal.sosfilt(sections, u)
    for source in ("zpk", "sos"):
        for form in ("zpk", "sos", "modal"):
            content, report = convert(rtf, tmp_path, f"{source}.json", form)
            assert report["error"] <= 1e-13 * report["condition"]
            if form == "sos":
                assert_kernel(signal.sosfilt(np.array(content["sections"]), u), expected, report["condition"])
            if form == source:
                assert content == load(tmp_path / f"{form}.json") | ({"h0": 0} if form == "zpk" else {})
        # Its coefficients either hold the filter or are refused, never written as something else.
        done = rtf_raw("convert", f"{source}.json", "--to", "tf", "-o", "tf.json", "--json")
        if done.returncode == 0:
            assert json.loads(done.stdout)["channels"][0]["error"] < 0.1
        else:
            assert done.returncode == 2 and "would be off by" in done.stderr
            assert not (tmp_path / "tf.json").exists()
            division = ["--length", "10", "--method", "division", "-o", "k.npy"]
            assert f"{source}.json: channel 0" in rtf_raw("kernel", f"{source}.json", *division).stderr
    # What is left of the filter in SciPy's coefficients, whatever it is, has roots that give them back.
    b, a = signal.zpk2tf(z, p, k)
    save(tmp_path / "ba.json", "ba", b=b, a=a)
    for form in ("zpk", "sos"):
        _, report = convert(rtf, tmp_path, "ba.json", form)
        assert report["error"] <= 1e-13 * report["condition"]


@pytest.mark.parametrize("seed", SEEDS)
def test_modal_is_residuez(rtf, tmp_path, seed):
    """residuez has r / (1 - p w) with the feed-through in the direct term: our residue of w / (1 - p w) is r p."""
    rng = np.random.default_rng(400 + seed)
    order = int(rng.integers(1, 9))
    upper = rng.uniform(0.3, 0.95, order) * np.exp(1j * (0.3 + 2.5 * (np.arange(order) + rng.uniform(0, 0.5, order)) / order))
    a = np.poly(np.r_[upper, upper.conj()]).real
    f = Filter(a[None, 1:], rng.standard_normal((1, 2 * order)), rng.standard_normal(1))
    save_json(tmp_path / "f.json", f)
    content, report = convert(rtf, tmp_path, "f.json", "modal")
    poles, residues = complexes(content["poles"]), complexes(content["residues"])
    r, p, direct = signal.residuez(f.numerator(0), f.denominator(0))
    assert_same_set(poles, p)
    matched = [np.abs(p - x).argmin() for x in poles]
    scale = 1e-8 * report["condition"] * np.abs(r * p).max()
    np.testing.assert_allclose(residues, (r * p)[matched], atol=scale)
    # h_0 is the direct term and all residues of theirs together.
    assert content["h0"] == pytest.approx((direct.sum() + r.sum()).real, abs=scale)
    t = np.arange(1, 60)
    kernel = np.r_[content["h0"], (residues[:, None] * poles[:, None] ** (t - 1)).sum(0).real]
    assert_kernel(kernel, oracle.exact_kernel(f, 60)[0], report["condition"])


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_every_command_reads_every_form(rtf, tmp_path, seed):
    rng = np.random.default_rng(500 + seed)
    f = draw_filter(rng, 4, int(rng.choice([1, 2, 4])), int(rng.integers(0, 10)), kinds=(2,) if seed % 2 else (1,))
    save_json(tmp_path / "f.json", f)
    np.save(tmp_path / "u.npy", rng.standard_normal((64, 4)))
    expected = oracle.exact_kernel(f, 64)
    for form in FORMS:
        report = json.loads(rtf("convert", "f.json", "--to", form, "-o", "g.json", "--json"))
        assert report["form"] == form and len(report["channels"]) == 4
        condition = max(channel["condition"] for channel in report["channels"])
        rtf("kernel", "g.json", "--length", 64, "-o", "k.npy")
        assert_kernel(np.load(tmp_path / "k.npy"), expected, condition)
        rtf("filter", "g.json", "--input", "u.npy", "-o", "y.npy")
        rtf("poles", "g.json")
        rtf("info", "g.json")
        # Denominators that were shared are shared again, and safetensors take the result.
        rtf("convert", "g.json", "--to", "tf", "-o", "back.safetensors")
        rtf("convert", "back.safetensors", "--to", "tf", "-o", "back.json")
        back = load_json(tmp_path / "back.json")
        assert len(back.a) == (len(f.a) if f.order else 1)
        assert_kernel(oracle.exact_kernel(back, 64), expected, condition)


@pytest.mark.parametrize(
    "content, message",
    [
        ({"form": "modal", "poles": [0.5, 0.2, 0.5], "residues": [1, 2, 3]}, "poles[2] is 0.5, and so is poles[0]"),
        ({"form": "modal", "poles": [[0.5, 0.1], [0.5, -0.1]] * 2, "residues": [1] * 4}, "modal needs distinct poles"),
        ({"form": "ba", "channels": [{"form": "zpk", "b": [1], "a": [1]}]}, "unknown key 'channels[0].form'"),
        (
            {"form": "ss", "channels": [{"A": [[0.5]], "B": [[1, 2]], "C": [[1]], "D": [[0, 0]]}]},
            "channels[0]: a state space of 2 inputs",
        ),
        ({"form": "sos", "channels": [{"sections": [[1, 0, 0, 0, 0, 0]]}]}, "channels[0]: section 0 has a0 = 0"),
    ],
)
def test_files_that_contradict_themselves_are_refused(rtf_raw, tmp_path, content, message):
    (tmp_path / "f.json").write_text(json.dumps(content))
    done = rtf_raw("convert", "f.json", "--to", "tf", "-o", "out.json")
    assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1


OVERFLOWS = [
    {"form": "ba", "b": [1], "a": [1e-300, 1e300]},
    {"form": "zpk", "zeros": [], "poles": [[1e300, 0], [1e200, 0]], "gain": 1, "h0": 0},
    {"form": "sos", "sections": [[1, 0, 0, 1e-300, 1e300, 1]]},
    {"form": "ss", "A": [[1e200, 1e300], [1e300, 1]], "B": [[1], [1]], "C": [[1, 1]], "D": [[0]]},
    {"form": "modal", "poles": [[1e200, 0], [2e200, 0]], "residues": [[1e200, 0], [1e300, 0]], "h0": 0},
]


@pytest.mark.parametrize("source", OVERFLOWS, ids=lambda source: source["form"])
@pytest.mark.parametrize("form", ["tf", "ba", "ss", "modal", "zpk", "sos"])
def test_no_message_speaks_of_nan(rtf_raw, tmp_path, source, form):
    (tmp_path / "f.json").write_text(json.dumps(source))
    result = rtf_raw("convert", "f.json", "--to", form, "-o", "out.json")
    assert result.returncode in (0, 2) and "nan" not in result.stdout + result.stderr
    if result.returncode == 2:
        assert result.stderr.count("\n") == 1 and not (tmp_path / "out.json").exists()


GAINS = [1e300, 1e-300, 1.5e308]


@pytest.mark.parametrize("gain", GAINS)
@pytest.mark.parametrize("source", ["ba", "ss", "sos"])
def test_every_command_takes_every_gain(rtf, tmp_path, source, gain):
    b, a = signal.butter(3, 0.3)
    A, B, C, D = signal.tf2ss(b, a)
    forms = {
        # Of a ratio and of a section the factor of both parts cancels; of matrices B alone has it.
        "ba": {"b": list(gain / 8 * b), "a": list(gain / 8 * a)},
        "ss": {"A": A.tolist(), "B": (gain * B).tolist(), "C": C.tolist(), "D": (gain * D).tolist()},
        "sos": {"sections": (gain / 8 * signal.tf2sos(b, a)).tolist()},
    }
    (tmp_path / "f.json").write_text(json.dumps({"form": source, **forms[source]}))
    factor = gain if source == "ss" else 1.0
    rtf("kernel", "f.json", "--length", 50, "-o", "k.npy")
    k = np.load(tmp_path / "k.npy")[0]
    np.testing.assert_allclose(k / factor, signal.lfilter(b, a, impulse(50)), rtol=0, atol=1e-14)
    rtf("freqz", "f.json", "-o", "h.npy")
    np.testing.assert_allclose(np.load(tmp_path / "h.npy")[0] / factor, signal.freqz(b, a)[1], rtol=0, atol=1e-13)
    for options in ([], ["--to", "ss"]):
        assert "nan" not in rtf("reduce", "f.json", "--order", 2, "-o", "r.json", *options)
    for form in ["tf", "ba", "ss", "modal", "zpk", "sos"]:
        rtf("convert", "f.json", "--to", form, "-o", "c.json")
        rtf("kernel", "c.json", "--length", 50, "-o", "c.npy")
        np.testing.assert_allclose(np.load(tmp_path / "c.npy")[0] / factor, k / factor, rtol=0, atol=1e-13)


def test_a_mimo_of_one_input_and_output_is_a_channel(rtf, tmp_path):
    save(tmp_path / "mimo.json", "mimo", a=[-0.5], b=[[[1]]], h0=[[2]])
    for form in FORMS:
        rtf("convert", "mimo.json", "--to", form, "-o", "f.json")
        rtf("kernel", "f.json", "--length", 4, "-o", "k.npy")
        np.testing.assert_allclose(np.load(tmp_path / "k.npy"), [[2, 1, 0.5, 0.25]])
    rtf("kernel", "mimo.json", "--length", 4, "-o", "k.npy")


def test_chains_through_all_forms_lose_little(rtf, tmp_path):
    rng = np.random.default_rng(7)
    f = draw_filter(rng, 1, 1, 12, kinds=(1,))
    save_json(tmp_path / "a.json", f)
    condition = 1
    for _ in range(10):
        form = str(rng.choice(FORMS))
        report = json.loads(rtf("convert", "a.json", "--to", form, "-o", "a.json", "--json"))["channels"][0]
        condition = max(condition, report["condition"])
        assert report["error"] <= 1e-13 * report["condition"]
    rtf("kernel", "a.json", "--length", 100, "-o", "k.npy")
    assert_kernel(np.load(tmp_path / "k.npy"), oracle.exact_kernel(f, 100), condition)


def test_a_trained_file_is_corrected_first(rtf, tmp_path):
    f = draw_filter(np.random.default_rng(1), 2, 1, 3, 20)
    save_json(tmp_path / "f.json", f)
    text = rtf("convert", "f.json", "--to", "zpk", "-o", "g.json")
    assert text.count("corrected at length 20") == 2
    rtf("kernel", "g.json", "--length", 50, "-o", "k.npy")
    assert_kernel(np.load(tmp_path / "k.npy"), oracle.exact_kernel(oracle.dense_correction(f), 50), 1e3)


def test_the_table_lines_up_and_quiet_is_quiet(rtf, tmp_path):
    f = draw_filter(np.random.default_rng(2), 12, 1, 3)
    save_json(tmp_path / "f.json", f)
    lines = rtf("convert", "f.json", "--to", "sos", "-o", "g.json").splitlines()
    assert lines[0] == "g.json: sos, 12 channels" and len(lines) == 14
    assert len({line.rindex("  ") for line in lines[1:]}) == 1
    assert rtf("convert", "f.json", "--to", "sos", "-o", "g.json", "--quiet") == ""


def test_numbers_survive_the_file(rtf, tmp_path):
    """What is written reads back to the same bits: converting to the form a file has changes nothing."""
    f = draw_filter(np.random.default_rng(3), 2, 2, 5, kinds=(1,))
    save_json(tmp_path / "f.json", f)
    for form in ("tf", "ba", "ss"):
        rtf("convert", "f.json", "--to", form, "-o", "one.json")
        rtf("convert", "one.json", "--to", form, "-o", "two.json")
        assert (tmp_path / "one.json").read_text() == (tmp_path / "two.json").read_text()


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_change_nothing(rtf, tmp_path, threads, monkeypatch):
    f = draw_filter(np.random.default_rng(4), 7, 7, 20)
    save_json(tmp_path / "f.json", f)
    rtf("convert", "f.json", "--to", "sos", "-o", "default.json")
    monkeypatch.setenv("RTF_THREADS", str(threads))
    rtf("convert", "f.json", "--to", "sos", "-o", "other.json")
    assert (tmp_path / "default.json").read_text() == (tmp_path / "other.json").read_text()


def test_a_system_that_outgrows_double_is_compared_as_far_as_it_goes(rtf, tmp_path):
    (tmp_path / "f.json").write_text('{"a": [-3], "b": [1], "h0": 0}')
    _, report = convert(rtf, tmp_path, "f.json", "zpk", "--report-length", "2000")
    assert 500 < report["length"] < 700 and report["error"] < 1e-12


@pytest.mark.parametrize("B, C", [([0, 1], [1, 1]), ([1, 1], [0, 1])])
@pytest.mark.parametrize("form", ["tf", "ba", "zpk", "sos", "modal"])
def test_states_that_take_no_part_are_left_out(rtf, tmp_path, form, B, C):
    """A pole outside the circle that the input does not reach, or that the output does not see."""
    save(tmp_path / "ss.json", "ss", A=[[1.5, 0.0], [0.0, 0.3]], B=B, C=C, D=[0.5])
    rtf("convert", "ss.json", "--to", form, "-o", "f.json")
    rtf("kernel", "f.json", "--length", "40", "-o", "k.npy")
    expected = np.concatenate([[0.5], 0.3 ** np.arange(39)])
    np.testing.assert_allclose(np.load(tmp_path / "k.npy")[0], expected, atol=1e-15)
