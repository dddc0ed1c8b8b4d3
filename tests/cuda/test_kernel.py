"""kernel and exact_kernel on the GPU: values and gradients against the CPU in double, every path and storage type."""

import pytest

torch = pytest.importorskip("torch")

# length, channels, denominators, order. Up to 2^14 on chip, up to 2^18 in two levels, the others by torch's transforms.
ON_CHIP = [
    (1024, 3, 1, 5), (1024, 3, 3, 1024), (2048, 4, 2, 0), (2048, 6, 3, 5000), (4096, 5, 5, 4095), (8192, 4, 1, 64),
    (16384, 4, 2, 8192), (16384, 3, 3, 17),
]  # fmt: skip
MANY_CHANNELS = [(1024, 2500, 1, 16), (1024, 3000, 3000, 4), (2048, 2100, 3, 7), (16384, 300, 2, 33), (16384, 200, 200, 3)]
IN_TILES = [(32768, 5, 1, 8), (32768, 131, 131, 12), (32768, 129, 43, 4), (65536, 3, 3, 40000), (65536, 80, 2, 70000),
            (131072, 36, 2, 50), (131072, 17, 1, 5), (262144, 3, 1, 7),
            # no coefficient and one; as many as a row of the first level has, and one less; the length, and past it
            (32768, 3, 1, 0), (32768, 3, 3, 1), (32768, 2, 1, 127), (32768, 2, 2, 128), (131072, 3, 1, 511),
            (32768, 3, 3, 32769), (131072, 2, 1, 140000), (262144, 2, 2, 150000), (262144, 1, 1, 262144)]  # fmt: skip
# More channels than fit the scratch at a time: of one denominator, and with one each.
SEVERAL_TILES = [(131072, 400, 1, 8), (131072, 330, 330, 4)]
BY_TRANSFORMS = [(1, 2, 1, 0), (1, 4, 2, 3), (2, 2, 2, 1), (3, 4, 1, 9), (17, 6, 3, 5), (97, 4, 1, 97), (512, 6, 2, 100),
                 (1009, 3, 3, 2500), (4000, 8, 1, 64), (100003, 24, 2, 20)]  # fmt: skip
SIZES = ON_CHIP + MANY_CHANNELS + IN_TILES + BY_TRANSFORMS
TYPES = [torch.float64, torch.float32, torch.bfloat16]


def draw(sizes, dtype=torch.float64):
    """a, b, h0 and dk of some type, rounded to it, on the CPU. sum |a| = 0.9 keeps |A| above 0.1: no rounding is
    magnified by more than ten, in gradients a hundred."""
    length, channels, groups, order = sizes
    generator = torch.Generator().manual_seed(sum(sizes))
    a, b, h0, dk = (
        torch.randn(shape, generator=generator, dtype=torch.float64)
        for shape in ((groups, order), (channels, order), (channels,), (channels, length))
    )
    a = 0.9 * a / a.abs().sum(1, keepdim=True).clamp_min(1e-300)
    return [x.to(dtype) for x in (a, b, h0, dk)]


def tolerance(dtype, length):
    """Transforms in double lose a few units of 2^-53 for each halving; then the result is rounded to its type."""
    rounding = {torch.float64: 0.0, torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8}[dtype]
    return 1.01 * rounding + 1000 * (1 + length.bit_length()) * 2.0**-53


def assert_close(actual, expected, dtype, length):
    assert actual.dtype == dtype and actual.device.type == "cuda" and actual.is_contiguous()
    assert actual.shape == expected.shape
    if expected.numel():
        scale = expected.abs().max().clamp_min(1)  # h0, b and dk are of size 1; some gradients vanish
        error = ((actual.double().cpu() - expected).abs().max() / scale).item()
        assert error <= tolerance(dtype, length), f"relative error {error:.3g}"


def in_two_levels(length):
    return length in (1 << 15, 1 << 16, 1 << 17, 1 << 18)


def assert_kernel_close(actual, expected, dtype, length):
    """Rows in two levels come back from their quotient in float32 if that is what they end as: a transform keeps the
    norm of a channel up to what its stages lose. A line of up to 1,024 points has four: in each three sums (3 u, u the
    unit of rounding), a product (sqrt 5 u) and, but for the first, a factor made of up to seven others (at most 4.8 u);
    then the twist, a product by a factor of up to eight (6.3 u), and u at both ends: 46 u. 63 leaves some room."""
    if dtype == torch.float64 or not in_two_levels(length):
        return assert_close(actual, expected, dtype, length)
    assert actual.dtype == torch.float32 and actual.device.type == "cuda" and actual.is_contiguous()
    assert actual.shape == expected.shape
    error = (actual.double().cpu() - expected).norm(dim=1) / expected.norm(dim=1)
    assert error.max() <= 63 * 2.0**-24, f"of the norm: {error.max():.3g}"
    assert (actual.double().cpu() - expected).abs().max() <= 1e-5 * expected.abs().max().clamp_min(1)


def test_large_kernels(cuda_ops):
    """As large as float32 holds: nothing on the way overflows that does not in the end."""
    for length in (16384, 32768, 1 << 18):
        a, b, h0, _ = draw((length, 2, 2, 40), torch.float32)
        b = b * 1e37 / b.abs().max()
        actual = cuda_ops.kernel(a.cuda(), b.cuda(), h0.cuda(), length)
        expected = cuda_ops.kernel(a.double(), b.double(), h0.double(), length)
        assert actual.isfinite().all(), length
        assert_kernel_close(actual / 1e37, expected / 1e37, torch.float32, length)


@pytest.mark.parametrize("bad", [1, 2])
@pytest.mark.parametrize("length", [16384, 32768, 131072])
def test_a_bad_channel_changes_no_bit_of_its_neighbours(cuda_ops, length, bad):
    """Kernels in float32, also where two channels go through one block."""
    a, b, h0, _ = draw((length, 5, 5, 2), torch.float32)
    expected = cuda_ops.kernel(a.cuda(), b.cuda(), h0.cuda(), length)
    a[bad] = torch.tensor([-1.0, 0.0])
    actual = cuda_ops.kernel(a.cuda(), b.cuda(), h0.cuda(), length)
    for channel in range(5):
        assert channel == bad or torch.equal(actual[channel], expected[channel]), channel


def compare(operators, name, sizes, dtype):
    length = sizes[0]
    *coefficients, dk = draw(sizes, dtype)
    on_device = [x.cuda() for x in coefficients]
    in_double = [x.double() for x in coefficients]
    out = torch.float64 if dtype == torch.float64 else torch.float32
    forward, backward = getattr(operators, name), getattr(operators, name + "_backward")
    assert_kernel_close(forward(*on_device, length), forward(*in_double, length), out, length)
    gradients = backward(dk.to(out).cuda(), *on_device)
    for actual, expected in zip(gradients, backward(dk.double(), *in_double)):
        assert_close(actual, expected, dtype, length)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_kernel(cuda_ops, sizes, dtype):
    compare(cuda_ops, "kernel", sizes, dtype)


def by_fft(a, b, h0, dk):
    """The kernel and its gradients to a, b and h0 by torch's transforms in double, for orders below the length; on the
    GPU it takes no time."""
    length, order, sharing = dk.shape[1], b.shape[1], len(b) // len(a)
    pad, rfft, irfft = torch.nn.functional.pad, torch.fft.rfft, lambda x: torch.fft.irfft(x, length)
    inverse = (1 / rfft(pad(a, (1, 0), value=1.0), length)).repeat_interleave(sharing, 0)
    quotient, gradient = rfft(pad(b, (1, 0)), length) * inverse, rfft(dk)
    k = irfft(quotient)
    k[:, 0] += h0
    db = irfft(inverse.conj() * gradient)[:, 1 : order + 1]
    da = -irfft((inverse * quotient).conj() * gradient)[:, 1 : order + 1]
    return k, da.unflatten(0, (len(a), sharing)).sum(1), db, dk[:, 0]


@pytest.mark.parametrize("sizes", SEVERAL_TILES, ids=str)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_several_tiles(cuda_ops, sizes, dtype):
    length = sizes[0]
    *coefficients, dk = [x.cuda() for x in draw(sizes, dtype)]
    out = torch.float64 if dtype == torch.float64 else torch.float32
    k, *gradients = by_fft(*(x.double() for x in (*coefficients, dk)))
    assert_kernel_close(cuda_ops.kernel(*coefficients, length), k.cpu(), out, length)
    for actual, expected in zip(cuda_ops.kernel_backward(dk.to(out), *coefficients), gradients):
        assert_close(actual, expected.cpu(), dtype, length)


# On chip, in two levels, and by torch's transforms.
@pytest.mark.parametrize("length", [2048, 16384, 32768, 131072, 5000])
@pytest.mark.parametrize("bad", [1, 2])
def test_a_bad_channel_leaves_its_neighbours_alone(cuda_ops, length, bad):
    """Of channels with a denominator each, one has poles at 1 - 1e-8 exactly on a bin, so that its kernel is far larger
    than the others'; or, with a = -1, none that is finite. The others are what they are alone."""
    a, b, h0, dk = draw((length, 5, 5, 2))
    others = [i for i in range(5) if i != bad]
    alone = [x[others] for x in (a, b, h0)]
    expected = (cuda_ops.kernel(*alone, length), *cuda_ops.kernel_backward(dk[others], *alone))
    angle, radius = torch.tensor(2 * torch.pi * (length // 8) / length, dtype=torch.float64), 1 - 1e-8
    for poles in ((-2 * radius * angle.cos(), radius**2), (-1.0, 0.0)):
        a[bad] = torch.tensor(poles, dtype=torch.float64)
        on_device = [x.cuda() for x in (a, b, h0)]
        actual = (cuda_ops.kernel(*on_device, length), *cuda_ops.kernel_backward(dk.cuda(), *on_device))
        for name, x, y in zip(("kernel", "da", "db", "dh0"), actual, expected):
            for row, wanted in zip(x.cpu()[others], y):
                assert row.isfinite().all(), name
                error = (row - wanted).abs().max() / wanted.abs().max()
                assert error <= 1e-10, f"{name}: {error:.3g}"


@pytest.mark.parametrize("sizes", [s for s in SIZES if s[0] <= 4096 and s[1] < 100], ids=str)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_exact_kernel(cuda_ops, sizes, dtype):
    compare(cuda_ops, "exact_kernel", sizes, dtype)


def test_poles_near_the_circle(cuda_ops):
    """A pole pair at radius 1 - 1e-6: float32 coefficients, and still the kernel in float32 is right to its rounding,
    or in two levels to that of its transforms."""
    angle = torch.tensor([0.3, 1.0, 2.5], dtype=torch.float64)
    radius = 1 - 1e-6
    a = torch.stack([-2 * radius * angle.cos(), torch.full_like(angle, radius**2)], 1).float()
    b, h0 = torch.randn(3, 2), torch.randn(3)
    for length in (4096, 32768, 5000):
        expected = cuda_ops.kernel(a.double(), b.double(), h0.double(), length)
        actual = cuda_ops.kernel(a.cuda(), b.cuda(), h0.cuda(), length)
        assert_kernel_close(actual, expected, torch.float32, length)
        # kappa of such a pole is 1e6 at most, so double leaves 1e-10 and float32's own rounding is all there is.
        if not in_two_levels(length):
            assert (actual.double().cpu() - expected).abs().max() <= 1e-7 * expected.abs().max()


@pytest.mark.parametrize("sizes", [(1, 2, 1, 2), (7, 4, 2, 3), (13, 2, 2, 20), (1024, 4, 2, 3), (32768, 2, 1, 2)], ids=str)
def test_gradcheck(cuda_ops, sizes):
    length = sizes[0]
    coefficients = [x.cuda().requires_grad_() for x in draw(sizes)[:3]]
    for op in (cuda_ops.kernel, cuda_ops.exact_kernel):
        assert torch.autograd.gradcheck(lambda *c: op(*c, length), coefficients, fast_mode=True)


@pytest.mark.parametrize("length", [2048, 16384, 32768, 4000])
def test_small_gradients(cuda_ops, length):
    """Gradients far below the coefficients keep their digits: linear in dk, to the bit for a power of two."""
    *coefficients, dk = [x.cuda() for x in draw((length, 6, 2, 9))]
    scale = 2.0**-80
    for x, y in zip(cuda_ops.kernel_backward(scale * dk, *coefficients), cuda_ops.kernel_backward(dk, *coefficients)):
        assert torch.equal(x, scale * y)


def test_mixed_types_and_strides(cuda_ops):
    length, channels, order = 2048, 6, 9
    a, b, h0, _ = draw((length, channels, 2, order))
    wide = torch.zeros(order, 2 * channels, device="cuda")
    wide[:, ::2] = b.T
    actual = cuda_ops.kernel(a.cuda(), wide[:, ::2].T, h0.bfloat16().cuda(), length)
    assert_kernel_close(actual, cuda_ops.kernel(a, b.float().double(), h0.bfloat16().double(), length), torch.float32, length)


@pytest.mark.parametrize("sizes", [(1024, 2500, 1, 16), (16384, 64, 1, 300), (65536, 40, 1, 30), (4000, 8, 1, 64)], ids=str)
def test_same_bits_twice(cuda_ops, sizes):
    *coefficients, dk = [x.cuda() for x in draw(sizes, torch.float32)]
    run = lambda: (cuda_ops.kernel(*coefficients, sizes[0]), *cuda_ops.kernel_backward(dk, *coefficients))
    for x, y in zip(run(), run()):
        assert torch.equal(x, y)


@pytest.mark.parametrize("sizes", [(2048, 8, 1, 16), (16384, 300, 1, 16), (65536, 6, 2, 30), (4000, 8, 1, 64)], ids=str)
@pytest.mark.parametrize("name", ["kernel", "exact_kernel"])
def test_graph_capture(cuda_ops, name, sizes):
    forward, backward = getattr(cuda_ops, name), getattr(cuda_ops, name + "_backward")
    *coefficients, dk = [x.cuda() for x in draw(sizes, torch.float32)]
    run = lambda: (forward(*coefficients, sizes[0]), *backward(dk, *coefficients))
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = run()
    for x in (*coefficients[1:], dk):
        x.mul_(-1.5)
    graph.replay()
    for x, y in zip(captured, run()):
        assert torch.equal(x, y)


def test_refusals(cuda_ops):
    a, b, h0, dk = [x.cuda() for x in draw((1024, 4, 2, 3), torch.float32)]
    with pytest.raises(ValueError, match=r"\[rtf::kernel\] a is on cpu and b on cuda:0; move them to one device"):
        cuda_ops.kernel(a.cpu(), b, h0, 1024)
    with pytest.raises(ValueError, match=r"\[rtf::kernel\] length is 0"):
        cuda_ops.kernel(a, b, h0, 0)
    with pytest.raises(ValueError, match=r"\[rtf::kernel_backward\] dk has shape \[3, 1024\]"):
        cuda_ops.kernel_backward(dk[:3], a, b, h0)
    with pytest.raises(ValueError, match=r"\[rtf::exact_kernel\] a, b, h0 have shapes"):
        cuda_ops.exact_kernel(a[:, :2], b, h0, 1024)


def test_memory_stays_bounded(cuda_ops):
    """Scratch of long kernels does not grow with the channels: 320 MiB in tiles, forward and backward, and what is added
    up for a denominator's gradient, a number for each channel and coefficient. Torch's transforms keep copies."""

    def extra(call):
        call()
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        results = call()
        size = sum(x.numel() * x.element_size() for x in results)
        return (torch.cuda.max_memory_allocated() - before - size) >> 20

    for length, limit, backward_limit in ((131072, 322, 322), (100003, 130, 200)):
        *coefficients, dk = [x.cuda() for x in draw((length, 512, 1, 8), torch.float32)]
        forward = extra(lambda: [cuda_ops.kernel(*coefficients, length)])
        assert forward <= limit, f"{length}: {forward} MiB"
        backward = extra(lambda: cuda_ops.kernel_backward(dk, *coefficients))
        assert backward <= backward_limit, f"gradient, {length}: {backward} MiB"
