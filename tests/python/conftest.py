"""The package as it is found on the path: of a build (PYTHONPATH=build/release/python), or installed. The helpers that
these tests share with the others are a folder up."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
