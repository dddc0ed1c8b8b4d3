"""What demo.sh does in Python: signals in, comparisons and a picture out, in the folder of the demo's files."""

import json
import sys

import numpy as np


def load(path):
    """The numbers of an npy file, or the numerator and feed-through of a filter file."""
    if path.endswith(".npy"):
        return np.load(path)
    with open(path) as file:
        content = json.load(file)
    return np.concatenate([np.ravel(content[key]) for key in ("b", "h0")])


def compare(what, left, right, tolerance="1e-10"):
    """Prints the largest difference relative to the largest value; the exit code is 1 when that is too much."""
    x, y = load(left), load(right)
    if x.shape != y.shape or not (np.isfinite(x).all() and np.isfinite(y).all()):
        sys.exit(f"  {what}: {left} {x.shape} and {right} {y.shape} cannot be compared")
    error = np.abs(x - y).max() / np.abs(x).max()
    equal = error <= float(tolerance)
    print(f"  {what}: largest difference {error:.1e} of the largest value, {'at most' if equal else 'MORE THAN'} {tolerance}")
    sys.exit(0 if equal else 1)


def signal(path):
    """A chirp through both resonances, a pulse and a little noise: 1500 samples."""
    t = np.arange(1500)
    u = np.where(t < 1100, np.sin(np.pi * 0.2 * t**2 / 1100), 0.0)
    u[1200] = 6.0
    np.save(path, u + 0.02 * np.random.default_rng(0).standard_normal(len(t)))


def split(path, at, first, rest):
    values = np.load(path)
    np.save(first, values[: int(at)])
    np.save(rest, values[int(at) :])


def join(first, rest, path):
    np.save(path, np.concatenate([np.load(first), np.load(rest)]))


def convolve(signal_path, kernel_path, count, path):
    np.save(path, np.convolve(np.load(signal_path)[: int(count)], np.load(kernel_path)[0])[: int(count)])


def state(path):
    with open(path) as file:
        print(f"{len(json.load(file)['a'][0])} numbers")


def picture(path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    ink, grey, blue, orange = "#20242c", "#9aa0aa", "#2463c9", "#d9541e"
    figure = plt.figure(figsize=(11, 6.6), layout="constrained")
    grid = figure.add_gridspec(2, 3)

    with open("poles.json") as file:
        poles = np.array(json.load(file)["groups"][0]["poles"])
    axes = figure.add_subplot(grid[0, 0])
    angle = np.linspace(0, 2 * np.pi, 400)
    axes.fill(np.cos(angle), np.sin(angle), color="#eef1f6")
    axes.plot(np.cos(angle), np.sin(angle), color=ink, lw=1)
    axes.plot(poles[:, 0], poles[:, 1], "x", color=ink, ms=9, mew=2)
    axes.axhline(0, color=grey, lw=0.6)
    axes.axvline(0, color=grey, lw=0.6)
    axes.set(aspect="equal", xlabel="real", ylabel="imaginary", title="rtf poles: where the poles are")

    by_fft, by_recurrence = np.load("by_fft.npy")[0], np.load("by_recurrence.npy")[0]
    axes = figure.add_subplot(grid[0, 1:])
    axes.axhline(0, color=grey, lw=0.6)
    axes.plot(by_recurrence, color=orange, lw=1.6, label="recurrence")
    axes.plot(by_fft, "o", color=blue, ms=2.6, label="Algorithm 1 (FFT)")
    axes.legend(frameon=False)
    axes.set(xlim=(-1, len(by_fft)), xlabel="sample", title="rtf kernel: the impulse response in two ways")

    u, y, joined = np.load("u.npy"), np.load("y.npy"), np.load("y_joined.npy")
    first = len(np.load("y_first.npy"))
    axes = figure.add_subplot(grid[1, :])
    axes.plot(u, color=grey, lw=0.8, label="input")
    axes.plot(y, color=orange, lw=2.4, label="output in one go")
    axes.plot(joined, color=ink, lw=0.9, ls="--", label="output in two parts")
    axes.axvline(first, color=blue, lw=1, ls=":")
    low, high = axes.get_ylim()
    axes.text(first + 16, low + 0.04 * (high - low), "here the state was handed over", color=blue)
    axes.legend(frameon=False, loc="upper right", ncols=3)
    axes.set(xlim=(0, len(u)), ylim=(low, high + 0.12 * (high - low)), xlabel="sample", title="rtf filter: a signal with its state")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    commands = {f.__name__: f for f in (compare, signal, split, join, convolve, state, picture)}
    commands[sys.argv[1]](*sys.argv[2:])
