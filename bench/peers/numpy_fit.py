"""The fits of rtf fit as one writes them with NumPy and SciPy: dense SVD, lstsq, lfilter."""

import numpy
import scipy.linalg
import scipy.signal


def responses(samples, a):
    """1/A delayed by 0..n-1, one a column, for as many samples."""
    impulse = numpy.zeros(len(samples))
    impulse[0] = 1
    g = scipy.signal.lfilter([1.0], numpy.concatenate([[1.0], a]), impulse)
    return scipy.linalg.toeplitz(g, numpy.zeros(len(a)) + g[0] * (numpy.arange(len(a)) == 0))


def with_numerator(samples, a):
    columns = responses(samples, a)
    b = numpy.linalg.lstsq(columns, samples, rcond=None)[0]
    error = numpy.linalg.norm(samples - columns @ b) / numpy.linalg.norm(samples)
    return error if numpy.isfinite(error) else numpy.inf, a, b


def stable(a):
    return numpy.abs(numpy.roots(numpy.concatenate([[1.0], a]))).max() < 1


def reflected(a):
    poles = numpy.roots(numpy.concatenate([[1.0], a]))
    outside = numpy.abs(poles) > 1
    poles[outside] = 1 / poles[outside].conj()
    return numpy.poly(poles).real[1:]


def hankel(samples, order):
    """Balanced truncation of the samples, and ERA on the square part that they fill; the better in l2."""
    fits = []
    u, _, _ = numpy.linalg.svd(scipy.linalg.hankel(samples))
    u = u[:, :order]
    fits.append(numpy.poly(numpy.linalg.eigvals(u[:-1].T @ u[1:])).real[1:])
    half = (len(samples) + 1) // 2
    u, _, _ = numpy.linalg.svd(scipy.linalg.hankel(samples[:half], samples[half - 1 : 2 * half - 1]))
    u = u[:, :order]
    fits.append(numpy.poly(numpy.linalg.eigvals(numpy.linalg.lstsq(u[:-1], u[1:], rcond=None)[0])).real[1:])
    fits = [a if stable(a) else reflected(a) for a in fits]
    return min((with_numerator(samples, a) for a in fits), key=lambda fit: fit[0])


def prony(samples, order):
    rows = scipy.linalg.toeplitz(samples[order - 1 : -1], samples[order - 1 :: -1])
    a = numpy.linalg.lstsq(rows, -samples[order:], rcond=None)[0]
    return with_numerator(samples, a if stable(a) else reflected(a))


def iterative(samples, order, most_steps=50):
    """Levenberg-Marquardt on a, the numerator eliminated, from the better of the two."""
    error, a, b = min(hankel(samples, order), prony(samples, order), key=lambda fit: fit[0])
    damping, slow = 1e-3, 0
    for _ in range(most_steps):
        q, _ = numpy.linalg.qr(responses(samples, a))
        model = q @ (q.T @ samples)
        filtered = -scipy.signal.lfilter([1.0], numpy.concatenate([[1.0], a]), model)
        jacobian = scipy.linalg.toeplitz(numpy.concatenate([[0.0], filtered[:-1]]), numpy.zeros(order))
        jacobian -= q @ (q.T @ jacobian)
        triangle = numpy.linalg.qr(numpy.column_stack([jacobian, samples - model]), mode="r")[:order]
        r, z = triangle[:, :order], triangle[:, order]
        scale = numpy.linalg.norm(r) / numpy.sqrt(order)
        for trial in range(10):
            rows = numpy.vstack([r, numpy.sqrt(damping) * scale * numpy.eye(order)])
            change = numpy.linalg.lstsq(rows, numpy.concatenate([z, numpy.zeros(order)]), rcond=None)[0]
            candidate = a + change
            if not stable(candidate):
                candidate = reflected(candidate)
            fit = with_numerator(samples, candidate)
            if fit[0] < error and stable(candidate):
                damping *= 0.2 if trial == 0 else 1.0
                break
            damping *= 5
        else:
            break
        slow = slow + 1 if fit[0] ** 2 > (1 - 1e-4) * error**2 else 0
        error, a, b = fit
        if slow == 2:
            break
    return error, a, b


METHODS = {"hankel": hankel, "prony": prony, "iterative": iterative}
