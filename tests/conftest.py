"""How the tests start the command. RTF_COMMAND names it; the default is the release build."""

import os
import subprocess
from pathlib import Path

import pytest

COMMAND = os.environ.get("RTF_COMMAND", str(Path(__file__).parent.parent / "build" / "release" / "rtf"))


@pytest.fixture
def rtf(tmp_path):
    """rtf(*arguments) runs the command in tmp_path and returns its standard output; any failure fails the test."""

    def run(*arguments):
        done = subprocess.run(
            [COMMAND, *map(str, arguments)], cwd=tmp_path, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def rtf_raw(tmp_path):
    """The same without the check: returns the finished process."""

    def run(*arguments, **options):
        return subprocess.run(
            [COMMAND, *map(str, arguments)], cwd=tmp_path, capture_output=True, text=True, timeout=120, **options
        )

    return run
