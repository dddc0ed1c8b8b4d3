"""vandermonde, cauchy and the layers on them on the GPU, against the CPU in double."""

import numpy as np
import pytest
import torch
from baseline_cases import bare_weights, layer_weights, options_of

# rows, pairs, length: one of each, odd and prime ones, pairs that fill no warp, several tiles; more tiles than blocks that
# share them; more rows than a grid is high.
SIZES = [(1, 1, 1), (3, 2, 7), (2, 5, 257), (4, 32, 2048), (2, 33, 4099), (1, 100, 16384), (700, 33, 4099), (70000, 1, 3)]
# float32: up to 64 products of powers, each off by two roundings, and sums of as many terms as there are pairs. float64:
# angles t Im(log z) of up to 1.5e5 are rounded on both sides.
BOUND = {torch.complex64: 2e-5, torch.complex128: 4e-11}


def draws(seed, *shape):
    return torch.tensor(np.random.default_rng([11, seed, *shape]).standard_normal(shape))


def pair_draws(seed, *shape):
    return torch.complex(draws(seed, *shape), draws(seed + 1, *shape))


def compare(run, inputs, types):
    """run(*inputs) and its gradients: on the CPU in double, and on the GPU in each type."""

    def both(device, type):
        leaves = [x.detach().to(device).to(type if i == 0 else x.dtype).requires_grad_() for i, x in enumerate(inputs)]
        y = run(*leaves)
        weight = draws(99, *y.shape).to(device)
        (torch.view_as_real(y).sum(-1) * weight if y.is_complex() else y * weight).sum().backward()
        return [y.detach(), *(x.grad for x in leaves)]

    wanted = both("cpu", torch.complex128)
    for type in types:
        for got, exact in zip(both("cuda", type), wanted):
            # What is zero is exactly zero: at lag 0 a power has no gradient.
            error, size = (got.cpu() - exact).abs().max(), exact.abs().max()
            assert error <= BOUND[type] * size, (type, error, size)


@pytest.mark.parametrize("rows, pairs, length", SIZES)
def test_vandermonde(rows, pairs, length):
    log_z = torch.complex(-draws(2, rows, pairs).abs() / length, 3 * draws(3, rows, pairs))
    compare(lambda c, z: torch.ops.rtf.vandermonde(c, z, length), [pair_draws(0, rows, pairs), log_z], BOUND)


@pytest.mark.parametrize("rows, pairs, length", SIZES)
@pytest.mark.parametrize("sums", [1, 2, 4, 6, 9, 16])
def test_cauchy(rows, pairs, length, sums):
    points = (2 * torch.tan(torch.arange((length + 1) // 2) * torch.pi / length)).double()
    poles = 0.05 * torch.complex(torch.full((rows, pairs), -0.5).double(), 9 * draws(5, rows, pairs))
    run = lambda v, p: torch.ops.rtf.cauchy(v, p, points.to(v.device))
    compare(run, [pair_draws(0, rows, sums, pairs), poles], BOUND)


@pytest.mark.parametrize("order, step", [(64, 0.1), (64, 1e-4), (1024, 1e-3)])
def test_cauchy_between_poles_near_the_axis(order, step):
    """S4's own poles, a thousandth of their size away from points: float32 keeps its digits at every point."""
    root = torch.sqrt(2 * torch.arange(order).double() + 1)
    half = torch.outer(root, root) / 2
    frequencies = torch.linalg.eigvalsh((half.triu(1) - half.tril(-1)) * -1j)[: order // 2]
    poles = step * torch.complex(torch.full_like(frequencies, -0.5), frequencies)[None]
    points = 2 * torch.tan(torch.arange(8192).double() * torch.pi / 16384)
    v = pair_draws(7, 1, 2, order // 2)
    y = torch.ops.rtf.cauchy(v.to("cuda", torch.complex64), poles.cuda(), points.cuda()).cpu()
    exact = torch.ops.rtf.cauchy(v, poles, points)
    distances = [(1j * points - each[0, :, None]).abs() for each in (poles, poles.conj())]
    size = (v.abs()[0] @ (1 / distances[0] + 1 / distances[1]))[None]
    # Four sums, none larger than `size`: at most ten roundings of a term and one for every term that is added.
    assert ((y - exact).abs() / size).max() < 4 * (10 + order // 2) * 2**-24


def test_gradient_of_cauchy_over_many_points():
    """So many rows that a block has all the points of one: the rounding of float32 does not grow with them."""
    rows, pairs, count, some = 2100, 32, 2**17, [0, 1000, 2099]
    points = 2 * torch.tan(torch.arange(count).double() * torch.pi / (2 * count))
    v, poles = pair_draws(0, rows, 1, pairs), 0.05 * torch.complex(torch.full((rows, pairs), -0.5).double(), 9 * draws(5, rows, pairs))
    leaves = [v.to("cuda", torch.complex64).requires_grad_(), poles.cuda().requires_grad_()]
    y = torch.ops.rtf.cauchy(*leaves, points.cuda())
    dy = torch.complex(torch.ones(count), torch.ones(count)).cuda()
    y.backward(dy.expand_as(y))
    exact = [v[some].requires_grad_(), poles[some].requires_grad_()]
    torch.ops.rtf.cauchy(*exact, points).backward(dy.cpu().to(torch.complex128).expand(len(some), 1, count))
    # What the sums would be if all their terms had one sign: a sum loses at most a part of that.
    distances = [(1j * points - each[some, :, None]).abs() for each in (poles, poles.conj())]
    sizes = [sum((2 / d).sum(-1) for d in distances)[:, None], sum((2 / d**2).sum(-1) for d in distances) * v[some, 0].abs()]
    for leaf, wanted, size in zip(leaves, exact, sizes):
        # Ten roundings of a term, and one for each of the 64 terms of a thread in a tile.
        assert ((leaf.grad[some].cpu() - wanted.grad).abs() / size).max() < 8 * (10 + 64) * 2**-24


@pytest.mark.parametrize("layer, init", [("s4", "legs"), ("s4", "fourier"), ("s4d", "lin"), ("s4d", "legs")])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_long_layers(model_runner, layer, init, bidirectional):
    """A whole layer at the length of Path-X in float32: its output and the gradient of every parameter."""
    length = 16384
    options = options_of(length, layer=layer, system_init=init, order=64, bidirectional=bidirectional)
    weights = layer_weights(model_runner({"options": options, "type": "float64", "commands": [{"do": "weights"}]}, {}))
    inputs = {"x": draws(1, 2, length, 4), "gradient": draws(2, 2, length, 4), **bare_weights(4)}
    inputs |= {f"weights.blocks.0.layer.{name}": value for name, value in weights.items()}
    request = {"options": options, "commands": [{"do": "backward"}]}
    exact = model_runner({**request, "type": "float64"}, inputs)
    got = model_runner({**request, "type": "float32", "device": "cuda"}, inputs)
    names = ["output", *(name for name in exact if name.startswith("gradient.blocks.0.layer."))]
    assert len(names) > 3
    for name in names:
        # The sums' own bound, and as much again for the convolution and for its gradient.
        error, size = (got[name].double() - exact[name]).abs().max(), exact[name].abs().max()
        assert error <= 3 * BOUND[torch.complex64] * size, (name, error / size)


def grown(run, leaves):
    """The most memory that a call and its gradients took beyond what was there, and that of the result."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    y = run(*leaves)
    y.backward(torch.ones_like(y))
    for leaf in leaves:
        leaf.grad = None
    return torch.cuda.max_memory_allocated() - before, y.numel() * y.element_size()


def points_of(length):
    return torch.linspace(0, 9, length // 2, device="cuda", dtype=torch.float64)


@pytest.mark.parametrize("rows, pairs, lengths", [(128, 32, (4096, 16384)), (1, 4096, (2**18, 2**20))])
@pytest.mark.parametrize("operator", ["vandermonde", "cauchy"])
def test_memory_does_not_grow_as_order_times_length(operator, rows, pairs, lengths):
    """Four times as long: a few results more (the result, what comes back to it, the points), whatever the order."""
    v, z = pair_draws(0, rows, pairs).cuda().to(torch.complex64), pair_draws(2, rows, pairs).cuda() / lengths[1]
    z = torch.complex(-z.real.abs(), z.imag)
    leaves = [(v if operator == "vandermonde" else v[:, None].contiguous()).requires_grad_(), z.requires_grad_()]
    sizes = []
    for length in lengths:
        if operator == "vandermonde":
            sizes.append(grown(lambda c, z: torch.ops.rtf.vandermonde(c, z, length), leaves))
        else:
            sizes.append(grown(lambda v, z: torch.ops.rtf.cauchy(v, z, points_of(length)), leaves))
    (short, short_result), (long, long_result) = sizes
    more = long_result - short_result
    assert long - short < 6 * more < pairs * (lengths[1] - lengths[0]) * rows * 8


def test_the_same_bits_twice():
    c, z = pair_draws(0, 4, 9).cuda().to(torch.complex64), pair_draws(2, 4, 9).cuda() / 999
    z = torch.complex(-z.real.abs(), z.imag)
    points = torch.linspace(0, 9, 700, device="cuda", dtype=torch.float64)

    def once():
        leaves = [c.clone().requires_grad_(), z.clone().requires_grad_()]
        y = torch.ops.rtf.cauchy(leaves[0][:, None], leaves[1], points)
        (torch.ops.rtf.vandermonde(*leaves, 5000).sum() + y.abs().sum()).backward()
        return [y.detach(), *(x.grad for x in leaves)]

    assert all(torch.equal(x, y) for x, y in zip(once(), once()))
