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


def both_ways(ops, u, dy, a, b, h0, length, bidirectional=False, lengths=None):
    """y, the kernels and every gradient by `kernel` and `convolve`, which wait for each other."""
    k = ops.kernel(a, b, h0, length)
    taps = k.view(2, -1, length) if bidirectional else k
    du, dk = ops.convolve_backward(dy, u, taps, bidirectional, lengths=lengths)
    return ops.convolve(u, taps, bidirectional, lengths=lengths), k, du, *ops.kernel_backward(dk.flatten(0, -2), a, b, h0)


def at_once(ops, u, dy, a, b, h0, length, bidirectional=False, lengths=None):
    """The same by one operator and its gradient."""
    y, k = ops.wrapped_convolve(u, a, b, h0, length, bidirectional, lengths=lengths)
    return y, k, *ops.wrapped_convolve_backward(dy, u, a, b, h0, k, bidirectional, lengths=lengths)


def recorded(ops, u, dy, a, b, h0, length, bidirectional=False, lengths=None):
    """y and every gradient by autograd, which keeps the samples as the kernels read them."""
    leaves = [x.detach().requires_grad_() for x in (u, a, b, h0)]
    y, _ = ops.wrapped_convolve(*leaves, length, bidirectional, lengths=lengths)
    assert y.is_contiguous() or y.stride(1) == 1 == u.stride(1)
    gradients = torch.autograd.grad(y, leaves, dy.to(y.dtype))
    assert gradients[0].is_contiguous() or gradients[0].stride(1) == 1 == u.stride(1)
    return y.detach(), *gradients


def same_bits(got, wanted, what):
    for i, (x, y) in enumerate(zip(got, wanted, strict=True)):
        assert x.dtype == y.dtype and torch.equal(x, y), f"result {i}, {what}"


def coefficients(channels, groups, order, dtype=torch.float32):
    draw = lambda *shape: torch.randn(*shape, device="cuda").to(dtype)
    return 0.01 * draw(groups, order), draw(channels, order), draw(channels)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("length, samples, batch, channels, groups", [
    (1024, 1024, 16, 128, 128), (2048, 2048, 16, 300, 300), (4096, 4096, 16, 128, 1), (4096, 4096, 16, 128, 128),
    (8192, 8192, 5, 128, 128), (16384, 16384, 4, 132, 132), (32768, 32768, 2, 48, 3), (4096, 20000, 2, 64, 64),
    (16384, 20000, 2, 64, 64)])  # fmt: skip
def test_same_bits_as_its_operators(cuda_ops, length, samples, batch, channels, groups, bidirectional, dtype):
    """It turns signals over while the coefficients are still worked on. Again and again, with signals that were written a
    moment before and are overwritten at once, it has the bits of the operators that wait for each other, which get signals
    that need not be turned."""
    directions = 2 if bidirectional else 1
    torch.manual_seed(length)
    filters = coefficients(directions * channels, directions * groups, 64)
    u, dy = (torch.empty(batch, samples, channels, device="cuda", dtype=dtype) for _ in range(2))
    for repeat in range(8):
        u.normal_(), dy.normal_()
        signals = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (u, dy)]
        got = at_once(cuda_ops, u, dy, *filters, length, bidirectional)
        kept = recorded(cuda_ops, u, dy, *filters, length, bidirectional)
        apart = both_ways(cuda_ops, u, dy, *filters, length, bidirectional)
        u.zero_(), dy.zero_()
        wanted = both_ways(cuda_ops, *signals, *filters, length, bidirectional)
        same_bits(got, wanted, f"repeat {repeat}")
        same_bits(apart, wanted, f"repeat {repeat}, apart")
        same_bits(kept, wanted[:1] + wanted[2:], f"repeat {repeat}, recorded")


def test_same_bits_of_other_arguments(cuda_ops):
    """Lengths, other memory orders and types, coefficients and kernels that are not contiguous, order 0."""
    torch.manual_seed(3)
    length, channels = 2048, 6
    draw = lambda: torch.randn(3, length, channels, device="cuda")
    a, b, h0 = coefficients(channels, 3, 5)
    u, dy = draw(), draw()
    last = lambda x: x.transpose(1, 2).contiguous().transpose(1, 2)
    wide = torch.randn(3, 2 * length, 2 * channels, device="cuda")[:, ::2, ::2]
    lengths = torch.tensor([length, 0, 77])
    apart = lambda x: torch.stack((x, x), -1)[..., 0]
    for what, arguments, options in [
        ("lengths", (u, dy, a, b, h0), {"lengths": lengths}),
        ("lengths on the GPU", (u, dy, a, b, h0), {"lengths": lengths.cuda()}),
        ("length last", (last(u), last(dy), a, b, h0), {}),
        ("either order", (last(u), dy, a, b, h0), {}),
        ("every second number", (wide, wide.flip(1), a, b, h0), {}),
        ("expanded", (u[:1].expand(3, -1, -1), dy, a, b, h0), {}),
        ("shorter than the kernels", (u[:, :500], dy[:, :500], a, b, h0), {}),
        ("gradients in bfloat16", (u, dy.bfloat16(), a, b, h0), {}),
        ("coefficients in bfloat16", (u, dy, *coefficients(channels, 3, 5, torch.bfloat16)), {}),
        ("coefficients apart in memory", (u, dy, apart(a), apart(b), apart(h0)), {}),
        ("order 0", (u, dy, a[:, :0], b[:, :0], h0), {}),
    ]:
        wanted = both_ways(cuda_ops, *arguments, length, **options)
        same_bits(at_once(cuda_ops, *arguments, length, **options), wanted, what)
        same_bits(recorded(cuda_ops, *arguments, length, **options), wanted[:1] + wanted[2:], f"{what}, recorded")
    k = apart(cuda_ops.kernel(a, b, h0, length))
    same_bits(cuda_ops.wrapped_convolve_backward(dy, u, a, b, h0, k), both_ways(cuda_ops, u, dy, a, b, h0, length)[2:], "kernels apart")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("length", [1, 300, 2048])
def test_rows_like_samples(cuda_ops, length, dtype):
    """The operator that returns the rows has the bits of the one that does not, and autograd keeps nothing else of u: what
    it was made of may be overwritten, and its memory is free."""
    torch.manual_seed(length)
    filters = [x.to(torch.float64 if dtype == torch.float64 else torch.float32) for x in coefficients(48, 48, 5)]
    signal = torch.randn(4, length, 48, device="cuda").to(dtype)
    y, k, rows = cuda_ops.wrapped_convolve_rows(signal, *filters, length)
    assert y.is_contiguous() and rows.transpose(1, 2).is_contiguous() and torch.equal(rows, signal)
    same_bits((y, k), cuda_ops.wrapped_convolve(signal, *filters, length), "rows")
    torch.library.opcheck(cuda_ops.wrapped_convolve_rows.default, (signal, *filters, length), test_utils="test_faketensor")
    dy, leaves = torch.randn_like(signal), [x.requires_grad_() for x in filters]
    wanted = torch.autograd.grad(cuda_ops.wrapped_convolve(signal.clone(), *leaves, length)[0], leaves, dy)
    del y, rows
    asked_for = lambda: torch.cuda.memory_stats()["requested_bytes.all.current"]  # what the allocator rounds up
    before = asked_for()
    u = signal.clone()
    y, _ = cuda_ops.wrapped_convolve(u, *leaves, length)
    held = asked_for() - before
    u.zero_()
    del u
    left = asked_for() - before
    assert held - left == signal.nbytes
    assert left == 2 * signal.nbytes + k.nbytes  # y, the rows and the kernels
    same_bits(torch.autograd.grad(y, leaves, dy), wanted, "after u is gone")


def test_graph(cuda_ops):
    """Captured and replayed on new values."""
    torch.manual_seed(4)
    filters = coefficients(64, 64, 9)
    u, dy = (torch.randn(8, 4096, 64, device="cuda") for _ in range(2))
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        at_once(cuda_ops, u, dy, *filters, 4096), recorded(cuda_ops, u, dy, *filters, 4096)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured, kept = at_once(cuda_ops, u, dy, *filters, 4096), recorded(cuda_ops, u, dy, *filters, 4096)
    for x in (u, dy, *filters[1:]):
        x.normal_()
    graph.replay()
    wanted = both_ways(cuda_ops, u, dy, *filters, 4096)
    same_bits(captured, wanted, "replayed")
    same_bits(kept, wanted[:1] + wanted[2:], "replayed, recorded")


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
        for recorded in (False, True):
            with pytest.raises(ValueError, match=what):
                cuda_ops.wrapped_convolve(*arguments[:3], arguments[3].clone().requires_grad_(recorded), arguments[4])
    with pytest.raises(ValueError, match=r"\[rtf::convolve_backward\] dy has shape \[2, 1023, 4\]"):
        cuda_ops.wrapped_convolve_backward(u[:, 1:], u, ab, None, h0, k)
    with pytest.raises(ValueError, match=r"\[rtf::convolve_backward\] the kernel is on cuda:0 and u on cpu"):
        cuda_ops.wrapped_convolve_backward(u.cpu(), u.cpu(), ab.cpu(), None, h0.cpu(), k)
    with pytest.raises(ValueError, match=r"\[rtf::convolve\] u is on cpu and lengths on a GPU"):
        cuda_ops.convolve(u.cpu(), k.cpu(), lengths=torch.tensor([1, 2]).cuda())


def test_numbers_that_no_operator_takes_are_refused(cuda_ops):
    """Before anything of theirs is copied."""
    generator = torch.tensor([5, 3], device="cuda")
    for dtype in (torch.uint8, torch.int8, torch.bool):
        with pytest.raises(ValueError, match="numbers; float32, float64 and bfloat16 are served"):
            cuda_ops.gelu(torch.zeros(4, 64, 64, dtype=dtype, device="cuda"), 0.0, generator, 0)
