"""Draws one_filter.svg: one set of numbers, used as a kernel by FFT and as a recurrence.

    .venv/bin/python docs/images/one_filter.py build/release/rtf [FILE.png]

Every curve comes out of the rtf command; the script only draws.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

LENGTH, SHOWN = 96, 150
INK, GREY, BLUE, ORANGE, PAPER = "#20242c", "#8a909c", "#2463c9", "#d9541e", "#fcfcfa"


def trained_filter():
    """Order 6: three pole pairs, slow enough that the kernel has not died away at LENGTH."""
    poles = [0.992 * np.exp(0.052j * np.pi), 0.972 * np.exp(0.19j * np.pi), 0.93 * np.exp(0.55j * np.pi)]
    a = np.poly([p for pole in poles for p in (pole, pole.conj())]).real[1:]
    residues = [0.20 - 0.35j, -0.25 + 0.2j, 0.12j]
    b = np.zeros(len(a) + 1)
    for i, (r, p) in enumerate(zip(residues, poles)):
        others = [q for j, pole in enumerate(poles) if j != i for q in (pole, pole.conj())]
        pair = np.array([2 * r.real, -2 * (r * p.conjugate()).real])  # r/(z - p) and its conjugate, added
        b[1:] += np.convolve(pair, np.poly(others).real)
    return {"a": a.tolist(), "b": b[1:].tolist(), "h0": 0.3, "length": LENGTH}


def compute(rtf):
    """Poles, Algorithm 1's kernel, the corrected recurrence, and the recurrence of the trained numerator as it stands."""
    with tempfile.TemporaryDirectory() as folder:
        def run(*arguments):
            return subprocess.run([rtf, *map(str, arguments)], cwd=folder, check=True, capture_output=True, text=True).stdout

        def kernel(file, length, method):
            run("kernel", file, "--length", length, "--method", method, "-o", "k.npy")
            return np.load(Path(folder) / "k.npy")[0]

        content = trained_filter()
        (Path(folder) / "trained.json").write_text(json.dumps(content))
        del content["length"]
        (Path(folder) / "as_it_stands.json").write_text(json.dumps(content))
        run("correct", "trained.json", "-o", "plain.json")
        poles = json.loads(run("poles", "trained.json", "--json"))["groups"][0]["poles"]
        return (
            np.array(poles),
            kernel("trained.json", LENGTH, "wrapped"),
            kernel("plain.json", SHOWN, "recurrence"),
            kernel("as_it_stands.json", SHOWN, "recurrence"),
        )


def draw_poles(axes, poles):
    angle = np.linspace(0, 2 * np.pi, 400)
    axes.fill(np.cos(angle), np.sin(angle), color="#eef1f6", zorder=0)
    axes.plot(np.cos(angle), np.sin(angle), color=INK, lw=1.1)
    axes.axhline(0, color=GREY, lw=0.6)
    axes.axvline(0, color=GREY, lw=0.6)
    axes.plot(poles[:, 0], poles[:, 1], "x", color=INK, ms=8, mew=1.8)
    axes.set_facecolor("none")
    axes.set(aspect="equal", xlim=(-1.12, 1.12), ylim=(-1.12, 1.12), xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.text(0, -1.32, "its poles in the unit circle", ha="center", va="center", fontsize=10, color=INK)


def box(figure, x, y, width, height, color, title, lines):
    figure.add_artist(
        FancyBboxPatch((x, y), width, height, boxstyle="round,pad=0,rounding_size=0.012", transform=figure.transFigure,
                       mutation_aspect=figure.get_figwidth() / figure.get_figheight(), fc="white", ec=color, lw=1.6)
    )
    figure.text(x + width / 2, y + height - 0.075, title, ha="center", va="center", fontsize=11.5, color=color, weight="bold")
    for i, line in enumerate(lines):
        figure.text(x + width / 2, y + height - 0.155 - 0.068 * i, line, ha="center", va="center", fontsize=10.5, color=INK)


def arrow(figure, start, end, color):
    figure.add_artist(
        FancyArrowPatch(start, end, transform=figure.transFigure, arrowstyle="-|>", mutation_scale=14, lw=1.8,
                        color=color, shrinkA=0, shrinkB=0)
    )


def draw_kernels(axes, wrapped, recurrence, uncorrected):
    t = np.arange(SHOWN)
    axes.axvspan(LENGTH - 0.5, SHOWN, color="#f0f1ee", zorder=0)
    axes.axhline(0, color=GREY, lw=0.6)
    axes.plot(t, uncorrected, color=GREY, lw=1.1, ls=(0, (2, 2)), label="recurrence without the correction")
    axes.plot(t, recurrence, color=ORANGE, lw=1.7, label="recurrence, sample by sample")
    axes.plot(t[:LENGTH], wrapped, "o", color=BLUE, ms=3.4, label=f"FFT, all $L = {LENGTH}$ samples at once")
    low, high = min(recurrence.min(), uncorrected.min()), max(recurrence.max(), uncorrected.max())
    axes.set(xlim=(-2, SHOWN), ylim=(low - 0.1 * (high - low), high + 0.30 * (high - low)), yticks=[0])
    axes.set_xticks([0, 32, 64, LENGTH, 128], ["0", "32", "64", "$L$", "128"])
    axes.tick_params(colors=INK, labelsize=9.5, length=3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.set_xlabel("t", color=INK, fontsize=10, labelpad=1)
    axes.text((LENGTH + SHOWN) / 2, low - 0.02 * (high - low), "it goes on", ha="center", va="center", fontsize=10,
              color=ORANGE, style="italic")
    handles, labels = axes.get_legend_handles_labels()
    order = [2, 1, 0]
    axes.legend([handles[i] for i in order], [labels[i] for i in order], loc="upper right", fontsize=9.5, frameon=False,
                borderaxespad=0.1, labelspacing=0.3)
    difference = np.abs(wrapped - recurrence[:LENGTH]).max()
    axes.set_title(f"the same impulse response: largest difference {difference:.0e}", fontsize=10.5, color=INK, pad=6)


def main():
    rtf = str(Path(sys.argv[1]).resolve())
    poles, wrapped, recurrence, uncorrected = compute(rtf)
    plt.rcParams.update({"font.family": "DejaVu Sans", "svg.hashsalt": "rtf", "mathtext.fontset": "dejavusans"})
    figure = plt.figure(figsize=(12, 4.3), facecolor=PAPER)
    figure.add_artist(plt.Rectangle((0, 0), 1, 1, transform=figure.transFigure, fill=False, ec="#d5d8de", lw=2))

    figure.text(0.130, 0.905, "One filter: the numbers $a,\\, b,\\, h_0$", ha="center", fontsize=11.5, color=INK, weight="bold")
    figure.text(0.130, 0.785, r"$H(z) = h_0 + \frac{b_1 z^{-1} + \cdots + b_n z^{-n}}{1 + a_1 z^{-1} + \cdots + a_n z^{-n}}$",
                ha="center", va="center", fontsize=15, color=INK)
    draw_poles(figure.add_axes([0.045, 0.140, 0.170, 0.530]), poles)

    arrow(figure, (0.235, 0.56), (0.282, 0.70), BLUE)
    arrow(figure, (0.235, 0.42), (0.282, 0.28), ORANGE)
    box(figure, 0.287, 0.555, 0.218, 0.355, BLUE, "train: a kernel by FFT",
        [r"$k = \mathrm{iFFT}_L\left(\hat B / \hat A + h_0\right)$", r"$y = k * u$", "$O(L\\,\\log L)$, whatever $n$"])
    box(figure, 0.287, 0.090, 0.218, 0.355, ORANGE, "run: correct, then step",
        [r"$y_t = b' \cdot x_t + h_0'\, u_t$", r"$x_{t+1} = (u_t - a \cdot x_t,\, x_t^1, \ldots)$", "$O(n)$ a sample"])
    arrow(figure, (0.508, 0.70), (0.548, 0.60), BLUE)
    arrow(figure, (0.508, 0.28), (0.548, 0.38), ORANGE)
    draw_kernels(figure.add_axes([0.570, 0.135, 0.410, 0.750]), wrapped, recurrence, uncorrected)

    figure.savefig(Path(__file__).with_suffix(".svg"), facecolor=PAPER, metadata={"Date": None})
    if len(sys.argv) > 2:
        figure.savefig(sys.argv[2], facecolor=PAPER, dpi=130)


if __name__ == "__main__":
    main()
