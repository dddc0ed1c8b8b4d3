"""rtf.nn against the C++ modules: the same weights give the same answers, gradients and streams."""

import numpy as np
import pytest
import rtf
from torch_half import need_torch_half

torch = need_torch_half()


from build_tree import model_runner  # noqa: E402, F401
from model_cases import CASES, Case, cancelled, loss_gradient, slow_case  # noqa: E402
from rtf import block as block_module  # noqa: E402
from rtf import layer as layer_module  # noqa: E402


def made(case):
    """Our model with the options and weights of a case, in float64."""
    model = rtf.nn.SequenceModel(**{key: value for key, value in case.options.items() if key != "seed"}).double()
    model.load_state_dict(case.model.state_dict(), strict=True)
    return model


def close(got, wanted, what, bound=1e-10, scale=0.0):
    assert got.shape == wanted.shape, what
    largest = max(wanted.abs().max().item(), scale, 1e-300)
    error = (got - wanted).abs().max().item()
    assert error <= bound * largest, f"{what}: off by {error / largest:.2e} of {largest:.2e}"


@pytest.mark.parametrize("name", CASES)
def test_forward_and_gradients(model_runner, name):
    case = Case(name, **CASES[name])
    model, tensors = made(case), case.tensors()
    model.eval()
    evaluated = model(case.x, case.lengths)
    model.train()
    output = model(case.x, case.lengths)
    tensors["gradient"] = loss_gradient(output)
    (output * tensors["gradient"]).sum().backward()
    saved = model_runner(case.request("float64", {"do": "forward", "save": "evaluated"}, {"do": "backward"}), tensors)
    close(evaluated, saved["evaluated"], "output in evaluation mode")
    close(output, saved["output"], "output in training mode")
    case.model.train()
    (case.model(case.x, case.lengths) * tensors["gradient"]).sum().backward()  # for the sizes of sums that cancel
    sizes = cancelled(case.model)
    for key, parameter in model.named_parameters():
        close(parameter.grad, saved["gradient." + key], f"gradient of {key}", scale=sizes.get(key, 0.0))
    for key, buffer in model.named_buffers():
        close(buffer, saved["weights." + key], key)


@pytest.mark.parametrize("options", [
    dict(dropout=0.3, inner_dropout=0.2, kernel_dropout=0.1),
    dict(dropout=0.3, inner_dropout=0.2, tie_dropout=False, tie_inner_dropout=True, bidirectional=True),
    dict(dropout=0.2, inner_dropout=0.2, glu=False, activation="identity", prenorm=False),
    dict(dropout=0.2, glu="half_glu1", norm="layer"),
    dict(inner_dropout=0.2, glu="half_glu2", norm="none"),
])  # fmt: skip
def test_dropout_and_gates(model_runner, options, monkeypatch):
    """The same (seed, step) draws the same masks on both sides."""
    glu = options.get("glu", True)
    case = Case(f"dropout{sorted(options)}", **{**options, "glu": glu is not False})
    case.options["glu"] = glu
    model = rtf.nn.SequenceModel(**{key: value for key, value in case.options.items() if key != "seed"}).double()
    weights = {key: value for key, value in case.model.state_dict().items() if key in model.state_dict()}
    weights.update({key: value[: len(value) // 2] if len(value) != len(model.state_dict()[key]) else value for key, value in weights.items()})
    model.load_state_dict(weights, strict=True)
    monkeypatch.setattr(model, "_generator", lambda device: torch.tensor([11, 4]))
    sizes = {}

    def watch(name, module):
        """The sum of the absolute terms of each gradient that batch norm makes vanish, as in `cancelled`."""

        def forward(module, given, y):
            def backward(dy):
                sizes[name + ".bias"] = dy.abs().sum((0, 1)).max().item()
                if name == "encoder":
                    sizes["encoder.weight"] = torch.einsum("blc,blf->cf", dy.abs(), given[0].abs()).max().item()

            y.register_hook(backward)

        module.register_forward_hook(forward)

    for name, module in model.named_modules():
        if name == "encoder" or name.endswith((".output", "norm")):
            watch(name, module)
    output = model(case.x)
    gradient = torch.randn_like(output)
    (output * gradient).sum().backward()
    tensors = {"x": case.x, "gradient": gradient, **{"weights." + key: value for key, value in weights.items()}}
    saved = model_runner(case.request("float64", {"do": "backward", "seed": 11, "step": 4}), tensors)
    close(output, saved["output"], "output")
    for key, parameter in model.named_parameters():
        close(parameter.grad, saved["gradient." + key], f"gradient of {key}", scale=sizes.get(key, 0.0))


@pytest.mark.parametrize("options", [
    dict(vocabulary=7, decoder="position"),
    dict(decoder="pool", features=2, norm="layer"),
    dict(decoder="last", last=3, constraint="montel"),
    dict(numerator="exact", prenorm=False, decoder="position"),
])  # fmt: skip
def test_streams(model_runner, options):
    case = Case(f"streams{sorted(options)}", **options)
    model = made(case).eval()
    state, answers = model.make_state(3), []
    for size in (5, 0, 2):
        at = sum(a.shape[1] for a in answers)
        answers.append(model.prefill(case.x[:, at : at + size], state))
    for t in range(7, case.x.shape[1]):
        answers.append(model.step(case.x[:, t], state).unsqueeze(1))
    saved = model_runner(case.request("float64", {"do": "stream", "save": "answers", "prefill": [5, 0, 2]}), case.tensors())
    close(torch.cat(answers, 1), saved["answers"], "answers")


def test_set_length(model_runner):
    case = slow_case("set_length", decoder="position")
    model = made(case).eval()
    model.set_length(20)
    saved = model_runner(case.request("float64", {"do": "set_length", "length": 20}, {"do": "weights"}), case.tensors())
    for key, value in model.state_dict().items():
        close(value, saved["weights." + key], key)


def test_first_values():
    """The distributions of the C++ layer: their bounds and sums."""
    torch.manual_seed(0)
    for init, low, high in (("zero", 0, 0), ("xavier", -(16**-0.5), 16**-0.5), ("montel", -1 / 16, 1 / 16), ("uniform_montel", 0, 1)):
        layer = rtf.nn.RTF(8, 16, 32, denominators=4, init=init)
        assert layer.b.min().item() >= low and layer.b.max().item() <= high and (init == "zero") == (not layer.b.any())
        if init == "uniform_montel":
            torch.testing.assert_close(layer.a.sum(1), torch.ones(4))
        assert torch.equal(layer.h0, torch.ones(8))
    assert rtf.nn.RTF(8, 4, 32, initial_gain="release").h0.std() > 0
    paper = rtf.nn.RTF(8, 4, 32, constraint="montel_paper")
    assert paper.a.shape == (1, 5) and not paper.denominator().any()
    sigma = rtf.nn.RTF(8, 4, 32, denominators=2, bidirectional=True, constraint="montel").sigma
    assert sigma.shape == (4,) and (sigma >= 0).all() and (sigma < 1).all()


def test_a_layer_is_its_transfer_function():
    for numerator in ("wrapped", "exact"):
        layer = rtf.nn.RTF(4, 6, 24, denominators=2, init="montel", numerator=numerator).double()
        with torch.no_grad():
            layer.b.normal_()
        k = layer.kernel()
        close(rtf.kernel(layer.transfer_function(), length=24), k, "kernel")
        close(rtf.kernel(*layer.realize(), length=24), k, "kernel of the recurrence")
        assert np.allclose(rtf.freqz(layer.transfer_function(), points=3)[1].detach()[:, 0], rtf.kernel(*layer.realize(), length=4000).sum(1).detach())


def test_the_filter_of_a_layer_on_the_gpu(monkeypatch):
    """There an exact layer of small order is a filter, as in C++. It is the same function, here too."""
    torch.manual_seed(0)
    layer = rtf.nn.RTF(4, 6, 24, denominators=2, init="montel", numerator="exact").double()
    with torch.no_grad():
        layer.b.normal_()
    u, weights = torch.randn(3, 20, 4).double(), torch.randn(3, 20, 4).double()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for lengths in (None, torch.tensor([20, 7, 1])):
        y = layer(u, lengths)
        wanted = torch.autograd.grad((y * weights).sum(), list(layer.parameters()))
        with monkeypatch.context() as patched:
            patched.setattr(layer_module, "_largest_filtered_order", lambda device: layer.order)
            patched.setattr(rtf.nn.RTF, "kernel", None)  # so that no convolution can have computed it
            for run in (layer, compiled):
                torch.compiler.reset()
                found = run(u, lengths)
                close(found, y, "y")
                for got, want in zip(torch.autograd.grad((found * weights).sum(), list(layer.parameters())), wanted):
                    close(got, want, "gradient")
            with pytest.raises(ValueError, match=r"\[rtf::RTF\] a sequence of 25 samples; the layer takes 1 to 24"):
                layer(torch.randn(3, 25, 4))
            with pytest.raises(ValueError, match=r"\[rtf::RTF\] lengths has shape \[2\]; \(3\) is needed"):
                layer(u, torch.tensor([1, 2]))


@pytest.mark.parametrize("options", [dict(features=1), dict(features=2), dict(vocabulary=5), dict(decoder="position")])
def test_the_projections_of_a_model_on_the_gpu(options, monkeypatch):
    """They write the samples of a row side by side, and the operators keep that order. The numbers are the same."""
    model = rtf.nn.SequenceModel(channels=8, order=4, length=50, outputs=3, layers=2, **options).double()
    x = torch.randint(5, (2, 50)) if "vocabulary" in options else torch.randn(2, 50, options.get("features", 1)).double()
    parameters = list(model.parameters())
    wanted = model(x)
    wanted = wanted, *torch.autograd.grad(wanted.square().sum(), parameters)
    monkeypatch.setattr(block_module, "wants_length_last", lambda x: True)
    blocks = []
    for block in model.blocks:
        block.register_forward_hook(lambda module, given, y: blocks.append(y))
    found = model(x)
    for got, want in zip((found, *torch.autograd.grad(found.square().sum(), parameters)), wanted):
        close(got, want, "one number", scale=wanted[0].square().sum().item())
    if options.get("features") == 2:  # of the other encoders, those of this device
        assert all(y.transpose(1, 2).is_contiguous() for y in blocks)


def test_refusals():
    Model, Layer = rtf.nn.SequenceModel, rtf.nn.RTF
    model = Model(4, 3, 16, 2, layers=1)
    tokens = Model(4, 3, 16, 2, layers=1, vocabulary=5, decoder="last", last=4)
    pairs = Model(4, 3, 16, 2, layers=1, decoder="pair")
    x = torch.randn(3, 16, 1)
    table = [
        (lambda: Layer(4, 3, 16, denominators=3), r"\[rtf::RTF\] 3 denominators do not divide 4 channels"),
        (lambda: Layer(4, 3, 16, kernel_dropout=1.0), r"\[rtf::RTF\] kernel_dropout is 1.0; a number in \[0, 1\) is needed"),
        (lambda: Layer(4, 3, 16, init="zeros"), r"\[rtf::RTF\] init is 'zeros'; expected one of zero, xavier"),
        (lambda: Layer(4, 3, 16)(torch.randn(1, 17, 4)), r"\[rtf::RTF\] a sequence of 17 samples; the layer takes 1 to 16"),
        (lambda: Layer(4, 3, 16, bidirectional=True).realize(), r"\[rtf::RTF\] a bidirectional layer has no recurrence"),
        (lambda: Layer(4, 3, 16).set_length(0), r"\[rtf::RTF\] length is 0"),
        (lambda: Layer(4, 3.0, 16), r"\[rtf::RTF\] order is 3.0; a whole number is needed"),
        (lambda: Layer(4, 3, 16, denominators=0), r"\[rtf::RTF\] denominators is 0; at least 1 is needed"),
        (lambda: Layer(4, 3, 16)(torch.randn(1, 16, 5)), r"\[rtf::RTF\] u has shape \[1, 16, 5\]; \(batch, length, 4\) is needed"),
        (lambda: Layer(4, 3, 16)(np.ones((1, 16, 4))), r"\[rtf::RTF\] u is of type ndarray, not a tensor; \(batch, length, 4\)"),
        (lambda: Model(4, 3, 16, 0), r"\[rtf::SequenceModel\] outputs is 0; at least 1"),
        (lambda: Model(4, 3, 16, 2, layers="1"), r"\[rtf::SequenceModel\] layers is '1'; a whole number is needed"),
        (lambda: model(np.ones((3, 16, 1))), r"\[rtf::SequenceModel\] x is of type ndarray, not a tensor; \(batch, length, 1\)"),
        (lambda: tokens([[1, 2]]), r"\[rtf::SequenceModel\] x is of type list; tokens \(batch, length\) of int64 are needed"),
        (lambda: Model(4, 3, 16, 2, glu="half"), r"\[rtf::SequenceModel\] glu is 'half'; expected one of True, False, half_glu1"),
        (lambda: Model(4, 3, 16, 2, dropout=1.5), r"\[rtf::SequenceModel\] dropout is 1.5; a number in \[0, 1\) is needed"),
        (lambda: Model(4, 3, 16, 2, decoder="last", last=17), r"\[rtf::SequenceModel\] last is 17, more than the length 16"),
        (lambda: model(x[..., 0]), r"\[rtf::SequenceModel\] x has shape \[3, 16\]; \(batch, length, 1\)"),
        (lambda: tokens(x), r"\[rtf::SequenceModel\] x is a torch.float32 tensor of shape \[3, 16, 1\]; tokens"),
        (lambda: tokens(torch.zeros(2, 3, dtype=torch.long)), r"a sequence of 3 samples; the decoder needs the last 4"),
        (lambda: tokens(torch.zeros(2, 8, dtype=torch.long), torch.tensor([1, 2])), r"takes no lengths"),
        (lambda: model(x, torch.tensor([1, 0, 2])), r"\[rtf::SequenceModel\] a length of 0 in a batch padded to 16 samples"),
        (lambda: model(x, torch.tensor([1, 17, 2])), r"\[rtf::SequenceModel\] a length of 17 in a batch padded to 16 samples"),
        (lambda: model(x, torch.tensor([1, 2])), r"lengths is a torch.int64 tensor of shape \[2\]; one of type torch.int64 for each of 3 sequences"),
        (lambda: model(x, [1, 2, 3]), r"\[rtf::SequenceModel\] lengths is a list, not a tensor; one of type torch.int64 for each of 3"),
        (lambda: tokens(torch.tensor([[0, 99, 1, 2]])), r"\[rtf::SequenceModel\] x has tokens from 0 to 99; 0 to \d+ are known"),
        (lambda: model(x, torch.ones(3)), r"\[rtf::SequenceModel\] lengths is a torch.float32 tensor of shape \[3\]; one of type torch.int64"),
        (lambda: model(x.long()), r"\[rtf::SequenceModel\] x has numbers of type torch.int64; floating-point ones are needed"),
        (lambda: Model(4, 3, 16, 2, inner_dropout=None), r"\[rtf::SequenceModel\] inner_dropout is None; a number in \[0, 1\) is needed"),
        (lambda: Layer(4, 3, 16, kernel_dropout="0.1"), r"\[rtf::RTF\] kernel_dropout is '0.1'; a number"),
        (lambda: pairs(x), r"\[rtf::SequenceModel\] a batch of 3 sequences; pairs need an even number"),
        (lambda: model.step(x[:, 0], model.make_state(3)), r"streaming runs in evaluation mode"),
        (lambda: model.eval().step(x[:, 0], model.make_state(2)), r"a batch of 3 with a state of 2 streams"),
        (lambda: model.make_state(0), r"a state for 0 streams"),
        (lambda: Model(4, 3, 16, 2, layers=1).train()(x[:1, :1]), r"batch norm in training mode over 1 positions has no variance; at least 2"),
        (lambda: Model(4, 3, 16, 2, layers=1).train()(x[:0]), r"batch norm in training mode over 0 positions has no variance; at least 2"),
    ]  # fmt: skip
    for call, message in table:
        with pytest.raises(ValueError, match=message):
            call()
