"""What is measured of the layer on the GPU and of its peers: compare_cuda.py runs it, cuda_report.py asks for it."""

CHANNELS, BATCH = 128, 16
BATCHES = (BATCH, 1)
LENGTHS = [1 << log for log in range(11, 18)]
ORDERS = (8, 32, 64, 128, 256, 512, 1024)
PEER_ORDERS = (8, 64, 128, 256, 512, 1024)
# S5's state over its channels, e = n / d as the paper pairs them. Beyond 1 at batch 1 too.
EXPANSIONS = (0.25, 1, 2, 4, 8)
CHUNKED_ORDERS = (8, 16, 32, 64)
# lfilter's time grows with order times length: a third of a second at this.
LFILTER_ORDERS, LFILTER_MOST = (8, 64, 1024), 1 << 21


def orders(length):
    """Of ours."""
    return sorted({*ORDERS, length // 2})


def peer_orders(what, batch, length):
    """Of "release", "PyTorch", "JAX", "lfilter" and "S5", forward."""
    if what == "S5":
        return [int(e * CHANNELS) for e in EXPANSIONS if batch > 1 or e > 1]
    if what == "lfilter":
        return [n for n in LFILTER_ORDERS if batch > 1 and n * length <= LFILTER_MOST]
    if what == "JAX" and batch == 1:  # compiling is what it costs
        return sorted({64, length // 2})
    return sorted({*PEER_ORDERS, length // 2})
