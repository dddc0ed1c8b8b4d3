"""The Python package on the GPU against the same on the CPU in double."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")
rtf = pytest.importorskip("rtf")

BOUND = {torch.float64: 1e-10, torch.float32: 1e-5}


def largest(x):
    return float(x.detach().abs().max()) if x.numel() else 0.0


def close(got, wanted, bound, what="", scale=None):
    assert got.is_cuda and got.shape == wanted.shape, what
    error = largest(got.cpu().to(wanted.dtype) - wanted)
    assert error <= bound * max(largest(wanted) if scale is None else scale, 1e-300), f"{what}: off by {error:.2e}"


def denominator(rng, order):
    a = rng.uniform(-1, 1, order)
    return a * 0.9 / max(np.abs(a).sum(), 1e-300)


@pytest.mark.parametrize("dtype", BOUND)
@pytest.mark.parametrize("rows, length, order", [(1, 1, 1), (3, 100, 4), (32, 1000, 8), (5, 257, 64), (2, 300, 100), (4, 7, 12)])
def test_lfilter(rows, length, order, dtype):
    """One filter for all rows, then one for each, with states in and out, and every gradient."""
    rng = np.random.default_rng([rows, length, order])
    x, zi = rng.standard_normal((rows, length)), rng.standard_normal((rows, order))
    for shape in ((), (rows,)):
        a = np.apply_along_axis(lambda _: np.concatenate(([1.5], denominator(rng, order))), -1, np.zeros((*shape, 1)))
        b = rng.standard_normal((*shape, order + 1))
        weights, more = torch.tensor(rng.standard_normal((rows, length))), torch.tensor(rng.standard_normal((rows, order)))

        def run(device, dtype):
            leaves = [torch.tensor(v).to(device, dtype).requires_grad_() for v in (x, a, b)]
            start = torch.tensor(zi).to(device).requires_grad_()
            y, zf = rtf.lfilter(*leaves, zi=start, return_zf=True)
            assert y.dtype == dtype and zf.dtype == torch.float64
            loss = (y.double() * weights.to(device)).sum() + (zf * more.to(device)).sum()
            return y, zf, *torch.autograd.grad(loss, (*leaves, start))

        rounded = [v.astype(np.float32).astype(np.float64) for v in (x, a, b)] if dtype == torch.float32 else (x, a, b)
        x, a, b = rounded
        for i, (got, wanted) in enumerate(zip(run("cuda", dtype), run("cpu", torch.float64))):
            # Where |a_1| + .. is 0.9, the absolute values of 1 / A sum up to 10 at most: how far a rounding can grow.
            close(got, wanted, 10 * BOUND[dtype], f"result {i}")


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("length", [1, 31, 64, 1000])
def test_layers(length, bidirectional):
    torch.manual_seed(0)
    released = rtf.RTF(6, 8, 1000, num_a=2, init="montel", bidirectional=bidirectional, constraint="l1_montel")
    exact = rtf.nn.RTF(6, 8, 1000, denominators=2, init="montel", bidirectional=bidirectional, numerator="exact")
    for layer in (released, exact):
        there, here = copy.deepcopy(layer).cuda(), copy.deepcopy(layer).double()
        u = torch.randn(3, length, 6)
        weights = torch.randn(3, length, 6)
        y, wanted = there(u.cuda()), here(u.double())
        close(y, wanted, 1e-5, "y")
        gradients = torch.autograd.grad((y * weights.cuda()).sum(), list(there.parameters()))
        expected = torch.autograd.grad((wanted * weights.double()).sum(), list(here.parameters()))
        # A transform leaves the rounding of its largest number in all: 1e-7 of it, also where the gradient itself is 0,
        # as that of b where the length is 1.
        least = 1e-3 * max(map(largest, expected))
        for (name, _), got, want in zip(layer.named_parameters(), gradients, expected):
            close(got, want, 1e-4, name, max(largest(want), least))


@pytest.mark.parametrize("compiled", [False, True])
def test_a_layer_that_is_a_filter(compiled):
    """Causal, with an exact numerator of small order: padded sequences too."""
    torch.manual_seed(0)
    layer = rtf.nn.RTF(6, 8, 100, denominators=2, init="montel", numerator="exact")
    there, here = copy.deepcopy(layer).cuda(), copy.deepcopy(layer).double()
    if compiled:
        there = torch.compile(there, fullgraph=True, backend="aot_eager")
    u = torch.randn(3, 100, 6)
    for lengths in (None, torch.tensor([100, 31, 1])):
        close(there(u.cuda(), lengths), here(u.double(), lengths), 1e-5)


def test_steps():
    torch.manual_seed(0)
    layer = rtf.RTF(6, 8, 64, init="montel").cuda()
    u = torch.randn(2, 64, 6, device="cuda")
    x, steps = layer.x_0(2), []
    with torch.no_grad():
        for t in range(64):
            y, x = layer.step(u[:, t], x)
            steps.append(y)
        close(torch.stack(steps, 1), layer(u).cpu(), 1e-5)
        close(layer.get_k_step(), layer.get_k().cpu(), 1e-5)


@pytest.mark.parametrize("options", [
    dict(norm="batch"), dict(norm="layer"), dict(features=2), dict(vocabulary=5), dict(numerator="exact", glu="half_glu1"),
])  # fmt: skip
def test_model(options):
    torch.manual_seed(0)
    model = rtf.nn.SequenceModel(channels=8, order=4, length=50, outputs=3, layers=2, init="montel", decoder="position", **options)
    there, here = copy.deepcopy(model).cuda(), copy.deepcopy(model).double()
    x = torch.randint(5, (4, 50)) if "vocabulary" in options else torch.randn(4, 50, options.get("features", 1))
    wide = x if "vocabulary" in options else x.double()
    y = there(x.cuda())
    close(y, here(wide), 1e-4, "training")
    assert y.transpose(1, 2).is_contiguous()  # the samples of a row side by side, from the encoder to the decoder
    there.eval(), here.eval()
    wanted = here(wide)
    close(there(x.cuda()), wanted, 1e-4, "evaluation")
    state = there.make_state(4)
    answers = [there.prefill(x[:, :20].cuda(), state), *(there.step(x[:, t].cuda(), state).unsqueeze(1) for t in range(20, 50))]
    close(torch.cat(answers, 1), wanted, 1e-4, "stream")


@pytest.mark.parametrize("dtype, bound", [(torch.float16, 1e-2), (torch.bfloat16, 5e-2)])
def test_autocast(dtype, bound):
    torch.manual_seed(0)
    block = torch.nn.Sequential(torch.nn.Linear(6, 6), rtf.RTF(6, 8, 64, init="montel"), torch.nn.Linear(6, 6)).cuda()
    sizes = dict(channels=6, order=8, length=64, outputs=3, layers=2, init="montel")
    models = [rtf.nn.SequenceModel(**sizes, features=features, norm=norm).cuda() for features in (1, 6) for norm in ("batch", "layer")]
    for module in (block, *models):
        x = torch.randn(2, 64, getattr(module, "features", 6), device="cuda")
        wanted = module(x)
        for samples in (x, x.to(dtype)):
            with torch.autocast("cuda", dtype):
                y = module(samples)
            y.float().square().sum().backward()
            assert (y.float() - wanted).abs().max() < bound * wanted.abs().max()
            assert all(p.grad.isfinite().all() for p in module.parameters())


def test_functions_that_go_through_numpy():
    a = torch.tensor([1.0, -1.2, 0.81], device="cuda", dtype=torch.float64)
    poles = rtf.poles(a)
    assert poles.is_cuda and torch.allclose(poles.abs().cpu(), torch.tensor([0.9, 0.9]).double())
    angles, response = rtf.freqz(a, torch.ones(1, device="cuda"), points=8)
    assert angles.is_cuda and response.is_cuda
    close(response, rtf.freqz(a.cpu(), torch.ones(1), points=8)[1], 1e-12)


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 7, 3), (3, 100, 8), (2, 1000, 6)])
def test_s4_block(shape):
    """In both memory orders, and in bfloat16 by autocast."""
    torch.manual_seed(0)
    block = rtf.nn.S4Block(rtf.RTF(shape[2], 4, shape[1], init="montel"), shape[2])
    there, here = copy.deepcopy(block).cuda(), copy.deepcopy(block).double()
    x, weights = torch.randn(shape), torch.randn(shape)
    u = x.double().requires_grad_()
    wanted = here(u)
    expected = torch.autograd.grad((wanted * weights).sum(), (u, *here.parameters()))
    turned = x.cuda().transpose(1, 2).contiguous().transpose(1, 2)
    for given in (x.cuda(), turned):
        given.requires_grad_()
        y = there(given)
        close(y, wanted, 1e-5, "y")
        assert y.transpose(1, 2).is_contiguous()
        gradients = torch.autograd.grad((y * weights.cuda()).sum(), (given, *there.parameters()))
        least = 1e-3 * max(map(largest, expected))
        for i, (got, want) in enumerate(zip(gradients, expected)):
            close(got, want, 1e-4, f"gradient {i}", max(largest(want), least))
        for dtype in (torch.bfloat16, torch.float16):
            with torch.autocast("cuda", dtype=dtype):
                narrow = there(given)
            assert narrow.dtype == dtype
            # Rounded are GELU, weight, product and answer, each by 2^-9; the terms of a sum may be larger than itself.
            close(narrow.float(), wanted, 4 * 2**-9 * 4, "autocast")
            for (name, p), g in zip(there.named_parameters(), torch.autograd.grad(narrow.float().sum(), list(there.parameters()))):
                assert g.dtype == p.dtype and g.isfinite().all(), name


def test_the_dropout_of_an_s4_block():
    """Anew in each pass, and by torch's seed."""
    block = rtf.nn.S4Block(torch.nn.Identity(), 8, dropout=0.3).cuda()
    x = torch.randn(2, 50, 8, device="cuda")
    y = block(x)
    assert not torch.equal(block(x), y)
    torch.cuda.manual_seed(1)
    first = block(x)
    torch.cuda.manual_seed(1)
    assert torch.equal(block(x), first)
