"""docs/config.md lists exactly the keys there are, as the command prints them."""

import re
from pathlib import Path

import pytest
from conftest import COMMAND

ROOT = Path(__file__).parent.parent
if not (Path(COMMAND).resolve().parent / "rtf-train").exists():
    pytest.skip("built without training", allow_module_level=True)


def test_every_key_is_documented_as_it_is(rtf):
    header, *lines = rtf("train", "--keys").splitlines()
    assert header.split() == ["key", "type", "default", "meaning"]
    printed = [tuple(re.split(r" {2,}", line)) for line in lines]
    documented = re.findall(r"^\| `(\w+\.\w+)` \| (.*?) \| `(.*?)` \| (.*) \|$", (ROOT / "docs" / "config.md").read_text(), re.M)
    assert documented == printed
    assert len(printed) > 50


def test_examples_name_files_that_exist():
    text = (ROOT / "docs" / "config.md").read_text()
    named = re.findall(r"experiments/[\w/]+\.yaml", text)
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []
