"""rtf.lfilter of sections, and of zeros and poles by way of theirs, against SciPy's sosfilt."""

import numpy as np
import pytest
import rtf
from both_halves import assert_same
from scipy import signal
from torch_half import need_torch_half

DESIGNS = {
    "order 3": signal.butter(3, 0.2, output="sos"),
    "order 8, narrow": signal.butter(8, 0.01, output="sos"),
    "order 12, narrow": signal.ellip(12, 1, 60, 0.02, output="sos"),
    "a band": signal.cheby1(6, 1, [0.01, 0.02], "band", output="sos"),
    "one section": signal.butter(2, 1e-3, "high", output="sos"),
}


def close(got, wanted, size=0.0):
    """To 1e-10 of the largest, of the input's size where that is larger: every section's kappa is 1e6 and less."""
    assert got.shape == wanted.shape
    assert np.abs(got - wanted).max() <= 1e-10 * max(np.abs(wanted).max(), size)


@pytest.mark.parametrize("name", DESIGNS)
def test_equals_sosfilt_with_states(name):
    sos, rng = DESIGNS[name], np.random.default_rng(0)
    x = rng.standard_normal((3, 2, 701))
    filter = rtf.SecondOrderSections(sos)
    close(assert_same(rtf.lfilter, x, filter), signal.sosfilt(sos, x))
    zi = signal.sosfilt_zi(sos)[:, None, None] * x[..., :1]
    wanted, wanted_zf = signal.sosfilt(sos, x, zi=zi)
    y, zf = assert_same(rtf.lfilter, x, filter, zi=zi, return_zf=True)
    close(y, wanted)
    for got, one in zip(zf, wanted_zf, strict=True):
        close(got, one)
    # One state for all rows, and a signal in pieces.
    rest = signal.sosfilt_zi(sos)
    steady = rtf.lfilter(np.ones((2, 50)), filter, zi=rest)
    close(steady, np.broadcast_to(signal.sosfilt(sos, np.ones(50), zi=rest)[0], (2, 50)), size=1.0)
    state, pieces = None, []
    for piece in np.split(x, [1, 2, 300, 301], axis=-1):
        y, state = rtf.lfilter(piece, filter, zi=state, return_zf=True)
        pieces.append(y)
    close(np.concatenate(pieces, -1), signal.sosfilt(sos, x))


@pytest.mark.parametrize("h0", [0.0, -0.5])
def test_zeros_and_poles_run_as_sections(h0):
    """Of this one no digit is left once it is multiplied out."""
    x = np.random.default_rng(1).standard_normal((2, 900))
    zpk = rtf.ZeroPoleGain(*signal.butter(10, 0.005, output="zpk"), h0)
    wanted = signal.sosfilt(signal.butter(10, 0.005, output="sos"), x) + h0 * x
    close(assert_same(rtf.lfilter, x, zpk), wanted)
    states = np.zeros((5, 2, 2))
    y, zf = rtf.lfilter(x, zpk, zi=states, return_zf=True)
    close(y, wanted)
    assert zf.shape == states.shape
    with pytest.raises(ValueError, match=r"^\[rtf::lfilter\] over 900 samples rounding"):
        rtf.lfilter(x, rtf.PolynomialRatio(*signal.butter(10, 0.005)))


def test_every_channel_has_its_own():
    """Of different numbers of sections, forms mixed, single precision."""
    x = np.random.default_rng(2).standard_normal((3, 2, 400)).astype(np.float32)
    filters = [rtf.SecondOrderSections(DESIGNS["order 8, narrow"]), rtf.ZeroPoleGain([0.5], [0.9], 2.0, 0.25)]
    y = assert_same(rtf.lfilter, x, filters)
    assert y.dtype == np.float32
    first, second = (x[:, c].astype(float) for c in (0, 1))
    wanted = [signal.sosfilt(DESIGNS["order 8, narrow"], first), signal.lfilter([2, -1], [1, -0.9], second) + 0.25 * second]
    for c in (0, 1):
        assert np.abs(y[:, c] - wanted[c]).max() <= 1e-6 * np.abs(wanted[c]).max()
    for shape in ((3, 9), (9,)):
        said = assert_same(rtf.lfilter, np.ones(shape), filters)
        assert said == f"[rtf::lfilter] x has shape {shape}; (..., 2, length) is needed for 2 filters"


def test_sections_have_gradients():
    torch = need_torch_half()
    sections = torch.tensor(DESIGNS["order 3"], requires_grad=True)
    x = torch.tensor(np.random.default_rng(3).standard_normal((2, 17)), requires_grad=True)
    zi = torch.tensor(np.random.default_rng(4).standard_normal((2, 2, 2)), requires_grad=True)
    run = lambda x, sections, zi: rtf.lfilter(x, rtf.SecondOrderSections(sections), zi=zi, return_zf=True)
    assert torch.autograd.gradcheck(run, (x, sections, zi))
    compiled = torch.compile(lambda x, sections: rtf.lfilter(x, rtf.SecondOrderSections(sections)), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, sections), run(x, sections, None)[0])


REFUSED = {
    "of another width": ([[1, 2, 3]], {}, "sections has shape (1, 3); (sections, 6) is needed"),
    "none": (np.zeros((0, 6)), {}, "sections has shape (0, 6); (sections, 6) is needed"),
    "a vector": ([1, 0, 0, 1, 0, 0], {}, "sections has shape (6,); (sections, 6) is needed"),
    "a_0 of 0": ([[1, 0, 0, 0, 0, 0]], {}, "a_0 of denominator 0 is 0; it must be finite and not 0"),
    "a_0 of 0, further on": ([[1, 0, 0, 1, 0, 0], [1, 0, 0, 0, 0, 0]], {}, "a_0 of denominator 0 is 0; it must be finite and not 0; in section 1"),
    "nan": ([[1, 0, 0, 1, 0, 0], [1, np.nan, 0, 0, 0, 0]], {}, "sections[1][1] is nan; coefficients must be finite"),
    "too few states": (DESIGNS["order 3"], {"zi": np.zeros((1, 2))}, "zi has shape (1, 2); (2, 2, 2) is needed, or fewer axes after the first"),
    "states of other rows": (DESIGNS["order 3"], {"zi": np.zeros((2, 5, 2))}, "zi has shape (2, 5, 2); (2, 2, 2) is needed, or fewer axes after the first"),
    "states of other axes": (DESIGNS["order 3"], {"zi": np.zeros((2, 1, 2, 2))}, "zi has shape (2, 1, 2, 2); (2, 2, 2) is needed, or fewer axes after the first"),
    "b too": (DESIGNS["order 3"], {"b": np.ones(2)}, "a filter of rtf.forms has its coefficients; b and h0 must be left out"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses(name):
    sections, options, text = REFUSED[name]
    assert assert_same(rtf.lfilter, np.ones((2, 9)), rtf.SecondOrderSections(np.array(sections, float)), **options) == f"[rtf::lfilter] {text}"


@pytest.mark.parametrize("h0", [np.nan, "a", None, 1j, np.ones((1, 1))])
def test_refuses_a_gain_that_is_none(h0):
    for x in (np.ones(5), need_torch_half().ones(5)):
        with pytest.raises(ValueError, match=r"^\[rtf::lfilter\] h0 (is|has shape) .*; (a finite number|an array) is needed$"):
            rtf.lfilter(x, rtf.ZeroPoleGain([0.5], [0.9], 2.0, h0))
