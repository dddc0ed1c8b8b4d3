"""The released layer, written down anew (bench/peers/torch_layer.py), and rtf.RTF with the same numbers."""

import numpy as np
import rtf
from torch_half import need_torch_half

torch = need_torch_half()

from torch_layer import ReleasedLayer, step  # noqa: E402

BOUND = 1e-5  # of float32, relative to the largest value


def largest(x):
    return float(x.detach().abs().max())


def error(got, wanted):
    """Relative to the largest value."""
    return largest(got.double() - wanted.double()) / largest(wanted)


def slow_denominator(rng, order, length):
    """A pair of poles that keeps half of itself over the length; the others decay faster. Order 2 or 4."""
    radii = np.array([0.5 ** (1 / length), 0.7])[: order // 2]
    poles = radii * np.exp(1j * rng.uniform(0.3, 2.8, order // 2))
    return np.poly([*poles, *poles.conj()]).real[1:]


def state_dict(d_model, state_size, trunc_len, num_a=None, bidirectional=False, slow=False):
    """As the released class saves it. Denominators have |a|_1 = 0.9, unless poles are to be slow."""
    rng = np.random.default_rng([d_model, state_size, trunc_len])
    sides = 2 if bidirectional else 1
    a = rng.standard_normal((sides * (num_a or d_model), state_size))
    a *= 0.9 / np.abs(a).sum(1, keepdims=True)
    if slow:
        a = np.stack([slow_denominator(rng, state_size, trunc_len) for _ in a])
    b, h_0 = rng.standard_normal((sides * d_model, state_size)), rng.standard_normal(sides * d_model)
    return {"ab": torch.tensor(np.concatenate((a, b))).float(), "h_0": torch.tensor(h_0).float()}


def pair(*sizes, quirks="none", slow=False, **options):
    """The released layer and ours with the same numbers."""
    numbers = state_dict(*sizes, slow=slow, **options)
    theirs, ours = ReleasedLayer(*sizes, **options), rtf.RTF(*sizes, quirks=quirks, **options)
    for layer in (theirs, ours):
        assert layer.load_state_dict(numbers, strict=True).missing_keys == []
    return theirs, ours


def samples(batch, length, channels, seed=1):
    return torch.tensor(np.random.default_rng(seed).standard_normal((batch, length, channels))).float()


def direct_sums(k, u):
    """y_t = sum_{j <= t} k_f[t-j] u_j + sum_{j > t} k_b[j-t-1] u_j in double, k in the layout of get_k."""
    length = u.shape[1]
    forward, backward = k.double()[:, :length], k.double()[:, length:].flip(1)
    y = torch.zeros(u.shape, dtype=torch.float64)
    for t in range(length):
        for j in range(length):
            tap = forward[:, t - j] if j <= t else (backward[:, j - t - 1] if backward.numel() else 0.0)
            y[:, t] += tap * u[:, j].double()
    return y


def stepped(layer):
    """The kernel of a released layer by its recurrence."""
    a, b, x, k = layer.repeat(layer.a), layer.get_C(), torch.zeros(1, layer.channels, layer.order), []
    for t in range(layer.length):
        y, x = step(torch.full((1, layer.channels), float(t == 0)), x, a, b, layer.h_0)
        k.append(y[0])
    return torch.stack(k, 1)
