"""Gradients accumulated in Python: four grad_fn, three accumulate and one apply_fn are a step."""

import jax
import jax.numpy as jnp
import optax

optimizer = optax.adamw(1e-3)
parameters = [jax.random.normal(jax.random.key(n), (512, 512)) / 23 for n in range(4)]
state = optimizer.init(parameters)


@jax.jit
def grad_fn(parameters, x):
    def loss_of(parameters):
        y = x
        for weights in parameters:
            y = jax.nn.gelu(y @ weights)
        return jnp.mean((y - x) ** 2)

    return jax.value_and_grad(loss_of)(parameters)


@jax.jit
def accumulate(left, right):
    return jax.tree.map(jnp.add, left, right)


@jax.jit
def apply_fn(parameters, state, gradients):
    updates, state = optimizer.update(gradients, state, parameters)
    return optax.apply_updates(parameters, updates), state


for step in range(20):
    total = None
    for micro in range(4):
        x = jax.random.normal(jax.random.key(4 * step + micro), (1024, 512))
        loss, gradients = grad_fn(parameters, x)
        total = gradients if total is None else accumulate(total, gradients)
    parameters, state = apply_fn(parameters, state, total)
    print(f"step {step} loss {loss:.4f}", flush=True)
