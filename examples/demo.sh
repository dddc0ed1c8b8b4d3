#!/usr/bin/env bash
# A tour of the rtf command, with every claim checked: examples/demo.sh RTF_COMMAND. `make demo` builds and runs it.
# Files and a picture go to build/demo. Exits with 1 when two results that must agree do not.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
[ $# = 1 ] && [ -x "$1" ] || { echo "usage: examples/demo.sh RTF_COMMAND (for example build/release/rtf)" >&2; exit 2; }
rtf_command="$(cd "$(dirname "$1")" && pwd)/$(basename "$1")"
rtf() { "$rtf_command" "$@"; }
python="$root/.venv/bin/python"
[ -x "$python" ] || python=python3
in_python() { "$python" "$root/examples/demo.py" "$@"; }
export PYTHONDONTWRITEBYTECODE=1

bold= dim= plain=
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then bold=$'\033[1m' dim=$'\033[2m' plain=$'\033[0m'; fi

chapter() { printf '\n%s%s%s\n' "$bold" "$1" "$plain"; }
text() { printf '%s\n' "$@"; }
# run COMMAND...: shows the command line, then runs it.
run() {
  printf '%s$ %s%s\n' "$dim" "$*" "$plain"
  "$@"
}
# same WHAT A B [TOLERANCE]: fails unless the two files hold the same numbers.
same() { in_python compare "$@" || { echo "demo: FAILED" >&2; exit 1; }; }

rm -rf "$root/build/demo"
mkdir -p "$root/build/demo"
cd "$root/build/demo"

chapter "1. A filter is a few numbers"
text "H(z) = h0 + (b1 w + ... + bn w^n) / (1 + a1 w + ... + an w^n) with w = 1/z, in a JSON file." \
  "\"length\" says that b was trained by Algorithm 1 at that many samples."
cat >trained.json <<'JSON'
{
  "a": [[-3.0625, 4.0457, -2.8396, 0.8756]],
  "b": [[0.10, -0.18, 0.12, -0.02]],
  "h0": [0.05],
  "length": 128
}
JSON
run cat trained.json
run rtf info trained.json
run rtf poles trained.json

chapter "2. Its impulse response, in two ways"
text "Training: Algorithm 1 divides two FFTs, at a cost that does not depend on the order." \
  "Running: the corrected recurrence makes one sample after the other. They agree to rounding."
run rtf kernel trained.json --length 128 --method wrapped -o by_fft.npy
run rtf kernel trained.json --length 128 --method recurrence -o by_recurrence.npy
same "FFT and recurrence" by_fft.npy by_recurrence.npy

chapter "3. The correction, and the way back"
text "Algorithm 1 wraps what comes after sample 128 around to the beginning. The numerator that the recurrence" \
  "needs is therefore another one. rtf correct finds it, rtf wrap undoes it."
run rtf correct trained.json -o plain.json
run cat plain.json
run rtf wrap plain.json --length 128 -o again.json
same "wrap after correct" trained.json again.json

chapter "4. A signal in one go, in chunks, and in two parts"
text "The output does not depend on how the signal is cut: the state, $(in_python state plain.json), is all of the past."
in_python signal u.npy
run rtf filter plain.json --input u.npy -o y.npy
run rtf filter plain.json --input u.npy -o y_chunks.npy --chunk 37
same "one go and chunks of 37" y.npy y_chunks.npy
in_python split u.npy 175 u_first.npy u_rest.npy
run rtf filter plain.json --input u_first.npy -o y_first.npy --final-state state.npy
run rtf filter plain.json --input u_rest.npy -o y_rest.npy --initial-state state.npy
in_python join y_first.npy y_rest.npy y_joined.npy
same "one go and two parts with the state handed over" y.npy y_joined.npy
for method in fft recurrence block; do
  rtf filter plain.json --input u.npy -o "y_$method.npy" --method "$method" --quiet
  same "method auto and method $method" y.npy "y_$method.npy"
done
in_python convolve u.npy by_fft.npy 128 y_direct.npy
in_python split y.npy 128 y_128.npy y_after.npy
same "the filter and NumPy's convolution with the kernel" y_128.npy y_direct.npy

chapter "5. What cannot be run is refused"
text "A pole outside the unit circle is no obstacle in training, where the kernel is finite. As a recurrence it" \
  "would drown the signal in rounding errors:"
echo '{"a": [-1.5], "b": [1], "h0": 0, "length": 128}' >unstable.json
printf '%s$ rtf correct unstable.json -o never.json%s\n' "$dim" "$plain"
status=0
rtf correct unstable.json -o never.json 2>&1 || status=$?
text "exit code $status"
[ "$status" = 2 ] && [ ! -e never.json ] || { echo "demo: FAILED: exit code 2 and no file were expected" >&2; exit 1; }

chapter "6. A picture of it"
rtf poles trained.json --json >poles.json
in_python picture demo.png
text "Everything is in build/demo; the picture is build/demo/demo.png." "" "${bold}demo: every comparison holds${plain}"
