"""step on the GPU against the CPU in double, its gradients, and a step in a graph."""

import numpy as np
import oracle
import pytest

torch = pytest.importorskip("torch")

TOLERANCE = {torch.float64: 1e-13, torch.float32: 1e-6, torch.bfloat16: 1e-2}
SIZES = [(1, 1, 1, 0), (1, 1, 1, 1), (3, 6, 2, 5), (2, 4, 4, 31), (5, 3, 1, 32), (2, 8, 1, 33), (64, 7, 7, 64), (2, 2, 1, 1000)]


def draw(sizes, dtype):
    batch, channels, groups, order = sizes
    rng = np.random.default_rng(sizes)
    f = oracle.draw_filter(rng, channels, groups, order)
    u = torch.tensor(rng.standard_normal((batch, channels))).to(dtype)
    return u, *(torch.tensor(x) for x in (f.a, f.b, f.h0, rng.standard_normal((batch, channels, order))))


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("sizes", SIZES)
def test_values(cuda_ops, sizes, dtype):
    u, a, b, h0, state = draw(sizes, dtype)
    y, end = cuda_ops.step(*(x.cuda() for x in (u, a, b, h0, state)))
    expected_y, expected_end = cuda_ops.step(u.double(), a, b, h0, state)
    assert y.dtype == dtype and end.dtype == torch.float64
    # Rounding is that of sums of `order` products.
    scale = 1 + (b.abs().max() if b.numel() else 0) * (1 + sizes[3]) ** 0.5
    assert (y.cpu().double() - expected_y).abs().max() <= TOLERANCE[dtype] * scale * 4
    assert end.shape == expected_end.shape
    if end.numel():
        assert (end.cpu() - expected_end).abs().max() <= 1e-13 * scale * 4
        assert torch.equal(end[..., 1:].cpu(), state[..., :-1])


@pytest.mark.parametrize("sizes", SIZES[:4])
def test_gradcheck(cuda_ops, sizes):
    inputs = [x.cuda().requires_grad_() for x in draw(sizes, torch.float64)]
    assert torch.autograd.gradcheck(cuda_ops.step, inputs, nondet_tol=0.0)


def test_any_strides(cuda_ops):
    u, a, b, h0, state = (x.cuda() for x in draw((5, 6, 2, 4), torch.float32))
    y, end = cuda_ops.step(u, a, b, h0, state)
    turned = lambda x: x.transpose(0, 1).contiguous().transpose(0, 1)
    other_y, other_end = cuda_ops.step(turned(u), a, turned(b), h0, turned(state))
    assert torch.equal(y, other_y) and torch.equal(end, other_end)


def test_in_a_graph(cuda_ops):
    u, a, b, h0, state = (x.cuda() for x in draw((4, 8, 2, 20), torch.float32))
    kept = state.clone()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y, end = cuda_ops.step(u, a, b, h0, state)
        state.copy_(end)
    expected = kept
    for _ in range(30):
        u.normal_()
        expected_y, expected = cuda_ops.step(u, a, b, h0, expected)
        graph.replay()
        assert torch.equal(y, expected_y) and torch.equal(state, expected)


def test_refusals(cuda_ops):
    u, a, b, h0, state = (x.cuda() for x in draw((2, 4, 2, 3), torch.float32))
    with pytest.raises(ValueError, match=r"\[rtf::step\] u has shape \[2, 3\]; \(batch, 4\) is needed"):
        cuda_ops.step(u[:, :3], a, b, h0, state)
    with pytest.raises(ValueError, match=r"\[rtf::step\] the state is on cpu and u on cuda:0"):
        cuda_ops.step(u, a, b, h0, state.cpu())
