"""An Equinox Transformer, data parallel over all devices, in a plain loop that marks no steps."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

WIDTH, WORDS, BATCH, LENGTH = 128, 1024, 16, 128

mesh = Mesh(np.array(jax.devices()), ("data",))
by_example, everywhere = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())


class Block(eqx.Module):
    attention: eqx.nn.MultiheadAttention
    mlp: eqx.nn.MLP
    before: eqx.nn.LayerNorm
    between: eqx.nn.LayerNorm

    def __init__(self, key):
        for_attention, for_mlp = jax.random.split(key)
        self.attention = eqx.nn.MultiheadAttention(8, WIDTH, key=for_attention)
        self.mlp = eqx.nn.MLP(WIDTH, WIDTH, 4 * WIDTH, 1, key=for_mlp)
        self.before = eqx.nn.LayerNorm(WIDTH)
        self.between = eqx.nn.LayerNorm(WIDTH)

    def __call__(self, x):
        h = jax.vmap(self.before)(x)
        x = x + self.attention(h, h, h)
        return x + jax.vmap(self.mlp)(jax.vmap(self.between)(x))


class Model(eqx.Module):
    embed: eqx.nn.Embedding
    blocks: list
    head: eqx.nn.Linear

    def __init__(self, key):
        first, last, *others = jax.random.split(key, 6)
        self.embed = eqx.nn.Embedding(WORDS, WIDTH, key=first)
        self.blocks = [Block(each) for each in others]
        self.head = eqx.nn.Linear(WIDTH, WORDS, key=last)

    def __call__(self, tokens):
        x = jax.vmap(self.embed)(tokens)
        for block in self.blocks:
            x = block(x)
        return jax.vmap(self.head)(x)


optimizer = optax.adamw(3e-4)


@eqx.filter_value_and_grad
def loss_of(model, tokens):
    logits = jax.vmap(model)(tokens[:, :-1])
    return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()


@eqx.filter_jit(donate="all")
def train_step(model, state, tokens):
    model, state = eqx.filter_shard((model, state), everywhere)
    loss, grads = loss_of(model, eqx.filter_shard(tokens, by_example))
    updates, state = optimizer.update(grads, state, eqx.filter(model, eqx.is_array))
    return eqx.apply_updates(model, updates), state, loss


model = Model(jax.random.PRNGKey(0))
state = optimizer.init(eqx.filter(model, eqx.is_array))
model, state = eqx.filter_shard((model, state), everywhere)
random = np.random.default_rng(0)
for step in range(40):
    tokens = jnp.asarray(random.integers(0, WORDS, (BATCH, LENGTH + 1)))
    model, state, loss = train_step(model, state, eqx.filter_shard(tokens, by_example))
    print(f"step {step} loss {loss:.4f}", flush=True)
