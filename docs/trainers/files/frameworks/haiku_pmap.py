"""Haiku with pmap: a replicated model, gradients averaged with pmean."""

import functools

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax

devices = jax.local_device_count()
network = hk.transform(lambda x: hk.nets.MLP([512, 512, 10])(x))
optimizer = optax.sgd(0.1)


def loss_of(parameters, x, y):
    logits = network.apply(parameters, None, x)
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


@functools.partial(jax.pmap, axis_name="batch")
def update(parameters, state, x, y):
    loss, gradients = jax.value_and_grad(loss_of)(parameters, x, y)
    gradients = jax.lax.pmean(gradients, "batch")
    updates, state = optimizer.update(gradients, state)
    return optax.apply_updates(parameters, updates), state, jax.lax.pmean(loss, "batch")


def replicated(tree):
    return jax.tree.map(lambda leaf: jnp.stack([leaf] * devices), tree)


parameters = network.init(jax.random.key(0), jnp.zeros((1, 64)))
parameters, state = replicated(parameters), replicated(optimizer.init(parameters))
random = np.random.default_rng(0)
for step in range(30):
    x = random.standard_normal((devices, 64, 64), np.float32)
    y = random.integers(0, 10, (devices, 64))
    parameters, state, loss = update(parameters, state, x, y)
    print(f"step {step} loss {float(loss[0]):.4f}", flush=True)
