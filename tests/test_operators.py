"""torch.ops.rtf: values against SciPy and direct sums, gradcheck, opcheck, and what is refused."""

import warnings

import numpy as np
import oracle
import pytest

torch = pytest.importorskip("torch")

# batch, length, channels, denominators, order: one sample, odd, prime and even lengths, orders 0, below and past the length.
SIZES = [(1, 1, 1, 1, 0), (2, 1, 2, 2, 3), (2, 7, 4, 2, 3), (3, 16, 6, 6, 5), (2, 13, 2, 1, 20)]
GENERATOR = (5, 3)


def tensors(sizes, seed=0):
    """Coefficients of a well-conditioned filter, u, a state and kernels, float64 with gradients."""
    batch, length, channels, groups, order = sizes
    rng = np.random.default_rng([seed, *sizes])
    f = oracle.draw_filter(rng, channels, groups, order)
    draw = lambda *shape: torch.tensor(rng.standard_normal(shape), requires_grad=True)
    coefficients = [torch.tensor(x, requires_grad=True) for x in (f.a, f.b, f.h0)]
    return (f, *coefficients, draw(batch, length, channels), draw(batch, channels, order), draw(channels, length + 2),
            draw(2, channels, length + 2), torch.tensor(rng.integers(0, length + 1, batch)))  # fmt: skip


def layouts(u):
    """The same values in the layouts that a transpose, a slice and an expansion make."""
    x = u.detach()
    wide = torch.zeros(*x.shape[:2], 2 * x.shape[2], dtype=x.dtype)
    wide[..., ::2] = x
    return [x, x.transpose(1, 2).contiguous().transpose(1, 2), x.transpose(0, 1).contiguous().transpose(0, 1), wide[..., ::2]]


def close(actual, expected, kappa=1.0):
    oracle.assert_close(actual.detach().numpy(), expected, kappa)


def bidirectional(u, forward, backward):
    """The direct sums: j <= t through the forward kernel, and sum_{j>t} k_b[j-t-1] u_j."""
    y = oracle.convolve(forward, u)
    for t in range(u.shape[1]):
        for j in range(t + 1, u.shape[1]):
            y[:, t] += backward[:, j - t - 1] * u[:, j]
    return y


@pytest.mark.parametrize("sizes", SIZES)
def test_values(torch_ops, sizes):
    f, a, b, h0, u, state, k, k2, lengths = tensors(sizes)
    length = u.shape[1]
    kappa = oracle.condition(f, length + f.order + 1)
    close(torch_ops.kernel(a, b, h0, length), oracle.wrapped_kernel(f, length), kappa)
    close(torch_ops.exact_kernel(a, b, h0, length), oracle.exact_kernel(f, length), kappa)
    x = u.detach().numpy()
    y, end = torch_ops.filter(u, a, b, h0, state)
    expected, expected_end = oracle.filter_signal(f, x, state.detach().numpy())
    close(y, expected, kappa)
    close(end, expected_end, kappa)
    masked = x * (np.arange(length)[None, :, None] < lengths.numpy()[:, None, None])
    for view in layouts(u):
        kernel, both = k.detach().numpy(), k2.detach().numpy()
        close(torch_ops.convolve(view, k.detach()), oracle.convolve(kernel, x))
        close(torch_ops.convolve(view, k2.detach(), True), bidirectional(x, *both))
        close(torch_ops.convolve(view, k2.detach(), True, lengths=lengths), bidirectional(masked, *both))
        y, used = torch_ops.wrapped_convolve(view, a, b, h0, length)
        assert torch.equal(used, torch_ops.kernel(a, b, h0, length)) and not used.requires_grad
        close(y.detach(), oracle.convolve(used.numpy(), x))
        kept, again, rows = torch_ops.wrapped_convolve_rows(view, a, b, h0, length)
        assert kept.is_contiguous() and torch.equal(kept, y) and torch.equal(again, used) and not again.requires_grad
        assert rows.transpose(1, 2).is_contiguous() and torch.equal(rows, view) and not rows.requires_grad


@pytest.mark.parametrize("sizes", SIZES)
def test_gradients(torch_ops, sizes):
    _, a, b, h0, u, state, k, k2, lengths = tensors(sizes)
    length, check = u.shape[1], torch.autograd.gradcheck
    for op in (torch_ops.kernel, torch_ops.exact_kernel, torch_ops.correct, torch_ops.wrap):
        assert check(lambda *c: op(*c, length), (a, b, h0))
    for view in layouts(u):
        x = view.requires_grad_()
        assert check(torch_ops.convolve, (x, k))
        assert check(lambda x, k: torch_ops.convolve(x, k, True), (x, k2))
        assert check(lambda x, k: torch_ops.convolve(x, k, True, lengths=lengths), (x, k2))
        assert check(lambda *z: torch_ops.wrapped_convolve(*z, length, lengths=lengths)[0], (x, a, b, h0))
        assert check(lambda *z: torch_ops.wrapped_convolve_rows(*z, length, lengths=lengths)[0], (x, a, b, h0))
        assert check(torch_ops.filter, (x, a, b, h0, state))
        assert check(torch_ops.filter, (x, a, b, h0))
        assert check(lambda *z: torch_ops.prefill(*z, lengths=lengths), (x, a, b, h0, state))
    assert check(torch_ops.step, (u[:, 0], a, b, h0, state))
    sigma = torch.rand(a.shape[0], dtype=torch.float64, requires_grad=True)
    if a.shape[1] > 0:
        assert check(torch_ops.montel, (a, sigma))
        assert check(torch_ops.montel_paper, (a,))
    generator = torch.tensor(GENERATOR)
    gates = torch.randn(*u.shape[:2], 2 * u.shape[2], dtype=torch.float64, requires_grad=True)
    for tied in (False, True):
        assert check(lambda x: torch_ops.dropout(x, 0.3, generator, 1, tied), (u,))
        assert check(lambda x: torch_ops.gelu(x, 0.3, generator, 1, tied), (u,))
        assert check(lambda z: torch_ops.glu(z, None, 0.3, generator, 1, tied), (gates,))
        assert check(lambda z, x: torch_ops.glu(z, x, 0.3, generator, 1, tied), (gates, u))
        offset = torch.randn(gates.shape[2], dtype=torch.float64, requires_grad=True)
        assert check(lambda z, x, b: torch_ops.glu(z, x, 0.3, generator, 1, tied, bias=b), (gates, u, offset))
        matrix = torch.randn(gates.shape[2], u.shape[2], dtype=torch.float64, requires_grad=True)
        for y in layouts(u):
            assert check(lambda *z: torch_ops.gate(*z, 0.3, generator, 1, tied)[0], (y.requires_grad_(), matrix, offset))
    if u.shape[0] * u.shape[1] > 1:  # of one position the variance is zero
        weight, bias = b.sum(1).detach().requires_grad_(), h0
        assert check(lambda *z: torch_ops.batch_norm(*z)[0], (u, weight, bias))
    if u.shape[2] > 1:
        assert check(lambda *z: torch_ops.layer_norm(*z)[0], (u, b.sum(1).detach().requires_grad_(), h0))
    tokens = torch.arange(u.shape[0] * u.shape[1]).view(u.shape[:2]) % k.shape[0]
    assert check(lambda w: torch_ops.embedding(tokens, w), (k,))
    assert check(torch_ops.spread, (u[:, :, 0].detach().requires_grad_(), k[:, 0].detach().requires_grad_(), h0))


def test_packed_sequences_are_on_their_own(torch_ops):
    _, a, b, h0, u, state, k, k2, _ = tensors((1, 17, 3, 3, 4))
    offsets = torch.tensor([0, 5, 5, 6, 17])
    states = torch.randn(4, 3, 4, dtype=torch.float64, requires_grad=True)
    y = torch_ops.convolve(u, k2, True, offsets=offsets)
    filtered, end = torch_ops.filter(u, a, b, h0, states, offsets=offsets)
    for s in range(4):
        first, last = offsets[s], offsets[s + 1]
        if last > first:
            torch.testing.assert_close(y[:, first:last], torch_ops.convolve(u[:, first:last], k2, True), rtol=1e-12, atol=1e-12)
        alone, state = torch_ops.filter(u[:, first:last], a, b, h0, states[s : s + 1])
        torch.testing.assert_close(filtered[:, first:last], alone, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(end[s : s + 1], state, rtol=1e-12, atol=1e-12)
    assert torch.autograd.gradcheck(lambda u, k: torch_ops.convolve(u, k, True, offsets=offsets), (u, k2))
    assert torch.autograd.gradcheck(lambda *z: torch_ops.filter(*z, offsets=offsets), (u, a, b, h0, states))


def test_prefill_with_lengths_is_stepping(torch_ops):
    _, a, b, h0, u, state, _, _, _ = tensors((3, 9, 4, 2, 3))
    lengths = torch.tensor([9, 0, 4])
    y, end = torch_ops.prefill(u, a, b, h0, state, lengths=lengths)
    for s, length in enumerate(lengths):
        x = state[s : s + 1]
        for t in range(length):
            out, x = torch_ops.step(u[s : s + 1, t], a, b, h0, x)
            torch.testing.assert_close(y[s : s + 1, t], out, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(end[s : s + 1], x, rtol=1e-12, atol=1e-12)
        assert (y[s, length:] == 0).all()


@pytest.mark.parametrize("sizes", SIZES[2:4])
def test_opcheck(torch_ops, sizes):
    _, a, b, h0, u, state, k, k2, lengths = tensors(sizes)
    length, generator = u.shape[1], torch.tensor(GENERATOR)
    sigma = torch.rand(a.shape[0], dtype=torch.float64, requires_grad=True)
    turned = layouts(u)[1].requires_grad_()
    offsets = torch.tensor([0, 2, length])
    gates = torch.randn(*u.shape[:2], 2 * u.shape[2], dtype=torch.float64, requires_grad=True)
    turned_gates = layouts(gates)[1].requires_grad_()
    gate = [x.detach().requires_grad_() for x in (gates[0, 0, :, None] * h0, gates[0, 0])]
    calls = [
        ("kernel", (a, b, h0, length), {}),
        ("exact_kernel", (a, b, h0, length), {}),
        ("convolve", (u, k), {}),
        ("convolve", (turned, k2, True), {}),
        ("convolve", (u, k2, True), {"lengths": lengths}),
        ("convolve", (u[:1], k), {"offsets": offsets}),
        ("wrapped_convolve", (turned, a, b, h0, length), {}),
        ("wrapped_convolve", (u, torch.cat((a, b)).detach().requires_grad_(), None, h0, length + 3), {"lengths": lengths}),
        ("wrapped_convolve", (u, torch.cat((a, a)), torch.cat((b, b)), torch.cat((h0, h0)), length, True), {}),
        ("wrapped_convolve_rows", (u, a, b, h0, length), {}),
        ("filter", (u, a, b, h0, state), {}),
        ("filter", (turned, a, b, h0), {}),
        ("step", (u[:, 0].detach().requires_grad_(), a, b, h0, state), {}),
        ("prefill", (u, a, b, h0, state), {}),
        ("prefill", (u, a, b, h0, state), {"lengths": lengths}),
        ("lfilter", (u.transpose(1, 2), a, b, h0, state, True), {}),
        ("lfilter", (u[0, :, 0], sigma[:1] + 1, b[0]), {}),
        ("transposed_filter", (u, a, b, h0, state), {}),
        ("transposed_filter", (turned, a, b, h0), {}),
        ("transposed_filter", (u, a, b, h0, state, False), {}),
        ("transposed_filter", (u, a, b, h0, None, False), {}),
        ("freqz", (a, b, h0, torch.linspace(0, 3, 5)), {}),
        ("group_delay", (a, b, h0, torch.linspace(0, 3, 5)), {}),
        ("rational", (sigma[:, None] + 1, b), {}),
        ("monic", (a + 2, b, b.shape[0]), {}),
        ("monic", ((a + 2).t().contiguous().t(), b, b.shape[0]), {}),
        ("monic", (a[:, :1] + 2, b, b.shape[0]), {}),
        ("monic", (a[0] + 2, b[0, :1], b.shape[0]), {}),
        ("release_numerator", (a, b, length), {}),
        ("release_convolve", (u, k2[..., :length]), {}),
        ("correct", (a, b, h0, length), {}),
        ("wrap", (a, b, h0, length), {}),
        ("montel", (a, sigma), {}),
        ("montel_paper", (a,), {}),
        ("dropout", (u, 0.3, generator, 1), {}),
        ("dropout", (u, 0.3, generator, 1, True), {}),
        ("dropout", (turned, 0.3, generator, 1), {}),
        ("gelu", (turned, 0.3, generator, 1), {}),
        ("glu", (k2[0, :, : 2 * (length // 2)].detach().requires_grad_(), None, 0.3, generator, 1), {}),
        ("glu", (gates, u, 0.3, generator, 1), {"bias": gates[0, 0].detach().requires_grad_()}),
        ("gate", (u, *gate, 0.3, generator, 1), {}),
        ("gate", (turned, *gate, 0.3, generator, 1, True), {}),
        ("length_last", (u,), {}),
        ("channels_last", (turned,), {}),
        ("batch_norm", (u, h0, h0), {}),
        ("batch_norm", (u, h0, h0), {"running_mean": torch.zeros_like(h0), "running_var": torch.ones_like(h0)}),
        ("glu", (turned_gates, turned, 0.3, generator, 1), {}),
        ("batch_norm", (turned, h0, h0), {"dtype": torch.bfloat16}),
        ("layer_norm", (turned, h0, h0), {}),
        ("layer_norm", (u, h0, h0), {"dtype": torch.bfloat16}),
        ("spread", (u[:, :, 0].detach(), h0, h0), {}),
        ("embedding", (torch.tensor([[1, 0, 1]]), u[0].detach().requires_grad_()), {}),
    ]
    for name, arguments, options in calls:
        torch.library.opcheck(getattr(torch_ops, name).default, arguments, options)


@pytest.mark.parametrize("sizes", SIZES)
def test_scipy_states_without_a_kernel_of_their_own(torch_ops, sizes):
    """What other devices compose is what the CPU computes."""
    f, a, b, h0, u, state, *_ = (x.detach() if isinstance(x, torch.Tensor) else x for x in tensors(sizes))
    operator = torch_ops.transposed_filter.default
    composed = lambda *args: operator._op_dk(torch._C.DispatchKey.CompositeExplicitAutograd, *args)
    kappa = oracle.condition(f, u.shape[1] + f.order + 1)
    for zi in (state, None):
        for return_zf in (True, False):
            for got, wanted in zip(composed(u, a, b, h0, zi, return_zf), operator(u, a, b, h0, zi, return_zf)):
                assert got.shape == wanted.shape and got.dtype == wanted.dtype
                if wanted.numel() > 0:
                    close(got, wanted.numpy(), kappa)
    for wrong in (state[..., :-1], state[:, :1].expand(-1, f.channels + 1, -1), state.float()):
        for call in (composed, operator):
            if wrong.shape != state.shape or wrong.dtype != state.dtype:
                with pytest.raises(ValueError, match=r"\[rtf::transposed_filter\] zi has shape"):
                    call(u, a, b, h0, wrong, True)


def test_memory_order(torch_ops):
    """Results and gradients have the samples of a row side by side where the input has, and are contiguous else."""
    _, a, b, h0, u, _, k, _, _ = tensors((2, 7, 4, 2, 3))
    generator = torch.tensor(GENERATOR)
    operators = [
        lambda x: torch_ops.convolve(x, k),
        lambda x: torch_ops.filter(x, a, b, h0)[0],
        lambda x: torch_ops.dropout(x, 0.3, generator, 1),
        lambda x: torch_ops.gelu(x, 0.3, generator, 1),
        lambda x: torch_ops.glu(x, None, 0.3, generator, 1),
        lambda x: torch_ops.gate(x, torch.cat((b @ b.T, b @ b.T)).to(x.dtype), torch.cat((h0, h0)), 0.3, generator, 1)[0],
        lambda x: torch_ops.batch_norm(x, h0, h0)[0],
        lambda x: torch_ops.layer_norm(x, h0, h0)[0],
    ]
    for number, operator in enumerate(operators):
        expected = operator(u)
        for x in layouts(u):
            for dtype in (torch.float64, torch.bfloat16):
                leaf = x.to(dtype).detach().requires_grad_()
                y = operator(leaf)
                (dx,) = torch.autograd.grad(y, leaf, torch.ones_like(y))
                for got in (y, dx):
                    turned = got.transpose(1, 2) if leaf.stride(1) == 1 else got
                    assert turned.is_contiguous(), f"{number}: {got.stride()} of {leaf.stride()}"
            torch.testing.assert_close(operator(x), expected, rtol=1e-12, atol=1e-12)


def turns_memory(ops, x):
    """length_last and channels_last of x: the same numbers in memory of their own, in the order that the name says, and
    gradients in the other order."""
    kinds = {ops.length_last: lambda y: y.transpose(1, 2), ops.channels_last: lambda y: y}
    for (turn, rows), (_, back) in zip(kinds.items(), reversed(kinds.items())):
        leaf = x.detach().requires_grad_()
        y = turn(leaf)
        assert torch.equal(y, leaf) and rows(y).is_contiguous() and y.data_ptr() != leaf.data_ptr()
        (dx,) = torch.autograd.grad(y, leaf, y.detach())
        assert torch.equal(dx, leaf) and back(dx).is_contiguous()
        signs = turn(x.detach() > 0)
        assert torch.equal(signs, leaf > 0) and rows(signs).is_contiguous()


@pytest.mark.parametrize("sizes", SIZES)
def test_turned_memory(torch_ops, sizes):
    u = tensors(sizes)[4]
    for x in [x for dtype in (torch.float32, torch.bfloat16, torch.float16) for x in layouts(u.to(dtype))]:
        turns_memory(torch_ops, x)
    for x in layouts(u):
        turns_memory(torch_ops, x)
        for turn in (torch_ops.length_last, torch_ops.channels_last):
            assert torch.autograd.gradgradcheck(turn, x.requires_grad_())


def test_nan_is_not_hidden(torch_ops):
    x = torch.randn(2, 5, 3)
    x[1, 2, 1] = float("nan")
    y, mean, variance = torch_ops.batch_norm(x, torch.ones(3), torch.zeros(3))
    assert y[..., 1].isnan().all() and mean.isnan().sum() == 1 and variance.isnan().sum() == 1
    assert y.isnan().sum() == 10


def test_torch_compile(torch_ops):
    def layer(u, a, b, h0):
        return torch_ops.convolve(u, torch_ops.kernel(a, b, h0, u.shape[1])).square().sum()

    def padded(u, a, b, h0):
        y, end = torch_ops.prefill(u, a, b, h0, lengths=torch.full((u.shape[0],), 5))
        return y.square().sum() + end.sum()

    for function in (layer, padded):
        compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
        for length in (7, 12, 13):
            _, a, b, h0, u, *_ = tensors((2, length, 4, 2, 3))
            expected = torch.autograd.grad(function(u, a, b, h0), (u, a, b, h0))
            for got, want in zip(torch.autograd.grad(compiled(u, a, b, h0), (u, a, b, h0)), expected):
                torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)


def differentiates_twice(operator, inputs):
    """Second derivatives are right, and where a gradient is composed to have them it is the one without."""
    assert torch.autograd.gradgradcheck(operator, inputs)
    results = operator(*inputs)
    results = results if isinstance(results, tuple) else (results,)
    weights = [torch.randn_like(x) for x in results]
    fast = torch.autograd.grad(results, inputs, weights, retain_graph=True)
    for got, want in zip(torch.autograd.grad(results, inputs, weights, create_graph=True), fast):
        torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-10)


def test_rows_in_place_of_samples(torch_ops):
    """What autograd keeps of `wrapped_convolve_rows` is no u, and yet all that becomes of u goes as without them."""
    _, a, b, h0, u, *_ = tensors(SIZES[2])
    length = u.shape[1]
    pair = torch_ops.wrapped_convolve, torch_ops.wrapped_convolve_rows

    def agree(call):
        wanted, got = (call(lambda *z: operator(*z, length)[0]) for operator in pair)
        torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-12)

    def first_graph_freed(operator, x):
        gradient, = torch.autograd.grad(operator(x, a, b, h0).sum(), a, create_graph=True, retain_graph=False)
        return torch.autograd.grad(gradient.square().sum(), b)

    agree(lambda operator: first_graph_freed(operator, u.detach()))
    agree(lambda operator: first_graph_freed(operator, u.detach().requires_grad_()))
    loss = lambda operator: lambda x: operator(x, a.detach(), b.detach(), h0).square().sum()  # some of them frozen
    twice = lambda operator: torch.func.grad(lambda x: torch.func.grad(loss(operator))(x).square().sum())
    agree(lambda operator: twice(operator)(u.detach()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that vmap calls one after the other
        agree(lambda operator: torch.func.vmap(twice(operator))(u.detach().unsqueeze(1)))
    agree(lambda operator: torch.autograd.grad(torch.utils.checkpoint.checkpoint(operator, u, a, b, h0, use_reentrant=False).sum(), (u, a)))
    packed = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: packed.append(x) or len(packed) - 1, lambda i: packed[i]):
        *_, rows = torch_ops.wrapped_convolve_rows(u, a, b, h0, length)
    assert any(x.data_ptr() == rows.data_ptr() for x in packed) and all(x.data_ptr() != u.data_ptr() for x in packed)
    agree(lambda operator: torch.autograd.grad(operator(u, a, b, h0).sum(), (u, a)))


@pytest.mark.parametrize("sizes", SIZES)
def test_second_derivatives(torch_ops, sizes):
    _, a, b, h0, u, state, k, k2, lengths = tensors(sizes)
    differentiates_twice(torch_ops.convolve, (u, k))
    differentiates_twice(lambda u, k: torch_ops.convolve(u, k, True, lengths=lengths), (u, k2))
    for name in ("kernel", "exact_kernel", "correct", "wrap"):
        for length in (1, 5, u.shape[1]):
            differentiates_twice(lambda *c: getattr(torch_ops, name)(*c, length), (a, b, h0))
    both = lambda u, a, b, h0: torch_ops.wrapped_convolve(u, torch.cat((a, -a, b, b)), None, torch.cat((h0, h0)), 7, True)[0]
    differentiates_twice(lambda *z: torch_ops.wrapped_convolve(*z, 5)[0], (u, a, b, h0))
    differentiates_twice(both, (u, a, b, h0))
    differentiates_twice(lambda *z: torch_ops.wrapped_convolve_rows(*z, 5)[0], (u, a, b, h0))
    gate = [torch.randn(2 * u.shape[2], *size, dtype=torch.float64, requires_grad=True) for size in ((u.shape[2],), ())]
    for x in layouts(u):
        differentiates_twice(lambda *z: torch_ops.gate(*z, 0.3, torch.tensor(GENERATOR), 1)[0], (x.detach().requires_grad_(), *gate))
    differentiates_twice(torch_ops.filter, (u, a, b, h0, state))
    differentiates_twice(lambda *z: torch_ops.filter(*z)[0], (u, a, b, h0))
    differentiates_twice(lambda *z: torch_ops.filter(*z)[1], (u, a, b, h0))
    differentiates_twice(lambda *z: torch_ops.filter(*z, lengths=lengths), (u, a, b, h0, state))
    differentiates_twice(torch_ops.step, (u[:, 0].detach().requires_grad_(), a, b, h0, state))


def test_second_derivatives_of_packed_sequences(torch_ops):
    _, a, b, h0, u, *_ = tensors((1, 17, 4, 2, 3))
    states = torch.randn(4, 4, 3, dtype=torch.float64, requires_grad=True)
    for offsets in ([0, 5, 5, 6, 17], [0, 0, 0, 0, 17]):
        run = lambda *z: torch_ops.filter(*z, offsets=torch.tensor(offsets))
        differentiates_twice(run, (u, a, b, h0, states))


def test_second_derivatives_around_the_layer(torch_ops):
    _, _, b, h0, u, _, k, *_ = tensors((2, 7, 4, 2, 3))
    generator = torch.tensor(GENERATOR)
    leaf = lambda *shape: torch.randn(*shape, dtype=torch.float64, requires_grad=True)
    gates, offset, weight = leaf(2, 7, 8), leaf(8), leaf(4)
    for tied in (False, True):
        differentiates_twice(lambda x: torch_ops.dropout(x, 0.3, generator, 1, tied), (u,))
        differentiates_twice(lambda x: torch_ops.gelu(x, 0.3, generator, 1, tied), (u,))
        differentiates_twice(lambda z, x, b: torch_ops.glu(z, x, 0.3, generator, 1, tied, bias=b), (gates, u, offset))
        differentiates_twice(lambda z: torch_ops.glu(z, None, 0.3, generator, 1, tied), (gates,))
    differentiates_twice(lambda *z: torch_ops.batch_norm(*z)[0], (u, weight, h0))
    differentiates_twice(lambda *z: torch_ops.layer_norm(*z)[0], (u, weight, h0))
    tokens = torch.tensor([[0, 1, 1], [3, 0, 1]])
    differentiates_twice(lambda w: torch_ops.embedding(tokens, w), (k,))
    differentiates_twice(torch_ops.spread, (leaf(2, 7), weight, h0))


def test_third_derivatives(torch_ops):
    """The composed gradient is made of the operators themselves, so it goes on."""
    _, a, b, h0, u, *_ = tensors((1, 5, 2, 1, 2))
    for run in (lambda *z: torch_ops.filter(*z)[0], lambda u, *c: torch_ops.kernel(*c, 5)):
        second = lambda *z: torch.autograd.grad(run(*z).pow(2).sum(), z[1:], create_graph=True)
        assert torch.autograd.gradgradcheck(second, (u, a, b, h0))


def test_no_second_derivatives_is_a_clear_error(torch_ops):
    poles = torch.tensor([[-0.1 + 1j, -0.2 + 2j]], dtype=torch.complex128, requires_grad=True)
    results = {
        "vandermonde": lambda: torch_ops.vandermonde(poles, poles, 9),
        "cauchy": lambda: torch_ops.cauchy(poles.expand(1, 4, 2), poles, torch.tensor([1.5, 3.0], dtype=torch.float64)),
    }
    for name, call in results.items():
        (gradient,) = torch.autograd.grad(call().abs().square().sum(), poles, create_graph=True)
        with pytest.raises(RuntimeError, match=f"derivative for rtf::{name}_backward is not implemented"):
            torch.autograd.grad(gradient.abs().sum(), poles)


@pytest.mark.parametrize("dtype, bound", [(torch.float32, 1e-5), (torch.bfloat16, 1e-2)])
def test_less_precise_samples(torch_ops, dtype, bound):
    """Samples in float32 and bfloat16; bfloat16 is rounded on the way in and out, nowhere between."""
    _, a, b, h0, u, state, *_ = tensors((2, 50, 4, 2, 3))
    y_gradient = torch.randn(u.shape, dtype=torch.float64)

    def run(u, a, b, h0, y_gradient):
        inputs = [x.detach().clone().requires_grad_() for x in (u, a, b, h0)]
        y = torch_ops.convolve(inputs[0], torch_ops.kernel(*inputs[1:], 50))
        z, end = torch_ops.filter(*inputs, state.detach())
        assert y.dtype == z.dtype == inputs[0].dtype and end.dtype == torch.float64
        return [y, z, end, *torch.autograd.grad((y * y_gradient).sum() + (z * y_gradient).sum(), inputs)]

    rounded = [x.detach().to(dtype) for x in (u, a, b, h0, y_gradient)]
    for got, want in zip(run(*rounded), run(*(x.double() for x in rounded))):
        assert (got.double() - want).abs().max() <= bound * want.abs().max()


def test_masks_of_dropout(torch_ops):
    """Right rate and scale, one draw for all positions when tied, the same for the same counters, others for others."""
    ones, generator = torch.ones(8, 300, 40), torch.tensor(GENERATOR)
    mask = torch_ops.dropout(ones, 0.25, generator, 2)
    assert set(mask.unique().tolist()) == {0.0, np.float32(1 / 0.75)}
    # 96,000 draws: four standard deviations of a rate are 4 sqrt(p (1 - p) / 96,000) = 0.0056.
    assert abs((mask == 0).float().mean() - 0.25) < 0.0056
    assert torch.equal(mask, torch_ops.dropout(ones, 0.25, generator, 2))
    for other in (torch_ops.dropout(ones, 0.25, torch.tensor([5, 4]), 2), torch_ops.dropout(ones, 0.25, torch.tensor([6, 3]), 2),
                  torch_ops.dropout(ones, 0.25, generator, 3)):  # fmt: skip
        # Independent masks agree where both keep or both drop.
        assert abs((mask == other).float().mean() - (0.75**2 + 0.25**2)) < 0.0063
    tied = torch_ops.dropout(ones, 0.25, generator, 2, True)
    assert torch.equal(tied, tied[:, :1].expand_as(tied)) and 0 < (tied[:, 0] == 0).sum() < 320


def test_activations_are_torchs(torch_ops):
    """Without dropout, GELU, GLU and batch norm are PyTorch's own."""
    x, z = torch.randn(3, 50, 24, dtype=torch.float64), torch.randn(3, 50, 48, dtype=torch.float64)
    weight, bias, generator = *torch.randn(2, 24, dtype=torch.float64), torch.tensor(GENERATOR)
    functional = torch.nn.functional
    for dtype, bound in ((torch.float64, 1e-14), (torch.float32, 1e-6)):
        cast = lambda *tensors: [t.to(dtype) for t in tensors]
        pairs = [
            (torch_ops.gelu(*cast(x), 0.0, generator, 0), functional.gelu(x)),
            (torch_ops.glu(*cast(z, x), 0.0, generator, 0), x + functional.glu(z, -1)),
            (torch_ops.layer_norm(*cast(x, weight, bias))[0], functional.layer_norm(x, (24,), weight, bias)),
            (torch_ops.batch_norm(*cast(x, weight, bias))[0],
             functional.batch_norm(x.transpose(1, 2), None, None, weight, bias, True).transpose(1, 2)),
        ]  # fmt: skip
        for got, expected in pairs:
            assert got.dtype == dtype
            torch.testing.assert_close(got.double(), expected, rtol=bound, atol=4 * bound)


def test_types_inside_a_block(torch_ops):
    """bfloat16 inside, float32 from block to block: norms write the one, the gate the other."""
    x, weight, generator = torch.randn(3, 20, 8), torch.rand(8), torch.tensor(GENERATOR)
    z = torch.randn(3, 20, 16).bfloat16()
    y = torch_ops.glu(z, x, 0.0, generator, 0, bias=torch.ones(16))
    torch.testing.assert_close(y, x + torch.nn.functional.glu(z.float() + 1, -1), rtol=1e-6, atol=1e-6)
    for norm in (torch_ops.batch_norm, torch_ops.layer_norm):
        assert torch.equal(norm(x, weight, weight, dtype=torch.bfloat16)[0], norm(x, weight, weight)[0].bfloat16())


def test_norms_add_a_residual_and_move_averages(torch_ops):
    x, dy, residual = torch.randn(3, 4, 20, 8, dtype=torch.float64)
    weight, bias, mean, variance = torch.rand(4, 8, dtype=torch.float64)
    expected = mean.lerp(x.mean((0, 1)), 0.3), variance.lerp(x.var((0, 1)), 0.3)
    statistics = torch_ops.batch_norm(x, weight, bias, running_mean=mean, running_var=variance, momentum=0.3)
    torch.testing.assert_close((mean, variance), expected, rtol=1e-12, atol=1e-12)
    for norm, found in (("batch_norm", statistics), ("layer_norm", torch_ops.layer_norm(x, weight, bias))):
        backward = getattr(torch_ops, norm + "_backward")
        plain, *rest = backward(dy, x, weight, *found[1:])
        added, *same = backward(dy, x, weight, *found[1:], more_dx=residual)
        torch.testing.assert_close(added, plain + residual, rtol=1e-12, atol=1e-12)
        assert all(torch.equal(a, b) for a, b in zip(rest, same))
        none = torch.zeros(0, dtype=torch.float64)
        for gradient in (dy, dy.clone().requires_grad_()):  # the second by differentiable operations
            with pytest.raises(ValueError, match=rf"\[rtf::{norm}_backward\] the mean has shape"):
                backward(gradient, x, weight, none, none)


def test_a_generator_moved_on_before_the_gradient_is_refused(torch_ops):
    x, generator = torch.ones(2, 5, 8, requires_grad=True), torch.tensor(GENERATOR)
    y = torch_ops.gelu(x, 0.5, generator, 0)
    generator[1] += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_threads_change_nothing(torch_ops):
    _, a, b, h0, u, state, k, k2, _ = tensors((5, 300, 24, 4, 7))

    def run():
        y = torch_ops.convolve(u, k2, True)
        z, end = torch_ops.filter(u, a, b, h0, state)
        kernel = torch_ops.kernel(a, b, h0, 300)
        loss = y.square().sum() + z.square().sum() + end.sum() + kernel.square().sum()
        return [y, z, end, kernel, *torch.autograd.grad(loss, (u, a, b, h0, state, k2))]

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = run()
        torch.set_num_threads(2)
        assert all(torch.equal(x, y) for x, y in zip(alone, run()))
    finally:
        torch.set_num_threads(before)


def test_refusals(torch_ops):
    _, a, b, h0, u, state, k, k2, _ = tensors((2, 7, 4, 2, 3))
    nan = b.detach().clone()
    nan[1, 2] = float("nan")
    outside = torch.tensor([[-3.0]], dtype=torch.float64)
    one = torch.ones(1, 1, dtype=torch.float64)
    table = [
        (lambda: torch_ops.convolve(u, k[:3]), r"\[rtf::convolve\] the kernel has shape \[3, 9\]; \(4, samples\)"),
        (lambda: torch_ops.convolve(u[0], k), r"\[rtf::convolve\] u has shape \[7, 4\]"),
        (lambda: torch_ops.convolve(u, k, True), r"\[rtf::convolve\] the kernel has shape \[4, 9\]; \(2, 4, samples\)"),
        (lambda: torch_ops.convolve(u.half(), k), r"\[rtf::convolve\] Half numbers"),
        (lambda: torch_ops.convolve(u, k.half()), r"\[rtf::convolve\] Half numbers"),
        (lambda: torch_ops.kernel(a.to(torch.complex128), b, h0, 9), r"\[rtf::kernel\] ComplexDouble numbers"),
        (lambda: torch_ops.convolve(u, k, lengths=torch.tensor([1])), r"\[rtf::convolve\] lengths has 1 values; the batch has 2"),
        (lambda: torch_ops.convolve(u, k, lengths=torch.tensor([1, -1])), r"lengths holds -1"),
        (lambda: torch_ops.convolve(u, k, lengths=torch.tensor([1, 8])), r"lengths\[1\] is 8; the sequences have 7"),
        (lambda: torch_ops.convolve(u, k, lengths=torch.tensor([True, True])), r"type Bool; one dimension of integers"),
        (lambda: torch_ops.prefill(u, a, b, h0, lengths=torch.tensor([1, 8])), r"\[rtf::filter\] lengths\[1\] is 8"),
        (lambda: torch_ops.convolve(u[:1], k, offsets=torch.tensor([0, 3])), r"offsets are \[0, 3\]; they must rise"),
        (lambda: torch_ops.convolve(u[:1], k, offsets=torch.tensor([0, 2**62, 7])), r"they must rise from 0 to the length 7"),
        (lambda: torch_ops.convolve(u[:1], k, offsets=torch.tensor([], dtype=torch.long)), r"they must rise"),
        (lambda: torch_ops.kernel(a, b[:, :2], h0, 9), r"\[rtf::kernel\] a, b, h0 have shapes \[2, 3\], \[4, 2\], \[4\]"),
        (lambda: torch_ops.kernel(a, nan, h0, 9), r"\[rtf::kernel\] .*not finite"),
        (lambda: torch_ops.kernel(a, b, h0, 0), r"\[rtf::kernel\] length is 0"),
        (lambda: torch_ops.kernel(a, b, h0, -3), r"\[rtf::kernel\] length is -3"),
        (lambda: torch_ops.correct(a, b, h0, -1), r"\[rtf::correct\] length is -1"),
        (lambda: torch_ops.wrap(a, b, h0, -1), r"\[rtf::wrap\] length is -1"),
        (lambda: torch_ops.kernel_backward(k[0], a, b, h0), r"\[rtf::kernel_backward\] dk has shape \[9\]"),
        (lambda: torch_ops.filter_backward(u, state[:, :2], u, a, b, h0), r"\[rtf::filter_backward\] the state has shape \[2, 2, 3\]"),
        (lambda: torch_ops.filter_backward(u[0], state, u, a, b, h0), r"\[rtf::filter_backward\] dy has shape \[7, 4\]"),
        (lambda: torch_ops.gelu_backward(u[:, :3], u, 0.0, torch.tensor(GENERATOR), 0), r"\[rtf::gelu_backward\] dy has"),
        (lambda: torch_ops.dropout(u[:0], 2.0, torch.tensor(GENERATOR), 0), r"\[rtf::dropout\] p is 2"),
        (lambda: torch_ops.convolve(u.to("meta"), k[:3].to("meta")), r"\[rtf::convolve\] the kernel has shape \[3, 9\]"),
        (lambda: torch_ops.batch_norm(u.to("meta"), h0[:3].to("meta"), h0[:3].to("meta")), r"\[rtf::batch_norm\] x, weight"),
        (lambda: torch_ops.filter(u, a, b, h0, state[:, :2]), r"\[rtf::filter\] the state has shape \[2, 2, 3\]"),
        (lambda: torch_ops.filter(u, a, b, h0, state.float()), r"\[rtf::filter\] the state is Float; states are float64"),
        (lambda: torch_ops.step(u, a, b, h0, state), r"\[rtf::step\] u has shape \[2, 7, 4\]"),
        (lambda: torch_ops.correct(outside, one, one[0], 500), r"\[rtf::correct\] .*outside"),
        (lambda: torch_ops.dropout(u, 1.0, torch.tensor(GENERATOR), 0), r"\[rtf::dropout\] p is 1"),
        (lambda: torch_ops.dropout(u, 0.5, torch.tensor([1.0, 2.0]), 0), r"\[rtf::dropout\] the generator"),
        (lambda: torch_ops.layer_norm(u, h0[:3], h0[:3]), r"\[rtf::layer_norm\] x, weight and bias have shapes"),
        (lambda: torch_ops.spread(u, h0, h0), r"\[rtf::spread\] x, weight and bias have shapes \[2, 7, 4\]"),
        (lambda: torch_ops.embedding(u, b), r"\[rtf::embedding\] tokens, Double, and weight have shapes"),
        (lambda: torch_ops.glu(u, None, 0.0, torch.tensor(GENERATOR), 0, bias=h0[:3]), r"\[rtf::glu\] the bias has shape \[3\]"),
        (lambda: torch_ops.length_last(h0), r"\[rtf::length_last\] x has shape \[4\]; \(batch, length, channels\)"),
        (lambda: torch_ops.channels_last(b), r"\[rtf::channels_last\] x has shape \[4, 3\]"),
        (lambda: torch_ops.gate(u, b, h0, 0.0, torch.tensor(GENERATOR), 0), r"\[rtf::gate\] the weight has shape \[4, 3\]; \(8, 4\)"),
        (lambda: torch_ops.gate(u, u[0, :2].repeat(4, 1), h0, 0.0, torch.tensor(GENERATOR), 0), r"\[rtf::gate\] the bias has shape \[4\]; \(8\)"),
        (lambda: torch_ops.gate(u[0], b, h0, 0.0, torch.tensor(GENERATOR), 0), r"\[rtf::gate\] y has shape \[7, 4\]"),
        (lambda: torch_ops.gate(u, u[0, :2].repeat(4, 1), h0.repeat(2), 1.0, torch.tensor(GENERATOR), 0), r"\[rtf::gelu\] p is 1"),
        (lambda: torch_ops.gate(u, u[0, :2].repeat(4, 1).half(), h0.repeat(2), 0.0, torch.tensor(GENERATOR), 0), r"\[rtf::gate\] Half"),
        (lambda: torch_ops.monic(a[0], b[:2], 4), r"\[rtf::monic\] a and b have shapes \[3\] and \[2, 3\] and there are 4"),
        (lambda: torch_ops.monic(b[:3], b, 4), r"\[rtf::monic\] a and b have shapes \[3, 3\] and \[4, 3\]"),
        (lambda: torch_ops.monic(a[:, :0], b, 4), r"\[rtf::monic\] a and b have shapes \[2, 0\]"),
        (lambda: torch_ops.monic_backward(a, b, h0, a, b), r"\[rtf::monic_backward\] da and db have shapes \[2, 3\] and \[4, 3\]"),
        (lambda: torch_ops.wrapped_convolve_rows(b, a, b, h0, 9), r"\[rtf::wrapped_convolve_rows\] u has shape \[4, 3\]; \(batch"),
        (lambda: torch_ops.wrapped_convolve(u, b, None, h0, 9), r"\[rtf::wrapped_convolve\] a and b in one have shape \[4, 3\]"),
        (lambda: torch_ops.wrapped_convolve(u, b, None, h0[0], 9), r"\[rtf::wrapped_convolve\] a and b in one .* h0 has \[\]"),
        (lambda: torch_ops.wrapped_convolve(u, a[:1], b[:3], h0[:3], 9, True), r"\[rtf::wrapped_convolve\] the kernels have shape \[3"),
        (lambda: torch_ops.montel(a, a), r"\[rtf::montel\] alpha and sigma have shapes"),
    ]  # fmt: skip
    for call, message in table:
        with pytest.raises(ValueError, match=message):
            call()
