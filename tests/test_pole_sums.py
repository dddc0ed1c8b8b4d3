"""vandermonde and cauchy, the sums over poles of S4 and S4D: values, gradients, memory, refusals."""

import os
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")


def draws(seed, *shape):
    return torch.tensor(np.random.default_rng([7, seed, *shape]).standard_normal(shape))


@pytest.mark.parametrize("rows, pairs, length", [(1, 1, 1), (3, 2, 7), (2, 32, 2049), (2, 3, 16384)])
def test_vandermonde_values(torch_ops, rows, pairs, length):
    """Against powers in 64 bits of mantissa; relative to the sum of the absolute values, where rounding happens."""
    c = torch.complex(draws(0, rows, pairs), draws(1, rows, pairs))
    log_z = torch.complex(-draws(2, rows, pairs).abs() / length, 3 * draws(3, rows, pairs))
    t = np.arange(length, dtype=np.longdouble)
    exact = 2 * (c.numpy()[..., None] * np.exp(log_z.numpy().astype(np.clongdouble)[..., None] * t)).real.sum(1)
    scale = 2 * c.abs().sum(1).max()
    for type, bound in ((torch.complex128, 1e-10), (torch.complex64, 1e-6)):
        k = torch_ops.vandermonde(c.to(type), log_z, length)
        assert k.shape == (rows, length)
        assert np.abs(k.numpy() - exact).max() < bound * scale


@pytest.mark.parametrize("rows, sums, pairs, points", [(1, 1, 1, 1), (2, 4, 3, 300), (3, 9, 32, 257), (1, 16, 2, 5)])
def test_cauchy_values(torch_ops, rows, sums, pairs, points):
    v = torch.complex(draws(0, rows, sums, pairs), draws(1, rows, sums, pairs))
    poles = torch.complex(-draws(2, rows, pairs).abs() - 0.01, 5 * draws(3, rows, pairs))
    s = 8 * draws(4, points)
    at = 1j * s
    terms = v[..., None] / (at - poles[:, None, :, None]), v.conj()[..., None] / (at - poles.conj()[:, None, :, None])
    exact, scale = sum(terms).sum(2), sum(x.abs() for x in terms).sum(2).max()
    for type, bound in ((torch.complex128, 1e-12), (torch.complex64, 1e-6)):
        assert (torch_ops.cauchy(v.to(type), poles, s) - exact).abs().max() < bound * scale


def test_gradients_of_the_operators(torch_ops):
    for rows, pairs, length in [(1, 1, 1), (2, 3, 9), (1, 2, 40)]:
        c = torch.complex(draws(0, rows, pairs), draws(1, rows, pairs)).requires_grad_()
        log_z = torch.complex(-draws(2, rows, pairs).abs(), draws(3, rows, pairs)).requires_grad_()
        assert torch.autograd.gradcheck(lambda x, y: torch_ops.vandermonde(x, y, length), (c, log_z))
        v = torch.complex(draws(4, rows, 3, pairs), draws(5, rows, 3, pairs)).requires_grad_()
        poles = torch.complex(-draws(6, rows, pairs).abs() - 0.5, draws(7, rows, pairs)).requires_grad_()
        s = draws(8, length)
        assert torch.autograd.gradcheck(lambda x, y: torch_ops.cauchy(x, y, s), (v, poles))
        torch.library.opcheck(torch_ops.vandermonde.default, (c, log_z, length))
        torch.library.opcheck(torch_ops.cauchy.default, (v, poles, s))


def test_the_same_bits_for_every_number_of_threads(torch_ops):
    c, log_z = torch.complex(draws(0, 5, 7), draws(1, 5, 7)), torch.complex(-draws(2, 5, 7).abs() / 999, draws(3, 5, 7))
    s = draws(4, 700)
    answers = []
    before = torch.get_num_threads()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        leaves = [c.clone().requires_grad_(), log_z.clone().requires_grad_()]
        k = torch_ops.vandermonde(*leaves, 5000)
        y = torch_ops.cauchy(leaves[0][:, None], leaves[1], s)
        (k.sum() + y.abs().sum()).backward()
        answers.append([k, y, *(x.grad for x in leaves)])
    torch.set_num_threads(before)
    assert all(torch.equal(x, y) for x, y in zip(*answers))


def test_refusals_of_the_operators(torch_ops):
    c, z = torch.zeros(2, 3, dtype=torch.complex128), torch.zeros(2, 3)
    with pytest.raises(ValueError, match=r"\[rtf::vandermonde\] c and log_z are .*complex tensors"):
        torch_ops.vandermonde(c, z, 4)
    with pytest.raises(ValueError, match=r"\[rtf::vandermonde\] length is 0"):
        torch_ops.vandermonde(c, c, 0)
    with pytest.raises(ValueError, match=r"\[rtf::cauchy\] v, poles and points"):
        torch_ops.cauchy(c, c, torch.zeros(4))
    with pytest.raises(ValueError, match=r"\[rtf::cauchy\] 17 sums; 1 to 16 are possible"):
        torch_ops.cauchy(torch.zeros(1, 17, 3, dtype=torch.complex64), c[:1], torch.ones(4))


MEMORY = """
import resource, sys, torch
torch.ops.load_library(sys.argv[1])
rows, pairs, length = 32, 64, 16384
c = torch.randn(rows, pairs, dtype=torch.complex128, requires_grad=True)
z = torch.complex(-torch.rand(rows, pairs), torch.randn(rows, pairs)).to(torch.complex128).requires_grad_()
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
torch.ops.rtf.vandermonde(c, z, 64).sum().backward()
torch.ops.rtf.cauchy(c[:, None], z, torch.ones(64).double()).abs().sum().backward()
before = peak()
torch.ops.rtf.vandermonde(c, z, length).sum().backward()
torch.ops.rtf.cauchy(c[:, None], z, torch.linspace(0, 9, length // 2).double()).abs().sum().backward()
print(peak() - before, rows * pairs * length * 16, rows * length * 16)
"""


def test_memory_does_not_grow_as_order_times_length(torch_ops):
    """A (pairs x length) matrix for every row would be 512 MiB; results and their gradients are a few times 8 MiB."""
    if os.environ.get("RTF_SANITIZED"):
        pytest.skip("a sanitizer takes memory of its own")
    done = subprocess.run([sys.executable, "-c", MEMORY, os.environ["RTF_TORCH_LIBRARY"]], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    grown, matrix, results = map(int, done.stdout.split())
    assert grown < 16 * results < matrix
