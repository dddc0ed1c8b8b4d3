"""dropout, gelu and glu on the GPU: the CPU's masks bit for bit, its values and gradients within rounding."""

import pytest

torch = pytest.importorskip("torch")

from block_cases import ORDERS, SHAPES, both, check, follows, is_length_last, leaf, signal  # noqa: E402
from cases import on_device  # noqa: E402

DTYPES = [torch.float32, torch.bfloat16, torch.float64]
SEED = 2**40 + 17


def generator(device="cpu", step=5):
    return torch.tensor([SEED, step], device=device)


def on(x, step=5):
    return generator(x.device, step)


@pytest.mark.parametrize("shape", [*SHAPES, (2, 4096, 40), (7, 129, 9)])
def test_masks_are_the_cpus(cuda_ops, shape):
    """Every element, tied and not, for lengths and channels that do and do not fill vectors and Philox blocks."""
    for order in ORDERS:
        for dtype in DTYPES:
            ones = signal(shape, dtype, order=order).fill_(1)
            on_gpu = on_device(ones)
            for tied in (False, True):
                for p in (0.1, 0.5, 0.9999999):
                    wanted = cuda_ops.dropout(ones, p, generator(), 3, tied)
                    got = cuda_ops.dropout(on_gpu, p, generator("cuda"), 3, tied)
                    assert torch.equal(got.cpu(), wanted) and follows(got, on_gpu)


def test_masks_of_other_dimensions(cuda_ops):
    for shape in [(17,), (9, 50), (2, 5, 64), (2, 3, 4, 5)]:
        ones = torch.ones(shape)
        assert torch.equal(
            cuda_ops.dropout(ones.cuda(), 0.3, generator("cuda"), 1).cpu(), cuda_ops.dropout(ones, 0.3, generator(), 1)
        )
    wide = torch.randn(6, 20)
    check(cuda_ops.glu(wide.cuda(), None, 0.0, generator("cuda"), 0),
          cuda_ops.glu(wide.double(), None, 0.0, generator(), 0), torch.float32, "glu")  # fmt: skip


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 4), (2, 0, 4), (0, 3, 4), (2, 3, 0)])
def test_nothing(cuda_ops, shape):
    x, numbers = torch.ones(shape, device="cuda", requires_grad=True), generator("cuda")
    gates = torch.ones(*shape[:-1], 2 * shape[-1], device="cuda", requires_grad=True)
    bias = torch.ones(gates.shape[-1], device="cuda", requires_grad=True)
    results = [cuda_ops.dropout(x, 0.5, numbers, 1), cuda_ops.gelu(x, 0.5, numbers, 1),
               cuda_ops.glu(gates, x, 0.5, numbers, 1, bias=bias)]  # fmt: skip
    assert all(y.shape == shape for y in results)
    sum(y.sum() for y in results).backward()
    assert x.grad.shape == shape and not bias.grad.any()


def test_step_is_read_on_the_device(cuda_ops):
    """A captured graph draws what the generator says when it is replayed."""
    x, numbers = torch.ones(2, 64, 16, device="cuda").transpose(1, 2), generator("cuda")
    cuda_ops.dropout(x, 0.5, numbers, 1)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = cuda_ops.dropout(x, 0.5, numbers, 1)
    for step in (7, 8):
        numbers.copy_(generator(step=step))
        graph.replay()
        assert torch.equal(y.cpu(), cuda_ops.dropout(x.cpu(), 0.5, generator(step=step), 1))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("tied", [False, True])
def test_values_and_gradients(cuda_ops, shape, tied, dtype):
    x, z = signal(shape, dtype), signal((*shape[:2], 2 * shape[2]), dtype, seed=1)
    bias = signal((1, 1, 2 * shape[2]), torch.float64 if dtype == torch.float64 else torch.float32, seed=2)[0, 0]
    for p in (0.0, 0.25):
        runs = {
            "dropout": (lambda x: cuda_ops.dropout(x, p, on(x), 4, tied), (x,)),
            "gelu": (lambda x: cuda_ops.gelu(3 * x, p, on(x), 4, tied), (x,)),
            "glu": (lambda z: cuda_ops.glu(z, None, p, on(z), 4, tied), (z,)),
            "glu, residual": (lambda z, x: cuda_ops.glu(z, x, p, on(z), 4, tied), (z, x)),
            "glu, residual, bias": (lambda z, x, b: cuda_ops.glu(z, x, p, on(z), 4, tied, bias=b), (z, x, bias)),
        }
        for name, (run, tensors) in runs.items():
            got, wanted = both(run, tensors)
            for i, pair in enumerate(zip(got, wanted)):
                check(*pair, dtype, f"{name}, p = {p}, result {i}")
            assert is_length_last(got[0])


def test_float32_residual_of_a_bfloat16_gate(cuda_ops):
    for shape in [(3, 64, 16), (2, 33, 5)]:
        x, z = signal(shape, torch.float32), signal((*shape[:2], 2 * shape[2]), torch.bfloat16)
        got, wanted = both(lambda z, x: cuda_ops.glu(z, x, 0.3, on(z), 1), (z, x))
        assert got[0].dtype == torch.float32 and got[1].dtype == torch.bfloat16 and got[2].dtype == torch.float32
        check(got[0], wanted[0], torch.float32, "y: not rounded to bfloat16")
        for i in (1, 2):
            check(got[i], wanted[i], torch.bfloat16, f"gradient {i}")


def test_extreme_numbers(cuda_ops):
    """No overflow on the way, and what is not a number stays so."""
    values = torch.tensor([0.0, -0.0, 1e-30, 5.0, -5.0, -12.0, 40.0, -40.0, 1e4, -1e4, 3e38, -3e38])
    x = values.view(1, -1, 1)
    numbers = generator("cuda")
    check(cuda_ops.gelu(x.cuda(), 0.0, numbers, 0), torch.nn.functional.gelu(x.double()), torch.float32, "gelu")
    small = x[:, 3:6]  # the lower tail keeps its digits
    got = cuda_ops.gelu(small.cuda(), 0.0, numbers, 0).cpu().double()
    wanted = cuda_ops.gelu(small.double(), 0.0, generator(), 0)
    assert ((got - wanted).abs() <= 1e-5 * wanted.abs()).all()
    z = torch.stack([torch.ones_like(x), x], 2).view(1, -1, 2)
    z.requires_grad_()
    on_gpu = z.detach().cuda().requires_grad_()
    got, wanted = cuda_ops.glu(on_gpu, None, 0.0, numbers, 0), torch.nn.functional.glu(z.double())
    check(got, wanted, torch.float32, "glu")
    check(torch.autograd.grad(got.sum(), on_gpu)[0], torch.autograd.grad(wanted.sum(), z)[0].double(), torch.float32,
          "its gradient")  # fmt: skip
    for bad in (float("nan"), float("inf")):
        z = torch.full((1, 8, 2), bad, device="cuda")
        assert not cuda_ops.glu(z, None, 0.0, numbers, 0).isfinite().any()
        assert not cuda_ops.gelu(z, 0.0, numbers, 0).isfinite().any()


def test_gradcheck(cuda_ops):
    x, z = leaf(signal((2, 6, 5), torch.float64).cuda()), leaf(signal((2, 6, 10), torch.float64).cuda())
    bias, numbers = torch.randn(10, dtype=torch.float64, device="cuda", requires_grad=True), generator("cuda")
    for tied in (False, True):
        assert torch.autograd.gradcheck(lambda x: cuda_ops.dropout(x, 0.3, numbers, 1, tied), (x,))
        assert torch.autograd.gradcheck(lambda x: cuda_ops.gelu(x, 0.3, numbers, 1, tied), (x,))
        assert torch.autograd.gradcheck(
            lambda z, x, bias: cuda_ops.glu(z, x, 0.3, numbers, 1, tied, bias=bias), (z, x, bias)
        )


def test_the_same_bits_twice(cuda_ops):
    z = leaf(signal((8, 2048, 512), torch.float32).cuda())
    bias = torch.zeros(512, device="cuda", requires_grad=True)

    def run():
        y = cuda_ops.glu(z, None, 0.2, generator("cuda"), 1, bias=bias)
        return [y, *torch.autograd.grad(y.sum(), (z, bias))]

    assert all(torch.equal(a, b) for a, b in zip(run(), run()))


def test_empty(cuda_ops):
    for shape in [(0, 5, 4), (3, 0, 4)]:
        x = torch.zeros(shape, device="cuda")
        assert cuda_ops.gelu(x, 0.1, generator("cuda"), 0).shape == x.shape
        assert cuda_ops.glu(x, None, 0.1, generator("cuda"), 0).shape == (*shape[:2], 2)


def test_refusals(cuda_ops):
    x, numbers = torch.zeros(2, 4, 6, device="cuda"), generator("cuda")
    for run, message in [
        (lambda: cuda_ops.dropout(x, 0.5, generator(), 0), r"\[rtf::dropout\] the generator is on cpu and x on cuda:0"),
        (lambda: cuda_ops.gelu(x.cpu(), 0.5, numbers, 0), r"\[rtf::gelu\] the generator is on cuda:0 and x on cpu"),
        (lambda: cuda_ops.dropout(x, 1.0, numbers, 0), r"\[rtf::dropout\] p is 1"),
        (lambda: cuda_ops.gelu(x[0], 0.5, numbers, 0, True), r"\[rtf::gelu\] x has shape \[4, 6\]"),
        (lambda: cuda_ops.gelu(x, 0.5, numbers.float(), 0), r"\[rtf::gelu\] the generator has shape"),
        (lambda: cuda_ops.gelu(x.half(), 0.5, numbers, 0), r"\[rtf::gelu\] Half numbers"),
        (lambda: cuda_ops.glu(x[..., :5], None, 0.5, numbers, 0), r"\[rtf::glu\] z has shape \[2, 4, 5\]"),
        (lambda: cuda_ops.glu(x, x, 0.5, numbers, 0), r"\[rtf::glu\] the residual has shape"),
        (lambda: cuda_ops.glu(x, x[..., :3].cpu(), 0.5, numbers, 0), r"\[rtf::glu\] the residual is on cpu and z on cu"),
        (lambda: cuda_ops.glu(x, None, 0.5, numbers, 0, bias=x[0, 0, :3]), r"\[rtf::glu\] the bias has shape \[3\]"),
        (lambda: cuda_ops.gelu_backward(x[:, :3], x, 0.0, numbers, 0), r"\[rtf::gelu_backward\] dy has shape"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=message):
            run()
