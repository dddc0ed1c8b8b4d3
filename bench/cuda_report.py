"""What compare_cuda.py found: tables, what must be reached and is not, and a picture.

cuda_report.py RESULTS.json prints and draws it again.
"""

import itertools
import json
import sys
from pathlib import Path

import cuda_memory
import cuda_plan
import cuda_plot
import cuda_training
from cuda_rows import Rows, log2

# Times the copy, by log2 of the length. The paper's lengths; 2^16 as 2^15 and 2^17. MUST and AIM are of any n.
MUST = {11: 4, 12: 4, 13: 5, 14: 6, 15: 7, 16: 7, 17: 7}
AIM = {11: 3, 12: 2.5, 13: 3, 14: 4, 15: 4, 16: 4, 17: 4}
AIM_16 = {11: 2.5, 12: 2, 13: 2, 14: 2, 15: 2.5, 16: 2.5, 17: 2.5}
AIM_64 = {11: 3, 12: 2.5, 13: 3, 14: 3, 15: 4, 16: 4, 17: 4}
FLAT = {16: 0.05, 1: 0.10}
BACKWARD_MUST, BACKWARD_AIM = 5, 8
MEMORY_MUST = 5
TRAINING_MUST, TRAINING_AIM = 1.8, 3
ERROR_BOUND = 1e-5


def table(title, head, rows, note=""):
    """Rows of text, the first column to the left; a note beneath."""
    lines = [list(map(str, line)) for line in (head, *rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    left = [f"{line[0]:{widths[0]}}" for line in lines]
    aligned = ["  ".join([first, *map(str.rjust, line[1:], widths[1:])]) for first, line in zip(left, lines)]
    print("\n".join(["", title, aligned[0], "  ".join("-" * width for width in widths), *aligned[1:]]))
    if note:
        print(note)


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

    def beaten(self, ours, peer, what, eager=None):
        """A table's cell. A peer without a figure is not beaten. One that is launched from Python is also judged
        against ours launched so."""
        if peer is None or ours is None:
            return "missing" + self.check(False, f"{what}: not measured")
        mark = self.check(ours < peer, f"{what}: {peer:.3f} ms, ours {ours:.3f} ms")
        if eager is not None:
            mark = self.check(eager < peer, f"{what}: {peer:.3f} ms, ours without a graph {eager:.3f} ms") or mark
        return against(ours, peer) + mark


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
            orders = rows.orders("ours", batch, length)
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
        half, half_copy = rows.get("ours, bf16", 16, length, 64), rows.get("copy, bf16", 16, length)
        lines.append([
            f"2^{log}", number(copy), number(worst), f"{worst / copy:.2f}{mark}", MUST[log], AIM[log],
            number(rows.get("ours, eager", 16, length, 64)), number(half), f"{half / half_copy:.2f}",
            f"{error:.1e}{wrong}",
        ])  # fmt: skip
    table("Forward, batch 16, 128 channels, float32: kernel + convolution in a CUDA graph, any n: the slowest order",
          ["L", "copy ms", "ours ms", "x copy", "must", "aim", "eager n=64", "bf16 n=64", "x copy", "error"],
          lines)  # fmt: skip


def report_peers(rows, verdicts):
    """Every figure that cuda_plan.py asks for: none is left out because it is not there."""
    for batch, what in itertools.product(cuda_plan.BATCHES, ("release", "PyTorch", "JAX", "lfilter")):
        wanted = {length: cuda_plan.peer_orders(what, batch, length) for length in cuda_plan.LENGTHS}
        with_half = what != "lfilter"
        shown = {n for length, orders in wanted.items() for n in orders if n != length // 2 or not with_half}
        columns = [n for n in cuda_plan.PEER_ORDERS if n in shown]
        lines = []
        for length, orders in wanted.items():
            cells = {}
            for n in orders:
                eager = rows.get("ours, eager", batch, length, n) if what != "JAX" else None
                cells[n] = verdicts.beaten(rows.get("ours", batch, length, n), rows.get(what, batch, length, n),
                                           f"{what}, batch {batch}, L = {length}, n = {n}", eager)  # fmt: skip
            halves = [cells.get(length // 2, "-")] if with_half else []
            lines.append([f"2^{log2(length)}", *(cells.get(n, "-") for n in columns), *halves])
        if not columns:
            continue
        note = "" if what != "lfilter" else (
            "-: left out. It steps through the samples one after the other, and its time grows with n L, to a third of a "
            f"second at n L = 2^{log2(cuda_plan.LFILTER_MOST)}, the most that is measured."
        )  # fmt: skip
        table(f"{what}, without channel mixing, batch {batch}, ms (times ours)",
              ["L", *(f"n={n}" for n in columns), *(["n=L/2"] if with_half else [])], lines, note)  # fmt: skip
    for batch in cuda_plan.BATCHES:
        orders = cuda_plan.peer_orders("S5", batch, None)
        lines = []
        for length in cuda_plan.LENGTHS:
            cells = [number(rows.get("ours, mixed", batch, length, orders[-1]))]
            for n in orders:
                ours, peer = rows.get("ours, mixed", batch, length, n), rows.get("S5", batch, length, n)
                cells.append(verdicts.beaten(ours, peer, f"S5, batch {batch}, L = {length}, e = {n / 128:g}"))
            lines.append([f"2^{log2(length)}", *cells])
        table(f"S5, channel mixing on both sides, batch {batch}, ms (times ours at n = 128 e)",
              ["L", "ours", *(f"e={n / 128:g}" for n in orders)], lines)  # fmt: skip


def report_backward(rows, verdicts):
    lines = []
    for length in cuda_plan.LENGTHS:
        get = lambda who: rows.get(f"{who}, forward + backward", 16, length, 64)
        ours, release = get("ours"), get("release")
        cells = {who: verdicts.beaten(ours, get(who), f"{who}, forward + backward, L = {length}")
                 for who in ("release", "PyTorch", "JAX")}  # fmt: skip
        if length == 1 << 17 and ours and release:
            cells["release"] += verdicts.check(
                release / ours >= BACKWARD_MUST,
                f"forward + backward at 2^17: {release / ours:.1f} times the release, must {BACKWARD_MUST}",
            )
        lines.append([f"2^{log2(length)}", number(ours), *cells.values()])
    table(f"Forward + backward, batch 16, n = 64, ms; at 2^17 {BACKWARD_MUST} x the release needed, aim {BACKWARD_AIM}",
          ["L", "ours", "release", "PyTorch", "JAX"], lines)  # fmt: skip


def report_filter(rows):
    """What causal layers with an exact numerator use at small orders, beside the kernel and the convolution of all
    others, whose time no order changes."""
    orders = sorted({n for length in rows.lengths for n in rows.orders("ours, filter", 16, length)})
    if not orders:
        return
    lines, both = [], []
    for length in rows.lengths:
        copy, log = rows.get("copy", 16, length), log2(length)

        def slowest(what, most):
            return max(rows.get(what, 16, length, n) for n in rows.orders(what, 16, length) if n <= most)

        line = [f"2^{log}", number(copy)]
        for most, aim in ((16, AIM_16), (64, AIM_64)):
            ms = slowest("ours, filter", most)
            line += [number(ms), f"{ms / copy:.2f}", f"{slowest('ours', most) / copy:.2f}", aim[log]]
        lines.append(line)
        cells = []
        for passes in ("", ", forward + backward"):
            convolved = rows.get("ours" + passes, 16, length, 64)
            filtered = (rows.get("ours, filter" + passes, 16, length, n) for n in orders)
            cells += [number(convolved), *(against(convolved, ms) for ms in filtered)]
        both.append([f"2^{log}", *cells])
    table("filter (exact numerator, causal), forward, batch 16, the slowest order up to n: ms, times the copy, and "
          "beside it kernel + convolution (k + c), which all other layers use",
          ["L", "copy ms", *(word for n in (16, 64) for word in (f"n<={n} ms", "x copy", "k + c, x copy", "aim"))],
          lines)  # fmt: skip
    table("filter (exact numerator, causal), batch 16, ms (times kernel + convolution): forward, forward + backward",
          ["L", *(2 * ["kernel + conv.", *(f"n={n}" for n in orders)])], both)  # fmt: skip


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
            theirs = "OOM" if other is None else f"{other / 2**20:.0f}"
            if (length, order) not in cuda_memory.S5_SIZES:
                theirs = "-"
            elif (length, order) not in s5:
                theirs = "missing" + verdicts.check(False, f"memory of S5, L = {length}, n = {order}: not measured")
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
    generators = {row["name"]: row["generators"] for row in rows if len(row.get("generators", ())) > 1}
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
        for who, figure in (("ours", ours), ("JAX", jax), ("release", release)):
            if figure is None:
                verdicts.check(False, f"training, {name}, {who}: not measured")
        sizes = f"{one['layers']} x {one['channels']}, n = {one['order']}, ({one['batch']}, {one['length']})"
        norm = (
            "pre" if one["prenorm"] else "post"
        ) + f"norm, {one['denominators']} den., dropout {one['dropout']:g}/{one['inner_dropout']:g}"
        lines.append([name, sizes, norm, "both" if one["bidirectional"] else "causal", *cells, number(jax, ".2f"),
                      f"{ratio}{mark}", f"{jax / half:.2f}" if half and jax else "-", number(release, ".2f"),
                      f"{release / ours:.2f}" if ours and release else "-"])  # fmt: skip
    table(f"Training step, ms; batch norm, AdamW; {TRAINING_MUST} times as fast as JAX TF32 needed, aim {TRAINING_AIM}",
          ["task", "layers x channels", "norm, denominators, dropout outer/inner", "direction", "ours fp32", "tf32",
           "bf16", "JAX tf32", "x ours tf32", "x bf16", "release tf32", "x ours tf32"], lines,
          "\n".join(f"JAX, {name}: the faster of " + ", ".join(f"{ms:.2f} ({kind})" for kind, ms in of.items())
                    for name, of in generators.items()))  # fmt: skip


def report(results, picture):
    """Prints everything and returns the exit code."""
    about, verdicts = results["machine"], Verdicts()
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items() if version)
    print(f"{about['gpu']}, CUDA {about['cuda']}; {versions}")
    for name, part in results.get("parts", {}).items():
        print(f"{name}: measured {part['date']}, build {part['build']}")
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
