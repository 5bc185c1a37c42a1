"""A flax NNX model on one device, in a plain loop that marks no steps."""

import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx


class Block(nnx.Module):
    def __init__(self, width, rngs):
        self.norm = nnx.LayerNorm(width, rngs=rngs)
        self.up = nnx.Linear(width, 4 * width, rngs=rngs)
        self.down = nnx.Linear(4 * width, width, rngs=rngs)

    def __call__(self, x):
        return x + self.down(nnx.gelu(self.up(self.norm(x))))


class Model(nnx.Module):
    def __init__(self, width, rngs):
        self.embed = nnx.Embed(1024, width, rngs=rngs)
        self.blocks = nnx.List([Block(width, rngs) for _ in range(4)])
        self.head = nnx.Linear(width, 1024, rngs=rngs)

    def __call__(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


@nnx.jit
def train_step(model, optimizer, tokens):
    def loss_fn(model):
        logits = model(tokens[:, :-1])
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

    loss, grads = nnx.value_and_grad(loss_fn)(model)
    optimizer.update(model, grads)
    return loss


model = Model(256, nnx.Rngs(0))
optimizer = nnx.Optimizer(model, optax.adamw(1e-3), wrt=nnx.Param)
random = np.random.default_rng(0)
for step in range(40):
    tokens = jnp.asarray(random.integers(0, 1024, (32, 129)))
    loss = train_step(model, optimizer, tokens)
    print(f"step {step} loss {loss:.4f}", flush=True)
