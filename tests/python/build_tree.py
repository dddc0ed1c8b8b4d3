"""The C++ model of a build, driven by `model_runner`: the fixture of tests/conftest.py, which pytest does not read where
this folder is all that it is given. An installed package has no such program, and its tests are skipped."""

import importlib.util
from pathlib import Path

found = importlib.util.spec_from_file_location("fixtures", Path(__file__).resolve().parent.parent / "conftest.py")
fixtures = importlib.util.module_from_spec(found)
found.loader.exec_module(fixtures)
model_runner = fixtures.model_runner
