"""rtf fit, reduce and stabilize against NumPy and SciPy called live."""

import json

import numpy as np
import pytest
from scipy import linalg, signal
from scipy.io import wavfile
from scipy.sparse.linalg import LinearOperator, eigsh

import oracle
from conftest import real_data
from oracle import Filter, condition, draw_filter, load_json, save_json

METHODS = ["hankel", "prony", "iterative"]


def rows_of(output):
    """The table that a command prints: a list of numbers for every channel."""
    lines = output.splitlines()
    start = next(i for i, line in enumerate(lines) if line.split()[:1] == ["channel"])
    return [[float(word) for word in line.replace("yes", "1").split()] for line in lines[start + 1 :]]


def relative_l2(actual, expected):
    return np.linalg.norm(actual - expected) / np.linalg.norm(expected)


def recovery_bound(f, length):
    """1e-8 up to kappa = 1e6, in proportion beyond."""
    return 1e-8 * max(1, condition(f, length) / 1e6)


def resonant_filter(rng, order, low, high):
    poles = rng.uniform(low, high, order // 2) * np.exp(1j * rng.uniform(0.01, 0.99, order // 2) * np.pi)
    a = np.poly(np.concatenate([poles, poles.conj()])).real[1:]
    return Filter(a[None], rng.standard_normal((1, order)), rng.standard_normal(1))


# --- fit -------------------------------------------------------------------------------------------------------------


def long_kernel(f, length):
    """In long double: a recurrence in double is itself off by the rounding that close poles amplify."""
    a, h = f.denominator(0).astype(np.longdouble), np.zeros(length, np.longdouble)
    h[: f.order + 1] = f.numerator(0)
    for t in range(1, length):
        k = min(t, f.order)
        h[t] -= a[1 : k + 1] @ h[t - k : t][::-1]
    return h.astype(float)


@pytest.mark.parametrize("seed", range(30))
def test_fit_recovers_order_24_from_400_samples(rtf, tmp_path, seed):
    """To 1e-8 as the command runs it, what follows the samples by its own norm, which is up to 1e13 times smaller.

    The samples in double determine the kernel to 1e-14. Independent rounding of 24 coefficients costs it up to 3e-8
    (seed 4), rounding them together 1e-12, and running them 8e-10."""
    f = resonant_filter(np.random.default_rng(seed), 24, 0.8, 0.98)
    exact = long_kernel(f, 2400)
    np.save(tmp_path / "k.npy", exact[:400])
    ((_, error, radius, stable, *_),) = rows_of(rtf("fit", "k.npy", "--order", 24, "-o", "f.json"))
    rtf("kernel", "f.json", "--length", 2400, "-o", "found.npy")
    found = np.load(tmp_path / "found.npy")[0]
    assert error <= 1e-8 and radius < 1 and stable == 1
    assert relative_l2(found[:400], exact[:400]) <= 1e-8
    assert relative_l2(found[400:], exact[400:]) <= 1e-8


def hankel_norm(h):
    """The largest singular value of the Hankel matrix of h_1, h_2, .., zero past the end."""
    size = len(h)
    spectrum = np.fft.rfft(h, 2 * size)
    product = lambda x: np.fft.irfft(spectrum * np.fft.rfft(np.ravel(x), 2 * size).conj(), 2 * size)[:size]
    operator = LinearOperator((size, size), matvec=product, dtype=float)
    return abs(eigsh(operator, k=1, which="LM", v0=np.ones(size), return_eigenvectors=False)[0])


@pytest.fixture(scope="module")
def clap():
    _, samples = wavfile.read(real_data("audio/rir_clap.wav"))
    return samples[:2000] / 32768


def test_fit_of_a_room_response(rtf, tmp_path, clap):
    np.save(tmp_path / "k.npy", clap)
    sigma = np.linalg.svd(linalg.hankel(clap[1:]), compute_uv=False)
    errors = {method: [] for method in METHODS}
    for order in (4, 16, 64, 256):
        for method in METHODS:
            output = rtf("fit", "k.npy", "--order", order, "--method", method, "-o", "f.json")
            ((_, error, radius, stable, *values),) = rows_of(output)
            f = load_json(tmp_path / "f.json")
            assert f.a.shape == (1, order) and stable == 1 and radius < 1
            kernel = oracle.exact_kernel(f, 2000)[0]
            # Three digits and more of the kernel are right in direct form, so those of its error are.
            np.testing.assert_allclose(error, relative_l2(kernel, clap), rtol=1e-3)
            errors[method].append(error)
            if method == "prony":
                assert values == []
                continue
            np.testing.assert_allclose(values, sigma[[0, order]], rtol=1e-5)
            if method == "hankel":
                longer = oracle.exact_kernel(f, 2**16)[0]
                longer[:2000] -= clap
                assert sigma[order] * (1 - 1e-6) <= hankel_norm(longer[1:]) <= 2 * sigma[order:].sum()
    for method in METHODS:
        assert np.all(np.diff(errors[method]) < 0), errors
    assert np.all(np.array(errors["iterative"]) <= np.minimum(errors["hankel"], errors["prony"])), errors


@pytest.mark.parametrize("method", METHODS)
def test_fit_of_several_channels(rtf, tmp_path, method):
    rng = np.random.default_rng(5)
    f = draw_filter(rng, 4, 1, 10, kinds=(0,))
    exact = oracle.exact_kernel(f, 600)
    np.save(tmp_path / "k.npy", exact[:, :300].astype(np.float32))
    rtf("fit", "k.npy", "--order", 10, "--method", method, "--shared", "-o", "shared.safetensors", "--quiet")
    np.save(tmp_path / "k.npy", exact[:, :300])
    rows = rows_of(rtf("fit", "k.npy", "--order", 10, "--method", method, "-o", "separate.json"))
    assert load_json(tmp_path / "separate.json").a.shape == (4, 10)
    rows += rows_of(rtf("fit", "k.npy", "--order", 10, "--method", method, "--shared", "-o", "shared.json"))
    shared = load_json(tmp_path / "shared.json")
    assert shared.a.shape == (1, 10)
    assert max(row[1] for row in rows) <= recovery_bound(f, 600) * 100
    np.testing.assert_allclose(oracle.exact_kernel(shared, 600), exact, atol=1e-6 * np.abs(exact).max())


def test_shared_singular_values(rtf, tmp_path):
    rng = np.random.default_rng(6)
    k = rng.standard_normal((3, 200)) * np.exp(-0.03 * np.arange(200)) * np.array([[1], [1e3], [1e-6]])
    np.save(tmp_path / "k.npy", k)
    stacked = np.vstack([linalg.hankel(row[1:] / np.linalg.norm(row[1:])) for row in k])
    sigma = np.linalg.svd(stacked, compute_uv=False)
    for method in ("hankel", "iterative"):
        output = rtf("fit", "k.npy", "--order", 12, "--method", method, "--shared", "-o", "f.json")
        assert "sigma: of the kernels divided by their norms" in output
        np.testing.assert_allclose(rows_of(output)[0][4:], sigma[[0, 12]], rtol=1e-6)
        assert "sigma:" not in rtf("fit", "k.npy", "--order", 12, "--method", method, "-o", "f.json")


def state_space_kernel(system, length):
    A, x, C = np.array(system["A"]), np.ravel(system["B"]), np.ravel(system["C"])
    kernel = [float(np.ravel(system["D"])[0])]
    for _ in range(length - 1):
        kernel.append(C @ x)
        x = A @ x
    return np.array(kernel)


def test_fit_to_state_space_holds_what_coefficients_cannot(rtf, tmp_path):
    """16 modes of a room below 1 kHz at 44.1 kHz: 32 poles within 0.15 of 1."""
    rng = np.random.default_rng(8)
    angles, t = 2 * np.pi * np.linspace(30, 1000, 16) / 44100, np.arange(4000)
    h = (rng.uniform(0.5, 1, (16, 1)) * 0.998 ** t * np.cos(angles[:, None] * t)).sum(0)
    np.save(tmp_path / "k.npy", h)
    ((_, coefficients, *_),) = rows_of(rtf("fit", "k.npy", "--order", 32, "--method", "hankel", "-o", "f.json"))
    ((_, error, radius, stable, *sigma),) = rows_of(
        rtf("fit", "k.npy", "--order", 32, "--method", "hankel", "--to", "ss", "-o", "f.json"))  # fmt: skip
    system = json.loads((tmp_path / "f.json").read_text())
    assert system["form"] == "ss" and stable == 1
    np.testing.assert_allclose(radius, 0.998, rtol=1e-6)
    assert error < 1e-8 < 1e-3 < coefficients
    assert relative_l2(state_space_kernel(system, 4000), h) < 1e-8


def test_fit_to_state_space_keeps_its_bound(rtf, tmp_path):
    rng = np.random.default_rng(9)
    k = rng.standard_normal((3, 400)) * np.exp(-0.1 * np.arange(400)) * np.array([[1], [1e5], [1e-3]])
    np.save(tmp_path / "k.npy", k)
    for order in (0, 3, 20):
        rows = rows_of(rtf("fit", "k.npy", "--order", order, "--method", "hankel", "--to", "ss", "-o", "f.json"))
        systems = json.loads((tmp_path / "f.json").read_text())["channels"]
        for h, row, system in zip(k, rows, systems, strict=True):
            kernel = state_space_kernel(system, 2000) if order else np.r_[np.ravel(system["D"]), np.zeros(1999)]
            np.testing.assert_allclose(row[1], relative_l2(kernel[:400], h), rtol=1e-4)
            sigma = np.linalg.svd(linalg.hankel(h[1:]), compute_uv=False)
            difference = kernel - np.r_[h, np.zeros(1600)]
            assert sigma[order] * (1 - 1e-6) <= hankel_norm(difference[1:]) <= 2 * sigma[order:].sum()
    rtf("fit", "k.npy", "--order", 6, "--method", "hankel", "--to", "ss", "--shared", "-o", "f.json")
    first, second, third = json.loads((tmp_path / "f.json").read_text())["channels"]
    assert first["A"] == second["A"] == third["A"] and first["B"] == second["B"] and first["C"] != second["C"]
    for kernel in ([3.0], [0.0] * 9, [1.0, 2.0, 3.0], [1.0, 2.0]):
        np.save(tmp_path / "k.npy", np.array(kernel))
        rtf("fit", "k.npy", "--order", 5, "--method", "hankel", "--to", "ss", "-o", "f.json")
        system = json.loads((tmp_path / "f.json").read_text())
        np.testing.assert_allclose(np.ravel(system["D"]), kernel[0])


def test_fit_of_trivial_kernels(rtf, tmp_path):
    for kernel, order in (([3.0], 2), ([0.0] * 9, 3), ([1.0, 2.0, 3.0], 5), ([1.0, 2.0, 3.0], 0), ([0.0, 0.0, 5.0, 0.0], 2)):
        np.save(tmp_path / "k.npy", np.array(kernel))
        for method in METHODS:
            rtf("fit", "k.npy", "--order", order, "--method", method, "-o", "f.json")
            f = load_json(tmp_path / "f.json")
            assert f.order == order
            expected = np.array(kernel) if order else np.array(kernel[:1] + [0.0] * (len(kernel) - 1))
            np.testing.assert_allclose(oracle.exact_kernel(f, len(kernel))[0], expected, atol=1e-13)


# --- reduce ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_reduce_stays_below_its_bound(rtf, tmp_path, seed):
    rng = np.random.default_rng(seed)
    f = draw_filter(rng, 2, 2, int(rng.integers(2, 20)), kinds=(0,))
    order = int(rng.integers(1, f.order))
    save_json(tmp_path / "f.json", f)
    rows = rows_of(rtf("reduce", "f.json", "--order", order, "-o", "r.json"))
    reduced = load_json(tmp_path / "r.json")
    for c, (_, error, bound, first, cut) in enumerate(rows):
        system = signal.tf2ss(f.numerator(c), f.denominator(c))
        reach = linalg.solve_discrete_lyapunov(system[0], system[1] @ system[1].T)
        show = linalg.solve_discrete_lyapunov(system[0].T, system[2].T @ system[2])
        sigma = np.sqrt(np.sort(np.linalg.eigvals(reach @ show).real.clip(0))[::-1])
        np.testing.assert_allclose([first, cut, bound], [sigma[0], sigma[order], 2 * sigma[order:].sum()],
                                   atol=1e-5 * sigma[0])  # fmt: skip
        w = np.linspace(0, np.pi, 4001)
        difference = signal.freqz(f.numerator(c), f.denominator(c), w)[1] - signal.freqz(
            reduced.numerator(c), reduced.denominator(c), w)[1]  # fmt: skip
        np.testing.assert_allclose(error, np.abs(difference).max(), rtol=1e-3, atol=1e-9 * sigma[0])
        assert error <= bound + 1e-9 * sigma[0]


def test_reduce_of_clustered_poles(rtf, rtf_raw, tmp_path):
    """The coefficients of butter(20, 0.1) hold 20 poles that nearly coincide."""
    b, a = signal.butter(20, 0.1)
    f = Filter(a[None, 1:], (b[1:] - b[0] * a[1:])[None], b[:1])
    save_json(tmp_path / "f.json", f)
    rtf("reduce", "f.json", "--order", 20, "-o", "same.json")
    same = load_json(tmp_path / "same.json")
    assert np.array_equal(same.a, f.a) and np.array_equal(same.b, f.b)
    for order in (4, 8, 12):
        ((_, error, bound, *_),) = rows_of(rtf("reduce", "f.json", "--order", order, "-o", "less.json"))
        assert error <= bound * (1 + 1e-6) + 1e-7
    assert "by more than their bound" in rtf_raw("reduce", "f.json", "--order", 18, "-o", "less.json").stderr


def test_reduce_of_a_trained_filter_stays_trained(rtf, tmp_path):
    f = draw_filter(np.random.default_rng(1), 2, 1, 8, length=128, kinds=(1,))
    save_json(tmp_path / "f.json", f)
    ((_, error, *_), *_) = rows_of(rtf("reduce", "f.json", "--order", 8, "-o", "r.json"))
    reduced = load_json(tmp_path / "r.json")
    assert reduced.length == 128 and error < 1e-9
    np.testing.assert_allclose(oracle.wrapped_kernel(reduced, 128), oracle.wrapped_kernel(f, 128), atol=1e-9)


def state_space_response(system, w):
    """D + C (zI - A)^-1 B of an object of form ss, (angles, outputs, inputs)."""
    A = np.array(system["A"]).reshape(len(system["A"]), -1)
    n = len(A)
    D = np.atleast_2d(system["D"])
    B, C = np.array(system["B"]).reshape(n, D.shape[1]), np.array(system["C"]).reshape(D.shape[0], n)
    z = np.exp(1j * w)[:, None, None]
    return D + C @ np.linalg.solve(z * np.eye(n) - A, np.broadcast_to(B, (len(w), *B.shape)))


def test_reduce_searches_for_its_largest_error(rtf, tmp_path):
    """The poles at the edge of this pass band make a peak that is narrower than any even grid of angles."""
    sos = signal.ellip(10, 0.5, 60, 0.02, output="sos")
    (tmp_path / "f.json").write_text(json.dumps({"form": "sos", "sections": sos.tolist()}))
    ((_, error, *_),) = rows_of(rtf("reduce", "f.json", "--order", 4, "--to", "ss", "-o", "r.json"))
    w = np.linspace(0.05, 0.08, 30001)
    reduced = state_space_response(json.loads((tmp_path / "r.json").read_text()), w)[:, 0, 0]
    np.testing.assert_allclose(error, np.abs(signal.sosfreqz(sos, w)[1] - reduced).max(), rtol=1e-6)


@pytest.mark.parametrize("order", [8, 16, 24])
def test_reduce_to_state_space_holds_what_coefficients_cannot(rtf, rtf_raw, tmp_path, order):
    """butter(64, 0.1): a narrow filter whose 64 coefficients no double holds."""
    sos = signal.butter(64, 0.1, output="sos")
    z, p, k = signal.butter(64, 0.1, output="zpk")
    pairs = lambda values: [[x.real, x.imag] for x in values]
    forms = {"sos": {"sections": sos.tolist()}, "zpk": {"zeros": pairs(z), "poles": pairs(p), "gain": float(k)}}
    w = np.concatenate([np.linspace(0, np.pi, 2001), np.linspace(0.25, 0.4, 10001)])  # more where it cuts off
    for form, numbers in forms.items():
        (tmp_path / "f.json").write_text(json.dumps({"form": form, **numbers}))
        to_coefficients = rtf_raw("reduce", "f.json", "--order", order, "-o", "r.json")
        assert to_coefficients.returncode == (0 if order == 8 else 2)  # doubles hold those of eight poles
        assert (tmp_path / "r.json").exists() == (order == 8)
        ((_, error, bound, first, cut),) = rows_of(rtf("reduce", "f.json", "--order", order, "--to", "ss", "-o", "r.json"))
        system = json.loads((tmp_path / "r.json").read_text())
        (tmp_path / "r.json").unlink()
        assert system["form"] == "ss" and len(system["A"]) == order
        assert np.abs(np.linalg.eigvals(np.array(system["A"]))).max() < 1
        difference = np.abs(state_space_response(system, w)[:, 0, 0] - signal.sosfreqz(sos, w)[1]).max()
        np.testing.assert_allclose(error, difference, rtol=1e-2)
        assert cut <= error * (1 + 1e-6) and error <= bound and first <= 1 + 1e-6


def test_reduce_to_state_space_reads_every_form(rtf, tmp_path):
    f = draw_filter(np.random.default_rng(3), 2, 2, 9, kinds=(0,))
    save_json(tmp_path / "tf.json", f)
    expected = rows_of(rtf("reduce", "tf.json", "--order", 4, "-o", "r.json"))
    for form in ("ba", "ss", "modal", "zpk", "sos"):
        rtf("convert", "tf.json", "--to", form, "-o", f"{form}.json")
    for form in ("tf", "ba", "ss", "modal", "zpk", "sos"):
        rows = rows_of(rtf("reduce", f"{form}.json", "--order", 4, "--to", "ss", "-o", "r.json"))
        np.testing.assert_allclose(rows, expected, rtol=1e-5, atol=1e-9)
        assert len(json.loads((tmp_path / "r.json").read_text())["channels"]) == 2
    # Several inputs and outputs are one system.
    rng = np.random.default_rng(4)
    system = {"A": (0.3 * rng.standard_normal((6, 6))).tolist(), "B": rng.standard_normal((6, 2)).tolist(),
              "C": rng.standard_normal((3, 6)).tolist(), "D": rng.standard_normal((3, 2)).tolist()}  # fmt: skip
    (tmp_path / "mimo.json").write_text(json.dumps({"form": "ss", **system}))
    ((_, error, bound, *_),) = rows_of(rtf("reduce", "mimo.json", "--order", 3, "--to", "ss", "-o", "r.json"))
    w = np.linspace(0, np.pi, 2001)
    reduced = json.loads((tmp_path / "r.json").read_text())
    difference = state_space_response(reduced, w) - state_space_response(system, w)
    np.testing.assert_allclose(error, np.linalg.norm(difference, 2, axis=(1, 2)).max(), rtol=1e-2)
    assert error <= bound


def test_reduce_to_state_space_warns_of_its_own_rounding(rtf_raw, tmp_path):
    """Nothing is cut, and balancing costs digits: there are no coefficients that could be to blame."""
    sections = signal.cheby1(30, 1, 0.02, output="sos")
    (tmp_path / "f.json").write_text(json.dumps({"form": "sos", "sections": sections.tolist()}))
    done = rtf_raw("reduce", "f.json", "--order", 30, "--to", "ss", "-o", "r.json")
    assert done.returncode == 0 and len(done.stderr.splitlines()) == 1
    assert "rounding of the balanced matrices" in done.stderr and "coefficients" not in done.stderr


# --- stabilize -------------------------------------------------------------------------------------------------------


def unstable_filter(rng, channels, groups, order, radius, length=None):
    """All poles of a drawn denominator scaled, the largest to `radius`."""
    f = draw_filter(rng, channels, groups, order, length, kinds=(0,))
    for g in range(groups):
        scale = radius / np.abs(np.roots(np.concatenate([[1.0], f.a[g]]))).max()
        f.a[g] *= scale ** np.arange(1, order + 1)
    return f


@pytest.mark.parametrize("seed", range(8))
def test_reflect_keeps_the_magnitude_on_1000_frequencies(rtf, tmp_path, seed):
    rng = np.random.default_rng(seed)
    f = unstable_filter(rng, 2, 1 + seed % 2, int(rng.integers(1, 33)), rng.uniform(1.001, 1.2))
    save_json(tmp_path / "f.json", f)
    rtf("stabilize", "f.json", "--method", "reflect", "--length", 50, "-o", "s.json")
    stable = load_json(tmp_path / "s.json")
    bound = 1e-9 * max(1, condition(stable, 4000) / 1e6)
    for c in range(2):
        assert np.abs(np.roots(stable.denominator(c))).max() < 1
        _, before = signal.freqz(f.numerator(c), f.denominator(c), 1000)
        _, after = signal.freqz(stable.numerator(c), stable.denominator(c), 1000)
        np.testing.assert_allclose(np.abs(after), np.abs(before), rtol=bound, atol=bound * np.abs(before).max())


@pytest.mark.parametrize("seed", range(6))
def test_refit_is_stable_and_never_worse_than_reflect(rtf, tmp_path, seed):
    rng = np.random.default_rng(seed)
    order = [1, 2, 4, 8, 16, 32][seed]
    f = unstable_filter(rng, 3, 1 if seed % 2 else 3, order, 1.01, length=1000)
    save_json(tmp_path / "f.json", f)
    wanted = oracle.wrapped_kernel(f, 1000)
    for method in ("reflect", "refit", "montel"):
        rows = rows_of(rtf("stabilize", "f.json", "--method", method, "-o", "s.json"))
        stable = load_json(tmp_path / "s.json")
        assert stable.length == 1000
        kernel = oracle.wrapped_kernel(stable, 1000)
        for c, (_, before, after, error, reflect) in enumerate(rows):
            assert np.abs(np.roots(stable.denominator(c))).max() < 1 and after < 1
            np.testing.assert_allclose(before, 1.01, rtol=1e-6)
            np.testing.assert_allclose(error, relative_l2(kernel[c], wanted[c]), rtol=1e-4, atol=1e-9)
            assert method == "montel" or error <= reflect
            assert method != "montel" or np.abs(stable.denominator(c)[1:]).sum() <= 0.999 + 1e-12
        # What could not be streamed before can be now.
        rtf("correct", "s.json", "-o", "plain.json")


def test_reflect_says_how_much_the_magnitude_changed(rtf, rtf_raw, tmp_path):
    save_json(tmp_path / "f.json", Filter(np.array([[-1.9, 1.02]]), np.array([[1.0, 0.0]]), np.zeros(1)))
    done = rtf_raw("stabilize", "f.json", "--method", "reflect", "-o", "s.json")
    line = next(line for line in done.stdout.splitlines() if "|H| changed by at most" in line)
    assert float(line.split("at most ")[1].split()[0]) < 1e-9 and done.stderr == ""
    assert "on 1024 frequencies, where it is above 1e-06 of its largest value" in line


def test_a_margin_below_the_decimals_is_shown(rtf, tmp_path):
    save_json(tmp_path / "f.json", Filter(np.array([[-(1 + 2**-40)]]), np.ones((1, 1)), np.zeros(1)))
    row = rtf("stabilize", "f.json", "--method", "reflect", "-o", "s.json").splitlines()[-1].split()
    assert row[1].startswith("1+9.") and row[2].startswith("1-9.")


def test_a_stable_filter_is_left_alone(rtf, tmp_path):
    f = draw_filter(np.random.default_rng(2), 2, 2, 6, kinds=(1,))
    save_json(tmp_path / "f.json", f)
    for method in ("reflect", "refit", "montel"):
        rows = rows_of(rtf("stabilize", "f.json", "--method", method, "-o", "s.json"))
        same = load_json(tmp_path / "s.json")
        assert np.array_equal(same.a, f.a) and np.array_equal(same.b, f.b) and np.array_equal(same.h0, f.h0)
        assert [row[3] for row in rows] == [0, 0]
