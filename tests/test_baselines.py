"""S4, S4D, S5 and SpaceTime against dense state spaces: kernels, recurrences, gradients, dropout."""

import zlib

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import baseline_oracle as oracle  # noqa: E402
from baseline_cases import bare_weights, layer_weights, options_of, run  # noqa: E402, F401
from model_cases import Masks  # noqa: E402

# Relative to the largest value: eps times the length times what n sums and matrix powers lose.
TOLERANCE = 1e-8

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


def randomized(weights, rng):
    """Somewhere else than at the first values, with the poles inside the circle."""
    for name, x in weights.items():
        noise = torch.tensor(rng.standard_normal(tuple(x.shape)))
        x += (0.3 if name in ("a_real", "dt") else 0.2) * noise
        if name == "a_real" and x.min() < -1 and "p" not in weights and x.ndim == 1:
            x.clamp_(max=-0.05)  # S5 stores the real parts themselves
    return weights


def gradient_tolerance(weights, options):
    """The sums of S4 are 1 / |pole| times what their differences leave, and the slopes of these sums 1 / |pole|^2 times:
    of poles 1e-4 from the axis (Fourier's first values) ten roundings are 1e-7 of a gradient."""
    if options["layer"] != "s4":
        return TOLERANCE
    nearest = (torch.exp(2 * weights["a_real"]) + weights["a_imag"] ** 2).min().item()
    return max(TOLERANCE, 10 * 2**-52 / nearest)


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
            assert (got - wanted).abs().max() < gradient_tolerance(weights, options) * (wanted.abs().max() + 1), key


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


@pytest.mark.parametrize("layer", ["s4", "s4d"])
@pytest.mark.parametrize("glu", [False, "half_glu1", "half_glu2"])
def test_outputs_are_dropped_ahead_of_the_activation(run, torch_ops, layer, glu):
    """output_dropout: one mask for all samples of a sequence, then GELU and the other dropout; values and gradients."""
    options = options_of(9, activation="gelu", glu=glu, output_dropout=0.4, inner_dropout=0.3, layers=1,
                         **KINDS["s4_legs" if layer == "s4" else "s4d_lin"])  # fmt: skip
    rng = np.random.default_rng(8)
    x, gradient, w = (torch.tensor(rng.standard_normal(shape)) for shape in ((5, 9, 4), (5, 9, 4), (4, 4)))
    inputs = {"x": x, "gradient": gradient, **bare_weights(4)}
    if glu:
        inputs |= {"weights.blocks.0.output.weight": w, "weights.blocks.0.output.bias": torch.zeros(4)}
    saved = run(options, inputs, {"do": "backward", "seed": 21, "step": 3}, {"do": "forward", "save": "evaluated"})
    masks = Masks(torch_ops, seed=21, step=3)
    leaves = {key: value.requires_grad_() for key, value in layer_weights(saved).items()}

    def block(drop):
        y = oracle.layer(x, leaves, options)
        y = drop(y, 0.4, 0, True)
        g = drop(torch.nn.functional.gelu(y), 0.3, 1, False)
        return (g if glu == "half_glu1" else y) * torch.sigmoid(g @ w.T) if glu else g

    expected = block(masks)
    assert (masks.drawn[0] == 0).any() and not (masks.drawn[0] == 0).all()
    assert relative(saved["output"], expected.detach()) < TOLERANCE
    (expected * gradient).sum().backward()
    for key, leaf in leaves.items():
        assert relative(saved[f"gradient.blocks.0.layer.{key}"], leaf.grad) < TOLERANCE, key
    # Nothing is dropped in evaluation mode.
    assert relative(saved["evaluated"], block(lambda y, *_: y).detach()) < TOLERANCE
