"""filter on the GPU: chunks for small orders, transforms for others, against the CPU in double; and its gradients."""

import numpy as np
import oracle
import pytest

torch = pytest.importorskip("torch")

LARGEST_CHUNKED = 64
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5, torch.bfloat16: 1e-2}


class Case:
    """A random filter, signals and states; sequences whole, padded or packed."""

    def __init__(self, seed, order=None, length=None, dtype=torch.float64, most=4, coefficients=torch.float64):
        """At most `most` - 1 denominators, and channels of each. All numbers are such of `dtype` or `coefficients`."""
        rng = np.random.default_rng([7, seed])
        groups = int(rng.integers(1, most))
        channels = groups * int(rng.integers(1, most))
        self.order = int(rng.choice([0, 1, 2, 5, 8, 9, 16, 17, 31, 32, 33, 64])) if order is None else order
        # Chunks are of 32 or 64 samples, and 16 of them are taken at a time.
        self.length = int(rng.choice([1, 3, 31, 32, 65, 511, 512, 513, 1024, 1030, 2100])) if length is None else length
        # Rounded to bfloat16, reflection coefficients may give a filter that is not stable.
        self.filter = oracle.draw_filter(
            rng, channels, groups, self.order, kinds=(1, 2) if coefficients == torch.bfloat16 else (0, 1, 2)
        )
        f, self.coefficient_type = self.filter, coefficients
        f.a, f.b, f.h0 = (torch.tensor(x).to(coefficients).double().numpy() for x in (f.a, f.b, f.h0))
        self.kappa = oracle.condition(self.filter, self.length + self.order + 1)
        draw = lambda *shape: torch.tensor(rng.standard_normal(shape))
        self.layout = ["whole", "padded", "packed"][seed % 3]
        batch = 1 if self.layout == "packed" else int(rng.integers(1, 3 * most))
        self.options = {}
        self.sequences = batch
        if self.layout == "padded":
            self.options["lengths"] = torch.tensor(rng.integers(0, self.length + 1, batch))
        if self.layout == "packed":
            inner = np.sort(rng.integers(0, self.length + 1, int(rng.integers(0, 5))))
            self.options["offsets"] = torch.tensor([0, *inner, self.length])
            self.sequences = len(inner) + 1
        # Rounded once: both sides then see the same numbers.
        self.u, self.dy = (draw(batch, self.length, channels).to(dtype).double() for _ in range(2))
        self.state = draw(self.sequences, channels, self.order) if rng.integers(3) else None
        self.dstate = draw(self.sequences, channels, self.order)
        self.coefficients = [torch.tensor(x) for x in (self.filter.a, self.filter.b, self.filter.h0)]
        self.turned = bool(rng.integers(2))  # channels last in memory: copied on the way

    def on_gpu(self, dtype):
        move = lambda x: x if x is None else x.cuda()
        signals = [move(x.to(dtype)) for x in (self.u, self.dy)]
        if not self.turned:
            signals = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in signals]
        options = {name: move(value) for name, value in self.options.items()}
        coefficients = [move(x.to(self.coefficient_type)) for x in self.coefficients]
        return *signals, coefficients, move(self.state), move(self.dstate), options


def assert_close(actual, expected, kappa, dtype, what):
    assert actual.shape == expected.shape, what
    if expected.numel() == 0:
        return
    limit = max(TOLERANCE[dtype], 1e-16 * kappa)
    error = (actual.cpu().double() - expected).abs().max() / max(expected.abs().max(), 1e-30)
    assert error <= limit, f"{what}: relative error {error:.3g}, condition {kappa:.3g}"


def check(cuda_ops, case, dtype):
    u, _, coefficients, state, _, options = case.on_gpu(dtype)
    y, end = cuda_ops.filter(u, *coefficients, state, **options)
    expected_y, expected_end = cuda_ops.filter(case.u, *case.coefficients, case.state, **case.options)
    where = f"order {case.order}, length {case.length}, {case.layout}"
    assert y.dtype == dtype and end.dtype == torch.float64
    assert_close(y, expected_y, case.kappa, dtype, "y, " + where)
    # The state is double whatever the samples.
    assert_close(end, expected_end, case.kappa, torch.float64, "state, " + where)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_values(cuda_ops, dtype):
    for seed in range(30):
        check(cuda_ops, Case(seed, dtype=dtype), dtype)


@pytest.mark.parametrize("order", [LARGEST_CHUNKED + 1, 200])
def test_larger_orders(cuda_ops, order):
    for seed in range(3):
        for length in (1, 100, 777):
            check(cuda_ops, Case(seed, order, length), torch.float64)
            check(cuda_ops, Case(seed, order, length, torch.float32), torch.float32)


def products(ops, case, du):
    """What the gradients to a, b and h0 are sums of, added up without their signs: at most this, by Cauchy and Schwarz.
    da = - sum lambda v, db = sum dy v and dh0 = sum dy u, where v is u through 1/A and du = lambda + h0 dy."""
    (a, _, h0), u = case.coefficients, case.u
    sharing = len(h0) // len(a)
    # v = u - a x, x being the state.
    v, _ = ops.filter(u, a, -a.repeat_interleave(sharing, 0), torch.ones_like(h0), case.state, **case.options)
    counted = torch.ones_like(u)
    if "lengths" in case.options:
        counted = (torch.arange(case.length) < case.options["lengths"][:, None])[..., None].double()
    u, dy = u * counted, case.dy * counted
    squares = lambda x: x.square().sum((0, 1))
    of_v = squares(v) if case.state is None else squares(v) + case.state.square().sum((0, 2))
    norms = [x.sqrt() for x in (squares(du - h0 * dy), squares(dy), of_v, squares(u))]
    of_lambda, of_dy, of_v, of_u = norms
    by_denominator = (of_lambda * of_v).view(len(a), sharing).sum(1)
    return {"a": by_denominator.max().item(), "b": (of_dy * of_v).max().item(), "h0": (of_dy * of_u).max().item()}


def check_gradients(cuda_ops, case, dtype):
    u, dy, coefficients, state, dstate, options = case.on_gpu(dtype)
    actual = cuda_ops.filter_backward(dy, dstate, u, *coefficients, state, **options)
    expected = cuda_ops.filter_backward(case.dy, case.dstate, case.u, *case.coefficients, case.state, **case.options)
    summed = products(cuda_ops, case, expected[0])
    in_double = max(TOLERANCE[torch.float64], 1e-16 * case.kappa)
    # v and lambda are rounded to float32 for signals of less than double.
    of_product = in_double + (0 if dtype == torch.float64 else 2 * 2.0**-24)
    for name, x, wanted in zip(("u", "a", "b", "h0", "state"), actual, expected):
        stored = {"u": dtype, "state": torch.float64}.get(name, case.coefficient_type)
        assert x.shape == wanted.shape and x.dtype == stored, name
        if wanted.numel() == 0:
            continue
        # Of its own largest value; a sum may cancel, and then what its terms are rounded by is left.
        relative = max(TOLERANCE[dtype], TOLERANCE[stored], in_double)
        limit = relative * wanted.abs().max().item() + of_product * summed.get(name, 0)
        error = (x.cpu().double() - wanted).abs().max().item()
        assert error <= limit, (
            f"{name}: {error:.3g}, limit {limit:.3g} at order {case.order}, length {case.length}, {case.layout}"
        )


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("order", [0, 1, 7, 8, 16, 24, 32, 40, 64, 70])
def test_gradients(cuda_ops, order, dtype):
    for seed in range(3):
        for length in (1, 20, 64, 513, 600):
            check_gradients(cuda_ops, Case(seed, order, length, dtype), dtype)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("coefficients", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("order", [0, 3, 16, 33, 64, 70])
def test_coefficients_of_other_types(cuda_ops, order, coefficients, dtype):
    """They are read in their own type, and their gradients come in it."""
    for seed in range(3):
        for length in (1, 65, 600):
            case = Case(seed, order, length, dtype, coefficients=coefficients)
            check(cuda_ops, case, dtype)
            check_gradients(cuda_ops, case, dtype)


@pytest.mark.parametrize("order", [3, 64])
def test_gradients_of_a_long_sequence(cuda_ops, order):
    """Few of them are cut in parts."""
    for seed in range(3):
        check_gradients(cuda_ops, Case(seed, order, 9001, torch.float32, most=2), torch.float32)


@pytest.mark.parametrize("order", [1, 16, 32, 48])
@pytest.mark.parametrize("padded", [False, True])
def test_filter_is_the_convolution(cuda_ops, order, padded):
    """The two ways through a causal layer: outputs, and gradients to all that is trained. The convolution reads zeros past
    the lengths and goes on; a filter with lengths would end there."""
    generator = torch.Generator("cuda").manual_seed(order)
    normal = lambda *shape: torch.randn(*shape, device="cuda", generator=generator)
    a = normal(3, order)
    leaves = [normal(4, 1000, 6), 0.9 * a / a.abs().sum(1, keepdim=True), normal(6, order) / order**0.5, normal(6)]
    lengths = torch.tensor([0, 1, 700, 1000], device="cuda") if padded else None
    dy = normal(4, 1000, 6)

    def run(function):
        u, *coefficients = [x.detach().requires_grad_() for x in leaves]
        y = function(u, coefficients)
        return [y, *torch.autograd.grad(y, [u, *coefficients], dy)]

    past = torch.arange(1000, device="cuda") >= lengths.unsqueeze(1) if padded else torch.zeros(4, 1000).bool().cuda()
    filtered = run(lambda u, c: cuda_ops.filter(u.masked_fill(past.unsqueeze(2), 0), *c)[0])
    convolved = run(lambda u, c: cuda_ops.convolve(u, cuda_ops.exact_kernel(*c, 1000), lengths=lengths))
    for name, x, y in zip(("y", "u", "a", "b", "h0"), filtered, convolved):
        error = (x - y).abs().max() / y.abs().max()
        assert error <= 2e-5, f"{name}: {error:.3g}"  # either is within 1e-5


@pytest.mark.parametrize("seed, order", [(0, 3), (1, 9), (2, 3), (0, 33), (1, 65), (2, 65), (2, 0)])
def test_gradcheck(cuda_ops, seed, order):
    case = Case(seed, order, length=7, most=2)
    u, _, coefficients, _, _, options = case.on_gpu(torch.float64)
    state = torch.randn(case.sequences, case.filter.channels, order, dtype=torch.float64, device="cuda")
    inputs = [x.requires_grad_() for x in (u, *coefficients, state)]
    assert torch.autograd.gradcheck(lambda *z: cuda_ops.filter(*z, **options), inputs, nondet_tol=0.0)
    assert torch.autograd.gradcheck(lambda *z: cuda_ops.filter(*z, **options), inputs[:4], nondet_tol=0.0)


def test_chunks_are_the_whole(cuda_ops):
    """A stream may be cut anywhere, and is the same in prompts and in steps."""
    torch.manual_seed(0)
    f = oracle.draw_filter(np.random.default_rng(3), 4, 2, 12)
    coefficients = [torch.tensor(x).cuda() for x in (f.a, f.b, f.h0)]
    u = torch.randn(2, 700, 4, dtype=torch.float64, device="cuda")
    y, end = cuda_ops.prefill(u, *coefficients)
    state, parts = torch.zeros(2, 4, 12, dtype=torch.float64, device="cuda"), []
    for part in u.split([1, 30, 32, 600, 37], dim=1):
        out, state = cuda_ops.prefill(part, *coefficients, state)
        parts.append(out)
    torch.testing.assert_close(torch.cat(parts, 1), y, rtol=0, atol=1e-12 * y.abs().max().item())
    torch.testing.assert_close(state, end, rtol=0, atol=1e-12 * end.abs().max().item())
    state = torch.zeros_like(state)
    for t in range(50):
        out, state = cuda_ops.step(u[:, t], *coefficients, state)
        torch.testing.assert_close(out, y[:, t], rtol=0, atol=1e-12 * y.abs().max().item())


def test_a_pole_on_the_circle(cuda_ops):
    """A running sum over 2^15 samples stays exact to rounding."""
    u = torch.randn(3, 1 << 15, 2, dtype=torch.float64)
    a, b, h0 = torch.tensor([[-1.0]]).double(), torch.ones(2, 1).double(), torch.ones(2).double()
    y, end = cuda_ops.filter(u.cuda(), a.cuda(), b.cuda(), h0.cuda())
    expected = u.cumsum(1)
    assert_close(y, expected, 1, torch.float64, "y")
    assert_close(end[..., 0], expected[:, -1], 1, torch.float64, "state")


@pytest.mark.parametrize("order", [5, 16, 32, 64])
def test_the_same_bits_twice_and_in_a_graph(cuda_ops, order):
    case = Case(3, order, length=2100, dtype=torch.float32)
    u, dy, coefficients, state, dstate, _ = case.on_gpu(torch.float32)

    def run():
        return [
            *cuda_ops.filter(u, *coefficients, state),
            *cuda_ops.filter_backward(dy, dstate, u, *coefficients, state),
        ]

    eager = run()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = run()
    for x in captured:
        x.zero_()
    graph.replay()
    assert all(torch.equal(x, y) for x, y in zip(captured, eager))


@pytest.mark.parametrize("order", [0, 3, 64])
@pytest.mark.parametrize("method", ["chunks", "fft"])
def test_either_method(cuda_ops, monkeypatch, method, order):
    monkeypatch.setenv("RTF_CUDA_FILTER", method)
    for seed in range(6):
        check(cuda_ops, Case(seed, order, length=300), torch.float64)
        check_gradients(cuda_ops, Case(seed, order, length=300), torch.float64)


@pytest.mark.parametrize("order, length, method", [(64, 1 << 19, "fft"), (64, 1 << 17, "chunks"), (8, 1 << 19, "chunks")])
def test_the_cheaper_method(cuda_ops, monkeypatch, order, length, method):
    """A single long row of large order is the one case where chunks, which follow each other, take longer."""
    f = oracle.draw_filter(np.random.default_rng(order), 1, 1, order)
    coefficients = [torch.tensor(x).cuda() for x in (f.a, f.b, f.h0)]
    u = torch.randn(1, length, 1, dtype=torch.float64, device="cuda", generator=torch.Generator("cuda").manual_seed(1))
    chosen = cuda_ops.filter(u, *coefficients)
    monkeypatch.setenv("RTF_CUDA_FILTER", method)
    assert all(torch.equal(x, y) for x, y in zip(chosen, cuda_ops.filter(u, *coefficients)))


def test_offsets_on_the_device_that_leave_samples_out(cuda_ops):
    """They are not looked at, which would wait for the device: samples of no sequence are zero."""
    u = torch.ones(1, 100, 2, device="cuda")
    coefficients = torch.zeros(2, 3), torch.zeros(2, 3), torch.ones(2)
    for _ in range(3):  # memory that held other numbers
        torch.full_like(u, torch.nan)
        y, _ = cuda_ops.filter(u, *(x.cuda() for x in coefficients), offsets=torch.tensor([10, 30, 60]).cuda())
        assert torch.equal(y[0, :, 0], ((torch.arange(100) >= 10) & (torch.arange(100) < 60)).float().cuda())


@pytest.mark.parametrize("order", [0, 3, 64, 65])
@pytest.mark.parametrize("batch, length", [(0, 5), (2, 0), (0, 0)])
def test_nothing(cuda_ops, batch, length, order):
    """Without samples the state goes through, and so does its gradient."""
    f = oracle.draw_filter(np.random.default_rng(order), 4, 2, order)
    coefficients = [torch.tensor(x).cuda().requires_grad_() for x in (f.a, f.b, f.h0)]
    u = torch.zeros(batch, length, 4, dtype=torch.float64, device="cuda", requires_grad=True)
    state = torch.randn(batch, 4, order, dtype=torch.float64, device="cuda", requires_grad=True)
    for start in ([], [state]):
        y, end = cuda_ops.filter(u, *coefficients, *start)
        assert y.shape == u.shape and torch.equal(end, start[0] if start else torch.zeros_like(state))
        gradients = torch.autograd.grad([y, end], [u, *coefficients, *start], [y.detach(), 3 * torch.ones_like(end)])
        assert gradients[0].shape == u.shape and not any(g.any() for g in gradients[1:4])
        assert not start or torch.equal(gradients[4], 3 * torch.ones_like(state))


def test_refusals(cuda_ops, monkeypatch):
    case = Case(0, order=3, length=5)
    u, _, (a, b, h0), _, _, _ = case.on_gpu(torch.float32)
    refused = [
        (r"\[rtf::filter\] a is on cpu and u on cuda:0; move them to one device", lambda: (u, a.cpu(), b, h0)),
        (r"\[rtf::filter\] the state is .*; states are float64", lambda: (u, a, b, h0, torch.zeros(u.shape[0], b.shape[0], 3).cuda())),
        (r"\[rtf::filter\] the state has shape", lambda: (u, a, b, h0, torch.zeros(1, 1, 1).double().cuda())),
        (r"\[rtf::filter\] u has shape", lambda: (u[..., :0], a, b, h0)),
        (r"\[rtf::filter\] .* numbers; float32, float64 and bfloat16", lambda: (u.half(), a, b, h0)),
    ]  # fmt: skip
    for message, arguments in refused:
        with pytest.raises(ValueError, match=message):
            cuda_ops.filter(*arguments())
    with pytest.raises(ValueError, match=r"lengths\[0\] is 6; the sequences have 5 samples"):
        cuda_ops.filter(u, a, b, h0, lengths=torch.full((u.shape[0],), 6))
    with pytest.raises(ValueError, match=r"\[rtf::filter\] lengths has 1 values; the batch has 2"):
        cuda_ops.filter(u[:1].expand(2, -1, -1), a, b, h0, lengths=torch.ones(1, dtype=torch.long).cuda())
    monkeypatch.setenv("RTF_CUDA_FILTER", "nonsense")
    with pytest.raises(ValueError, match=r"\[rtf::filter\] RTF_CUDA_FILTER is nonsense; chunks and fft are known"):
        cuda_ops.filter(u, a, b, h0)
    monkeypatch.setenv("RTF_CUDA_FILTER", "chunks")
    with pytest.raises(ValueError, match=r"\[rtf::filter\] order is 65; chunks take up to 64"):
        cuda_ops.filter(u, torch.zeros(len(a), 65).cuda(), torch.zeros(len(b), 65).cuda(), h0)
