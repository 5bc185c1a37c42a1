"""Tunix's PeftTrainer with a small NNX model, FSDP over all devices."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.sharding import Mesh
from tunix.sft import peft_trainer

WIDTH, WORDS, LENGTH, BATCH, STEPS = 128, 512, 128, 16, 30


def sharded(*axes):
    return nnx.with_partitioning(nnx.initializers.lecun_normal(), axes)


class Block(nnx.Module):
    def __init__(self, rngs):
        self.norm = nnx.RMSNorm(WIDTH, rngs=rngs)
        self.up = nnx.Linear(WIDTH, 4 * WIDTH, rngs=rngs, kernel_init=sharded("fsdp", "tp"))
        self.down = nnx.Linear(4 * WIDTH, WIDTH, rngs=rngs, kernel_init=sharded("tp", "fsdp"))

    def __call__(self, x):
        return x + self.down(nnx.gelu(self.up(self.norm(x))))


class Model(nnx.Module):
    def __init__(self, rngs):
        self.embed = nnx.Embed(WORDS, WIDTH, rngs=rngs)
        self.blocks = nnx.List([Block(rngs) for _ in range(4)])
        self.head = nnx.Linear(WIDTH, WORDS, rngs=rngs)

    def __call__(self, input_tokens, positions=None, cache=None, attention_mask=None):
        x = self.embed(input_tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x), None


def batches():
    random = np.random.default_rng(0)
    for _ in range(STEPS):
        yield peft_trainer.TrainingInput(
            input_tokens=random.integers(0, WORDS, (BATCH, LENGTH)),
            input_mask=np.ones((BATCH, LENGTH), bool),
        )


with jax.set_mesh(Mesh(np.array(jax.devices()).reshape(-1, 1), ("fsdp", "tp"))):
    config = peft_trainer.TrainingConfig(
        eval_every_n_steps=1000, max_steps=STEPS, data_sharding_axis=("fsdp",)
    )
    trainer = peft_trainer.PeftTrainer(Model(nnx.Rngs(0)), optax.adamw(1e-3), config)
    trainer = trainer.with_gen_model_input_fn(
        lambda given: {
            "input_tokens": given.input_tokens,
            "input_mask": given.input_mask,
            "positions": jnp.arange(LENGTH)[None],
            "attention_mask": None,
        }
    )
    trainer.train(batches())
