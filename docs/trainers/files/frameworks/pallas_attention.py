"""Pallas attention: JAX's own kernel for the GPU or the TPU that the program runs on."""

import jax
import jax.numpy as jnp
import optax

on_tpu = jax.default_backend() == "tpu"
if on_tpu:
    from jax.experimental.pallas.ops.tpu import flash_attention

    def attention(q, k, v):
        q, k, v = (x.swapaxes(1, 2) for x in (q, k, v))
        return flash_attention.flash_attention(q, k, v, causal=True).swapaxes(1, 2)
else:
    from jax.experimental.pallas.ops.gpu import attention as gpu_attention

    def attention(q, k, v):
        return gpu_attention.mha(q, k, v, segment_ids=None, causal=True)


weights = jax.random.normal(jax.random.key(0), (1024, 3 * 1024), jnp.bfloat16) / 32
optimizer = optax.sgd(1e-3)
state = optimizer.init(weights)


@jax.jit
def train_step(weights, state, x):
    def loss_of(weights):
        q, k, v = jnp.split((x @ weights).reshape(2, 1024, 8, 3 * 128), 3, axis=-1)
        return jnp.mean(attention(q, k, v).astype(jnp.float32) ** 2)

    loss, gradients = jax.value_and_grad(loss_of)(weights)
    updates, state = optimizer.update(gradients, state)
    return optax.apply_updates(weights, updates), state, loss


for step in range(10):
    x = jax.random.normal(jax.random.key(step), (2, 1024, 1024), jnp.bfloat16)
    weights, state, loss = train_step(weights, state, x)
    print(f"step {step} loss {loss:.4f}", flush=True)
