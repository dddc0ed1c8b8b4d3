"""Milliseconds of work on the GPU, by CUDA events: the median of up to 100 repetitions after ten to warm up."""

import itertools
import statistics

import torch

REPEATS = 100


def events_ms(call, seconds, warm_up=10):
    """call() once between two events, as Python launches it."""

    def timed(repeats):
        pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(repeats)]
        for start, end in pairs:
            start.record()
            call()
            end.record()
        torch.cuda.synchronize()
        return [start.elapsed_time(end) for start, end in pairs]

    once = timed(1)[0]
    if once > 100:  # milliseconds: what takes so long is warm after one call, and repeats itself
        return timed(1)[0]
    once = timed(warm_up)[-1]
    return statistics.median(timed(max(5, min(REPEATS, int(1e3 * seconds / max(once, 1e-3))))))


def rotation(buffer_bytes):
    """How many sets of buffers keep the second-level cache (50 to 60 MB) from holding all that is read and written."""
    return max(1, min(8, -(-(256 << 20) // buffer_bytes)))


def captured_ms(call, sets, seconds):
    """call(i) for each of the sets, captured in one CUDA graph that is replayed between two events: one call's time
    without the time of launching it. What the calls return is kept until the end, so each has memory of its own."""
    counter = itertools.count()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call(next(counter) % sets)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = [call(i) for i in range(sets)]
    result = events_ms(graph.replay, seconds) / sets
    del graph, kept
    return result
