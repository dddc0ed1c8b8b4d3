"""torchaudio's lfilter, where torchaudio is installed: the recurrence, one thread a row."""

import torch

try:
    from torchaudio.functional import lfilter
except ImportError:
    lfilter = None


def call(a, b, h0, u):
    """u (batch, channels, length) through a filter each, a and b (channels, order); H = h0 + B/A as one quotient."""
    if lfilter is None:
        raise RuntimeError("torchaudio is not installed")
    denominator = torch.nn.functional.pad(a, (1, 0), value=1.0)
    numerator = h0[:, None] * denominator + torch.nn.functional.pad(b, (1, 0))
    return lambda: lfilter(u, denominator, numerator, clamp=False, batching=True)
