"""The corpus of the fuzz targets: it holds every seed as tests/fuzz/seeds.py writes it, and the command answers to each."""

import re
import subprocess
import sys
from pathlib import Path

from conftest import COMMAND

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


def test_the_command_answers(tmp_path):
    """Done, or one printable line, exit code 2 and no output."""
    (tmp_path / "gain.json").write_text('{"a": [], "b": [], "h0": 1}')
    (tmp_path / "good.safetensors").write_bytes(seeds.model_seeds()["companion"])
    commands = {
        "filter": ("f.json", ["kernel", "f.json", "--length", "8"]),
        "safetensors": ("f.safetensors", ["kernel", "f.safetensors", "--length", "8"]),
        "npy": ("u.npy", ["filter", "gain.json", "--input", "u.npy"]),
        "wav": ("u.wav", ["filter", "gain.json", "--input", "u.wav"]),
        "model": ("m.safetensors", ["stream", "m.safetensors"]),
        "state": ("state", ["stream", "good.safetensors", "--state-in", "state"]),
    }
    # Data sets are read by training alone: tests/test_data_faults.py has what it answers.
    formats = {path.name for path in seeds.CORPUS.iterdir()} - {"png", "records", "tar", "tsv"}
    assert formats == set(commands)
    codes = []
    for path in sorted(path for name in formats for path in (seeds.CORPUS / name).iterdir()):
        name, arguments = commands[path.parent.name]
        output = tmp_path / ("out" + (".wav" if name == "u.wav" else ".npy"))
        (tmp_path / name).write_bytes(path.read_bytes())
        done = subprocess.run([COMMAND, *arguments, "-o", output.name, "--quiet"], cwd=tmp_path, input=b"", capture_output=True, timeout=60)
        codes.append(done.returncode)
        assert done.returncode in (0, 2), (path, done)
        assert output.exists() == (done.returncode == 0), (path, done)
        if done.returncode == 2:
            assert done.stderr.endswith(b"\n") and done.stderr.decode()[:-1].isprintable(), (path, done)
        output.unlink(missing_ok=True)
    assert codes.count(0) > 20 and codes.count(2) > 60
