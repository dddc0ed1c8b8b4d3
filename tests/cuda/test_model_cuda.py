"""SequenceModel on the GPU against reference_model.py in double: every case of the CPU's tests, then bfloat16, streams
and dropout. RTF_MODEL_RUNNER names the program of model_runner.cpp."""

import pytest

torch = pytest.importorskip("torch")

from model_cases import BOTH, CASES, Case, Masks, assert_close, compare, loss_gradient  # noqa: E402


@pytest.mark.parametrize("type", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(model_runner, name, type):
    compare(model_runner, Case(name, **CASES[name]), type, device="cuda")


@pytest.mark.parametrize("type", ["float32", "float64"])
@pytest.mark.parametrize("order", [4, 16, 40, 70])
@pytest.mark.parametrize("lengths", [None, [100, 1, 37]])
def test_exact_layers(model_runner, lengths, order, type):
    """A causal layer of a small order is filtered in chunks, of a larger one convolved: both are the same layer."""
    options = dict(numerator="exact", order=order, length=100, denominators=4, lengths=lengths)
    compare(model_runner, Case(f"exact_{order}", **options), type, device="cuda")


@pytest.mark.parametrize("tied", [True, False])
def test_dropout(model_runner, cuda_ops, tied):
    """The masks of the CPU's operator are the GPU model's."""
    drop = Masks(cuda_ops, seed=77, step=5)
    options = dict(dropout=0.3, inner_dropout=0.4, kernel_dropout=0.2, tie_dropout=tied, tie_inner_dropout=not tied)
    case = Case("dropout", drop=drop, vocabulary=9, lengths=[4, 32, 11], **options, **BOTH)
    compare(model_runner, case, "float32", device="cuda", seed=77, step=5)


BFLOAT16 = {
    "prenorm": dict(vocabulary=9, norm="layer", channels=16, decoder="position"),
    "batch": dict(vocabulary=9, channels=16, decoder="position", **BOTH),
    "postnorm": dict(vocabulary=9, prenorm=False, channels=16, decoder="position", lengths=[32, 1, 17], **BOTH),
    "no_glu": dict(vocabulary=9, glu=False, norm="layer", decoder="position"),
    "no_residual": dict(residual=False, norm="none", layers=1, decoder="position"),
}


@pytest.mark.parametrize("name", BFLOAT16)
def test_bfloat16(model_runner, name):
    """A layer rounds five times to 2^-9 of a value and two layers add up in the worst direction: 2 * 5 / 512 = 2e-2.
    The gradients pass through as many roundings again, and are sums whose terms cancel in part: four times that."""
    case = Case("bfloat16_" + name, **BFLOAT16[name])
    case.options["bfloat16"] = True
    tensors = case.tensors()
    output = case.model.train()(case.x, case.lengths)
    tensors["gradient"] = loss_gradient(output).float().double()
    (output * tensors["gradient"]).sum().backward()
    saved = model_runner({**case.request("float32", {"do": "backward"}), "device": "cuda"}, tensors)
    assert_close(saved["output"], output, 2e-2, "output")
    output = output.detach()
    assert (saved["output"] - output).abs().max() > 1e-5 * output.abs().max(), "nothing was rounded to bfloat16"
    for key, parameter in case.model.named_parameters():
        if key.endswith("bias"):  # sums that cancel behind a norm
            continue
        assert_close(saved["gradient." + key], parameter.grad, 8e-2, f"gradient of {key}")


@pytest.mark.parametrize("type, bound", [("float32", 1e-4), ("float64", 1e-9)])
@pytest.mark.parametrize("name", ["position", "tokens", "pool", "pair"])
def test_streams(model_runner, name, type, bound):
    """Prefill and step on the GPU answer what they answer on the CPU."""
    options = {
        "position": dict(decoder="position", denominators=8),
        "tokens": dict(vocabulary=11, decoder="position", norm="layer"),
        "pool": dict(vocabulary=5),
        "pair": dict(decoder="pair", batch=4),
    }[name]
    case = Case("stream_cuda_" + name, **options)
    command = {"do": "stream", "save": "stream", "prefill": [5, 9]}
    got = model_runner({**case.request(type, command), "device": "cuda"}, case.tensors())["stream"]
    assert_close(got, model_runner(case.request("float64", command), case.tensors())["stream"], bound, "stream")
