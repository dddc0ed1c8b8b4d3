"""What PyTorch offers around modules and functions: each works, or says why not."""

import copy
import io
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import rtf
from torch_half import need_torch_half

torch = need_torch_half()

SMALL = dict(channels=6, order=4, length=16, outputs=3, layers=2)


def modules():
    """A module of each kind and an input for it."""
    torch.manual_seed(0)
    model = rtf.nn.SequenceModel(**SMALL, init="montel", decoder="position", norm="layer")
    batch_norm = rtf.nn.SequenceModel(**SMALL, init="montel", bidirectional=True, dropout=0.1, inner_dropout=0.1)
    return {
        "released": (rtf.RTF(6, 4, 16, init="montel"), torch.randn(2, 16, 6)),
        "released_both": (rtf.RTF(6, 4, 16, init="montel", bidirectional=True, constraint="l1_montel"), torch.randn(2, 15, 6)),
        "layer": (rtf.nn.RTF(6, 4, 16, init="montel", denominators=2, constraint="montel"), torch.randn(2, 16, 6)),
        "exact": (rtf.nn.RTF(6, 4, 16, init="montel", numerator="exact", kernel_dropout=0.1), torch.randn(2, 9, 6)),
        "s4_block": (rtf.nn.S4Block(rtf.RTF(6, 4, 16, init="montel"), 6, dropout=0.1), torch.randn(2, 16, 6)),
        "model": (model, torch.randn(2, 16, 1)),
        "batch_norm": (batch_norm, torch.randn(2, 16, 1)),
    }


NAMES = list(modules())


def gradients(module, x, seed=3):
    torch.manual_seed(seed)  # of dropout
    y = module(x)
    loss = (y.float() * torch.linspace(-1, 1, y.numel()).view(y.shape)).sum()
    return y, torch.autograd.grad(loss, list(module.parameters()))


def assert_same(got, wanted, bound=1e-5):
    torch.testing.assert_close(got[0], wanted[0], rtol=bound, atol=bound)
    for g, w in zip(got[1], wanted[1]):
        torch.testing.assert_close(g, w, rtol=bound, atol=bound * float(w.abs().max() + 1e-3))


@pytest.mark.parametrize("name", NAMES)
def test_compile(name):
    module, x = modules()[name]
    twin = copy.deepcopy(module)
    compiled = torch.compile(twin, fullgraph=True, backend="aot_eager")
    for length in (16, 9, 7):  # the second makes the length a symbol
        piece = x[:, : min(length, x.shape[1])]
        assert_same(gradients(compiled, piece), gradients(module, piece))


@pytest.mark.long  # a minute: it starts a compiler
def test_compile_with_the_default_backend():
    layer = rtf.RTF(4, 4, 16, init="montel")
    x = torch.randn(2, 16, 4)
    block = torch.nn.Sequential(torch.nn.Linear(4, 4), layer, torch.nn.GELU())
    assert_same(gradients(torch.compile(block, fullgraph=True), x), gradients(block, x))
    released = rtf.RTF(4, 4, 16, init="montel", bidirectional=True, quirks="release")
    assert_same(gradients(torch.compile(released, fullgraph=True), x[:, :15]), gradients(released, x[:, :15]))


def test_compile_functions():
    def filtered(x, a, b, zi):
        y, zf = rtf.lfilter(x, a, b, zi=zi, return_zf=True)
        responses = rtf.freqz(a, b, points=w)[1], rtf.freqz(a, b)[1], rtf.freqz(a, b, points=[0.1, 0.2])[1]
        delays = rtf.group_delay(a, b, points=8, whole=True)[1]
        return y.square().sum() + zf.sum() + sum(h.abs().sum() for h in responses) + delays.sum()

    w = torch.linspace(0.1, 3, 5, dtype=torch.float64)
    compiled = torch.compile(filtered, fullgraph=True, backend="aot_eager")
    for length in (5, 12, 13):
        leaves = [v.requires_grad_() for v in (torch.randn(2, length).double(), torch.tensor([1.0, -0.5, 0.2]).double(),
                                               torch.randn(2).double(), torch.randn(2, 2).double())]  # fmt: skip
        for got, wanted in zip(torch.autograd.grad(compiled(*leaves), leaves), torch.autograd.grad(filtered(*leaves), leaves)):
            torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("function", [
    lambda x, a, b: rtf.kernel(a, b, length=x.shape[-1]),
    lambda x, a, b: rtf.freqz(a, b, points=x.shape[-1])[1].abs(),
    lambda x, a, b: rtf.group_delay(a, b, points=x.shape[-1], whole=True)[1],
    lambda x, a, b: rtf.lfilter(x, a[1:], b[1:], x.shape[-1] / 10),
    lambda x, a, b: rtf.convolve(rtf.lfilter(x, a, np.array([1.0, 0.3])), np.ones(3)),
])  # fmt: skip
def test_compile_functions_of_numbers_that_are_symbols(function):
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    a, b = torch.tensor([1.0, -0.5], dtype=torch.float64), torch.tensor([1.0, 0.3], dtype=torch.float64)
    for length in (10, 13, 21):  # from the second on the length is a symbol
        x = torch.randn(3, length, dtype=torch.float64)
        torch.testing.assert_close(compiled(x, a, b), function(x, a, b))


def test_compiled_autograd_says_why_not():
    layer = rtf.RTF(4, 3, 16, init="montel")
    with torch._dynamo.config.patch(compiled_autograd=True):
        step = torch.compile(lambda x: layer(x).sum().backward(), backend="eager")
        with pytest.raises(RuntimeError, match=r"^\[rtf::wrapped_convolve\] has no part in compiled autograd; compile the forward pass alone$"):
            step(torch.randn(2, 16, 4))


def rounded(module):
    """A twin in float32 whose matrices, and what goes into them and out of every part, are rounded as autocast rounds them."""
    twin = copy.deepcopy(module)
    round_all = lambda values: tuple(value.bfloat16().float() if isinstance(value, torch.Tensor) else value for value in values)
    for part in twin.modules():
        if isinstance(part, torch.nn.Linear):
            part.register_forward_pre_hook(lambda part, given: round_all(given))
            part.weight.data, part.bias.data = round_all((part.weight, part.bias))
        if not list(part.children()) or isinstance(part, rtf.RTF):
            part.register_forward_hook(lambda part, given, y: y.bfloat16().float())
    return twin


@pytest.mark.parametrize("name", [name for name in NAMES if name != "s4_block"])  # which has a test of its own
def test_autocast(name):
    """Samples come in bfloat16, coefficients and kernels stay float32: what is lost is the rounding of samples, which the twin
    has once too, if not to the same bits."""
    module, x = modules()[name]
    if name not in ("model", "batch_norm"):
        module = torch.nn.Sequential(torch.nn.Linear(6, 6), module, torch.nn.Linear(6, 6))
    module.eval()
    wanted = module(x)
    with torch.autocast("cpu", torch.bfloat16):
        got = module(x)
        loss = got.float().square().sum()
    loss.backward()
    assert (got.float() - wanted).abs().max() < 2 * (rounded(module)(x) - wanted).abs().max()
    assert all(p.grad.dtype == torch.float32 and p.grad.isfinite().all() for p in module.parameters())


@pytest.mark.parametrize("norm", ["batch", "layer", "none"])
@pytest.mark.parametrize("glu", [True, False, "half_glu1", "half_glu2"])
@pytest.mark.parametrize("residual", [True, False])
def test_float16_autocast_of_a_model(norm, glu, residual):
    """Only products of matrices are in float16: inputs, weights and result of each round by 2^-12, and there are four in a row."""
    torch.manual_seed(0)
    model = rtf.nn.SequenceModel(**SMALL, init="montel", norm=norm, glu=glu, residual=residual, dropout=0.1, inner_dropout=0.1)
    x, lengths = torch.randn(4, 16, 1), torch.tensor([16, 3, 9, 1])
    for training in (True, False):
        model.train(training)
        torch.manual_seed(1)
        wanted = model(x, lengths)
        torch.manual_seed(1)
        with torch.autocast("cpu", torch.float16):
            got = model(x, lengths)
        got.float().sum().backward()
        assert (got.float() - wanted).abs().max() < 16 * 2**-11 * wanted.abs().max()
        assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_pooling_is_a_mean_in_float32():
    h = torch.ones(1, 300, 1, dtype=torch.bfloat16)
    model = rtf.nn.SequenceModel(**{**SMALL, "length": 300}, init="montel", norm="layer").bfloat16()
    x = torch.randn(2, 300, 1, dtype=torch.bfloat16)
    assert torch.equal(rtf.sequence_model._pool(h, torch.tensor([300])), h[:, 0])
    assert torch.equal(model(x), model(x, torch.tensor([300, 300])))


def test_half_samples_are_computed_in_float32():
    for layer in (rtf.RTF(6, 4, 16, init="montel"), rtf.nn.RTF(6, 4, 16, init="montel")):
        x = torch.randn(2, 16, 6).half()
        assert layer(x).dtype == torch.float16
        assert torch.equal(layer(x), layer(x.float()).half())
    with pytest.raises(ValueError, match=r"\[rtf::.*\] Half numbers; float32, float64 and bfloat16 are served"):
        rtf.RTF(6, 4, 16).half()(x)


@pytest.mark.parametrize("name", NAMES)
def test_copies(name):
    module, x = modules()[name]
    wanted = gradients(module, x)  # also leaves behind what a forward pass does
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    fresh = modules()[name][0]
    fresh.load_state_dict({key: value.clone() for key, value in module.state_dict().items()}, strict=True)
    others = [copy.deepcopy(module), pickle.loads(pickle.dumps(module)), torch.load(file, weights_only=False), fresh]
    for other in others:
        assert all(a.data_ptr() != b.data_ptr() for a, b in zip(module.parameters(), other.parameters()))
        if name != "batch_norm":  # whose running averages have moved on, and are not seen in training
            assert_same(gradients(other, x), wanted, bound=0)


@pytest.mark.parametrize("name", NAMES)
def test_meta_device(name):
    module, x = modules()[name]
    with torch.device("meta"):
        empty, _ = modules()[name]
    assert all(p.is_meta for p in empty.parameters())
    assert empty(x.to("meta")).shape == module(x).shape
    empty.to_empty(device="cpu").load_state_dict(module.state_dict(), strict=True)
    for m in (empty, module):
        m.eval()
    assert torch.equal(empty(x), module(x))


def test_func_grad_and_vmap():
    """torch.func takes the functions; vmap runs over them one by one."""
    a, b = torch.tensor([1.0, -0.5, 0.2]).double(), torch.randn(3).double()
    x = torch.randn(4, 9).double()
    loss = lambda a, b, x: rtf.lfilter(x, a, b).square().sum()
    leaves = [v.clone().requires_grad_() for v in (a, b, x)]
    wanted = torch.autograd.grad(loss(*leaves), leaves)
    for got, want in zip(torch.func.grad(loss, argnums=(0, 1, 2))(a, b, x), wanted):
        torch.testing.assert_close(got, want)
    _, pull = torch.func.vjp(loss, a, b, x)
    torch.testing.assert_close(pull(torch.tensor(2.0).double())[1], 2 * wanted[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that vmap runs over them one by one
        many = torch.stack((a, 2 * a, a + 0.1))
        rows = torch.func.vmap(lambda a: rtf.lfilter(x, a, b))(many)
        torch.testing.assert_close(rows, torch.stack([rtf.lfilter(x, row, b) for row in many]))
        each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, None, 0))(a, b, x)
        torch.testing.assert_close(each.sum(0), wanted[0])
        torch.testing.assert_close(torch.func.jacrev(loss)(a, b, x), wanted[0])
    kernels = lambda a: rtf.convolve(x, rtf.kernel(a, b[1:], b[0], length=9, method="wrapped")).sum()
    leaf = a[1:].clone().requires_grad_()
    torch.testing.assert_close(torch.func.grad(kernels)(a[1:]), torch.autograd.grad(kernels(leaf), leaf)[0])


def test_func_on_a_layer():
    """Gradients of every sample on its own."""
    layer, x = rtf.RTF(3, 4, 8, init="montel"), torch.randn(5, 8, 3)
    parameters = dict(layer.named_parameters())

    def loss(parameters, x):
        return torch.func.functional_call(layer, parameters, (x.unsqueeze(0),)).square().sum()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, x)
    for name, parameter in parameters.items():
        for s in range(5):
            (wanted,) = torch.autograd.grad(loss(parameters, x[s]), parameter)
            torch.testing.assert_close(each[name][s], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["model", "batch_norm"])
def test_func_on_a_model(name):
    model, x = modules()[name]
    model.eval() if name == "batch_norm" else model.train()
    parameters, buffers = dict(model.named_parameters()), dict(model.named_buffers())
    loss = lambda parameters: torch.func.functional_call(model, {**parameters, **buffers}, (x,)).square().sum()
    wanted = torch.autograd.grad(loss(parameters), list(parameters.values()))
    for got, want in zip(torch.func.grad(loss)(parameters).values(), wanted):
        torch.testing.assert_close(got, want)


def test_responses_have_forward_mode():
    a, b = torch.tensor([2.0, -0.5, 0.2]).double(), torch.randn(2).double()
    power = lambda a: rtf.freqz(a, b, points=5)[1].abs().square().sum()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that vmap calls one after the other
        torch.testing.assert_close(torch.func.jacfwd(power)(a), torch.func.jacrev(power)(a))
        torch.testing.assert_close(torch.func.hessian(power)(a), torch.autograd.functional.hessian(power, a))


def test_forward_mode_says_why_not():
    with pytest.raises(NotImplementedError, match=r"\[rtf::lfilter\] has no forward-mode derivative; reverse mode has one"):
        torch.func.jvp(lambda x: rtf.lfilter(x, torch.tensor([1.0, -0.5]), torch.tensor([1.0])), (torch.randn(4),), (torch.ones(4),))
    layer = rtf.RTF(3, 4, 8)
    with pytest.raises(NotImplementedError, match=r"\[rtf::wrapped_convolve\] has no forward-mode derivative"):
        torch.func.jvp(layer, (torch.randn(1, 8, 3),), (torch.ones(1, 8, 3),))


def test_two_processes_train_together(tmp_path):
    """DistributedDataParallel over gloo: two processes with half a batch each move as one with the whole batch."""
    worker = Path(__file__).parent / "ddp_worker.py"
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(worker), str(tmp_path)]
    done = subprocess.run(run, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    sys.path.insert(0, str(worker.parent))
    import ddp_worker

    wanted = ddp_worker.train(ddp_worker.make_model(), *ddp_worker.batch())
    for rank in range(2):
        got = torch.load(tmp_path / f"rank{rank}.pt")
        for name, value in wanted.state_dict().items():
            torch.testing.assert_close(got["module." + name], value, rtol=1e-5, atol=1e-6)


def test_an_optimizer_moves_every_parameter():
    for name, (module, x) in modules().items():
        before = [p.detach().clone() for p in module.parameters()]
        optimizer = torch.optim.AdamW(module.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            module(x).square().mean().backward()
            optimizer.step()
        still = [key for (key, p), q in zip(module.named_parameters(), before) if torch.equal(p, q)]
        assert still == [], f"{name}: {still}"
