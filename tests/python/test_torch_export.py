"""rtf.export: the file that the command and the C++ model make of the same weights, byte for byte; what it refuses."""

import contextlib
import copy
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import rtf
from torch_half import need_torch_half

torch = need_torch_half()

import torch.nn.utils.prune  # noqa: E402

from build_tree import model_runner  # noqa: E402, F401
from model_cases import Case  # noqa: E402

MODELS = {
    "numbers": dict(decoder="position", features=2, layers=2, denominators=3, channels=6),
    "tokens": dict(vocabulary=7, decoder="last", last=3, layers=2, norm="layer"),
    "pool": dict(decoder="pool", prenorm=False, layers=2, glu=False),
    "pair": dict(vocabulary=5, decoder="pair", norm="none", activation="identity"),
    "no_residual": dict(decoder="position", residual=False),
    "both": dict(decoder="pool", bidirectional=True, layers=2, constraint="montel", denominators=2, channels=4),
    "exact": dict(decoder="position", numerator="exact", constraint="montel_paper"),
    "order_0": dict(decoder="position", order=0),
    "no_layers": dict(decoder="last", layers=0, last=2),
}


def made(case):
    model = rtf.nn.SequenceModel(**{key: value for key, value in case.options.items() if key != "seed"})
    model.load_state_dict(case.model.state_dict(), strict=True)
    return model


SMALL = dict(channels=6, order=4, length=40, outputs=2, layers=2, decoder="position", init="montel")


def small(**options):
    torch.manual_seed(3)
    return rtf.nn.SequenceModel(**{**SMALL, **options})


class Called(rtf.nn.SequenceModel):
    def __call__(self, x):
        return -super().__call__(x)


class Uncopied(torch.nn.Module):
    def __deepcopy__(self, memo):
        raise NotImplementedError


@pytest.mark.parametrize("precision", ["f32", "f64"])
@pytest.mark.parametrize("name", MODELS)
def test_the_file_is_that_of_the_cpp_model(model_runner, tmp_path, name, precision):
    # A length without layers is no option of a model: nothing of it depends on one but its last answers.
    case = Case(f"python_{name}", **MODELS[name], **(dict(length=2) if name == "no_layers" else {}))
    wanted, got = tmp_path / "wanted.safetensors", tmp_path / "got.safetensors"
    saved = model_runner(case.request("float32", {"do": "export", "file": str(wanted), "save": "errors", "precision": precision}), case.tensors())
    report = rtf.export(made(case), got, precision=precision)
    assert got.read_bytes() == wanted.read_bytes()
    assert [layer.error for layer in report.layers] == saved["errors"].tolist()
    assert report.answer_error <= {"f32": 1e-4, "f64": 1e-9}[precision]


@pytest.mark.parametrize("precision", ["f32", "f64"])
@pytest.mark.parametrize("name", ["numbers", "tokens", "pool", "no_residual", "exact", "order_0"])
def test_the_stream_answers_as_the_model(tmp_path, name, precision):
    case = Case(f"python_{name}", **MODELS[name])
    model = made(case).double()
    report = rtf.export(model, tmp_path / "m.safetensors", precision=precision)
    stream, x = rtf.Stream(tmp_path / "m.safetensors"), case.x[:1]
    answers = model.eval()(x).detach()[0].numpy()
    got = stream.process(x[0].numpy())
    got = got[-1] if answers.ndim == 1 else got[-len(answers) :]
    assert np.abs(got - answers).max() <= {"f32": 1e-4, "f64": 1e-9}[precision] * np.abs(answers).max()
    assert {layer.precision for layer in report.layers} <= {precision, "f64"}


@pytest.mark.parametrize("precision", ["f32", "f64"])
@pytest.mark.parametrize("name", MODELS)
def test_sequences_answer_as_the_model(tmp_path, name, precision):
    case = Case(f"python_{name}", **MODELS[name], **(dict(length=2) if name == "no_layers" else {}))
    model = made(case).double().eval()
    rtf.export(model, tmp_path / "m.safetensors", precision=precision)
    x = case.x[:2]  # a pair, where pairs are compared
    sequences, answers = rtf.Sequences(tmp_path / "m.safetensors"), model(x).detach().numpy()
    got = sequences.process(x.numpy())
    assert got.dtype == (np.float32 if precision == "f32" else np.float64)
    got = got[:, got.shape[1] - answers.shape[1] :] if answers.ndim == 3 else got  # the decoder of the last ones answers at all
    assert got.shape == answers.shape
    assert np.abs(got - answers).max() <= {"f32": 1e-4, "f64": 1e-9}[precision] * np.abs(answers).max()


def test_a_run_is_exported_as_the_command_does(tmp_path):
    program = os.environ.get("RTF_COMMAND") or str(Path(sys.executable).parent / "rtf")
    (tmp_path / "delay.yaml").write_text(
        "task: {name: delay, length: 48, dt: 0.01, band: 20, lag: 5, train_size: 32, val_size: 16}\n"
        "model: {layers: 2, channels: 4, order: 8, constraint: montel, init: montel}\n"
        "train: {epochs: 1, batch: 8, seed: 3, threads: 1}\n"
    )
    for arguments in ("train delay.yaml --out run --quiet", "export run -o wanted.safetensors --quiet", "export run -o int8.safetensors --weights int8 --quiet"):
        subprocess.run([program, *arguments.split()], cwd=tmp_path, check=True, timeout=300)
    model = rtf.load(tmp_path / "run")
    rtf.export(model, tmp_path / "got.safetensors")
    assert (tmp_path / "got.safetensors").read_bytes() == (tmp_path / "wanted.safetensors").read_bytes()
    rtf.export(model, str(tmp_path / "got.safetensors"), weights="int8")  # over the one that is there
    assert (tmp_path / "got.safetensors").read_bytes() == (tmp_path / "int8.safetensors").read_bytes()


def test_the_model_stays_as_it_is(tmp_path):
    model = small(dropout=0.2, kernel_dropout=0.1).train()
    before = copy.deepcopy(model.state_dict())
    torch.manual_seed(0)
    drawn = torch.rand(1)
    torch.manual_seed(0)
    first = rtf.export(model, tmp_path / "a.safetensors")
    assert torch.equal(torch.rand(1), drawn)  # nor were random numbers drawn
    assert model.training and model.blocks[0].training
    for key, value in model.state_dict().items():
        assert torch.equal(value, before[key]) and value.dtype == before[key].dtype, key
    assert first == rtf.export(model.eval(), tmp_path / "b.safetensors")
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


def test_parametrized_matrices_count(tmp_path):
    model = small()
    plain = copy.deepcopy(model)
    torch.nn.utils.parametrizations.weight_norm(model.decoder)
    torch.nn.utils.parametrizations.weight_norm(model.blocks[1].output)
    with torch.no_grad():
        for module, other in ((model.decoder, plain.decoder), (model.blocks[1].output, plain.blocks[1].output)):
            module.parametrizations.weight.original0.mul_(1.5)
            other.weight.copy_(module.weight)
    rtf.export(model, tmp_path / "a.safetensors")
    rtf.export(plain, tmp_path / "b.safetensors")
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


def test_unstable_layers(tmp_path):
    model = small()
    with torch.no_grad():
        model.blocks[1].layer.a.copy_(torch.tensor([[-1.01, 0.0, 0.0, 0.0]]))
        model.blocks[1].layer.b.copy_(torch.tensor([0.0, 1.0, 0.0, 0.0]))
    file = tmp_path / "m.safetensors"
    file.write_bytes(b"before")
    with pytest.raises(ValueError, match=r"^\[rtf::export\] layer 1: denominator 0 has a pole of modulus 1\.01.*: stabilize='refit' keeps"):
        rtf.export(model, file)
    assert file.read_bytes() == b"before" and list(tmp_path.iterdir()) == [file]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        report = rtf.export(model, file, stabilize="reflect")
    assert (report.answer_error > 0.01) == (len(told) == 1)
    assert all(str(one.message).startswith("[rtf::export] the file was written, but its answers to a random input are off by") for one in told)
    assert report.layers[0].stabilize_error is None and report.layers[1].stabilize_error > 0
    assert report.layers[1].pole_radius < 1 and rtf.Stream(file).outputs == 2


def test_refusals(tmp_path):
    def changed(change, **options):
        model = small(**options)
        with torch.no_grad():
            change(model)
        return model

    good, file = small(), tmp_path / "m.safetensors"
    table = [
        ((torch.nn.DataParallel(good), file), {}, r"the model is a DataParallel; .* its \.module is one"),
        ((torch.compile(good), file), {}, r"the model is a OptimizedModule; .* its \._orig_mod is one"),
        ((small().to("meta"), file), {}, "encoder.weight is a torch.float32 tensor on meta; real numbers are needed"),
        ((Called(**SMALL), file), {}, "the model has a __call__ of its own"),
        ((changed(lambda m: m.blocks[0].register_module("norm", type(m.norm)("layer", 6))), file), {}, "the norm of block 0 is of kind 'layer' and the model's 'batch'"),
        ((changed(lambda m: m.blocks[0].layer.set_length(20)), file), {}, "length of layer 0 is 20 and of the model 40"),
        ((changed(lambda m: m.register_module("encoder", torch.nn.Embedding(5, 6, max_norm=1)), vocabulary=5), file), {}, "max_norm of the encoder is 1"),
        ((changed(lambda m: torch.nn.utils.prune.identity(m.decoder, "weight")), file), {}, "the decoder has a forward hook, .* prune.remove"),
        ((changed(lambda m: setattr(m, "other", Uncopied())), file), {}, "the model cannot be copied: no reason given"),
        ((good, None), {}, "path is a NoneType"),
        ((good, file), dict(precision="f16"), "precision is 'f16'; f32 or f64 is needed"),
        ((good, file), dict(precision=32), "precision is 32; a name is needed"),
        ((good, file), dict(precision="f\n32"), r"precision is 'f\\n32'; a name is needed"),
        ((good, file), dict(weights="int4"), "weights is 'int4'; f32, bf16 or int8 is needed"),
        ((good, file), dict(weights="bf16", precision="f64"), "weights is 'bf16', which goes with precision f32"),
        ((good, file), dict(realization="ss"), "realization is 'ss'; auto, companion, sos or modal is needed"),
        ((good, file), dict(stabilize="montel"), "stabilize is 'montel'; refit or reflect is needed"),
        ((torch.nn.ModuleDict({"backbone": good}), file), {}, r"the model is a ModuleDict; .* its \.backbone is one"),
        ((torch.nn.Linear(2, 2), file), {}, r"the model is a Linear; an rtf\.nn\.SequenceModel is needed, a layer or a filter$"),
        ((rtf.nn.RTF(2, 2, 8, bidirectional=True), file), {}, "a bidirectional layer has no recurrence"),
        ((small(glu="half_glu1"), file), {}, "glu is 'half_glu1'; half gated blocks"),
        ((changed(lambda m: m.blocks[1].layer.b[2, 3].fill_(float("nan"))), file), {}, r"layer 1: b\[2\]\[3\] is nan; coefficients must be finite"),
        ((changed(lambda m: m.decoder.bias[1].fill_(float("inf"))), file), {}, r"decoder\.bias holds a number that is not finite"),
        ((changed(lambda m: m.double().encoder.weight.fill_(1e39), norm="none"), file), {}, r"encoder\.weight holds 1e\+39, too large for float32"),
    ]
    for arguments, options, message in table:
        with pytest.raises(ValueError, match=message) as caught:
            rtf.export(*arguments, **options)
        assert str(caught.value).startswith("[rtf::") and "\n" not in str(caught.value)
    with pytest.raises(OSError, match=r"\[rtf::export\] .*nothing/m\.safetensors"):
        rtf.export(good, tmp_path / "nothing" / "m.safetensors")
    model = small()
    model.blocks[0].layer = rtf.RTF(6, 4, 40)
    with pytest.raises(ValueError, match=r"layer 0 is a rtf\.released\.RTF; rtf\.nn\.RTF is needed"):
        rtf.export(model, file)
    with everywhere(lambda module, inputs, y: 2 * y if isinstance(module, rtf.nn.RTF) else None), pytest.raises(ValueError, match="answers to a random input are off by 0"):
        rtf.export(good, file)
    assert list(tmp_path.iterdir()) == []


@contextlib.contextmanager
def everywhere(hook):
    """A hook on all modules, which none of them shows."""
    handle = torch.nn.modules.module.register_module_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def test_lengths_are_whole_numbers(tmp_path):
    model = small()
    model.set_length(np.int64(80))
    rtf.export(model, tmp_path / "m.safetensors")
    assert model.length == 80
    for wrong in (0, 2.5, "8"):
        with pytest.raises(ValueError, match=r"^\[rtf::SequenceModel\] length is "):
            model.set_length(wrong)


def test_layers_are_filters(tmp_path):
    layer = rtf.nn.RTF(4, 6, 32, init="montel", constraint="montel", denominators=2)
    published = rtf.RTF(4, 6, 32, init="montel")
    for module in (layer, published):
        report = rtf.export(module, tmp_path / "m.safetensors", precision="f64")
        x = torch.randn(1, 32, 4)
        answers = rtf.Stream(tmp_path / "m.safetensors").process(x[0].numpy())
        np.testing.assert_allclose(answers, module(x).detach()[0].numpy(), atol=1e-5)
        assert report.answer_error <= 1e-10


def test_layers_that_are_no_filters(tmp_path):
    """What else a layer computes is found by running it."""

    class Doubled(rtf.nn.RTF):
        def forward(self, u, **options):
            return 2 * super().forward(u, **options)

    class OwnKernels(rtf.RTF):
        def get_k(self, length=None):
            return -super().get_k(length)

    hooked = rtf.nn.RTF(4, 6, 32, init="montel")
    hooked.register_forward_hook(lambda module, inputs, y: 1.05 * y)
    for layer in (Doubled(4, 6, 32, init="montel"), OwnKernels(4, 6, 32, init="montel"), hooked):
        with pytest.raises(ValueError, match=r"^\[rtf::export\] the file's answers to a random input are off by .*no model file says"):
            rtf.export(layer, tmp_path / "m.safetensors")

    class Paired(rtf.RTF):
        def forward(self, u, **options):
            return super().forward(u, **options), None

    with pytest.raises(ValueError, match=r"^\[rtf::export\] the answer of a Paired is of type tuple, not a tensor"):
        rtf.export(Paired(4, 6, 32, init="montel"), tmp_path / "m.safetensors")
    with pytest.raises(ValueError, match=r"^\[rtf::export\] the model is a LSTM; "):
        rtf.export(torch.nn.LSTM(2, 2, bidirectional=True), tmp_path / "m.safetensors")
    with pytest.raises(ValueError, match=r"^\[rtf::export\] the model is a type; "):
        rtf.export(rtf.nn.RTF, tmp_path / "m.safetensors")
    assert list(tmp_path.iterdir()) == []
    # An unstable one is compared over the length it was trained at, whatever the kernel grows to beyond.
    layer = rtf.nn.RTF(2, 1, 64, denominators=1, numerator="exact")
    with torch.no_grad():
        layer.a.fill_(-1.05)
        layer.b.fill_(1)
        layer.h0.zero_()
    with pytest.warns(RuntimeWarning, match="kernels were moved"):
        report = rtf.export(layer, tmp_path / "m.safetensors", stabilize="refit")
    x = torch.randn(1, 64, 2)
    off = np.abs(rtf.Stream(tmp_path / "m.safetensors").process(x[0].numpy()) - layer(x)[0].detach().numpy()).max()
    assert off < 20 * report.answer_error * layer(x).abs().max().item()


def test_weights_that_int8_does_not_hold(tmp_path):
    model = small()
    with torch.no_grad():
        for block in model.blocks:
            block.norm.weight.copy_(torch.tensor([1e-6, 1, 1, 1, 1, 1]))
        model.decoder.weight[:, 0] = 1e7
        model.encoder.weight[0] *= 1e-7
        model.encoder.bias[0] = 0
        for block in model.blocks:
            block.output.weight.mul_(torch.tensor([[1e-7], *[[1.0]] * 11]))
            block.output.bias.mul_(torch.tensor([1e-7, *[1.0] * 11]))
    with pytest.raises(ValueError, match=r"^\[rtf::export\] the file's answers .* weights in int8 do not hold this model's digits$"):
        rtf.export(model, tmp_path / "m.safetensors", weights="int8")
    assert list(tmp_path.iterdir()) == []
    assert rtf.export(model, tmp_path / "m.safetensors").answer_error < 1e-3
