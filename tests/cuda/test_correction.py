"""correct, wrap and the constraints for coefficients on the GPU: the same numbers as on the CPU."""

import pytest

torch = pytest.importorskip("torch")

# length, channels, denominators, order
SIZES = [(1, 2, 1, 0), (1, 2, 2, 3), (16, 6, 3, 5), (13, 4, 1, 20), (1024, 4, 2, 64)]


def draw(sizes):
    """Coefficients with sum |a| = 0.9: stable and well-conditioned."""
    length, channels, groups, order = sizes
    generator = torch.Generator().manual_seed(sum(sizes))
    a, b, h0 = (
        torch.randn(shape, generator=generator, dtype=torch.float64)
        for shape in ((groups, order), (channels, order), (channels,))
    )
    return 0.9 * a / a.abs().sum(1, keepdim=True).clamp_min(1e-300), b, h0


@pytest.mark.parametrize("name", ["correct", "wrap"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_values(cuda_ops, name, sizes, dtype):
    op, length = getattr(cuda_ops, name), sizes[0]
    coefficients = [x.to(dtype) for x in draw(sizes)]
    for actual, expected in zip(op(*[x.cuda() for x in coefficients], length), op(*coefficients, length)):
        assert actual.device.type == "cuda" and torch.equal(actual.cpu(), expected)


@pytest.mark.parametrize("name", ["correct", "wrap"])
@pytest.mark.parametrize("sizes", SIZES[:4], ids=str)
def test_gradcheck(cuda_ops, name, sizes):
    op, length = getattr(cuda_ops, name), sizes[0]
    coefficients = [x.cuda().requires_grad_() for x in draw(sizes)]
    assert torch.autograd.gradcheck(lambda *c: op(*c, length), coefficients, fast_mode=True)


def test_refusals(cuda_ops):
    a, b, h0 = draw(SIZES[2])
    for name in ("correct", "wrap"):
        with pytest.raises(ValueError, match=rf"\[rtf::{name}\] a is on cpu and b on cuda:0; move them to one device"):
            getattr(cuda_ops, name)(a, b.cuda(), h0.cuda(), 16)
    unstable = torch.full((1, 1), -2.0, device="cuda")
    with pytest.raises(ValueError, match="outside"):
        cuda_ops.correct(unstable, torch.ones(1, 1, device="cuda"), torch.ones(1, device="cuda"), 1000)


def test_constraints(cuda_ops):
    """Compositions of torch's own operators: values and gradients to rounding."""
    alpha, sigma = torch.randn(3, 5, dtype=torch.float64), torch.randn(3, dtype=torch.float64)
    for op, arguments in ((cuda_ops.montel, (alpha, sigma)), (cuda_ops.montel_paper, (alpha,))):
        on_device = [x.cuda().requires_grad_() for x in arguments]
        assert torch.allclose(op(*on_device).detach().cpu(), op(*arguments), rtol=1e-14)
        assert torch.autograd.gradcheck(op, on_device)
