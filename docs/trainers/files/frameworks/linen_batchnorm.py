"""Flax Linen: BatchNorm's statistics in a TrainState."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training import train_state


class Net(nn.Module):
    @nn.compact
    def __call__(self, x, train: bool):
        for width in (32, 64):
            x = nn.Conv(width, (3, 3), strides=2)(x)
            x = nn.relu(nn.BatchNorm(use_running_average=not train)(x))
        return nn.Dense(10)(x.reshape(x.shape[0], -1))


class TrainState(train_state.TrainState):
    batch_stats: Any


net = Net()
variables = net.init(jax.random.key(0), jnp.ones((1, 32, 32, 3)), train=False)
state = TrainState.create(
    apply_fn=net.apply,
    params=variables["params"],
    batch_stats=variables["batch_stats"],
    tx=optax.sgd(0.1, momentum=0.9),
)


@jax.jit
def train_step(state, images, labels):
    def loss_of(parameters):
        logits, changed = state.apply_fn(
            {"params": parameters, "batch_stats": state.batch_stats},
            images,
            train=True,
            mutable=["batch_stats"],
        )
        loss = optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
        return loss, changed

    (loss, changed), gradients = jax.value_and_grad(loss_of, has_aux=True)(state.params)
    return state.apply_gradients(grads=gradients, batch_stats=changed["batch_stats"]), loss


random = np.random.default_rng(0)
for step in range(30):
    images = random.standard_normal((128, 32, 32, 3), np.float32)
    state, loss = train_step(state, images, random.integers(0, 10, 128))
    print(f"step {step} loss {float(loss):.4f}", flush=True)
