"""The C++ model against reference_model.py: values, gradients, dropout and training."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import reference_model as reference  # noqa: E402
from model_cases import BOTH, CASES, Case, Masks, assert_close, compare  # noqa: E402

@pytest.mark.parametrize("type", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(model_runner, name, type):
    compare(model_runner, Case(name, **CASES[name]), type)


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
