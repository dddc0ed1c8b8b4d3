"""sanitize.py: every operator once forward and backward at small sizes, both storages, every way to transform a row.
Nothing is compared: compute-sanitizer watches (scripts/test_cuda.sh).

racecheck sees shared memory alone. What blocks tell each other through counters in global memory (the pipeline of long
rows, sums that the last block finishes) it cannot see: test_guarantees.py holds repeated runs to the same bits."""

import os

import torch

for name in ("RTF_TORCH_LIBRARY", "RTF_TORCH_CUDA_LIBRARY"):
    torch.ops.load_library(os.environ[name])
ops = torch.ops.rtf
GENERATOR = torch.tensor([5, 3], device="cuda")


def normal(*shape, dtype=torch.float32):
    return torch.randn(*shape, device="cuda").to(dtype)


def signal(batch, length, channels, dtype):
    return normal(batch, channels, length, dtype=dtype).transpose(1, 2).requires_grad_()


def parameter(*shape, dtype=torch.float32):
    return normal(*shape, dtype=dtype).requires_grad_()


def some_lengths(batch, length):
    return torch.randint(0, length + 1, (batch,), device="cuda")


def offsets_of(length):
    """Sequences packed one behind the other: of no sample, of one, and two long ones."""
    return torch.tensor(sorted([0, 0, 1, length // 2, length]))


def backward(*outputs):
    sum(y.float().square().sum() for y in outputs).backward()


def coefficients(channels, groups, order):
    a = normal(groups, order)
    a = 0.9 * a / a.abs().sum(1, keepdim=True)
    return [x.requires_grad_() for x in (a, normal(channels, order), normal(channels))]


def kernels(length, channels, order):
    """One denominator for all channels and one for each; kernels of double where that is short."""
    for groups in {1, channels}:
        for dtype in (torch.float32, torch.bfloat16, torch.float64)[: 3 if length <= 1 << 15 else 2]:
            a, b, h0 = (x.detach().to(dtype).requires_grad_() for x in coefficients(channels, groups, order))
            backward(ops.kernel(a, b, h0, length))


def layer(dtype, batch, length, channels, order):
    kernel = ops.kernel(*coefficients(2 * channels, channels, order), length).view(2, channels, length)
    u = signal(batch, length, channels, dtype)
    turned = u.detach().contiguous().requires_grad_()
    a, b, h0 = coefficients(2 * channels, channels, order)
    backward(ops.wrapped_convolve(turned, torch.cat((a, b)), None, h0, length, True)[0])
    backward(ops.convolve(u, kernel[0]), ops.convolve(u, kernel, True, lengths=some_lengths(batch, length)),
             ops.convolve(u[:1], kernel[0], offsets=offsets_of(length)), ops.convolve(turned, kernel[0]))  # fmt: skip


def exact(length, order):
    for groups in (1, 6):
        backward(ops.exact_kernel(*coefficients(6, groups, order), length))


def long_filter(dtype):
    """So long, and so few sequences, that the sums of the gradient are cut in parts; one and two denominators."""
    for channels, groups, order in ((1, 1, 5), (2, 2, 20), (3, 1, 64)):
        u = signal(1, 6000, channels, dtype)
        backward(*ops.filter(u, *coefficients(channels, groups, order)))


def pole_sums(length, pairs):
    """Fewer and more sums than share a reciprocal."""
    for dtype in (torch.complex64, torch.complex128):
        poles = torch.complex(-normal(2, pairs).abs() / length, 3 * normal(2, pairs)).to(torch.complex128).requires_grad_()
        c = torch.complex(normal(2, pairs), normal(2, pairs)).to(dtype).requires_grad_()
        backward(ops.vandermonde(c, poles, length))
        points = torch.linspace(0, 9, (length + 1) // 2, device="cuda", dtype=torch.float64)
        for sums in (2, 9):
            v = torch.complex(normal(2, sums, pairs), normal(2, sums, pairs)).to(dtype).requires_grad_()
            backward(torch.view_as_real(ops.cauchy(v, poles, points)))


def recurrence(dtype, batch, length, channels, order, groups=1):
    a, b, h0 = coefficients(channels, groups, order)
    state = parameter(batch, channels, order, dtype=torch.float64)
    u = signal(batch, length, channels, dtype)
    backward(*ops.filter(u, a, b, h0, state))
    backward(*ops.filter(u, a, b, h0, state, lengths=some_lengths(batch, length)))
    backward(*ops.filter(u[:1], a, b, h0, offsets=offsets_of(length)))
    backward(*ops.prefill(u, a, b, h0, state))
    backward(*ops.step(u[:, 0], a, b, h0, state))
    backward(*ops.monic(parameter(groups, order + 1), parameter(1, order + 2), channels))


def norms(dtype, batch, length, channels):
    u, weight, bias = signal(batch, length, channels, dtype), parameter(channels), parameter(channels)
    dy, more_dy, more_dx = (normal(batch, channels, length, dtype=dtype).transpose(1, 2) for _ in range(3))
    average = dict(running_mean=normal(channels), running_var=normal(channels).abs())
    backward(ops.batch_norm(u, weight, bias, **average)[0], ops.layer_norm(u, weight, bias)[0])
    if dtype == torch.float32:
        backward(ops.batch_norm(u, weight, bias, dtype=torch.bfloat16, **average)[0],
                 ops.layer_norm(u, weight, bias, dtype=torch.bfloat16)[0])  # fmt: skip
    with torch.no_grad():
        of_batch = ops.batch_norm(u, weight, bias)[1:]
        for added in (dict(more_dx=more_dx), dict(more_dy=more_dy), dict(more_dy=more_dy, more_dx=more_dx)):
            ops.batch_norm_backward(dy, u, weight, *of_batch, **added)
        ops.layer_norm_backward(dy, u, weight, *ops.layer_norm(u, weight, bias)[1:], more_dx=more_dx)


def block(dtype, batch, length, channels):
    u, z = signal(batch, length, channels, dtype), signal(batch, length, 2 * channels, dtype)
    weight, bias, gates = parameter(channels), parameter(channels), parameter(2 * channels)
    table, tokens = parameter(9, channels, dtype=dtype), torch.randint(9, (batch, length), device="cuda")
    for tied in (False, True):
        backward(ops.gelu(u, 0.2, GENERATOR, 1, tied), ops.dropout(u, 0.2, GENERATOR, 2, tied),
                 ops.glu(z, u, 0.2, GENERATOR, 3, tied, bias=gates), ops.glu(z, None, 0.2, GENERATOR, 4, tied))  # fmt: skip
    backward(ops.channels_last(u), ops.length_last(parameter(batch, length, channels, dtype=dtype)))
    backward(ops.embedding(tokens, table), ops.spread(u[:, :, 0].detach(), weight, bias))


def long_rows(dtype):
    """In a cluster of blocks, and as a pipeline through the L2 cache."""
    for method, lengths in (("cluster", (1 << 15,)), ("columns", (1 << 15, 1 << 16))):
        if method == "cluster" and torch.cuda.get_device_capability()[0] < 9:
            continue
        os.environ["RTF_CUDA_CONVOLUTION"] = method
        for length in lengths:
            for batch, channels in ((1, 2), (2, 1)):
                kernel = normal(2, channels, length).requires_grad_()
                u = signal(batch, length, channels, dtype)
                backward(ops.convolve(u, kernel[0]), ops.convolve(u, kernel, True))
    del os.environ["RTF_CUDA_CONVOLUTION"]


def main():
    torch.manual_seed(1)
    for dtype in (torch.float32, torch.bfloat16):
        for length in (1, 100, 256, 1000, 2048, 4096, 8192, 16384, 32768, 131072):
            layer(dtype, 2 if length <= 4096 else 1, length, 3 if length <= 4096 else 1, min(length, 20))
        long_rows(dtype)
        for length, order in ((1, 1), (100, 4), (1000, 16), (1001, 32), (1000, 64), (300, 200)):
            recurrence(dtype, 2, length, 3, order)
        recurrence(dtype, 1, 100, 5, 8, groups=5)
        long_filter(dtype)
        for sizes in ((3, 1, 5), (2, 100, 24), (2, 1000, 9)):
            norms(dtype, *sizes)
            block(dtype, *sizes)
        norms(dtype, 16, 4096, 3)  # several blocks a channel
    for length, order in ((1, 1), (100, 4), (1000, 64), (300, 400)):
        exact(length, order)
    for length, channels in ((1024, 5), (4096, 3), (16384, 3), (1 << 15, 5), (1 << 16, 3), (1 << 17, 3), (1 << 18, 1)):
        kernels(length, channels, 7)
    for order in (300, (1 << 15) + 3):  # longer than a row of the first level, and than the length
        kernels(1 << 15, 2, order)
    for length, pairs in ((1, 1), (257, 5), (5000, 33)):
        pole_sums(length, pairs)
    for length in (1 << 16, 1 << 18):  # others above
        layer(torch.float32, 1, length, 1, 7)
    torch.cuda.synchronize()
    print("sanitize: done")


if __name__ == "__main__":
    main()
