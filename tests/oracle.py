"""The other side of the comparison: filters drawn at random, and NumPy and SciPy computing with them."""

import json
from dataclasses import dataclass

import numpy as np
from scipy import signal


@dataclass
class Filter:
    a: np.ndarray  # (groups, order)
    b: np.ndarray  # (channels, order)
    h0: np.ndarray  # (channels)
    length: int | None = None

    @property
    def channels(self):
        return len(self.h0)

    @property
    def order(self):
        return self.b.shape[1]

    def denominator(self, channel):
        """1, a1, ..., an of this channel."""
        group = channel // (self.channels // len(self.a))
        return np.concatenate([[1.0], self.a[group]])

    def numerator(self, channel):
        """h0 A + B, SciPy's numerator."""
        return self.h0[channel] * self.denominator(channel) + np.concatenate([[0.0], self.b[channel]])


def step_up(reflection):
    """Levinson's recursion: the denominator with these reflection coefficients, stable when all are inside (-1, 1)."""
    a = np.array([1.0])
    for k in reflection:
        a = np.append(a, 0.0)
        a = a + k * a[::-1]
    return a[1:]


def draw_denominator(rng, order, kinds=(0, 1, 2)):
    """By reflection coefficients (0), Montel scaling (1) or as 1 - r w^n (2)."""
    if order == 0:
        return np.zeros(0)
    kind = rng.choice(kinds)
    if kind == 0:
        size = np.minimum(0.9, 1.5 / np.sqrt(np.arange(1, order + 1)))
        return step_up(rng.uniform(-size, size))
    if kind == 1:
        a = rng.uniform(-1, 1, order)
        return a / np.abs(a).sum() * rng.uniform(0.3, 0.99)
    a = np.zeros(order)
    a[-1] = rng.choice([-1, 1]) * rng.uniform(0.5, 0.95)
    return a


def draw_filter(rng, channels, groups, order, length=None, kinds=(0, 1, 2)):
    return Filter(
        np.array([draw_denominator(rng, order, kinds) for _ in range(groups)]).reshape(groups, order),
        rng.standard_normal((channels, order)),
        rng.standard_normal(channels),
        length,
    )


def draw_sizes(rng):
    """Channels, groups, order and length; odd, prime and length 1, and orders below, at and above the length."""
    groups = int(rng.integers(1, 4))
    channels = groups * int(rng.integers(1, 4))
    length = int(rng.choice([1, 2, 3, 5, 8, 17, 64, 97, 100, 255, 512, 1009]))
    order = int(rng.choice([0, 1, 2, 3, 7, 16, 33, length - 1, length, length + 1, length + 5]))
    return channels, groups, min(order, 120), length


def save_json(path, f):
    content = {"a": f.a.tolist(), "b": f.b.tolist(), "h0": f.h0.tolist()}
    if f.length is not None:
        content["length"] = f.length
    path.write_text(json.dumps(content))
    return path


def load_json(path):
    content = json.loads(path.read_text())
    h0 = np.array(content["h0"], float)
    a = np.array(content["a"], float).reshape(len(content["a"]), -1)
    return Filter(a, np.array(content["b"], float).reshape(len(h0), -1), h0, content.get("length"))


def condition(f, length):
    """kappa = |a|_1 |1/A|_1 over the length, the largest of the channels."""
    impulse = np.zeros(length)
    impulse[0] = 1
    denominators = [f.denominator(c) for c in range(f.channels)]
    return max(np.abs(d).sum() * np.abs(signal.lfilter([1.0], d, impulse)).sum() for d in denominators)


def tolerance(kappa, dtype):
    return 1e-5 * max(1, kappa / 1e2) if dtype == "f32" else 1e-10 * max(1, kappa / 1e6)


def assert_close(actual, expected, kappa=1.0, dtype="f64"):
    assert actual.shape == expected.shape
    if expected.size:
        error = np.abs(actual - expected).max() / max(np.abs(expected).max(), 1e-300)
        assert error <= tolerance(kappa, dtype), f"relative error {error:.3g}, condition {kappa:.3g}"


def exact_kernel(f, length):
    impulse = np.zeros(length)
    impulse[0] = 1
    return np.array([signal.lfilter(f.numerator(c), f.denominator(c), impulse) for c in range(f.channels)])


def fold(coefficients, length):
    """Coefficients of w^j added up modulo w^length = 1."""
    folded = np.zeros(length)
    np.add.at(folded, np.arange(len(coefficients)) % length, coefficients)
    return folded


def wrapped_kernel(f, length):
    """Algorithm 1: division of two transforms."""
    rows = []
    for c in range(f.channels):
        b = np.concatenate([[0.0], f.b[c]])
        spectrum = np.fft.fft(fold(b, length)) / np.fft.fft(fold(f.denominator(c), length)) + f.h0[c]
        rows.append(np.fft.ifft(spectrum).real)
    return np.array(rows)


def dense_correction(f):
    """C (I - A^L) = b by a dense solve, and h0 + C A^(L-1) B."""
    n = f.order
    b, h0 = np.zeros_like(f.b), f.h0.copy()
    for c in range(f.channels if n else 0):
        companion = np.eye(n, k=-1)
        companion[0] = -f.denominator(c)[1:]
        before = np.linalg.matrix_power(companion, f.length - 1)
        b[c] = np.linalg.solve((np.eye(n) - before @ companion).T, f.b[c])
        h0[c] += b[c] @ before[:, 0]
    return Filter(f.a, b, h0)


def filter_channel(f, c, u, state):
    """y and the final state from the companion state x = (v_-1, ..., v_-n), A(w) V = U, through lfiltic."""
    n = f.order
    numerator, denominator = f.numerator(c), f.denominator(c)
    if n == 0:
        return numerator[0] * u, state
    # With v = 0 before -n, the past of u and y that lfiltic wants follows from v: u = A v, y = N v.
    past = np.concatenate([state, np.zeros(n)])
    u_past = [denominator @ past[k : k + n + 1] for k in range(n)]
    y_past = [numerator @ past[k : k + n + 1] for k in range(n)]
    y, _ = signal.lfilter(numerator, denominator, u, zi=signal.lfiltic(numerator, denominator, y_past, u_past))
    v, _ = signal.lfilter([1.0], denominator, u, zi=signal.lfiltic([1.0], denominator, state))
    return y, np.concatenate([state[::-1], v])[-n:][::-1]


def filter_signal(f, u, state=None):
    """u (batch, length, channels), state (batch, channels, order): y and the final state."""
    if state is None:
        state = np.zeros((len(u), f.channels, f.order))
    y, final = np.empty(u.shape), np.empty(state.shape)
    for s in range(len(u)):
        for c in range(f.channels):
            y[s, :, c], final[s, c] = filter_channel(f, c, u[s, :, c].astype(float), state[s, c].astype(float))
    return y, final


def convolve(kernel, u):
    """The direct causal sum, (channels, length) with (batch, length, channels)."""
    length = u.shape[1]
    y = np.zeros(u.shape)
    for t in range(length):
        for j in range(t + 1):
            y[:, t] += kernel[:, t - j] * u[:, j]
    return y
