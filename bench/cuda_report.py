"""What compare_cuda.py found: tables, what must be reached and is not, and a picture.

cuda_report.py RESULTS.json prints and draws it again.
"""

import json
import sys
from pathlib import Path

import cuda_memory
import cuda_plot
import cuda_training
from cuda_rows import Rows, log2

# Times the copy, by log2 of the length. The paper's lengths; 2^16 as 2^15 and 2^17.
MUST = {11: 4, 12: 4, 13: 5, 14: 6, 15: 7, 16: 7, 17: 7}
AIM = {11: 3, 12: 2.5, 13: 3, 14: 4, 15: 4, 16: 4, 17: 4}
AIM_16 = {11: 2.5, 12: 2, 13: 2, 14: 2, 15: 2.5, 16: 2.5, 17: 2.5}
AIM_64 = {11: 3, 12: 2.5, 13: 3, 14: 3, 15: 4, 16: 4, 17: 4}
FLAT = {16: 0.05, 1: 0.10}
BACKWARD_MUST, BACKWARD_AIM = 5, 8
MEMORY_MUST = 5
TRAINING_MUST, TRAINING_AIM = 1.8, 3
ERROR_BOUND = 1e-5


def table(title, head, rows):
    """Rows of text, the first column to the left."""
    lines = [list(map(str, line)) for line in (head, *rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    left = [f"{line[0]:{widths[0]}}" for line in lines]
    aligned = ["  ".join([first, *map(str.rjust, line[1:], widths[1:])]) for first, line in zip(left, lines)]
    print("\n".join(["", title, aligned[0], "  ".join("-" * width for width in widths), *aligned[1:]]))


class Verdicts:
    """What must be reached: each kept with whether it is."""

    def __init__(self):
        self.total, self.missed = 0, []

    def check(self, passed, text):
        """The mark for a table's cell."""
        self.total += 1
        if passed:
            return ""
        self.missed.append(text)
        return " !"


def number(value, form=".4f"):
    return "-" if value is None else format(value, form)


def against(ms, peer):
    return "-" if peer is None or ms is None else f"{peer:.3f} ({peer / ms:.1f} x)"


def report_orders(rows, verdicts):
    for batch, flat in FLAT.items():
        columns = sorted(
            {n for length in rows.lengths for n in rows.orders("ours", batch, length)}
            & {8, 32, 64, 128, 256, 512, 1024}
        )
        lines = []
        for length in rows.lengths:
            orders = [n for n in rows.orders("ours", batch, length) if n != 32]
            if not orders:
                continue
            ms = [rows.get("ours", batch, length, n) for n in orders]
            spread = max(ms) / min(ms) - 1
            mark = verdicts.check(
                spread <= flat, f"batch {batch}, 2^{log2(length)}: {spread:.1%} from n = 8 to L/2, must {flat:.0%}"
            )
            cells = [number(rows.get("ours", batch, length, n)) for n in columns]
            cells.append(number(rows.get("ours", batch, length, length // 2)))
            lines.append([f"2^{log2(length)}", *cells, f"{spread:.1%}{mark}"])
        table(f"Ours by order n, batch {batch}, ms; the spread from n = 8 to L/2 must be at most {flat:.0%}",
              ["L", *(f"n={n}" for n in columns), "n=L/2", "spread"], lines)  # fmt: skip


def report_copy(rows, verdicts):
    lines = []
    for length in rows.lengths:
        copy, log = rows.get("copy", 16, length), log2(length)
        worst = max(rows.get("ours", 16, length, n) for n in rows.orders("ours", 16, length))
        mark = verdicts.check(
            worst / copy <= MUST[log], f"2^{log}: {worst / copy:.2f} times the copy, must {MUST[log]}"
        )
        error = rows.errors[length]
        wrong = verdicts.check(error <= ERROR_BOUND, f"2^{log}: error {error:.1e}, bound {ERROR_BOUND:.0e}")
        chunked = {n: rows.get("ours, filter", 16, length, n) for n in rows.orders("ours, filter", 16, length)}
        half, half_copy = rows.get("ours, bf16", 16, length, 64), rows.get("copy, bf16", 16, length)

        def best(order):
            return min(ms for ms in (chunked.get(order), rows.get("ours", 16, length, order)) if ms is not None) / copy

        lines.append([
            f"2^{log}", number(copy), number(worst), f"{worst / copy:.2f}{mark}", MUST[log], AIM[log],
            f"{best(16) if 16 in chunked else best(8):.2f}", AIM_16[log], f"{best(64):.2f}", AIM_64[log],
            number(rows.get("ours, eager", 16, length, 64)), number(half), f"{half / half_copy:.2f}",
            f"{error:.1e}{wrong}",
        ])  # fmt: skip
    table("Forward, batch 16, 128 channels, float32: kernel and convolution captured in a CUDA graph, slowest order",
          ["L", "copy ms", "ours ms", "x copy", "must", "aim", "n<=16", "aim", "n<=64", "aim", "eager n=64",
           "bf16 n=64", "x copy", "error"], lines)  # fmt: skip


def report_peers(rows, verdicts):
    def beaten(ours, peer, what, eager=None):
        """A peer that is launched from Python is also judged against ours launched so, where that was measured."""
        if peer is None or ours is None:
            return "-"
        mark = verdicts.check(ours < peer, f"{what}: {peer:.3f} ms, ours {ours:.3f} ms")
        if eager is not None:
            mark = verdicts.check(eager < peer, f"{what}: {peer:.3f} ms, ours without a graph {eager:.3f} ms") or mark
        return against(ours, peer) + mark

    for batch in FLAT:
        lines = []
        for length in rows.lengths:
            cells = []
            for what in ("release", "PyTorch", "JAX"):
                for n in (64, length // 2):
                    peer = rows.get(what, batch, length, n)
                    eager = rows.get("ours, eager", batch, length, n) if what != "JAX" else None
                    title = f"{what}, batch {batch}, L = {length}, n = {n}"
                    cells.append(beaten(rows.get("ours", batch, length, n), peer, title, eager))
            for n in (8, 64, 1024):
                peer = rows.get("lfilter", batch, length, n)
                eager = rows.get("ours, eager", batch, length, n)
                cells.append(beaten(rows.get("ours", batch, length, n), peer, f"lfilter, L = {length}, n = {n}", eager))
            lines.append([f"2^{log2(length)}", *cells])
        head = [
            "L",
            "release n=64",
            "n=L/2",
            "PyTorch n=64",
            "n=L/2",
            "JAX n=64",
            "n=L/2",
            "lfilter n=8",
            "n=64",
            "n=1024",
        ]
        table(f"Peers without channel mixing, batch {batch}, ms (times ours)", head, lines)
    for batch in FLAT:
        orders = sorted({n for length in rows.lengths for n in rows.orders("S5", batch, length)})
        lines = []
        for length in rows.lengths:
            cells = [number(rows.get("ours, mixed", batch, length, orders[-1] if orders else 0))]
            for n in orders:
                ours, peer = rows.get("ours, mixed", batch, length, n), rows.get("S5", batch, length, n)
                cells.append(beaten(ours, peer, f"S5, batch {batch}, L = {length}, e = {n / 128:g}"))
            lines.append([f"2^{log2(length)}", *cells])
        table(f"S5, channel mixing on both sides, batch {batch}, ms (times ours at n = 128 e)",
              ["L", "ours", *(f"e={n / 128:g}" for n in orders)], lines)  # fmt: skip


def report_backward(rows, verdicts):
    lines = []
    for length in rows.lengths:
        ours, release, *others = (
            rows.get(f"{who}, forward + backward", 16, length, 64) for who in ("ours", "release", "PyTorch", "JAX")
        )
        if ours is None or release is None:
            continue
        mark = ""
        if length == 1 << 17:
            mark = verdicts.check(
                release / ours >= BACKWARD_MUST,
                f"forward + backward at 2^17: {release / ours:.1f} times the release, must {BACKWARD_MUST}",
            )
        lines.append(
            [
                f"2^{log2(length)}",
                number(ours),
                against(ours, release) + mark,
                *(against(ours, other) for other in others),
            ]
        )
    table(f"Forward + backward, batch 16, n = 64, ms; at 2^17 {BACKWARD_MUST} x the release needed, aim {BACKWARD_AIM}",
          ["L", "ours", "release", "PyTorch", "JAX"], lines)  # fmt: skip


def report_filter(rows):
    """The filter with state beside the kernel and the convolution, whose time no order changes."""
    orders = sorted({n for length in rows.lengths for n in rows.orders("ours, filter", 16, length)})
    lines = []
    for length in rows.lengths:
        cells = []
        for what, beside in (("ours, filter", "ours"), ("ours, filter, forward + backward", "ours, forward + backward")):
            convolved = rows.get(beside, 16, length, 64)
            cells += [number(convolved), *(against(convolved, rows.get(what, 16, length, n)) for n in orders)]
        lines.append([f"2^{log2(length)}", *cells])
    table("Filter in chunks, batch 16, ms (times kernel and convolution): forward, then forward + backward",
          ["L", *(2 * ["convolution", *(f"n={n}" for n in orders)])], lines)  # fmt: skip


def report_memory(rows, verdicts):
    ours = {(row["length"], row["order"]): row for row in rows if row["what"] == "ours"}
    s5 = {(row["length"], row["order"]): row["peak_bytes"] for row in rows if row["what"] == "S5"}
    lengths = sorted({length for length, _ in ours})
    extra, whole = [], []
    for order in sorted({order for _, order in ours}):
        one, two = [f"2^{log2(order)}"], [f"2^{log2(order)}"]
        for length in lengths:
            if (length, order) not in ours:
                one.append("")
                two.append("")
                continue
            row = ours[length, order]
            share = row["extra_bytes"] / (4 * length * cuda_memory.CHANNELS)
            mark = verdicts.check(
                share <= MEMORY_MUST,
                f"memory, L = 2^{log2(length)}, n = 2^{log2(order)}: {share:.2f} L d floats, must {MEMORY_MUST}",
            )
            one.append(f"{share:.2f}{mark}")
            other = s5.get((length, order))
            theirs = "-" if (length, order) not in s5 else "OOM" if other is None else f"{other / 2**20:.0f}"
            two.append(
                f"{row['peak_bytes'] / 2**20:.0f} / {cuda_memory.paper_bytes(length, order) / 2**20:.0f} / {theirs}"
            )
        extra.append(one)
        whole.append(two)
    head = ["n \\ L", *(f"2^{log2(length)}" for length in lengths)]
    table(
        f"Peak memory beyond input, output and parameters, batch 1, d = 1,024, in L d floats; at most {MEMORY_MUST}",
        head,
        extra,
    )
    table(
        "The whole peak with channel mixing, MiB: ours / the paper's RTF in JAX / S5 in JAX, measured here", head, whole
    )


def report_training(rows, verdicts):
    ms = {(row["what"], row["name"]): row["ms"] for row in rows}
    lines = []
    for one in cuda_training.CONFIGURATIONS:
        name = one["name"]
        jax, release = ms.get(("JAX", name)), ms.get(("release", name))
        cells = [number(ms.get((f"ours, {precision}", name)), ".2f") for precision in cuda_training.PRECISIONS]
        ours, half = ms.get(("ours, tf32", name)), ms.get(("ours, bf16", name))
        ratio, mark = "-", ""
        if ours and jax:
            ratio = f"{jax / ours:.2f}"
            mark = verdicts.check(
                jax / ours >= TRAINING_MUST,
                f"training, {name}: {jax / ours:.2f} times as fast as JAX, must {TRAINING_MUST}",
            )
        sizes = f"{one['layers']} x {one['channels']}, n = {one['order']}, ({one['batch']}, {one['length']})"
        norm = (
            "pre" if one["prenorm"] else "post"
        ) + f"norm, {one['denominators']} den., dropout {one['dropout']:g}/{one['inner_dropout']:g}"
        lines.append([name, sizes, norm, "both" if one["bidirectional"] else "causal", *cells, number(jax, ".2f"),
                      f"{ratio}{mark}", f"{jax / half:.2f}" if half and jax else "-", number(release, ".2f"),
                      f"{release / ours:.2f}" if ours and release else "-"])  # fmt: skip
    table(f"Training step, ms; batch norm, AdamW; {TRAINING_MUST} times as fast as JAX TF32 needed, aim {TRAINING_AIM}",
          ["task", "layers x channels", "norm, denominators, dropout outer/inner", "direction", "ours fp32", "tf32",
           "bf16", "JAX tf32", "x ours tf32", "x bf16", "release tf32", "x ours tf32"], lines)  # fmt: skip


def report(results, picture):
    """Prints everything and returns the exit code."""
    about, verdicts = results["machine"], Verdicts()
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items() if version)
    print(f"{about['gpu']}, CUDA {about['cuda']}; {versions}; {about['date']}")
    if "layer" in results:
        rows = Rows(results["layer"])
        for part in (report_copy, report_orders, report_peers, report_backward):
            part(rows, verdicts)
        report_filter(rows)
    if "memory" in results:
        report_memory(results["memory"], verdicts)
    if "training" in results:
        report_training(results["training"], verdicts)
    print(f"\n{verdicts.total - len(verdicts.missed)} of {verdicts.total} required figures are reached")
    for line in verdicts.missed:
        print(f"  missed: {line}")
    cuda_plot.save(results, picture)
    return 1 if verdicts.missed else 0


if __name__ == "__main__":
    source = Path(sys.argv[1])
    sys.exit(report(json.loads(source.read_text()), source.with_suffix(".png")))
