"""Plain JAX and Optax: a mesh over all devices, the batch divided, parameters sharded (FSDP)."""

import jax
import jax.numpy as jnp
import optax
from jax.sharding import AxisType, NamedSharding, PartitionSpec

mesh = jax.make_mesh((jax.device_count(),), ("data",), axis_types=(AxisType.Auto,))
sharded, whole = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())
keys = jax.random.split(jax.random.key(0), 4)
parameters = [jax.device_put(jax.random.normal(key, (512, 512)) / 23, sharded) for key in keys]
optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))
state = jax.jit(optimizer.init)(parameters)


@jax.jit
def train_step(parameters, state, x):
    def loss_of(parameters):
        y = x
        for weights in parameters:
            y = jax.lax.with_sharding_constraint(jax.nn.gelu(y @ weights), sharded)
        return jnp.mean((y - x) ** 2)

    loss, gradients = jax.value_and_grad(loss_of)(parameters)
    updates, state = optimizer.update(gradients, state, parameters)
    return optax.apply_updates(parameters, updates), state, loss


for step in range(30):
    x = jax.device_put(jax.random.normal(jax.random.key(step), (1024, 512)), sharded)
    parameters, state, loss = train_step(parameters, state, x)
    print(f"step {step} loss {loss:.4f}", flush=True)
