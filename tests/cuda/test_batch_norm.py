"""batch_norm and layer_norm on the GPU against the CPU in double."""

import pytest

torch = pytest.importorskip("torch")

from block_cases import ORDERS, SHAPES, both, check, follows, leaf, signal  # noqa: E402

DTYPES = [torch.float32, torch.bfloat16, torch.float64]
NORMS = ["batch_norm", "layer_norm"]


def parameters(channels, dtype):
    dtype = torch.float64 if dtype == torch.float64 else torch.float32
    weight = signal((1, 1, channels), dtype, seed=3)[0, 0]
    return 1 + 0.3 * weight, 0.5 * signal((1, 1, channels), dtype, seed=4)[0, 0]


def positions(norm, shape):
    return shape[0] * shape[1] if norm == "batch_norm" else shape[2]


# One number has no variance.
VALUES = [(norm, shape) for norm in NORMS for shape in [*SHAPES, (16, 2048, 6), (2, 70, 600), (9, 4096, 12)]
          if positions(norm, shape) > 1]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("norm, shape", VALUES)
def test_values_and_gradients(cuda_ops, norm, shape, dtype):
    for order in ORDERS:
        x = signal(shape, dtype, order=order).add_(2)  # bfloat16 has digits for it
        got, wanted = both(lambda *z: getattr(cuda_ops, norm)(*z), (x, *parameters(shape[2], dtype)))
        assert follows(got[0], x) and follows(got[3], x)
        names = ["y", "mean", "second statistic", "dx", "dweight", "dbias"]
        for name, a, b in zip(names, got, wanted):
            # Statistics of bfloat16 numbers are themselves float32 or float64.
            exact = torch.float32 if name in names[1:3] and dtype == torch.bfloat16 else dtype
            check(a, b, exact, f"{norm}, {order}: {name}")


@pytest.mark.parametrize("norm", NORMS)
def test_large_mean(cuda_ops, norm):
    """The variance of numbers around 1000 keeps what float32 holds of them: 6e-8 * 1000 beside a deviation of 1."""
    x = 1000 + signal((4, 512, 64), torch.float32)
    weight, bias = parameters(64, torch.float32)
    got = getattr(cuda_ops, norm)(x.cuda(), weight.cuda(), bias.cuda())
    wanted = getattr(cuda_ops, norm)(x.double(), weight.double(), bias.double())
    assert (got[0].cpu() - wanted[0]).abs().max() < 1e-3
    assert ((got[2].cpu() - wanted[2]).abs() <= 1e-4 * wanted[2].abs()).all()


@pytest.mark.parametrize("channels", [3, 64, 1000])
def test_an_outlier(cuda_ops, channels):
    """One channel far from the others costs none of their digits: those of float32 beside a variance that it makes."""
    for outlier in (0, channels - 1):
        x = signal((2, 36, channels), torch.float32)
        x[..., outlier] = 3e4
        weight, bias = parameters(channels, torch.float32)
        got = cuda_ops.layer_norm(x.cuda(), weight.cuda(), bias.cuda())
        for ours, wanted in zip(got, cuda_ops.layer_norm(x.double(), weight.double(), bias.double())):
            check(ours, wanted, torch.float32, f"outlier {outlier}")


@pytest.mark.parametrize("norm", NORMS)
def test_nan_is_not_hidden(cuda_ops, norm):
    x = signal((2, 8, 6), torch.float32).cuda()
    x[1, 3, 2] = float("nan")
    y, mean, second = getattr(cuda_ops, norm)(x, torch.ones(6, device="cuda"), torch.zeros(6, device="cuda"))
    at = (slice(None), slice(None), 2) if norm == "batch_norm" else (1, 3)
    assert y[at].isnan().all() and mean.isnan().sum() == 1 and second.isnan().sum() == 1
    assert y.isnan().sum() == y[at].numel()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_running_averages(cuda_ops, dtype):
    shape = (4, 100, 24)
    x, (weight, bias) = signal(shape, dtype) + 1, parameters(24, dtype)
    running = [torch.full((24,), value, dtype=dtype) for value in (0.5, 2.0)]
    on_gpu, on_cpu = [r.cuda() for r in running], [r.double().clone() for r in running]
    for _ in range(2):
        for (mean, var), place in ((on_gpu, dict(device="cuda")), (on_cpu, dict(dtype=torch.float64))):
            inputs = [t.to(**place) for t in (x, weight, bias)]
            cuda_ops.batch_norm(*inputs, running_mean=mean, running_var=var, momentum=0.2)
    for got, wanted, before in zip(on_gpu, on_cpu, running):
        assert (wanted - before).abs().max() > 0.01
        check(got, wanted, dtype, "running average")


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("shape", [(4, 512, 64), (3, 33, 10)])
def test_bfloat16_of_float32(cuda_ops, norm, shape):
    """As the blocks do it: float32 in, bfloat16 out, and back."""
    x, (weight, bias) = signal(shape, torch.float32), parameters(shape[2], torch.float32)

    def run(*z):
        return getattr(cuda_ops, norm)(*z, dtype=torch.bfloat16 if z[0].is_cuda else None)

    got, wanted = both(run, (x, weight, bias))
    assert got[0].dtype == torch.bfloat16 and got[3].dtype == torch.float32
    check(got[0], wanted[0], torch.bfloat16, "y")
    for i in range(1, 6):
        check(got[i], wanted[i], torch.float32, f"result {i}")


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_residual(cuda_ops, norm, dtype):
    for shape in [(4, 512, 64), (3, 33, 10), (5, 1, 9)]:
        x, residual, dy = (signal(shape, dtype, seed=i) for i in range(3))
        weight, bias = parameters(shape[2], dtype)

        def run(x, weight, bias, residual, dy):
            _, *statistics = getattr(cuda_ops, norm)(x, weight, bias)
            return getattr(cuda_ops, norm + "_backward")(dy, x, weight, *statistics, more_dx=residual)[0]

        tensors = (x, weight, bias, residual, dy)
        check(run(*(t.cuda() for t in tensors)), run(*(t.double() for t in tensors)), dtype, norm)


@pytest.mark.parametrize("dtype", DTYPES)
def test_second_gradient(cuda_ops, dtype):
    """more_dy counts as added to dy, more_dx to dx."""
    for shape in [(4, 512, 64), (3, 33, 10), (16, 4096, 3)]:
        x, dy, more_dy, more_dx = (signal(shape, dtype, seed=i) for i in range(4))
        weight, bias = parameters(shape[2], dtype)

        def run(x, weight, bias, dy, more_dy, more_dx):
            _, mean, variance = cuda_ops.batch_norm(x, weight, bias)
            return cuda_ops.batch_norm_backward(dy, x, weight, mean, variance, more_dy=more_dy, more_dx=more_dx)

        tensors = (x, weight, bias, dy, more_dy, more_dx)
        for got, wanted in zip(run(*(t.cuda() for t in tensors)), run(*(t.double() for t in tensors))):
            check(got, wanted, dtype, "batch_norm_backward")


@pytest.mark.parametrize("norm", NORMS)
def test_gradcheck_and_determinism(cuda_ops, norm):
    weight, bias = (leaf(p.cuda()) for p in parameters(5, torch.float64))
    x = leaf(signal((2, 7, 5), torch.float64).cuda())
    assert torch.autograd.gradcheck(lambda *z: getattr(cuda_ops, norm)(*z)[0], (x, weight, bias))
    weight, bias = (leaf(p.cuda()) for p in parameters(256, torch.float32))
    x = leaf(signal((8, 2048, 256), torch.float32).cuda())

    def run():
        y = getattr(cuda_ops, norm)(x, weight, bias)[0]
        return [y, *torch.autograd.grad((y * y).sum(), (x, weight, bias))]

    assert all(torch.equal(a, b) for a, b in zip(run(), run()))


@pytest.mark.parametrize("dtype", DTYPES)
def test_other_dimensions(cuda_ops, dtype):
    x, (weight, bias) = signal((1, 50, 12), dtype, order="channels")[0], parameters(12, dtype)
    for norm in NORMS:
        got, wanted = both(lambda *z: getattr(cuda_ops, norm)(*z), (x, weight, bias))
        check(got[0], wanted[0], dtype, norm)
        check(got[3], wanted[3], dtype, norm + " gradient")


def test_refusals(cuda_ops):
    x, weight = torch.zeros(2, 4, 6, device="cuda"), torch.zeros(6, device="cuda")
    for run, message in [
        (lambda: cuda_ops.batch_norm(x, weight[:3], weight[:3]), r"\[rtf::batch_norm\] x, weight and bias have shapes"),
        (lambda: cuda_ops.batch_norm(x, weight.cpu(), weight), r"\[rtf::batch_norm\] the weight is on cpu and x on cuda:0"),
        (lambda: cuda_ops.batch_norm(x, weight, weight, running_mean=weight), r"one running average without the other"),
        (lambda: cuda_ops.batch_norm(x, weight, weight, running_mean=weight.double(), running_var=weight.double()),
         r"\[rtf::batch_norm\] a running average of type Double"),
        (lambda: cuda_ops.batch_norm(x[:0], weight, weight), r"\[rtf::batch_norm\] x, weight and bias"),
        (lambda: cuda_ops.layer_norm(x, weight[:3], weight[:3]), r"\[rtf::layer_norm\] x, weight and bias have shapes"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=message):
            run()
