"""What compare.py found: a table, results.json and a picture."""

import datetime
import json
import os
import platform
import re
import resource
import sys
import time
from pathlib import Path

import matplotlib
import numpy
import scipy
import torch

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

COLOURS = {
    "layer / PyTorch": "#2f6f9f",
    "memory / PyTorch": "#6a9a4b",
    "filter / lfilter": "#b0793a",
    "step / PyTorch": "#7d6aa5",
    "training / PyTorch": "#a5566a",
}
MISSED = "#c0392b"
HEAD = ("ours / peer", "case", "unit", "ours", "peer", "ratio", "required", "")
HEAD += ("error", "bound", "peer error", "method")
LEFT = ("ours / peer", "case", "unit", "", "method")


def progress(text):
    """One line on stderr that the next one replaces; plain lines when nobody watches."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
    elif text:
        print(text, file=sys.stderr, flush=True)


def cpu_model():
    found = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1] if found else platform.processor()


class OtherWork:
    """How many cores the rest of the machine keeps busy: /proc/stat less what this process and its children use."""

    def __init__(self):
        self.start = time.perf_counter()
        self.before = self.others()

    @staticmethod
    def others():
        user, nice, system, _, _, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        all_busy = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
        return all_busy - sum(one.ru_utime + one.ru_stime for one in used)

    def cores(self):
        return max(0.0, (self.others() - self.before) / (time.perf_counter() - self.start))


def machine(cores, other_cores, rtf_version):
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "cpu": cpu_model(),
        "cores": cores,
        "cores_busy_with_other_work": round(other_cores, 3),
        "system": platform.platform(),
        "versions": {
            "rtf": rtf_version.removeprefix("rtf "),
            "torch": torch.__version__,
            "scipy": scipy.__version__,
            "numpy": numpy.__version__,
            "python": platform.python_version(),
        },
    }


def cells(result):
    def number(value, form):
        return "-" if value is None else format(value, form)

    verdict = "-" if result["required"] is None else "pass" if result["passed"] else "FAIL"
    return [
        result["section"], result["title"], result["unit"], f"{result['ours']:.4g}", f"{result['peer']:.4g}",
        f"{result['ratio']:.2f}", number(result["required"], "g"), verdict, number(result["error"], ".1e"),
        number(result["bound"], ".1e"), number(result["peer_error"], ".1e"), result["label"],
    ]  # fmt: skip


def table(about, results):
    lines = [list(HEAD)] + [cells(result) for result in results]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    aligned = [
        [cell.ljust(width) if name in LEFT else cell.rjust(width) for name, cell, width in zip(HEAD, line, widths)]
        for line in lines
    ]
    text = ["  ".join(line) for line in aligned]
    text.insert(1, "  ".join("-" * width for width in widths))
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    required = [result for result in results if result["required"] is not None]
    passed = sum(result["passed"] for result in required)
    heading = [f"{about['cpu']}, {about['cores']} cores; {versions}"]
    if about["cores_busy_with_other_work"] > 0.1:
        busy = about["cores_busy_with_other_work"]
        heading.append(f"Other programs kept {busy:.2f} cores busy meanwhile: the ratios say little.")
    summary = f"{passed} of {len(required)} required rows pass"
    return "\n".join([*heading, "", *(line.rstrip() for line in text), "", summary])


def plot(path, about, results):
    figure, axes = plt.subplots(figsize=(10, 0.27 * len(results) + 1.6), layout="constrained")
    for i, result in enumerate(results):
        colour = COLOURS[result["section"]] if result["passed"] else MISSED
        axes.barh(i, result["ratio"], color=colour, height=0.72)
        beside = max(result["ratio"], result["required"] or 0)
        axes.annotate(
            f"{result['ratio']:.2f}", (beside, i), (5, 0), textcoords="offset points", va="center", fontsize=8
        )
        if result["required"] is not None:
            axes.plot([result["required"]] * 2, [i - 0.46, i + 0.46], color="black", linewidth=2)
    axes.set_yticks(range(len(results)), [result["title"] for result in results], fontsize=8)
    axes.set_ylim(len(results) - 0.4, -0.6)
    axes.set_xscale("log")
    axes.set_xlim(0.5, 1.6 * max(result["ratio"] for result in results))
    ticks = [tick for tick in (0.5, 1, 2, 5, 10, 20, 50, 100) if tick <= axes.get_xlim()[1]]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.axvline(1, color="0.6", linewidth=0.8, zorder=0)
    axes.grid(axis="x", color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("times better than the peer (log scale)")
    axes.set_title(f"rtf against its peers, {about['cpu']}, {about['cores']} cores", fontsize=10, loc="left")
    handles = [matplotlib.patches.Patch(color=colour, label=section) for section, colour in COLOURS.items()]
    handles.append(matplotlib.lines.Line2D([], [], color="black", linewidth=2, label="required"))
    if not all(result["passed"] for result in results):
        handles.append(matplotlib.patches.Patch(color=MISSED, label="missed"))
    figure.legend(handles=handles, fontsize=8, frameon=False, loc="outside lower center", ncols=len(handles))
    figure.savefig(path, dpi=140)


def save(folder, about, results):
    (folder / "results.json").write_text(json.dumps({**about, "rows": results}, indent=2) + "\n")
    plot(folder / "results.png", about, results)
