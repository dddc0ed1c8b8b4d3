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


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("length, batch, channels, groups", [(1024, 16, 128, 128), (4096, 16, 128, 1), (32768, 2, 48, 3)])
def test_same_bits_as_its_operators(cuda_ops, length, batch, channels, groups, bidirectional, dtype):
    """It turns signals over while the coefficients are still worked on. Again and again, with signals that were written a
    moment before and are overwritten at once, it has the bits of the operators that wait for each other."""
    directions = 2 if bidirectional else 1
    torch.manual_seed(length)
    draw = lambda *shape: torch.randn(*shape, device="cuda")
    a, b, h0 = 0.01 * draw(directions * groups, 64), draw(directions * channels, 64), draw(directions * channels)
    u, dy = (torch.empty(batch, length, channels, device="cuda", dtype=dtype) for _ in range(2))
    for repeat in range(8):
        u.normal_(), dy.normal_()
        y, k = cuda_ops.wrapped_convolve(u, torch.cat((a, b)), None, h0, length, bidirectional)
        du, dab, _, dh0 = cuda_ops.wrapped_convolve_backward(dy, u, torch.cat((a, b)), None, h0, k, bidirectional)
        signals = u.clone(), dy.clone()
        u.zero_(), dy.zero_()
        again = cuda_ops.kernel(a, b, h0, length)
        taps = again.view(2, channels, length) if bidirectional else again
        wanted_du, dk = cuda_ops.convolve_backward(signals[1], signals[0], taps, bidirectional)
        da, db, wanted_dh0 = cuda_ops.kernel_backward(dk.flatten(0, -2), a, b, h0)
        wanted = cuda_ops.convolve(signals[0], taps, bidirectional), again, wanted_du, torch.cat((da, db)), wanted_dh0
        for i, (got, want) in enumerate(zip((y, k, du, dab, dh0), wanted)):
            assert torch.equal(got, want), f"result {i}, repeat {repeat}"


def test_what_is_wrong_is_said_in_the_words_of_its_operators(cuda_ops):
    u, ab, h0 = torch.zeros(2, 1024, 4).cuda(), torch.zeros(8, 3).cuda(), torch.zeros(4).cuda()
    k = torch.zeros(4, 1024).cuda()
    for what, arguments in {
        r"\[rtf::kernel\] h0 is on cpu and b on cuda:0": (u, ab, None, h0.cpu(), 1024),
        r"\[rtf::convolve\] the kernel is on cuda:0 and u on cpu": (u.cpu(), ab, None, h0, 1024),
        r"\[rtf::convolve\] the kernel has shape \[4, 1024\]; \(3, samples\) is needed for 3 channels": (u[:, :, :3], ab, None, h0, 1024),
        r"denominators divide channels": (u, ab[:7], None, h0, 1024),
        r"\[rtf::wrapped_convolve\] a and b in one have shape \[4, 3\]": (u, ab[:4], None, h0, 1024),
        r"the orders must agree": (u, ab[:4, :2], ab[4:], h0, 1024),
    }.items():
        with pytest.raises(ValueError, match=what):
            cuda_ops.wrapped_convolve(*arguments)
    with pytest.raises(ValueError, match=r"\[rtf::convolve_backward\] dy has shape \[2, 1023, 4\]"):
        cuda_ops.wrapped_convolve_backward(u[:, 1:], u, ab, None, h0, k)


def test_numbers_that_no_operator_takes_are_refused(cuda_ops):
    """Before anything of theirs is copied."""
    generator = torch.tensor([5, 3], device="cuda")
    for dtype in (torch.uint8, torch.int8, torch.bool):
        with pytest.raises(ValueError, match="numbers; float32, float64 and bfloat16 are served"):
            cuda_ops.gelu(torch.zeros(4, 64, 64, dtype=dtype, device="cuda"), 0.0, generator, 0)
