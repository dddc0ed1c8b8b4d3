"""rtf bench step: figures that fit together, for models of numbers, tokens and pairs."""

import json

import pytest
from random_model import RandomModel
from training_runs import refused


@pytest.mark.parametrize("options", [dict(), dict(vocabulary=7, precision="f64"), dict(decoder="pair", features=2), dict(weights="bf16"), dict(vocabulary=7, weights="int8")], ids=["numbers", "tokens", "pairs", "bf16", "int8"])
def test_figures(rtf, tmp_path, options):
    (tmp_path / "m.safetensors").write_bytes(RandomModel(1, **options).file)
    figures = json.loads(rtf("bench", "step", "m.safetensors", "--steps", 500, "--json"))
    assert figures["steps"] == 500 and figures["precision"] == options.get("precision", "f32")
    assert figures["weights"] == options.get("weights", figures["precision"])
    # A step touches no memory that it has not touched before; the system may take a page away now and then.
    assert figures["page_faults"] < 50 and 0 <= figures["disturbed_steps"] <= 500
    assert figures["undisturbed_p99.9"] <= figures["max"]
    assert 0 < figures["p50"] <= figures["p99"] <= figures["p99.9"] <= figures["max"]
    # Half of the steps take p50 or more, and none more than the longest.
    assert figures["p50"] / 2 <= 1 / figures["steps_per_second"] <= figures["max"]
    assert figures["share_of_bound"] == pytest.approx(figures["steps_per_second"] * figures["weight_bytes"] / figures["read_bytes_per_second"])
    assert 0 < figures["state_bytes"] < figures["peak_bytes"] and 0 < figures["weight_bytes"] < figures["peak_bytes"]
    text = rtf("bench", "step", "m.safetensors", "--steps", 500)
    assert [word for word in ("steps a second", "p50", "p99 ", "p99.9", "max", "disturbed steps", "page faults", "weights", "memory") if word not in text] == []


def test_refusals(rtf_raw, tmp_path):
    refused(rtf_raw("bench", "step"), "MODEL is required")
    refused(rtf_raw("bench"), "subcommand is required")
    refused(rtf_raw("bench", "step", "none"), "cannot read none")
    (tmp_path / "m.safetensors").write_bytes(RandomModel(1).file)
    refused(rtf_raw("bench", "step", "m.safetensors", "--steps", 0), "--steps")
    refused(rtf_raw("bench", "step", "m.safetensors", "--steps", 2**52), "GB of memory")
