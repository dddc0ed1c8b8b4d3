"""Signals of random sizes and memory orders, and how a result on the GPU is held against the CPU's in double."""

import numpy as np
import torch
from cases import on_device

BOUNDS = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 1e-2}
# Lengths that are and are not multiples of a vector, channels that are and are not multiples of a Philox block.
SHAPES = [
    (3, 64, 16), (2, 1024, 8), (4, 33, 24), (1, 1, 40), (5, 1, 7), (2, 30, 13), (1, 260, 1), (2, 12, 100), (3, 5000, 3)
]  # fmt: skip
# Samples of a row side by side, channels of a position side by side, neither, and rows with something between them.
ORDERS = ("length", "channels", "strided", "cut")


def signal(shape, dtype, seed=0, order="length"):
    """Random numbers (batch, length, channels) as the GPU holds them, or with another memory order."""
    x = torch.tensor(np.random.default_rng([seed, *shape]).standard_normal(shape)).to(dtype)
    if order == "length":
        return x.transpose(1, 2).contiguous().transpose(1, 2)
    if order == "cut":
        return torch.cat([x, x[:, :1]], 1).transpose(1, 2).contiguous().transpose(1, 2)[:, :-1]
    return x if order == "channels" else torch.stack([x, x], -1)[..., 0]


def leaf(x):
    return x.detach().clone().requires_grad_()


def is_length_last(x):
    return x.shape[1] == 1 or x.transpose(1, 2).is_contiguous()


def follows(got, x):
    """Whether a result lies in memory as one for x does."""
    return is_length_last(got) if x.dim() == 3 and x.stride(1) == 1 else got.is_contiguous()


def check(got, wanted, dtype, what):
    """`wanted` was computed in double, from what `dtype` holds."""
    assert got.is_cuda and got.shape == wanted.shape, what
    wanted = wanted.detach()
    scale = float(wanted.abs().max()) if wanted.numel() else 0.0
    error = float((got.detach().double().cpu() - wanted).abs().max()) if wanted.numel() else 0.0
    assert error <= BOUNDS[dtype] * max(scale, 1e-30), f"{what}: off by {error / max(scale, 1e-30):.2e} of {scale:.2e}"


def both(run, tensors):
    """run(*tensors) and the gradients of its first result to each tensor, on the GPU in the types given and on the CPU
    in double: two lists."""
    lists = []
    for place in ("gpu", "cpu"):
        inputs = [on_device(x).requires_grad_() if place == "gpu" else leaf(x.double()) for x in tensors]
        results = run(*inputs)
        results = list(results) if isinstance(results, tuple) else [results]
        # The CPU gets the gradient that the GPU can hold.
        storage = results[0].dtype if place == "gpu" else lists[0][0].dtype
        weights = torch.cos(torch.arange(results[0].numel(), dtype=torch.float64) ** 1.1).view(results[0].shape)
        gradients = torch.autograd.grad(results[0], inputs, weights.to(storage).to(results[0]))
        lists.append([*results, *gradients])
    return lists
