"""convolve on the GPU against the CPU in float64: every method, both directions, ragged batches, gradients."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

# Relative to the largest value, as docs/math.md and the accuracy targets have it.
BOUNDS = {torch.float32: 1e-5, torch.bfloat16: 1e-2, torch.float64: 1e-10}
PATHS = ["block", "cluster", "columns", "unfused"]


@pytest.fixture
def path(monkeypatch):
    return lambda name: monkeypatch.setenv("RTF_CUDA_CONVOLUTION", name)


def draw(rng, *shape):
    return torch.tensor(rng.standard_normal(shape))


def near(actual, expected, dtype, what):
    assert actual.shape == expected.shape, what
    error = (actual.detach().double().cpu() - expected).abs().max().item() if expected.numel() else 0.0
    scale = expected.abs().max().item() if expected.numel() else 0.0
    assert error <= BOUNDS[dtype] * max(scale, 1e-30), f"{what}: {error:.2e} of {scale:.2e}"


def check(ops, dtype, u, k, dy, bidirectional, lengths=None, offsets=None, what=""):
    """The values and both gradients of one case, from the same rounded inputs on both devices."""
    u, dy = u.to(dtype).double(), dy.to(dtype).double()
    k = k.double() if dtype == torch.float64 else k.float().double()
    expected = ops.convolve(u, k, bidirectional, lengths=lengths, offsets=offsets)
    du, dk = ops.convolve_backward(dy, u, k, bidirectional, lengths=lengths, offsets=offsets)
    ku = k.cuda() if dtype == torch.float64 else k.float().cuda()
    args = (ku, bidirectional)
    ragged = {"lengths": None if lengths is None else lengths.cuda(), "offsets": offsets}
    on_gpu = lambda x: x.to(dtype).cuda()
    near(ops.convolve(on_gpu(u), *args, **ragged), expected, dtype, f"y {what}")
    got_u, got_k = ops.convolve_backward(on_gpu(dy), on_gpu(u), *args, **ragged)
    near(got_u, du, dtype, f"du {what}")
    near(got_k, dk, dtype, f"dk {what}")


def random_case(rng, longest):
    batch, channels = int(rng.integers(1, 7)), int(rng.integers(1, 6))
    length = int(np.exp(rng.uniform(0, np.log(longest))))
    samples = max(1, int(length * rng.choice([0.3, 1, 1, 2])))
    bidirectional, kind = bool(rng.integers(2)), rng.choice(["plain", "lengths", "offsets"])
    lengths = offsets = None
    if kind == "lengths":
        lengths = torch.tensor(rng.integers(0, length + 1, batch))
    elif kind == "offsets":
        cuts = np.sort(rng.integers(0, length + 1, rng.integers(0, 4)))
        offsets, batch = torch.tensor([0, *cuts, length]), 1
    shape = (2, channels, samples) if bidirectional else (channels, samples)
    signal = lambda: draw(rng, batch, length, channels)
    return signal(), draw(rng, *shape), signal(), bidirectional, lengths, offsets


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("seed", range(100))
def test_random(cuda_ops, dtype, seed):
    rng = np.random.default_rng([1, seed])
    u, k, dy, bidirectional, lengths, offsets = random_case(rng, 6000)
    check(cuda_ops, dtype, u, k, dy, bidirectional, lengths, offsets,
          f"{tuple(u.shape)} kernel {tuple(k.shape)} lengths {lengths} offsets {offsets}")  # fmt: skip


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize("seed", range(12))
def test_every_path(cuda_ops, path, name, seed):
    path(name)
    case = random_case(np.random.default_rng([2, seed]), 16384)
    check(cuda_ops, torch.float32, *case, what=f"{name} {tuple(case[0].shape)}")
    check(cuda_ops, torch.bfloat16, *case, what=f"{name} {tuple(case[0].shape)}")


# One below, at and one above every transform's size; 2^18 is the last that is fused.
@pytest.mark.parametrize("length", [1, 2, 1023, 1024, 1025, 2048, 2049, 4096, 4097, 8192, 8193, 16384, 16385, 32768, 65536, 131072, 200000, 262144, 262145])  # fmt: skip
def test_sizes(cuda_ops, length):
    rng = np.random.default_rng(length)
    batch, channels = (9, 2) if length < 5000 else (3, 1)
    u, dy, k = draw(rng, batch, length, channels), draw(rng, batch, length, channels), draw(rng, 2, channels, length)
    check(cuda_ops, torch.float32, u, k, dy, True, what=str(length))


@pytest.mark.parametrize("length", [32768, 65000, 131072])
def test_long_rows_in_columns(cuda_ops, path, length):
    """Where clusters serve, the other method for long rows agrees."""
    path("columns")
    rng = np.random.default_rng(length)
    u, dy, k = draw(rng, 3, length, 2), draw(rng, 3, length, 2), draw(rng, 2, 2, length)
    check(cuda_ops, torch.float32, u, k, dy, True, what=str(length))


def test_many_sequences_in_columns(cuda_ops):
    """More signals than scratch holds at one time: several tiles of sequences add to one gradient."""
    rng = np.random.default_rng(3)
    batch, length, channels = 80, 20000, 2
    u, dy, k = draw(rng, batch, length, channels), draw(rng, batch, length, channels), draw(rng, channels, length)
    check(cuda_ops, torch.float32, u, k, dy, False)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_gradcheck(cuda_ops, bidirectional):
    rng = np.random.default_rng(4)
    u = draw(rng, 2, 5, 3).cuda().requires_grad_()
    k = draw(rng, *((2, 3, 7) if bidirectional else (3, 7))).cuda().requires_grad_()
    lengths, offsets = torch.tensor([5, 2]).cuda(), torch.tensor([0, 2, 5])
    convolve = lambda **more: lambda u, k: cuda_ops.convolve(u, k, bidirectional, **more)
    for call, x in [(convolve(), u), (convolve(lengths=lengths), u), (convolve(offsets=offsets), u[:1].detach().requires_grad_())]:
        assert torch.autograd.gradcheck(call, (x, k))
        assert torch.autograd.gradgradcheck(call, (x, k))


def test_layouts(cuda_ops):
    """Channels last, length last, transposed, sliced and expanded inputs; the result has the length last where its input has, and is contiguous else."""
    rng = np.random.default_rng(5)
    x, k = draw(rng, 3, 300, 4).float(), draw(rng, 4, 300).float()
    expected = cuda_ops.convolve(x.double(), k.double())
    wide = torch.zeros(3, 600, 8)
    wide[:, ::2, ::2] = x
    g = x.cuda()
    for view in [g, g.transpose(1, 2).contiguous().transpose(1, 2), wide.cuda()[:, ::2, ::2],
                 wide[:, :, ::2].transpose(1, 2).contiguous().transpose(1, 2)[:, ::2].cuda()]:  # fmt: skip
        y = cuda_ops.convolve(view, k.cuda())
        near(y, expected, torch.float32, str(view.stride()))
        assert y.transpose(1, 2).is_contiguous() if view.stride(1) == 1 else y.is_contiguous()
    one = g[:1].expand(3, 300, 4)
    near(cuda_ops.convolve(one, k.cuda()), expected[:1].expand(3, 300, 4), torch.float32, "expanded")


@pytest.mark.parametrize("length", [1000, 16384, 40000])
def test_same_bits_twice(cuda_ops, length):
    rng = np.random.default_rng(6)
    u, dy = (draw(rng, 5, length, 3).float().cuda() for _ in range(2))
    k = draw(rng, 2, 3, length).float().cuda()
    first = cuda_ops.convolve_backward(dy, u, k, True)
    for got, again in zip(first, cuda_ops.convolve_backward(dy, u, k, True)):
        assert torch.equal(got, again)
    assert torch.equal(cuda_ops.convolve(u, k, True), cuda_ops.convolve(u, k, True))


@pytest.mark.parametrize("length", [1000, 16384, 40000])
def test_graph(cuda_ops, length):
    """Captured and replayed on new values."""
    rng = np.random.default_rng(7)
    u, dy = (draw(rng, 4, length, 2).float().cuda() for _ in range(2))
    k = draw(rng, 2, length).float().cuda()
    lengths = torch.tensor([length, 5, 0, length // 2]).cuda()
    run = lambda: (cuda_ops.convolve(u, k, lengths=lengths), *cuda_ops.convolve_backward(dy, u, k, lengths=lengths))
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = run()
    for x in (u, dy, k):
        x.copy_(draw(rng, *x.shape))
    graph.replay()
    for got, expected in zip(captured, run()):
        assert torch.equal(got, expected)


def test_empty(cuda_ops):
    k = torch.ones(3, 4).cuda()
    for shape in [(0, 5, 3), (2, 0, 3)]:
        u = torch.ones(shape).cuda()
        assert cuda_ops.convolve(u, k).shape == shape
        du, dk = cuda_ops.convolve_backward(u, u, k)
        assert du.shape == shape and torch.equal(dk, torch.zeros_like(k))


def test_refusals(cuda_ops, path):
    u, k = torch.ones(2, 5, 3).cuda(), torch.ones(3, 5).cuda()
    with pytest.raises(ValueError, match=r"\[rtf::convolve\] the kernel is on cpu and u on cuda:0"):
        cuda_ops.convolve(u, k.cpu())
    with pytest.raises(ValueError, match=r"the kernel has shape \[4, 5\]"):
        cuda_ops.convolve(u, torch.ones(4, 5).cuda())
    with pytest.raises(ValueError, match=r"lengths\[1\] is 6; the sequences have 5 samples"):
        cuda_ops.convolve(u, k, lengths=torch.tensor([1, 6]))
    with pytest.raises(ValueError, match=r"lengths has shape \[1\]"):
        cuda_ops.convolve(u, k, lengths=torch.tensor([1]).cuda())
    with pytest.raises(ValueError, match=r"a packed u has batch 2"):
        cuda_ops.convolve(u, k, offsets=torch.tensor([0, 5]))
    with pytest.raises(ValueError, match=r"dy has shape \[2, 4, 3\]"):
        cuda_ops.convolve_backward(u[:, :4], u, k)
    path("block")
    with pytest.raises(ValueError, match=r"length is 20000; this method takes up to 16384"):
        cuda_ops.convolve(torch.ones(1, 20000, 1).cuda(), torch.ones(1, 5).cuda())
    path("nonsense")
    with pytest.raises(ValueError, match=r"RTF_CUDA_CONVOLUTION is nonsense"):
        cuda_ops.convolve(u, k)
