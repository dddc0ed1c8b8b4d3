"""What the NumPy half takes and refuses, the half for tensors takes and refuses: shapes, forms, edges."""

import numpy as np
import pytest
import rtf
from both_halves import assert_same, tensors, torch

A, B = [1.0, -1.2, 0.81], [0.5, 0.25, 1.0]


def rows(count, values):
    return np.stack([np.asarray(values) * (1 if i == 0 else 0.5**i) ** np.arange(len(values)) for i in range(count)])


@pytest.mark.parametrize("zi", [(), (1,), (2,), (1, 2), (4, 2), (4, 1), (3, 2), (2, 4, 2), (1, 1, 4, 2)])
@pytest.mark.parametrize("channels", [None, 4])
def test_shapes_of_states(zi, channels):
    """The last axis is the order, and is never stretched."""
    x = np.random.default_rng(0).standard_normal((4, 9))
    state = np.random.default_rng(1).standard_normal(zi)
    a = np.array(A) if channels is None else rows(channels, A)
    said = assert_same(rtf.lfilter, x, a, np.array(B), zi=state, return_zf=True)
    fits = zi in [(2,), (1, 2), (4, 2)]
    assert isinstance(said, tuple) == fits
    if not fits:
        assert said.startswith(f"[rtf::lfilter] zi has shape {zi}; (4, 2) is needed")


@pytest.mark.parametrize("a_rows", [None, 1, 2, 3, 4, 8])
@pytest.mark.parametrize("b_rows", [None, 1, 2, 4])
@pytest.mark.parametrize("gains", [None, (), (1,), (2,), (4,)])
def test_shapes_of_coefficients(a_rows, b_rows, gains):
    """x has 4 channels: b and h0 are for all or for each, denominators may be shared by neighbours."""
    x = np.random.default_rng(0).standard_normal((2, 4, 9))
    a = np.array(A[1:] if gains is not None else A)
    b = np.array(B[1:] if gains is not None else B)
    every_a, every_b = rows(a_rows or 1, a), rows(b_rows or 1, b)
    h0 = None if gains is None else np.arange(1.0, 1 + np.prod(gains)).reshape(gains)
    said = assert_same(rtf.lfilter, x, a if a_rows is None else every_a, b if b_rows is None else every_b, h0)
    fits = a_rows in (None, 1, 2, 4) and b_rows in (None, 1, 4) and gains in (None, (), (1,), (4,))
    assert isinstance(said, np.ndarray) == fits, said
    if fits:
        for c in range(4):
            one = every_a[c // (4 // (a_rows or 1))], every_b[c if b_rows == 4 else 0]
            gain = None if h0 is None else h0.ravel()[c if gains == (4,) else 0]
            np.testing.assert_allclose(said[:, c], rtf.lfilter(x[:, c], *one, gain), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("a_rows", [None, 1, 2, 4])
@pytest.mark.parametrize("b_rows", [None, 1, 2, 3, 4])
def test_shapes_of_a_kernel(a_rows, b_rows):
    """Without a signal there are as many channels as the most rows."""
    a = np.array(A) if a_rows is None else rows(a_rows, A)
    b = np.array(B) if b_rows is None else rows(b_rows, B)
    fits = (b_rows or 1) % (a_rows or 1) == 0 or b_rows in (None, 1)
    for function, options in (rtf.kernel, {"length": 7}), (rtf.freqz, {"points": 5}):
        assert isinstance(assert_same(function, a, b, **options), str) != fits


def test_an_empty_batch_has_gradients():
    leaves = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (np.ones((2, 8)), A, B, np.ones(2))]
    x, a, b, zi = leaves
    for empty in (x[:0], x[None, :0]):
        y, zf = rtf.lfilter(empty, a, b, zi=zi, return_zf=True)
        assert y.shape == empty.shape and zf.shape == (*empty.shape[:-1], 2)
        for got in torch.autograd.grad(y.sum() + zf.sum(), leaves):
            assert (got == 0).all()


def test_the_group_delay_at_zeros():
    """nan where H is 0, and a gradient at the other angles all the same."""
    for b, angle in ([1.0, 1], np.pi), ([1.0, -1], 0.0), ([1.0, 0, 1], np.pi / 2):
        got = assert_same(rtf.group_delay, np.ones(1), np.array(b), points=np.array([angle, 0.3]))[1]
        assert np.isnan(got[0])
        assert got[1] == pytest.approx((len(b) - 1) / 2)
    third = torch.tensor([np.pi / 3, 0.3], dtype=torch.float64)  # not to the last bit
    assert rtf.group_delay(torch.ones(1), torch.tensor([1.0, -1, 1]), points=third)[1].isnan().tolist() == [True, False]
    b = torch.tensor([1.0, 1.0], dtype=torch.float64, requires_grad=True)
    rtf.group_delay(torch.ones(1), b, points=torch.tensor([np.pi, 0.3]).double())[1][1].backward()
    assert b.grad.isfinite().all()


def test_poles_of_a_list():
    """One array for each, also where neighbours are equal."""
    for form in ("tf", "ba", "ss", "modal", "zpk", "sos"):
        one = rtf.convert(FILTER, form)
        for several in ([one], [one, one], [one, one, one]):
            for got in rtf.poles(several), rtf.poles(tensors(several)):
                assert isinstance(got, list) and [len(p) for p in got] == [2] * len(several), form
    other = rtf.PolynomialRatio(np.array([1.0]), np.array([2.0, -1]))
    assert [len(p) for p in rtf.poles([rtf.convert(FILTER, "ba"), other])] == [2, 1]


FILTER = rtf.TransferFunction(np.array(A[1:]), np.array([1.0, 0.5]), np.array(0.5))


def test_a_tuple_of_forms_is_a_list_of_them():
    for number in (np.array, torch.tensor):
        forms = [rtf.TransferFunction(number([-pole]), number([1.0]), number(0.0)) for pole in (0.5, 0.25)]
        for got, wanted in zip(rtf.poles(tuple(forms)), rtf.poles(forms), strict=True):
            assert np.array_equal(got, wanted)
        assert np.array_equal(rtf.lfilter(number([[1.0, 2.0]] * 2), tuple(forms)), rtf.lfilter(number([[1.0, 2.0]] * 2), forms))


@pytest.mark.parametrize("form", ["tf", "ba", "ss", "modal", "zpk", "sos"])
def test_lfilter_takes_every_form(form):
    x = np.random.default_rng(2).standard_normal((2, 30))
    converted = rtf.convert(FILTER, form)
    wanted = rtf.lfilter(x, *FILTER)
    np.testing.assert_allclose(assert_same(rtf.lfilter, x, converted), wanted, rtol=1e-10, atol=1e-10)
    several = [converted, converted]
    np.testing.assert_allclose(assert_same(rtf.lfilter, x, several), wanted, rtol=1e-10, atol=1e-10)
    assert "b and h0 must be left out" in assert_same(rtf.lfilter, x, converted, np.array(B))


def test_lfilter_takes_a_trained_filter():
    x = np.random.default_rng(2).standard_normal((2, 30))
    trained = rtf.wrap(FILTER, 64)
    np.testing.assert_allclose(assert_same(rtf.lfilter, x, trained), rtf.lfilter(x, *FILTER), rtol=1e-9, atol=1e-9)
    assert "zi has shape ()" in assert_same(rtf.lfilter, x, *trained)  # its length lands there
    leaf = tensors(trained)
    leaf.b.requires_grad_()
    rtf.lfilter(tensors(x), leaf).sum().backward()
    assert leaf.b.grad.abs().max() > 0
    mimo = rtf.StateSpace(np.eye(2) / 2, np.eye(2), np.eye(2), np.zeros((2, 2)))
    assert "several inputs or outputs" in assert_same(rtf.lfilter, x, mimo)


@pytest.mark.parametrize("clamp", [False, True])
def test_the_clamp_of_torchaudio_is_refused(clamp):
    said = assert_same(rtf.lfilter, np.ones(4), np.array(A), np.array(B), clamp)
    assert said == f"[rtf::lfilter] h0 is {clamp}; torchaudio's clamp is not an argument here"


def test_missing_coefficients():
    x, none = np.ones(4), np.ones(0)
    assert "b is missing" in assert_same(rtf.lfilter, x, np.array(A))
    assert "b is missing" in assert_same(rtf.lfilter, x, np.array(A), None)
    assert "-1" not in assert_same(rtf.lfilter, x, none, none, zi=none)
    for length in (2.5, 0, -1, None):
        said = assert_same(rtf.kernel, np.array(A), np.array(B), length=length)
        assert said.startswith(f"[rtf::kernel] length is {length}; ")


def test_correct_and_wrap_refuse_other_forms():
    trained, zpk = rtf.wrap(FILTER, 8), rtf.convert(FILTER, "zpk")
    assert_same(rtf.correct, trained)
    assert_same(rtf.wrap, FILTER, 8)
    for other in (trained, zpk):
        assert assert_same(rtf.wrap, other, 8) == "[rtf::wrap] the filter is not an rtf.TransferFunction"
    for other in (FILTER, zpk):
        assert assert_same(rtf.correct, other) == "[rtf::correct] the filter is not an rtf.TrainedTransferFunction"
    assert_same(rtf.wrap, FILTER, 0)


@pytest.mark.parametrize("shape", [(0, 6), (4, 0), (0, 3, 6), (2, 3, 0), (0,), (), (6,), (2, 3, 6)])
@pytest.mark.parametrize("taps", [(3,), (3, 4), (0,), (3, 0), (), (2, 3), (2, 3, 4)])
@pytest.mark.parametrize("both", [False, True])
def test_edges_of_convolve(shape, taps, both):
    rng = np.random.default_rng(3)
    assert_same(rtf.convolve, rng.standard_normal(shape), rng.standard_normal(taps), bidirectional=both)


def test_an_empty_convolution_has_gradients():
    x, taps = torch.ones(0, 6, requires_grad=True), torch.ones(3, requires_grad=True)
    rtf.convolve(x, taps).sum().backward()
    assert x.grad.shape == (0, 6) and (taps.grad == 0).all()


@pytest.mark.parametrize("function", [rtf.freqz, rtf.group_delay])
def test_points(function):
    a, b = np.array(A), np.array(B)
    assert_same(function, a, b, points=np.array([0.1, 2.0]))
    assert_same(function, a, b, points=np.array([1, 2]))
    assert_same(function, A, B, points=np.array([0.1, 2.0]))  # the only tensor
    assert_same(function, rtf.convert(FILTER, "zpk"), points=np.array([0.1]))
    for shape in ((2, 2), (1, 1)):
        assert f"points has shape {shape}" in assert_same(function, a, b, points=np.ones(shape))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.bool, torch.uint8])
def test_whole_numbers_become_float64(dtype):
    x = torch.tensor([[1, 0, 1, 1]]).to(dtype)
    y = rtf.lfilter(x, torch.tensor([1, 0]), torch.tensor([1, 2]))
    assert y.dtype == torch.float64 and torch.allclose(y, torch.tensor([[1.0, 2, 1, 3]]).double(), rtol=0, atol=1e-14)
    y = rtf.convolve(x, [1, 2])
    assert y.dtype == torch.float64 and torch.allclose(y, torch.tensor([[1.0, 2, 1, 3]]).double(), rtol=0, atol=1e-14)
    assert rtf.convolve(x.float(), [1, 2]).dtype == torch.float32
    assert rtf.convolve(x.bfloat16(), [1, 2]).dtype == torch.bfloat16
    assert rtf.convolve([1.0, 2], torch.ones(1)).dtype == torch.float64


def test_numbers_out_of_a_layer():
    """With gradients, in bfloat16: what goes through NumPy reads them all the same."""
    tf = rtf.TransferFunction(*(torch.tensor(v, requires_grad=True) for v in ([-0.5], [2.0], 2.0)))
    assert rtf.Stream(tf).process(torch.tensor([1.0, 0.0, 0.0], requires_grad=True))[:, 0].tolist() == [2, 2, 1]
    assert rtf.poles(torch.tensor([1, -0.5], dtype=torch.bfloat16)).tolist() == [0.5]
    assert rtf.Stream(rtf.TransferFunction(*(v.detach().bfloat16() for v in tf))).step(1.0).tolist() == [2]
    layer = rtf.RTF(2, 4, 16, init="montel")
    u = np.random.default_rng(0).standard_normal((16, 2))
    wanted = layer(torch.tensor(u).float()[None])[0].detach().numpy()
    np.testing.assert_allclose(rtf.Stream(layer).process(u), wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())
    for both in (rtf.RTF(2, 4, 16, bidirectional=True), rtf.nn.RTF(2, 4, 16, bidirectional=True)):
        with pytest.raises(ValueError, match=r"\[rtf::stream\] a bidirectional layer has no recurrence"):
            rtf.Stream(both)
