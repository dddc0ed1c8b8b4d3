#!/usr/bin/env bash
# A voice in a measured room: examples/audio/run.sh PREFIX [DATA]. PREFIX is where rtf is installed, DATA a folder with
# rir_clap.wav and xmas.wav (left out: $RTF_DATA/audio); the variables RESPONSE and VOICE name other files. `make audio` installs and runs it.
# Everything goes to build/audio.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
[ $# -ge 1 ] && [ -d "$1" ] || { echo "usage: examples/audio/run.sh PREFIX [DATA] (for example build/install)" >&2; exit 2; }
prefix="$(cd "$1" && pwd)"
data="${2:-${RTF_DATA:-$root/../shared/data}/audio}"
response="${RESPONSE:-$data/rir_clap.wav}" voice="${VOICE:-$data/xmas.wav}"
for file in "$response" "$voice"; do
  [ -r "$file" ] || { echo "audio: skipped, there is no $file: name a room's response and a voice, RESPONSE=room.wav VOICE=voice.wav"; exit 0; }
done
python="$root/.venv/bin/python"
[ -x "$python" ] || python=python3
out="$root/build/audio"
mkdir -p "$out"

cmake -S "$root/examples/audio" -B "$out/programs" -DCMAKE_PREFIX_PATH="$prefix" >"$out/build.log"
cmake --build "$out/programs" >>"$out/build.log"
cp "$voice" "$out/before.wav"
"$out/programs/fit_room" "$response" "$out/room.safetensors"
# With the priority that the thread of a sound card has, where that is allowed.
priority=()
if chrt -f 50 true 2>/dev/null; then priority=(chrt -f 50); fi
${priority[@]+"${priority[@]}"} "$out/programs/room" "$out/room.safetensors" "$out/before.wav" "$out/after.wav"
PYTHONDONTWRITEBYTECODE=1 "$python" "$root/examples/audio/picture.py" "$response" "$out"
