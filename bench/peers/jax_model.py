"""The paper's backbone in JAX around Algorithm 1: the whole training step is one jitted function with donated buffers.

jax_model.py: reads a list of configs from standard input, as JSON (cuda_training.py has them), trains each on random
data and prints one JSON line a config, {"name", "generator", "ms"}: the median milliseconds of a step after the first
ten. "generator" draws the masks of dropout: "threefry2x32", JAX's own, or "rbg". A config that fails has no "ms".
Activations are (batch, channels, length) throughout, so that no transform needs a transposed copy. Matrix products in
TF32.
"""

import concurrent.futures
import functools
import json
import os
import sys

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax_layer import COMPILERS, attempt, milliseconds  # noqa: E402


def linear(key, inputs, outputs):
    keys = jax.random.split(key)
    bound = inputs**-0.5
    return {
        "weight": jax.random.uniform(keys[0], (outputs, inputs), minval=-bound, maxval=bound),
        "bias": jax.random.uniform(keys[1], (outputs,), minval=-bound, maxval=bound),
    }


def apply_linear(p, x):
    return jnp.einsum("od,bdl->bol", p["weight"], x) + p["bias"][:, None]


def init_norm(channels):
    return {"weight": jnp.ones(channels), "bias": jnp.zeros(channels)}


def init(config, key):
    channels, order = config["channels"], config["order"]
    directions = 2 if config["bidirectional"] else 1
    keys = jax.random.split(key, config["layers"] + 2)

    def block(key):
        return {
            "a": jnp.zeros((directions, config["denominators"], order)),
            "b": jnp.zeros((directions, channels, order)),
            "h0": jax.random.normal(key, (directions, channels)),
            "norm": init_norm(channels),
            "output": linear(key, channels, 2 * channels),
        }

    tokens = config["vocabulary"]
    return {
        "encoder": jax.random.normal(keys[0], (tokens, channels)) if tokens else linear(keys[0], 1, channels),
        "blocks": [block(key) for key in keys[2:]],
        "norm": init_norm(channels),
        "decoder": linear(keys[1], channels, config["outputs"]),
    }  # fmt: skip


def batch_norm(p, x):
    """The statistics of the batch, in one pass as in flax; the running averages, which cost nothing, are left out."""
    mean = x.mean((0, 2), keepdims=True)
    variance = jnp.square(x).mean((0, 2), keepdims=True) - jnp.square(mean)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * p["weight"][:, None] + p["bias"][:, None]


def dropout(key, p, x, tied=False):
    if p == 0:
        return x
    kept = jax.random.bernoulli(key, 1 - p, x.shape[:2] + (1,) if tied else x.shape)
    return jnp.where(kept, x / (1 - p), 0)


def layer(p, u):
    """Algorithm 1, then the padded convolution; the backward kernel ends the circle of the forward one, reversed."""
    length, channels = u.shape[-1], u.shape[1]
    a = jnp.fft.rfft(jnp.pad(p["a"], ((0, 0), (0, 0), (1, 0)), constant_values=1.0), length)
    b = jnp.fft.rfft(jnp.pad(p["b"], ((0, 0), (0, 0), (1, 0))), length)
    a = jnp.repeat(a, channels // a.shape[1], axis=1)
    k = jnp.fft.irfft(b / a + p["h0"][..., None], length)
    if k.shape[0] == 2:
        k = jnp.concatenate((k[0], k[1, :, ::-1]), axis=-1)
    else:
        k = k[0]
    spectrum = jnp.fft.rfft(u, 2 * length) * jnp.fft.rfft(k, 2 * length)
    return jnp.fft.irfft(spectrum, 2 * length)[..., :length]


def block(config, p, x, key):
    inner, outer = jax.random.split(key)
    y = batch_norm(p["norm"], x) if config["prenorm"] else x
    y = dropout(inner, config["inner_dropout"], jax.nn.gelu(layer(p, y), approximate=False))
    value, gate = jnp.split(apply_linear(p["output"], y), 2, axis=1)
    x = x + dropout(outer, config["dropout"], value * jax.nn.sigmoid(gate), tied=True)
    return x if config["prenorm"] else batch_norm(p["norm"], x)


def loss(p, config, inputs, targets, key):
    if config["vocabulary"] > 0:
        x = p["encoder"][inputs].transpose(0, 2, 1)
    else:
        x = apply_linear(p["encoder"], inputs[:, None, :])
    for number, parameters in enumerate(p["blocks"]):
        x = block(config, parameters, x, jax.random.fold_in(key, number))
    if config["prenorm"]:
        x = batch_norm(p["norm"], x)
    x = x[..., -config["last"] :] if config["last"] else x.mean(-1, keepdims=True)
    logits = jax.nn.log_softmax(apply_linear(p["decoder"], x), axis=1)
    return -jnp.take_along_axis(logits, targets[:, None, :], axis=1).mean()


def adamw(p, gradient, first, second, step, lr=1e-3, decay=0.05):
    first = 0.9 * first + 0.1 * gradient
    second = 0.999 * second + 0.001 * jnp.square(gradient)
    update = first / (1 - 0.9**step) / (jnp.sqrt(second / (1 - 0.999**step)) + 1e-8)
    return p - lr * (update + decay * p), first, second


def train_step(config, state, inputs, targets):
    p, first, second, step = state
    step = step + 1
    key = jax.random.fold_in(jax.random.key(0, impl=config["generator"]), step)
    value, gradients = jax.value_and_grad(loss)(p, config, inputs, targets, key)
    updated = jax.tree.map(lambda *leaves: adamw(*leaves, step), p, gradients, first, second)
    p, first, second = jax.tree.transpose(jax.tree.structure(p), jax.tree.structure((0, 0, 0)), updated)
    return (p, first, second, step), value


def init_state(config, key):
    p = init(config, key)
    zeros = jax.tree.map(jnp.zeros_like, p)
    return p, zeros, jax.tree.map(jnp.copy, zeros), jnp.zeros((), jnp.int32)


def draw_data(config, key):
    batch, length, classes = config["batch"], config["length"], config["vocabulary"]
    inputs = (
        jax.random.randint(key, (batch, length), 0, classes) if classes else jax.random.normal(key, (batch, length))
    )
    return inputs, jax.random.randint(key, (batch, config["last"] or 1), 0, config["outputs"])


def compile_step(config):
    """The step, and the functions that draw its state and its data."""
    key = jax.random.key(1)
    draws = [functools.partial(function, config) for function in (init_state, draw_data)]
    state, data = (jax.eval_shape(draw, key) for draw in draws)
    step = jax.jit(functools.partial(train_step, config), donate_argnums=0)
    with jax.default_matmul_precision("tensorfloat32"):
        return step.lower(state, *data).compile(), *(jax.jit(draw).lower(key).compile() for draw in draws)


def measure(config, step, draw_state, draw):
    state, data, value = draw_state(jax.random.key(1)), draw(jax.random.key(2)), None

    def call():
        nonlocal state, value
        state, value = step(state, *data)
        return value

    return {"ms": milliseconds(call, config["seconds"]), "loss": float(value)}


def main():
    configs = json.load(sys.stdin)
    with concurrent.futures.ThreadPoolExecutor(COMPILERS) as pool:
        compiled = list(pool.map(lambda config: attempt(compile_step, config), configs))
    for config, (functions, failure) in zip(configs, compiled):
        result = None
        if failure is None:
            result, failure = attempt(measure, config, *functions)
        print(json.dumps({"name": config["name"], "generator": config["generator"], **(failure or result)}), flush=True)


if __name__ == "__main__":
    main()
