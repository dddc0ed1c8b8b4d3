"""The baseline layers written out plainly in PyTorch, in float64: dense state spaces whose matrices are multiplied step
after step, and sums. Autograd through it gives the gradients."""

import math

import torch


def as_complex(pairs):
    return torch.view_as_complex(pairs.contiguous())


def whole(half):
    """All states of the half that is stored."""
    return torch.cat([half, half.conj()], -1)


def step_of(weights, options):
    dt = weights["dt"]
    return torch.exp(dt) if options.get("dt_transform", "softplus") == "exp" else torch.log1p(torch.exp(dt))


def channels_of(systems, channels):
    """Contiguous groups of channels share a system."""
    return [systems[i * len(systems) // channels] for i in range(channels)]


def discretize(a, b, dt, way):
    one = torch.eye(len(a), dtype=a.dtype)
    if way == "zoh":
        stepped = torch.linalg.matrix_exp(dt * a)
        return stepped, torch.linalg.solve(a, (stepped - one) @ b)
    stepped = torch.linalg.solve(one - dt / 2 * a, one + dt / 2 * a)
    return stepped, torch.linalg.solve(one - dt / 2 * a, dt * b)


def response(a, b, c, length):
    """c a^t b for t < length."""
    samples = []
    for _ in range(length):
        samples.append(c @ b)
        b = a @ b
    return torch.stack(samples, -1)


def pair_systems(weights, options):
    """(A, B, C, dt) of each direction and channel, continuous, over all states."""
    poles = torch.complex(-torch.exp(weights["a_real"]), -weights["a_imag"])
    channels = options["channels"]
    pole = channels_of(poles, channels)
    b = channels_of(as_complex(weights["b"]), channels)
    p = channels_of(as_complex(weights["p"]).transpose(0, 1), channels) if "p" in weights else [None] * channels
    dt = step_of(weights, options)
    systems = []
    for c in as_complex(weights["c"]):
        for i in range(channels):
            a = torch.diag(whole(pole[i]))
            if p[i] is not None:
                for vector in p[i]:
                    a = a - torch.outer(whole(vector), whole(vector).conj())
            systems.append((a, whole(b[i]), whole(c[i]), dt[i]))
    return systems


def kernels(weights, options, length):
    """(directions, channels, length), the skip term at lag 0 of the first direction."""
    layer, channels = options["layer"], options["channels"]
    directions = 2 if options.get("bidirectional") else 1
    rows = []
    if layer == "spacetime":
        n = options["order"]
        norms = weights["a"].abs().sum(1, keepdim=True)
        last = weights["a"] / (norms if norms.mean() > 1e-4 else 1)
        kernels_of = []
        for a, b, c in zip(last, weights["b"], weights["c"]):
            shift = torch.diag(torch.ones(n - 1, dtype=a.dtype), -1) if n > 1 else torch.zeros(1, 1, dtype=a.dtype)
            companion = torch.cat([shift[:, :-1], (shift[:, -1] + a)[:, None]], 1)
            kernels_of.append(response(companion, b, c, length))
        systems = len(kernels_of) // directions
        for direction in range(directions):
            rows += channels_of(kernels_of[direction * systems : (direction + 1) * systems], channels)
    else:
        for a, b, c, dt in pair_systems(weights, options):
            way = options.get("discretization", "zoh") if layer == "s4d" else "bilinear"
            stepped, b = discretize(a, b, dt, way)
            if layer == "s4":  # c is C (I - A^length)
                one = torch.eye(len(a), dtype=a.dtype)
                c = torch.linalg.solve((one - torch.linalg.matrix_power(stepped, options["length"])).T, c)
            rows.append(response(stepped, b, c, length).real)
    k = torch.stack(rows).unflatten(0, (directions, channels))
    if "d" in weights:
        k[0, :, 0] += weights["d"]
    return k


def convolve(u, k):
    """y[t] = sum_{j <= t} k0[t - j] u[j] + sum_{j > t} k1[j - t - 1] u[j] by the matrix of these sums."""
    length = u.shape[1]
    lag = torch.arange(length)[:, None] - torch.arange(length)
    matrix = torch.where(lag >= 0, k[0][:, lag.clamp(min=0)], 0)
    if len(k) > 1:
        matrix = matrix + torch.where(lag < 0, k[1][:, (-lag - 1).clamp(min=0)], 0)
    return torch.einsum("ctj,bjc->btc", matrix, u)


def s5(u, weights, options):
    """x = z x + b u, y = 2 Re(c x) + d u, sample after sample, and once more from the end."""
    real = weights["a_real"].clamp(max=-1e-4) if options.get("clip") else weights["a_real"]
    poles = torch.complex(real, weights["a_imag"])
    z = torch.exp(poles * torch.exp(weights["dt"]))
    b = as_complex(weights["b"]) * ((z - 1) / poles)[:, None]
    y = weights["d"] * u if "d" in weights else torch.zeros_like(u)
    for direction, c in enumerate(as_complex(weights["c"])):
        x, answers = torch.zeros(len(u), len(z), dtype=z.dtype), []
        samples = u.flip(1) if direction else u
        for t in range(u.shape[1]):
            x = z * x + samples[:, t].to(z.dtype) @ b.T
            answers.append(2 * (x @ c.T).real)
        one = torch.stack(answers, 1)
        y = y + (one.flip(1) if direction else one)
    return y


def layer(u, weights, options):
    if options["layer"] == "s5":
        return s5(u, weights, options)
    return convolve(u, kernels(weights, options, u.shape[1]))


def legs_frequencies(n):
    """Imaginary parts of the eigenvalues of A + p p^T that are negative, in order; built entry by entry."""
    a = torch.zeros(n, n, dtype=torch.float64)
    for i in range(n):
        for j in range(i + 1):
            a[i, j] = -(i + 1) if i == j else -math.sqrt((2 * i + 1) * (2 * j + 1))
    p = torch.sqrt(torch.arange(n, dtype=torch.float64) + 0.5)
    values = torch.linalg.eigvals(a + torch.outer(p, p))
    assert torch.allclose(values.real, torch.full((n,), -0.5, dtype=torch.float64), atol=1e-8)
    return values.imag[values.imag < 0].sort().values
