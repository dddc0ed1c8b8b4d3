"""Algorithm 1 and S5 as JAX users run them: one jitted function each, the S5 layer by associative scan.

jax_layer.py time|memory: reads a list of jobs from standard input, as JSON, and writes one JSON line a job, in the
order in which they are done. A job is {"layer": "rtf"|"s5", "batch", "length", "channels", "order", "pass", "seconds"};
one that fails says so in its line, and the others go on. Matrix products in TF32.
"""

import concurrent.futures
import json
import os
import statistics
import sys
import time

# More at once disturb each other where the compiler measures variants on the GPU.
COMPILERS = 4

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
if sys.argv[1:] == ["memory"]:  # the compiler's own measurements would count as well
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_gpu_autotune_level=0"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402


def rtf(parameters, u):
    """Algorithm 1, then the zero-padded convolution; u (batch, channels, length)."""
    length = u.shape[-1]
    a = jnp.pad(parameters["a"], ((0, 0), (1, 0)), constant_values=1.0)
    b = jnp.pad(parameters["b"], ((0, 0), (1, 0)))
    spectrum = jnp.fft.rfft(b, length) / jnp.fft.rfft(a, length) + parameters["h0"][:, None]
    k = jnp.fft.rfft(jnp.fft.irfft(spectrum, length), 2 * length)
    return jnp.fft.irfft(jnp.fft.rfft(u, 2 * length) * k, 2 * length)[..., :length]


def rtf_parameters(key, channels, order):
    """sum |a| = 0.9: stable for every order."""
    keys = jax.random.split(key, 3)
    a = jax.random.uniform(keys[0], (channels, order), minval=-1.0)
    return {
        "a": 0.9 * a / jnp.abs(a).sum(-1, keepdims=True),
        "b": jax.random.normal(keys[1], (channels, order)) / order**0.5,
        "h0": jax.random.normal(keys[2], (channels,)),
    }


def compose(earlier, later):
    """Two steps of x <- a x + b as one."""
    a0, b0 = earlier
    a1, b1 = later
    return a1 * a0, a1 * b0 + b1


def s5(parameters, u):
    """A diagonal complex state of which one of each conjugate pair is kept, every channel in and out; u (batch, length,
    channels). Zero-order hold, as in the published layer."""
    eigenvalues = parameters["eigenvalues"]
    transition = jnp.exp(eigenvalues * jnp.exp(parameters["log_step"]))
    enter = ((transition - 1) / eigenvalues)[:, None] * parameters["enter"]

    def sequence(u):
        steps = transition * jnp.ones((u.shape[0], transition.shape[0]))
        _, x = jax.lax.associative_scan(compose, (steps, jax.vmap(lambda sample: enter @ sample)(u)))
        return 2 * jax.vmap(lambda state: (parameters["leave"] @ state).real)(x) + parameters["skip"] * u

    return jax.vmap(sequence)(u)


def s5_parameters(key, channels, order):
    """`order` counts the whole state; half of it is kept."""
    kept = order // 2
    keys = jax.random.split(key, 6)

    def complex_normal(one, two, shape):
        return (jax.random.normal(one, shape) + 1j * jax.random.normal(two, shape)) / (2 * order) ** 0.5

    return {
        "eigenvalues": -0.5 + 1j * jnp.pi * jnp.arange(kept, dtype=jnp.float32),
        "enter": complex_normal(keys[0], keys[1], (kept, channels)),
        "leave": complex_normal(keys[2], keys[3], (channels, kept)),
        "skip": jax.random.normal(keys[4], (channels,)),
        "log_step": jax.random.uniform(keys[5], (kept,), minval=jnp.log(1e-3), maxval=jnp.log(0.1)),
    }


LAYERS = {"rtf": (rtf, rtf_parameters), "s5": (s5, s5_parameters)}


def describe(job):
    """The function of a job and the shapes of its arguments."""
    layer, make_parameters = LAYERS[job["layer"]]
    batch, length, channels, order = (job[name] for name in ("batch", "length", "channels", "order"))
    shape = (batch, channels, length) if job["layer"] == "rtf" else (batch, length, channels)

    def arguments(key):
        keys = jax.random.split(key, 3)
        values = (make_parameters(keys[0], channels, order), jax.random.normal(keys[1], shape))
        return (*values, jax.random.normal(keys[2], shape)) if job["pass"] == "forward_backward" else values

    def forward_backward(parameters, u, y_gradient):
        y, backward = jax.vjp(layer, parameters, u)
        return y, backward(y_gradient)

    return layer if job["pass"] == "forward" else forward_backward, arguments


def compile_job(job):
    """The job's function, and the one that draws its arguments."""
    function, arguments = describe(job)
    key = jax.random.key(0)
    shapes = jax.eval_shape(arguments, key)
    with jax.default_matmul_precision("tensorfloat32"):
        return jax.jit(function).lower(*shapes).compile(), jax.jit(arguments).lower(key).compile()


def attempt(call, *arguments):
    """What a job's part returns, and None; or None, and what to say of its failure."""
    try:
        return call(*arguments), None
    except Exception as error:
        if is_out_of_memory(error):
            return None, {"out_of_memory": True}
        message = (str(error) or type(error).__name__).splitlines()[0]
        print(f"jax: a job failed: {message}", file=sys.stderr)
        return None, {"error": message}


def milliseconds(call, seconds):
    """The median of rounds of calls that wait for their results once a round, so that dispatch is not what is timed."""

    def elapsed(calls):
        start = time.perf_counter()
        for _ in range(calls):
            result = call()
        jax.block_until_ready(result)
        return 1e3 * (time.perf_counter() - start) / calls

    first = elapsed(1)
    elapsed(10 if first < 50 else 2)
    once = elapsed(1)
    calls = max(1, min(20, int(10 / once)))
    rounds = max(3, min(100, int(1e3 * seconds / (once * calls))))
    return statistics.median(elapsed(calls) for _ in range(rounds))


def is_out_of_memory(error):
    return "RESOURCE_EXHAUSTED" in str(error) or "out of memory" in str(error).lower()


def time_job(job, compiled, arguments):
    return {"ms": milliseconds(lambda: compiled(*arguments), job["seconds"])}


def planned_bytes(compiled):
    plan = compiled.memory_analysis()
    return plan.argument_size_in_bytes + plan.output_size_in_bytes + plan.temp_size_in_bytes


def memory_job(job, compiled, arguments):
    """The peak of all that the process holds. It never falls, so jobs come in the order of their plans."""
    jax.block_until_ready(compiled(*arguments))
    peak = jax.devices()[0].memory_stats()["peak_bytes_in_use"]
    return {"peak_bytes": peak, "planned_bytes": planned_bytes(compiled)}


def main(mode):
    jobs = json.load(sys.stdin)
    start = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(COMPILERS) as pool:
        compiled = list(pool.map(lambda job: attempt(compile_job, job), jobs))
    print(f"jax {jax.__version__} on {jax.devices()[0].device_kind}: {len(jobs)} functions compiled in "
          f"{time.perf_counter() - start:.0f} s", file=sys.stderr)  # fmt: skip

    def measure(index):
        function, arguments = compiled[index][0]
        return (memory_job if mode == "memory" else time_job)(jobs[index], function, arguments(jax.random.key(1)))

    order = range(len(jobs))
    if mode == "memory":
        order = sorted(order, key=lambda index: planned_bytes(compiled[index][0][0]) if compiled[index][0] else 0)
    for index in order:
        failure = compiled[index][1]
        if failure is None:
            result, failure = attempt(measure, index)
        print(json.dumps({**jobs[index], **(failure or result)}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
