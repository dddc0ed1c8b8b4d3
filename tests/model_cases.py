"""Models, weights and inputs that are the same for the C++ model and for reference_model.py, and how results are
compared."""

import zlib

import numpy as np
import reference_model as reference
import torch

BOTH = dict(bidirectional=True)


def options_of(**options):
    return {**reference.DEFAULTS, "init": "zero", "initial_gain": "paper", "seed": 1, **options}


class Case:
    """A model, its weights and an input, the same on both sides. Both start from float32 numbers, so that the float32
    model can be held against a float64 reference."""

    def __init__(self, name, batch=3, samples=None, lengths=None, drop=reference.no_drop, **options):
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        self.model = reference.SequenceModel(drop=drop, **options).double()
        o = self.model.o
        self.options = options_of(**o)
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
        terms_by_feature = model.encoder.output.grad.abs(), model.encoder.input.abs()
        sizes["encoder.weight"] = torch.einsum("blc,blf->cf", *terms_by_feature)
    sizes.update({name + ".bias": linear.output.grad.abs().sum((0, 1)) for name, linear in terms.items()})
    return {name: float(size.max()) for name, size in sizes.items()}


def check_gradients(case, saved, tolerance):
    sizes = cancelled(case.model)
    for name, parameter in case.model.named_parameters():
        wanted = parameter.grad
        scale = max(float(wanted.abs().max()), sizes.get(name, 0))
        assert_close(saved["gradient." + name], wanted, tolerance, f"gradient of {name}", scale)


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


# Relative to the largest value of the tensor compared.
TOLERANCE = {"float32": 1e-5, "float64": 1e-10}

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
    # Pooling after batch norm leaves six layers' gradients so small that float32 could not show 1e-5 of them.
    "six_layers": dict(layers=6, channels=12, order=6, length=50, decoder="position", **BOTH),
    "long": dict(batch=2, layers=4, channels=32, order=64, length=1024, norm="layer", decoder="last", last=512),
    "one_channel": dict(channels=1, norm="batch", decoder="position"),
}


def compare(model_runner, case, type, device="cpu", **backward):
    """Evaluation, then a training pass with its gradients and what batch norm keeps of it, against the reference."""
    model, tensors = case.model, case.tensors()
    model.eval()
    evaluated = model(case.x, case.lengths)
    model.train()
    output = model(case.x, case.lengths)
    tensors["gradient"] = loss_gradient(output).float().double()
    (output * tensors["gradient"]).sum().backward()

    request = case.request(type, {"do": "forward", "save": "evaluated"}, {"do": "backward", **backward})
    saved = model_runner({**request, "device": device}, tensors)
    assert_close(saved["evaluated"], evaluated, TOLERANCE[type], "output in evaluation mode")
    assert_close(saved["output"], output, TOLERANCE[type], "output in training mode")
    check_gradients(case, saved, TOLERANCE[type])
    for key, tensor in model.state_dict().items():
        if "running" in key:
            assert_close(saved["weights." + key], tensor, TOLERANCE[type], key)
