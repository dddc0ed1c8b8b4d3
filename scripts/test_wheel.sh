#!/usr/bin/env bash
# test_wheel.sh: `pip install` of this folder in a fresh environment, as a user does it, then the tests of the package from
# outside this folder, and an editable install. scripts/setup.sh has to have run. Downloads PyTorch, unless pip has it cached.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

say() { echo "test_wheel: $*"; }
python3 -m venv venv
pip() { venv/bin/pip --quiet --disable-pip-version-check "$@"; }

say "pip install ."
pip install "$root"
say "the tests, of the wheel alone"
# What the tests need beside the package: not its build tools.
grep -v -E '^(cmake|ninja|nanobind|scikit-build-core|mypy)==' "$root/scripts/requirements.txt" >tests.txt
pip install -r tests.txt
cp -r "$root/tests" tests
mkdir bench
cp -r "$root/bench/peers" bench/peers  # the published layer
venv/bin/python -m pytest -q -p no:cacheprovider tests/python
say "the command"
venv/bin/rtf --version
venv/bin/rtf train --help >/dev/null
PATH="$work/venv/bin:$PATH" python -m pytest -q -p no:cacheprovider --doctest-modules --pyargs rtf

say "pip install --no-build-isolation --editable ."
pip uninstall --yes rtf
pip install -r "$root/scripts/requirements.txt"
PATH="$work/venv/bin:$PATH" pip install --no-build-isolation --editable "$root"
venv/bin/python -c "
import rtf, torch
assert rtf.functions.__file__.startswith('$root/'), rtf.functions.__file__
print(rtf.lfilter([1.0, 0, 0], [1, -0.5], [1]), rtf.RTF(2, 3, 8)(torch.ones(1, 8, 2)).shape)"
venv/bin/rtf --version
venv/bin/rtf train --help >/dev/null

say "without PyTorch"
venv/bin/pip --quiet uninstall --yes torch
venv/bin/python -c "import rtf; print(rtf.lfilter([1.0, 0, 0], [1, -0.5], [1]))"
say "done"
