#!/usr/bin/env bash
# fuzz.sh BUILD SECONDS [FORMAT...]: runs each fuzz target of a build for so long and stops at the first finding, which is
# left in BUILD/findings. What earlier runs discovered stays in BUILD/corpus and is where the next one begins.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 seconds=$2
shift 2
formats=("$@")
if [ ${#formats[@]} = 0 ]; then
  for target in "$build"/tests/fuzz/*_fuzz; do formats+=("$(basename "$target" _fuzz)"); done
fi

mkdir -p "$build/findings"
# Some targets write a file for each input: in memory, where there is such a place.
if [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi
for format in "${formats[@]}"; do
  mkdir -p "$build/corpus/$format"
  log="$build/findings/$format.log"
  echo "fuzz: $format for $seconds s"
  # Small inputs: a reader that takes a second or 64 MB at once for one of them believes what it should not.
  if ! "$build/tests/fuzz/${format}_fuzz" -max_total_time="$seconds" -max_len=4096 -timeout=10 -rss_limit_mb=1024 \
    -malloc_limit_mb=64 -dict="tests/fuzz/$format.dict" -artifact_prefix="$build/findings/$format-" \
    -print_final_stats=1 "$build/corpus/$format" "tests/fuzz/corpus/$format" >"$log" 2>&1; then
    tail -n 40 "$log"
    echo "fuzz: $format has a finding; the input is the $build/findings/$format-* named above" >&2
    exit 1
  fi
  grep -E 'number_of_executed_units|^Done' "$log"
done
echo "fuzz: no finding"
