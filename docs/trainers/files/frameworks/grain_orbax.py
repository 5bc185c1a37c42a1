"""Grain's workers feed a step; Orbax saves a checkpoint every tenth."""

import pathlib
import tempfile

import grain.python as grain
import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
from absl import app


class Source:
    def __len__(self) -> int:
        return 64 * 40

    def __getitem__(self, index: int) -> np.ndarray:
        return np.random.default_rng(index).standard_normal(256, np.float32)


optimizer = optax.adam(1e-3)


@jax.jit
def train_step(parameters, state, x):
    def loss_of(parameters):
        return jnp.mean((jnp.tanh(x @ parameters["in"]) @ parameters["out"] - x) ** 2)

    loss, gradients = jax.value_and_grad(loss_of)(parameters)
    updates, state = optimizer.update(gradients, state)
    return optax.apply_updates(parameters, updates), state, loss


def main(_: list[str]) -> None:
    loader = grain.DataLoader(
        data_source=Source(),
        sampler=grain.IndexSampler(
            64 * 40,
            grain.ShardOptions(0, 1, drop_remainder=True),
            shuffle=True,
            num_epochs=1,
            seed=0,
        ),
        operations=[grain.Batch(64, drop_remainder=True)],
        worker_count=2,
    )
    parameters = {
        "in": jax.random.normal(jax.random.key(0), (256, 1024)) / 16,
        "out": jax.random.normal(jax.random.key(1), (1024, 256)) / 32,
    }
    state = optimizer.init(parameters)
    directory = pathlib.Path(tempfile.mkdtemp()) / "checkpoints"
    with ocp.CheckpointManager(directory) as manager:
        for step, x in enumerate(loader):
            parameters, state, loss = train_step(parameters, state, x)
            print(f"step {step} loss {loss:.4f}", flush=True)
            if step % 10 == 9:
                manager.save(step, args=ocp.args.StandardSave(parameters))


if __name__ == "__main__":
    app.run(main)
