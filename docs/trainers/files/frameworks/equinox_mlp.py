"""Equinox: filter_jit around filter_value_and_grad, as in its first example."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

model = eqx.nn.MLP(64, 10, 512, 3, key=jax.random.key(0))
optimizer = optax.adamw(1e-3)
state = optimizer.init(eqx.filter(model, eqx.is_inexact_array))


def loss_of(model: eqx.nn.MLP, x: jax.Array, y: jax.Array) -> jax.Array:
    logits = jax.vmap(model)(x)
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


@eqx.filter_jit
def make_step(model, state, x, y):
    loss, gradients = eqx.filter_value_and_grad(loss_of)(model, x, y)
    updates, state = optimizer.update(gradients, state, eqx.filter(model, eqx.is_inexact_array))
    return loss, eqx.apply_updates(model, updates), state


for step in range(30):
    key = jax.random.key(step)
    x, y = jax.random.normal(key, (256, 64)), jnp.arange(256) % 10
    loss, model, state = make_step(model, state, x, y)
    print(f"step {step} loss {loss:.4f}", flush=True)
