"""The streaming runtime against the trainer: an exported model answers as the convolution that it was trained with."""

import zlib

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from model_cases import Case, assert_close, slow_denominator  # noqa: E402

# Relative to the largest value of the answers.
TOLERANCE = {"float32": 1e-4, "float64": 1e-9}
MODELS = 200


def random_case(number):
    """A third has slow poles: radius ** length is 0.1 or more."""
    rng = np.random.default_rng(number)
    choose = lambda *values: values[rng.integers(len(values))]  # noqa: E731
    slow = number % 3 == 0
    # A tenth has the greatest length, another the greatest order, and those of a third that have no slow poles none.
    length = 2000 if number % 10 == 0 else int(choose(rng.integers(1, 9), rng.integers(9, 200), rng.integers(200, 500), 64))
    order = 256 if number % 10 == 5 else 0 if number % 10 == 7 and not slow else int(choose(1, 2, rng.integers(1, 17), rng.integers(17, 65), 8))
    channels = int(choose(1, 3, 8, 12))
    decoder = choose("pool", "last", "position", "pair")
    options = dict(
        channels=channels,
        order=order,
        length=length,
        denominators=int(choose(1, channels)),
        layers=int(rng.integers(1 if slow else 0, 4)),
        vocabulary=int(choose(0, 7)),
        features=int(rng.integers(1, 4)),
        norm=choose("none", "batch", "layer"),
        prenorm=bool(choose(True, False)),
        residual=bool(choose(True, True, False)),
        activation=choose("identity", "gelu"),
        glu=bool(choose(True, False)),
        numerator=choose("wrapped", "exact"),
        constraint=choose("none", "none", "montel", "montel_paper"),
        decoder=decoder,
        outputs=int(rng.integers(1, 12)),
        last=int(rng.integers(1, min(length, 6) + 1)),
    )
    if slow:
        options["constraint"] = "none"
    case = Case(f"export_{number}", batch=2, **options)
    if slow:
        left = rng.uniform(0.15, 0.9)
        with torch.no_grad():
            for block in case.model.blocks:
                for row in block.layer.a:
                    if order % 2 == 0 and order <= 8:
                        row.copy_(slow_denominator(rng, order, length, left).float())
                    else:  # all poles on one circle
                        row.zero_()
                        row[-1] = float(choose(-1, 1)) * left ** (order / length)
    return case, slow


@pytest.mark.parametrize("type", ["float32", "float64"])
@pytest.mark.parametrize("part", range(10))
def test_runtime_equals_convolution(model_runner, tmp_path, part, type):
    for number in range(part * MODELS // 10, (part + 1) * MODELS // 10):
        case, slow = random_case(number)
        samples, o = case.x.shape[1], case.options
        rng = np.random.default_rng(zlib.crc32(type.encode()) + number)
        split = [int(size) for size in np.diff(np.sort(rng.integers(0, samples + 1, 4)))]
        ends = sorted({1, max(1, samples // 2), samples}) if o["decoder"] == "pool" else [samples]
        file = str(tmp_path / "model.safetensors")
        saved = model_runner(
            case.request(
                type,
                {"do": "export", "file": file, "save": "errors"},
                {"do": "runtime", "file": file, "save": "runtime", "process": split, "shuffle": number},
                *({"do": "forward", "save": f"forward.{end}", "samples": end} for end in ends),
                *([{"do": "poles", "save": "poles"}] if o["layers"] else []),
            ),
            case.tensors(),
        )
        what = f"model {number}, {o}"
        if slow and o["layers"]:
            assert (saved["poles"][:, 0] ** o["length"] >= 0.1).all(), what
        for end in ends:
            wanted, got = saved[f"forward.{end}"], saved["runtime"]
            if o["decoder"] != "pair":
                got = got[:, end - 1] if wanted.dim() == 2 else got[:, :end][:, -wanted.shape[1] :]
            assert_close(got, wanted, TOLERANCE[type], what)


def test_unstable_layer_is_not_exported(model_runner, tmp_path):
    case = Case("export_unstable", decoder="position", layers=2, order=2, length=256)
    with torch.no_grad():
        case.model.blocks[1].layer.a.copy_(torch.tensor([[-1.5, 0.0]]))
    file = tmp_path / "model.safetensors"
    with pytest.raises(RuntimeError, match=r"\[rtf::export_model\] layer 1: denominator 0 has a pole of modulus 1.5"):
        model_runner(case.request("float32", {"do": "export", "file": str(file), "save": "errors"}), case.tensors())
    assert not file.exists()


@pytest.mark.parametrize("constraint", ["montel", "montel_paper"])
def test_constraints_of_float32_weights_in_float64(model_runner, tmp_path, constraint):
    """Weights that float32 holds, exported in float64: the constraint too is computed there."""
    case = Case(f"export_{constraint}", decoder="position", constraint=constraint, order=4, length=64)
    file = str(tmp_path / "model.safetensors")
    export = {"do": "export", "file": file, "save": "errors", "precision": "f64"}
    model_runner(case.request("float32", export), case.tensors())
    saved = model_runner(case.request("float64", {"do": "runtime", "file": file, "save": "runtime", "process": []}, {"do": "forward", "save": "y"}),
                         case.tensors())  # fmt: skip
    assert_close(saved["runtime"], saved["y"], 1e-12, constraint)


def test_bidirectional_model_is_not_streamed(model_runner, tmp_path):
    case = Case("export_both", decoder="position", bidirectional=True)
    file = str(tmp_path / "model.safetensors")
    exported = {"do": "export", "file": file, "save": "errors"}
    saved = model_runner(case.request("float32", exported), case.tensors())
    assert len(saved["errors"]) == 2 * case.options["layers"]
    with pytest.raises(RuntimeError, match=r"bidirectional"):
        model_runner(case.request("float32", exported, {"do": "runtime", "file": file, "save": "y", "process": []}),
                     case.tensors())  # fmt: skip
