"""The recurrence of rtf.RTF: its numerator and gain beside the release's errors, steps, and when they see new numbers."""

import warnings

import pytest
import rtf
from torch_half import need_torch_half

torch = need_torch_half()

from released_cases import BOUND, error, pair, samples, stepped  # noqa: E402


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


class Frozen(rtf.RTF):
    """Numbers that an optimiser does not see."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        ab = self.ab.data
        del self.ab
        self.register_buffer("ab", ab)


@pytest.mark.parametrize("kind", [rtf.RTF, Frozen])
def test_step_sees_every_change_of_its_numbers(kind):
    layer = kind(2, 4, 16, init="montel", constraint="l1_montel")
    u, x = samples(1, 1, 2)[:, 0], torch.randn(1, 4, 2, dtype=torch.float64)
    smaller = {key: value * 0.5 for key, value in layer.state_dict().items()}

    def renew(layer):
        layer.h_0 = torch.nn.Parameter(layer.h_0 * 0.5)

    def write_data(layer):
        layer.ab.data.mul_(0.5)
        layer.x_0(1)

    changes = [
        lambda layer: layer.ab.mul_(0.5),
        lambda layer: layer.h_0.mul_(0.5),
        lambda layer: layer.scalar.mul_(0.5),
        lambda layer: layer.load_state_dict(smaller),
        lambda layer: setattr(layer.h_0, "data", layer.h_0 * 3),
        lambda layer: layer.double(),
        renew,
        write_data,
    ]
    with torch.no_grad():
        for change in changes:
            before = layer.step(u, x)[0]
            kept = layer._running
            assert torch.equal(before, layer.step(u, x)[0]) and layer._running is kept
            change(layer)
            fresh = rtf.RTF(2, 4, 16, constraint="l1_montel").to(layer.h_0.dtype)
            fresh.load_state_dict(layer.state_dict())
            after = layer.step(u, x)[0]
            assert layer._running is not kept and torch.equal(after, fresh.step(u, x)[0])


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("by_steps", [False, True])
def test_step_sees_what_a_fused_optimizer_writes(mode, by_steps):
    """PyTorch does not count its writes."""
    layer = getattr(rtf.RTF(2, 4, 16, init="montel"), mode)()
    u, x, signal = samples(1, 1, 2)[:, 0], torch.randn(1, 4, 2, dtype=torch.float64), samples(1, 16, 2)
    for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW):
        optimizer = kind(layer.parameters(), lr=0.1, fused=True)
        with torch.no_grad():
            before = layer.step(u, x)[0]
        (layer.step(u, x)[0] if by_steps else layer(signal)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        fresh = rtf.RTF(2, 4, 16)
        fresh.load_state_dict(layer.state_dict())
        with torch.no_grad():
            after = layer.step(u, x)[0]
            assert torch.equal(after, fresh.step(u, x)[0]) and not torch.equal(after, before)


def halving(coefs):
    return 0.5 * coefs


@pytest.mark.parametrize("change", [("L", 8), ("quirks", "release"), ("a_constraint", halving), ("a_constraint", torch.nn.Softsign())])
def test_step_sees_every_change_of_its_options(change):
    layer, u, x = rtf.RTF(2, 4, 16, init="xavier").eval(), torch.randn(1, 2), torch.randn(1, 4, 2).double()
    fresh = rtf.RTF(2, 4, 16).eval()
    fresh.load_state_dict(layer.state_dict())
    with torch.no_grad():
        before = layer.step(u, x)[0]
        for each in (layer, fresh):
            setattr(each, *change)
        after = layer.step(u, x)[0]
        assert torch.equal(after, fresh.step(u, x)[0]) and not torch.equal(after, before)
        if change[0] == "a_constraint":
            assert error(layer.get_k_step(), layer.get_k()) < BOUND
            assert error(layer(torch.eye(1, 16)[..., None].expand(-1, -1, 2))[0].T, layer.get_k()) < BOUND


def test_a_constraint_with_a_number_of_its_own():
    """It has a gradient, and steps see it change, whatever is frozen beside it."""

    class Scaled(rtf.RTF):
        def __init__(self, *sizes):
            super().__init__(*sizes, init="montel")
            self.scale = torch.nn.Parameter(torch.tensor(0.5))

        def a_constraint(self, coefs):
            return self.scale.to(coefs.dtype) * coefs

    layer, u, x = Scaled(2, 4, 16), torch.randn(1, 2), torch.randn(1, 4, 2).double()
    layer.ab.requires_grad_(False), layer.h_0.requires_grad_(False)
    for y in (layer.step(u, x)[1], layer.get_k_step(), layer(samples(1, 16, 2))):
        assert torch.autograd.grad(y.square().sum(), layer.scale)[0] != 0
    with torch.no_grad():
        before = layer.step(u, x)[1]
        layer.scale.fill_(0.1)
        assert not torch.equal(layer.step(u, x)[1], before)


def test_a_constraint_that_is_taken_away_counts():
    layer = rtf.RTF(4, 3, 16, init="montel", constraint="l1_montel").eval()
    u, x = torch.ones(2, 4), torch.ones(2, 3, 4)
    with torch.no_grad():
        before, layer.scalar = layer.step(u, x)[0], None
        after = layer.step(u, x)[0]
        layer.x_0(2)
        assert torch.equal(after, layer.step(u, x)[0]) and not torch.equal(after, before)


def test_steps_without_memory():
    """On the meta device, once and again."""
    with torch.device("meta"), torch.no_grad():
        layer, u = rtf.RTF(2, 4, 16), torch.ones(1, 2)
        for _ in range(2):
            assert layer.step(u, layer.x_0(1))[0].is_meta


def test_the_numerator_as_it_is_stored():
    """correct_C=False: the plain filter (a, b, h_0), with gradients to all of it."""
    _, layer = pair(6, 4, 40, 3)
    kernel = layer.get_k_step(correct_C=False)
    assert error(kernel, rtf.kernel(layer.a, layer.ab[layer.a_channels :], layer.h_0, length=40)) < BOUND
    x, steps = layer.x_0(1), []
    for t in range(40):
        out, x = layer.step(torch.full((1, 6), float(t == 0)), x, correct_C=False)
        steps.append(out[0])
    assert error(torch.stack(steps, 1), kernel) < BOUND
    for gradient in torch.autograd.grad(kernel.square().sum(), layer.parameters()):
        assert gradient.abs().min() > 0


def test_nothing_is_kept_inside_transforms():
    """Under vmap the numbers of a layer have no memory to know them by."""
    layers = [rtf.RTF(2, 3, 10, init="montel") for _ in range(3)]
    numbers = {f"layer.{key}": torch.stack([getattr(layer, key) for layer in layers]).detach() for key in ("ab", "h_0")}
    u, x = torch.randn(1, 2), torch.randn(1, 3, 2)

    class Step(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layers[0]

        def forward(self, u, x):
            return self.layer.step(u, x)[0]

    module = Step()
    call = lambda numbers: torch.func.functional_call(module, numbers, (u, x))
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that vmap runs over them one by one
        wanted = torch.stack([layer.step(u, x)[0] for layer in layers])
        for _ in range(2):
            torch.testing.assert_close(torch.func.vmap(call)(numbers), wanted)
        assert torch.equal(layers[0].step(u, x)[0], wanted[0])


def test_steps_in_inference_mode():
    """What is kept there serves a layer without gradients outside too; numbers made there are read anew at every step."""
    layer = rtf.RTF(2, 3, 10, init="montel").requires_grad_(False)
    u, x = torch.randn(1, 2), torch.randn(1, 3, 2)
    with torch.inference_mode():
        wanted = layer.step(u, x)[0].clone()
        inside = rtf.RTF(2, 3, 10)
        inside.load_state_dict(layer.state_dict())
        assert torch.equal(inside.step(u, x)[0], wanted)
        inside.h_0.mul_(0.5)
        assert not torch.equal(inside.step(u, x)[0], wanted)
    leaf = u.clone().requires_grad_()
    y, _ = layer.step(leaf, x)
    y.sum().backward()
    assert torch.equal(y, wanted) and leaf.grad.any()


def test_states_lie_in_memory_as_the_operator_has_them():
    """So that a step copies none."""
    layer = rtf.RTF(5, 3, 10, init="montel")
    x = layer.x_0(2)
    with torch.no_grad():
        for _ in range(2):
            assert x.shape == (2, 3, 5) and x.transpose(1, 2).is_contiguous()
            _, x = layer.step(torch.randn(2, 5), x)


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


def test_the_type_of_a_state():
    for dtype in (torch.float32, torch.float64):
        for quirks in ("none", "release"):
            layer = rtf.RTF(3, 4, 16, init="montel", quirks=quirks).to(dtype)
            x = layer.x_0(2)
            assert x.dtype == dtype and torch.einsum("BNC,CN->BC", x, layer.get_C()).shape == (2, 3)


@pytest.mark.parametrize("kind", ["class", "layer"])
def test_another_numerator_or_step_counts(kind):
    """As in the release, where `step` asks for `get_C`, and `get_k_step` for `step`."""
    u = samples(1, 1, 4)[:, 0]

    def layer_with(name, method):
        if kind == "class":
            return type("Other", (rtf.RTF,), {name: method})(4, 6, 32, init="montel")
        layer = rtf.RTF(4, 6, 32, init="montel")
        setattr(layer, name, method.__get__(layer))
        return layer

    halved = layer_with("get_C", lambda self: 0.5 * rtf.RTF.get_C(self))
    plain = rtf.RTF(4, 6, 32)
    plain.load_state_dict(halved.state_dict())
    wanted = 0.5 * plain.get_k_step()
    wanted[:, 0] = plain.get_k_step()[:, 0]
    for training in (True, False):
        halved.train(training)
        with torch.no_grad():
            assert error(halved.get_k_step(), wanted) < BOUND
            _, x = halved.step(u, halved.x_0(1))
            for _ in range(2):
                assert error(halved.step(0 * u, x)[0], u * wanted[:, 1]) < BOUND
    doubled = layer_with("step", lambda self, u, x: tuple(n * v for n, v in zip((2, 1), rtf.RTF.step(self, u, x))))
    plain.load_state_dict(doubled.state_dict())
    assert error(doubled.get_k_step(), 2 * plain.get_k_step()) < BOUND


def test_a_module_in_the_place_of_a_method_can_be_taken_out_again():
    layer = rtf.RTF(4, 6, 32, init="montel")
    wanted = layer.get_k_step()

    class Nothing(torch.nn.Module):
        def forward(self):
            return torch.zeros(4, 6)

    layer.get_C = Nothing()
    assert not layer.get_k_step()[:, 1:].any()
    del layer.get_C
    assert torch.equal(layer.get_k_step(), wanted)


def test_states_of_the_release_have_no_graph():
    layer, u = rtf.RTF(4, 6, 32, init="montel", quirks="release"), samples(1, 1, 4)[:, 0]
    for correct_C in (True, False):
        y, x = layer.step(u, layer.x_0(1), correct_C)
        assert y.requires_grad and not x.requires_grad
        layer.zero_grad()
        layer.get_k_step(correct_C).square().sum().backward()
        assert (layer.ab.grad is None or not layer.ab.grad[:4].any()) and layer.h_0.grad.any()
        assert correct_C == (layer.ab.grad is None or not layer.ab.grad[4:].any())
    leaf = u.clone().requires_grad_()
    _, x = layer.step(leaf, layer.x_0(1))
    assert x.requires_grad


def test_half_samples_step():
    layer, u = rtf.RTF(3, 4, 16, init="montel"), samples(2, 4, 3).half()
    named = rtf.nn.RTF(3, 4, 16, init="montel")
    x, state = layer.x_0(2), named.zero_state(2)
    y, x = layer.step(u[:, 0], x)
    assert y.dtype == torch.float16 and x.dtype == torch.float32
    assert error(y, layer.step(u[:, 0].float(), layer.x_0(2))[0]) < 1e-3
    first, state = named.prefill(named.realize(), u[:, :3], state)
    last, state = named.step(named.realize(), u[:, 3], state)
    assert first.dtype == last.dtype == torch.float16 and state.dtype == torch.float64
    assert error(torch.cat((first, last[:, None]), 1), named(u)) < 2e-3
