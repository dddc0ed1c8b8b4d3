"""How long a core that sleeps takes to wake, and how to keep cores from it.

Two threads that work in turns, like a loop of PyTorch and the backward pass that it asks of a GPU, wake each other. On a virtual
machine that can take longer than what they do: a core that sleeps may be given back to the machine's host.

    python bench/waking.py
"""

import contextlib
import os
import statistics
import struct
import threading
import time
import typing

LATENCY = "/dev/cpu_dma_latency"  # microseconds that a core may take to wake, as long as the file is held open
SLEPT, TIMES = 5e-4, 500


@contextlib.contextmanager
def kept_awake():
    """The system is asked that no core sleeps meanwhile: idle ones spin. Gives whether it could be asked."""
    with contextlib.ExitStack() as held:
        try:
            device = os.open(LATENCY, os.O_WRONLY)  # never makes a file in its place
            held.callback(os.close, device)
            os.write(device, struct.pack("i", 0))
        except OSError:
            held.close()
            yield False
        else:
            yield True


def microseconds():
    """Until a thread that has slept for half a millisecond is awake and has woken this one, the median of many times."""
    times, (asleep, ring), (answered, answer) = [], os.pipe(), os.pipe()

    def reply():
        while os.read(asleep, 1) == b"r":
            os.write(answer, b"r")

    thread = threading.Thread(target=reply)
    thread.start()
    for _ in range(TIMES):
        until = time.perf_counter() + SLEPT
        while time.perf_counter() < until:
            pass
        start = time.perf_counter()
        os.write(ring, b"r")
        os.read(answered, 1)
        times.append(1e6 * (time.perf_counter() - start))
    os.write(ring, b"e")
    thread.join()
    for end in (asleep, ring, answered, answer):
        os.close(end)
    return statistics.median(times)


class Waking(typing.NamedTuple):
    """microseconds() on cores that may sleep, and on cores that were asked not to."""

    sleepy: float
    awake: float
    asked: bool

    @classmethod
    def measure(cls):
        sleepy = microseconds()
        with kept_awake() as asked:
            return cls(sleepy, microseconds(), asked)

    def show(self):
        print(f"Two threads took {self.sleepy:.0f} us to wake each other on cores that may sleep", end="")
        if self.asked:
            print(f", {self.awake:.0f} us on cores that were asked not to.")
        else:
            print(f"; none could be kept from it, for {LATENCY} cannot be written: that takes root.")


if __name__ == "__main__":
    Waking.measure().show()
