#!/usr/bin/env bash
# test_cuda.sh BUILD: the tests on the GPU (two minutes on an H200 with 16 cores), then compute-sanitizer's memcheck and
# racecheck on a short run (half a minute each at most).
# Needs the two libraries of BUILD and a Python with PyTorch, NumPy, SciPy and pytest: that of .venv, else python3.
set -euo pipefail
build=$(cd "${1:?test_cuda.sh needs the build folder, as build/release}" && pwd)
root=$(cd "$(dirname "$0")/.." && pwd)
python=$root/.venv/bin/python
[ -x "$python" ] || python=python3

export RTF_TORCH_LIBRARY=$build/librtf_torch.so RTF_TORCH_CUDA_LIBRARY=$build/librtf_torch_cuda.so RTF_COMMAND=$build/rtf
export PYTHONDONTWRITEBYTECODE=1
for library in "$RTF_TORCH_LIBRARY" "$RTF_TORCH_CUDA_LIBRARY"; do
  [ -e "$library" ] || { echo "test_cuda.sh: there is no $library; build with a CUDA toolkit (make build)" >&2; exit 2; }
done
"$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' || {
  echo "test_cuda.sh: PyTorch finds no CUDA device" >&2
  exit 2
}

"$python" -m pytest -q -p no:cacheprovider "$root/tests/cuda"

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
