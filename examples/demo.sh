#!/usr/bin/env bash
# A tour of the rtf command, with every claim checked: examples/demo.sh RTF_COMMAND. `make demo` builds and runs it.
# Files and pictures go to build/demo. Exits with 1 when two results that must agree do not, or the model does not learn.
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
failed() { echo "demo: FAILED${1:+: $1}" >&2; exit 1; }
# same WHAT A B [TOLERANCE]: fails unless the two files hold the same numbers.
same() { in_python compare "$@" || failed; }

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
run rtf poles trained.json

chapter "2. Its impulse response, in two ways"
text "Training: Algorithm 1 divides two FFTs, at a cost that does not depend on the order. It wraps what comes after" \
  "sample 128 around to the beginning, so the recurrence needs another numerator: rtf correct finds it, rtf wrap undoes it."
run rtf kernel trained.json --length 128 --method wrapped -o by_fft.npy
run rtf correct trained.json -o plain.json
run rtf kernel plain.json --length 128 --method recurrence -o by_recurrence.npy
same "FFT and recurrence" by_fft.npy by_recurrence.npy
run rtf wrap plain.json --length 128 -o again.json
same "wrap after correct" trained.json again.json

chapter "3. A signal in one go, and in two parts"
text "The output does not depend on how the signal is cut: the state, $(in_python state plain.json), is all of the past."
in_python signal u.npy
in_python split u.npy 175 u_first.npy u_rest.npy
run rtf filter plain.json --input u.npy -o y.npy
run rtf filter plain.json --input u_first.npy -o y_first.npy --final-state state.npy
run rtf filter plain.json --input u_rest.npy -o y_rest.npy --initial-state state.npy
in_python join y_first.npy y_rest.npy y_joined.npy
same "one go and two parts with the state handed over" y.npy y_joined.npy
for method in fft recurrence block; do
  rtf filter plain.json --input u.npy -o "y_$method.npy" --method "$method" --quiet
  same "method auto and method $method" y.npy "y_$method.npy"
done

chapter "4. What cannot be run is refused"
text "A pole outside the unit circle is no obstacle in training, where the kernel is finite. As a recurrence it" \
  "would drown the signal in rounding errors:"
echo '{"a": [-1.5], "b": [1], "h0": 0, "length": 128}' >unstable.json
printf '%s$ rtf correct unstable.json -o never.json%s\n' "$dim" "$plain"
status=0
rtf correct unstable.json -o never.json 2>&1 || status=$?
text "exit code $status"
[ "$status" = 2 ] && [ ! -e never.json ] || failed "exit code 2 and no file were expected"
rtf poles trained.json --json >poles.json
in_python filter_picture filter.png

cd "$root"
if ! [ -x "$(dirname "$rtf_command")/rtf-train" ]; then
  chapter "5. Training"
  text "left out: $1 was built without PyTorch (make build has it)." "" \
    "The picture is build/demo/filter.png." "" "${bold}demo: every comparison holds${plain}"
  exit 0
fi

chapter "5. A model of such filters learns to copy"
text "32 random symbols of 14, then 32 markers: at each marker the model must give back the symbol 32 places before." \
  "Two layers of 64 filters of order 64 learn it from examples that are made up as they are needed."
run rtf train experiments/small/copying.yaml --out build/demo/copying

chapter "6. It answers all at once, and sample by sample"
text "By convolution, as it was trained; then as a recurrence that sees one symbol at a time, with the corrected numerators."
run rtf eval build/demo/copying --split val | tee build/demo/eval.txt
in_python at_least accuracy 0.99 build/demo/eval.txt || failed
run rtf eval build/demo/copying --split val --mode step | tee build/demo/eval_step.txt
in_python at_least accuracy 0.99 build/demo/eval_step.txt || failed
in_python at_most "largest difference" 1e-4 build/demo/eval_step.txt || failed

chapter "7. What it has learned"
text "A run's folder has its config, its curves and its weights. Each layer's a, b and h0 make a filter file as in chapter 1."
run rtf runs build/demo
for layer in 0 1; do
  in_python layer build/demo/copying/checkpoints/best.safetensors "$layer" 64 "build/demo/layer_$layer.safetensors"
  rtf poles "build/demo/layer_$layer.safetensors" --json >"build/demo/layer_${layer}_poles.json"
  rtf kernel "build/demo/layer_$layer.safetensors" --length 64 -o "build/demo/layer_${layer}_kernel.npy" --quiet
done
run rtf info build/demo/layer_0.safetensors
text "Poles may end a hair outside the circle: over the 64 samples of training that does no harm." \
  "With model.constraint=montel they stay inside."
in_python training_picture build/demo build/demo/training.png

chapter "8. It leaves PyTorch behind"
text "One file with the weights and, for each layer, the recurrence it runs as. A pole outside the circle must not be" \
  "streamed; a stable filter takes its place, and the report says how far the kernel moved (a run's poles decide whether)."
run rtf export build/demo/copying -o build/demo/model.safetensors --stabilize refit
text "The command that runs it is linked to neither PyTorch nor Python. A sequence of 32 symbols comes back, symbol by symbol:"
if command -v ldd >/dev/null && ldd "$rtf_command" | grep -E 'torch|python'; then failed "rtf is linked to PyTorch or Python"; fi
pairs=()
for seed in $(seq 20); do
  in_python copying_tokens "$seed" 16 32 "build/demo/tokens_$seed.txt"
  rtf stream build/demo/model.safetensors "build/demo/tokens_$seed.txt" -o "build/demo/answers_$seed.txt" --quiet
  pairs+=("build/demo/tokens_$seed.txt" "build/demo/answers_$seed.txt")
done
in_python copied 0.99 "${pairs[@]}" || failed
text "Cut in two, with the state handed over:"
head -n 40 build/demo/tokens_1.txt | rtf stream build/demo/model.safetensors --state-out build/demo/state >build/demo/streamed.txt
tail -n +41 build/demo/tokens_1.txt | rtf stream build/demo/model.safetensors --state-in build/demo/state >>build/demo/streamed.txt
cmp build/demo/streamed.txt build/demo/answers_1.txt || failed "the answers differ"
text "  the answers are the same to the last bit"
run rtf bench step build/demo/model.safetensors

text "" "Everything is in build/demo. The pictures:" \
  "  build/demo/filter.png    the filter of chapters 1 to 3" \
  "  build/demo/training.png  the training curves, and the kernels and poles that were learned" \
  "The same curves in a browser: .venv/bin/tensorboard --logdir build/demo" \
  "" "${bold}demo: every comparison holds${plain}"
