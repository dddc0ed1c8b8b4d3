"""picture.py FOLDER: FOLDER/digits.png, how the decisions settle while the pixels come in; from what `digits` left there."""

import sys

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

GREY, BLUE, ORANGE = "#9aa0aa", "#2463c9", "#d9541e"


def read_idx(path):
    data = open(path, "rb").read()
    shape = np.frombuffer(data, ">u4", data[3], 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(shape)


def main(folder):
    images, labels = (read_idx(f"{folder}/t10k-{name}-ubyte") for name in ("images-idx3", "labels-idx1"))
    accuracy, answers = np.load(f"{folder}/accuracy.npy"), np.load(f"{folder}/answers.npy")
    chances = np.exp(answers - answers.max(-1, keepdims=True))
    chances /= chances.sum(-1, keepdims=True)
    count, pixels, _ = chances.shape
    seen = np.arange(1, pixels + 1)

    figure = plt.figure(figsize=(8, 7.6), layout="constrained")
    grid = figure.add_gridspec(1 + (count + 1) // 2, 4, width_ratios=(1, 2.6, 1, 2.6), height_ratios=(1.6, *[1] * ((count + 1) // 2)))
    axes = figure.add_subplot(grid[0, :])
    axes.plot(seen, 100 * accuracy, color=BLUE)
    axes.axhline(100 * accuracy[-1], color=GREY, lw=0.8, ls=":")
    axes.set(xlim=(0, pixels), ylim=(0, 101), xlabel="pixels seen", ylabel="right, %")
    axes.set_title(f"{len(labels)} digits: {100 * accuracy[-1]:.2f} % right after the last pixel")
    for i in range(count):
        row, column = 1 + i // 2, 2 * (i % 2)
        picture = figure.add_subplot(grid[row, column])
        picture.imshow(images[i], cmap="gray_r", aspect="auto")
        picture.set(xticks=[], yticks=[])
        axes = figure.add_subplot(grid[row, column + 1])
        last = chances[i, -1].argmax()
        for digit in np.argsort(chances[i].max(0))[::-1]:
            colour = BLUE if digit == labels[i] else ORANGE if digit == last else GREY
            axes.plot(seen, chances[i, :, digit], color=colour, lw=1.6 if colour != GREY else 0.7)
            at = chances[i, :, digit].argmax()
            if chances[i, at, digit] > 0.35:
                x = np.clip(seen[at], 0.03 * pixels, 0.97 * pixels)
                axes.annotate(str(digit), (x, chances[i, at, digit]), (0, 2), textcoords="offset points", ha="center", color=colour, fontsize=8)
        axes.set(xlim=(0, pixels), ylim=(0, 1.2), yticks=(0, 1))
        if row == grid.nrows - 1:
            axes.set_xlabel("pixels seen")
        else:
            axes.set_xticklabels([])
        if i == 0:
            axes.set_title("probability of each digit; blue: the right one", fontsize=9, loc="left")
    figure.savefig(f"{folder}/digits.png", dpi=75)
    print(f"{folder}/digits.png shows how the decisions settle")


if __name__ == "__main__":
    main(*sys.argv[1:])
