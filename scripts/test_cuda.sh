#!/usr/bin/env bash
# test_cuda.sh BUILD: the tests on the GPU (two minutes on an H200 with 16 cores), then compute-sanitizer's memcheck and
# racecheck on a short run (a minute each or less). A test that is skipped is a failure here.
# Needs what BUILD holds and a Python with PyTorch, NumPy, SciPy, safetensors and pytest: that of .venv, else python3.
set -euo pipefail
build=$(cd "${1:?test_cuda.sh needs the build folder, as build/release}" && pwd)
root=$(cd "$(dirname "$0")/.." && pwd)
python=$root/.venv/bin/python
[ -x "$python" ] || python=python3

export RTF_TORCH_LIBRARY=$build/librtf_torch.so RTF_TORCH_CUDA_LIBRARY=$build/librtf_torch_cuda.so
export RTF_COMMAND=$build/rtf RTF_MODEL_RUNNER=$build/tests/model_runner PYTHONDONTWRITEBYTECODE=1
step_graph_test=$build/tests/step_graph_test
for file in "$RTF_TORCH_LIBRARY" "$RTF_TORCH_CUDA_LIBRARY" "$RTF_COMMAND" "$RTF_MODEL_RUNNER" "$step_graph_test"; do
  [ -e "$file" ] || { echo "test_cuda.sh: there is no $file; build with a CUDA toolkit (make build)" >&2; exit 2; }
done
"$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' || {
  echo "test_cuda.sh: PyTorch finds no CUDA device" >&2
  exit 2
}

# The package of a build is for one version of Python.
export PYTHONPATH=$build/python
left_out=()
"$python" -c 'import rtf' 2>/dev/null || {
  echo "test_cuda.sh: $build/python is not for $("$python" --version): tests/cuda/test_python.py is left out"
  left_out=(--ignore "$root/tests/cuda/test_python.py")
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$python" -m pytest -q -rs -p no:cacheprovider "${left_out[@]}" "$root/tests/cuda" | tee "$log"
if tail -n 1 "$log" | grep -q skipped; then
  echo "test_cuda.sh: tests were skipped, although there is a CUDA device" >&2
  exit 1
fi
"$step_graph_test" --gtest_brief=1

sanitizer=$(command -v compute-sanitizer || echo "${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer")
if [ ! -x "$sanitizer" ]; then
  echo "test_cuda.sh: compute-sanitizer is not on PATH; it comes with the CUDA toolkit" >&2
  exit 2
fi
# Our kernels alone; every tensor in memory of its own, so that no access past one lands in another.
export PYTORCH_NO_CUDA_MEMORY_CACHING=1
for tool in memcheck racecheck; do
  SECONDS=0
  "$sanitizer" --tool "$tool" --error-exitcode 1 --kernel-name kns=rtf "$python" "$root/tests/cuda/sanitize.py"
  echo "compute-sanitizer $tool: nothing reported, $SECONDS s"
done
