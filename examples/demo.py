"""What demo.sh does in Python: signals in, comparisons and pictures out."""

import csv
import json
import re
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


def state(path):
    with open(path) as file:
        print(f"{len(json.load(file)['a'][0])} numbers")


def evaluation(name, path):
    """A score of the table that rtf eval printed."""
    with open(path) as file:
        rows = [re.split(r"\s{2,}", line.strip()) for line in file]
    header, values = next(pair for pair in zip(rows, rows[1:]) if pair[0][0] == "split")
    return float(values[header.index(name)])


def at_least(name, bound, path):
    value = evaluation(name, path)
    print(f"  {name} {value:g}, {'at least' if value >= float(bound) else 'LESS THAN'} {bound}")
    sys.exit(0 if value >= float(bound) else 1)


def at_most(name, bound, path):
    value = evaluation(name, path)
    print(f"  {name} {value:g}, {'at most' if value <= float(bound) else 'MORE THAN'} {bound}")
    sys.exit(0 if value <= float(bound) else 1)


def layer(checkpoint, index, length, path):
    """The filters of one layer of a trained model, as a filter file."""
    from safetensors import safe_open
    from safetensors.numpy import save_file

    with safe_open(checkpoint, "np") as file:
        filters = {name: file.get_tensor(f"model.blocks.{index}.layer.{name}") for name in ("a", "b", "h0")}
    save_file(filters, path, metadata={"length": length})


def copying_tokens(seed, symbols, memory, path):
    """A sequence of the copying task that no training has seen, a token a line."""
    symbols, memory = int(symbols), int(memory)
    tokens = np.random.default_rng(int(seed)).integers(1, symbols - 1, memory)
    np.savetxt(path, np.r_[tokens, np.full(memory, symbols - 1)], fmt="%d")


def copied(bound, *files):
    """Pairs of tokens and answers: how many of the tokens come back; the exit code is 1 when that is too few."""
    right = []
    for tokens, answers in zip(files[::2], files[1::2], strict=True):
        wanted, given = np.loadtxt(tokens, int), np.loadtxt(answers).argmax(1)
        half = len(wanted) // 2
        right += list(given[half:] == wanted[:half])
        if tokens == files[0]:
            print("  in   " + " ".join(f"{token:2d}" for token in wanted[:half]))
            print("  out  " + " ".join(f"{token:2d}" for token in given[half:]))
    share = np.mean(right)
    print(f"  {sum(right)} of {len(right)} tokens came back, {'at least' if share >= float(bound) else 'LESS THAN'} {100 * float(bound):g} %")
    sys.exit(0 if share >= float(bound) else 1)


INK, GREY, BLUE, ORANGE = "#20242c", "#9aa0aa", "#2463c9", "#d9541e"


def start_picture():
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(11, 6.6), layout="constrained")
    rows = figure.add_gridspec(2, 1)
    return figure, rows[0].subgridspec(1, 3), rows[1]


def draw_poles(axes, sets, title):
    """(label, path of rtf poles --json, colour, marker) each, on the unit circle."""
    angle = np.linspace(0, 2 * np.pi, 400)
    axes.fill(np.cos(angle), np.sin(angle), color="#eef1f6")
    axes.plot(np.cos(angle), np.sin(angle), color=INK, lw=1)
    axes.axhline(0, color=GREY, lw=0.6)
    axes.axvline(0, color=GREY, lw=0.6)
    for label, path, colour, marker in sets:
        with open(path) as file:
            poles = np.array(json.load(file)["groups"][0]["poles"])
        axes.plot(poles[:, 0], poles[:, 1], marker, color=colour, ms=5, label=label)
    axes.set(aspect="equal", xlabel="real", ylabel="imaginary", title=title)


def filter_picture(path):
    figure, top, bottom = start_picture()
    axes = figure.add_subplot(top[0])
    draw_poles(axes, [(None, "poles.json", INK, "x")], "rtf poles: where the poles are")
    axes.lines[-1].set(markersize=9, markeredgewidth=2)

    by_fft, by_recurrence = np.load("by_fft.npy")[0], np.load("by_recurrence.npy")[0]
    axes = figure.add_subplot(top[1:])
    axes.axhline(0, color=GREY, lw=0.6)
    axes.plot(by_recurrence, color=ORANGE, lw=1.6, label="recurrence")
    axes.plot(by_fft, "o", color=BLUE, ms=2.6, label="Algorithm 1 (FFT)")
    axes.legend(frameon=False)
    axes.set(xlim=(-1, len(by_fft)), xlabel="sample", title="rtf kernel: the impulse response in two ways")

    u, y, joined = np.load("u.npy"), np.load("y.npy"), np.load("y_joined.npy")
    first = len(np.load("y_first.npy"))
    axes = figure.add_subplot(bottom)
    axes.plot(u, color=GREY, lw=0.8, label="input")
    axes.plot(y, color=ORANGE, lw=2.4, label="output in one go")
    axes.plot(joined, color=INK, lw=0.9, ls="--", label="output in two parts")
    axes.axvline(first, color=BLUE, lw=1, ls=":")
    low, high = axes.get_ylim()
    axes.text(first + 16, low + 0.04 * (high - low), "here the state was handed over", color=BLUE)
    axes.legend(frameon=False, loc="upper right", ncols=3)
    axes.set(xlim=(0, len(u)), ylim=(low, high + 0.12 * (high - low)), xlabel="sample", title="rtf filter: a signal with its state")
    figure.savefig(path, dpi=110)


def training_picture(folder, path):
    with open(f"{folder}/copying/metrics.csv") as file:
        rows = list(csv.DictReader(file))
    train, val = ([row for row in rows if row["split"] == split] for split in ("train", "val"))
    column = lambda part, name: [float(row[name]) for row in part]

    figure, top, bottom = start_picture()
    axes = figure.add_subplot(top[:2])
    axes.semilogy(column(train, "step"), column(train, "loss"), color=BLUE, lw=1.6, label="training loss")
    axes.semilogy(column(val, "step"), column(val, "loss"), "o", color=ORANGE, ms=5, label="validation loss")
    axes.grid(color=GREY, lw=0.4, alpha=0.6)
    axes.legend(frameon=False)
    final = 100 * float(val[-1]["accuracy"])
    axes.set(xlim=(0, float(rows[-1]["step"]) * 1.02), xlabel="step", title=f"metrics.csv: learning to copy, {final:.1f} % right at the end")

    axes = figure.add_subplot(top[2])
    draw_poles(
        axes,
        [(f"layer {i}", f"{folder}/layer_{i}_poles.json", colour, "x") for i, colour in enumerate((BLUE, ORANGE))],
        "the poles of both layers",
    )
    axes.legend(frameon=False, loc="center")

    kernels = [np.load(f"{folder}/layer_{i}_kernel.npy") for i in (0, 1)]
    cells = bottom.subgridspec(1, 2)
    for i, kernel in enumerate(kernels):
        kernel = kernel[:, 1:]  # the first sample, h0, would outshine the others
        axes = figure.add_subplot(cells[i])
        limit = np.abs(kernel).max()
        image = axes.imshow(
            kernel, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto", extent=(0.5, kernel.shape[1] + 0.5, len(kernel) - 0.5, -0.5)
        )
        axes.set(xlabel="lag in samples", ylabel="channel", title=f"the {len(kernel)} kernels of layer {i}")
        figure.colorbar(image, ax=axes, pad=0.02)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    commands = (compare, signal, split, join, state, at_least, at_most, layer, copying_tokens, copied, filter_picture, training_picture)
    {f.__name__: f for f in commands}[sys.argv[1]](*sys.argv[2:])
