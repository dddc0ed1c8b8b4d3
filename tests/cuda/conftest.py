"""The tests on the GPU: every operator there against the same one on the CPU in double. RTF_TORCH_LIBRARY and
RTF_TORCH_CUDA_LIBRARY name the two libraries of operators; without them, or without a device, all are skipped."""

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
    return None if torch.cuda.is_available() else "there is no CUDA device"


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

    for name in LIBRARIES:
        torch.ops.load_library(os.environ[name])
    return torch.ops.rtf


@pytest.fixture(scope="session")
def parity_report(request):
    """The worst of all random cases, printed after the tests: {(operator, storage): [cases, error as a share of its
    bound, sizes]}."""
    report = {}
    request.config.stash[REPORT] = report
    return report


REPORT = pytest.StashKey()


def pytest_terminal_summary(terminalreporter, config):
    report = config.stash.get(REPORT, {})
    if not report:
        return
    terminalreporter.section(f"{sum(row[0] for row in report.values())} random cases, GPU against CPU in double")
    for (operator, storage), (count, share, sizes) in sorted(report.items()):
        terminalreporter.write_line(
            f"{operator:14} {storage:9} {count:5} cases, worst {share:6.1%} of the bound at {sizes}"
        )
