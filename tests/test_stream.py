"""rtf stream: the model file over files and pipes of every format against SciPy; states; what goes wrong on the way."""

import io
import os
import resource
import socket
import subprocess

import numpy as np
import pytest
from conftest import COMMAND
from random_model import RandomModel, seeds
from sound import chunk, format_chunk, riff, wav

# Relative to the largest answer.
TOLERANCE = {"f32": 1e-4, "f64": 1e-9}
MODELS = {
    "position": dict(),
    "tokens": dict(vocabulary=7, decoder="last"),
    "pool": dict(decoder="pool", norm="batch", shared=True),
    "order_0": dict(order=0, features=2),
    "order_1": dict(order=1, features=3, norm="none", glu=False),
    "long_order": dict(order=300, shared=True),
}


def close(got, wanted, precision):
    assert got.shape == wanted.shape
    assert np.abs(got - wanted).max(initial=0) <= TOLERANCE[precision] * np.abs(wanted).max(initial=1e-300)


def lines(samples):
    return "".join(" ".join(repr(x.item()) for x in row) + "\n" for row in samples).encode()


def table(text, outputs):
    return np.array(text.split(), float).reshape(-1, outputs)


@pytest.fixture
def stream(tmp_path):
    """stream(*arguments, given=bytes) returns the bytes of standard output."""

    def run(*arguments, given=b""):
        done = subprocess.run([COMMAND, "stream", "m.safetensors", *map(str, arguments)], cwd=tmp_path, input=given, capture_output=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, b""), done
        return done.stdout

    return run


@pytest.fixture
def refused(tmp_path):
    """The same for a run that must fail with one line that says all of `parts`, and leave nothing behind."""

    def run(*arguments, given=b"", parts=(), command=None, **options):
        before = sorted(os.listdir(tmp_path))
        command = command or [COMMAND, "stream", "m.safetensors", *map(str, arguments)]
        options = {"stdout": subprocess.PIPE, **options}
        done = subprocess.run(command, cwd=tmp_path, input=given, stderr=subprocess.PIPE, timeout=60, **options)
        error = done.stderr.decode()
        assert done.returncode == 2 and error.startswith("rtf stream: ") and error.count("\n") == 1, done
        assert [part for part in parts if part not in error] == [], error
        assert sorted(os.listdir(tmp_path)) == before
        return done.stdout

    return run


def put(tmp_path, model):
    (tmp_path / "m.safetensors").write_bytes(model.file)
    return model


@pytest.mark.parametrize("precision", ["f32", "f64"])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("length", [0, 1, 2, 257])
def test_every_format_equals_scipy(stream, tmp_path, name, precision, length):
    m = put(tmp_path, RandomModel(length, precision, **MODELS[name]))
    x = m.samples(length)
    wanted = m.answers(x) if length else np.zeros((0, m.outputs))
    by_text = table(stream(given=lines(x)), m.outputs)
    close(by_text, wanted, precision)

    np.save(tmp_path / "x.npy", x)
    x.astype("<f4").tofile(tmp_path / "x.raw")
    (tmp_path / "x.txt").write_bytes(lines(x))
    files = {"x.txt": "text", "x.raw": "raw", "x.npy": "npy"}
    for file, form in files.items():
        # Digits are those of the answer itself: text has the same bits as npy.
        given = (tmp_path / file).read_bytes()
        for out in ("text", "raw"):
            both = [stream(file, "--to", out), stream("--from", form, "--to", out, given=given)]
            for got in both:
                got = table(got, m.outputs) if out == "text" else np.frombuffer(got, "<f4").reshape(-1, m.outputs)
                np.testing.assert_array_equal(got, by_text if out == "text" else by_text.astype("f4"))
        stream(file, "-o", "y.npy", "--quiet")
        got = np.load(tmp_path / "y.npy")
        assert got.dtype == {"f32": "<f4", "f64": "<f8"}[precision]
        np.testing.assert_array_equal(got, by_text.astype(got.dtype))
    np.testing.assert_array_equal(np.load(io.BytesIO(stream("x.npy"))), by_text.astype(got.dtype))


@pytest.mark.parametrize("weights", ["bf16", "int8"])
@pytest.mark.parametrize("name", MODELS)
def test_narrow_weights_equal_scipy(stream, tmp_path, name, weights):
    m = put(tmp_path, RandomModel(20, weights=weights, **MODELS[name]))
    x = m.samples(100)
    close(table(stream(given=lines(x)), m.outputs), m.answers(x), "f32")


@pytest.mark.parametrize(
    "seed, why",
    {
        "int8_without_scale": "encoder.scale is missing",
        "int8_scale_0": "encoder has the scale 0 in row 0; positive ones are needed",
        "int8_scale_negative": "the scale -1 in row 0",
        "int8_scale_infinite": "encoder.scale holds a number that is not finite",
        "int8_beyond": "encoder has a weight of -128 times its scale; at most 127 times is allowed",
        "bf16_not_finite": "encoder.weight holds a number that is not finite",
        "bf16_in_f64": "bf16 or int8, in a model of f32",
        "weights_unknown": "'weights' is \"int4\", expected one of bf16, int8",
        "scale_without_int8": "tensor 'encoder.scale' has no place in this model",
    }.items(),
)
def test_narrow_weights_that_lie(refused, tmp_path, seed, why):
    (tmp_path / "m.safetensors").write_bytes(seeds.model_seeds()[seed])
    refused(parts=["m.safetensors: ", why])


def test_types_of_npy_and_text(stream, tmp_path):
    m = put(tmp_path, RandomModel(3, vocabulary=7))
    x = m.samples(20)
    wanted = stream(given=lines(x))
    for type in ("u1", "<i2", "<i4", "<i8", "<f4", "<f8"):
        for values in (x[:, 0], x):
            np.save(tmp_path / "x.npy", values.astype(type))
            assert stream("x.npy", "--to", "text") == wanted
    text = "# tokens\n\n" + "".join(f" \t+{token},\r\n" for token in x[:, 0])
    assert stream(given=text.encode()) == stream(given=text.rstrip("\r\n").encode()) == wanted


def test_several_inputs_are_one_stream(stream, tmp_path):
    m = put(tmp_path, RandomModel(4, features=2))
    x = m.samples(30)
    np.save(tmp_path / "a.npy", x[:7])
    x[7:9].astype("<f4").tofile(tmp_path / "b.f32")
    for to in ("text", "raw"):
        got = subprocess.run([COMMAND, "stream", "m.safetensors", "a.npy", "b.f32", "--to", to], cwd=tmp_path, capture_output=True, check=True)
        assert got.stdout == stream("--to", to, given=lines(x[:9]))


@pytest.mark.parametrize("precision", ["f32", "f64"])
@pytest.mark.parametrize("name", MODELS)
def test_state_between_two_runs(stream, tmp_path, name, precision):
    m = put(tmp_path, RandomModel(5, precision, **MODELS[name]))
    x = m.samples(40)
    whole = stream("--state-out", "end", given=lines(x))
    for cut in (0, 1, 13, 40):
        first = stream("--state-out", "s", given=lines(x[:cut]))
        assert first + stream("--state-in", "s", "--state-out", "s", given=lines(x[cut:])) == whole
        assert (tmp_path / "s").read_bytes() == (tmp_path / "end").read_bytes()


def test_pair(stream, refused, tmp_path):
    m = put(tmp_path, RandomModel(6, vocabulary=9, decoder="pair"))
    one, two = m.samples(12), m.samples(31)
    np.save(tmp_path / "one.npy", one)
    np.save(tmp_path / "two.npy", two)
    close(table(stream("one.npy", "two.npy", "--to", "text"), 3)[0], m.answer_pair(one, two), "f32")
    assert stream("one.npy", "-", "--from", "npy", given=(tmp_path / "two.npy").read_bytes()) == stream("one.npy", "two.npy")
    refused("one.npy", parts=["compares two sequences", "not 1"])
    refused("one.npy", "two.npy", "--state-out", "s", parts=["no state"])
    refused("one.npy", "-", parts=["standard input has no samples"])


@pytest.mark.parametrize("format", ["pcm16", "pcm24", "f32"])
def test_sound(stream, refused, tmp_path, format):
    m = put(tmp_path, RandomModel(7, features=2))
    integers = m.rng.integers(-(2**15), 2**15, (50, 2)) * (256 if format == "pcm24" else 1)
    values = integers / (2.0**15 * (256 if format == "pcm24" else 1))
    data = wav(integers if format != "f32" else values, format)
    (tmp_path / "x.wav").write_bytes(data)
    wanted = stream("--to", "raw", given=lines(values))
    assert stream("x.wav") == stream("--from", "wav", given=data) == wanted
    # A header whose writer did not know the length yet.
    begin = data.index(b"data")
    endless = data[:4] + b"\xff" * 4 + data[8 : begin + 4] + b"\xff" * 4 + data[begin + 8 :]
    assert stream("--from", "wav", given=endless) == wanted
    if format == "f32":
        stream("x.wav", "-o", "y.wav", "--quiet")
        sound = (tmp_path / "y.wav").read_bytes()
        assert sound[sound.index(b"data") + 8 :] == wanted
        stream("--from", "wav", "-o", "y.wav", "--quiet", given=data)
        assert (tmp_path / "y.wav").read_bytes() == sound
    refused("--from", "wav", given=data[:-3], parts=["truncated", "inside frame 49"])
    refused("--from", "wav", given=endless[:-1], parts=["truncated", "inside frame 49"])
    refused("--from", "wav", "-o", "z.wav", given=endless, parts=["z.wav", "length is known"])
    refused("--from", "wav", "--to", "wav", given=data, parts=["-o"])
    (tmp_path / "mono.wav").write_bytes(riff(format_chunk(), chunk(b"data", bytes(8))))
    refused("mono.wav", parts=["mono.wav has 1 channel,", "takes 2 numbers"])
    refused("--from", "wav", given=(tmp_path / "mono.wav").read_bytes(), parts=["standard input has 1 channel,"])


def test_answers_come_before_the_next_sample(tmp_path):
    """A pipeline that waits for each answer before it goes on."""
    m = put(tmp_path, RandomModel(8, "f64"))
    x = m.samples(20)
    process = subprocess.Popen([COMMAND, "stream", "m.safetensors"], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    got = []
    for row in x:
        process.stdin.write(lines([row]))
        process.stdin.flush()
        got.append(process.stdout.readline())
    process.stdin.close()
    assert process.stdout.read() == b"" and process.wait(timeout=60) == 0
    close(table(b"".join(got), 3), m.answers(x), "f64")


@pytest.mark.skipif("RTF_SANITIZED" in os.environ, reason="sanitizers keep what was freed")
def test_any_length_in_bounded_memory(tmp_path):
    """Two million samples, 8 MB in and 24 MB out, take no more than the first block of them."""
    put(tmp_path, RandomModel(9, order=1, glu=False))
    process = subprocess.Popen([COMMAND, "stream", "m.safetensors", "--from", "raw", "-o", "y.raw", "--quiet"], cwd=tmp_path, stdin=subprocess.PIPE)

    def peak_after(samples):
        process.stdin.write(bytes(4 * samples))
        process.stdin.flush()
        with open(f"/proc/{process.pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))

    first = peak_after(1 << 18)
    assert peak_after(1 << 21) - first < 2048  # KiB
    process.stdin.close()
    assert process.wait(timeout=60) == 0
    assert (tmp_path / "y.raw").stat().st_size == 12 * ((1 << 18) + (1 << 21))


def test_bad_samples(refused, stream, tmp_path):
    m = put(tmp_path, RandomModel(10, features=2))
    good = b"1 2\n3 4\n"
    for bad, part in {b"1\n": "line 3 has 1 number,", b"1 2 3\n": "line 3 has 3 numbers, the model takes 2", b"1 x\n": "line 3 holds 'x', expected a number",
                      b"1 \x1b[2J\n": "'?[2J'", b"nan 1\n": "sample 2 holds nan", b"1 inf": "sample 2 holds inf", b"1e39 0\n": "expected finite values of f32",
                      b"1" * (3 << 20): "line 3 has more than"}.items():  # fmt: skip
        # What came before is answered.
        assert refused(given=good + bad, parts=["standard input", part]) == stream(given=good)
        refused("-o", "y.txt", given=good + bad, parts=[part])
    refused("--from", "raw", given=bytes(20), parts=["truncated", "inside sample 2, of 8 bytes"])
    put(tmp_path, RandomModel(10, vocabulary=7))
    for bad in (b"7\n", b"-1\n", b"0.5\n", b"nan\n", b"1e30\n"):
        refused(given=b"1\n" + bad, parts=["sample 1 is ", "expected a token, a whole number from 0 to 6"])
    (tmp_path / "x.wav").write_bytes(riff(format_chunk(), chunk(b"data", bytes(8))))
    refused("x.wav", parts=["x.wav is a sound", "takes tokens"])
    assert m.inputs == 2


def test_bad_npy(refused, tmp_path):
    put(tmp_path, RandomModel(11, features=2))
    whole = io.BytesIO()
    np.save(whole, np.ones((5, 2)))
    whole = whole.getvalue()
    for values, part in {"three": (np.ones((5, 3)), "shape (5, 3), expected (length, 2)"), "flat": (np.ones(4), "shape (4)"), "deep": (np.ones((1, 5, 2)), "shape (1, 5, 2)"),
                         "columns": (np.asfortranarray(np.ones((5, 2))), "Fortran order"), "complex": (np.ones((5, 2), complex), "'<c16'")}.values():  # fmt: skip
        np.save(tmp_path / "x.npy", values)
        refused("x.npy", parts=["x.npy", part])
    for bytes_, part in ((whole[:-1], "truncated"), (whole + b"x", "trailing bytes"), (whole[:60], "truncated"), (b"", "truncated"), (b"text", "not an npy file")):
        (tmp_path / "x.npy").write_bytes(bytes_)
        for out in ([], ["-o", "y.npy"]):
            if bytes_:
                refused("x.npy", *out, parts=["x.npy", part])
            refused("--from", "npy", *out, given=bytes_, parts=["standard input", part if bytes_ else "npy"])
    refused("--to", "npy", given=b"1 2\n", parts=["-o", "--to text or raw"])


def test_bad_states(refused, stream, tmp_path):
    put(tmp_path, RandomModel(12))
    stream("--state-out", "s", given=b"1\n")
    good = (tmp_path / "s").read_bytes()
    for bytes_, part in ((b"", "0 bytes"), (good[:-1], "checksum"), (good[:8] + b"\x02" + good[9:], "version 2"), (good[:40] + b"?" + good[41:], "checksum"), (b"x" * len(good), "not a saved stream")):
        (tmp_path / "bad").write_bytes(bytes_)
        refused("--state-in", "bad", given=b"1\n", parts=["bad: ", part])
    refused("--state-in", "none", parts=["cannot read none"])
    put(tmp_path, RandomModel(13))
    refused("--state-in", "s", given=b"1\n", parts=["s: a state of another model"])
    (tmp_path / "y.txt").write_text("kept")
    refused("-o", "y.txt", "--state-out", "./y.txt", parts=["both the answers and the state"])
    refused("-o", "y.txt", "--state-out", "s", given=b"x\n", parts=["line 1"])
    assert (tmp_path / "y.txt").read_text() == "kept" and (tmp_path / "s").read_bytes() == good


def test_bad_files(refused, tmp_path):
    put(tmp_path, RandomModel(14))
    refused("none.npy", parts=["cannot read none.npy"])
    refused("-", "-", parts=["standard input can be read once"])
    refused("samples", parts=["the name samples does not tell its format; --from"])
    refused("-o", "answers", parts=["the name answers does not tell its format; --to"])
    refused("-o", "no/y.npy", parts=["no"])
    refused("-o", "y.wav", given=b"1\n", parts=["y.wav"])
    (tmp_path / "folder.txt").mkdir()
    refused("folder.txt", parts=["it is a folder"])
    (tmp_path / "m.safetensors").write_bytes(RandomModel(14).file[:-1])
    refused(parts=["m.safetensors"])
    (tmp_path / "m.safetensors").write_bytes(seeds.model_seeds()["bidirectional"])
    refused(parts=["m.safetensors sees whole sequences", "no samples"])


def test_answers_and_states_that_are_not_finite(refused, stream, tmp_path):
    """A finite input may overflow: one line, no state, and what came before is answered."""
    put(tmp_path, RandomModel(16, features=2))
    good = b"1 2\n0 0\n"
    for given in (good + b"3e38 3e38\n0 0\n", good + b"3e38 -3e38\n"):
        for more in ((), ("--state-out", "s")):
            assert stream(given=good) == refused(*more, given=given, parts=["answer 2 is not finite", "too large for the model in f32"])
    refused("-o", "y.txt", given=good + b"3e38 3e38\n", parts=["answer 2 is not finite"])


def test_numbers_of_text(stream, refused, tmp_path):
    put(tmp_path, RandomModel(19, features=2))
    assert stream(given=b"1e-400, +2\n-1e-320,0,\n") == stream(given=b"0 2\n0 0\n")
    for bad, part in ((b"+-3 1\n", "'+-3'"), (b"1,,2\n", "line 1 holds ''"), (b",1 2\n", "line 1 holds ''"), (b"1e400 1\n", "'1e400'"), (b"+ 1\n", "'+'")):
        refused(given=bad, parts=[part, "expected a number"])


def test_sound_through_a_socket(stream, tmp_path):
    put(tmp_path, RandomModel(20))
    sound = riff(format_chunk(), chunk(b"data", np.arange(-50, 50, dtype="<i2").tobytes()))
    ours, theirs = socket.socketpair()
    with theirs, ours:
        ours.sendall(sound)
        ours.shutdown(socket.SHUT_WR)
        done = subprocess.run([COMMAND, "stream", "m.safetensors", "--from", "wav"], cwd=tmp_path, stdin=theirs, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"") and done.stdout == stream("--from", "wav", given=sound)


def test_the_model_is_not_written_over(refused, tmp_path):
    put(tmp_path, RandomModel(18))
    before = (tmp_path / "m.safetensors").read_bytes()
    (tmp_path / "other.safetensors").symlink_to("m.safetensors")
    for name in ("m.safetensors", "./m.safetensors", "other.safetensors"):
        refused("-o", name, "--to", "text", given=b"1\n", parts=[name, "is the file that is read"])
        refused("--state-out", name, given=b"1\n", parts=[name, "is the file that is read"])
    assert (tmp_path / "m.safetensors").read_bytes() == before


def test_full_disk_and_closed_pipe(refused, tmp_path):
    put(tmp_path, RandomModel(15))
    with open("/dev/full", "wb") as full:
        refused(given=b"1\n" * 100, parts=["cannot write to standard output", "No space left"], stdout=full)
    refused(given=b"1\n" * 100000, command=["bash", "-c", f"{COMMAND} stream m.safetensors --state-out s | head -n 1 >/dev/null; exit ${{PIPESTATUS[0]}}"],
            parts=["cannot write to standard output: its reader has closed it"])  # fmt: skip
    refused(command=["bash", "-c", f"{COMMAND} stream m.safetensors <&-"], parts=["cannot read standard input"])
    limited = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))  # noqa: E731
    script = f"exec {COMMAND} stream m.safetensors -o y.txt"
    refused(given=b"1\n" * 1000, command=["bash", "-c", script], parts=["cannot write y.txt"], preexec_fn=limited)
