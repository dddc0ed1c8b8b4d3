"""rtf.RTF against the released class, written down anew (bench/peers/torch_layer.py): equal where that is right, and right
where it is not, with the release's error beside ours."""

import copy
import io

import numpy as np
import pytest
import rtf
from torch_half import need_torch_half

torch = need_torch_half()

from torch_layer import ReleasedLayer, step  # noqa: E402

# d_model, state_size, trunc_len, num_a: even lengths, shared and separate denominators, orders up to the length less 1.
SIZES = [(1, 1, 2, None), (4, 3, 8, None), (6, 7, 64, 2), (8, 16, 100, 1), (5, 31, 32, 5), (16, 64, 1024, 4)]
BOUND = 1e-5  # of float32, relative to the largest value


def largest(x):
    return float(x.detach().abs().max())


def error(got, wanted):
    """Relative to the largest value."""
    return largest(got.double() - wanted.double()) / largest(wanted)


def slow_denominator(rng, order, length):
    """A pair of poles that keeps half of itself over the length; the others decay faster. Order 2 or 4."""
    radii = np.array([0.5 ** (1 / length), 0.7])[: order // 2]
    poles = radii * np.exp(1j * rng.uniform(0.3, 2.8, order // 2))
    return np.poly([*poles, *poles.conj()]).real[1:]


def state_dict(d_model, state_size, trunc_len, num_a=None, bidirectional=False, slow=False):
    """As the released class saves it. Denominators have |a|_1 = 0.9, unless poles are to be slow."""
    rng = np.random.default_rng([d_model, state_size, trunc_len])
    sides = 2 if bidirectional else 1
    a = rng.standard_normal((sides * (num_a or d_model), state_size))
    a *= 0.9 / np.abs(a).sum(1, keepdims=True)
    if slow:
        a = np.stack([slow_denominator(rng, state_size, trunc_len) for _ in a])
    b, h_0 = rng.standard_normal((sides * d_model, state_size)), rng.standard_normal(sides * d_model)
    return {"ab": torch.tensor(np.concatenate((a, b))).float(), "h_0": torch.tensor(h_0).float()}


def pair(*sizes, quirks="none", slow=False, **options):
    """The released layer and ours with the same numbers."""
    numbers = state_dict(*sizes, slow=slow, **options)
    theirs, ours = ReleasedLayer(*sizes, **options), rtf.RTF(*sizes, quirks=quirks, **options)
    for layer in (theirs, ours):
        assert layer.load_state_dict(numbers, strict=True).missing_keys == []
    return theirs, ours


def samples(batch, length, channels, seed=1):
    return torch.tensor(np.random.default_rng(seed).standard_normal((batch, length, channels))).float()


def direct_sums(k, u):
    """y_t = sum_{j <= t} k_f[t-j] u_j + sum_{j > t} k_b[j-t-1] u_j in double, k in the layout of get_k."""
    length = u.shape[1]
    forward, backward = k.double()[:, :length], k.double()[:, length:].flip(1)
    y = torch.zeros(u.shape, dtype=torch.float64)
    for t in range(length):
        for j in range(length):
            tap = forward[:, t - j] if j <= t else (backward[:, j - t - 1] if backward.numel() else 0.0)
            y[:, t] += tap * u[:, j].double()
    return y


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("quirks", ["none", "release"])
def test_forward_and_kernel_of_even_lengths(sizes, bidirectional, quirks):
    theirs, ours = pair(*sizes, bidirectional=bidirectional, quirks=quirks)
    channels, _, length, _ = sizes
    assert error(ours.get_k(), theirs.get_k()) < BOUND
    for cut in {length, length // 2 // 2 * 2 or 2}:
        u = samples(3, cut, channels)
        assert error(ours.get_k(cut), theirs.get_k(cut)) < BOUND
        assert error(ours(u), theirs(u)) < BOUND


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("sizes", SIZES[:5])
def test_gradients_of_even_lengths(sizes, bidirectional):
    """In double: what autograd makes of the released operations, and what our gradient operators do."""
    theirs, ours = (layer.double() for layer in pair(*sizes, bidirectional=bidirectional))
    u = samples(2, sizes[2], sizes[0]).double()
    weights = samples(2, sizes[2], sizes[0], seed=2).double()
    found = []
    for layer in (theirs, ours):
        leaf = u.clone().requires_grad_()
        found.append(torch.autograd.grad((layer(leaf) * weights).sum(), (leaf, layer.ab, layer.h_0)))
    for got, wanted in zip(found[1], found[0]):
        assert error(got, wanted) < 1e-10


def test_a_saved_checkpoint_loads_strictly_both_ways():
    for options in ({}, {"bidirectional": True}, {"constraint": "l1_montel"}, {"bidirectional": True, "constraint": "l1_montel"}):
        theirs = ReleasedLayer(6, 5, 32, num_a=1, **options)
        with torch.no_grad():
            theirs.ab.normal_().mul_(0.1)
        file = io.BytesIO()
        torch.save(theirs.state_dict(), file)
        file.seek(0)
        ours = rtf.RTF(6, 5, 32, num_a=1, **options)
        ours.load_state_dict(torch.load(file), strict=True)
        assert set(ours.state_dict()) == set(theirs.state_dict())
        u = samples(2, 32, 6)
        assert error(ours(u), theirs(u)) < BOUND
        same = rtf.RTF(6, 5, 32, num_a=1, quirks="release", **options)
        same.load_state_dict(theirs.state_dict(), strict=True)
        theirs.load_state_dict(same.state_dict(), strict=True)
        assert error(same(u), ours(u)) < BOUND


@pytest.mark.parametrize("length", [1, 3, 7, 31, 33])
def test_odd_lengths_with_two_directions(length):
    """The release comes back from 2 L points on 2 L - 1: its output is distorted, and the shorter the more."""
    theirs, ours = pair(4, 4, 34, None, bidirectional=True, slow=True)
    quirky = pair(4, 4, 34, None, bidirectional=True, slow=True, quirks="release")[1]
    u, wide = samples(2, length, 4), copy.deepcopy(theirs).double()
    wanted = direct_sums(wide.get_k(length), u)
    assert error(ours(u), wanted) < BOUND
    assert error(theirs(u), wanted) > 1e-2
    assert error(quirky(u), wide(u.double())) < BOUND


def test_odd_lengths_with_one_direction_are_right_in_both():
    theirs, ours = pair(4, 4, 34, None, slow=True)
    u = samples(2, 33, 4)
    wanted = direct_sums(copy.deepcopy(theirs).double().get_k(33), u)
    assert error(ours(u), wanted) < BOUND and error(theirs(u), wanted) < BOUND


def test_an_odd_truncation_length():
    """The release evaluates 33 samples on 34 points, and so do we: its checkpoints mean that kernel. It corrects for 33,
    so that its recurrence gives another one."""
    theirs, ours = pair(4, 4, 33, None, slow=True)
    quirky = pair(4, 4, 33, None, slow=True, quirks="release")[1]
    u = samples(2, 33, 4)
    for layer in (ours, quirky):
        assert error(layer.get_k(), theirs.get_k()) < BOUND
        assert error(layer(u), direct_sums(theirs.get_k(), u)) < BOUND
    assert error(ours.get_k_step(), theirs.get_k()) < BOUND
    assert error(stepped(theirs), theirs.get_k()) > 1e-2
    assert error(rtf.kernel(ours.transfer_function(), length=33), theirs.get_k()) < BOUND


def stepped(layer):
    """The kernel of a released layer by its recurrence."""
    a, b, x, k = layer.repeat(layer.a), layer.get_C(), torch.zeros(1, layer.channels, layer.order), []
    for t in range(layer.length):
        y, x = step(torch.full((1, layer.channels), float(t == 0)), x, a, b, layer.h_0)
        k.append(y[0])
    return torch.stack(k, 1)


def exact_numerator(layer):
    """C (I - A^L) = b~ by a dense solve in double."""
    found = []
    for channel, b in enumerate(layer.ab[layer.denominators :].double()):
        companion = torch.diag(torch.ones(layer.order - 1, dtype=torch.float64), -1)
        companion[0] = -layer.a[channel // (layer.channels // layer.groups)].double()
        left = torch.eye(layer.order, dtype=torch.float64) - torch.linalg.matrix_power(companion, layer.length)
        found.append(torch.linalg.solve(left.T, b))
    return torch.stack(found)


@pytest.mark.parametrize("order", [2, 4])
def test_the_correction(order):
    """The release leaves out a transpose, and the sample that wraps around onto the gain."""
    theirs, ours = pair(6, order, 40, 2, slow=True)
    quirky = pair(6, order, 40, 2, slow=True, quirks="release")[1]
    assert error(ours.get_C(), exact_numerator(theirs)) < BOUND
    assert error(theirs.get_C(), exact_numerator(theirs)) > 1e-2
    assert error(ours.get_k_step(), ours.get_k()) < BOUND
    assert error(stepped(theirs), theirs.get_k()) > 1e-2
    assert error(quirky.get_C(), theirs.get_C()) < 1e-3  # of a dense solve in float32
    assert error(quirky.get_k_step(), stepped(theirs)) < 1e-3


def test_the_gain_of_the_recurrence():
    """Order 1: there is nothing to transpose, and what is left is the sample that wraps around, C A^(L-1) B."""
    theirs, ours = pair(1, 1, 8)
    with torch.no_grad():
        for layer in (theirs, ours):
            layer.ab.copy_(torch.tensor([[-0.9], [1.0]]))
            layer.h_0.fill_(0.5)
    folded = 0.9**7 / (1 - 0.9**8)
    assert abs((stepped(theirs)[0, 0] - theirs.get_k()[0, 0]).item() + folded) < 1e-5
    assert error(ours.get_k_step(), ours.get_k()) < BOUND


def test_montel_with_two_directions():
    """The release has a scalar for the forward denominators alone: with more than one of them it fails."""
    options = dict(num_a=2, bidirectional=True, constraint="l1_montel")
    u = samples(2, 16, 4)
    with pytest.raises(RuntimeError, match="size of tensor"):
        ReleasedLayer(4, 3, 16, **options)(u)
    ours = rtf.RTF(4, 3, 16, init="xavier", **options)
    assert ours.scalar.shape == (4,) and ours(u).shape == u.shape
    assert (ours.a.abs().sum(1) < 1).all()
    with pytest.raises(RuntimeError):
        rtf.RTF(4, 3, 16, quirks="release", **options)(u)
    # A checkpoint of the release, which could not use it, has half of the entries: both directions get them.
    ours.load_state_dict(ReleasedLayer(4, 3, 16, **options).state_dict(), strict=True)
    assert torch.equal(ours.scalar[:2], ours.scalar[2:])


@pytest.mark.parametrize("init, bound", [("zeros", 0.0), ("xavier", 5**-0.5), ("montel", 1 / 5)])
def test_a_seed_draws_what_the_release_draws(init, bound):
    torch.manual_seed(7)
    layer = rtf.RTF(4, 5, 16, num_a=2, init=init, constraint="l1_montel")
    torch.manual_seed(7)
    ab = torch.zeros(6, 5)
    if bound:
        ab.uniform_(-bound, bound)
    assert torch.equal(layer.ab, ab) and torch.equal(layer.h_0, torch.randn(4)) and torch.equal(layer.scalar, torch.rand(2))


@pytest.mark.parametrize("bidirectional", [False, True])
def test_dropout_draws_what_the_release_draws(bidirectional):
    layer = rtf.RTF(3, 4, 16, dropout=0.5, bidirectional=bidirectional, init="montel")
    u = samples(2, 16, 3)
    torch.manual_seed(3)
    y = layer(u)
    torch.manual_seed(3)
    k = torch.nn.functional.dropout(layer.get_k(), 0.5)
    assert 0 < (k == 0).float().mean() < 1
    assert error(y, direct_sums(k, u)) < BOUND
    layer.eval()
    assert error(layer(u), direct_sums(layer.get_k(), u)) < BOUND


def test_step_is_forward():
    _, layer = pair(6, 4, 40, 3, slow=True)
    u = samples(2, 40, 6)
    y = layer(u)
    for dtype, bound in ((torch.float64, BOUND), (torch.float32, 1e-4)):
        x, steps = layer.x_0(2).to(dtype), []
        for t in range(40):
            out, x = layer.step(u[:, t], x)
            assert x.dtype == dtype and x.shape == (2, 4, 6)
            steps.append(out)
        assert error(torch.stack(steps, 1), y) < bound


def test_step_sees_every_change_of_the_parameters():
    _, layer = pair(2, 4, 16, slow=True)
    u, x = samples(1, 1, 2)[:, 0], torch.randn(1, 4, 2, dtype=torch.float64)
    with torch.no_grad():
        for change in (lambda p: p.mul_(0.5), lambda p: p.data.mul_(0.5), lambda p: p.data.copy_(p.data * 0.5)):
            before = layer.step(u, x)[0]
            assert torch.equal(before, layer.step(u, x)[0])
            for p in layer.parameters():
                change(p)
            fresh = rtf.RTF(2, 4, 16)
            fresh.load_state_dict(layer.state_dict())
            assert torch.equal(layer.step(u, x)[0], fresh.step(u, x)[0]) and not torch.equal(layer.step(u, x)[0], before)


def test_gradients_through_steps():
    """Those of the convolution: the recurrence is the same function of the parameters."""
    _, layer = pair(2, 4, 12, slow=True)
    layer.double()
    u, weights = samples(1, 12, 2).double(), samples(1, 12, 2, seed=5).double()
    x, loss = layer.x_0(1), 0.0
    for t in range(12):
        y, x = layer.step(u[:, t], x)
        loss = loss + (y * weights[:, t]).sum()
    stepwise = torch.autograd.grad(loss, (layer.ab, layer.h_0))
    whole = torch.autograd.grad((layer(u) * weights).sum(), (layer.ab, layer.h_0))
    for got, wanted in zip(stepwise, whole):
        assert error(got, wanted) < 1e-9


def test_orders_past_the_length_and_order_zero():
    for order, length in ((0, 8), (8, 8), (13, 8), (3, 1)):
        layer = rtf.RTF(2, order, length, init="montel")
        u = samples(2, length, 2)
        assert error(layer(u), direct_sums(layer.get_k(), u)) < BOUND
        assert error(layer.get_k_step(), layer.get_k()) < BOUND


def test_the_type_of_a_state():
    for dtype in (torch.float32, torch.float64):
        for quirks in ("none", "release"):
            layer = rtf.RTF(3, 4, 16, init="montel", quirks=quirks).to(dtype)
            x = layer.x_0(2)
            assert x.dtype == dtype and torch.einsum("BNC,CN->BC", x, layer.get_C()).shape == (2, 3)


def test_attributes_of_the_release():
    layer = rtf.RTF(2, 4, 16, init="montel", constraint="l1_montel", flash_fft_conv=True)
    assert layer.constraint_flag and layer.flash_fft_conv is None and not rtf.RTF(2, 4, 16).constraint_flag
    assert torch.equal(layer.a_constraint(layer.ab[:2]), layer.a)
    layer(samples(1, 9, 2))
    assert torch.equal(layer.k, layer.get_k(9))
    copied = copy.deepcopy(layer)  # whose graph stays behind
    assert copied.k is None and copied._running is None


def test_order_zero_of_the_release():
    layer = rtf.RTF(2, 0, 8, quirks="release")
    assert layer.get_C().shape == (2, 0)
    assert error(layer.get_k_step(), layer.get_k()) < BOUND


@pytest.mark.parametrize("bidirectional", [False, True])
def test_its_filters(bidirectional):
    layer = rtf.RTF(4, 3, 16, num_a=2, bidirectional=bidirectional, init="montel", constraint="l1_montel")
    k = rtf.kernel(layer.transfer_function(), length=16)
    forward = k[:4]
    assert error(forward, layer.get_k()[:, :16]) < BOUND
    if bidirectional:
        assert error(k[4:].flip(-1), layer.get_k()[:, 16:]) < BOUND
        return
    stream = rtf.Stream(layer.transfer_function())
    u = samples(1, 16, 4)[0]
    assert error(torch.from_numpy(stream.process(u)), layer(u[None])[0]) < BOUND


def test_copies_and_other_arguments():
    layer = rtf.RTF(2, 4, 16, init="montel", flash_fft_conv=True)
    u = samples(1, 16, 2)
    y = layer(u, rate=1.0, state=None)
    layer.get_k_step()
    for other in (copy.deepcopy(layer), torch.load(saved(layer), weights_only=False)):
        assert torch.equal(other(u), y) and torch.equal(other.get_C(), layer.get_C())
    assert "state_size=4" in repr(layer) and (layer.D, layer.N, layer.L, layer.num_a, layer.bdir) == (2, 4, 16, 2, False)


def saved(thing):
    file = io.BytesIO()
    torch.save(thing, file)
    file.seek(0)
    return file


def test_refusals():
    layer, both = rtf.RTF(4, 3, 16), rtf.RTF(4, 3, 16, bidirectional=True)
    table = [
        (lambda: rtf.RTF(4, 3, 16, num_a=3), r"\[rtf::RTF\] num_a is 3; it must divide d_model, 4"),
        (lambda: rtf.RTF(0, 3, 16), r"\[rtf::RTF\] d_model is 0; at least 1"),
        (lambda: rtf.RTF(4, -1, 16), r"\[rtf::RTF\] state_size is -1; at least 0"),
        (lambda: rtf.RTF(4, 3, 0), r"\[rtf::RTF\] trunc_len is 0; at least 1"),
        (lambda: rtf.RTF(4, 3, 16, init="zero"), r"\[rtf::RTF\] init is 'zero'; expected one of zeros, xavier, montel"),
        (lambda: rtf.RTF(4, 3, 16, constraint="montel"), r"\[rtf::RTF\] constraint is 'montel'; expected no or l1_montel"),
        (lambda: rtf.RTF(4, 3, 16, quirks="all"), r"\[rtf::RTF\] quirks is 'all'; expected none or release"),
        (lambda: layer(samples(1, 17, 4)), r"\[rtf::RTF\] a sequence of 17 samples; the layer takes 1 to 16"),
        (lambda: layer.get_k(0), r"\[rtf::RTF\] a sequence of 0 samples"),
        (lambda: layer(samples(1, 16, 5)), r"\[rtf::convolve\] the kernel has shape \[4, 16\]; \(5, samples\) is needed"),
        (lambda: both.step(samples(1, 1, 4)[:, 0], both.x_0(1)), r"\[rtf::RTF\] a bidirectional layer has no recurrence"),
        (lambda: both.get_C(), r"\[rtf::RTF\] a bidirectional layer has no recurrence"),
    ]
    for call, message in table:
        with pytest.raises(ValueError, match=message):
            call()
