"""Training loops whose iteration is known."""

from __future__ import annotations

from typing import Final

BEGIN: Final = """
import jax, jax.numpy as jnp, numpy as np
SIZE = 64
def weights(seed):
    random = np.random.RandomState(seed)
    return [jnp.asarray(random.randn(SIZE, SIZE), "float32") for _ in range(2)]
def batch(turn, rows=16):
    return np.random.RandomState(turn).randn(rows, SIZE).astype("float32")
def forward(w, x):
    for layer in w:
        x = jnp.tanh(x @ layer)
    return x
def loss(w, x):
    return jnp.mean(forward(w, x) ** 2)
"""

ACCUMULATION: Final = f"""{BEGIN}
@jax.jit
def grad_fn(w, x):
    return jax.value_and_grad(loss)(w, x)
@jax.jit
def accum(a, g):
    return jax.tree.map(jnp.add, a, g)
@jax.jit
def apply_fn(w, m, g):
    m = jax.tree.map(lambda a, b: 0.9 * a + b / 4, m, g)
    return jax.tree.map(lambda a, b: a - 0.01 * b, w, m), m
w = weights(0)
m = [jnp.zeros_like(each) for each in w]
for turn in range(TURNS):
    g = None
    for part in range(4):
        value, d = grad_fn(w, batch(part))
        g = d if g is None else accum(g, d)
    w, m = apply_fn(w, m, g)
    print("turn", turn, float(value), flush=True)
"""

NETWORKS: Final = f"""{BEGIN}
@jax.jit
def d_step(d, g, x, z):
    def value(d):
        return jnp.mean(forward(d, x)) - jnp.mean(forward(d, forward(g, z)))
    return jax.tree.map(lambda a, b: a - 0.01 * b, d, jax.grad(value)(d))
@jax.jit
def g_step(g, d, z):
    def value(g):
        return -jnp.mean(forward(d, forward(g, z)))
    return jax.tree.map(lambda a, b: a - 0.01 * b, g, jax.grad(value)(g))
g, d = weights(0), weights(7)
for turn in range(20):
    for _ in range(CRITICS):
        d = d_step(d, g, batch(turn), batch(turn + 1))
    g = g_step(g, d, batch(turn))
"""

SHAPES: Final = f"""{BEGIN}
@jax.jit
def train_step(w, x):
    value, g = jax.value_and_grad(loss)(w, x)
    return jax.tree.map(lambda a, b: a - 0.01 * b, w, g), value
w = weights(0)
for turn in range(20):
    w, value = train_step(w, batch(turn, SIZE if turn % 2 else 16))
    value.block_until_ready()
"""
"""Two shapes of the batch in turn, one of which is that of the weights."""

NEW_SHAPES: Final = f"""{BEGIN}
@jax.jit
def train_step(w, x):
    for _ in range(20):
        x = forward(w, x)
    return [a + jnp.mean(x) for a in w], x.sum()
w = weights(0)
for turn in range(20):
    w, value = train_step(w, batch(turn, 16 + turn if turn % 3 == 2 else 16))
    value.block_until_ready()
"""
"""A new shape in every third call of a function without a backward pass."""

ONE_FUNCTION: Final = f"""{BEGIN}
@jax.jit
def step(w, x):
    value, g = jax.value_and_grad(loss)(w, x)
    return jax.tree.map(lambda a, b: a - 0.01 * b, w, g), value
w = weights(0)
wide = [jnp.ones((SIZE, 2 * SIZE)), jnp.ones((2 * SIZE, SIZE))]
for turn in range(20):
    w, value = step(w, batch(turn))
    wide, value = step(wide, batch(turn))
    value.block_until_ready()
"""
"""One function that trains two networks in each iteration."""

ANONYMOUS: Final = f"""{BEGIN}
grads = jax.jit(lambda w, x: jnp.ones_like(w) * jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w))
apply = jax.jit(lambda w, g:
                w - 0.1 * g)
w = weights(0)[0]
for turn in range(20):
    total = 0
    for part in range(4):
        total = total + grads(w, batch(part))
    w = apply(w, total)
    w.block_until_ready()
"""
"""Functions of one name, and an op that has two builds in each iteration."""

EAGER: Final = f"""{BEGIN}
@jax.jit
def grads(w, x):
    return jax.value_and_grad(loss)(w, x)
w = weights(0)
for turn in range(20):
    value, g = grads(w, batch(turn))
    w = [a - 0.01 * b for a, b in zip(w, g)]
"""

EAGER_SUM: Final = f"""{BEGIN}
@jax.jit
def grad_fn(w, x):
    return jax.value_and_grad(loss)(w, x)
@jax.jit
def apply_fn(w, g):
    return jax.tree.map(lambda a, b: a - 0.01 * b, w, g)
w = weights(0)
turn = 0
while True:
    g = None
    for part in range(4):
        value, d = grad_fn(w, batch(part))
        g = d if g is None else [a + b for a, b in zip(g, d)]
    w = apply_fn(w, g)
    turn += 1
    if STOP:
        break
"""
"""Gradients are summed outside of `jax.jit`; `STOP` is a condition on the loss or on the turn."""

UNTRAINED: Final = f"""{BEGIN}
@jax.jit
def solve(w, x):
    return forward(w, x)
@jax.jit
def shift(x):
    return 0.9 * x
w, x = weights(0), batch(0)
for turn in range(TURNS):
    x = shift(solve(w, x)) if BOTH else solve(w, x)
    if turn % 10 == 0:
        print(turn, float(x[0, 0]), flush=True)
print("ended", turn)
"""
"""No function has a backward pass, and all are small enough to run."""

HELPERS: Final = f"""{BEGIN}
@jax.jit
def train_step(w, x):
    value, g = jax.value_and_grad(loss)(w, x)
    return jax.tree.map(lambda a, b: a - 0.01 * b, w, g), value
w, total = weights(0), jnp.zeros(())
for turn in range(20):
    w, value = train_step(w, batch(turn))
    total = jnp.add(jnp.add(total, value), 1)
    parts = [jnp.tile(value, (1 << 17,)) for _ in range(3)]
    if turn % 5 == 4:
        print(float(jnp.exp(total)))
"""
"""Every iteration calls functions of JAX's own; every fifth, one more."""

PLAIN: Final = f"""{BEGIN}
@jax.jit
def train_step(w, x):
    value, g = jax.value_and_grad(loss)(w, x)
    return jax.tree.map(lambda a, b: a - 0.01 * b, w, g), value
@jax.jit
def evaluate(w, x):
    return loss(w, x)
@jax.jit
def average(e, w):
    return jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, e, w)
@jax.jit
def augment(x):
    return x / (1e-3 + jnp.abs(x).max())
w = weights(0)
e = w
for turn in range(20):
    x = batch(turn, 4 if LAST and turn % 5 == 4 else 16)
    w, value = train_step(w, augment(x) if AUGMENT else x)
    if EVERY and turn % EVERY == 0:
        e = average(e, w)
        print(sum(float(evaluate(w, batch(n))) for n in range(3)))
"""


def plain(*, every: int = 0, augment: bool = False, last: bool = False) -> str:
    return f"EVERY, AUGMENT, LAST = {every}, {augment}, {last}\n{PLAIN}"
