"""librtf.so through ctypes: the same answers as through C++, bit for bit, and as plain arithmetic; filters against SciPy;
what the library shows, needs and weighs."""

import ctypes
import json
import re
import subprocess
import threading
from ctypes import POINTER, byref, c_char_p, c_double, c_float, c_int, c_int64, c_size_t, c_ssize_t, c_void_p
from pathlib import Path

import numpy as np
import oracle
import pytest
from conftest import from_environment
from safetensors.numpy import load_file
from scipy import signal

ROOT = Path(__file__).parent.parent
MODELS = 60
F32, F64 = 0, 1
ARGUMENT, FORMAT, IO, UNSTABLE, UNSUPPORTED = 1, 2, 3, 4, 5
TOLERANCE = {F32: 1e-4, F64: 1e-9}  # of the largest answer


class Layout(ctypes.Structure):
    _fields_ = [(name, c_size_t) for name in ("batch", "length", "channels")] + [
        (name, c_ssize_t) for name in ("batch_stride", "length_stride", "channel_stride")
    ]


class ModelInfo(ctypes.Structure):
    _fields_ = [
        ("precision", c_int),
        *((name, c_size_t) for name in ("vocabulary", "inputs", "outputs", "channels", "layers", "length")),
        ("decoder", c_char_p),
        ("bidirectional", c_int),
        *((name, c_size_t) for name in ("last", "weight_bytes", "state_bytes")),
    ]


class FilterInfo(ctypes.Structure):
    _fields_ = [("channels", c_size_t), ("order", c_size_t)]


class Failure(Exception):
    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


def pointer(array):
    """A NumPy array as C sees it, whatever its strides."""
    types = {np.dtype("f4"): c_float, np.dtype("f8"): c_double, np.dtype("i8"): c_int64, np.dtype("u8"): c_size_t}
    return None if array is None else array.ctypes.data_as(POINTER(types[array.dtype]))


def layout(array):
    """Of an array (batch, length, channels)."""
    return Layout(*array.shape, *(stride // array.itemsize for stride in array.strides))


class Library:
    def __init__(self, path):
        self.dll = ctypes.CDLL(path)
        self.dll.rtf_last_error.restype = self.dll.rtf_version.restype = c_char_p
        for name in ("model", "stream", "sequences", "filter"):
            getattr(self.dll, f"rtf_{name}_free").argtypes = [c_void_p]
            getattr(self.dll, f"rtf_{name}_free").restype = None

    def __call__(self, name, *arguments):
        """rtf_<name>(...): integers go as sizes, handles and pointers as they are."""
        sized = [c_size_t(a) if isinstance(a, int) else pointer(a) if isinstance(a, np.ndarray) else a for a in arguments]
        status = getattr(self.dll, f"rtf_{name}")(*sized)
        if status != 0:
            raise Failure(status, self.dll.rtf_last_error().decode())

    def make(self, name, *arguments):
        handle = c_void_p()
        self(name, *arguments, byref(handle))
        return handle

    def load(self, path, precision):
        return self.make("model_load", str(path).encode(), c_int(precision))

    def info(self, model):
        info = ModelInfo()
        self("model_describe", model, byref(info))
        return info


@pytest.fixture(scope="module")
def library_file():
    return from_environment("RTF_LIBRARY")


@pytest.fixture(scope="module")
def rtf_c(library_file):
    return Library(library_file)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    subprocess.run([from_environment("RTF_WRITE_MODELS"), folder, str(MODELS)], check=True, timeout=300)
    return folder


class Streams:
    """Streams of a model, with NumPy arrays (streams, length, channels)."""

    def __init__(self, rtf_c, model, capacity):
        self.rtf_c, self.info = rtf_c, rtf_c.info(model)
        self.suffix = "_f32" if self.info.precision == F32 else "_f64"
        self.type = np.float32 if self.info.precision == F32 else np.float64
        self.tokens = "_tokens" if self.info.vocabulary else ""
        self.outputs = 0 if self.info.decoder == b"pair" else self.info.outputs
        self.handle = rtf_c.make("stream_new", model, capacity)

    def free(self):
        self.rtf_c.dll.rtf_stream_free(self.handle)

    def number(self, name, *arguments):
        value = c_size_t()
        self.rtf_c(f"stream_{name}", self.handle, *arguments, byref(value))
        return value.value

    def inputs(self, x):
        return x.astype(np.int64) if self.tokens else x.astype(self.type)

    def step(self, which, x):
        x = np.ascontiguousarray(self.inputs(x))
        out = np.empty((len(which), self.outputs), self.type)
        self.rtf_c(f"stream_step{self.tokens}{self.suffix}", self.handle, np.array(which, np.uint64), len(which),
                   x, x.size, out, out.size)  # fmt: skip
        return out

    def process(self, which, x, planar=False):
        x = self.inputs(x)
        out = np.empty((len(which), x.shape[1], self.outputs), self.type)
        if planar:
            x, out = (np.ascontiguousarray(array.transpose(0, 2, 1)).transpose(0, 2, 1) for array in (x, out))
        self.rtf_c(f"stream_process{self.tokens}{self.suffix}", self.handle, np.array(which, np.uint64), len(which),
                   x, byref(layout(x)), out if self.outputs else None, byref(layout(out)) if self.outputs else None)  # fmt: skip
        return out

    def prefill(self, which, x):
        x = self.inputs(x)
        self.rtf_c(f"stream_prefill{self.tokens or self.suffix}", self.handle, np.array(which, np.uint64), len(which),
                   x, byref(layout(x)))  # fmt: skip

    def answer(self, name, *which):
        out = np.empty(self.info.outputs, self.type)
        self.rtf_c(f"stream_{name}{self.suffix}", self.handle, *which, out, out.size)
        return out

    def save(self, stream):
        state = ctypes.create_string_buffer(self.info.state_bytes)
        self.rtf_c("stream_save", self.handle, stream, state, self.info.state_bytes)
        return state.raw

    def restore(self, stream, state):
        self.rtf_c("stream_restore", self.handle, stream, state, len(state))


def expect_close(got, wanted, tolerance, what):
    assert got.shape == wanted.shape, what
    assert np.abs(got - wanted).max(initial=0) <= tolerance * np.abs(wanted).max(initial=0), what


def test_answers_of_random_models(rtf_c, models):
    decoders = set()
    for number in range(MODELS):
        precision = F32 if number % 2 == 0 else F64
        answers = load_file(models / f"answers_{number}.safetensors")
        model = rtf_c.load(models / f"random_{number}.safetensors", precision)
        if rtf_c.info(model).bidirectional:  # below
            rtf_c.dll.rtf_model_free(model)
            continue
        streams = Streams(rtf_c, model, 2)
        rtf_c.dll.rtf_model_free(model)
        what, x = f"model {number}", answers["in"][None]
        decoders.add(streams.info.decoder)
        streams.number("join"), streams.number("join")
        if streams.info.decoder == b"pair":
            streams.process([0], x)
            streams.prefill([1], answers["second"][None])
            expect_close(streams.answer("answer_pair", 0, 1)[None], answers["plain"], TOLERANCE[precision], what)
        else:
            got = np.concatenate([streams.step([0], x[:, t : t + 1])for t in range(x.shape[1])])  # fmt: skip
            assert (got == answers["runtime"]).all(), what  # to the last bit
            expect_close(got, answers["plain"], TOLERANCE[precision], what)
        streams.free()
    assert decoders == {b"pool", b"last", b"position", b"pair"}


def test_cuts_states_and_company_change_nothing(rtf_c, models):
    """Random cuts into steps, blocks and prefills, saved and restored or forked between them, beside another stream."""
    rng = np.random.default_rng(5)
    for number in range(MODELS):
        answers = load_file(models / f"answers_{number}.safetensors")
        if "runtime" not in answers:
            continue
        model = rtf_c.load(models / f"random_{number}.safetensors", F32 if number % 2 == 0 else F64)
        streams = Streams(rtf_c, model, 3)
        x, wanted = answers["in"], answers["runtime"]
        at, other = streams.number("join"), streams.number("join")
        t = 0
        while t < len(x):
            end = int(min(len(x), t + rng.integers(1, 30)))
            block = x[None, t:end]
            how = rng.integers(4)
            if how == 0:
                got = np.concatenate([streams.step([at], block[:, i : i + 1]) for i in range(end - t)])
                assert (got == wanted[t:end]).all(), number
            elif how == 1:  # both at once; the other one hears something else
                got = streams.process([other, at], np.concatenate([block[:, ::-1], block]), planar=bool(rng.integers(2)))
                assert (got[1] == wanted[t:end]).all(), number
            elif how == 2:
                streams.prefill([at], block)
            else:
                got = streams.process([at], block)
                assert (got[0] == wanted[t:end]).all(), number
            t = end
            if rng.integers(2):
                state = streams.save(at)
                streams.rtf_c("stream_leave", streams.handle, at)
                at = streams.number("join")
                streams.restore(at, state)
                assert streams.save(at) == state
            elif rng.integers(2):
                fork = streams.number("fork", at)
                streams.rtf_c("stream_leave", streams.handle, at)
                at = fork
        streams.free()
        rtf_c.dll.rtf_model_free(model)


def test_whole_sequences(rtf_c, models):
    """Models of either kind; two sequences at once, the second of which is the pair of the first."""
    rng = np.random.default_rng(6)
    directions = set()
    for number in range(MODELS):
        answers = load_file(models / f"answers_{number}.safetensors")
        precision = F32 if number % 2 == 0 else F64
        model = rtf_c.load(models / f"random_{number}.safetensors", precision)
        info = rtf_c.info(model)
        directions.add(info.bidirectional)
        sequences = rtf_c.make("sequences_new", model, answers["in"].shape[0] + int(rng.integers(3)))
        rtf_c.dll.rtf_model_free(model)
        type = np.float32 if precision == F32 else np.float64
        x = np.stack([answers["in"], answers.get("second", answers["in"][::-1])])
        x = np.ascontiguousarray(x.astype(np.int64 if info.vocabulary else type))
        pools = info.decoder in (b"pool", b"pair")
        out = np.empty((1 if info.decoder == b"pair" else 2, 1 if pools else x.shape[1], info.outputs), type)
        name = f"sequences_process{'_tokens' if info.vocabulary else ''}_{'f32' if precision == F32 else 'f64'}"
        rtf_c(name, sequences, x, byref(layout(x)), out, byref(layout(out)))
        wanted = answers["plain"][-1:] if pools else answers["plain"]
        expect_close(out[0], wanted, TOLERANCE[precision], f"model {number}")
        rtf_c.dll.rtf_sequences_free(sequences)
    assert directions == {0, 1}


def test_bytes_are_the_file(rtf_c, models):
    data = (models / "random_1.safetensors").read_bytes()
    one, other = rtf_c.load(models / "random_1.safetensors", F64), rtf_c.make("model_load_bytes", data, len(data), c_int(F64))
    infos = [rtf_c.info(model) for model in (one, other)]
    assert all(getattr(infos[0], name) == getattr(infos[1], name) for name, _ in ModelInfo._fields_)
    for model in (one, other):
        rtf_c.dll.rtf_model_free(model)


def test_exported_models_answer_as_the_trainer(rtf_c, model_runner, tmp_path):
    """What test_export_runtime.py holds for C++, for some of its models."""
    from test_export_runtime import TOLERANCE as OF_EXPORT
    from test_export_runtime import random_case

    for number in range(1, 40, 4):
        for name, precision in (("float32", F32), ("float64", F64)):
            case, _ = random_case(number)
            file = str(tmp_path / "model.safetensors")
            export = {"do": "export", "file": file, "save": "errors"}
            saved = model_runner(case.request(name, export, {"do": "forward", "save": "y"}), case.tensors())
            model = rtf_c.load(file, precision)
            streams = Streams(rtf_c, model, 4)
            x, wanted = case.x.numpy(), saved["y"].numpy()
            x = x[:, :, None] if x.ndim == 2 else x
            which = [streams.number("join") for _ in x]
            if streams.info.decoder == b"pair":
                streams.prefill(which, x)
                half = len(which) // 2
                got = np.stack([streams.answer("answer_pair", i, i + half) for i in range(half)])
            else:
                got = streams.process(which, x)
                got = got[:, -1] if wanted.ndim == 2 else got[:, -wanted.shape[1] :]
            expect_close(got, wanted, OF_EXPORT[name], f"model {number} {case.options}")
            streams.free()
            rtf_c.dll.rtf_model_free(model)


def test_threads(rtf_c, models):
    """Streams of one model in several threads; ctypes lets go of Python's lock during a call."""
    answers = load_file(models / "answers_0.safetensors")
    model = rtf_c.load(models / "numbers.safetensors", F32)
    x = np.random.default_rng(0).standard_normal((1, 2000, 2))
    results, messages = [None] * 3, [None] * 3

    def work(i):
        streams = Streams(rtf_c, model, 1)
        streams.number("join")
        results[i] = np.concatenate([streams.process([0], x[:, t : t + 100]) for t in range(0, 2000, 100)], 1)
        with pytest.raises(Failure) as failure:
            streams.rtf_c("stream_leave", streams.handle, 100 + i)
        messages[i] = str(failure.value)
        streams.free()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert answers["in"].size and (results[0] == results[1]).all() and (results[0] == results[2]).all()
    assert messages == [f"[rtf::stream::leave] stream {100 + i}; there are streams 0 to 0" for i in range(3)]
    rtf_c.dll.rtf_model_free(model)


# --- Filters ---------------------------------------------------------------------------------------------------------


class Filter:
    def __init__(self, rtf_c, path):
        self.rtf_c, info = rtf_c, FilterInfo()
        self.handle = rtf_c.make("filter_load", str(path).encode())
        rtf_c("filter_describe", self.handle, byref(info))
        self.channels, self.order = info.channels, info.order

    def kernel(self, length):
        out = np.empty((self.channels, length))
        self.rtf_c("filter_kernel", self.handle, length, out, out.size)
        return out

    def response(self, angles):
        out = np.empty((self.channels, len(angles), 2))
        self.rtf_c("filter_frequency_response", self.handle, angles, len(angles), out, out.size)
        return out[..., 0] + 1j * out[..., 1]

    def process(self, u, state=None):
        out, size = np.empty_like(u), 0 if state is None else state.size
        self.rtf_c("filter_process", self.handle, np.ascontiguousarray(u), out, out.size, state, size)
        return out

    def free(self):
        self.rtf_c.dll.rtf_filter_free(self.handle)


@pytest.mark.parametrize("order", [0, 1, 2, 7, 40, 300])
@pytest.mark.parametrize("channels, groups", [(1, 1), (3, 3), (4, 2), (5, 1)])
def test_filters_are_scipys(rtf_c, tmp_path, order, channels, groups):
    rng = np.random.default_rng(100 * order + 10 * channels + groups)
    case = oracle.draw_filter(rng, channels, groups, order)
    (tmp_path / "f.json").write_text(
        json.dumps({"a": case.a.tolist(), "b": case.b.tolist(), "h0": case.h0.tolist()})
    )
    filter = Filter(rtf_c, tmp_path / "f.json")
    assert (filter.channels, filter.order) == (channels, order)
    length = 200
    u = rng.standard_normal((length, channels))
    angles = np.sort(rng.uniform(0, np.pi, 20))
    ratios = [(case.numerator(c), case.denominator(c)) for c in range(channels)]
    impulse = np.eye(1, length)[0]
    # Rounding of either side, amplified by 1/A: at most the sum of its kernel's magnitudes.
    kappa = max(np.abs(signal.lfilter([1.0], a, impulse)).sum() * np.abs(a).sum() for _, a in ratios)
    tolerance = 4 * (order + 1) * kappa * np.finfo(float).eps
    expect_close(filter.kernel(length), np.stack([signal.lfilter(b, a, impulse) for b, a in ratios]), tolerance, "kernel")
    expected = np.stack([signal.freqz(b, a, angles)[1] for b, a in ratios])
    expect_close(filter.response(angles), expected, tolerance, "response")

    expected = np.stack([signal.lfilter(b, a, u[:, c]) for c, (b, a) in enumerate(ratios)], 1)
    expect_close(filter.process(u), expected, tolerance, "whole")
    state = np.zeros((channels, order))
    cuts = [0, *np.sort(rng.integers(0, length + 1, 4)), length]
    got = np.concatenate([filter.process(u[i:j], state) for i, j in zip(cuts, cuts[1:])])
    expect_close(got, expected, tolerance, "in blocks")
    # v = u / A, newest first.
    for c, (_, a) in enumerate(ratios):
        v = np.concatenate([np.zeros(order), signal.lfilter([1.0], a, u[:, c])])
        expect_close(state[c], v[len(v) - order :][::-1], tolerance, "state")
    filter.free()


def test_narrow_filter_keeps_its_digits(rtf_c, tmp_path):
    """Coefficients of this one leave no digit."""
    sos = signal.butter(12, 0.02, output="sos")
    (tmp_path / "f.json").write_text(json.dumps({"form": "sos", "sections": sos.tolist()}))
    filter = Filter(rtf_c, tmp_path / "f.json")
    u = np.random.default_rng(0).standard_normal(5000)
    state = np.zeros((1, filter.order))
    got = np.concatenate([filter.process(u[i : i + 640, None], state) for i in range(0, 5000, 640)])
    expect_close(got[:, 0], signal.sosfilt(sos, u), 1e-12, "blocks")
    angles = np.linspace(0, 0.2, 30)
    expect_close(filter.response(angles)[0], signal.sosfreqz(sos, angles)[1], 1e-12, "response")
    filter.free()


def test_trained_filter_is_corrected(rtf_c, tmp_path):
    """Up to the trained length, its kernel is the one that training saw: an inverse transform."""
    rng = np.random.default_rng(3)
    a, b, length = oracle.step_up(rng.uniform(-0.7, 0.7, 4)), rng.standard_normal(4), 32
    (tmp_path / "f.json").write_text(json.dumps({"a": a.tolist(), "b": b.tolist(), "h0": 0.5, "length": length}))
    spectrum = 0.5 + np.fft.fft([0, *b], length) / np.fft.fft([1, *a], length)
    filter = Filter(rtf_c, tmp_path / "f.json")
    wanted = np.fft.ifft(spectrum).real
    expect_close(filter.kernel(length)[0], wanted, 1e-13, "kernel")
    expect_close(filter.process(np.eye(length)[:, :1])[:, 0], wanted, 1e-12, "impulse")
    filter.free()


# --- The library itself ----------------------------------------------------------------------------------------------


def declared():
    return set(re.findall(r"RTF_API [\w* ]*?(rtf_\w+)\(", (ROOT / "include" / "rtf.h").read_text()))


def test_symbols_are_those_of_the_header(library_file):
    text = subprocess.run(["nm", "-D", "--defined-only", library_file], check=True, capture_output=True, text=True).stdout
    exported = {line.split()[-1].partition("@")[0] for line in text.splitlines()}
    assert len(declared()) > 40
    assert exported == declared()


def test_every_function_is_tested_from_c():
    text = "".join(path.read_text() for path in (ROOT / "tests").glob("c_api*.c"))
    assert [name for name in sorted(declared()) if f"{name}(" not in text] == []


def test_library_needs_the_system_alone(library_file):
    text = subprocess.run(["ldd", library_file], check=True, capture_output=True, text=True).stdout
    needed = {Path(line.split()[0]).name.partition(".so")[0] for line in text.splitlines()}
    assert needed <= {"linux-vdso", "libstdc++", "libm", "libgcc_s", "libc", "ld-linux-x86-64", "ld-linux-aarch64"}, text


def test_library_is_small(library_file, tmp_path):
    subprocess.run(["strip", "-o", tmp_path / "librtf.so", library_file], check=True)
    assert (tmp_path / "librtf.so").stat().st_size < 5_000_000


def test_soname_has_the_version(rtf_c, library_file):
    text = subprocess.run(["readelf", "-d", library_file], check=True, capture_output=True, text=True).stdout
    version = rtf_c.dll.rtf_version().decode()
    assert f"[librtf.so.{version.rpartition('.')[0]}]" in text
    assert f'#define RTF_VERSION "{version}"' in (ROOT / "include" / "rtf.h").read_text()


@pytest.mark.parametrize("standard", ["c11", "c17"])
def test_header_stands_alone_in_c(tmp_path, standard):
    (tmp_path / "alone.c").write_text("#include <rtf.h>\n#include <rtf.h>\nint main(void) { return RTF_OK; }\n")
    command = ["cc", f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]
    subprocess.run([*command, f"-I{ROOT / 'include'}", tmp_path / "alone.c"], check=True)


def test_header_stands_alone_in_cpp(tmp_path):
    (tmp_path / "alone.cpp").write_text("#include <rtf.h>\nint main() { return RTF_OK; }\n")
    command = ["c++", "-std=c++11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]
    subprocess.run([*command, f"-I{ROOT / 'include'}", tmp_path / "alone.cpp"], check=True)
