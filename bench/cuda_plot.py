"""The picture of what compare_cuda.py found."""

import sys

import cuda_training
from cuda_rows import Rows, log2


def save(results, path):
    try:
        import matplotlib
    except ImportError:
        print(
            f"matplotlib is not installed: no picture; bench/cuda_report.py {path.with_suffix('.json')} draws it",
            file=sys.stderr,
        )
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    panels = [name for name in ("layer", "training") if name in results]
    if not panels:
        return
    figure, axes = plt.subplots(1, len(panels), figsize=(6.5 * len(panels), 4.5), layout="constrained", squeeze=False)
    for one, name in zip(axes[0], panels):
        (plot_layer if name == "layer" else plot_training)(one, results[name])
    figure.suptitle(f"{results['machine']['gpu']}", fontsize=10, x=0.01, ha="left")
    figure.savefig(path, dpi=140)


def plot_layer(axes, rows):
    rows = Rows(rows)
    for what, order, label, style in (
        ("copy", None, "copy of the samples", "k:"), ("ours", 64, "ours", "-o"),
        ("ours, mixed", 1024, "ours, mixed", "--o"), ("JAX", 64, "JAX", "-s"), ("S5", 128, "S5, e = 1, mixed", "-^"),
        ("S5", 1024, "S5, e = 8, mixed", "-v"), ("release", 64, "PyTorch, as released", "-d"),
        ("lfilter", 64, "lfilter, n = 64", "-x"),
    ):  # fmt: skip
        points = [(log2(length), rows.get(what, 16, length, order)) for length in rows.lengths]
        points = [point for point in points if point[1] is not None]
        if points:
            axes.plot(*zip(*points), style, label=label, markersize=4)
    axes.set_yscale("log")
    axes.set_xticks([log2(length) for length in rows.lengths], [f"$2^{{{log2(length)}}}$" for length in rows.lengths])
    axes.set_xlabel("length")
    axes.set_title("Layer forward, batch 16, 128 channels, ms", fontsize=9, loc="left")
    axes.grid(color="0.9", linewidth=0.6)
    axes.legend(fontsize=7, frameon=False, ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.13))


def plot_training(axes, rows):
    names = [one["name"] for one in cuda_training.CONFIGURATIONS]
    sides = list(dict.fromkeys(row["what"] for row in rows))
    for side_number, side in enumerate(sides):
        ms = {row["name"]: row["ms"] for row in rows if row["what"] == side}
        width = 0.8 / len(sides)
        places = [i + (side_number - (len(sides) - 1) / 2) * width for i in range(len(names))]
        axes.bar(places, [ms.get(name) or 0 for name in names], width, label=side)
    axes.set_xticks(range(len(names)), names)
    axes.set_yscale("log")
    axes.set_title("Training step, ms", fontsize=9, loc="left")
    axes.grid(axis="y", color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.legend(fontsize=7, frameon=False, ncols=len(sides), loc="upper center", bbox_to_anchor=(0.5, -0.13))
