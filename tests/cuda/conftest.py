"""The tests on the GPU: every operator there against the same one on the CPU in double. RTF_TORCH_LIBRARY and
RTF_TORCH_CUDA_LIBRARY name the two libraries of operators; without them, or without a device that they run on, all are
skipped."""

import ctypes
import os
from pathlib import Path

import pytest

LIBRARIES = ("RTF_TORCH_LIBRARY", "RTF_TORCH_CUDA_LIBRARY")


def why_not():
    """What is missing, or None."""
    for name in LIBRARIES:
        if not os.environ.get(name):
            return f"{name} is not set: this build has no CUDA part"
    try:
        import torch
    except ImportError:
        return "PyTorch is not installed"
    load_libraries(torch)
    ask = ctypes.CDLL(os.environ[LIBRARIES[1]]).rtf_cuda_why_not
    ask.restype = ctypes.c_char_p
    reason = ask(0)
    return reason and reason.decode()


def load_libraries(torch):
    for name in LIBRARIES:
        torch.ops.load_library(os.environ[name])


def pytest_collection_modifyitems(items):
    here = [item for item in items if Path(__file__).parent in item.path.parents]
    reason = why_not() if here else None
    if reason:
        for item in here:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def cuda_ops():
    """torch.ops.rtf with both libraries loaded."""
    import torch

    load_libraries(torch)
    return torch.ops.rtf


@pytest.fixture(scope="session")
def parity_report(request):
    """Of all random cases, printed after the tests: {(operator, storage): how many cases, how many gradients that
    cancel, the worst error as a share of its bound, and its sizes}."""
    report = {}
    request.config.stash[REPORT] = report
    return report


REPORT = pytest.StashKey()


def pytest_terminal_summary(terminalreporter, config):
    report = config.stash.get(REPORT, {})
    if not report:
        return
    terminalreporter.section(f"{sum(row['cases'] for row in report.values())} random cases, GPU against CPU in double")
    for (operator, storage), row in sorted(report.items()):
        terminalreporter.write_line(
            f"{operator:16} {storage:9} {row['cases']:5} cases, worst {row['share']:6.1%} of the bound at "
            f"{row['sizes']}"
        )
    cancelled = sum(row["cancelled"] for row in report.values())
    terminalreporter.write_line(f"{cancelled} gradients cancel and were measured by their terms (cases.py)")
