"""SciPy's lfilter in float32, in the memory layout that suits it best."""

import numpy
import scipy.signal


def float_coefficients(a, b, h0):
    """H = h0 + B/A as one quotient: numerator and denominator from lag 0 on, in double and in single precision."""
    denominator = numpy.concatenate(([1.0], a))
    numerator = h0 * denominator + numpy.concatenate(([0.0], b))
    return (numerator, denominator), (numerator.astype(numpy.float32), denominator.astype(numpy.float32))


def signals(length, channels):
    """The same samples as every layout that lfilter can run along, each with its axis."""
    x = numpy.random.default_rng(3).standard_normal((length, channels), dtype=numpy.float32)
    if channels == 1:
        return [(x[:, 0].copy(), -1)]
    return [(x, 0), (numpy.ascontiguousarray(x.T), -1)]


def fastest(a, b, h0, length, channels, median_seconds):
    """Seconds of the faster layout, and its error against lfilter in double, relative to the largest value."""
    exact, single = float_coefficients(a, b, h0)
    timed = [
        (median_seconds(lambda: scipy.signal.lfilter(*single, x, axis=axis)), x, axis)
        for x, axis in signals(length, channels)
    ]
    seconds, x, axis = min(timed, key=lambda entry: entry[0])
    y = scipy.signal.lfilter(*single, x, axis=axis)
    reference = scipy.signal.lfilter(*exact, x.astype(numpy.float64), axis=axis)
    assert y.dtype == numpy.float32
    return seconds, float(abs(y - reference).max() / abs(reference).max())
