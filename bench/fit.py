"""256 kernels of 1,024 samples fitted at order 64: `rtf fit` beside the same methods in NumPy, in turns on the same cores.

Exit code 0 if every method takes under 60 s and is REQUIRED times faster; else 1.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# For matrices of this size OpenBLAS is up to three times faster with one thread than with two.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy  # noqa: E402

from peers import numpy_fit  # noqa: E402

CHANNELS, LENGTH, ORDER = 256, 1024, 64
REQUIRED = 5


def kernels():
    """Noise that dies out, from a few hundred samples to a few thousand: no rational function fits it."""
    rng = numpy.random.default_rng(1)
    rates = rng.uniform(0.002, 0.02, (CHANNELS, 1))
    return rng.standard_normal((CHANNELS, LENGTH)) * numpy.exp(-rates * numpy.arange(LENGTH))


def ours(command, folder, method):
    """Seconds of the whole command, and the error of every channel."""
    arguments = [command, "fit", "k.npy", "--order", str(ORDER), "--method", method, "-o", "f.json"]
    start = time.perf_counter()
    done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, check=True)
    seconds = time.perf_counter() - start
    return seconds, numpy.array([float(line.split()[1]) for line in done.stdout.splitlines()[2:]])


def peer(samples, method):
    start = time.perf_counter()
    errors = [numpy_fit.METHODS[method](row[1:], ORDER)[0] * numpy.linalg.norm(row[1:]) / numpy.linalg.norm(row)
              for row in samples]  # fmt: skip
    return time.perf_counter() - start, numpy.array(errors)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--command", default=str(Path(__file__).parent.parent / "build" / "core" / "rtf"))
    parser.add_argument("--peer-channels", type=int, default=16, help="the peer fits so many; its time is scaled up")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    command = str(Path(arguments.command).resolve())

    k = kernels()
    some = k[: arguments.peer_channels]
    print(f"{CHANNELS} channels, {LENGTH} samples, order {ORDER}, {len(os.sched_getaffinity(0))} cores; peer scaled up "
          f"from {len(some)} channels; medians of {arguments.rounds}")  # fmt: skip
    print(f"{'method':<10} {'rtf, s':>8} {'NumPy, s':>9} {'ratio':>6} {'mean error':>11} {'of NumPy':>9}")
    passed = True
    with tempfile.TemporaryDirectory() as folder:
        numpy.save(Path(folder) / "k.npy", k)
        for method in numpy_fit.METHODS:
            rounds = [(ours(command, folder, method), peer(some, method)) for _ in range(arguments.rounds)]
            our_time = float(numpy.median([one[0] for one, _ in rounds]))
            peer_time = float(numpy.median([one[0] for _, one in rounds])) * CHANNELS / len(some)
            error, peer_error = rounds[0][0][1][: len(some)].mean(), rounds[0][1][1].mean()
            print(f"{method:<10} {our_time:8.2f} {peer_time:9.1f} {peer_time / our_time:6.1f} {error:11.4f} "
                  f"{peer_error:9.4f}", flush=True)  # fmt: skip
            passed &= our_time < 60 and peer_time >= REQUIRED * our_time
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
