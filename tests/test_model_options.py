"""What a model is made of: parameter counts, initial weights, pole reports; and what it refuses."""

import pytest

torch = pytest.importorskip("torch")

import reference_model as reference  # noqa: E402
from model_cases import BOTH, Case, options_of  # noqa: E402

LRA = dict(layers=6, norm="batch", bidirectional=True, decoder="pool")
COUNTS = {
    815162: dict(vocabulary=18, channels=256, order=4, length=2048, prenorm=False, outputs=10, **LRA),
    3564298: dict(channels=512, order=64, length=1024, prenorm=False, outputs=10, **LRA),
    1190402: dict(channels=256, order=64, length=1024, denominators=256, outputs=2, **LRA),
    13380098: dict(channels=256, order=2048, length=16384, denominators=256, outputs=2, **LRA),
}


@pytest.mark.parametrize("count", COUNTS)
def test_parameter_counts(model_runner, count):
    request = {"options": options_of(**COUNTS[count]), "type": "float32", "commands": [{"do": "count"}]}
    assert model_runner(request)["count"] == count


def initial_weights(model_runner, **options):
    request = {"options": options_of(**options), "type": "float32", "commands": [{"do": "weights"}]}
    return {key[8:]: value for key, value in model_runner(request).items()}


def test_initial_weights(model_runner):
    options = dict(vocabulary=50, channels=40, order=16, init="xavier", initial_gain="release", decoder="pair")
    weights = initial_weights(model_runner, **options)
    names = {k: v for k, v in options.items() if k in reference.DEFAULTS}
    assert {k: v.shape for k, v in weights.items()} == {
        k: v.shape for k, v in reference.SequenceModel(**names).state_dict().items()
    }
    assert all(torch.equal(v, weights[k]) for k, v in initial_weights(model_runner, **options).items())
    other = initial_weights(model_runner, **{**options, "seed": 2})
    drawn = [k for k in weights if "norm" not in k]
    for i, key in enumerate(drawn):
        assert (weights[key] != other[key]).any(), f"{key} does not depend on the seed"
        for before in drawn[:i]:  # no two share numbers: layers, weights and biases
            n = min(weights[key].numel(), weights[before].numel())
            assert not torch.equal(weights[key].flatten()[:n], weights[before].flatten()[:n]), (key, before)

    embedding = weights["encoder.weight"]  # N(0, 1): five standard errors of mean and variance over 2,000 numbers
    assert abs(embedding.mean()) < 5 / 2000**0.5 and abs(embedding.var() - 1) < 5 * (2 / 2000) ** 0.5
    for key, fan_in in {"blocks.0.output": 40, "decoder.0": 160, "decoder.1": 40}.items():
        for leaf in ("weight", "bias"):
            scaled = weights[f"{key}.{leaf}"] * fan_in**0.5
            assert scaled.abs().max() <= 1 and scaled.abs().max() > 0.8 and scaled.min() < 0 < scaled.max()
    assert weights["blocks.0.layer.a"].abs().max() <= 16**-0.5
    assert all((v == v.new_ones(()) * ("weight" in k or "var" in k)).all() for k, v in weights.items() if "norm" in k)


def test_montel_initial_weights(model_runner):
    weights = initial_weights(model_runner, constraint="montel", denominators=4, **BOTH)
    sigma = weights["blocks.0.layer.sigma"]
    assert sigma.shape == (8,) and (sigma > 0).all() and (sigma < 1).all() and len(set(sigma.tolist())) == 8
    # Zero free numbers cannot be divided by their norm: the last one is 1, which gives a = 0.
    weights = initial_weights(model_runner, constraint="montel_paper", order=3)
    assert weights["blocks.0.layer.a"].tolist() == [[0, 0, 0, 1]]
    weights = initial_weights(model_runner, constraint="montel_paper", order=3, init="uniform_montel")
    assert weights["blocks.0.layer.a"].abs().sum() == pytest.approx(1, abs=1e-6)


def test_poles(model_runner):
    case = Case("poles", layers=3, order=2, denominators=4, length=16)
    pole = {0: [0.5, -0.25, 0.75, 0.1], 1: [0.5, 1.5, 1.0, 0.2], 2: [0.3, float("nan"), 0.2, 0.1]}
    with torch.no_grad():
        for i, poles in pole.items():
            # A = (1 - p w)(1 - w / 16)
            rows = [[-p - 1 / 16, p / 16] for p in poles]
            case.model.blocks[i].layer.a.copy_(torch.tensor(rows, dtype=torch.float64))
    commands = [{"do": "poles", "save": f"most.{most}", "most": most} for most in (0, 1, 2, 9)]
    saved = model_runner(case.request("float64", *commands), case.tensors())
    for all_of in ("most.0", "most.9"):
        assert saved[all_of][:2, 0].tolist() == pytest.approx([0.75, 1.5], rel=1e-11)
        assert saved[all_of][:, 2].tolist() == [0, 2, 1]
        # The points of the transform hold 1, where A = (1 - p) 15/16 is smallest for p in (0, 1].
        assert saved[all_of][:2, 1].tolist() == pytest.approx([0.25 * 15 / 16, 0], abs=1e-14)
        assert torch.isnan(saved[all_of][2, :2]).all()
    assert saved["most.1"][:, 0].tolist() == pytest.approx([0.5, 0.5, 0.3], rel=1e-11)
    assert saved["most.2"][:, 0].tolist() == pytest.approx([0.5, 0.5, 0.3], rel=1e-11)  # the first and the last


FORWARD = {"do": "forward", "save": "y"}
STREAM = {"do": "stream", "save": "y", "prefill": [4]}
BAD = {
    "too_long": (dict(), dict(x=torch.zeros(2, 33, 1)), FORWARD, "33 samples.*1 to 32"),
    "empty": (dict(), dict(x=torch.zeros(2, 0, 1)), FORWARD, "0 samples.*1 to 32"),
    "no_sequence": (dict(), dict(x=torch.zeros(0, 4, 1)), FORWARD, "at least one sequence"),
    "features": (dict(features=2), dict(x=torch.zeros(2, 9, 3)), FORWARD, r"\[2, 9, 3\].*\(batch, length, 2\)"),
    "dimensions": (dict(), dict(x=torch.zeros(2, 9)), FORWARD, r"\[2, 9\]"),
    "token": (dict(vocabulary=4), dict(x=torch.tensor([[0, 4]])), FORWARD, "token 4 .* vocabulary of 4"),
    "negative_token": (dict(vocabulary=4), dict(x=torch.tensor([[-2, 3]])), FORWARD, "token -2 .* vocabulary of 4"),
    "length": (dict(), dict(x=torch.zeros(1, 9, 1), lengths=torch.tensor([10])), FORWARD, "length of 10 .* 9"),
    "no_samples": (dict(), dict(x=torch.zeros(1, 9, 1), lengths=torch.tensor([0])), FORWARD, "length of 0 .* 9"),
    "lengths_count": (dict(), dict(x=torch.zeros(1, 9, 1), lengths=torch.tensor([9, 9])), FORWARD, "lengths"),
    "lengths_last": (
        dict(decoder="last"), dict(x=torch.zeros(1, 9, 1), lengths=torch.tensor([9])), FORWARD, "no lengths",
    ),
    "last_short": (dict(decoder="last", last=9), dict(x=torch.zeros(1, 8, 1)), FORWARD, "8 samples.*last 9"),
    "odd_pair": (dict(decoder="pair"), dict(x=torch.zeros(3, 8, 1)), FORWARD, "3 sequences.*even"),
    "stream_both": (BOTH, dict(x=torch.zeros(1, 8, 1)), STREAM, "bidirectional"),
    "stream_training": (dict(), dict(x=torch.zeros(1, 8, 1)), {**STREAM, "prefill": [], "train": True}, "training"),
    "prefill_training": (dict(), dict(x=torch.zeros(1, 8, 1)), {**STREAM, "train": True}, "make_training_state"),
    "chunks_kernel_dropout": (
        dict(kernel_dropout=0.1), dict(x=torch.zeros(1, 8, 1)), {"do": "chunks", "sizes": [8]}, "kernel dropout",
    ),
    "streams": (dict(), dict(x=torch.zeros(2, 8, 1)), {**STREAM, "streams": 3}, "batch of 2 .* 3 streams"),
    "denominators": (dict(denominators=3), {}, FORWARD, "3 denominators do not divide 8 channels"),
    "channels": (dict(channels=0), {}, FORWARD, "channels is 0"),
    "order": (dict(order=-1), {}, FORWARD, "order is -1"),
    "no_length": (dict(length=0), {}, FORWARD, "length is 0"),
    "outputs": (dict(outputs=0), {}, FORWARD, "outputs is 0"),
    "last": (dict(decoder="last", last=33), {}, FORWARD, "last is 33"),
    "dropout": (dict(dropout=1.0), {}, FORWARD, "dropout of 1"),
    "kernel_dropout": (dict(kernel_dropout=-0.5), {}, FORWARD, "kernel_dropout is -0.5"),
    "set_length": (dict(), {}, {"do": "set_length", "length": 0}, "length is 0"),
    "set_length_last": (dict(decoder="last", last=9), {}, {"do": "set_length", "length": 8}, "last is 9.*length 8"),
    "batch_norm": (dict(norm="batch"), dict(x=torch.zeros(1, 1, 1)), {"do": "backward"}, "batch norm .* 1 positions"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input(model_runner, name):
    options, tensors, command, message = BAD[name]
    request = {"options": options_of(**options), "type": "float32", "commands": [command]}
    with pytest.raises(RuntimeError, match=message) as caught:
        model_runner(request, tensors)
    assert str(caught.value).startswith("[rtf::"), caught.value
