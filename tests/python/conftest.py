"""The package as it is found on the path: of a build (PYTHONPATH=build/release/python), or installed. The helpers that
these tests share with the others are a folder up, the published layer among the peers of the benchmarks."""

import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent
sys.path[:0] = [str(TESTS), str(TESTS.parent / "bench" / "peers")]
