"""The functions for tensors against SciPy and against their NumPy half, and their gradients."""

import warnings

import numpy as np
import pytest
import rtf
from scipy import signal
from torch_half import need_torch_half

torch = need_torch_half()


def denominator(rng, order):
    """|a|_1 = 0.9: a well-conditioned filter of any order."""
    a = rng.uniform(-1, 1, order)
    return a * 0.9 / max(np.abs(a).sum(), 1e-300)


def draw(rng, shape=()):
    """SciPy's vectors b and a of a filter for each of `shape`, of orders of their own, with a_0 not 1, in double."""
    orders = rng.choice([0, 1, 2, 3, 8, 17], 2)
    scale = rng.uniform(0.5, 2, (*shape, 1)) * rng.choice([-1, 1])
    a = np.apply_along_axis(lambda _: np.concatenate(([1.0], denominator(rng, orders[0]))), -1, np.zeros((*shape, 1)))
    return rng.standard_normal((*shape, orders[1] + 1)), scale * a


def tensors(*arrays, grad=False):
    return [torch.tensor(x, requires_grad=grad) for x in arrays]


def close(got, wanted, bound=1e-10):
    got = got.detach().numpy() if isinstance(got, torch.Tensor) else got
    assert got.shape == wanted.shape, f"{got.shape} for {wanted.shape}"
    if wanted.size:
        assert np.abs(got - wanted).max() <= bound * max(np.abs(wanted).max(), 1e-300)


def test_lfilter_in_pieces():
    rng = np.random.default_rng(5)
    b, a = signal.butter(4, 0.2)
    x = rng.standard_normal((2, 3, 101))
    zi = torch.tensor(signal.lfilter_zi(b, a))  # stretches to the leading axes
    whole, end = rtf.lfilter(*tensors(x, a, b), zi=zi, return_zf=True)
    state, pieces = zi.expand(2, 3, 4), []
    for piece in np.split(x, [1, 2, 50, 51, 53], axis=-1):
        y, state = rtf.lfilter(*tensors(piece, a, b), zi=state, return_zf=True)
        pieces.append(y)
    close(torch.cat(pieces, -1), whole.numpy())
    close(state, end.numpy())


@pytest.mark.parametrize("states", ["of SciPy", "of the recurrence"])
@pytest.mark.parametrize("kind", ["low", "high"])
def test_gradients_of_narrow_filters_go_through_a_cut(kind, states):
    """As those of one call, with a state between two whose digits are those of 1/A, 1e6 and more."""
    rng = np.random.default_rng(7)
    b, a = signal.butter(4, 0.01, kind)
    x, weights = rng.standard_normal((2, 600)), torch.tensor(rng.standard_normal((2, 600)))

    def gradients(cut):
        leaves = tensors(x, a, b, grad=True)
        u, *rest = leaves
        if states == "of SciPy":
            first, state = rtf.lfilter(u[:, :cut], *rest, return_zf=True)
            y = torch.cat((first, rtf.lfilter(u[:, cut:], *rest, zi=state)), 1)
        else:
            channels, rational = u.t()[None], torch.ops.rtf.rational(*rest)
            rows = [rational[0], *(part.expand(2, *part.shape[1:]) for part in rational[1:])]
            first, state = torch.ops.rtf.filter(channels[:, :cut], *rows)
            y = torch.cat((first, torch.ops.rtf.filter(channels[:, cut:], *rows, state)[0]), 1)[0].t()
        return torch.autograd.grad((y * weights).sum(), leaves)

    for got, wanted in zip(gradients(300), gradients(600)):
        close(got, wanted.numpy(), 1e-8)


@pytest.mark.parametrize("sizes", [(1, 1, 1), (2, 5, 2), (3, 9, 4), (1, 3, 7)])
def test_lfilter_has_all_gradients(sizes):
    """x, a with a_0, b, h0 and zi, to y and to zf; the length below the order too."""
    rows, length, order = sizes
    rng = np.random.default_rng(sizes)
    a = np.concatenate(([1.3], denominator(rng, order)))
    x, b, zi = rng.standard_normal((rows, length)), rng.standard_normal(order + 1), rng.standard_normal((rows, order))
    check = torch.autograd.gradcheck
    assert check(lambda x, a, b, zi: rtf.lfilter(x, a, b, zi=zi, return_zf=True), tensors(x, a, b, zi, grad=True))
    assert check(lambda x, a, b: rtf.lfilter(x, a, b), tensors(x, a, b, grad=True))
    rest = tensors(x, a[1:], b[1:], np.float64(0.7), zi, grad=True)
    assert check(lambda x, a, b, h0, zi: rtf.lfilter(x, a, b, h0, zi, return_zf=True), rest)
    each = tensors(x, np.stack([a[1:]] * rows), np.stack([b[1:]] * rows), np.ones(rows), zi, grad=True)
    assert check(lambda x, a, b, h0, zi: rtf.lfilter(x, a, b, h0, zi, return_zf=True), each)


@pytest.mark.parametrize("order", [1, 8, 64, 300, 1100])
@pytest.mark.parametrize("dtype, bound", [(torch.float64, 1e-10), (torch.float32, 1e-5)])
def test_gradients_of_lfilter_are_those_of_convolutions(order, dtype, bound):
    """Filtering is convolving with the exact kernel: another way to the same gradients, for orders on either side of the
    one where the gradient goes over from recurrences to transforms."""
    rng = np.random.default_rng(order)
    a, b = denominator(rng, order), rng.standard_normal(order) / order
    x, weights = rng.standard_normal((4, 500)), rng.standard_normal((4, 500))

    def run(filter, dtype):
        leaves = [torch.tensor(v, dtype=dtype, requires_grad=True) for v in (x, a, b, 0.5)]
        loss = (filter(*leaves) * torch.tensor(weights, dtype=dtype)).sum()
        return torch.autograd.grad(loss, leaves)

    got = run(rtf.lfilter, dtype)
    wanted = run(lambda x, a, b, h0: rtf.convolve(x, rtf.kernel(a, b, h0, length=500)), torch.float64)
    for g, w in zip(got, wanted):
        assert g.dtype == dtype
        close(g.double(), w.numpy(), bound)


def test_types_and_places():
    x = torch.randn(2, 8)
    y, zf = rtf.lfilter(x, torch.tensor([1.0, -0.5]), torch.tensor([1.0]), return_zf=True)
    assert y.dtype == torch.float32 and zf.dtype == torch.float64
    assert rtf.lfilter(x.bfloat16(), torch.tensor([1.0, -0.5]), torch.tensor([1.0])).dtype == torch.bfloat16
    assert rtf.lfilter(x[:, :0], torch.tensor([1.0, -0.5]), torch.tensor([1.0])).shape == (2, 0)
    assert rtf.lfilter(x[:0], torch.tensor([1.0, -0.5]), torch.tensor([1.0])).shape == (0, 8)
    # As NumPy arrays: whole numbers become float64, lists too, and float32 stays.
    a = torch.tensor([1.0, -0.5])
    assert rtf.lfilter(torch.arange(4), a, [1]).dtype == rtf.lfilter([1.0, 2], a, [1]).dtype == torch.float64
    assert rtf.lfilter(np.ones(3, np.float32), a, [1]).dtype == rtf.convolve(np.ones(3, np.float32), a).dtype == torch.float32
    close(rtf.lfilter(torch.arange(4), a, [1]), signal.lfilter([1], [1, -0.5], np.arange(4)))
    assert rtf.poles(a.bfloat16()).dtype == torch.complex128
    turned = torch.randn(8, 2).T
    close(rtf.lfilter(turned, *tensors([1.0, -0.5], [1.0])), signal.lfilter([1.0], [1.0, -0.5], turned.numpy()), 1e-6)
    meta = rtf.lfilter(x.to("meta"), torch.ones(3, device="meta"), torch.ones(2, device="meta"), return_zf=True)
    assert meta[0].shape == (2, 8) and meta[1].shape == (2, 2)


@pytest.mark.parametrize("shape", [(), (1,), (3,)])
def test_kernel_is_that_of_numpy(shape):
    rng = np.random.default_rng(8)
    a = np.apply_along_axis(lambda _: denominator(rng, 4), -1, np.zeros((*shape, 1)))
    b, h0 = rng.standard_normal((*shape, 4)), rng.standard_normal(shape)
    for method in ("auto", "wrapped", "newton"):
        found = rtf.kernel(*tensors(a, b, h0), length=9, method=method)
        close(found, rtf.kernel(a, b, h0, length=9, method=method))
    ba = np.concatenate((np.ones((*shape, 1)), a), -1)
    close(rtf.kernel(*tensors(ba, b), length=9), rtf.kernel(ba, b, length=9))
    trained = rtf.TrainedTransferFunction(a, b, h0, 12)
    mine = rtf.TrainedTransferFunction(*tensors(a, b, h0), 12)
    for length in (5, 12, 30):
        close(rtf.kernel(mine, length=length), rtf.kernel(trained, length=length))
    single = [torch.tensor(v, dtype=torch.float32) for v in (a, b, h0)]
    assert rtf.kernel(*single, length=9).dtype == torch.float32
    for method in ("auto", "wrapped"):
        assert torch.autograd.gradcheck(lambda a, b, h0: rtf.kernel(a, b, h0, length=9, method=method), tensors(a, b, h0, grad=True))


def test_convolve_is_that_of_numpy():
    rng = np.random.default_rng(9)
    x = rng.standard_normal((2, 3, 17))
    for kernel, both in ((17,), False), ((5,), False), ((3, 40), False), ((2, 8), True), ((2, 3, 17), True):
        k = rng.standard_normal(kernel)
        close(rtf.convolve(*tensors(x, k), bidirectional=both), rtf.convolve(x, k, bidirectional=both))
        assert torch.autograd.gradcheck(lambda x, k: rtf.convolve(x, k, bidirectional=both), tensors(x[:, :, :6], k, grad=True))
    assert rtf.convolve(*tensors(x[0, 0], rng.standard_normal(4))).shape == (17,)


@pytest.mark.parametrize("name", ["freqz", "group_delay"])
def test_responses(name):
    rng = np.random.default_rng(10)
    ours, scipys = getattr(rtf, name), getattr(signal, name)
    for _ in range(10):
        b, a = draw(rng)
        angles, found = ours(*tensors(a, b), points=32)
        close(angles, np.pi * np.arange(32) / 32)
        wanted = scipys(b, a, worN=32)[1] if name == "freqz" else scipys((b, a), w=32)[1]
        close(found, wanted, 1e-9)
    a, b, h0 = np.stack([denominator(rng, 3)] * 2), rng.standard_normal((4, 3)), rng.standard_normal(4)
    close(ours(*tensors(a, b, h0), points=7, whole=True)[1], ours(a, b, h0, points=7, whole=True)[1])
    zpk = rtf.ZeroPoleGain(*tensors([0.5], np.array([0.2, 0.9])), 1.5)
    close(ours(zpk, points=5)[1], ours(rtf.ZeroPoleGain([0.5], [0.2, 0.9], 1.5), points=5)[1])
    some = torch.tensor([0.1, 2.0], dtype=torch.float64, requires_grad=True)
    leaves = [*tensors(a, b, h0, grad=True), some]
    assert torch.autograd.gradcheck(lambda a, b, h0, w: torch.view_as_real(ours(a, b, h0, points=w)[1])
                                    if name == "freqz" else ours(a, b, h0, points=w)[1], leaves)  # fmt: skip


def test_correct_and_wrap():
    rng = np.random.default_rng(11)
    for shape in ((), (3,)):
        a = np.apply_along_axis(lambda _: denominator(rng, 4), -1, np.zeros((*shape, 1)))
        b, h0 = rng.standard_normal((*shape, 4)), rng.standard_normal(shape)
        plain = rtf.correct(rtf.TrainedTransferFunction(*tensors(a, b, h0), 16))
        for got, wanted in zip(plain, rtf.correct(rtf.TrainedTransferFunction(a, b, h0, 16))):
            close(got, np.asarray(wanted))
        for got, wanted in zip(rtf.wrap(plain, 16), (a, b, h0)):
            close(got, wanted)


def test_what_has_no_gradient_is_that_of_numpy():
    """Tensors are read, and tensors come back, where the first one was."""
    filter = rtf.TransferFunction(*tensors(np.array([-1.2, 0.81]), np.array([1.0, 0.4]), np.array(0.5)))
    plain = rtf.TransferFunction(*(v.numpy() for v in filter))
    close(rtf.poles(torch.tensor([1, -1.2, 0.81], dtype=torch.float64)), rtf.poles([1, -1.2, 0.81]))
    for form in ("ba", "ss", "modal", "zpk", "sos"):
        got, wanted = rtf.convert(filter, form), rtf.convert(plain, form)
        assert type(got) is type(wanted)
        for g, w in zip(got, wanted):
            assert isinstance(g, torch.Tensor) == isinstance(w, np.ndarray)
            close(torch.as_tensor(g), np.asarray(w))
    kernel = rtf.kernel(filter, length=60)
    assert isinstance(rtf.fit(kernel, order=2).filter.a, torch.Tensor)
    close(rtf.fit(kernel, order=2).filter.a, plain.a, 1e-9)
    close(rtf.reduce(filter, 1).error, rtf.reduce(plain, 1).error)
    outside = rtf.TransferFunction(torch.tensor([-1.25]), torch.tensor([1.0]), torch.tensor(0.0))
    close(rtf.stabilize(outside, "reflect").filter.a, np.array([-0.8]), 1e-7)
    leaf = torch.tensor([1.0, -0.5], requires_grad=True)
    assert not rtf.poles(leaf).requires_grad


def test_arrays_that_pytorch_would_not_take_beside_tensors():
    """Read-only ones, of which it warns, and steps backwards over one number, which it refuses."""
    a, b = torch.tensor([1.0, -0.5]), torch.tensor([1.0])
    kept = np.ones((1, 4))
    kept.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x in (kept, np.ones((1, 4))[::-1]):
            assert rtf.lfilter(x, a, b).tolist() == [[1, 1.5, 1.75, 1.875]]
    assert rtf.convolve(torch.ones(2), np.ones(1)[::-1]).tolist() == [1, 1]


def test_refusals():
    x, a, b = torch.randn(2, 8), torch.tensor([1.0, -0.5]), torch.tensor([1.0])
    table = [
        (lambda: rtf.lfilter(x, torch.tensor([[1.0, 1.0], [0.0, 1.0]]), b), r"\[rtf::lfilter\] a_0 of denominator 1 is 0; it must be finite and not 0"),
        (lambda: rtf.lfilter(x, a, b, 1.0), r"\[rtf::lfilter\] a has 2 coefficients and b has 1; beside h0 both have as many"),
        (lambda: rtf.lfilter(x, a[:0], b), r"\[rtf::lfilter\] a and b have shapes \[0\] and \[1\]; a_0 and b_0 are needed"),
        (lambda: rtf.lfilter(x, a[None, None], b), r"\[rtf::lfilter\] a and b have shapes \[1, 1, 2\] and \[1\]"),
        (lambda: rtf.lfilter(x, torch.ones(3, 2), b), r"\[rtf::lfilter\] a, b and h0 are for 3, 1 and 1 channels and there are 2; b and h0 need"),
        (lambda: rtf.lfilter(x, a, b, zi=torch.zeros(2, 2)), r"\[rtf::lfilter\] zi has shape \[2, 2\]; \[2, 1\] is needed"),
        (lambda: rtf.lfilter(torch.tensor(1.0), a, b), r"\[rtf::lfilter\] x has shape \[\]; \(..., length\) is needed"),
        (lambda: rtf.lfilter(x.to(torch.complex64), a, b), r"\[rtf::lfilter\] x has numbers of type torch.complex64"),
        (lambda: rtf.lfilter(torch.randn(1, 500), torch.tensor([1.0, -3.0]), b), r"\[rtf::lfilter\] over 500 samples rounding may grow"),
        (lambda: rtf.lfilter(x, b, torch.ones(2, 1), torch.ones(3)), r"\[rtf::lfilter\] a, b and h0 are for 1, 2 and 3 channels and there are 2; b and h0 need as many or 1"),
        (lambda: rtf.lfilter(x, torch.ones(3, 1), torch.ones(2, 1), 1.0), r"\[rtf::lfilter\] a, b and h0 are for 3, 2 and 1 channels"),
        (lambda: rtf.kernel(a, length=4), r"\[rtf::kernel\] b is missing"),
        (lambda: rtf.kernel(a, b, length=0), r"\[rtf::kernel\] length is 0; at least 1 is needed"),
        (lambda: rtf.convolve(x[0], torch.ones(2, 3)), r"\[rtf::convolve\] x has shape \(8,\); \(..., channels, length\)"),
        (lambda: rtf.freqz(a, b, points=torch.tensor([1j])), r"\[rtf::freqz\] points has numbers of type torch.complex64"),
        (lambda: rtf.lfilter(x * torch.nan, a * torch.nan, b), r"\[rtf::lfilter\]"),
        (lambda: rtf.lfilter(x, a.to("meta"), b), r"\[rtf::lfilter\] there are tensors on cpu and on meta; one device"),
        (lambda: rtf.freqz(a, b, points=torch.tensor([1.0]), whole=True), r"\[rtf::freqz\] whole is for a number"),
    ]  # fmt: skip
    for call, message in table:
        with pytest.raises(ValueError, match=message):
            call()
