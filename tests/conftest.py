"""How the tests start the programs. RTF_COMMAND names the command; the default is the release build.
RTF_TORCH_LIBRARY names the library of operators and RTF_MODEL_RUNNER the program of model_runner.cpp; without them the
tests that need PyTorch are skipped. RTF_LIBRARY names librtf.so and RTF_WRITE_MODELS the program of write_models.cpp,
RTF_PYTHON_PACKAGE the folder that has the Python package. RTF_DATA names the folder of the public data sets; without it
the tests look for `shared/data` beside the repository."""

import json
import os
import subprocess
from pathlib import Path

import pytest

COMMAND = os.environ.get("RTF_COMMAND", str(Path(__file__).parent.parent / "build" / "release" / "rtf"))
TIMEOUT = 900  # seconds of one command: a thread sanitizer on a machine with other work takes a hundred times as long
RUN_ALONE = [Path(__file__).parent / "cuda", Path(__file__).parent / "python"]


def pytest_configure(config):
    config.addinivalue_line("markers", "long: takes minutes; only `-m long` (make test-long) selects it")


def pytest_ignore_collect(collection_path, config):
    """Those on the GPU and those of the Python package are runs of their own: some are named like a file here."""
    asked = [Path(argument.split("::")[0]).resolve() for argument in config.args]
    if collection_path in RUN_ALONE and not any(collection_path in (path, *path.parents) for path in asked):
        return True


def pytest_collection_modifyitems(config, items):
    if config.getoption("markexpr"):
        return
    long = [item for item in items if item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=long)
    items[:] = [item for item in items if item not in long]


@pytest.fixture
def rtf(tmp_path):
    """rtf(*arguments) runs the command in tmp_path and returns its standard output; any failure fails the test."""

    def run(*arguments):
        done = subprocess.run(
            [COMMAND, *map(str, arguments)], cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def tiny(tmp_path):
    """The config file of a run that takes a moment."""
    from training_runs import TINY

    (tmp_path / "tiny.yaml").write_text(TINY)
    return "tiny.yaml"


@pytest.fixture
def rtf_raw(tmp_path):
    """The same without the check: returns the finished process."""

    def run(*arguments, **options):
        return subprocess.run(
            [COMMAND, *map(str, arguments)], cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT, **options
        )

    return run


def from_environment(name):
    if not os.environ.get(name):
        pytest.skip(f"{name} is not set: this build has no such part")
    return os.environ[name]


def real_data(name):
    """A file or folder of the public data sets; they are no part of the repository."""
    folder = Path(os.environ.get("RTF_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
    if not (folder / name).exists():
        pytest.skip(f"there is no {folder / name}: RTF_DATA names the folder of the data sets")
    return folder / name


@pytest.fixture(scope="session")
def torch_ops():
    """torch.ops.rtf, with our library loaded."""
    torch = pytest.importorskip("torch")
    torch.ops.load_library(from_environment("RTF_TORCH_LIBRARY"))
    return torch.ops.rtf


@pytest.fixture(scope="session")
def model_runner(tmp_path_factory):
    """model_runner(request, tensors) has the C++ model run the commands of a request (model_runner.cpp says what they
    are) on these tensors and returns what it saved, as float64; a failure there is a RuntimeError with its line."""
    program = from_environment("RTF_MODEL_RUNNER")
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file, save_file

    folder = tmp_path_factory.mktemp("model_runner")
    # One thread: the models are small, and threads that wait for each other are slow on a busy machine.
    process = subprocess.Popen(
        [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )

    def run(request, tensors=None):
        files = {"input": str(folder / "input.safetensors"), "output": str(folder / "output.safetensors")}
        save_file({name: value.detach().to(torch.float64).contiguous() for name, value in (tensors or {}).items()},
                  files["input"])  # fmt: skip
        process.stdin.write(json.dumps({**request, **files}) + "\n")
        process.stdin.flush()
        line = process.stdout.readline().rstrip("\n")
        if line != "done":
            raise RuntimeError(line or f"{program} ended with status {process.wait()}")
        return load_file(files["output"])

    yield run
    process.stdin.close()
    process.wait(timeout=60)
