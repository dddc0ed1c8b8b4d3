"""The C++ model against reference_model.py: values, gradients, dropout and training."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import reference_model as reference  # noqa: E402
from model_cases import BOTH, Case, assert_close, check_gradients, loss_gradient  # noqa: E402

# Relative to the largest value of the tensor compared.
TOLERANCE = {"float32": 1e-5, "float64": 1e-10}

CASES = {
    # ListOps, Text and Image in small: bidirectional, padded, post- and prenorm
    "postnorm_padded": dict(vocabulary=9, prenorm=False, lengths=[32, 1, 17], **BOTH),
    "prenorm_padded": dict(vocabulary=9, lengths=[5, 32, 31], **BOTH),
    "causal_padded": dict(vocabulary=9, lengths=[20, 3, 27], samples=27),
    "pair": dict(vocabulary=5, decoder="pair", batch=4, lengths=[9, 30, 32, 2], outputs=2, **BOTH),
    "pair_whole": dict(decoder="pair", batch=2, norm="layer"),
    "layer_norm": dict(norm="layer"),
    "layer_norm_post": dict(norm="layer", prenorm=False, lengths=[7, 32, 12], **BOTH),
    "no_norm": dict(norm="none"),
    "no_norm_post": dict(norm="none", prenorm=False),
    "no_residual": dict(residual=False, norm="none", activation="identity", glu=False, layers=1, decoder="position"),
    "last": dict(vocabulary=7, decoder="last", last=5, norm="layer"),
    "position": dict(decoder="position", features=2),
    "position_padded": dict(decoder="position", lengths=[6, 32, 1]),
    "separate_denominators": dict(denominators=8, **BOTH),
    "grouped_denominators": dict(denominators=4),
    "odd_length": dict(length=33, lengths=[33, 8, 21], **BOTH),
    "odd_samples": dict(length=33, samples=19, **BOTH),
    "short_input": dict(samples=7, denominators=2),
    "one_sample": dict(samples=1, norm="layer", **BOTH),
    "order_beyond_length": dict(length=5, order=9),
    "exact": dict(numerator="exact"),
    "exact_both": dict(numerator="exact", denominators=8, length=21, lengths=[21, 1, 16], **BOTH),
    "montel": dict(constraint="montel", denominators=2, **BOTH),
    "montel_paper": dict(constraint="montel_paper"),
    # Pooling after batch norm leaves six layers' gradients so small that float32 could not show 1e-5 of them.
    "six_layers": dict(layers=6, channels=12, order=6, length=50, decoder="position", **BOTH),
    "long": dict(batch=2, layers=4, channels=32, order=64, length=1024, norm="layer", decoder="last", last=512),
    "one_channel": dict(channels=1, norm="batch", decoder="position"),
}


def compare(model_runner, case, type, **backward):
    """Evaluation, then a training pass with its gradients and what batch norm keeps of it."""
    model, tensors = case.model, case.tensors()
    model.eval()
    evaluated = model(case.x, case.lengths)
    model.train()
    output = model(case.x, case.lengths)
    tensors["gradient"] = loss_gradient(output).float().double()
    (output * tensors["gradient"]).sum().backward()

    saved = model_runner(
        case.request(type, {"do": "forward", "save": "evaluated"}, {"do": "backward", **backward}), tensors
    )
    assert_close(saved["evaluated"], evaluated, TOLERANCE[type], "output in evaluation mode")
    assert_close(saved["output"], output, TOLERANCE[type], "output in training mode")
    check_gradients(case, saved, TOLERANCE[type])
    for key, tensor in model.state_dict().items():
        if "running" in key:
            assert_close(saved["weights." + key], tensor, TOLERANCE[type], key)


@pytest.mark.parametrize("type", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(model_runner, name, type):
    compare(model_runner, Case(name, **CASES[name]), type)


class Masks:
    """The C++ model's dropout masks, read from the operator; whatever they are, they must scale as dropout does."""

    def __init__(self, ops, seed, step=0):
        self.ops, self.seed, self.step = ops, seed, step
        self.drawn = {}

    def __call__(self, x, p, layer, tied):
        mask = self.ops.dropout(torch.ones_like(x), p, torch.tensor([self.seed, self.step]), layer, tied).detach()
        assert ((mask == 0) | ((mask * (1 - p) - 1).abs() < 1e-12)).all()
        if tied:
            assert (mask == mask[:, :1]).all()
        self.drawn[layer] = mask
        return x * mask


@pytest.mark.parametrize("type", ["float32", "float64"])
@pytest.mark.parametrize("tied", [True, False])
def test_dropout(model_runner, torch_ops, tied, type):
    drop = Masks(torch_ops, seed=77, step=5)
    options = dict(dropout=0.3, inner_dropout=0.4, kernel_dropout=0.2, tie_dropout=tied, tie_inner_dropout=not tied)
    case = Case("dropout", drop=drop, vocabulary=9, lengths=[4, 32, 11], **options, **BOTH)
    compare(model_runner, case, type, seed=77, step=5)
    assert sorted(drop.drawn) == [0, 1, 2, 3, 4, 5]  # every place of two layers, each with numbers of its own
    for site in range(3):
        assert (drop.drawn[site] != drop.drawn[3 + site]).any()


def test_dropout_steps_differ(model_runner):
    case = Case("dropout_steps", dropout=0.5, inner_dropout=0.5)
    tensors = {**case.tensors(), "gradient": torch.ones(3, 3)}

    def output(seed, step):
        return model_runner(case.request("float64", {"do": "backward", "seed": seed, "step": step}), tensors)["output"]

    assert torch.equal(output(1, 2), output(1, 2))
    assert not torch.equal(output(1, 2), output(1, 3))
    assert not torch.equal(output(1, 2), output(2, 2))


# The groups of section B.1: a, b and h0 have their own rates; the Montel scalar, norms and biases have the others.
RATES = dict(lr=0.004, weight_decay=0.05, ssm_lr=0.001, ssm_weight_decay=0.01)
TRAINING = {
    # Batch norm takes off what a bias of the encoder adds, in every block and after the last one: zero gradient.
    "prenorm": (dict(decoder="position"), {"encoder.bias"}),
    "postnorm": (dict(vocabulary=9, prenorm=False, lengths=[32, 1, 17], **BOTH), set()),
    "montel": (dict(constraint="montel", norm="layer", denominators=4), set()),
    "exact": (dict(numerator="exact", norm="none", length=15, denominators=2), set()),
    "dropout": (dict(vocabulary=9, dropout=0.2, inner_dropout=0.1, norm="layer", **BOTH), set()),
}


@pytest.mark.parametrize("name", TRAINING)
def test_twenty_steps_of_adamw(model_runner, torch_ops, name):
    options, zero_gradient = TRAINING[name]
    drop = Masks(torch_ops, seed=0)
    case = Case("train_" + name, drop=drop, **options)
    model, tensors, parameters = case.model, case.tensors(), dict(case.model.named_parameters())

    def groups(key):
        ssm = key.split(".")[-1] in ("a", "b", "h0")
        return (RATES["ssm_lr"], RATES["ssm_weight_decay"]) if ssm else (RATES["lr"], RATES["weight_decay"])

    model.train()
    target = tensors["target"] = Case.draw(np.random.default_rng(0), model(case.x, case.lengths).shape)
    model.load_state_dict({key[8:]: value for key, value in tensors.items() if key.startswith("weights.")})
    states = {}
    for drop.step in range(20):
        reference.loss(model(case.x, case.lengths), target).backward()
        for key in zero_gradient:
            assert parameters[key].grad.abs().max() < 1e-14  # a sum of about 100 terms below 0.1
        reference.adamw_step(parameters, states, groups)

    saved = model_runner(case.request("float64", {"do": "train", "steps": 20, **RATES}, {"do": "weights"}), tensors)
    for key, value in parameters.items():
        if key in zero_gradient:
            continue
        assert (value - tensors["weights." + key]).abs().max() > 1e-3, f"{key} did not train"
        assert_close(saved["weights." + key], value, 1e-7, key)
