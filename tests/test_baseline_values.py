"""The first values of S4, S4D and S5 as the specification has them, with NumPy."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import baseline_oracle as oracle  # noqa: E402
from baseline_cases import layer_weights, options_of, run  # noqa: E402, F401


def test_first_values_of_s4d_and_s4(run):
    x = torch.zeros(1, 64, 4)
    at = lambda **more: layer_weights(run(options_of(64, **more), {"x": x}, {"do": "weights"}))
    n = 32
    k = torch.arange(n // 2, dtype=torch.float64)
    lin = at(layer="s4d", system_init="lin", order=n, channels=64)
    assert torch.allclose(lin["a_real"], torch.full((1, n // 2), math.log(0.5), dtype=torch.float64))
    assert torch.allclose(lin["a_imag"][0], (math.pi * k).clamp(min=1e-4))
    inv = at(layer="s4d", system_init="inv", order=n)
    assert torch.allclose(inv["a_imag"][0], n / math.pi * (n / (2 * k + 1) - 1))
    for layer in ("s4d", "s4"):
        legs = at(layer=layer, system_init="legs", order=n)
        assert torch.allclose(-legs["a_imag"][0].float(), oracle.legs_frequencies(n).float(), rtol=1e-6)
    fourier = at(layer="s4", system_init="fourier", order=n, rank=2, dt_transform="exp", dt_min=0.004, dt_max=0.004)  # fmt: skip
    assert torch.allclose(fourier["a_real"].exp(), torch.full((1, n // 2), 1e-4, dtype=torch.float64))
    assert torch.allclose(fourier["b"][0, :, 0], torch.cat([torch.tensor([0.5**0.5]), torch.ones(n // 2 - 1)]).double())
    assert torch.equal(fourier["p"][1], torch.zeros(1, n // 2, 2))
    # C and steps: independent draws of the right size, log-uniform between the ends.
    assert abs(lin["c"].var() - 0.5) < 0.05
    step = torch.log1p(torch.exp(lin["dt"]))
    assert 0.001 <= step.min() < 0.003 and 0.03 < step.max() <= 0.1


def test_release_step_goes_through_the_transform_twice(run):
    for way, transform in (("exp", torch.exp), ("softplus", torch.nn.functional.softplus)):
        more = dict(layer="s4", system_init="legs", order=4, dt_min=0.004, dt_max=0.004, dt_transform=way)
        stored = [
            layer_weights(run(options_of(8, initial_step=which, **more), {"x": torch.zeros(1, 8, 4)}, {"do": "weights"}))["dt"]
            for which in ("paper", "release")
        ]
        assert torch.allclose(transform(stored[0]), torch.full((4,), 0.004, dtype=torch.float64), rtol=1e-5)
        assert torch.allclose(stored[1], torch.full((4,), 0.004, dtype=torch.float64), rtol=1e-6)


def test_first_values_of_s5(run):
    at = lambda init, channels=48: layer_weights(
        run(options_of(8, layer="s5", system_init=init, order=96, blocks=3, channels=channels),
            {"x": torch.zeros(1, 8, channels)}, {"do": "weights"}))  # fmt: skip
    weights = at("trunc_standard_normal")
    expected = oracle.legs_frequencies(32).repeat(3)
    assert torch.allclose(weights["a_imag"].float(), expected.float(), rtol=1e-6)
    assert torch.allclose(weights["a_real"], torch.full((48,), -0.5, dtype=torch.float64))
    # V is unitary on all states: variance 1 / P of B is kept, half of it in each part.
    assert abs(weights["b"].var() * 96 * 2 - 1) < 0.1
    assert abs(weights["c"].var() * 96 - 1) < 0.1
    assert abs(at("lecun_normal")["c"].var() * 96 * 48 - 1) < 0.1
    assert abs(at("complex_normal")["c"].var() * 2 - 1) < 0.1
    assert math.log(0.001) <= weights["dt"].min() and weights["dt"].max() <= math.log(0.1)


def as_numpy(pairs):
    """(..., 2) as complex numbers."""
    return pairs.numpy()[..., 0] + 1j * pairs.numpy()[..., 1]


def legs_basis(n):
    """V* B and V* P of HiPPO-LegS for the states with negative frequencies, lowest first, up to a phase for each."""
    i = np.arange(n)
    root = np.sqrt(2 * i + 1)
    a = -np.tril(np.outer(root, root), -1) - np.diag(i + 1.0)
    b, p = root, np.sqrt(i + 0.5)
    frequencies, vectors = np.linalg.eigh(-1j * (a + np.outer(p, p) + 0.5 * np.eye(n)))
    kept = vectors[:, frequencies < 0].conj().T
    return frequencies[frequencies < 0], kept @ b, kept @ p


@pytest.mark.parametrize("n", [2, 8, 32, 64])
def test_legs_in_its_eigenbasis(run, n):
    """B and P state by state: their sizes, and their product, which no choice of phases changes."""
    frequencies, b, p = legs_basis(n)
    # float32, and eigenvectors whose neighbours lie at least 1 apart at frequencies of up to n^2.
    close = dict(rtol=1e-5, atol=1e-5)
    for layer in ("s4", "s4d"):
        options = options_of(8, layer=layer, system_init="legs", order=n, denominators=2)
        weights = layer_weights(run(options, {"x": torch.zeros(1, 8, 4)}, {"do": "weights"}))
        for system in range(2):
            assert np.allclose(weights["a_imag"][system], -frequencies, **close)
            stored_b = as_numpy(weights["b"])[system]
            assert np.allclose(abs(stored_b), abs(b), **close)
            if layer == "s4":
                stored_p = as_numpy(weights["p"])[0, system]
                assert np.allclose(abs(stored_p), abs(p), **close)
                assert np.allclose(stored_p.conj() * stored_b, p.conj() * b, **close)


def plain_c(weights, options):
    """C of every direction and channel from what S4 stores, C (I - A^length): dense matrices over all states."""
    whole = lambda half: np.concatenate([half, half.conj()], -1)
    systems, channels, n = options["denominators"], options["channels"], options["order"]
    poles = whole(-np.exp(weights["a_real"].numpy()) - 1j * weights["a_imag"].numpy())
    vectors, stored = whole(as_numpy(weights["p"])), whole(as_numpy(weights["c"]))
    dt = weights["dt"].numpy()
    dt = np.exp(dt) if options.get("dt_transform") == "exp" else np.log1p(np.exp(dt))
    found = np.empty(stored.shape[:2] + (n // 2,), complex)
    for channel in range(channels):
        system = channel * systems // channels
        a = np.diag(poles[system]) - sum(np.outer(v[system], v[system].conj()) for v in vectors)
        one = np.eye(n)
        stepped = np.linalg.solve(one - dt[channel] / 2 * a, one + dt[channel] / 2 * a)
        wrapping = one - np.linalg.matrix_power(stepped, options["length"])
        for direction in range(len(stored)):
            found[direction, channel] = np.linalg.solve(wrapping.T, stored[direction, channel])[: n // 2]
    return found


S4_CASES = {
    "legs": dict(system_init="legs", order=16),
    "separate": dict(system_init="legs", order=8, denominators=4, rank=2, dt_transform="exp"),
    "both": dict(system_init="legs", order=12, denominators=2, bidirectional=True),
    "fourier": dict(system_init="fourier", order=10, rank=2, dt_min=0.01, dt_max=0.01),
}


@pytest.mark.parametrize("case", S4_CASES)
@pytest.mark.parametrize("length", [50, 64])
def test_first_c_of_s4_is_wrapped(run, case, length):
    """What is stored is C (I - A^length) of a C that is drawn as S4D's, so from the same random numbers."""
    options = options_of(length, layer="s4", **S4_CASES[case])
    of = lambda o: layer_weights(run(o, {"x": torch.zeros(1, length, 4)}, {"do": "weights"}))
    weights = of(options)
    drawn = as_numpy(of({**options, "layer": "s4d", "system_init": "lin", "rank": 1})["c"])
    recovered = plain_c(weights, options)
    assert recovered.shape == drawn.shape == (2 if "both" in case else 1, 4, options["order"] // 2)
    # c is stored as float32, and I - A^length is well conditioned after so many samples.
    assert abs(recovered - drawn).max() < 1e-4
    assert abs(as_numpy(weights["c"]) - drawn).max() > 0.1


def test_constant_c_selects_the_constant_function(run):
    for length, way in ((40, "softplus"), (64, "exp")):
        options = options_of(length, layer="s4", system_init="fourier", order=12, initial_c="constant", dt_transform=way,
                             dt_min=0.02, dt_max=0.05)  # fmt: skip
        weights = layer_weights(run(options, {"x": torch.zeros(1, length, 4)}, {"do": "weights"}))
        expected = np.zeros((1, 4, 6))
        expected[..., 0] = 1 / math.sqrt(2)
        assert abs(plain_c(weights, options) - expected).max() < 1e-4
