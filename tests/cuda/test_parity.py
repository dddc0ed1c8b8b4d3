"""At least 2,000 random cases of every operator on the GPU against the CPU in double, gradients included."""

import cases
import numpy as np
import pytest

torch = pytest.importorskip("torch")

BLOCKS = 10
LONGEST = 20_000


def kernel(ops, rng, name="kernel"):
    case = cases.Case(rng, LONGEST)
    case.storage = torch.float32  # kernels have no other
    case.in_double = True  # but for the way back of long float32 rows, which the bound of float32 has room for
    return case, lambda device, a, b, h0: getattr(ops, name)(a, b, h0, case.length), case.coefficients()


def exact_kernel(ops, rng):
    return kernel(ops, rng, "exact_kernel")


def convolve(ops, rng):
    """Kernels shorter and longer than the signal, one and two directions, padded and packed sequences."""
    case = cases.Case(rng, LONGEST)
    bidirectional = bool(rng.integers(2))
    samples = max(1, int(case.length * rng.choice([0.3, 1, 1, 1, 1.5])))
    k = case.normal(*[2][: int(bidirectional)], case.channels, samples, dtype=torch.float32)
    k = k * torch.exp(-torch.arange(samples) * float(rng.choice([0, 1, 10]) / samples))
    options = {"lengths": case.lengths()}
    u = case.samples()
    if rng.random() < 0.1:
        options, u = {"offsets": case.offsets()}, u[:1]

    def function(device, u, k):
        return ops.convolve(
            u, k, bidirectional, **{name: x if x is None else x.to(device) for name, x in options.items()}
        )

    return case, function, (u, k)


def filter_(ops, rng, name="filter", case=None):
    """From rest and from a state, padded and packed sequences."""
    case = case or cases.Case(rng, 4000, most_order=600)
    case.in_double = True
    a, b, h0 = case.coefficients()
    u = case.samples()
    options = {"lengths": case.lengths()}
    if name == "filter" and rng.random() < 0.1:
        options, u = {"offsets": case.offsets()}, u[:1]
    sequences = len(options["offsets"]) - 1 if "offsets" in options else len(u)
    states = [case.normal(sequences, case.channels, case.order, dtype=torch.float64)] * int(rng.integers(2))

    def function(device, u, a, b, h0, *state):
        sent = {name: x if x is None else x.to(device) for name, x in options.items()}
        return getattr(ops, name)(u, a, b, h0, *state, **sent)

    return case, function, (u, a, b, h0, *states)


def filter_in_chunks(ops, rng):
    """Orders up to the largest that chunks serve, and lengths around whole chunks and turns of 8 or 16 of them."""
    case = cases.Case(rng, 4000)
    case.order = int(rng.integers(1, 65))
    whole = int(rng.choice([32, 64, 256, 512, 1024, 2048])) * int(rng.integers(1, 3))
    case.length = whole + int(rng.integers(-2, 3))
    return filter_(ops, rng, case=case)


def prefill(ops, rng):
    return filter_(ops, rng, "prefill")


def step(ops, rng):
    case = cases.Case(rng, 300)
    case.in_double = True
    case.batch = int(rng.integers(1, 40))
    state = case.normal(case.batch, case.channels, case.order, dtype=torch.float64)
    inputs = (case.normal(case.batch, case.channels), *case.coefficients(), state)
    case.kappa = 1.0  # one sample does not come back
    return case, lambda device, *x: ops.step(*x), inputs


def drawing(ops, rng):
    """What the operators with dropout take: rate, random numbers and whether a sequence shares one mask."""
    case = cases.Case(rng, 3000)
    case.channels = int(rng.integers(1, 70))
    case.batch = int(rng.integers(1, 9)) if case.length < 500 else int(rng.integers(1, 3))
    rate, tied, layer = float(rng.choice([0, 0, 0.1, 0.5])), bool(rng.integers(2)), int(rng.integers(20))
    generator = torch.from_numpy(rng.integers(0, 1 << 40, 2))
    return case, lambda device: (rate, generator.to(device), layer, tied)


def dropout(ops, rng):
    case, drawn = drawing(ops, rng)
    return case, lambda device, x: ops.dropout(x, *drawn(device)), (case.samples(),)


def gelu(ops, rng):
    case, drawn = drawing(ops, rng)
    return case, lambda device, x: ops.gelu(x, *drawn(device)), (case.samples(),)


def glu(ops, rng):
    """Without and with a bias before the gate, and a residual after it."""
    case, drawn = drawing(ops, rng)
    given = {name for name in ("residual", "bias") if rng.integers(2)}
    optional = [case.samples()] if "residual" in given else []
    case.channels *= 2
    optional += [case.normal(case.channels, dtype=torch.float32)] if "bias" in given else []

    def function(device, z, *rest):
        residual = rest[0] if "residual" in given else None
        return ops.glu(z, residual, *drawn(device), bias=rest[-1] if "bias" in given else None)

    return case, function, (case.samples(), *optional)


def batch_norm(ops, rng, name="batch_norm"):
    case, _ = drawing(ops, rng)
    # Few numbers often have next to no variance, and what is divided by it no digits.
    case.batch += 2
    case.channels += 7
    x = case.samples()
    weight, bias = case.normal(2, case.channels, dtype=torch.float32)
    return case, lambda device, *inputs: getattr(ops, name)(*inputs), (x, weight, bias)


def layer_norm(ops, rng):
    return batch_norm(ops, rng, "layer_norm")


def embedding(ops, rng):
    case, _ = drawing(ops, rng)
    case.storage = torch.float32
    tokens = torch.from_numpy(rng.integers(0, 20, (case.batch, case.length)))
    weight = case.normal(20, case.channels)
    return case, lambda device, weight: ops.embedding(tokens.to(device), weight), (weight,)


# How many cases of each, in all.
OPERATORS = {
    kernel: 300, exact_kernel: 60, convolve: 700, filter_: 250, prefill: 60, step: 150, dropout: 100, gelu: 200,
    glu: 200, batch_norm: 150, layer_norm: 100, embedding: 50, filter_in_chunks: 200,
}  # fmt: skip
assert sum(OPERATORS.values()) >= 2000


def run(ops, operator, rng, report):
    case, function, inputs = operator(ops, rng)
    share = cases.compare(case, function, inputs)
    key = (operator.__name__.rstrip("_"), str(case.storage).removeprefix("torch."))
    row = report.setdefault(key, {"cases": 0, "cancelled": 0, "share": -1.0, "sizes": ""})
    row["cases"] += 1
    row["cancelled"] += case.cancelled
    if share > row["share"]:
        row.update(share=share, sizes=str(case))


@pytest.mark.parametrize("block", range(BLOCKS))
@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.__name__.rstrip("_"))
def test_random_cases(cuda_ops, parity_report, operator, block):
    for number in range(OPERATORS[operator] // BLOCKS):
        rng = np.random.default_rng([list(OPERATORS).index(operator), block, number])
        run(cuda_ops, operator, rng, parity_report)


@pytest.mark.parametrize("length", [1 << 15, (1 << 15) + 1, 50_021, 1 << 16, (1 << 17) - 1, 1 << 17])
@pytest.mark.parametrize("operator", [kernel, convolve], ids=lambda operator: operator.__name__)
def test_long_sequences(cuda_ops, parity_report, monkeypatch, operator, length):
    monkeypatch.setattr(cases, "draw_length", lambda rng, longest: length)
    for number in range(4):
        run(cuda_ops, operator, np.random.default_rng([length, number]), parity_report)
