"""The README and the documents are true: examples run as printed, links and file names lead somewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import COMMAND, from_environment

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(path, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL)


def test_programs_are_the_files():
    for block, name in zip(blocks(ROOT / "README.md", "cpp"), ("readme.cpp", "train.cpp"), strict=True):
        assert block == (ROOT / "examples" / name).read_text()
    for block, name in zip(blocks(ROOT / "docs" / "c-api.md", "c"), ("stream.c", "filter.c"), strict=True):
        assert block == (ROOT / "examples" / name).read_text()
    assert blocks(ROOT / "docs" / "deployment.md", "cpp") == [(ROOT / "examples" / "stream.cpp").read_text()]
    assert blocks(ROOT / "docs" / "toolbox.md", "cpp") == [(ROOT / "examples" / "toolbox.cpp").read_text()]


def test_readme_console_runs_as_printed(tmp_path):
    (block,) = blocks(ROOT / "README.md", "console")
    commands = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    assert "".join(f"$ {command}\n{output}" for command, output in commands) == block
    path = os.pathsep.join([str(Path(COMMAND).resolve().parent), str(ROOT / ".venv" / "bin"), os.environ["PATH"]])
    for command, expected in commands:
        done = subprocess.run(
            command, shell=True, cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=60
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, expected, ""), command


def test_readme_has_every_command_and_document():
    help_text = subprocess.run([COMMAND, "--help"], capture_output=True, text=True, check=True).stdout
    commands = re.findall(r"^  ([a-z]+) ", help_text.partition("Subcommands:")[2], re.MULTILINE)
    assert "kernel" in commands
    readme = (ROOT / "README.md").read_text()
    rows = "\n".join(re.findall(r"^\| `rtf .*$", readme.partition("| command | does |")[2], re.MULTILINE))
    assert [name for name in commands if f"`rtf {name} " not in rows] == []
    assert [file.name for file in DOCUMENTS[1:] if f"](docs/{file.name})" not in readme] == []


def test_first_steps_in_python_run_as_printed(tmp_path):
    package = from_environment("RTF_PYTHON_PACKAGE")
    found = re.search(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", (ROOT / "docs" / "python.md").read_text(), re.MULTILINE | re.DOTALL)
    environment = {**os.environ, "PYTHONPATH": package}
    done = subprocess.run([sys.executable, "-c", found[1]], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, found[2]), done.stderr


def test_python_has_every_function():
    """docs/python.md names every function and value that the package shows."""
    names = re.findall(r'^    "(\w+)",$', (ROOT / "python/rtf/__init__.py").read_text(), re.MULTILINE)
    assert "lfilter" in names
    text = (ROOT / "docs" / "python.md").read_text()
    assert [name for name in names if name != "__version__" and not re.search(rf"`(rtf\.)?{name}\b", text)] == []


def test_toolbox_has_every_command_that_takes_a_filter_apart():
    text = (ROOT / "docs" / "toolbox.md").read_text()
    commands = ("convert", "fit", "reduce", "stabilize", "freqz", "plot", "filter")
    assert [name for name in commands if f"\nrtf {name} " not in text] == []


def test_toolbox_examples_run_as_printed(tmp_path):
    """Every block of commands, one after the other in one folder; a block of text behind it is what they print."""
    found = re.findall(r"^```sh\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", (ROOT / "docs" / "toolbox.md").read_text(), re.MULTILINE | re.DOTALL)
    assert len(found) >= 7
    path = os.pathsep.join([str(Path(COMMAND).resolve().parent), str(ROOT / ".venv" / "bin"), os.environ["PATH"]])
    for block, expected in found:
        done = subprocess.run(
            ["bash", "-e", "-c", block], cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=60
        )
        assert (done.returncode, done.stderr) == (0, ""), block
        assert not expected or done.stdout == expected, block


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text()):
        if target.startswith("http"):
            continue
        name, _, anchor = target.partition("#")
        file = (document.parent / name).resolve() if name else document
        assert file.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", file.read_text(), re.MULTILINE)
            assert anchor in [re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings], target


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_named_files_exist(document):
    """`src/core/fft.cpp` and the like; `rtf/kernel.h` and `rtf_torch/layer.h` are public headers. Names with < or * are patterns."""
    for name in re.findall(r"`((?:src|include|cli|tests|bench|docs|examples|experiments|scripts|cmake|python|rtf|rtf_torch)/[\w./-]+)`", document.read_text()):
        assert (ROOT / name).exists() or (ROOT / "include" / name).exists(), name


def test_layout_has_every_source():
    """Each folder's section names the folder's files."""
    sections = dict(re.findall(r"^### `([\w/]+)/`\n(.*?)(?=^##)", (ROOT / "docs" / "layout.md").read_text(), re.MULTILINE | re.DOTALL))
    for folder in ("src/c_api", "src/core", "src/cpu", "src/cuda", "src/data", "src/python", "src/stream", "src/torch", "src/train", "cli"):
        sources = [file.relative_to(ROOT / folder) for file in (ROOT / folder).rglob("*.[ch]*")]
        assert sources
        assert [str(file) for file in sources if f"`{file.with_suffix('')}." not in sections[folder]] == []


def test_layout_has_every_module_of_the_package():
    section = re.search(r"^### `python/rtf/`\n(.*?)(?=^##)", (ROOT / "docs" / "layout.md").read_text(), re.MULTILINE | re.DOTALL)[1]
    modules = [file.name for file in (ROOT / "python" / "rtf").glob("*.py")]
    assert modules
    assert [name for name in modules if f"`{name}`" not in section] == []


def test_named_tests_exist():
    """The pages of the mathematics name tests as `Suite.Name`."""
    defined = set()
    for file in (ROOT / "tests").glob("*.cpp"):
        defined |= {".".join(names) for names in re.findall(r"^(?:TYPED_)?TEST\((\w+),\s*(\w+)\)", file.read_text(), re.MULTILINE)}
    pages = [(ROOT / "docs" / page).read_text() for page in ("math.md", "toolbox-math.md")]
    named = re.findall(r"`([A-Z]\w+\.[A-Z]\w+)`", "".join(pages))
    assert named
    assert set(named) <= defined
