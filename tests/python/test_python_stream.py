"""rtf.Stream: model files against SciPy, filters, states, forks and threads."""

import copy
import pickle
import threading

import numpy as np
import pytest
import rtf
from random_model import RandomModel
from scipy import signal

TOLERANCE = {"f32": 1e-4, "f64": 1e-9}  # of the largest answer
MODELS = {
    "position": dict(),
    "tokens": dict(vocabulary=7, decoder="last"),
    "pool": dict(decoder="pool", norm="batch", shared=True),
    "order_0": dict(order=0, features=2),
}


def close(got, wanted, precision):
    assert got.shape == wanted.shape and got.dtype == (np.float32 if precision == "f32" else np.float64)
    assert np.abs(got - wanted).max(initial=0) <= TOLERANCE[precision] * np.abs(wanted).max(initial=1e-300)


@pytest.fixture
def load(tmp_path):
    def make(model):
        (tmp_path / "m.safetensors").write_bytes(model.file)
        return rtf.Stream(tmp_path / "m.safetensors")

    return make


@pytest.mark.parametrize("precision", ["f32", "f64"])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("length", [0, 1, 2, 257])
def test_a_model_file_equals_scipy(load, name, precision, length):
    m = RandomModel(length, precision, **MODELS[name])
    x = m.samples(length)
    wanted = m.answers(x) if length else np.empty((0, m.outputs))
    stream = load(m)
    assert (stream.inputs, stream.outputs, stream.vocabulary, stream.precision) == (m.inputs, m.outputs, m.vocabulary, precision)
    whole = stream.process(x)
    close(whole, wanted, precision)
    stream.reset()
    stepped = [stream.step(sample) for sample in x]
    assert all((one == row).all() for one, row in zip(stepped, whole, strict=True))  # to the bit
    if m.decoder == "pool" and length:
        close(stream.answer(), wanted[-1], precision)
    if m.inputs == 1 and length:
        stream.reset()
        assert (stream.process(x[:, 0]) == whole).all()
        stream.reset()
        assert (stream.step(x[0, 0]) == whole[0]).all()


def test_states_are_saved_restored_and_forked(load):
    m = RandomModel(3)
    x = m.samples(60)
    stream = load(m)
    whole = stream.process(x)
    stream.reset()
    stream.prefill(x[:25])
    saved = stream.save()
    assert isinstance(saved, bytes)
    forked, copied, deep = stream.fork(), copy.copy(stream), copy.deepcopy(stream)
    for one in (stream, forked, copied, deep):
        assert (one.process(x[25:]) == whole[25:]).all()
    other = load(m)
    other.restore(saved)
    assert (other.process(x[25:]) == whole[25:]).all()
    with pytest.raises(ValueError, match=r"^\[rtf::stream::restore\] "):
        stream.restore(saved[:-1])
    with pytest.raises(ValueError, match="another model"):
        load(RandomModel(4)).restore(saved)


@pytest.mark.parametrize("precision, tolerance", [("f32", 1e-5), ("f64", 1e-10)])
def test_a_filter_equals_scipy(precision, tolerance):
    rng = np.random.default_rng(0)
    b, a = signal.butter(4, 0.3)
    stream = rtf.Stream(rtf.PolynomialRatio(b, a), precision)
    x = rng.standard_normal(1000)
    y = stream.process(x)
    expected = signal.lfilter(b, a, x)
    assert y.shape == (1000, 1) and y.dtype == (np.float32 if precision == "f32" else np.float64)
    assert np.abs(y[:, 0] - expected).max() <= 10 * tolerance * np.abs(expected).max()
    two = rtf.Stream(rtf.TransferFunction([-0.5], [[1], [2]], [0, 1]), precision)
    assert two.inputs == two.outputs == 2
    x = rng.standard_normal((100, 2))
    y = two.process(x)
    for c in range(2):
        expected = signal.lfilter([c, c + 1 - 0.5 * c], [1, -0.5], x[:, c])
        assert np.abs(y[:, c] - expected).max() <= 10 * tolerance * np.abs(expected).max()
    trained = rtf.TrainedTransferFunction([-1.2, 0.81], [1, 0.5], 1, 64)
    kernel = rtf.Stream(trained).process(np.eye(1, 64)[0])[:, 0]
    np.testing.assert_allclose(kernel, rtf.kernel(trained, length=64), rtol=0, atol=1e-9)


def test_a_number_that_is_not_finite_stays_until_reset():
    stream = rtf.Stream(rtf.TransferFunction([-0.5], [1], 0))
    stream.step(np.nan)
    assert not stream.finite
    stream.reset()
    assert stream.finite and stream.step(1.0) == 0.0


def test_threads_share_a_stream_and_a_model(load):
    m = RandomModel(5)
    x = m.samples(2000)
    stream = load(m)
    whole = stream.fork().process(x)
    answers = [None] * 4

    def work(i):
        answers[i] = stream.fork().process(x)
        rtf.lfilter(np.ones((8, 5000)), [1, -0.5], [1])

    def hammer():
        for _ in range(100):
            shared.step(x[0])

    shared = stream.fork()
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)] + [threading.Thread(target=hammer) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((answer == whole).all() for answer in answers)
    lone = stream.fork()
    lone.prefill(np.repeat(x[:1], 200, axis=0))
    assert shared.save() == lone.save()


def test_refusals(load, tmp_path):
    numbers, tokens = load(RandomModel(1, features=2)), load(RandomModel(2, vocabulary=7, decoder="last"))
    cases = [
        (lambda: numbers.process(np.ones((3, 4))), r"x has shape \(3, 4\); \(length, 2\) is needed"),
        (lambda: numbers.step(1.0), r"x has shape \(1\); \(2\) is needed"),
        (lambda: numbers.step(np.ones((1, 2))), r"x has shape \(1, 2\); \(2\) is needed"),
        (lambda: numbers.step([1j, 0]), "x has numbers of type complex128"),
        (lambda: tokens.step(1.5), "the model takes tokens"),
        (lambda: tokens.step(7), "token 7 is outside the vocabulary of 7"),
        (lambda: tokens.step([1, 2]), r"x has shape \(2\); \(1\) is needed"),
        (lambda: numbers.answer(), "has seen no sample"),
        (lambda: rtf.Stream(3), "source is a int"),
        (lambda: rtf.Stream(tmp_path / "m.safetensors", "f64"), "precision is for a filter"),
        (lambda: rtf.Stream(rtf.TransferFunction([-0.5], [1], 0), "f16"), "f32 or f64"),
        (lambda: rtf.Stream(rtf.TransferFunction([-1.5], [1], 0)), "pole"),
        (lambda: load(RandomModel(3, decoder="pair")), "compares two sequences.*rtf.Sequences runs it"),
    ]
    for call, expected in cases:
        with pytest.raises(ValueError, match=r"^\[rtf::[\w:]+\] [^\n]*" + expected):
            call()
    for call, _ in cases[1:7]:
        with pytest.raises(ValueError, match=r"^\[rtf::stream::step\] "):
            call()
    with pytest.raises(TypeError, match=r"^\[rtf::stream\] a stream does not pickle; save\(\) gives its state"):
        pickle.dumps(numbers)
    with pytest.raises(OSError, match="nowhere.safetensors"):
        rtf.Stream(tmp_path / "nowhere.safetensors")
    (tmp_path / "cut.safetensors").write_bytes(RandomModel(1).file[:-9])
    with pytest.raises(ValueError, match="cut.safetensors"):
        rtf.Stream(str(tmp_path / "cut.safetensors"))


@pytest.mark.parametrize("precision", ["f32", "f64"])
@pytest.mark.parametrize("order, edge", [(4, 0.2), (8, 0.05), (6, 0.005), (12, 0.05), (8, 0.01), (12, 0.02)])
def test_factors_whose_coefficients_do_not_hold(order, edge, precision):
    """Sections and poles with zeros as they are given, whatever is left of them when they are multiplied out."""
    x = np.random.default_rng(0).standard_normal(3000).astype(np.float32).astype(np.float64)
    sos, zpk = (signal.butter(order, edge, output=form) for form in ("sos", "zpk"))
    wanted = signal.sosfilt(sos, x)
    for filter in (rtf.SecondOrderSections(sos), rtf.ZeroPoleGain(*zpk)):
        y = rtf.Stream(filter, precision).process(x)[:, 0]
        assert np.abs(y - wanted).max() <= (1e-5 if precision == "f32" else 1e-10) * np.abs(wanted).max()
    both = [rtf.SecondOrderSections(sos), rtf.SecondOrderSections(signal.butter(2, 0.3, output="sos"))]
    y = rtf.Stream(both).process(np.stack((x, x), 1))
    assert np.abs(y[:, 0] - wanted).max() <= 1e-10 * np.abs(wanted).max()
    assert np.abs(y[:, 1] - signal.sosfilt(both[1].sections, x)).max() <= 1e-10


def test_slow_poles_are_measured_as_long_as_they_ring():
    """Its sections hold 1,024 samples to 1e-10, and are off by most of the answer where the filter has settled."""
    slow = rtf.SecondOrderSections(signal.cheby1(60, 0.5, 0.005, output="sos"))
    with pytest.raises(ValueError, match=r"^\[rtf::stream\] no realization holds the layer: over 65536 samples, [^\n]*$"):
        rtf.Stream(slow)
    x = np.random.default_rng(0).standard_normal(30000)
    held = rtf.SecondOrderSections(signal.butter(8, 1e-3, output="sos"))
    wanted = signal.sosfilt(held.sections, x)
    assert np.abs(rtf.Stream(held).process(x)[:, 0] - wanted).max() < 1e-10 * np.abs(wanted).max()


def test_wrong_arguments_in_one_line():
    stream, filter = rtf.Stream(rtf.TransferFunction([-0.5], [1], 1)), rtf.TransferFunction([-0.5], [1], 1)
    for run, message in [
        (lambda: stream.restore("abc"), r"\[rtf::stream::restore\] the state is a str; the bytes of save\(\) are needed"),
        (lambda: rtf.Stream(filter, np.float32), r"\[rtf::stream\] precision is <class 'numpy.float32'>; a name is needed"),
        (lambda: rtf.Stream([1.0], [1.0]), r"\[rtf::stream\] source is a list; a path or a filter"),
        (lambda: rtf.Stream(rtf.SecondOrderSections([[1, 0, 0, 1, -2.5, 1]])), r"channel 0 has a pole of modulus 2; streamed"),
    ]:
        with pytest.raises(ValueError, match=message):
            run()


def test_what_is_not_finite_stays_in_its_channel():
    rng = np.random.default_rng(0)
    a, x = 0.2 * rng.standard_normal((20, 3)), rng.standard_normal((50, 20))
    wanted = rtf.Stream(rtf.TransferFunction(a, a, np.ones(20))).process(x)
    stream = rtf.Stream(rtf.TransferFunction(a, a, np.ones(20)))
    x[30, 7] = np.nan
    got = stream.process(x)
    others = np.arange(20) != 7
    np.testing.assert_array_equal(got[:, others], wanted[:, others])
    np.testing.assert_array_equal(got[:30, 7], wanted[:30, 7])
    assert np.isnan(got[30:, 7]).all()


FILTERS = {
    "tf": rtf.TransferFunction([-1.2, 0.81], [1, 0.4], 0.5),
    "rows": rtf.TransferFunction([[-0.5, 0.1], [0.3, 0.2]], [[1, 0.4], [0.2, 1], [0.1, 0], [0, 1]], [0, 1, 2, 3]),
    "trained": rtf.TrainedTransferFunction([-1.2, 0.81], [1, 0.4], 0.5, 64),
    "order_0": rtf.TransferFunction([], [], 2.0),
    "zpk": rtf.ZeroPoleGain([-1.0], [0.5, -0.5], 0.3),
    "sos": rtf.SecondOrderSections(signal.butter(12, 0.02, output="sos")),
    "list": [rtf.ZeroPoleGain([], [0.5], 2.0), rtf.ZeroPoleGain([], [0.1], 3.0)],
    "ba": rtf.PolynomialRatio([1.0, 0.5], [2.0, 1.0]),
}


@pytest.mark.parametrize("precision", ["f32", "f64"])
@pytest.mark.parametrize("name", FILTERS)
def test_exported_filters(tmp_path, name, precision):
    """The file runs as the filter itself does, to the bit."""
    file = tmp_path / "m.safetensors"
    report = rtf.export(FILTERS[name], file, precision=precision)
    stream, wanted = rtf.Stream(file), rtf.Stream(FILTERS[name], precision)
    x = np.random.default_rng(0).standard_normal((300, wanted.inputs))
    assert (stream.precision, stream.inputs, stream.outputs) == (wanted.precision, wanted.inputs, wanted.outputs)
    np.testing.assert_array_equal(stream.process(x), wanted.process(x))
    assert len(report.layers) == 1 and max(report.answer_error, report.layers[0].error) <= {"f32": 1e-5, "f64": 1e-10}[precision]


def test_exported_filters_as_asked(tmp_path):
    file = tmp_path / "m.safetensors"
    narrow = FILTERS["sos"]  # whose coefficients say little of it
    assert rtf.export(narrow, file, precision="f64", stabilize="reflect") == rtf.export(narrow, file, precision="f64")
    for realization in ("companion", "sos", "modal"):
        assert rtf.export(FILTERS["zpk"], file, realization=realization).layers[0].realization == realization
        x = np.eye(50, 1)
        np.testing.assert_allclose(rtf.Stream(file).process(x).ravel(), rtf.kernel(FILTERS["zpk"], length=50), atol=1e-6)
    file.unlink()
    unstable = rtf.TransferFunction([-1.25], [1], 0)
    for arguments, options, message in (
        ((unstable,), {}, "denominator 0 has a pole of modulus 1.25; .*stabilize='refit' keeps"),
        ((FILTERS["tf"],), dict(weights="int8"), "weights is 'int8'; a filter has no matrices"),
        ((FILTERS["tf"],), dict(precision="f16"), "precision is 'f16'; f32 or f64 is needed"),
        ((rtf.TransferFunction([0.5], [np.nan], 0),), {}, r"b\[0\] is nan"),
        ((3,), {}, "the model is a int; an rtf.nn.SequenceModel"),
        (("runs/copying",), {}, "the model is a str; an rtf.nn.SequenceModel"),
    ):
        with pytest.raises(ValueError, match=message) as caught:
            rtf.export(*arguments, file, **options)
        assert str(caught.value).startswith("[rtf::export] ") and "\n" not in str(caught.value)
        assert list(tmp_path.iterdir()) == []
    with pytest.warns(RuntimeWarning, match=r"^\[rtf::export\] the file was written, but its answers .* are off by"):
        moved = rtf.export(unstable, file, stabilize="reflect")
    assert moved.layers[0].stabilize_error > 0 and moved.layers[0].pole_radius == pytest.approx(0.8)


def test_sequences_are_streams_that_begin_anew(tmp_path):
    m = RandomModel(5, **MODELS["tokens"])
    (tmp_path / "m.safetensors").write_bytes(m.file)
    sequences, stream = rtf.Sequences(tmp_path / "m.safetensors"), rtf.Stream(tmp_path / "m.safetensors")
    x = np.stack([m.samples(40)[:, 0] for _ in range(3)])
    wanted = []
    for one in x:
        stream.reset()
        wanted.append(stream.process(one))
    found = {}

    def work(number):
        found[number] = sequences.process(x)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for got in found.values():
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5)
        assert (got == found[0]).all()
    assert len(found) == 4 and sequences.process(x[:0]).shape == (0, 40, m.outputs)
    for wrong, message in ((x[0], r"x has shape \(40\); \(batch, length, 1\) is needed"), (x[:, :0], "of at least one sample"),
                           (x * 0.5, "the model takes tokens"), (x + 7, "token")):  # fmt: skip
        with pytest.raises(ValueError, match=message) as caught:
            sequences.process(wrong)
        assert str(caught.value).startswith("[rtf::Sequences::process] ") and "\n" not in str(caught.value)
    with pytest.raises(ValueError, match=r"^\[rtf::Sequences\] path is a int; that of a model file is needed$"):
        rtf.Sequences(3)
    with pytest.raises(OSError, match=r"^\[rtf::Sequences\] cannot read .*nothing"):
        rtf.Sequences(tmp_path / "nothing")
    for of_pairs in (RandomModel(3, decoder="pair"),):
        (tmp_path / "m.safetensors").write_bytes(of_pairs.file)
        pairs = rtf.Sequences(tmp_path / "m.safetensors")
        with pytest.raises(ValueError, match="even"):
            pairs.process(np.ones((3, 5, pairs.inputs)))
