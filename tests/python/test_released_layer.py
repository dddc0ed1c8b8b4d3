"""rtf.RTF against the released class: equal where that is right, and right where it is not, with the release's error
beside ours."""

import copy
import io

import numpy as np
import pytest
import rtf
from torch_half import need_torch_half

torch = need_torch_half()

from released_cases import BOUND, ReleasedLayer, direct_sums, error, pair, samples, stepped  # noqa: E402

# d_model, state_size, trunc_len, num_a: even lengths, shared and separate denominators, orders up to the length less 1.
SIZES = [(1, 1, 2, None), (4, 3, 8, None), (6, 7, 64, 2), (8, 16, 100, 1), (5, 31, 32, 5), (16, 64, 1024, 4)]


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


def test_montel_with_two_directions():
    """The release has a scalar for the forward denominators alone: with more than one of them it fails."""
    options = dict(num_a=2, bidirectional=True, constraint="l1_montel")
    u = samples(2, 16, 4)
    with pytest.raises(RuntimeError, match="size of tensor"):
        ReleasedLayer(4, 3, 16, **options)(u)
    ours = rtf.RTF(4, 3, 16, init="xavier", **options)
    assert ours.scalar.shape == (4,) and ours(u).shape == u.shape
    assert (ours.a.abs().sum(1) < 1).all()
    with pytest.raises(ValueError, match=r"\[rtf::RTF\] l1_montel with two directions works with num_a = 1 alone there"):
        rtf.RTF(4, 3, 16, quirks="release", **options)
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


def test_dropout_of_a_layer_that_does_not_train():
    """Left on to draw several answers; and another module in its place."""
    layer = rtf.RTF(3, 4, 16, init="montel", dropout=0.5).eval()
    u = samples(2, 16, 3)
    layer.dropout.train()
    y = layer(u)
    assert 0 < (layer.k == 0).float().mean() < 1 and error(y, direct_sums(layer.k, u)) < BOUND
    layer.dropout = torch.nn.Identity()
    assert error(layer(u), direct_sums(layer.get_k(), u)) < BOUND


def test_a_layer_of_numbers_that_stay():
    """Only the input has a gradient, and nothing is computed for the rest."""
    layer = rtf.RTF(3, 4, 16, init="montel", bidirectional=True).requires_grad_(False)
    u = samples(2, 16, 3).requires_grad_()
    with torch.profiler.profile() as profile:
        layer(u).square().sum().backward()
    wanted = torch.autograd.functional.vjp(lambda x: layer(x).square().sum(), u.detach())[1]
    torch.testing.assert_close(u.grad, wanted)
    assert not [event.key for event in profile.key_averages() if "kernel_backward" in event.key]


def test_a_penalty_on_the_kernel_has_a_gradient():
    layer = rtf.RTF(3, 4, 16, init="montel")
    layer(samples(2, 9, 3))
    layer.k.square().sum().backward()
    assert layer.ab.grad.abs().sum() > 0


def test_orders_past_the_length_and_order_zero():
    for order, length in ((0, 8), (8, 8), (13, 8), (3, 1)):
        layer = rtf.RTF(2, order, length, init="montel")
        u = samples(2, length, 2)
        assert error(layer(u), direct_sums(layer.get_k(), u)) < BOUND
        assert error(layer.get_k_step(), layer.get_k()) < BOUND


def test_attributes_of_the_release():
    layer = rtf.RTF(2, 4, 16, init="montel", constraint="l1_montel", flash_fft_conv=True)
    assert layer.constraint_flag and layer.flash_fft_conv is None and not rtf.RTF(2, 4, 16).constraint_flag
    assert torch.equal(layer.a_constraint(layer.ab[:2]), layer.a)
    layer(samples(1, 9, 2))
    assert torch.equal(layer.k, layer.get_k(9))
    copied = copy.deepcopy(layer)  # whose graph stays behind
    assert copied.k is None and copied._running is None


def test_what_scripts_change_counts():
    """A subclass's kernels, a constraint that was put in, another truncation length: as in the release, which computes all
    from `get_k`."""
    u = samples(2, 16, 3)

    class Windowed(rtf.RTF):
        def get_k(self, L=None):
            return super().get_k(L) * torch.linspace(1, 0, L or self.L)

    class Halved(rtf.RTF):
        @property
        def a(self):
            return 0.5 * super().a

    constrained = rtf.RTF(3, 4, 16, init="montel")
    constrained.a_constraint = lambda coefs: 0.5 * coefs
    constrained_class = type("Halving", (rtf.RTF,), {"a_constraint": lambda self, coefs: 0.5 * coefs})
    for layer in (Windowed(3, 4, 16, init="montel"), Halved(3, 4, 16, init="montel"), constrained, constrained_class(3, 4, 16, init="montel")):
        plain = rtf.RTF(3, 4, 16)
        plain.load_state_dict(layer.state_dict())
        assert error(layer(u), direct_sums(layer.get_k(), u)) < BOUND and error(layer.get_k(), plain.get_k()) > 1e-2
        assert error(layer.k, layer.get_k()) == 0
        if not isinstance(layer, Windowed):
            assert error(layer.get_k_step(), layer.get_k()) < BOUND
    for length in (32, 16, 7):
        theirs, ours = pair(3, 4, 20)
        theirs.length = ours.L = length
        assert ours.get_k().shape == (3, length)
        assert error(ours.get_k(), theirs.get_k()) < BOUND and error(ours.get_k_step(), ours.get_k()) < BOUND
    ours.k = u
    assert ours.k is u
    taps, names = torch.nn.Parameter(torch.randn(3, 16)), set(constrained.state_dict())
    constrained.get_k = lambda L=None: taps
    assert error(constrained(u), direct_sums(taps, u)) < BOUND
    assert constrained.k is taps and set(constrained.state_dict()) == names  # seen, and no parameter of the layer


@pytest.mark.parametrize("bidirectional", [False, True])
def test_numbers_in_place_of_a_parameter_count(bidirectional):
    """Parametrized ones, and those of a network that makes them."""
    u, bdir = samples(2, 16, 3), dict(bidirectional=bidirectional)

    class Halved(torch.nn.Module):
        def forward(self, numbers):
            return 0.5 * numbers

    for name in ("ab", "h_0"):
        plain, parametrized, given = (rtf.RTF(3, 4, 16, init="montel", **bdir) for _ in range(3))
        plain.load_state_dict(given.state_dict())
        parametrized.load_state_dict(given.state_dict())
        with torch.no_grad():
            getattr(plain, name).mul_(0.5)
        torch.nn.utils.parametrize.register_parametrization(parametrized, name, Halved())
        values = 0.5 * getattr(given, name).detach().clone().requires_grad_()
        values.retain_grad()
        delattr(given, name)
        setattr(given, name, values)
        for layer in (plain, parametrized, given):
            layer(u).square().sum().backward()
            assert error(layer(u), plain(u)) < BOUND
        wanted = getattr(plain, name).grad
        assert error(values.grad, wanted) < BOUND
        assert error(getattr(parametrized.parametrizations, name).original.grad, 0.5 * wanted) < BOUND


def test_what_a_subclass_puts_in_place_of_numbers_and_dropout_counts():
    u, plain = samples(2, 16, 3), rtf.RTF(3, 4, 16, init="montel")

    class Louder(rtf.RTF):
        def dropout(self, k):
            return 2 * k

    class Kept(rtf.RTF):
        @property
        def h_0(self):
            return 2 * self._parameters["h_0"]

        @property
        def ab(self):
            return 0.5 * self._parameters["ab"]

        def __setattr__(self, name, value):
            if name in ("ab", "h_0"):
                self._parameters[name] = value
            else:
                super().__setattr__(name, value)

    class Taps(rtf.RTF):
        def get_k(self, L=None):
            return self.taps[:, :L]

    kept, taps = Kept(3, 4, 16, init="montel"), Taps(3, 4, 16)
    taps.taps = torch.nn.Parameter(torch.randn(3, 16))
    del taps.ab, taps.h_0
    for layer in (kept, taps):
        assert error(layer(u), direct_sums(layer.get_k(), u)) < BOUND and error(layer.get_k(), plain.get_k()) > 1e-2
    louder, without_module, beside_module = Louder(3, 4, 16), rtf.RTF(3, 4, 16), rtf.RTF(3, 4, 16)
    del without_module.dropout
    without_module.dropout = beside_module.__dict__["dropout"] = lambda k: 2 * k
    for layer in (louder, without_module, beside_module):
        layer.load_state_dict(plain.state_dict())
        assert error(layer(u), 2 * plain(u)) < BOUND


def test_whole_numbers_as_samples():
    layer = rtf.RTF(3, 4, 16, init="montel")
    u = torch.arange(48).reshape(1, 16, 3)
    assert torch.equal(layer(u), layer(u.float()))
    assert torch.equal(layer.step(u[:, 0], layer.x_0(1))[0], layer.step(u[:, 0].float(), layer.x_0(1))[0])
    assert torch.equal(layer.double()(u), layer(u.double()))
    with pytest.raises(ValueError, match=r"\[rtf::convolve\] Complex"):
        layer(1j * u)


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
        (lambda: rtf.RTF(4, 3, 16, constraint="montel"), r"\[rtf::RTF\] constraint is 'montel'; expected one of no, l1_montel"),
        (lambda: rtf.RTF(4, 3, 16, quirks="all"), r"\[rtf::RTF\] quirks is 'all'; expected one of none, release"),
        (lambda: layer(samples(1, 17, 4)), r"\[rtf::RTF\] a sequence of 17 samples; the layer takes 1 to 16"),
        (lambda: layer.get_k(0), r"\[rtf::RTF\] L is 0; at least 1 is needed"),
        (lambda: layer(samples(1, 16, 5)), r"\[rtf::RTF\] u has shape \[1, 16, 5\]; \(batch, length, 4\) is needed"),
        (lambda: layer(torch.ones(16)), r"\[rtf::RTF\] u has shape \[16\]; \(batch, length, 4\) is needed"),
        (lambda: layer(np.ones((1, 16, 4))), r"\[rtf::RTF\] u is of type ndarray, not a tensor; \(batch, length, 4\) is needed"),
        (lambda: rtf.RTF(4.0, 3, 16), r"\[rtf::RTF\] d_model is 4.0; a whole number is needed"),
        (lambda: rtf.RTF("4", 3, 16), r"\[rtf::RTF\] d_model is '4'; a whole number is needed"),
        (lambda: rtf.RTF(4, 3, 16, num_a=0), r"\[rtf::RTF\] num_a is 0; at least 1 is needed"),
        (lambda: both.step(samples(1, 1, 4)[:, 0], both.x_0(1)), r"\[rtf::RTF\] a bidirectional layer has no recurrence"),
        (lambda: rtf.lfilter(samples(2, 8, 16), both), r"\[rtf::lfilter\] a bidirectional layer has no recurrence"),
        (lambda: layer.step(samples(2, 1, 4)[:, 0], torch.zeros(2, 4, 3)), r"\[rtf::RTF\] the state has shape \[2, 4, 3\]; \[2, 3, 4\] is needed"),
        (lambda: layer.step(samples(2, 1, 4)[:, 0], layer.x_0(3)), r"\[rtf::RTF\] the state has shape \[3, 3, 4\]; \[2, 3, 4\] is needed"),
        (lambda: layer.x_0((2, 3)), r"\[rtf::RTF\] batch_shape is of type tuple; a whole number is needed"),
        (lambda: layer.get_k(3.0), r"\[rtf::RTF\] L is 3.0; a whole number is needed"),
        (lambda: rtf.RTF(4, 3, 16, init=["a"]), r"\[rtf::RTF\] init is '\['a'\]'; expected one of zeros"),
        (lambda: both.get_C(), r"\[rtf::RTF\] a bidirectional layer has no recurrence"),
    ]
    for call, message in table:
        with pytest.raises(ValueError, match=message):
            call()
