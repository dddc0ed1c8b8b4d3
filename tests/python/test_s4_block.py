"""rtf.nn.S4Block against the same of torch's modules."""

import copy
import pickle
import warnings

import pytest
import rtf
from torch_half import need_torch_half

torch = need_torch_half()

from rtf import s4_block  # noqa: E402
from torch import nn  # noqa: E402


class Plain(nn.Module):
    def __init__(self, layer, channels, dropout=0.0):
        super().__init__()
        self.layer, self.output, self.dropout = layer, nn.Linear(channels, 2 * channels), nn.Dropout(dropout)

    def forward(self, x):
        return nn.functional.glu(self.output(self.dropout(nn.functional.gelu(self.layer(x)))), dim=-1)


def both(channels, length, layer=None):
    torch.manual_seed(channels + length)
    plain = Plain(layer or rtf.RTF(channels, 4, length, init="montel"), channels).double()
    ours = rtf.nn.S4Block(copy.deepcopy(plain.layer), channels).double()
    ours.load_state_dict(plain.state_dict(), strict=True)
    return plain, ours


@pytest.mark.parametrize("length_last", [False, True], ids=["as on a CPU", "as on a GPU"])
@pytest.mark.parametrize("batch, length, channels", [(1, 1, 1), (2, 7, 3), (3, 64, 8), (2, 101, 5)])
def test_like_torch(batch, length, channels, length_last, monkeypatch):
    plain, ours = both(channels, length)
    x, weights = (torch.randn(batch, length, channels).double() for _ in range(2))
    x.requires_grad_()
    if length_last:
        monkeypatch.setattr(s4_block, "wants_length_last", lambda x: True)
    # The same memory order in, and the other one.
    for given in (x, x.transpose(1, 2).contiguous().transpose(1, 2)):
        found, wanted = ours(given), plain(given)
        assert torch.allclose(found, wanted, rtol=1e-12, atol=1e-12)
        assert not length_last or found.transpose(1, 2).is_contiguous()
        found, wanted = (
            torch.autograd.grad((y * weights).sum(), (x, *module.parameters()))
            for y, module in ((found, ours), (wanted, plain))
        )
        for got, want in zip(found, wanted):
            assert torch.allclose(got, want, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("layer", [nn.Identity(), rtf.nn.RTF(8, 4, 64, init="montel")], ids=lambda layer: type(layer).__name__)
def test_any_layer(layer):
    plain, ours = both(8, 64, layer)
    x = torch.randn(2, 64, 8).double()
    assert torch.allclose(ours(x), plain(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("tied", [False, True])
def test_dropout(tied):
    """Of each number with probability p, of the others 1 / (1 - p) times as much; anew in each pass, and by torch's seed."""
    channels, length, p = 16, 500, 0.3
    block = rtf.nn.S4Block(nn.Identity(), channels, dropout=p, tie_dropout=tied)
    with torch.no_grad():  # GELU(10) = 10, and an open gate: the masks themselves
        block.output.weight.zero_()[:channels] = torch.eye(channels)
        block.output.bias.zero_()[channels:] = 100
    x = torch.full((8, length, channels), 10.0)
    torch.manual_seed(1)
    y, again = block(x), block(x)
    torch.manual_seed(1)
    assert torch.equal(block(x), y) and not torch.equal(again, y)
    dropped = y == 0
    assert torch.allclose(y[~dropped], torch.tensor(10 / (1 - p)))
    assert not tied or torch.equal(dropped, dropped[:, :1].expand_as(dropped))
    draws = 8 * channels * (1 if tied else length)
    assert abs(dropped.double().mean() - p) < 6 * (p * (1 - p) / draws) ** 0.5
    assert torch.allclose(block.eval()(x), torch.tensor(10.0))


def test_torch_features():
    _, block = both(8, 64)
    x = torch.randn(2, 64, 8).double()
    wanted = block(x)
    assert torch.allclose(torch.compile(block, fullgraph=True, backend="aot_eager")(x), wanted)
    assert torch.equal(pickle.loads(pickle.dumps(block))(x), wanted)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that vmap calls one after the other
        assert torch.allclose(torch.func.vmap(block)(x.unsqueeze(1)).squeeze(1), wanted)
    assert rtf.nn.S4Block(rtf.RTF(8, 4, 64), 8).to("meta")(torch.empty(2, 64, 8, device="meta")).shape == (2, 64, 8)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(dtype):
    """No more is lost than by torch's modules, which round at the same places; float16 is computed in float32."""
    plain, ours = both(6, 16)
    plain, ours = plain.float(), ours.float()
    x = torch.randn(2, 16, 6)

    def run(block, narrow):
        with torch.autocast("cpu", dtype, enabled=narrow):
            y = block(x)
        assert not narrow or y.dtype == dtype
        return y.float(), *torch.autograd.grad(y.float().square().sum(), list(block.parameters()))

    for got, theirs, wanted in zip(run(ours, True), run(plain, True), run(plain, False)):
        assert got.dtype == torch.float32
        assert (got - wanted).abs().max() < 2 * (theirs - wanted).abs().max()
    with torch.autocast("cpu", dtype):
        assert ours.double()(x.double()).dtype == torch.float64  # as with torch's


def test_half_samples_are_computed_in_float32():
    block, x = rtf.nn.S4Block(nn.Identity(), 6), torch.randn(2, 16, 6).half()
    assert torch.equal(block(x), block(x.float()).half())


@pytest.mark.parametrize("frozen", ["layer", "output"])
def test_frozen_parts(frozen):
    plain, ours = both(6, 16)
    x = torch.randn(2, 16, 6).double().requires_grad_()
    for block in (plain, ours):
        getattr(block, frozen).requires_grad_(False)
        block(x).square().sum().backward()
    for (name, p), q in zip(ours.named_parameters(), plain.parameters()):
        assert (p.grad is None) == (q.grad is None) == name.startswith(frozen), name
        assert p.grad is None or torch.allclose(p.grad, q.grad, rtol=1e-11, atol=1e-11)


def test_refusals():
    table = [
        (lambda: rtf.nn.S4Block(nn.Identity(), 0), r"\[rtf::S4Block\] channels is 0; at least 1"),
        (lambda: rtf.nn.S4Block(nn.Identity(), 4, dropout=1), r"\[rtf::S4Block\] dropout is 1; a number in \[0, 1\) is needed"),
        (lambda: rtf.nn.S4Block(nn.Identity(), 4)(torch.ones(2, 3, 5)), r"\[rtf::S4Block\] x has shape \[2, 3, 5\]; \(batch, length, 4\)"),
        (lambda: rtf.nn.S4Block(nn.LSTM(4, 4, batch_first=True), 4)(torch.ones(2, 3, 4)), r"\[rtf::S4Block\] the answer of the layer is of type tuple"),
    ]  # fmt: skip
    for call, message in table:
        with pytest.raises(ValueError, match=message):
            call()


def test_an_adapter_in_the_place_of_the_projection_is_called():
    class Adapter(torch.nn.Linear):
        def __init__(self, base):
            super().__init__(base.in_features, base.out_features)
            self.weight, self.bias = base.weight, base.bias
            self.down, self.up = (torch.nn.Parameter(torch.randn(*shape)) for shape in ((4, 8), (16, 4)))

        def forward(self, x):
            return super().forward(x) + x @ self.down.T @ self.up.T

    block, u = rtf.nn.S4Block(rtf.RTF(8, 4, 32, init="montel"), 8), torch.randn(3, 32, 8)
    plain = block(u)
    block.output = torch.nn.Sequential(block.output)  # which has no weight
    torch.testing.assert_close(block(u), plain, rtol=1e-5, atol=1e-5)
    half = block(u.half())
    assert half.dtype == torch.float16
    torch.testing.assert_close(half.float(), plain, rtol=1e-2, atol=1e-2)
    block.output = Adapter(block.output[0])
    y = block(u)
    torch.testing.assert_close(y, torch.nn.functional.glu(block.output(torch.nn.functional.gelu(block.layer(u))), -1), rtol=1e-5, atol=1e-5)
    y.square().sum().backward()
    assert block.output.down.grad.any() and not torch.allclose(y, plain)
    block.dropout = 0.5
    assert (block(u) != block.eval()(u)).any()
