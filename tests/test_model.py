"""The C++ model against reference_model.py: values, gradients, training, streaming."""

import zlib

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import reference_model as reference  # noqa: E402

# Relative to the largest value of the tensor compared.
TOLERANCE = {"float32": 1e-5, "float64": 1e-10}
STREAM_TOLERANCE = {"float32": 1e-4, "float64": 1e-9}


class Case:
    """A model, its weights and an input, the same on both sides. Both start from float32 numbers, so that the float32
    model can be held against a float64 reference."""

    def __init__(self, name, batch=3, samples=None, lengths=None, drop=reference.no_drop, **options):
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        self.model = reference.SequenceModel(drop=drop, **options).double()
        o = self.model.o
        self.options = {**o, "init": "zero", "initial_gain": "paper", "seed": 1}
        samples = samples or o["length"]
        if o["vocabulary"]:
            self.x = torch.tensor(rng.integers(0, o["vocabulary"], (batch, samples)))
        else:
            self.x = self.draw(rng, (batch, samples, o["features"]))
        self.lengths = None if lengths is None else torch.tensor(lengths)
        with torch.no_grad():
            for key, tensor in self.model.state_dict().items():
                tensor.copy_(self.weight(rng, key, tensor.shape).float())
        for module in self.model.modules():
            if isinstance(module, (torch.nn.Linear, reference.Norm)):
                module.register_forward_hook(self.keep)

    @staticmethod
    def draw(rng, shape):
        return torch.tensor(rng.standard_normal(shape).astype(np.float32).astype(np.float64))

    def weight(self, rng, key, shape):
        leaf = key.split(".")[-1]
        value = self.draw(rng, shape)
        if leaf == "a" and self.options["constraint"] == "none":
            return 0.9 * value / value.abs().sum(1, keepdim=True)  # poles inside the circle
        if leaf in ("running_var", "sigma"):
            return value.abs() + 0.5
        if "norm" in key and leaf == "weight":
            return 1 + 0.3 * value
        if len(shape) == 2 and leaf == "weight" and not (key.startswith("encoder") and self.options["vocabulary"]):
            return value / shape[1] ** 0.5
        return 0.5 * value

    @staticmethod
    def keep(module, inputs, output):
        if output.requires_grad:
            output.retain_grad()
        module.input, module.output = inputs[0].detach(), output

    def tensors(self):
        """Input and weights as they are now."""
        found = {"x": self.x, **{"weights." + k: v.clone() for k, v in self.model.state_dict().items()}}
        return found if self.lengths is None else {**found, "lengths": self.lengths}

    def request(self, type, *commands):
        return {"options": self.options, "type": type, "commands": list(commands)}


def assert_close(got, wanted, tolerance, what, scale=None):
    got, wanted = got.detach().double(), wanted.detach().double()
    assert got.shape == wanted.shape, what
    scale = float(wanted.abs().max()) if scale is None else scale
    error = float((got - wanted).abs().max())
    assert error <= tolerance * scale, f"{what}: off by {error / scale:.2e} of the largest value, {scale:.2e}"


BOTH = dict(bidirectional=True)
CASES = {
    # ListOps, Text and Image in small: bidirectional, padded, post- and prenorm
    "postnorm_padded": dict(vocabulary=9, prenorm=False, lengths=[32, 1, 17], **BOTH),
    "prenorm_padded": dict(vocabulary=9, lengths=[5, 32, 31], **BOTH),
    "causal_padded": dict(vocabulary=9, lengths=[20, 3, 27], samples=27),
    "pair": dict(vocabulary=5, decoder="pair", batch=4, lengths=[9, 30, 32, 2], outputs=2, **BOTH),
    "pair_whole": dict(decoder="pair", batch=2, norm="layer"),
    "layer_norm": dict(norm="layer"),
    "layer_norm_post": dict(norm="layer", prenorm=False, lengths=[7, 32, 12], **BOTH),
    "no_norm": dict(norm="none"),
    "no_norm_post": dict(norm="none", prenorm=False),
    "no_residual": dict(residual=False, norm="none", activation="identity", glu=False, layers=1, decoder="position"),
    "last": dict(vocabulary=7, decoder="last", last=5, norm="layer"),
    "position": dict(decoder="position", features=2),
    "position_padded": dict(decoder="position", lengths=[6, 32, 1]),
    "separate_denominators": dict(denominators=8, **BOTH),
    "grouped_denominators": dict(denominators=4),
    "odd_length": dict(length=33, lengths=[33, 8, 21], **BOTH),
    "odd_samples": dict(length=33, samples=19, **BOTH),
    "short_input": dict(samples=7, denominators=2),
    "one_sample": dict(samples=1, norm="layer", **BOTH),
    "order_beyond_length": dict(length=5, order=9),
    "exact": dict(numerator="exact"),
    "exact_both": dict(numerator="exact", denominators=8, length=21, lengths=[21, 1, 16], **BOTH),
    "montel": dict(constraint="montel", denominators=2, **BOTH),
    "montel_paper": dict(constraint="montel_paper"),
    "six_layers": dict(layers=6, channels=12, order=6, length=50, **BOTH),
    "one_channel": dict(channels=1, norm="batch", decoder="position"),
}


def loss_gradient(output, seed=5):
    """What the task's loss sends back: cross-entropy to random classes."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.randint(output.shape[-1], output.shape[:-1], generator=generator)
    output = output.detach().requires_grad_()
    reference.loss(output, target).backward()
    return output.grad


def cancelled(model):
    """The size of the sums whose terms cancel, by parameter. Batch norm takes off any shift and scale ahead of it, so
    that gradients there vanish or nearly do: what rounding leaves is relative to the sum of the absolute terms."""
    if model.o["norm"] != "batch":
        return {}
    terms = {name: module for name, module in model.named_modules() if name.endswith((".output", "norm"))}
    sizes = {}
    if not model.o["vocabulary"]:
        terms["encoder"] = model.encoder
        sizes["encoder.weight"] = torch.einsum("blc,blf->cf", model.encoder.output.grad.abs(), model.encoder.input.abs())
    sizes.update({name + ".bias": linear.output.grad.abs().sum((0, 1)) for name, linear in terms.items()})
    return {name: float(size.max()) for name, size in sizes.items()}


def check_gradients(case, saved, tolerance):
    sizes = cancelled(case.model)
    for name, parameter in case.model.named_parameters():
        wanted = parameter.grad
        scale = max(float(wanted.abs().max()), sizes.get(name, 0))
        assert_close(saved["gradient." + name], wanted, tolerance, f"gradient of {name}", scale)


def compare(model_runner, case, type, **backward):
    """Evaluation, then a training pass with its gradients and what batch norm keeps of it."""
    model, tensors = case.model, case.tensors()
    model.eval()
    evaluated = model(case.x, case.lengths)
    model.train()
    output = model(case.x, case.lengths)
    tensors["gradient"] = loss_gradient(output).float().double()
    (output * tensors["gradient"]).sum().backward()

    saved = model_runner(
        case.request(type, {"do": "forward", "save": "evaluated"}, {"do": "backward", **backward}), tensors
    )
    assert_close(saved["evaluated"], evaluated, TOLERANCE[type], "output in evaluation mode")
    assert_close(saved["output"], output, TOLERANCE[type], "output in training mode")
    check_gradients(case, saved, TOLERANCE[type])
    for key, tensor in model.state_dict().items():
        if "running" in key:
            assert_close(saved["weights." + key], tensor, TOLERANCE[type], key)


@pytest.mark.parametrize("type", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(model_runner, name, type):
    compare(model_runner, Case(name, **CASES[name]), type)


class Masks:
    """The C++ model's dropout masks, read from the operator; whatever they are, they must scale as dropout does."""

    def __init__(self, ops, seed, step=0):
        self.ops, self.seed, self.step = ops, seed, step
        self.drawn = {}

    def __call__(self, x, p, layer, tied):
        mask = self.ops.dropout(torch.ones_like(x), p, torch.tensor([self.seed, self.step]), layer, tied).detach()
        assert ((mask == 0) | ((mask * (1 - p) - 1).abs() < 1e-12)).all()
        if tied:
            assert (mask == mask[:, :1]).all()
        self.drawn[layer] = mask
        return x * mask


@pytest.mark.parametrize("type", ["float32", "float64"])
@pytest.mark.parametrize("tied", [True, False])
def test_dropout(model_runner, torch_ops, tied, type):
    drop = Masks(torch_ops, seed=77, step=5)
    options = dict(dropout=0.3, inner_dropout=0.4, kernel_dropout=0.2, tie_dropout=tied, tie_inner_dropout=not tied)
    case = Case("dropout", drop=drop, vocabulary=9, lengths=[4, 32, 11], **options, **BOTH)
    compare(model_runner, case, type, seed=77, step=5)
    assert sorted(drop.drawn) == [0, 1, 2, 3, 4, 5]  # every place of two layers, each with numbers of its own
    for site in range(3):
        assert (drop.drawn[site] != drop.drawn[3 + site]).any()


def test_dropout_steps_differ(model_runner):
    case = Case("dropout_steps", dropout=0.5, inner_dropout=0.5)
    tensors = {**case.tensors(), "gradient": torch.ones(3, 3)}

    def output(seed, step):
        return model_runner(case.request("float64", {"do": "backward", "seed": seed, "step": step}), tensors)["output"]

    assert torch.equal(output(1, 2), output(1, 2))
    assert not torch.equal(output(1, 2), output(1, 3))
    assert not torch.equal(output(1, 2), output(2, 2))


# The groups of section B.1: a, b and h0 have their own rates; the Montel scalar, norms and biases have the others.
RATES = dict(lr=0.004, weight_decay=0.05, ssm_lr=0.001, ssm_weight_decay=0.01)
TRAINING = {
    # Batch norm takes off what a bias of the encoder adds, in every block and after the last one: zero gradient.
    "prenorm": (dict(decoder="position"), {"encoder.bias"}),
    "postnorm": (dict(vocabulary=9, prenorm=False, lengths=[32, 1, 17], **BOTH), set()),
    "montel": (dict(constraint="montel", norm="layer", denominators=4), set()),
    "exact": (dict(numerator="exact", norm="none", length=15, denominators=2), set()),
    "dropout": (dict(vocabulary=9, dropout=0.2, inner_dropout=0.1, norm="layer", **BOTH), set()),
}


@pytest.mark.parametrize("name", TRAINING)
def test_twenty_steps_of_adamw(model_runner, torch_ops, name):
    options, zero_gradient = TRAINING[name]
    drop = Masks(torch_ops, seed=0)
    case = Case("train_" + name, drop=drop, **options)
    model, tensors, parameters = case.model, case.tensors(), dict(case.model.named_parameters())

    def groups(key):
        ssm = key.split(".")[-1] in ("a", "b", "h0")
        return (RATES["ssm_lr"], RATES["ssm_weight_decay"]) if ssm else (RATES["lr"], RATES["weight_decay"])

    model.train()
    target = tensors["target"] = Case.draw(np.random.default_rng(0), model(case.x, case.lengths).shape)
    model.load_state_dict({key[8:]: value for key, value in tensors.items() if key.startswith("weights.")})
    states = {}
    for drop.step in range(20):
        reference.loss(model(case.x, case.lengths), target).backward()
        for key in zero_gradient:
            assert parameters[key].grad.abs().max() < 1e-14  # a sum of about 100 terms below 0.1
        reference.adamw_step(parameters, states, groups)

    saved = model_runner(case.request("float64", {"do": "train", "steps": 20, **RATES}, {"do": "weights"}), tensors)
    for key, value in parameters.items():
        if key in zero_gradient:
            continue
        assert (value - tensors["weights." + key]).abs().max() > 1e-3, f"{key} did not train"
        assert_close(saved["weights." + key], value, 1e-7, key)


def slow_denominator(rng, order, length, left):
    """Poles of a conjugate pair that keeps `left` of itself over `length` samples; the others decay faster."""
    radii = left ** (1 / length) * np.array([1.0, *rng.uniform(0.3, 0.9, order // 2 - 1)])
    angles = rng.uniform(0.2, 2.9, order // 2)
    poles = radii * np.exp(1j * angles)
    return torch.tensor(np.poly([*poles, *poles.conj()]).real[1:])


def slow_case(name, **options):
    case = Case(name, **options)
    rng, o = np.random.default_rng(7), case.options
    with torch.no_grad():
        for block in case.model.blocks:
            rows = [slow_denominator(rng, o["order"], o["length"], 0.4) for _ in range(len(block.layer.a))]
            block.layer.a.copy_(torch.stack(rows).float())
    return case


STREAMS = {
    "shared": dict(decoder="position"),
    "separate": dict(decoder="position", denominators=8, order=8),
    "tokens": dict(vocabulary=11, decoder="position", norm="layer", denominators=2),
    "postnorm": dict(decoder="position", prenorm=False),
    "odd_length": dict(decoder="position", length=31),
    "exact": dict(decoder="position", numerator="exact"),
    "montel": dict(decoder="position", constraint="montel"),
    "montel_paper": dict(decoder="position", constraint="montel_paper", denominators=4),
    "no_residual": dict(decoder="position", residual=False, norm="none", activation="identity", glu=False, layers=1),
    "last": dict(vocabulary=5, decoder="last", last=6),
    "pool": dict(vocabulary=5),
    "pair": dict(decoder="pair", batch=4),
    "order_beyond_length": dict(decoder="position", length=6, order=9),
}


def check_streaming(model_runner, case, type, *before):
    """Convolution over a prompt = prefill + step = step, whatever the split."""
    samples, o = case.x.shape[1], case.options
    splits = [[], [1], [samples - 1], [samples], [samples // 2], [2, 3], [0, 4]]
    ends = [samples] if o["decoder"] in ("position", "last") else [1, 2, samples // 2, samples - 1, samples]
    saved = model_runner(
        case.request(
            type,
            *before,
            *({"do": "forward", "save": f"forward.{end}", "samples": end} for end in ends),
            *({"do": "stream", "save": f"stream.{i}", "prefill": split} for i, split in enumerate(splits)),
            {"do": "poles", "save": "poles"},
        ),
        case.tensors(),
    )
    for i, split in enumerate(splits):
        for end in ends:
            wanted = saved[f"forward.{end}"]
            got = saved[f"stream.{i}"][:, :end]
            got = got[:, -1] if wanted.dim() == 2 else got[:, -wanted.shape[1] :]
            assert_close(got, wanted, STREAM_TOLERANCE[type], f"prompts of {split}, {end} samples")
    return saved


@pytest.mark.parametrize("type", ["float32", "float64"])
@pytest.mark.parametrize("name", STREAMS)
def test_streaming(model_runner, name, type):
    check_streaming(model_runner, Case("stream_" + name, **STREAMS[name]), type)


@pytest.mark.parametrize("type", ["float32", "float64"])
@pytest.mark.parametrize("name", ["shared", "separate", "postnorm", "odd_length", "no_residual", "pool"])
def test_streaming_slow_poles(model_runner, name, type):
    case = slow_case("slow_" + name, **STREAMS[name])
    saved = check_streaming(model_runner, case, type)
    radius, length = saved["poles"][:, 0], case.options["length"]
    assert (radius**length >= 0.1).any() and (radius < 1).all()
    # Without the correction b is taken for the numerator of the recurrence, and it would show.
    case.model.eval()
    right = case.model(case.x)
    for block in case.model.blocks:
        block.layer.o = {**case.model.o, "numerator": "exact"}
    assert (case.model(case.x) - right).abs().max() > 0.01 * right.abs().max()


@pytest.mark.parametrize("type", ["float32", "float64"])
@pytest.mark.parametrize(
    "name, slow",
    [("shared", False), ("exact", False), ("montel", False), ("shared", True), ("separate", True), ("pool", True)],
)
def test_streaming_trained(model_runner, name, slow, type):
    case = (slow_case if slow else Case)("trained_" + name, **STREAMS[name])
    tensors = case.tensors()
    with torch.no_grad():
        tensors["target"] = 0.1 * torch.ones_like(case.model.eval()(case.x))
    train = {"do": "train", "steps": 10, "lr": 0.01, "weight_decay": 0, "ssm_lr": 1e-3, "ssm_weight_decay": 0}
    saved = model_runner(case.request(type, train, {"do": "weights"}), tensors)
    with torch.no_grad():
        for key, tensor in case.model.state_dict().items():
            assert (saved["weights." + key] != tensor).any(), f"{key} did not train"
            tensor.copy_(saved["weights." + key])
    saved = check_streaming(model_runner, case, type)
    if slow:
        assert (saved["poles"][:, 0] ** case.options["length"] >= 0.1).any()


@pytest.mark.parametrize("sizes", [[32], [8, 8, 8, 8], [1, 30, 1]])
def test_gradients_through_chunks(model_runner, sizes):
    """A sequence in chunks with the state carried on the tape has the gradients of the whole."""
    case = slow_case("chunks", decoder="position", norm="layer", denominators=2)
    tensors = case.tensors()
    output = case.model.train()(case.x)
    tensors["gradient"] = loss_gradient(output)
    (output * tensors["gradient"]).sum().backward()
    saved = model_runner(case.request("float64", {"do": "chunks", "sizes": sizes}), tensors)
    check_gradients(case, saved, STREAM_TOLERANCE["float64"])


@pytest.mark.parametrize("length", [5, 24, 33, 64])
@pytest.mark.parametrize("options", [dict(), dict(denominators=4, **BOTH), dict(numerator="exact")])
def test_set_length(model_runner, length, options):
    """The kernel keeps its samples; past the old length a causal layer goes on as its recurrence does."""
    case = slow_case("set_length", decoder="position", samples=min(length, 32), **options)
    saved = model_runner(
        case.request(
            "float64",
            {"do": "forward", "save": "before"},
            {"do": "set_length", "length": length},
            {"do": "forward", "save": "after"},
            {"do": "weights"},
        ),
        case.tensors(),
    )
    assert_close(saved["after"], saved["before"], 1e-9, f"length 32 -> {length}")
    b = case.model.state_dict()["blocks.0.layer.b"]
    moved = (saved["weights.blocks.0.layer.b"] - b).abs().max()
    assert (moved == 0) if options.get("numerator") == "exact" else (moved > 0.01)


def test_set_length_longer_goes_on(model_runner):
    case = slow_case("longer", decoder="position")
    case.x = Case.draw(np.random.default_rng(3), (2, 70, 1))
    check_streaming(model_runner, case, "float64", {"do": "set_length", "length": 70})


LRA = dict(layers=6, norm="batch", bidirectional=True, decoder="pool")
COUNTS = {
    815162: dict(vocabulary=18, channels=256, order=4, length=2048, prenorm=False, outputs=10, **LRA),
    3564298: dict(channels=512, order=64, length=1024, prenorm=False, outputs=10, **LRA),
    1190402: dict(channels=256, order=64, length=1024, denominators=256, outputs=2, **LRA),
    13380098: dict(channels=256, order=2048, length=16384, denominators=256, outputs=2, **LRA),
}


def options_of(**options):
    return {**reference.DEFAULTS, "init": "zero", "initial_gain": "paper", "seed": 1, **options}


@pytest.mark.parametrize("count", COUNTS)
def test_parameter_counts(model_runner, count):
    request = {"options": options_of(**COUNTS[count]), "type": "float32", "commands": [{"do": "count"}]}
    assert model_runner(request)["count"] == count


def initial_weights(model_runner, **options):
    request = {"options": options_of(**options), "type": "float32", "commands": [{"do": "weights"}]}
    return {key[8:]: value for key, value in model_runner(request).items()}


def test_initial_weights(model_runner):
    options = dict(vocabulary=50, channels=40, order=16, init="xavier", initial_gain="release", decoder="pair")
    weights = initial_weights(model_runner, **options)
    names = {k: v for k, v in options.items() if k in reference.DEFAULTS}
    assert {k: v.shape for k, v in weights.items()} == {
        k: v.shape for k, v in reference.SequenceModel(**names).state_dict().items()
    }
    assert all(torch.equal(v, weights[k]) for k, v in initial_weights(model_runner, **options).items())
    other = initial_weights(model_runner, **{**options, "seed": 2})
    drawn = [k for k in weights if "norm" not in k]
    for i, key in enumerate(drawn):
        assert (weights[key] != other[key]).any(), f"{key} does not depend on the seed"
        for before in drawn[:i]:  # no two share numbers: layers, weights and biases
            n = min(weights[key].numel(), weights[before].numel())
            assert not torch.equal(weights[key].flatten()[:n], weights[before].flatten()[:n]), (key, before)

    embedding = weights["encoder.weight"]  # N(0, 1): five standard errors of mean and variance over 2,000 numbers
    assert abs(embedding.mean()) < 5 / 2000**0.5 and abs(embedding.var() - 1) < 5 * (2 / 2000) ** 0.5
    for key, fan_in in {"blocks.0.output": 40, "decoder.0": 160, "decoder.1": 40}.items():
        for leaf in ("weight", "bias"):
            scaled = weights[f"{key}.{leaf}"] * fan_in**0.5
            assert scaled.abs().max() <= 1 and scaled.abs().max() > 0.8 and scaled.min() < 0 < scaled.max()
    assert weights["blocks.0.layer.a"].abs().max() <= 16**-0.5
    assert all((v == v.new_ones(()) * ("weight" in k or "var" in k)).all() for k, v in weights.items() if "norm" in k)


def test_montel_initial_weights(model_runner):
    weights = initial_weights(model_runner, constraint="montel", denominators=4, **BOTH)
    sigma = weights["blocks.0.layer.sigma"]
    assert sigma.shape == (8,) and (sigma > 0).all() and (sigma < 1).all() and len(set(sigma.tolist())) == 8
    # Zero free numbers cannot be divided by their norm: the last one is 1, which gives a = 0.
    weights = initial_weights(model_runner, constraint="montel_paper", order=3)
    assert weights["blocks.0.layer.a"].tolist() == [[0, 0, 0, 1]]
    weights = initial_weights(model_runner, constraint="montel_paper", order=3, init="uniform_montel")
    assert weights["blocks.0.layer.a"].abs().sum() == pytest.approx(1, abs=1e-6)


def test_poles(model_runner):
    case = Case("poles", layers=3, order=2, denominators=4, length=16)
    pole = {0: [0.5, -0.25, 0.75, 0.1], 1: [0.5, 1.5, 1.0, 0.2], 2: [0.3, float("nan"), 0.2, 0.1]}
    with torch.no_grad():
        for i, poles in pole.items():
            # A = (1 - p w)(1 - w / 16)
            case.model.blocks[i].layer.a.copy_(torch.tensor([[-p - 1 / 16, p / 16] for p in poles], dtype=torch.float64))
    commands = [{"do": "poles", "save": f"most.{most}", "most": most} for most in (0, 1, 2, 9)]
    saved = model_runner(case.request("float64", *commands), case.tensors())
    for all_of in ("most.0", "most.9"):
        assert saved[all_of][:2, 0].tolist() == pytest.approx([0.75, 1.5], rel=1e-11)
        assert saved[all_of][:, 2].tolist() == [0, 2, 1]
        # The points of the transform hold 1, where A = (1 - p) 15/16 is smallest for p in (0, 1].
        assert saved[all_of][:2, 1].tolist() == pytest.approx([0.25 * 15 / 16, 0], abs=1e-14)
        assert torch.isnan(saved[all_of][2, :2]).all()
    assert saved["most.1"][:, 0].tolist() == pytest.approx([0.5, 0.5, 0.3], rel=1e-11)
    assert saved["most.2"][:, 0].tolist() == pytest.approx([0.5, 0.5, 0.3], rel=1e-11)  # the first and the last


FORWARD = {"do": "forward", "save": "y"}
STREAM = {"do": "stream", "save": "y", "prefill": [4]}
BAD = {
    "too_long": (dict(), dict(x=torch.zeros(2, 33, 1)), FORWARD, "33 samples.*1 to 32"),
    "empty": (dict(), dict(x=torch.zeros(2, 0, 1)), FORWARD, "0 samples.*1 to 32"),
    "no_sequence": (dict(), dict(x=torch.zeros(0, 4, 1)), FORWARD, "at least one sequence"),
    "features": (dict(features=2), dict(x=torch.zeros(2, 9, 3)), FORWARD, r"\[2, 9, 3\].*\(batch, length, 2\)"),
    "dimensions": (dict(), dict(x=torch.zeros(2, 9)), FORWARD, r"\[2, 9\]"),
    "token": (dict(vocabulary=4), dict(x=torch.tensor([[0, 4]])), FORWARD, "token 4 .* vocabulary of 4"),
    "negative_token": (dict(vocabulary=4), dict(x=torch.tensor([[-2, 3]])), FORWARD, "token -2 .* vocabulary of 4"),
    "length": (dict(), dict(x=torch.zeros(1, 9, 1), lengths=torch.tensor([10])), FORWARD, "length of 10 .* 9"),
    "no_samples": (dict(), dict(x=torch.zeros(1, 9, 1), lengths=torch.tensor([0])), FORWARD, "length of 0 .* 9"),
    "lengths_count": (dict(), dict(x=torch.zeros(1, 9, 1), lengths=torch.tensor([9, 9])), FORWARD, "lengths"),
    "lengths_last": (
        dict(decoder="last"), dict(x=torch.zeros(1, 9, 1), lengths=torch.tensor([9])), FORWARD, "no lengths",
    ),
    "last_short": (dict(decoder="last", last=9), dict(x=torch.zeros(1, 8, 1)), FORWARD, "8 samples.*last 9"),
    "odd_pair": (dict(decoder="pair"), dict(x=torch.zeros(3, 8, 1)), FORWARD, "3 sequences.*even"),
    "stream_both": (BOTH, dict(x=torch.zeros(1, 8, 1)), STREAM, "bidirectional"),
    "stream_training": (dict(), dict(x=torch.zeros(1, 8, 1)), {**STREAM, "prefill": [], "train": True}, "training"),
    "prefill_training": (dict(), dict(x=torch.zeros(1, 8, 1)), {**STREAM, "train": True}, "make_training_state"),
    "chunks_kernel_dropout": (
        dict(kernel_dropout=0.1), dict(x=torch.zeros(1, 8, 1)), {"do": "chunks", "sizes": [8]}, "kernel dropout",
    ),
    "streams": (dict(), dict(x=torch.zeros(2, 8, 1)), {**STREAM, "streams": 3}, "batch of 2 .* 3 streams"),
    "denominators": (dict(denominators=3), {}, FORWARD, "3 denominators do not divide 8 channels"),
    "channels": (dict(channels=0), {}, FORWARD, "channels is 0"),
    "order": (dict(order=0), {}, FORWARD, "order is 0"),
    "no_length": (dict(length=0), {}, FORWARD, "length is 0"),
    "outputs": (dict(outputs=0), {}, FORWARD, "outputs is 0"),
    "last": (dict(decoder="last", last=33), {}, FORWARD, "last is 33"),
    "dropout": (dict(dropout=1.0), {}, FORWARD, "dropout of 1"),
    "kernel_dropout": (dict(kernel_dropout=-0.5), {}, FORWARD, "kernel_dropout is -0.5"),
    "set_length": (dict(), {}, {"do": "set_length", "length": 0}, "length is 0"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input(model_runner, name):
    options, tensors, command, message = BAD[name]
    request = {"options": options_of(**options), "type": "float32", "commands": [command]}
    with pytest.raises(RuntimeError, match=message) as caught:
        model_runner(request, tensors)
    assert str(caught.value).startswith("[rtf::"), caught.value


def test_unstable_layer_is_not_streamed(model_runner):
    case = Case("unstable", decoder="position", layers=1, order=2, length=256)
    with torch.no_grad():
        case.model.blocks[0].layer.a.copy_(torch.tensor([[-1.5, 0.0]]))
    model_runner(case.request("float64", FORWARD), case.tensors())  # the wrapped kernel is bounded
    with pytest.raises(RuntimeError, match=r"\[rtf::correct\]"):
        model_runner(case.request("float64", STREAM), case.tensors())
