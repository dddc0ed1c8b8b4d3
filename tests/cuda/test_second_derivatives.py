"""Second derivatives on the GPU against those on the CPU, which test_operators.py holds against differences."""

import numpy as np
import oracle
import pytest

torch = pytest.importorskip("torch")


def second_derivatives(operator, inputs, device):
    """The gradients of a weighted sum of the gradients of a weighted sum of squares."""
    inputs = [x.to(device).requires_grad_() for x in inputs]
    results = operator(device, *inputs)
    results = results if isinstance(results, tuple) else (results,)
    weight = lambda x: torch.linspace(1, 2, x.numel(), dtype=x.dtype, device=device).view(x.shape)
    total = sum((weight(x) * x.square()).sum() for x in results)
    gradients = torch.autograd.grad(total, inputs, create_graph=True)
    found = torch.autograd.grad(sum((weight(g) * g).sum() for g in gradients), inputs, materialize_grads=True)
    return [g.cpu() for g in found]


@pytest.mark.parametrize("order", [1, 5, 70])  # chunks and transforms
def test_like_the_cpu(cuda_ops, order):
    rng = np.random.default_rng(order)
    f = oracle.draw_filter(rng, 4, 2, order)
    coefficients = [torch.tensor(x) for x in (f.a, f.b, f.h0)]
    draw = lambda *shape: torch.tensor(rng.standard_normal(shape))
    u, state, lengths, offsets = draw(2, 40, 4), draw(2, 4, order), torch.tensor([40, 3]), torch.tensor([0, 3, 40])
    weight, bias, generator = draw(4), draw(4), torch.tensor([5, 3])
    cases = {
        "filter": (lambda device, *z: cuda_ops.filter(*z), (u, *coefficients, state)),
        "padded": (lambda device, *z: cuda_ops.filter(*z, lengths=lengths.to(device)), (u, *coefficients, state)),
        "packed": (lambda device, *z: cuda_ops.filter(*z, offsets=offsets.to(device)), (u[:1], *coefficients, state)),
        "kernel": (lambda device, *z: cuda_ops.kernel(*z, 40), coefficients),
        "wrapped_convolve": (lambda device, *z: cuda_ops.wrapped_convolve(*z, 41)[0], (u, *coefficients)),
        "exact_kernel": (lambda device, *z: cuda_ops.exact_kernel(*z, 40), coefficients),
        "correct": (lambda device, *z: cuda_ops.correct(*z, 40), coefficients),
        "wrap": (lambda device, *z: cuda_ops.wrap(*z, 40), coefficients),
        "gelu": (lambda device, x: cuda_ops.gelu(x, 0.3, generator.to(device), 1), (u,)),
        "glu": (lambda device, z, b: cuda_ops.glu(z, None, 0.3, generator.to(device), 1, bias=b), (u, bias)),
        "gate": (lambda device, *z: cuda_ops.gate(*z, 0.3, generator.to(device), 1)[0], (u, draw(8, 4), draw(8))),
        "length_last": (lambda device, x: cuda_ops.length_last(x), (u,)),
        "batch_norm": (lambda device, *z: cuda_ops.batch_norm(*z)[0], (u, weight, bias)),
        "layer_norm": (lambda device, *z: cuda_ops.layer_norm(*z)[0], (u, weight, bias)),
        "embedding": (lambda device, w: cuda_ops.embedding(torch.tensor([[0, 1, 1]], device=device), w), (u[0],)),
        "spread": (lambda device, *z: cuda_ops.spread(*z), (u[..., 0], weight, bias)),
    }
    bound = oracle.tolerance(oracle.condition(f, 40 + order + 1) ** 2, "f64")  # two filters follow each other
    for name, (operator, inputs) in cases.items():
        wanted = second_derivatives(operator, inputs, "cpu")
        scale = max(float(g.abs().max()) for g in wanted)
        for got, want in zip(second_derivatives(operator, inputs, "cuda"), wanted):
            assert (got - want).abs().max() <= bound * scale, name


def test_the_gate_in_bfloat16(cuda_ops):
    """Its products have a type of their own there, which has no second derivative: where one is wanted, torch's are taken."""
    torch.manual_seed(0)
    y = torch.randn(2, 4, 40, device="cuda").transpose(1, 2)
    weight, bias, generator = torch.randn(8, 4, device="cuda"), torch.randn(8, device="cuda"), torch.tensor([5, 3], device="cuda")

    def found(dtype):
        leaves = [y.clone().requires_grad_(), weight.to(dtype).requires_grad_(), bias.clone().requires_grad_()]
        out = cuda_ops.gate(*leaves, 0.3, generator, 1)[0]
        gradients = torch.autograd.grad(out.float().square().sum(), leaves, create_graph=True)
        return torch.autograd.grad(sum(g.float().square().sum() for g in gradients), leaves)

    for got, wanted in zip(found(torch.bfloat16), found(torch.float32)):
        # A dozen roundings of 2^-9 follow each other.
        assert (got.float() - wanted).abs().max() <= 12 * 2**-9 * 4 * wanted.abs().max()
