#!/usr/bin/env bash
# Digits that come in pixel by pixel: examples/sensor/run.sh PREFIX [DATA]. PREFIX is where rtf is installed, with
# training; DATA is a folder with MNIST's four idx files, plain or gzipped (left out: $RTF_DATA/mnist). `make sensor` installs and runs it.
# Everything goes to build/sensor; a run that is there is resumed, and not trained again.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
[ $# -ge 1 ] && [ -x "$1/bin/rtf" ] || { echo "usage: examples/sensor/run.sh PREFIX [DATA] (for example build/install)" >&2; exit 2; }
prefix="$(cd "$1" && pwd)"
data="${2:-${RTF_DATA:-$root/../shared/data}/mnist}"
for name in train-images-idx3-ubyte train-labels-idx1-ubyte t10k-images-idx3-ubyte t10k-labels-idx1-ubyte; do
  [ -r "$data/$name" ] || [ -r "$data/$name.gz" ] ||
    { echo "sensor: skipped, there is no $name nor $name.gz in $data: name the folder of MNIST's files"; exit 0; }
done
[ -x "$prefix/bin/rtf-train" ] || { echo "sensor: skipped, $prefix has no rtf-train, which trains: make install"; exit 0; }
data="$(cd "$data" && pwd)"
python="$root/.venv/bin/python"
[ -x "$python" ] || python=python3
out="$root/build/sensor"
mkdir -p "$out"

cmake -S "$root/examples/sensor" -B "$out/programs" -DCMAKE_PREFIX_PATH="$prefix" >"$out/build.log"
cmake --build "$out/programs" >>"$out/build.log"
if [ -e "$out/run/checkpoints" ]; then
  "$prefix/bin/rtf" train --resume "$out/run"
else
  "$prefix/bin/rtf" train "$root/examples/sensor/digits.yaml" "data.path=$data" --out "$out/run"
fi
"$prefix/bin/rtf" eval "$out/run" --split test | tee "$out/eval.txt"
"$prefix/bin/rtf" export "$out/run" -o "$out/digits.safetensors"
for name in t10k-images-idx3-ubyte t10k-labels-idx1-ubyte; do
  if [ -r "$data/$name" ]; then cp "$data/$name" "$out"; else gzip -dc "$data/$name.gz" >"$out/$name"; fi
done
"$out/programs/digits" "$out/digits.safetensors" "$out/t10k-images-idx3-ubyte" "$out/t10k-labels-idx1-ubyte" "$out" |
  tee "$out/digits.txt"
trained="$(printf %.4f "$(awk '$1 == "test" { print $NF }' "$out/eval.txt")")"
grep -q "accuracy $trained$" "$out/digits.txt" || { echo "sensor: FAILED: rtf eval has accuracy $trained" >&2; exit 1; }
echo "rtf eval, by convolution in PyTorch, has the same accuracy: $trained"
PYTHONDONTWRITEBYTECODE=1 "$python" "$root/examples/sensor/picture.py" "$out"
