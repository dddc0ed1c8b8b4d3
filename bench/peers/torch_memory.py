"""torch_memory.py FILTER PASS BATCH LENGTH: by how many bytes one pass of the PyTorch layer raises the peak of the
resident memory. Coefficients, u and dy are there before; outputs, gradients and temporaries are counted."""

import ctypes
import json
import re
import sys
from pathlib import Path

import torch
from torch_layer import TorchLayer, run_pass


def status_bytes(field):
    text = Path("/proc/self/status").read_text()
    return int(re.search(rf"^{field}:\s+(\d+) kB$", text, re.MULTILINE)[1]) * 1024


def warm_up(name):
    """Brings in the code and starts the threads, which are not the layer's memory."""
    layer = TorchLayer.of_filters([[0.5]] * 64, [[1.0]] * 64, [1.0] * 64, 64)
    u = torch.ones(16, 64, 64, requires_grad=name == "forward_backward")
    run_pass(layer, name, u, torch.ones(16, 64, 64))


def peak_increase(path, name, batch, length):
    filter_ = json.loads(Path(path).read_text())
    layer = TorchLayer.of_filters(filter_["a"], filter_["b"], filter_["h0"], length)
    rows = (batch, len(filter_["h0"]), length)
    u = torch.randn(rows).transpose(1, 2).requires_grad_(name == "forward_backward")
    y_gradient = torch.randn(rows).transpose(1, 2) if name == "forward_backward" else None
    warm_up(name)
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # the kernel then counts VmHWM from the present size on
    before = status_bytes("VmRSS")
    y = run_pass(layer, name, u, y_gradient)
    assert y.shape == u.shape
    return status_bytes("VmHWM") - before


if __name__ == "__main__":
    torch.manual_seed(3)
    print(peak_increase(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
