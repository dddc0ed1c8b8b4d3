"""examples/tour.ipynb runs from beginning to end, and is committed without outputs."""

import os
import shutil
import sysconfig
from pathlib import Path

import pytest
from torch_half import need_torch_half

NOTEBOOK = Path(__file__).resolve().parent.parent.parent / "examples" / "tour.ipynb"
if not NOTEBOOK.exists():
    pytest.skip("the examples lie in the source tree alone", allow_module_level=True)
nbformat = pytest.importorskip("nbformat")


def test_has_no_outputs():
    for cell in nbformat.read(NOTEBOOK, 4).cells:
        if cell.cell_type == "code":
            assert (cell.outputs, cell.execution_count) == ([], None), cell.source


def test_runs(tmp_path, monkeypatch):
    """Its own assertions hold; lines that begin with ! show an error alone, so that none may be printed."""
    need_torch_half()
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("matplotlib")
    command = os.environ.get("RTF_COMMAND") or shutil.which("rtf", path=sysconfig.get_path("scripts"))
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(command).parent), os.environ["PATH"]]))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.delenv("MPLBACKEND", raising=False)  # the notebook's own shows its pictures
    notebook = nbformat.read(NOTEBOOK, 4)
    nbclient.NotebookClient(notebook, timeout=600).execute(cwd=str(tmp_path))
    printed = "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", []))
    assert "finished: 200 steps" in printed and "PyTorch was imported: False" in printed
    pictures = [o for cell in notebook.cells for o in cell.get("outputs", []) if "image/png" in o.get("data", {})]
    assert len(pictures) == 3
