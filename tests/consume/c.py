"""c.py PREFIX MODEL WORK: compiles and runs the examples of docs/c-api.md as printed, with cc and pkg-config, against the
package installed in PREFIX; MODEL is their model.safetensors. Then the same program without the shared library, and that of
docs/deployment.md, in C++."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
prefix, model, work = map(Path, sys.argv[1:])
(pc,) = prefix.rglob("rtf.pc")
environment = {**os.environ, "PKG_CONFIG_PATH": str(pc.parent), "LD_LIBRARY_PATH": str(pc.parent.parent)}


def run(script, **options):
    done = subprocess.run(
        ["sh", "-e", "-c", script], cwd=work, env={**environment, **options}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
    return done.stdout


work.mkdir(parents=True, exist_ok=True)
shutil.copy(model, work / "model.safetensors")
for name in ("stream.c", "filter.c", "stream.cpp"):
    shutil.copy(ROOT / "examples" / name, work / name)

text = (ROOT / "docs" / "c-api.md").read_text()
_, stream, filter = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
(expected,) = re.findall(r"^```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
assert run(filter) == expected
in_two_calls = run(stream)
assert re.fullmatch(r"((\S+ ){2}\S+\n){5}", in_two_calls), in_two_calls
samples = "0.5 -1 0.25 0 0 0 1 1 0 2"
assert run(f"echo '{samples}' | ./stream model.safetensors other_state") == in_two_calls
assert (work / "state").read_bytes() == (work / "other_state").read_bytes()

run("cc -static filter.c $(pkg-config --static --cflags --libs rtf) -o filter_static")
assert run("./filter_static", LD_LIBRARY_PATH="") == expected
(build,) = (found for found in re.findall(r"^```sh\n(.*?)^```$", (ROOT / "docs" / "deployment.md").read_text(), re.MULTILINE | re.DOTALL) if "c++" in found)
run(build)
assert run(f"echo '{samples}' | ./stream model.safetensors") == in_two_calls
for wrong in (f"echo '{samples} 1' | ./stream model.safetensors", "echo abc | ./stream model.safetensors", f"echo '{samples}' | ./stream model.safetensors > /dev/full"):
    assert run(f"({wrong}) 2>&1 >/dev/null || echo $?").endswith("\n2\n"), wrong
print("consume: the examples in C and C++ work")
