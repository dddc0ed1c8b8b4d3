"""The command against SciPy and NumPy called live."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from safetensors.numpy import load_file, save_file
from scipy.optimize import linear_sum_assignment

import oracle
from conftest import COMMAND
from oracle import Filter, assert_close, condition, draw_filter, draw_sizes, load_json, save_json

SEEDS = range(24)
TYPES = {"f64": np.float64, "f32": np.float32}


# --- kernels ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["auto", "recurrence", "division", "newton"])
@pytest.mark.parametrize("seed", SEEDS)
def test_kernel_equals_lfilter(rtf, tmp_path, seed, method):
    rng = np.random.default_rng(seed)
    channels, groups, order, length = draw_sizes(rng)
    f = draw_filter(rng, channels, groups, order)
    save_json(tmp_path / "f.json", f)
    rtf("kernel", "f.json", "--length", length, "--method", method, "-o", "k.npy")
    k = np.load(tmp_path / "k.npy")
    assert k.dtype == np.float64
    assert_close(k, oracle.exact_kernel(f, length), condition(f, length))


@pytest.mark.parametrize("seed", SEEDS)
def test_wrapped_kernel_of_a_plain_file_is_algorithm_1(rtf, tmp_path, seed):
    rng = np.random.default_rng(100 + seed)
    channels, groups, order, length = draw_sizes(rng)
    f = draw_filter(rng, channels, groups, order)
    save_json(tmp_path / "f.json", f)
    rtf("kernel", "f.json", "--length", length, "--method", "wrapped", "-o", "k.npy")
    assert_close(np.load(tmp_path / "k.npy"), oracle.wrapped_kernel(f, length), condition(f, length))


@pytest.mark.parametrize("method", ["auto", "wrapped", "recurrence", "division", "newton"])
@pytest.mark.parametrize("seed", SEEDS[::2])
def test_kernel_of_a_trained_file(rtf, tmp_path, seed, method):
    rng = np.random.default_rng(200 + seed)
    channels, groups, order, length = draw_sizes(rng)
    f = draw_filter(rng, channels, groups, min(order, 20), length)
    save_json(tmp_path / "f.json", f)
    longer = length + int(rng.integers(1, 50))
    for n in (1, (length + 1) // 2, length, longer):
        rtf("kernel", "f.json", "--length", n, "--method", method, "-o", "k.npy")
        k = np.load(tmp_path / "k.npy")
        kappa = condition(f, longer)
        assert_close(k[:, :length], oracle.wrapped_kernel(f, length)[:, :n], kappa)
    assert_close(k, oracle.exact_kernel(oracle.dense_correction(f), longer), kappa)


@pytest.mark.parametrize("kind", ["plain", "trained"])
def test_kernel_in_float32(rtf, tmp_path, kind):
    f = draw_filter(np.random.default_rng(1), 3, 3, 5, 100 if kind == "trained" else None)
    save_json(tmp_path / "f.json", f)
    rtf("kernel", "f.json", "--length", 100, "-o", "k64.npy")
    rtf("kernel", "f.json", "--length", 100, "--dtype", "f32", "-o", "k32.npy")
    k32 = np.load(tmp_path / "k32.npy")
    assert k32.dtype == np.float32
    assert_array_equal(k32, np.load(tmp_path / "k64.npy").astype(np.float32))


# --- correction ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_correct_solves_the_dense_system_and_wrap_undoes_it(rtf, tmp_path, seed):
    rng = np.random.default_rng(300 + seed)
    channels, groups, order, length = draw_sizes(rng)
    f = draw_filter(rng, channels, groups, min(order, 12), length)
    suffix = ["json", "safetensors"][seed % 2]
    save_json(tmp_path / "f.json", f)
    rtf("correct", "f.json", "-o", "plain.json")
    rtf("wrap", "plain.json", "--length", length, "-o", f"back.{suffix}")
    kappa = condition(f, length)

    expected, plain = oracle.dense_correction(f), load_json(tmp_path / "plain.json")
    assert plain.length is None
    assert_array_equal(plain.a, f.a)
    assert_close(plain.b, expected.b, kappa)
    assert_close(plain.h0, expected.h0, kappa)

    if suffix == "json":
        back = load_json(tmp_path / "back.json")
        assert back.length == length
    else:
        tensors = load_file(tmp_path / "back.safetensors")
        back = Filter(tensors["a"], tensors["b"], tensors["h0"])
    assert_array_equal(back.a, f.a)
    assert_close(back.b, f.b, kappa)
    assert_close(back.h0, f.h0, kappa)


# --- filtering -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f64", "f32"])
@pytest.mark.parametrize("method", ["auto", "fft", "recurrence", "block"])
@pytest.mark.parametrize("seed", SEEDS[::2])
def test_filter_with_states_equals_lfilter(rtf, tmp_path, seed, method, dtype):
    rng = np.random.default_rng(400 + seed)
    channels, groups, order, length = draw_sizes(rng)
    f = draw_filter(rng, channels, groups, order)
    batch = int(rng.integers(1, 4))
    save_json(tmp_path / "f.json", f)
    u = rng.standard_normal((batch, length, channels)).astype(TYPES[dtype])
    x0 = rng.standard_normal((batch, channels, order)).astype(TYPES[dtype])
    np.save(tmp_path / "u.npy", u)
    np.save(tmp_path / "x0.npy", x0)
    rtf("filter", "f.json", "--input", "u.npy", "-o", "y.npy", "--method", method,
        "--initial-state", "x0.npy", "--final-state", "xf.npy")  # fmt: skip
    y, final = np.load(tmp_path / "y.npy"), np.load(tmp_path / "xf.npy")
    expected_y, expected_final = oracle.filter_signal(f, u, x0)
    kappa = condition(f, length)
    assert y.dtype == final.dtype == TYPES[dtype]
    assert_close(y, expected_y, kappa, dtype)
    assert_close(final, expected_final, kappa, dtype)


@pytest.mark.parametrize("dtype", ["f64", "f32"])
@pytest.mark.parametrize("seed", SEEDS)
def test_filter_in_chunks_equals_lfilter(rtf, tmp_path, seed, dtype):
    rng = np.random.default_rng(500 + seed)
    channels, groups, order, length = draw_sizes(rng)
    f = draw_filter(rng, channels, groups, order)
    save_json(tmp_path / "f.json", f)
    u = rng.standard_normal((2, length, channels)).astype(TYPES[dtype])
    x0 = rng.standard_normal((2, channels, order)).astype(TYPES[dtype])
    np.save(tmp_path / "u.npy", u)
    np.save(tmp_path / "x0.npy", x0)
    expected_y, expected_final = oracle.filter_signal(f, u, x0)
    kappa = condition(f, length)
    for chunk in {1, int(rng.integers(1, length + 1)), length, length + 3}:
        rtf("filter", "f.json", "--input", "u.npy", "-o", "y.npy", "--chunk", chunk,
            "--initial-state", "x0.npy", "--final-state", "xf.npy")  # fmt: skip
        assert_close(np.load(tmp_path / "y.npy"), expected_y, kappa, dtype)
        assert_close(np.load(tmp_path / "xf.npy"), expected_final, kappa, dtype)


@pytest.mark.parametrize("method", ["auto", "fft", "recurrence", "block"])
@pytest.mark.parametrize("seed", SEEDS[::4])
def test_filter_with_a_trained_file_is_convolution_with_algorithm_1(rtf, tmp_path, seed, method):
    rng = np.random.default_rng(600 + seed)
    channels, groups, order, length = draw_sizes(rng)
    length = min(length, 100)
    f = draw_filter(rng, channels, groups, min(order, 12), length)
    save_json(tmp_path / "f.json", f)
    kernel = oracle.wrapped_kernel(f, length)
    longer = rng.standard_normal((2, length + 20, channels))
    for n in (max(1, length // 2), length, length + 20):
        u = longer[:, :n]
        np.save(tmp_path / "u.npy", u)
        rtf("filter", "f.json", "--input", "u.npy", "-o", "y.npy", "--method", method)
        y, kappa = np.load(tmp_path / "y.npy"), condition(f, n)
        assert_close(y[:, :length], oracle.convolve(kernel[:, :n], u[:, :length]), kappa)
        assert_close(y, oracle.filter_signal(oracle.dense_correction(f), u)[0], kappa)


def test_filter_convolves_an_unstable_trained_file(rtf, tmp_path):
    f = Filter(np.array([[-1.3]]), np.array([[1.0]]), np.array([0.5]), 2000)
    save_json(tmp_path / "f.json", f)
    u = np.random.default_rng(2).standard_normal((1, 300, 1))
    np.save(tmp_path / "u.npy", u)
    for method in ("auto", "fft"):
        rtf("filter", "f.json", "--input", "u.npy", "-o", "y.npy", "--method", method)
        assert_close(np.load(tmp_path / "y.npy"), oracle.convolve(oracle.wrapped_kernel(f, 2000), u))


@pytest.mark.parametrize("shape", [(50,), (50, 1), (2, 50, 1), (50, 3), (2, 50, 3)])
def test_filter_keeps_the_shape_and_accepts_fortran_order(rtf, tmp_path, shape):
    rng = np.random.default_rng(7)
    channels = 1 if len(shape) == 1 else shape[-1]
    f = draw_filter(rng, channels, 1, 4)
    save_json(tmp_path / "f.json", f)
    u = rng.standard_normal(shape)
    batch = shape[0] if len(shape) == 3 else 1
    expected_y, expected_final = oracle.filter_signal(f, u.reshape(batch, 50, channels))
    for array in (u, np.asfortranarray(u), u.astype(np.float32)):
        np.save(tmp_path / "u.npy", array)
        rtf("filter", "f.json", "--input", "u.npy", "-o", "y.npy", "--dtype", "f64", "--final-state", "xf.npy")
        y, final = np.load(tmp_path / "y.npy"), np.load(tmp_path / "xf.npy")
        dtype = "f32" if array.dtype == np.float32 else "f64"
        assert y.shape == shape and final.shape == (batch, channels, 4)
        assert_close(y.reshape(expected_y.shape), expected_y, condition(f, 50), dtype)
        assert_close(final, expected_final, condition(f, 50), dtype)


def test_filter_takes_the_type_of_the_input_or_the_one_asked_for(rtf, tmp_path):
    save_json(tmp_path / "f.json", Filter(np.array([[-0.5]]), np.array([[1.0]]), np.array([1.0])))
    for stored, asked, expected in [("f4", None, "f4"), ("f8", None, "f8"), ("f4", "f64", "f8"), ("f8", "f32", "f4")]:
        np.save(tmp_path / "u.npy", np.ones(10, stored))
        rtf("filter", "f.json", "--input", "u.npy", "-o", "y.npy", *(["--dtype", asked] if asked else []))
        assert np.load(tmp_path / "y.npy").dtype == np.dtype(expected)


# --- poles and info --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_poles_equal_numpy_roots(rtf, tmp_path, seed):
    rng = np.random.default_rng(700 + seed)
    order = int(rng.integers(0, 12))
    f = draw_filter(rng, 4, int(rng.choice([1, 2, 4])), order)
    if seed % 3 == 0:
        f.a *= 3.0 ** np.arange(1, order + 1)  # roots three times as large
    save_json(tmp_path / "f.json", f)
    groups = json.loads(rtf("poles", "f.json", "--json"))["groups"]
    assert len(groups) == len(f.a)
    for group, a in zip(groups, f.a, strict=True):
        expected = np.roots(np.concatenate([[1.0], a]))
        expected = np.concatenate([expected, np.zeros(order - len(expected))])  # np.roots drops roots at zero
        actual = np.array([complex(*pole) for pole in group["poles"]])
        assert len(actual) == order
        assert np.all(np.diff(np.abs(actual)) <= 1e-9 * (1 + np.abs(actual[:1])))
        gaps = np.abs(actual[:, None] - expected[None, :])
        assert order == 0 or gaps[linear_sum_assignment(gaps)].max() < 1e-8 * max(1, np.abs(expected).max())
        radius = np.abs(expected).max(initial=0)
        assert group["radius"] == pytest.approx(radius, rel=1e-8, abs=1e-12)
        assert group["stable"] == (radius < 1)


def test_poles_table_names_every_group(rtf, tmp_path):
    save_json(tmp_path / "f.json", Filter(np.array([[-0.5], [2.0]]), np.ones((2, 1)), np.ones(2)))
    text = rtf("poles", "f.json")
    assert "group 0: radius 0.500000000, stable" in text
    assert "group 1: radius 2.000000000, NOT stable" in text


def test_info_reports_sizes_and_figures(rtf, tmp_path):
    f = draw_filter(np.random.default_rng(3), 4, 2, 3, length=64)
    save_json(tmp_path / "f.json", f)
    info = json.loads(rtf("info", "f.json", "--json"))
    assert [info[key] for key in ("channels", "groups", "order", "length", "stable")] == [4, 2, 3, 64, True]
    spectrum = np.abs(np.fft.fft(np.concatenate([np.ones((2, 1)), f.a], axis=1), 64))
    assert info["min_abs_denominator"] == pytest.approx(spectrum.min(), rel=1e-9)
    assert info["condition"] == pytest.approx(condition(f, 64), rel=1e-9)
    assert info["sum_abs_a"]["max"] == pytest.approx(np.abs(f.a).sum(1).max())
    assert info["max_abs_b"] == np.abs(f.b).max()
    assert info["h0"] == {"min": f.h0.min(), "max": f.h0.max()}
    assert "trained at length 64" in rtf("info", "f.json")


def test_a_radius_next_to_the_circle_is_told_from_1(rtf, tmp_path):
    save_json(tmp_path / "f.json", Filter(np.array([[2**-30 - 1], [-0.5]]), np.ones((2, 1)), np.ones(2)))
    assert "group 0: radius 1-9.31e-10, stable" in rtf("poles", "f.json")
    assert "0.500000000 to 1-9.31e-10\n" in rtf("info", "f.json")


def test_info_of_order_zero(rtf, tmp_path):
    (tmp_path / "f.json").write_text('{"a": [], "b": [], "h0": [1, 2]}')
    info = json.loads(rtf("info", "f.json", "--json"))
    assert (info["order"], info["channels"], info["length"], info["stable"]) == (0, 2, None, True)


# --- files and manners -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_safetensors_from_python(rtf, tmp_path, dtype):
    f = draw_filter(np.random.default_rng(5), 4, 2, 3, 50)
    tensors = {"a": f.a.astype(dtype), "b": f.b.astype(dtype), "h0": f.h0.astype(dtype)}
    save_file(tensors, tmp_path / "f.safetensors", metadata={"length": "50", "format": "np"})
    rtf("kernel", "f.safetensors", "--length", 50, "-o", "k.npy")
    rounded = Filter(*(tensors[name].astype(float) for name in ("a", "b", "h0")), 50)
    assert_close(np.load(tmp_path / "k.npy"), oracle.wrapped_kernel(rounded, 50), condition(rounded, 50))


def test_flat_lists_are_one_channel(rtf, tmp_path):
    (tmp_path / "f.json").write_text('{"a": [-0.5], "b": [2], "h0": 3}')
    rtf("kernel", "f.json", "--length", 4, "-o", "k.npy")
    assert_array_equal(np.load(tmp_path / "k.npy"), [[3, 2, 1, 0.5]])


def test_output_may_be_the_input(rtf, tmp_path):
    f = draw_filter(np.random.default_rng(6), 1, 1, 2, 30)
    save_json(tmp_path / "f.json", f)
    rtf("correct", "f.json", "-o", "f.json")
    assert load_json(tmp_path / "f.json").length is None
    u = np.random.default_rng(7).standard_normal(40)
    np.save(tmp_path / "u.npy", u)
    rtf("filter", "f.json", "--input", "u.npy", "-o", "u.npy")
    expected = oracle.filter_signal(oracle.dense_correction(f), u.reshape(1, 40, 1))[0]
    assert_close(np.load(tmp_path / "u.npy"), expected.reshape(40), condition(f, 40))
    assert sorted(os.listdir(tmp_path)) == ["f.json", "u.npy"]


def test_quiet_prints_nothing_and_notes_are_one_line(rtf, tmp_path):
    save_json(tmp_path / "f.json", Filter(np.array([[-0.5]]), np.array([[1.0]]), np.array([1.0]), 16))
    np.save(tmp_path / "u.npy", np.ones(8))
    for arguments in (
        ["kernel", "f.json", "--length", 8, "-o", "k.npy"],
        ["correct", "f.json", "-o", "p.json"],
        ["wrap", "p.json", "--length", 8, "-o", "w.json"],
        ["filter", "f.json", "--input", "u.npy", "-o", "y.npy"],
    ):
        assert rtf(*arguments).count("\n") == 1
        assert rtf(*arguments, "--quiet") == ""


@pytest.mark.parametrize("command", [None, "kernel", "convert", "correct", "wrap", "filter", "freqz", "plot", "poles", "info", "stream", "bench"])
def test_help_and_version(rtf, command):
    prefix = [command] if command else []
    assert rtf(*prefix, "--version").startswith("rtf ")
    text = rtf(*prefix, "--help")
    assert ("Example:\n" in text and f"rtf {command}" in text) if command else "kernel" in text


def test_help_examples_run(rtf, tmp_path):
    """What --help shows is a script that works."""
    environment = {**os.environ, "COMMAND": COMMAND, "PYTHON": sys.executable}
    for command in ("kernel", "convert", "correct", "wrap", "filter", "freqz", "plot", "poles", "info"):
        example = rtf(command, "--help").split("Example:\n")[1]
        script = f'set -e; rtf() {{ "$COMMAND" "$@"; }}; python3() {{ "$PYTHON" "$@"; }}\n{example}'
        done = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_bare_command_prints_help(rtf):
    text = rtf()
    assert all(name in text for name in ("kernel", "filter", "convert", "correct", "wrap", "freqz", "plot", "poles", "info"))
