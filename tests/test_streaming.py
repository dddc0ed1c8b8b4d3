"""Convolution, prefill + step, and step alone give the same answers; so do chunks and other truncation lengths."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from model_cases import BOTH, Case, assert_close, check_gradients, loss_gradient, slow_case  # noqa: E402

# Relative to the largest value of the tensor compared.
TOLERANCE = {"float32": 1e-4, "float64": 1e-9}

STREAMS = {
    "shared": dict(decoder="position"),
    "separate": dict(decoder="position", denominators=8, order=8),
    "tokens": dict(vocabulary=11, decoder="position", norm="layer", denominators=2),
    "postnorm": dict(decoder="position", prenorm=False),
    "odd_length": dict(decoder="position", length=31),
    "exact": dict(decoder="position", numerator="exact"),
    "montel": dict(decoder="position", constraint="montel"),
    "montel_paper": dict(decoder="position", constraint="montel_paper", denominators=4),
    "no_residual": dict(decoder="position", residual=False, norm="none", activation="identity", glu=False, layers=1),
    "last": dict(vocabulary=5, decoder="last", last=6),
    "pool": dict(vocabulary=5),
    "pair": dict(decoder="pair", batch=4),
    "order_beyond_length": dict(decoder="position", length=6, order=9),
}


def check_streaming(model_runner, case, type, *before):
    """Convolution over a prompt = prefill + step = step, whatever the split."""
    samples, o = case.x.shape[1], case.options
    splits = [[], [1], [samples - 1], [samples], [samples // 2], [2, 3], [0, 4]]
    ends = [samples] if o["decoder"] in ("position", "last") else [1, 2, samples // 2, samples - 1, samples]
    saved = model_runner(
        case.request(
            type,
            *before,
            *({"do": "forward", "save": f"forward.{end}", "samples": end} for end in ends),
            *({"do": "stream", "save": f"stream.{i}", "prefill": split} for i, split in enumerate(splits)),
            {"do": "poles", "save": "poles"},
        ),
        case.tensors(),
    )
    for i, split in enumerate(splits):
        for end in ends:
            wanted = saved[f"forward.{end}"]
            got = saved[f"stream.{i}"][:, :end]
            got = got[:, -1] if wanted.dim() == 2 else got[:, -wanted.shape[1] :]
            assert_close(got, wanted, TOLERANCE[type], f"prompts of {split}, {end} samples")
    return saved


@pytest.mark.parametrize("type", ["float32", "float64"])
@pytest.mark.parametrize("name", STREAMS)
def test_streaming(model_runner, name, type):
    check_streaming(model_runner, Case("stream_" + name, **STREAMS[name]), type)


@pytest.mark.parametrize("type", ["float32", "float64"])
@pytest.mark.parametrize("name", ["shared", "separate", "postnorm", "odd_length", "no_residual", "pool"])
def test_streaming_slow_poles(model_runner, name, type):
    case = slow_case("slow_" + name, **STREAMS[name])
    saved = check_streaming(model_runner, case, type)
    radius, length = saved["poles"][:, 0], case.options["length"]
    assert (radius**length >= 0.1).any() and (radius < 1).all()
    # Without the correction b is taken for the numerator of the recurrence, and it would show.
    case.model.eval()
    right = case.model(case.x)
    for block in case.model.blocks:
        block.layer.o = {**case.model.o, "numerator": "exact"}
    assert (case.model(case.x) - right).abs().max() > 0.01 * right.abs().max()


@pytest.mark.parametrize("type", ["float32", "float64"])
@pytest.mark.parametrize(
    "name, slow",
    [("shared", False), ("exact", False), ("montel", False), ("shared", True), ("separate", True), ("pool", True)],
)
def test_streaming_trained(model_runner, name, slow, type):
    case = (slow_case if slow else Case)("trained_" + name, **STREAMS[name])
    tensors = case.tensors()
    with torch.no_grad():
        tensors["target"] = 0.1 * torch.ones_like(case.model.eval()(case.x))
    train = {"do": "train", "steps": 10, "lr": 0.01, "weight_decay": 0, "ssm_lr": 1e-3, "ssm_weight_decay": 0}
    saved = model_runner(case.request(type, train, {"do": "weights"}), tensors)
    with torch.no_grad():
        for key, tensor in case.model.state_dict().items():
            assert (saved["weights." + key] != tensor).any(), f"{key} did not train"
            tensor.copy_(saved["weights." + key])
    saved = check_streaming(model_runner, case, type)
    if slow:
        assert (saved["poles"][:, 0] ** case.options["length"] >= 0.1).any()


@pytest.mark.parametrize("sizes", [[32], [8, 8, 8, 8], [1, 30, 1]])
def test_gradients_through_chunks(model_runner, sizes):
    """A sequence in chunks with the state carried on the tape has the gradients of the whole."""
    case = slow_case("chunks", decoder="position", norm="layer", denominators=2)
    tensors = case.tensors()
    output = case.model.train()(case.x)
    tensors["gradient"] = loss_gradient(output)
    (output * tensors["gradient"]).sum().backward()
    saved = model_runner(case.request("float64", {"do": "chunks", "sizes": sizes}), tensors)
    check_gradients(case, saved, TOLERANCE["float64"])


@pytest.mark.parametrize("length", [5, 24, 33, 64])
@pytest.mark.parametrize("options", [dict(), dict(denominators=4, **BOTH), dict(numerator="exact")])
def test_set_length(model_runner, length, options):
    """The kernel keeps its samples, though a numerator trained at another length must change for it."""
    case = slow_case("set_length", decoder="position", samples=min(length, 32), **options)
    saved = model_runner(
        case.request(
            "float64",
            {"do": "forward", "save": "before"},
            {"do": "set_length", "length": length},
            {"do": "forward", "save": "after"},
            {"do": "weights"},
        ),
        case.tensors(),
    )
    assert_close(saved["after"], saved["before"], 1e-9, f"length 32 -> {length}")
    b = case.model.state_dict()["blocks.0.layer.b"]
    moved = (saved["weights.blocks.0.layer.b"] - b).abs().max()
    assert (moved == 0) if options.get("numerator") == "exact" else (moved > 0.01)


def test_set_length_longer_goes_on(model_runner):
    """Past the old length the kernel continues as the recurrence always did."""
    case = slow_case("longer", decoder="position")
    case.x = Case.draw(np.random.default_rng(3), (2, 70, 1))
    before = {"do": "stream", "save": "before", "prefill": [10]}
    saved = check_streaming(model_runner, case, "float64", before, {"do": "set_length", "length": 70})
    assert_close(saved["forward.70"], saved["before"], TOLERANCE["float64"], "length 32 -> 70")


def test_unstable_layer_is_not_streamed(model_runner):
    case = Case("unstable", decoder="position", layers=1, order=2, length=256)
    with torch.no_grad():
        case.model.blocks[0].layer.a.copy_(torch.tensor([[-1.5, 0.0]]))
    # The wrapped kernel is bounded, so convolution goes well.
    model_runner(case.request("float64", {"do": "forward", "save": "y"}), case.tensors())
    with pytest.raises(RuntimeError, match=r"\[rtf::correct\]"):
        model_runner(case.request("float64", {"do": "stream", "save": "y", "prefill": [4]}), case.tensors())
