"""embedding and spread on the GPU against the CPU in double."""

import pytest

torch = pytest.importorskip("torch")

from block_cases import SHAPES, both, check, is_length_last, signal  # noqa: E402

DTYPES = [torch.float32, torch.bfloat16, torch.float64]


@pytest.mark.parametrize("dtype", DTYPES)
def test_embedding(cuda_ops, dtype):
    for batch, length, channels, vocabulary in [(3, 100, 16, 9), (2, 33, 70, 5), (1, 1, 1, 1), (2, 40, 12, 3000)]:
        tokens = torch.randint(vocabulary, (batch, length), generator=torch.Generator().manual_seed(0))
        weight = signal((1, vocabulary, channels), dtype, order="channels")[0]
        got, wanted = both(lambda w: cuda_ops.embedding(tokens.to(w.device), w), (weight,))
        assert torch.equal(got[0].cpu().double(), wanted[0]) and is_length_last(got[0])
        check(got[1], wanted[1], dtype, "gradient")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_spread(cuda_ops, shape, dtype):
    x = signal((*shape[:2], 1), dtype)[:, :, 0]
    got, wanted = both(cuda_ops.spread, (x, *signal((2, 1, shape[2]), dtype, seed=1)[:, 0]))
    assert is_length_last(got[0])
    for name, a, b in zip(("y", "dx", "dweight", "dbias"), got, wanted):
        check(a, b, dtype, name)


def test_unknown_token(cuda_ops):
    y = cuda_ops.embedding(torch.tensor([[0, 3, -1, 2]], device="cuda"), torch.ones(3, 2, device="cuda"))
    assert y.isnan().all(2).tolist() == [[False, True, True, False]]


@pytest.mark.parametrize("vocabulary", [3, 3000])
def test_unknown_tokens_have_no_gradient(cuda_ops, vocabulary):
    tokens = torch.tensor([[0, vocabulary, -1, 2, -(1 << 40), 1 << 40, 2]], device="cuda")
    weight = torch.ones(vocabulary, 5, device="cuda", requires_grad=True)
    (got,) = torch.autograd.grad(cuda_ops.embedding(tokens, weight), weight, torch.ones(1, 7, 5, device="cuda"))
    wanted = torch.zeros(vocabulary, 5)
    wanted[0], wanted[2] = 1, 2
    assert torch.equal(got.cpu(), wanted)


def test_gradient_is_not_rounded_to_tf32(cuda_ops, monkeypatch):
    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", True)
    tokens, weight = torch.zeros(2, 64, dtype=torch.long, device="cuda"), torch.zeros(8, 16, device="cuda")
    gradient = 1 + 2.0**-14  # one bit more than TF32 has, and in float32 every sum of 128 is exact
    dy = torch.full((2, 64, 16), gradient, device="cuda")
    got = torch.autograd.grad(cuda_ops.embedding(tokens, weight.requires_grad_()), weight, dy)[0]
    assert torch.equal(got[0], torch.full((16,), 128 * gradient, device="cuda"))


def test_refusals(cuda_ops):
    x, weight = torch.zeros(2, 4, 6, device="cuda"), torch.zeros(6, device="cuda")
    for run, message in [
        (lambda: cuda_ops.spread(x, weight, weight), r"\[rtf::spread\] x, weight and bias have shapes \[2, 4, 6\]"),
        (lambda: cuda_ops.spread(x[0], weight.cpu(), weight), r"\[rtf::spread\] the weight is on cpu"),
        (lambda: cuda_ops.embedding(weight, x[0]), r"\[rtf::embedding\] tokens, Float"),
        (lambda: cuda_ops.embedding(torch.zeros(1, 2, dtype=torch.long), x[0]), r"\[rtf::embedding\] tokens is on cpu"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=message):
            run()
