"""The package itself: what importing it costs and needs, the command, types, processes that fork."""

import importlib.metadata
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest
import rtf
from torch_half import need_torch_half

FOLDER = Path(rtf._core.__file__).parent
COMMAND = os.environ.get("RTF_COMMAND") or shutil.which("rtf", path=sysconfig.get_path("scripts"))
WITHOUT = """
import importlib.abc, sys
class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {packages}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name.partition(".")[0])
sys.meta_path.insert(0, Blocked())
"""
WITHOUT_TORCH = WITHOUT.format(packages=["torch"])


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)


def test_numpy_functions_need_no_torch():
    done = run(WITHOUT_TORCH + "import rtf\nprint(rtf.lfilter([1.0, 0, 0], [1, -0.5], [1]), rtf.kernel([-0.5], [1], 0, length=2))\n"
               "print(rtf.Stream(rtf.TransferFunction([-0.5], [1], 0)).step(1.0), 'torch' in sys.modules)")  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "[1.   0.5  0.25] [0. 1.]\n[0.] False\n"), done.stderr


@pytest.mark.parametrize("name", ["RTF", "nn"])
def test_what_needs_torch_says_so(name):
    done = run(WITHOUT_TORCH + f"import rtf\ntry:\n    rtf.{name}\nexcept AttributeError as error:\n    print(error)")
    assert (done.returncode, done.stdout) == (0, f"rtf.{name} needs PyTorch, which is not installed\n"), done.stderr


def test_what_lists_the_package_does_without_the_rest():
    code = """
import inspect, pydoc, rtf
names = {}
exec("from rtf import *", names)
print(sorted(set(rtf.__all__) - set(names)), len(inspect.getmembers(rtf)) == len(rtf.__all__), "lfilter" in pydoc.render_doc(rtf))
print([name for name in ("RTF", "load", "nn", "plot") if name in dir(rtf) or hasattr(rtf, name)])
"""
    done = run(WITHOUT.format(packages=["torch", "matplotlib"]) + code)
    assert (done.returncode, done.stdout) == (0, "[] True True\n['load']\n"), done.stderr


def test_import_leaves_torch_alone_and_is_quick():
    """Torch itself takes seconds; without it there is 0.3 s for everything else, NumPy included: of the processor, which
    other processes do not lengthen, the least of five."""
    code = "import time, sys\nbegin = time.process_time()\nimport rtf\nprint(time.process_time() - begin, 'torch' in sys.modules)"
    best, loaded = min((done.stdout.split() for done in (run(code) for _ in range(5))), key=lambda words: float(words[0]))
    assert float(best) < 0.3 and loaded == "False"


def test_import_takes_little_beside_torch():
    """What everything of the package that needs torch adds where torch is imported already."""
    need_torch_half()
    code = """
import time, torch
begin = time.process_time()
import rtf
rtf.nn, rtf.RTF, rtf.load
print(time.process_time() - begin)
"""
    assert min(float(run(code).stdout) for _ in range(5)) < 0.3


def test_operators_that_are_there_are_not_loaded_again(tmp_path):
    need_torch_half()
    copied = shutil.copy(FOLDER / "librtf_torch.so", tmp_path)
    done = run(f"import torch\ntorch.ops.load_library({str(copied)!r})\n"
               "import rtf\nprint(rtf.lfilter(torch.ones(2), [1, -0.5], [1]).tolist())")  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "[1.0, 1.5]\n"), done.stderr


def test_names():
    assert dir(rtf) == sorted(rtf.__all__)
    assert [name for name in rtf.__all__ if name not in ("RTF", "nn", "load", "plot") and not hasattr(rtf, name)] == []
    with pytest.raises(AttributeError, match="^module 'rtf' has no attribute 'filtre'$"):
        rtf.filtre  # noqa: B018


def test_the_command_is_of_the_same_version():
    done = subprocess.run([COMMAND, "--version"], capture_output=True, text=True, timeout=60, check=True)
    assert rtf.__version__ in done.stdout


def test_the_command_reads_what_python_computes(tmp_path):
    (tmp_path / "f.json").write_text(json.dumps({"a": [-1.2, 0.81], "b": [1, 0.5], "h0": 1}))
    subprocess.run([COMMAND, "kernel", "f.json", "--length", "50", "-o", "k.npy"], cwd=tmp_path, check=True, capture_output=True)
    assert (np.load(tmp_path / "k.npy")[0] == rtf.kernel([-1.2, 0.81], [1, 0.5], 1, length=50)).all()


def test_training_is_found_beside_the_command():
    need_torch_half()
    done = subprocess.run([COMMAND, "train", "--help"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "CONFIG" in done.stdout, done.stderr


def test_types_come_with_it():
    assert (FOLDER / "_core.pyi").exists()
    assert (Path(rtf.__file__).parent / "py.typed").exists()


def installed_files():
    try:
        files = importlib.metadata.files("rtf") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    files = [Path(os.path.normpath(file.locate())) for file in files]
    if Path(rtf.__file__) not in files:  # a build, or an editable install
        pytest.skip("this is not an installed wheel")
    return files


def test_the_wheel_has_what_it_needs_and_no_more():
    files = [file for file in installed_files() if file.suffix != ".pyc"]
    beside = {file.name for file in files if file.parent == FOLDER}
    assert {"__init__.py", "_core.pyi", "py.typed"} <= beside
    allowed = {".py", ".pyi", ".so", ".typed"}
    assert {file.suffix for file in files if FOLDER in file.parents} <= allowed
    commands = {file.name for file in files if file.parent == Path(sysconfig.get_path("scripts"))}
    assert commands == ({"rtf", "rtf-train"} if "librtf_torch.so" in beside else {"rtf"})
    notices = next(file for file in files if file.name == "NOTICES").read_text()
    assert all(name in notices for name in ("DUCC", "CLI11", "nanobind", "fmt", "Eigen", "Highway", "nlohmann-json", "yaml-cpp"))
    rest = {file.parent.name for file in files if FOLDER not in file.parents and file.name not in commands}
    assert all(name.endswith((".dist-info", "licenses")) for name in rest), rest


def test_the_wheel_is_for_the_torch_it_was_built_with():
    installed_files()
    needs = importlib.metadata.requires("rtf")
    if not (FOLDER / "librtf_torch.so").exists():
        assert not any(need.startswith("torch") for need in needs)
        return
    torch = importlib.metadata.version("torch").partition("+")[0]
    assert f"torch=={torch}" in needs


@pytest.mark.skipif(shutil.which("readelf") is None, reason="readelf shows where libraries are searched for")
def test_no_library_is_searched_for_where_it_was_built():
    files = installed_files()
    binaries = [file for file in files if file.suffix == ".so" or file.parent == Path(sysconfig.get_path("scripts"))]
    assert binaries
    for file in binaries:
        text = subprocess.run(["readelf", "-d", file], capture_output=True, text=True, check=True).stdout
        for line in text.splitlines():
            if "RPATH" in line or "RUNPATH" in line:
                folders = line.partition("[")[2].rstrip("]").split(":")
                assert all(folder.startswith("$ORIGIN") for folder in folders), (file, folders)


def filtered(_):
    return rtf.lfilter(np.ones((64, 4000)), [1, -0.5], [1]).sum()


def test_a_process_may_fork_after_the_first_call():
    """The threads of the parent are not in the child."""
    expected = filtered(0)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map_async(filtered, range(4)).get(timeout=60) == [expected] * 4
    child = os.fork()
    if child == 0:
        filtered(0)
        sys.stdout.flush()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    # One that ends by itself, with all destructors.
    done = run("import os, sys, numpy as np, rtf\nf = lambda: rtf.lfilter(np.ones((64, 4000)), [1, -0.5], [1])\nf()\n"
               "child = os.fork()\nif child == 0:\n    f()\n    sys.exit(0)\nprint(os.waitpid(child, 0)[1])")  # fmt: skip
    assert done.stdout == "0\n", done.stderr


def test_threads_of_python_run_meanwhile():
    """The interpreter's lock is given back while the library computes."""
    code = """
import threading, time, numpy as np, rtf
x = np.random.default_rng(0).standard_normal((64, 300000))
counted, running = 0, True
def count():
    global counted
    while running:
        counted += 1
        time.sleep(0)
thread = threading.Thread(target=count)
rtf.lfilter(x[:, :10], [1, -0.5], [1])
thread.start()
time.sleep(0.05)
before = counted
begin = time.perf_counter()
rtf.lfilter(x, [1.0, -1.2, 0.81, *[0.001] * 30], [1])
taken = time.perf_counter() - begin
during = counted - before
running = False
thread.join()
print(during, taken)
"""
    done = run(code)
    during, taken = done.stdout.split()
    assert int(during) > 10, (done.stdout, done.stderr)  # with the lock held there would be one or two
