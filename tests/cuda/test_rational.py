"""Division by the first coefficient of a denominator on the GPU: like the same on the CPU, gradients too; and the memory
order of signals."""

import pytest

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("channels, denominators, numerators, of_a, of_b", [
    (1, 1, 1, 1, 1), (1, 1, 1, 3, 9), (6, None, None, 4, 4), (6, 1, 6, 1, 5), (6, 3, 1, 7, 2), (300, 2, 300, 40, 41), (64, 64, None, 300, 300),
])  # fmt: skip
def test_like_the_cpu(cuda_ops, channels, denominators, numerators, of_a, of_b, dtype):
    torch.manual_seed(of_a)
    draw = lambda rows, columns: torch.randn(columns) if rows is None else torch.randn(rows, columns)
    a, b = draw(denominators, of_a).to(dtype), draw(numerators, of_b).to(dtype)
    a[..., 0] = 1.5
    order = max(of_a, of_b) - 1
    shapes = ((denominators or 1, order), (channels, order), (channels,))
    weights = [torch.randn(shape, dtype=torch.float64) for shape in shapes]

    def run(device):
        leaves = [x.to(device).requires_grad_() for x in (a, b)]
        found = cuda_ops.monic(*leaves, channels)
        loss = sum((x * weight.to(device)).sum() for x, weight in zip(found, weights))
        return *found, *torch.autograd.grad(loss, leaves)

    # A sum of as many terms, each rounded; gradients come in the type of the coefficients.
    for i, (got, wanted) in enumerate(zip(run("cuda"), run("cpu"))):
        terms = 8 * channels * (order + 1)
        bound = terms * torch.finfo(torch.float64).eps + (0 if i < 3 else torch.finfo(dtype).eps)
        assert got.shape == wanted.shape and got.dtype == wanted.dtype
        if wanted.numel():
            error = (got.cpu().double() - wanted.double()).abs().max()
            assert error <= bound * max(wanted.double().abs().max(), 1), f"result {i}"


def test_meta_kernels_know_the_memory_order(cuda_ops):
    """Of coefficients that lie column by column, and of rows of unequal lengths."""
    a, b = (torch.randn(4, 3, dtype=torch.float64, device="cuda") for _ in range(2))
    for arguments in ((a.t(), b.t(), 3), (a[:, :2], b, 4), (a, b[:, :2], 4)):
        leaves = [x.detach().requires_grad_() for x in arguments[:2]]
        torch.library.opcheck(cuda_ops.monic.default, (*leaves, arguments[2]), test_utils="test_faketensor")


@pytest.mark.parametrize("order", [0, 3])
def test_gradients(cuda_ops, order):
    torch.manual_seed(order)
    a, b = (torch.randn(2, order + 1, dtype=torch.float64, device="cuda") for _ in range(2))
    a[:, 0] += 3
    function = lambda a, b: cuda_ops.monic(a, b, 2)
    leaves = (a.requires_grad_(), b.requires_grad_())
    assert torch.autograd.gradcheck(function, leaves) and torch.autograd.gradgradcheck(function, leaves)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 1, 5), (3, 5, 1), (2, 63, 65), (2, 64, 128), (70000, 2, 3), (1, 4097, 31)])
def test_signals_come_back_in_the_memory_order_they_had(cuda_ops, shape, dtype):
    """What copies between the two orders: a kernel of one sample multiplies."""
    torch.manual_seed(0)
    u = torch.randn(shape, device="cuda").to(dtype)
    kernel = torch.full((shape[2], 1), 2.0, device="cuda", dtype=torch.float64 if dtype == torch.float64 else torch.float32)
    for x in (u, u.transpose(1, 2).contiguous().transpose(1, 2)):
        y = cuda_ops.convolve(x, kernel)
        assert y.stride() == x.stride() or min(shape) == 1
        bound = torch.finfo(dtype).eps + 64 * torch.finfo(kernel.dtype).eps  # of the storage and of the transforms
        assert (y.double() - 2 * u.double()).abs().max() <= 2 * bound * u.double().abs().max()
