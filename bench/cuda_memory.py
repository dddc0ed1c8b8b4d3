"""Peak memory of the layer on the GPU, forward, batch 1, 1,024 channels: ours, and S5 in JAX."""

import sys

from cuda_peer import run_peer

import torch

CHANNELS = 1024
SIZES = [(1 << length, 1 << order) for length in range(12, 18) for order in range(8, length)]
S5_SIZES = [(1 << length, 1 << order) for length in range(12, 18) for order in range(8, length, 2)]


def peak(call):
    """By how much a call raises the allocated memory at most; one before it has made what is kept."""
    call()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def measure_ours(length, order):
    """Bytes beyond input, output and parameters; and the whole with a (channels, channels) product behind, as the paper
    has it."""
    normal = lambda *shape: torch.randn(*shape, device="cuda")
    a = normal(CHANNELS, order)
    a = 0.9 * a / a.abs().sum(1, keepdim=True)
    b, h0, mix = normal(CHANNELS, order), normal(CHANNELS), normal(CHANNELS, CHANNELS)
    u = normal(1, CHANNELS, length).transpose(1, 2)
    layer = lambda: torch.ops.rtf.convolve(u, torch.ops.rtf.kernel(a, b, h0, length))
    given = sum(x.numel() * x.element_size() for x in (a, b, h0, mix, u))
    output = u.numel() * u.element_size()
    with torch.inference_mode():
        extra = peak(layer) - output
        whole = given + peak(lambda: mix @ layer().transpose(1, 2)[0])
    return {"what": "ours", "length": length, "order": order, "extra_bytes": extra, "peak_bytes": whole}


def paper_bytes(length, order):
    """The paper's own layer in JAX: every entry of its table is 14 buffers of the signal's size, and the parameters."""
    return 14 * length * CHANNELS * 4 + 4 * CHANNELS**2 + 8 * order * CHANNELS


def measure():
    print("memory", file=sys.stderr)
    rows = []
    for length, order in SIZES:
        rows.append(measure_ours(length, order))
        torch.cuda.empty_cache()
    jobs = [{"layer": "s5", "batch": 1, "length": length, "channels": CHANNELS, "order": order, "pass": "forward"}
            for length, order in S5_SIZES]  # fmt: skip
    for done in run_peer("jax_layer.py", "memory", jobs=jobs):
        if "error" not in done:  # None: out of memory
            rows.append({"what": "S5", "length": done["length"], "order": done["order"],
                         "peak_bytes": done.get("peak_bytes")})  # fmt: skip
    return rows
