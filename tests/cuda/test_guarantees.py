"""What holds of the operators on the GPU besides their values: gradcheck in double, the same bits twice, capture in
a CUDA graph, forward and backward, what the meta kernels say of them, and what is refused."""

import pytest

torch = pytest.importorskip("torch")
import block_cases  # noqa: E402
import cases  # noqa: E402
import test_operators  # noqa: E402

GENERATOR = torch.tensor(test_operators.GENERATOR)
check = torch.autograd.gradcheck


def on_device(sizes):
    """What test_operators draws, on the GPU, without the filter."""
    _, *values = test_operators.tensors(sizes)
    return [x.detach().cuda().requires_grad_(x.requires_grad) for x in values]


@pytest.mark.parametrize("sizes", test_operators.SIZES)
def test_gradcheck_of_kernels(cuda_ops, sizes):
    a, b, h0, *_ = on_device(sizes)
    for operator in (cuda_ops.kernel, cuda_ops.exact_kernel, cuda_ops.correct, cuda_ops.wrap):
        assert check(lambda *c: operator(*c, sizes[1]), (a, b, h0))
    sigma = torch.rand(a.shape[0], dtype=torch.float64, device="cuda", requires_grad=True)
    if a.shape[1] > 0:
        assert check(cuda_ops.montel, (a, sigma))
        assert check(cuda_ops.montel_paper, (a,))


@pytest.mark.parametrize("sizes", test_operators.SIZES)
def test_gradcheck_of_convolutions(cuda_ops, sizes):
    _, _, _, u, _, k, k2, lengths = on_device(sizes)
    # In length-last order as it is meant to come, and as it stands on the CPU.
    for x in (u, u.detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_()):
        assert check(cuda_ops.convolve, (x, k))
        assert check(lambda x, k: cuda_ops.convolve(x, k, True), (x, k2))
        assert check(lambda x, k: cuda_ops.convolve(x, k, True, lengths=lengths), (x, k2))


@pytest.mark.parametrize("sizes", test_operators.SIZES)
def test_gradcheck_of_filters(cuda_ops, sizes):
    a, b, h0, u, state, _, _, lengths = on_device(sizes)
    assert check(cuda_ops.filter, (u, a, b, h0, state))
    assert check(cuda_ops.filter, (u, a, b, h0))
    assert check(lambda *z: cuda_ops.prefill(*z, lengths=lengths), (u, a, b, h0, state))
    assert check(cuda_ops.step, (u[:, 0].detach().requires_grad_(), a, b, h0, state))


@pytest.mark.parametrize("sizes", test_operators.SIZES)
def test_gradcheck_of_the_block(cuda_ops, sizes):
    _, b, h0, u, *_ = on_device(sizes)
    generator = GENERATOR.cuda()
    gates = torch.randn(*u.shape[:2], 2 * u.shape[2], dtype=torch.float64, device="cuda", requires_grad=True)
    for tied in (False, True):
        assert check(lambda x: cuda_ops.dropout(x, 0.3, generator, 1, tied), (u,))
        assert check(lambda x: cuda_ops.gelu(x, 0.3, generator, 1, tied), (u,))
        assert check(lambda z: cuda_ops.glu(z, None, 0.3, generator, 1, tied), (gates,))
        assert check(lambda z, x: cuda_ops.glu(z, x, 0.3, generator, 1, tied), (gates, u))
        matrix, offset = gates[0, 0, :, None] * h0, gates[0, 0]
        for y in (u, u.detach().transpose(1, 2).contiguous().transpose(1, 2)):
            leaves = [x.detach().requires_grad_() for x in (y, matrix, offset)]
            assert check(lambda *z: cuda_ops.gate(*z, 0.3, generator, 1, tied)[0], leaves)
    if u.shape[0] * u.shape[1] > 1:  # of one position the variance is zero
        weight = b.sum(1).detach().requires_grad_()
        assert check(lambda *z: cuda_ops.batch_norm(*z)[0], (u, weight, h0))


@pytest.mark.parametrize("order", block_cases.ORDERS)
def test_meta_kernels_know_the_memory_order(cuda_ops, order):
    """Sizes, types and strides of results and gradients, by which torch.compile lays out what follows."""
    a, b, h0, u, state, k, k2, lengths = on_device((3, 16, 6, 6, 5))
    turned = lambda x: cases.on_device(block_cases.signal(x.shape, x.dtype, order=order)).requires_grad_()
    x, generator = turned(u), GENERATOR.cuda()
    gates = turned(torch.empty(*u.shape[:2], 2 * u.shape[2], dtype=u.dtype))
    running = {"running_mean": torch.zeros_like(h0), "running_var": torch.ones_like(h0)}
    bias = torch.zeros(gates.shape[-1], dtype=u.dtype, device="cuda", requires_grad=True)
    calls = [
        ("convolve", (x, k), {}),
        ("convolve", (x, k2, True), {"lengths": lengths}),
        *(("wrapped_convolve", (x, torch.cat((a, b)).detach().requires_grad_(), None, h0, length), {}) for length in (x.shape[1] + 1, 1024)),
        ("filter", (x, a, b, h0, state), {}),
        ("filter", (x, a, b, h0), {"lengths": lengths}),
        ("dropout", (x, 0.3, generator, 1), {}),
        ("gelu", (x, 0.3, generator, 1), {}),
        ("glu", (gates, x, 0.3, generator, 1), {"bias": bias}),
        ("glu", (gates, None, 0.3, generator, 1), {}),
        ("gate", (x, bias[:, None] * h0.detach(), bias, 0.3, generator, 1), {}),
        ("batch_norm", (x, h0, h0), {k: v.detach() for k, v in running.items()}),
        ("batch_norm", (x.detach().float().requires_grad_(), h0, h0), {"dtype": torch.bfloat16}),
        ("layer_norm", (x, h0, h0), {}),
    ]
    for name, arguments, options in calls:
        torch.library.opcheck(getattr(cuda_ops, name).default, arguments, options, test_utils="test_faketensor")
        y = getattr(cuda_ops, name)(*arguments, **options)
        assert block_cases.follows(y[0] if isinstance(y, tuple) else y, arguments[0]), name


@pytest.mark.parametrize("order", block_cases.ORDERS)
@pytest.mark.parametrize("shape", block_cases.SHAPES, ids=str)
def test_turned_memory(cuda_ops, shape, order):
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        x = cases.on_device(block_cases.signal(shape, dtype, order=order))
        test_operators.turns_memory(cuda_ops, x)
        for turn in (cuda_ops.length_last, cuda_ops.channels_last):
            torch.library.opcheck(turn.default, (x,), test_utils="test_faketensor")


class Block:
    """A layer with all that follows it in a model, on one stream of the GPU, in float32 or bfloat16 samples."""

    def __init__(self, ops, length, order, dtype, batch=5, channels=24):
        self.ops, self.length = ops, length
        torch.manual_seed(length + order)
        normal = lambda *shape: torch.randn(*shape, device="cuda")
        # Denominators that two channels share: their gradients are sums.
        a = normal(channels, order)
        a = 0.9 * a / a.abs().sum(1, keepdim=True)
        leaves = [normal(batch, channels, length).to(dtype).transpose(1, 2), a, normal(2 * channels, order),
                  normal(2 * channels), normal(channels), normal(channels)]  # fmt: skip
        self.leaves = [x.requires_grad_() for x in leaves]
        self.y_gradient = normal(batch, length, channels).to(dtype)
        self.generator = GENERATOR.cuda()

    def __call__(self):
        ops, (u, a, b, h0, weight, bias) = self.ops, self.leaves
        k = ops.kernel(a, b, h0, self.length).view(2, -1, self.length)
        x, mean, variance = ops.batch_norm(u, weight, bias)
        y = ops.gelu(ops.convolve(x, k, True), 0.1, self.generator, 1)
        y = ops.glu(torch.cat((y, x), -1), u, 0.1, self.generator, 2, True)
        return [y, mean, variance, *torch.autograd.grad(y, self.leaves, self.y_gradient)]


# A row in one block of threads, a length that is no power of two, and rows too long for one block.
LENGTHS = [512, 1000, 16384, 32768]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("length", LENGTHS)
def test_the_same_bits_twice(cuda_ops, length, dtype):
    block = Block(cuda_ops, length, 16, dtype)
    first = block()
    for _ in range(3):
        assert all(torch.equal(x, y) for x, y in zip(first, block()))


@pytest.mark.parametrize("length", LENGTHS[:2])
def test_the_same_bits_twice_with_a_state(cuda_ops, length):
    generator = torch.Generator("cuda").manual_seed(1)
    normal = lambda *shape: torch.randn(*shape, device="cuda", generator=generator)
    a = normal(6, 8)
    leaves = [
        normal(4, length, 24),
        0.9 * a / a.abs().sum(1, keepdim=True),
        normal(24, 8),
        normal(24),
        normal(4, 24, 8).double(),
    ]
    leaves = [x.requires_grad_() for x in leaves]

    def run():
        y, end = cuda_ops.filter(*leaves)
        return [y, end, *torch.autograd.grad(y.square().sum() + end.sum(), leaves)]

    first = run()
    for _ in range(3):
        assert all(torch.equal(x, y) for x, y in zip(first, run()))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("length", LENGTHS)
def test_capture_in_a_graph(cuda_ops, length, dtype):
    """A captured block computes what an eager one does, on new inputs and with new random numbers."""
    block = Block(cuda_ops, length, 16, dtype)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            block()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = block()
    with torch.no_grad():
        for x in block.leaves:
            x.mul_(0.9)
        block.generator[1] += 1
    graph.replay()
    replayed = [x.clone() for x in captured]
    assert all(torch.equal(x, y) for x, y in zip(replayed, block()))


def test_a_step_in_a_graph(cuda_ops):
    a, b, h0, u, state, *_ = [x.detach() for x in on_device((3, 16, 6, 6, 5))]
    sample, x = u[:, 0].float().contiguous(), state.clone()
    cuda_ops.step(sample, a, b, h0, x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y, after = cuda_ops.step(sample, a, b, h0, x)
        x.copy_(after)
    x.copy_(state)
    expected = state
    for t in range(u.shape[1]):
        sample.copy_(u[:, t])
        graph.replay()
        want, expected = cuda_ops.step(u[:, t].float().contiguous(), a, b, h0, expected)
        assert torch.equal(y, want) and torch.equal(x, expected)


def test_refusals(cuda_ops):
    """One line that names the operator: tensors on two devices, and types that no operator takes."""
    a, b, h0, u, state, k, *_ = on_device((2, 7, 4, 2, 3))
    gates = torch.cat((u, u), -1)
    calls = {
        "kernel": lambda host: cuda_ops.kernel(a, host(b), h0, 9),
        "convolve": lambda host: cuda_ops.convolve(u, host(k)),
        "filter": lambda host: cuda_ops.filter(u, a, host(b), h0),
        "filter_backward": lambda host: cuda_ops.filter_backward(u, host(state), u, a, b, h0),
        "step": lambda host: cuda_ops.step(u[:, 0], a, b, h0, host(state)),
        "gate": lambda host: cuda_ops.gate(u, gates[0, 0, :, None] * h0, host(gates[0, 0]), 0.0, GENERATOR.cuda(), 1),
        "glu": lambda host: cuda_ops.glu(gates, host(u), 0.0, GENERATOR.cuda(), 1),
        "batch_norm": lambda host: cuda_ops.batch_norm(u, host(h0), h0),
        "batch_norm_backward": lambda host: cuda_ops.batch_norm_backward(u, u, h0, h0, host(h0), 1e-5),
        "layer_norm_backward": lambda host: cuda_ops.layer_norm_backward(u, u, h0, u[..., 0], host(u[..., 0])),
    }
    for name, call in calls.items():
        call(lambda x: x)
        with pytest.raises(ValueError, match=rf"^\[rtf::{name}\] .* on (cpu|cuda:0) .* on (cpu|cuda:0)"):
            call(lambda x: x.detach().cpu())
    for turn in (cuda_ops.length_last, cuda_ops.channels_last):
        with pytest.raises(ValueError, match=r"last\] x has shape \[7, 4\]; \(batch, length, channels\) is needed"):
            turn(u[0])
    with pytest.raises(ValueError, match=r"\[rtf::convolve\] Half numbers"):
        cuda_ops.convolve(u.half(), k)
