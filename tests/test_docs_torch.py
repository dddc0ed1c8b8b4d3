"""What the documents say of the operators and of training is true."""

import re
import subprocess
import sys

import pytest
from conftest import from_environment
from test_docs import ROOT, blocks


def test_readme_python_runs_as_printed():
    pytest.importorskip("torch")
    library = from_environment("RTF_TORCH_LIBRARY")
    found = re.search(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    code = found[1].replace("build/release/librtf_torch.so", library)
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, found[2]), done.stderr


def test_readme_config_trains(rtf, tmp_path):
    from_environment("RTF_TORCH_LIBRARY")
    (block,) = blocks(ROOT / "README.md", "yaml")
    (tmp_path / "copying.yaml").write_text(block)
    rtf("train", "copying.yaml", "train.steps=2", "--out", "runs/copying", "--quiet")


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
