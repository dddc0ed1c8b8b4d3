"""S4, S4D, S5 and SpaceTime against dense state spaces: kernels, recurrences, gradients, first values, memory."""

import math
import os
import subprocess
import sys
import zlib

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import baseline_oracle as oracle  # noqa: E402
import reference_model  # noqa: E402

# Relative to the largest value: eps times the length times what n sums and matrix powers lose.
TOLERANCE = 1e-8

# A model that is one layer: identities around it, no norm, no gate.
BARE = dict(layers=1, residual=False, norm="none", activation="identity", glu=False, decoder="position")

KINDS = {
    "s4d_lin": dict(layer="s4d", system_init="lin", order=16),
    "s4d_inv": dict(layer="s4d", system_init="inv", order=8, discretization="bilinear", denominators=4),
    "s4d_legs": dict(layer="s4d", system_init="legs", order=12, denominators=2, dt_transform="exp"),
    "s4d_both": dict(layer="s4d", system_init="lin", order=6, bidirectional=True),
    "s4_legs": dict(layer="s4", system_init="legs", order=16),
    "s4_legs_separate": dict(layer="s4", system_init="legs", order=8, denominators=4, rank=2, dt_transform="exp"),
    "s4_fourier": dict(layer="s4", system_init="fourier", order=10, rank=2, dt_min=0.01, dt_max=0.01),
    "s4_equal": dict(layer="s4", system_init="legs", order=6, denominators=4, dt_min=0.02, dt_max=0.02),
    "s4_both": dict(layer="s4", system_init="legs", order=6, bidirectional=True, denominators=2),
    "s5": dict(layer="s5", system_init="trunc_standard_normal", order=12, blocks=3),
    "s5_clip": dict(layer="s5", system_init="complex_normal", order=4, clip=True, skip=False),
    "s5_both": dict(layer="s5", system_init="lecun_normal", order=8, bidirectional=True),
    "spacetime": dict(layer="spacetime", system_init="normal", order=8),
    "spacetime_separate": dict(layer="spacetime", system_init="normal", order=5, denominators=4, skip=False),
    "spacetime_both": dict(layer="spacetime", system_init="normal", order=4, denominators=2, bidirectional=True),
}


def options_of(length, channels=4, **more):
    options = dict(reference_model.DEFAULTS, init="zero", initial_gain="paper", seed=3, **BARE)
    options.update(channels=channels, features=channels, outputs=channels, length=length)
    options.update(more)
    return options


def bare_weights(channels):
    ends = ("encoder", "decoder")
    weights = {f"weights.{end}.weight": torch.eye(channels, dtype=torch.float64) for end in ends}
    return weights | {f"weights.{end}.bias": torch.zeros(channels, dtype=torch.float64) for end in ends}


@pytest.fixture
def run(model_runner):
    """run(options, tensors, *commands): what the commands save, computed in float64."""

    def go(options, tensors, *commands):
        return model_runner({"options": options, "type": "float64", "commands": list(commands)}, tensors)

    return go


def layer_weights(saved):
    prefix = "weights.blocks.0.layer."
    return {name[len(prefix) :]: x.clone() for name, x in saved.items() if name.startswith(prefix)}


def randomized(weights, rng):
    """Somewhere else than at the first values, with the poles inside the circle."""
    for name, x in weights.items():
        noise = torch.tensor(rng.standard_normal(tuple(x.shape)))
        x += (0.3 if name in ("a_real", "dt") else 0.2) * noise
        if name == "a_real" and x.min() < -1 and "p" not in weights and x.ndim == 1:
            x.clamp_(max=-0.05)  # S5 stores the real parts themselves
    return weights


def relative(actual, expected):
    return ((actual - expected).abs().max() / expected.abs().max()).item()


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("length", [1, 2, 7, 64, 97])
def test_layer_is_its_dense_state_space(run, name, length):
    """Values and every gradient, at the first values and away from them, over a whole and a shorter sequence."""
    options = options_of(length, **KINDS[name])
    rng = np.random.default_rng(zlib.crc32(f"{name} {length}".encode()))
    u = torch.tensor(rng.standard_normal((2, length, 4)))
    gradient = torch.tensor(rng.standard_normal((2, length, 4)))
    first = layer_weights(run(options, {"x": u}, {"do": "weights"}))
    for weights in (first, randomized({k: v.clone() for k, v in first.items()}, rng)):
        inputs = {"x": u, "gradient": gradient, **bare_weights(4)}
        inputs |= {f"weights.blocks.0.layer.{k}": v for k, v in weights.items()}
        part = max(1, length - 3)
        saved = run(options, inputs, {"do": "backward"}, {"do": "forward", "save": "part", "samples": part})
        leaves = {k: v.clone().requires_grad_() for k, v in weights.items()}
        expected = oracle.layer(u, leaves, options)
        assert relative(saved["output"], expected.detach()) < TOLERANCE
        assert relative(saved["part"], oracle.layer(u[:, :part], leaves, options).detach()) < TOLERANCE
        (expected * gradient).sum().backward()
        for key, leaf in leaves.items():
            wanted = leaf.grad if leaf.grad is not None else torch.zeros_like(leaf)
            got = saved[f"gradient.blocks.0.layer.{key}"]
            # A second vector of zeros has a zero gradient; what is left of it is rounding.
            assert (got - wanted).abs().max() < TOLERANCE * (wanted.abs().max() + 1), key


@pytest.mark.parametrize(
    "options, length",
    [
        (dict(layer="s4d", system_init="lin", order=64), 1999),
        (dict(layer="s4", system_init="legs", order=64), 1999),
        (dict(layer="s4", system_init="fourier", order=64, rank=2), 1000),
        (dict(layer="spacetime", system_init="normal", order=64), 1999),
    ],
)
def test_long_kernels(run, options, length):
    """Order 64 up to 2,000 samples: the answer to a unit impulse, against matrix powers."""
    o = options_of(length, channels=2, **options)
    impulse = torch.zeros(1, length, 2, dtype=torch.float64)
    impulse[:, 0] = 1
    saved = run(o, {"x": impulse, **bare_weights(2)}, {"do": "forward", "save": "y"}, {"do": "weights"})
    k = oracle.kernels(layer_weights(saved), o, length)
    assert relative(saved["y"][0].T, k[0]) < TOLERANCE


@pytest.mark.parametrize("name", [name for name in KINDS if "both" not in name])
def test_recurrence_is_the_convolution(run, name):
    """Steps, prompts of any split and then steps, and gradients through chunks."""
    length = 23
    options = options_of(length, **KINDS[name])
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    x = torch.tensor(rng.standard_normal((3, length, 4)))
    inputs = {"x": x, "gradient": torch.tensor(rng.standard_normal((3, length, 4))), **bare_weights(4)}
    splits = [[], [length], [1, 7], [0, 22]]
    saved = run(
        options, inputs, {"do": "forward", "save": "y"},
        *({"do": "stream", "save": f"stream.{i}", "prefill": split} for i, split in enumerate(splits)),
        {"do": "backward"},
    )  # fmt: skip
    for i, split in enumerate(splits):
        assert relative(saved[f"stream.{i}"], saved["y"]) < TOLERANCE, split
    chunked = run(options, inputs, {"do": "chunks", "sizes": [5, 1, 17]})
    for key, value in chunked.items():
        assert (value - saved[key]).abs().max() < TOLERANCE * (saved[key].abs().max() + 1), key


def test_long_prompts_cross_chunks(run):
    """Scans are cut into chunks of 256 samples."""
    for kind in ("s4d_lin", "s5"):
        options = options_of(601, **KINDS[kind])
        x = torch.tensor(np.random.default_rng(1).standard_normal((2, 601, 4)))
        gradient = torch.ones(2, 601, 4)
        inputs = {"x": x, "gradient": gradient, **bare_weights(4)}
        saved = run(options, inputs, {"do": "backward"}, {"do": "stream", "save": "s", "prefill": [300, 299]}, {"do": "weights"})  # fmt: skip
        weights = layer_weights(saved)
        leaves = {k: v.clone().requires_grad_() for k, v in weights.items()}
        expected = oracle.layer(x, leaves, options)
        (expected * gradient).sum().backward()
        assert relative(saved["output"], expected.detach()) < TOLERANCE
        assert relative(saved["s"], expected.detach()) < TOLERANCE
        for key, leaf in leaves.items():
            assert relative(saved[f"gradient.blocks.0.layer.{key}"], leaf.grad) < TOLERANCE, key


@pytest.mark.parametrize("name", KINDS)
def test_lengths_mask_the_input(run, name):
    options = options_of(11, **KINDS[name])
    x = torch.tensor(np.random.default_rng(2).standard_normal((3, 11, 4)))
    lengths = torch.tensor([11, 4, 1])
    inputs = {"x": x, "lengths": lengths, **bare_weights(4)}
    saved = run(options, inputs, {"do": "forward", "save": "y"}, {"do": "weights"})
    masked = x * (torch.arange(11)[None, :, None] < lengths[:, None, None])
    assert relative(saved["y"], oracle.layer(masked, layer_weights(saved), options)) < TOLERANCE


@pytest.mark.parametrize("layer", ["s4", "s4d", "s5", "spacetime"])
def test_another_length_is_the_same_system(run, layer):
    name = next(key for key in KINDS if KINDS[key]["layer"] == layer)
    options = options_of(16, **KINDS[name])
    x = torch.tensor(np.random.default_rng(4).standard_normal((2, 16, 4)))
    saved = run(options, {"x": x, **bare_weights(4)}, {"do": "forward", "save": "before"}, {"do": "set_length", "length": 40}, {"do": "forward", "save": "after"})  # fmt: skip
    assert relative(saved["after"], saved["before"]) < TOLERANCE


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
    # B in the eigenbasis keeps its length: half of the sum of 2i + 1.
    assert math.isclose(legs["b"].square().sum(), n * n / 2, rel_tol=1e-5)
    assert torch.allclose(legs["b"], math.sqrt(2) * legs["p"][0], rtol=1e-5, atol=1e-6)
    fourier = at(layer="s4", system_init="fourier", order=n, rank=2, initial_c="constant", dt_transform="exp", dt_min=0.004, dt_max=0.004)  # fmt: skip
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


@pytest.mark.parametrize("glu", ["half_glu1", "half_glu2"])
def test_half_gates(run, glu):
    options = options_of(9, glu=glu, activation="gelu", **KINDS["s5"])
    rng = np.random.default_rng(5)
    x, w, bias = (torch.tensor(rng.standard_normal(shape)) for shape in ((2, 9, 4), (4, 4), (4,)))
    more = {"weights.blocks.0.output.weight": w, "weights.blocks.0.output.bias": bias}
    saved = run(options, {"x": x, **bare_weights(4), **more}, {"do": "forward", "save": "y"}, {"do": "weights"})
    y = oracle.layer(x, layer_weights(saved), options)
    g = torch.nn.functional.gelu(y)
    gate = torch.sigmoid(g @ w.T + bias)
    assert relative(saved["y"], (g if glu == "half_glu1" else y) * gate) < TOLERANCE


# --- the operators -------------------------------------------------------------------------------------------------


def draws(seed, *shape):
    return torch.tensor(np.random.default_rng([7, seed, *shape]).standard_normal(shape))


@pytest.mark.parametrize("rows, pairs, length", [(1, 1, 1), (3, 2, 7), (2, 32, 2049), (2, 3, 16384)])
def test_vandermonde_values(torch_ops, rows, pairs, length):
    """Against powers in 64 bits of mantissa; relative to the sum of the absolute values, where rounding happens."""
    c = torch.complex(draws(0, rows, pairs), draws(1, rows, pairs))
    log_z = torch.complex(-draws(2, rows, pairs).abs() / length, 3 * draws(3, rows, pairs))
    t = np.arange(length, dtype=np.longdouble)
    exact = 2 * (c.numpy()[..., None] * np.exp(log_z.numpy().astype(np.clongdouble)[..., None] * t)).real.sum(1)
    scale = 2 * c.abs().sum(1).max()
    for type, bound in ((torch.complex128, 1e-10), (torch.complex64, 1e-6)):
        k = torch_ops.vandermonde(c.to(type), log_z, length)
        assert k.shape == (rows, length)
        assert np.abs(k.numpy() - exact).max() < bound * scale


@pytest.mark.parametrize("rows, sums, pairs, points", [(1, 1, 1, 1), (2, 4, 3, 300), (3, 9, 32, 257), (1, 16, 2, 5)])
def test_cauchy_values(torch_ops, rows, sums, pairs, points):
    v = torch.complex(draws(0, rows, sums, pairs), draws(1, rows, sums, pairs))
    poles = torch.complex(-draws(2, rows, pairs).abs() - 0.01, 5 * draws(3, rows, pairs))
    s = 8 * draws(4, points)
    at = 1j * s
    terms = v[..., None] / (at - poles[:, None, :, None]), v.conj()[..., None] / (at - poles.conj()[:, None, :, None])
    exact, scale = sum(terms).sum(2), sum(x.abs() for x in terms).sum(2).max()
    for type, bound in ((torch.complex128, 1e-12), (torch.complex64, 1e-6)):
        assert (torch_ops.cauchy(v.to(type), poles, s) - exact).abs().max() < bound * scale


def test_gradients_of_the_operators(torch_ops):
    for rows, pairs, length in [(1, 1, 1), (2, 3, 9), (1, 2, 40)]:
        c = torch.complex(draws(0, rows, pairs), draws(1, rows, pairs)).requires_grad_()
        log_z = torch.complex(-draws(2, rows, pairs).abs(), draws(3, rows, pairs)).requires_grad_()
        assert torch.autograd.gradcheck(lambda x, y: torch_ops.vandermonde(x, y, length), (c, log_z))
        v = torch.complex(draws(4, rows, 3, pairs), draws(5, rows, 3, pairs)).requires_grad_()
        poles = torch.complex(-draws(6, rows, pairs).abs() - 0.5, draws(7, rows, pairs)).requires_grad_()
        s = draws(8, length)
        assert torch.autograd.gradcheck(lambda x, y: torch_ops.cauchy(x, y, s), (v, poles))
        torch.library.opcheck(torch_ops.vandermonde.default, (c, log_z, length))
        torch.library.opcheck(torch_ops.cauchy.default, (v, poles, s))


def test_the_same_bits_for_every_number_of_threads(torch_ops):
    c, log_z = torch.complex(draws(0, 5, 7), draws(1, 5, 7)), torch.complex(-draws(2, 5, 7).abs() / 999, draws(3, 5, 7))
    s = draws(4, 700)
    answers = []
    before = torch.get_num_threads()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        leaves = [c.clone().requires_grad_(), log_z.clone().requires_grad_()]
        k = torch_ops.vandermonde(*leaves, 5000)
        y = torch_ops.cauchy(leaves[0][:, None], leaves[1], s)
        (k.sum() + y.abs().sum()).backward()
        answers.append([k, y, *(x.grad for x in leaves)])
    torch.set_num_threads(before)
    assert all(torch.equal(x, y) for x, y in zip(*answers))


def test_refusals_of_the_operators(torch_ops):
    c, z = torch.zeros(2, 3, dtype=torch.complex128), torch.zeros(2, 3)
    with pytest.raises(ValueError, match=r"\[rtf::vandermonde\] c and log_z are .*complex tensors"):
        torch_ops.vandermonde(c, z, 4)
    with pytest.raises(ValueError, match=r"\[rtf::vandermonde\] length is 0"):
        torch_ops.vandermonde(c, c, 0)
    with pytest.raises(ValueError, match=r"\[rtf::cauchy\] v, poles and points"):
        torch_ops.cauchy(c, c, torch.zeros(4))
    with pytest.raises(ValueError, match=r"\[rtf::cauchy\] 17 sums; 1 to 16 are possible"):
        torch_ops.cauchy(torch.zeros(1, 17, 3, dtype=torch.complex64), c[:1], torch.ones(4))


MEMORY = """
import resource, sys, torch
torch.ops.load_library(sys.argv[1])
rows, pairs, length = 32, 64, 16384
c = torch.randn(rows, pairs, dtype=torch.complex128, requires_grad=True)
z = torch.complex(-torch.rand(rows, pairs), torch.randn(rows, pairs)).to(torch.complex128).requires_grad_()
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
torch.ops.rtf.vandermonde(c, z, 64).sum().backward()
torch.ops.rtf.cauchy(c[:, None], z, torch.ones(64).double()).abs().sum().backward()
before = peak()
torch.ops.rtf.vandermonde(c, z, length).sum().backward()
torch.ops.rtf.cauchy(c[:, None], z, torch.linspace(0, 9, length // 2).double()).abs().sum().backward()
print(peak() - before, rows * pairs * length * 16, rows * length * 16)
"""


def test_memory_does_not_grow_as_order_times_length(torch_ops):
    """A (pairs x length) matrix for every row would be 512 MiB; results and their gradients are a few times 8 MiB."""
    if os.environ.get("RTF_SANITIZED"):
        pytest.skip("a sanitizer takes memory of its own")
    done = subprocess.run([sys.executable, "-c", MEMORY, os.environ["RTF_TORCH_LIBRARY"]], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    grown, matrix, results = map(int, done.stdout.split())
    assert grown < 16 * results < matrix
