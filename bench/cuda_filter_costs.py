"""The two ways of torch.ops.rtf.filter on the GPU over orders, rows and lengths: what the choice in
src/torch/cuda/filter.cpp stands on. Run it again for another device, and write its figures there."""

import argparse
import itertools
import os

from cuda_timing import events_ms

import torch

ORDERS, ROWS, LENGTHS = (8, 16, 32, 64), ((1, 1), (1, 8), (1, 128), (16, 128)), (1 << 11, 1 << 14, 1 << 17, 1 << 20)
MOST = 1 << 28  # samples


def measure(batch, channels, length, order, seconds):
    """Milliseconds forward, and forward + backward."""
    generator = torch.Generator("cuda").manual_seed(order)
    normal = lambda *shape: torch.randn(*shape, device="cuda", generator=generator)
    a = normal(channels, order)
    a = 0.9 * a / a.abs().sum(1, keepdim=True)
    leaves = [normal(batch, channels, length).transpose(1, 2), a, normal(channels, order), normal(channels)]
    with torch.inference_mode():
        forward = events_ms(lambda: torch.ops.rtf.filter(*leaves), seconds)
    for leaf in leaves:
        leaf.requires_grad_()
    dy = torch.randn_like(leaves[0])
    both = events_ms(lambda: torch.autograd.grad(torch.ops.rtf.filter(*leaves)[0], leaves, dy), seconds)
    return forward, both


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", metavar="DIR", required=True, help="build folder, as build/release")
    parser.add_argument("--seconds", type=float, default=0.02, help="time for one figure (default %(default)s)")
    options = parser.parse_args()
    for library in ("librtf_torch.so", "librtf_torch_cuda.so"):
        torch.ops.load_library(os.path.join(options.build, library))
    print(f"milliseconds on {torch.cuda.get_device_name()}")
    print(f"{'':28}{'forward':>20}{'forward + backward':>20}")
    print(f"{'order':>6}{'batch':>6}{'channels':>9}{'samples':>9}" + 2 * f"{'chunks':>10}{'fft':>10}")
    for order, (batch, channels), length in itertools.product(ORDERS, ROWS, LENGTHS):
        if batch * channels * length > MOST:
            continue
        print(f"{order:6}{batch:6}{channels:9}{length:9}", end="", flush=True)
        times = []
        for method in ("chunks", "fft"):
            os.environ["RTF_CUDA_FILTER"] = method
            times.append(measure(batch, channels, length, order, options.seconds))
        print("".join(f"{ms:10.3f}" for both in zip(*times) for ms in both))


if __name__ == "__main__":
    main()
