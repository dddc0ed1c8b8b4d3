"""sanitize.py: every operator once forward and backward at small sizes, both storages, rows in one block of threads and
rows too long for one. Nothing is compared: compute-sanitizer watches (scripts/test_cuda.sh)."""

import os

import torch

for name in ("RTF_TORCH_LIBRARY", "RTF_TORCH_CUDA_LIBRARY"):
    torch.ops.load_library(os.environ[name])
ops = torch.ops.rtf
GENERATOR = torch.tensor([5, 3], device="cuda")


def normal(*shape, dtype=torch.float32):
    return torch.randn(*shape, device="cuda").to(dtype)


def backward(*outputs):
    sum(y.float().square().sum() for y in outputs).backward()


def coefficients(channels, groups, order):
    a = normal(groups, order)
    a = 0.9 * a / a.abs().sum(1, keepdim=True)
    return [x.requires_grad_() for x in (a, normal(channels, order), normal(channels))]


def layer(dtype, batch, length, channels, order):
    kernel = ops.kernel(*coefficients(2 * channels, channels, order), length).view(2, channels, length)
    u = normal(batch, channels, length, dtype=dtype).transpose(1, 2).requires_grad_()
    lengths = torch.randint(0, length + 1, (batch,), device="cuda")
    backward(ops.convolve(u, kernel[0]), ops.convolve(u, kernel, True, lengths=lengths))


def recurrence(dtype, batch, length, channels, order):
    a, b, h0 = coefficients(channels, 1, order)
    state = normal(batch, channels, order, dtype=torch.float64).requires_grad_()
    u = normal(batch, channels, length, dtype=dtype).transpose(1, 2).requires_grad_()
    backward(*ops.filter(u, a, b, h0, state))
    backward(*ops.step(u[:, 0], a, b, h0, state))


def block(dtype, batch, length, channels):
    u = normal(batch, channels, length, dtype=dtype).transpose(1, 2).requires_grad_()
    z = normal(batch, 2 * channels, length, dtype=dtype).transpose(1, 2).requires_grad_()
    weight, bias = normal(channels).requires_grad_(), normal(channels).requires_grad_()
    gates, tokens = normal(2 * channels).requires_grad_(), torch.randint(9, (batch, length), device="cuda")
    table = normal(9, channels, dtype=dtype).requires_grad_()
    for tied in (False, True):
        y, _, _ = ops.batch_norm(u, weight, bias)
        backward(ops.gelu(y, 0.2, GENERATOR, 1, tied), ops.dropout(u, 0.2, GENERATOR, 2, tied),
                 ops.glu(z, u, 0.2, GENERATOR, 3, tied, bias=gates))  # fmt: skip
    backward(ops.layer_norm(u, weight, bias)[0], ops.embedding(tokens, table),
             ops.spread(u[:, :, 0].detach(), weight, bias))  # fmt: skip


def main():
    torch.manual_seed(1)
    for dtype in (torch.float32, torch.bfloat16):
        for length in (1, 100, 256, 1000, 2048, 4096, 8192, 16384, 32768, 131072):
            layer(dtype, 2 if length <= 4096 else 1, length, 3 if length <= 4096 else 1, min(length, 20))
        for length, order in ((1, 1), (100, 4), (1000, 16), (1000, 64), (300, 200)):
            recurrence(dtype, 2, length, 3, order)
        for sizes in ((3, 1, 5), (2, 100, 24), (2, 1000, 9), (20, 2048, 2)):  # the last: several blocks a channel
            block(dtype, *sizes)
    torch.cuda.synchronize()
    print("sanitize: done")


if __name__ == "__main__":
    main()
