"""The corpus of the fuzz targets holds every seed as tests/fuzz/seeds.py writes it."""

import re
import sys
from pathlib import Path

FOLDER = Path(__file__).parent / "fuzz"
sys.path.insert(0, str(FOLDER))
import seeds


def test_seeds_are_the_files():
    written = seeds.seeds()
    stored = {str(path.relative_to(seeds.CORPUS)): path.read_bytes() for path in seeds.CORPUS.rglob("*") if path.is_file()}
    assert {path: stored.get(path) for path in written} == written
    assert [path for path in stored if path not in written and not re.fullmatch(r"\w+/finding_\w+", path)] == []


def test_every_format_has_a_target_and_seeds():
    formats = re.search(r"set\(formats ([^)]*)\)", (FOLDER / "CMakeLists.txt").read_text()).group(1).split()
    assert formats == sorted(path.name.removesuffix("_fuzz.cpp") for path in FOLDER.glob("*_fuzz.cpp"))
    assert formats == sorted(path.name for path in seeds.CORPUS.iterdir())
    assert formats == sorted(path.stem for path in FOLDER.glob("*.dict"))
