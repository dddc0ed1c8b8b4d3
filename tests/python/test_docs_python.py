"""docs/from-other-code.md is true: every block of Python runs and prints what the page says. docs/api.md is up to date."""

import contextlib
import importlib.util
import io
import re
from pathlib import Path

import pytest
from torch_half import need_torch_half

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "from-other-code.md"
if not PAGE.exists():
    pytest.skip("the documents lie in the source tree alone", allow_module_level=True)
SECTIONS = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("title", SECTIONS)
def test_section_runs_as_printed(title, tmp_path, monkeypatch):
    """The blocks of a section are one program."""
    found = re.findall(r"^```python\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", SECTIONS[title], re.MULTILINE | re.DOTALL)
    assert found
    imported = re.findall(r"^(?:import|from) (\w+)", SECTIONS[title], re.MULTILINE)
    if "torch" in imported:
        need_torch_half()
    if "torchaudio" in imported:
        pytest.importorskip("torchaudio")
    monkeypatch.chdir(tmp_path)
    names = {"__name__": title}
    for code, expected in found:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, f"{PAGE.name}, {title}", "exec"), names)
        assert printed.getvalue() == expected, code


def test_every_block_is_in_a_section():
    assert sum(text.count("```python") for text in SECTIONS.values()) == PAGE.read_text().count("```python")


def test_api_reference_is_what_the_docstrings_say():
    need_torch_half()
    pytest.importorskip("matplotlib")
    root = PAGE.parent.parent
    found = importlib.util.spec_from_file_location("api_reference", root / "scripts" / "api_reference.py")
    script = importlib.util.module_from_spec(found)
    found.loader.exec_module(script)
    assert script.reference() == (root / "docs" / "api.md").read_text(), "run scripts/api_reference.py again"
