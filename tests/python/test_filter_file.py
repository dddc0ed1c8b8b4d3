"""rtf.read_filter and rtf.write_filter: every form there and back, the command's files, what is refused."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import rtf

RNG = np.random.default_rng(7)
A, B, H0 = RNG.standard_normal((2, 3)), RNG.standard_normal((4, 3)), RNG.standard_normal(4)
PAIR = [0.3 + 0.4j, 0.3 - 0.4j]
FORMS = {
    "tf": rtf.TransferFunction(A[0], B[0], 0.25),
    "tf_rows": rtf.TransferFunction(A, B, H0),
    "order_0": rtf.TransferFunction(np.empty((1, 0)), np.empty((2, 0)), H0[:2]),
    "trained": rtf.TrainedTransferFunction(A[0], B[0], 0.25, 64),
    "trained_rows": rtf.TrainedTransferFunction(A, B, H0, 64),
    "ba": rtf.PolynomialRatio([1, 0.1, 1 / 3], [2, 0.5]),
    "ss": rtf.StateSpace(RNG.standard_normal((2, 2)), RNG.standard_normal((2, 1)), RNG.standard_normal((1, 2)), [[0.5]]),
    "ss_2_inputs": rtf.StateSpace(RNG.standard_normal((3, 3)), RNG.standard_normal((3, 2)), RNG.standard_normal((1, 3)), [[0.5, 1]]),
    "modal": rtf.Modal(PAIR, [1 + 1j, 1 - 1j], 0.1),
    "zpk": rtf.ZeroPoleGain([-1, 0.5], PAIR, 1 / 3, 0.25),
    "sos": rtf.SecondOrderSections(np.array([[1, 0.5, 0.25, 1, 0.1, 0.2], [1, 0, 0, 1, -0.3, 0]])),
    "list": [rtf.ZeroPoleGain([], [0.5], 2.0), rtf.ZeroPoleGain([1j, -1j], [0.1, 0.2], 3.0)],
    "mimo": rtf.MimoTransferFunction([0.5, 0.1], RNG.standard_normal((2, 3, 2)), RNG.standard_normal((2, 3))),
}


def assert_same(got, wanted):
    if isinstance(wanted, list):
        assert isinstance(got, list) and len(got) == len(wanted)
        for one, other in zip(got, wanted, strict=True):
            assert_same(one, other)
        return
    assert type(got) is type(wanted)
    for name, one, other in zip(got._fields, got, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other), err_msg=name)


@pytest.mark.parametrize("name", FORMS)
def test_there_and_back(tmp_path, name):
    """To the bit: JSON has as many digits as it takes."""
    file = tmp_path / "filter.json"
    rtf.write_filter(file, FORMS[name])
    assert_same(rtf.read_filter(file), FORMS[name])
    assert [entry.name for entry in tmp_path.iterdir()] == ["filter.json"]
    if name.startswith(("tf", "trained", "order")):
        rtf.write_filter(str(tmp_path / "f.safetensors"), FORMS[name])
        assert_same(rtf.read_filter(str(tmp_path / "f.safetensors")), FORMS[name])
        return
    with pytest.raises(ValueError, match="safetensors hold the form tf alone; write this one as JSON"):
        rtf.write_filter(tmp_path / "f.safetensors", FORMS[name])


def test_the_command_has_the_same_files(tmp_path):
    program = os.environ.get("RTF_COMMAND") or str(Path(sys.executable).parent / "rtf")
    stable = rtf.TransferFunction([[-1.2, 0.81]], [[1, 0.4], [0.5, 0.2]], [0.5, 0])
    rtf.write_filter(tmp_path / "f.json", stable)
    subprocess.run([program, "convert", "f.json", "--to", "sos", "-o", "sos.json"], cwd=tmp_path, check=True, capture_output=True)
    sections = rtf.read_filter(tmp_path / "sos.json")
    assert [type(one).__name__ for one in sections] == ["SecondOrderSections"] * 2
    np.testing.assert_allclose(rtf.kernel(sections, length=50), rtf.kernel(stable, length=50), atol=1e-14)
    # A list of one channel is a filter of one channel.
    rtf.write_filter(tmp_path / "one.json", sections[:1])
    assert_same(rtf.read_filter(tmp_path / "one.json"), sections[0])


def test_refusals(tmp_path):
    file = tmp_path / "f.json"
    for filter, message in (
        (3, "the filter is a int; a value of rtf.forms is needed"),
        (rtf.TransferFunction([np.nan], [1], 0), r"a\[0\] is nan; coefficients must be finite"),
        (rtf.TransferFunction([1, 2], [1], 0), "a has 2 coefficients and b has 1"),
        (rtf.ZeroPoleGain([np.inf], [0.5], 1), "finite"),
        (rtf.ZeroPoleGain([], [0.5j], 1), "conjugate"),
        (rtf.StateSpace([[np.nan]], [[1]], [[1]], [[0]]), "finite"),
        (rtf.SecondOrderSections([[1, 0, 0, 0, 0, 0]]), "a0|a_0"),
        ([rtf.Modal([], []), rtf.PolynomialRatio([1], [1])], "one form is needed"),
    ):
        with pytest.raises(ValueError, match=message) as caught:
            rtf.write_filter(file, filter)
        assert str(caught.value).startswith("[rtf::write_filter] ") and "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []
    for text, message in (("", "JSON"), ("{", "JSON"), ("[1]", "expected an object"), ('{"a": [1], "b": [1]}', "has no 'h0'"),
                          ('{"form": "zpk", "channels": 3}', "."), (json.dumps({"a": [0.5], "b": [1], "h0": 0, "c": 1}), "unknown key 'c'")):  # fmt: skip
        file.write_text(text)
        with pytest.raises(ValueError, match=message) as caught:
            rtf.read_filter(file)
        assert str(caught.value).startswith("[rtf::read_filter] ") and str(file) in str(caught.value)
    with pytest.raises(OSError, match=r"^\[rtf::read_filter\] cannot read '': "):
        rtf.read_filter("")
    with pytest.raises(OSError, match=r"\[rtf::read_filter\] .*nothing\.json"):
        rtf.read_filter(tmp_path / "nothing.json")
    with pytest.raises(OSError, match=r"\[rtf::write_filter\] .*nothing/f\.json"):
        rtf.write_filter(tmp_path / "nothing" / "f.json", FORMS["tf"])
    for function, arguments in ((rtf.read_filter, (3,)), (rtf.write_filter, (None, FORMS["tf"]))):
        with pytest.raises(ValueError, match="that of a filter file is needed"):
            function(*arguments)


def test_tensors_and_layers(tmp_path):
    from torch_half import need_torch_half

    torch = need_torch_half()
    a, b = torch.tensor([-0.5], dtype=torch.float32, requires_grad=True), torch.tensor([0.1], dtype=torch.bfloat16)
    rtf.write_filter(tmp_path / "f.json", rtf.TransferFunction(a, b, torch.tensor(1.0)))
    read = rtf.read_filter(tmp_path / "f.json")
    assert read.a.tolist() == [-0.5] and read.b.tolist() == [b.item()] and read.h0 == 1
    layer = rtf.nn.RTF(channels=4, order=3, length=16, denominators=2, init="montel", constraint="montel")
    rtf.write_filter(tmp_path / "layer.safetensors", layer)
    read, given = rtf.read_filter(tmp_path / "layer.safetensors"), layer.transfer_function()
    assert read.length == 16
    for one, other in zip(read[:3], given[:3], strict=True):
        np.testing.assert_allclose(one, other.detach().double().numpy(), rtol=1e-6)  # whose constraint is in float32
    for one, other in zip(read[:3], layer.wide_transfer_function()[:3], strict=True):
        np.testing.assert_array_equal(one, other.detach().numpy())
    with pytest.raises(ValueError, match=r"^\[rtf::write_filter\] a cannot be read \(.*meta.*\); an array is needed$"):
        rtf.write_filter(tmp_path / "meta.json", layer.to("meta"))
