"""Second derivatives, as gradient penalties and Hessians take them, of the functions and of the layers."""

import warnings

import pytest
from torch_half import need_torch_half

torch = need_torch_half()
import rtf  # noqa: E402

TRAINED = {"wrapped": {}, "exact": {"numerator": "exact"}, "both ways": {"bidirectional": True},
           "montel": {"constraint": "montel"}, "montel_paper": {"constraint": "montel_paper"}}  # fmt: skip


def leaf(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def small(*shape):
    """A denominator with its poles inside the circle."""
    return (0.4 / shape[-1] * torch.randn(*shape, dtype=torch.float64)).requires_grad_()


def check(function, *inputs):
    assert torch.autograd.gradgradcheck(function, inputs)


def check_module(module, run, *inputs):
    """To every parameter and to the inputs."""
    module.double()
    names, values = zip(*module.named_parameters())

    class Run(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.module = module

        def forward(self, *inputs):
            return run(self.module, *inputs)

    whole = Run()

    def function(*given):
        parameters = {"module." + name: value for name, value in zip(names, given)}
        return torch.func.functional_call(whole, parameters, given[len(names) :])

    check(function, *(value.detach().clone().requires_grad_() for value in values), *inputs)


def test_lfilter():
    torch.manual_seed(0)
    one = torch.ones(1, dtype=torch.float64)
    with_one = lambda a: torch.cat((one.expand(*a.shape[:-1], 1), a), -1)
    check(lambda x, a, b: rtf.lfilter(x, with_one(a), b), leaf(9), small(2), leaf(4))
    check(lambda x, a, b: rtf.lfilter(x, with_one(a), b), leaf(2, 3, 6), small(3, 2), leaf(3, 2))
    check(lambda x, a, b, h0: rtf.lfilter(x, a, b, h0), leaf(2, 4, 6), small(2, 3), leaf(4, 3), leaf(4))
    states = lambda x, a, b, zi: rtf.lfilter(x, with_one(a), b, zi=zi, return_zf=True)
    check(states, leaf(2, 5), small(3), leaf(3), leaf(2, 3))


def test_kernel_convolve_and_response():
    torch.manual_seed(1)
    for method in ("auto", "wrapped"):
        check(lambda a, b, h0: rtf.kernel(a, b, h0, length=6, method=method), small(1, 3), leaf(2, 3), leaf(2))
    check(rtf.convolve, leaf(2, 3, 7), leaf(3, 5))
    trained = lambda a, b, h0: rtf.TrainedTransferFunction(a, b, h0, 6)
    check(lambda x, *c: rtf.lfilter(x, trained(*c)), leaf(2, 5), small(2, 3), leaf(2, 3), leaf(2))


@pytest.mark.parametrize("options", TRAINED)
def test_layer(options):
    torch.manual_seed(2)
    layer = rtf.nn.RTF(4, 3, 6, denominators=2, init="montel", **TRAINED[options])
    check_module(layer, lambda layer, u: layer(u), leaf(2, 5, 4))
    if not layer.bidirectional:
        streamed = lambda layer, u, state: layer.prefill(layer.realize(), u, state)
        check_module(layer, streamed, leaf(2, 5, 4), leaf(2, 4, 3))


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("constraint", ["no", "l1_montel"])
def test_published_layer(bidirectional, constraint):
    torch.manual_seed(3)
    layer = rtf.RTF(4, 3, 6, num_a=2, bidirectional=bidirectional, init="montel", constraint=constraint)
    check_module(layer, lambda layer, u: layer(u), leaf(2, 5, 4))
    if not bidirectional:
        check_module(layer, lambda layer, u, x: layer.step(u, x), leaf(2, 4), leaf(2, 3, 4))


@pytest.mark.parametrize("norm", ["layer", "batch"])
def test_model(norm):
    torch.manual_seed(4)
    model = rtf.nn.SequenceModel(3, 2, 5, 2, features=2, layers=1, norm=norm, init="montel")
    check_module(model, lambda model, x: model(x), leaf(2, 5, 2))


def test_gradient_penalty_and_hessians():
    """The three ways of asking for them agree."""
    torch.manual_seed(5)
    x, a, b = leaf(8).detach(), small(2).detach(), leaf(2).detach()
    loss = lambda a: rtf.lfilter(x, a, b, 0.5).square().sum()
    wanted = torch.autograd.functional.hessian(loss, a)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that vmap calls one after the other
        torch.testing.assert_close(torch.func.jacrev(torch.func.jacrev(loss))(a), wanted)
        torch.testing.assert_close(torch.func.jacrev(torch.func.grad(loss))(a), wanted)
    free = a.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(free), free, create_graph=True)
    gradient.square().sum().backward()
    torch.testing.assert_close(free.grad, 2 * wanted @ gradient.detach())
