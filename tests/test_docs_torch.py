"""What the documents say of the operators and of training is true."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import COMMAND, TIMEOUT, from_environment
from test_docs import ROOT, blocks


def test_readme_python_runs_as_printed():
    pytest.importorskip("torch")
    library = from_environment("RTF_TORCH_LIBRARY")
    found = re.search(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    code = found[1].replace("build/release/librtf_torch.so", library)
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, found[2]), done.stderr


def test_python_with_torch_runs_as_printed(tmp_path):
    pytest.importorskip("torch")
    from_environment("RTF_TORCH_LIBRARY")
    environment = {**os.environ, "PYTHONPATH": from_environment("RTF_PYTHON_PACKAGE")}
    section = (ROOT / "docs" / "python.md").read_text().partition("## With PyTorch")[2]
    code, printed = ("".join(blocks) for blocks in zip(*re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)))
    assert code.count("rtf.export(") == 2
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, printed), done.stderr


def test_readme_config_trains(rtf, tmp_path):
    from_environment("RTF_TORCH_LIBRARY")
    (block,) = blocks(ROOT / "README.md", "yaml")
    (tmp_path / "copying.yaml").write_text(block)
    rtf("train", "copying.yaml", "train.steps=2", "--out", "runs/copying", "--quiet")


def test_the_report_of_the_documents(tmp_path):
    """The commands run as printed, but for the length of the training, and print a table with these columns."""
    from_environment("RTF_TORCH_LIBRARY")
    section = (ROOT / "docs" / "training.md").read_text().partition("## Reports")[2]
    block = re.search(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)[1]
    header = re.search(r"^\| run .*$", section, re.MULTILINE)[0]
    (tmp_path / "experiments").symlink_to(ROOT / "experiments")
    path = os.pathsep.join([str(Path(COMMAND).resolve().parent), os.environ["PATH"]])
    done = subprocess.run(["bash", "-e", "-c", block.replace("train.epochs=6", "train.steps=2")], cwd=tmp_path,
                          env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=TIMEOUT)  # fmt: skip
    assert done.returncode == 0, done.stderr
    columns = [[cell.strip() for cell in line.split("|")] for line in done.stdout.splitlines() if line.startswith("| run ")]
    assert columns == [[cell.strip() for cell in header.split("|")]]
    assert (tmp_path / "runs/report/report.md").exists() and (tmp_path / "runs/report/copying.svg").exists()


def test_the_deployment_of_the_documents(rtf, tmp_path):
    """Export's report has these columns, and the first lines of the section on streams run as printed."""
    from_environment("RTF_TORCH_LIBRARY")
    text = (ROOT / "docs" / "deployment.md").read_text()
    header = re.search(r"^layer .*$", text, re.MULTILINE)[0]
    commands = re.search(r"^## Stream\n\n```sh\n(.*?)^arecord", text, re.MULTILINE | re.DOTALL)[1]
    rtf("train", ROOT / "experiments/small/copying.yaml", "train.steps=2", "--out", "runs/copying", "--quiet")
    report = rtf("export", "runs/copying", "-o", "model.safetensors", "--stabilize", "refit")
    assert header.split() in [line.split() for line in report.splitlines()]
    np.save(tmp_path / "u.npy", np.arange(5)[:, None] % 3)
    path = os.pathsep.join([str(Path(COMMAND).resolve().parent), os.environ["PATH"]])
    done = subprocess.run(["bash", "-e", "-c", commands], cwd=tmp_path, env={**os.environ, "PATH": path},
                          capture_output=True, text=True, timeout=TIMEOUT)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 3 + 1 and len(np.load(tmp_path / "y.npy")) == 5


def test_every_operator_is_documented(torch_ops):
    """docs/operators.md gives the schemas as they are registered, without those of backward passes."""
    import torch

    registered = {
        str(schema).removeprefix("rtf::").replace("1.0000000000000001e-05", "1e-05").replace("0.10000000000000001", "0.1")
        for schema in torch._C._jit_get_all_schemas()
        if schema.name.startswith("rtf::") and not schema.name.endswith("_backward")
    }
    documented = {line for block in blocks(ROOT / "docs" / "operators.md", "text") for line in block.splitlines()}
    assert registered
    assert documented == registered
