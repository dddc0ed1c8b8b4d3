"""A whole layer in one operator on the GPU: like `kernel` and `convolve` on the CPU in double, gradients too."""

import numpy as np
import oracle
import pytest

torch = pytest.importorskip("torch")
BOUND = {torch.float64: 1e-10, torch.float32: 1e-5, torch.bfloat16: 2e-2}


@pytest.mark.parametrize("dtype", BOUND)
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("length, samples, order", [(1, 1, 0), (64, 64, 3), (100, 31, 5), (1024, 1024, 7), (4096, 1000, 64), (32768, 32768, 9)])
def test_like_the_cpu(cuda_ops, length, samples, order, bidirectional, dtype):
    """Kernels that fused code makes, and those it does not; inputs shorter than them; coefficients in one tensor or two."""
    rng = np.random.default_rng([length, order])
    channels, rows = 4, 8 if bidirectional else 4
    f = oracle.draw_filter(rng, rows, rows // 2, order)
    draw = lambda *shape: torch.tensor(rng.standard_normal(shape))
    u, weights = draw(2, samples, channels), draw(2, samples, channels)
    parameters = torch.float64 if dtype == torch.float64 else torch.float32
    a, b, h0 = (torch.tensor(x).to(parameters) for x in (f.a, f.b, f.h0))
    rounded = u.to(dtype)

    def run(ops_call, device, signal, *coefficients):
        leaves = [x.to(device).requires_grad_() for x in (signal, *coefficients)]
        y = ops_call(*leaves)
        return y, *torch.autograd.grad((y.double() * weights.to(device)).sum(), leaves)

    def in_two(u, a, b, h0):
        k = cuda_ops.kernel(a, b, h0, length)
        return cuda_ops.convolve(u, k.view(2, channels, length) if bidirectional else k, bidirectional)

    wanted = run(in_two, "cpu", rounded.double(), a.double(), b.double(), h0.double())
    apart = run(lambda u, a, b, h0: cuda_ops.wrapped_convolve(u, a, b, h0, length, bidirectional)[0], "cuda", rounded, a, b, h0)
    joined = run(lambda u, ab, h0: cuda_ops.wrapped_convolve(u, ab, None, h0, length, bidirectional)[0], "cuda", rounded,
                 torch.cat((a, b)), h0)  # fmt: skip
    scale = max(float(x.detach().abs().max()) for x in wanted if x.numel())
    for i, (got, want) in enumerate(zip(apart, wanted)):
        error = float((got.detach().cpu().double() - want.detach()).abs().max()) if want.numel() else 0.0
        largest = float(want.detach().abs().max()) if want.numel() else 0.0
        assert error <= BOUND[dtype] * max(largest, 1e-3 * scale), f"result {i}: off by {error:.2e}"
    y, du, dab, dh0 = joined
    assert torch.equal(y, apart[0]) and torch.equal(du, apart[1]) and torch.equal(dh0, apart[4])
    assert torch.equal(dab, torch.cat((apart[2], apart[3])))


def test_numbers_that_no_operator_takes_are_refused(cuda_ops):
    """Before anything of theirs is copied."""
    generator = torch.tensor([5, 3], device="cuda")
    for dtype in (torch.uint8, torch.int8, torch.bool):
        with pytest.raises(ValueError, match="numbers; float32, float64 and bfloat16 are served"):
            cuda_ops.gelu(torch.zeros(4, 64, 64, dtype=dtype, device="cuda"), 0.0, generator, 0)
