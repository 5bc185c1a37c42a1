"""Programs that lose nothing worth a finding, in shapes that are easily misread."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from recorder import Recorder

from programs.models import Array, Params, eval_step, loss_of, mlp, rows, weights


def plain_mlp(recorder: Recorder) -> None:
    """One jitted step, blocked each time."""
    train_step, params, batch = mlp(512, batch=1024)
    for step in recorder:
        with recorder.marker(step):
            params, loss = train_step(params, batch)
            loss.block_until_ready()


def never_blocked(recorder: Recorder) -> None:
    """The loop never waits; the runtime holds it back."""
    train_step, params, batch = mlp(512, batch=1024)
    loss: Array = None
    for step in range(recorder.steps):
        if step == recorder.first and loss is not None:
            loss.block_until_ready()
        recorder.at(step)
        with recorder.marker(step):
            params, loss = train_step(params, batch)
        if step == recorder.first + recorder.count - 1:
            loss.block_until_ready()
    loss.block_until_ready()
    recorder.finish()


def scanned(recorder: Recorder) -> None:
    """Layers in a scan."""
    stacked = jnp.stack(weights(1024, 4))
    batch = jnp.asarray(rows(256, 1024))

    @jax.jit
    def train_step(stacked: Array, x: Array) -> tuple[Array, Array]:
        def loss_of(stacked: Array) -> Array:
            y, _ = lax.scan(lambda y, w: (jnp.tanh(y @ w), None), x, stacked)
            return jnp.mean(y**2)

        loss, grads = jax.value_and_grad(loss_of)(stacked)
        return stacked - 0.01 * grads, loss

    for step in recorder:
        with recorder.marker(step):
            stacked, loss = train_step(stacked, batch)
            loss.block_until_ready()


def accumulated(recorder: Recorder) -> None:
    """Four microbatches by a Python loop, then an update: one step."""
    params = weights(768, 4)
    parts = [jnp.asarray(rows(128, 768, seed)) for seed in range(4)]
    grad_fn = jax.jit(jax.grad(loss_of))
    add = jax.jit(lambda a, b: [x + y for x, y in zip(a, b, strict=True)])
    apply_updates = jax.jit(lambda w, g: [x - 0.01 * y for x, y in zip(w, g, strict=True)])
    for step in recorder:
        with recorder.marker(step):
            total = grad_fn(params, parts[0])
            for part in parts[1:]:
                total = add(total, grad_fn(params, part))
            params = apply_updates(params, total)
            jax.block_until_ready(params)


def adversarial(recorder: Recorder) -> None:
    """A generator's step and a discriminator's step in turn: one step is both."""
    first, second = weights(768, 3), weights(768, 4)
    batch = jnp.asarray(rows(256, 768))

    @jax.jit
    def g_step(params: Params, x: Array) -> Params:
        return [w - 0.01 * g for w, g in zip(params, jax.grad(loss_of)(params, x), strict=True)]

    @jax.jit
    def d_step(params: Params, x: Array) -> Params:
        grads = jax.grad(lambda p: -loss_of(p, x))(params)
        return [w - 0.01 * g for w, g in zip(params, grads, strict=True)]

    for step in recorder:
        with recorder.marker(step):
            first = g_step(first, batch)
            second = d_step(second, batch)
            jax.block_until_ready((first, second))


def critic_five_times(recorder: Recorder) -> None:
    """Five critic steps for each generator step, all from one lambda each."""
    critic, generator = weights(512, 3), weights(512, 3)
    batch = jnp.asarray(rows(256, 512))
    c_step = jax.jit(lambda p, x: [w - 0.01 * g for w, g in zip(p, jax.grad(loss_of)(p, x))])  # noqa: B905
    g_step = jax.jit(lambda p, x: [w + 0.01 * g for w, g in zip(p, jax.grad(loss_of)(p, x))])  # noqa: B905
    for step in recorder:
        with recorder.marker(step):
            for _ in range(5):
                critic = c_step(critic, batch)
            generator = g_step(generator, batch)
            jax.block_until_ready((critic, generator))


def evaluated(recorder: Recorder) -> None:
    """An evaluation of five batches follows every fourth step, outside the marker."""
    train_step, params, batch = mlp(512, batch=1024)
    for step in range(recorder.steps):
        recorder.at(step)
        with recorder.marker(step):
            params, loss = train_step(params, batch)
            loss.block_until_ready()
        recorder.over()
        if step % 4 == 3:
            for _ in range(5):
                eval_step(params, batch).block_until_ready()
    recorder.finish()


def evaluated_every_third(recorder: Recorder) -> None:
    """Eight batches are evaluated after every third step, and their losses are read."""
    train_step, params, batch = mlp(512, batch=1024)
    for step in range(recorder.steps):
        recorder.at(step)
        with recorder.marker(step):
            params, loss = train_step(params, batch)
            loss.block_until_ready()
        recorder.over()
        if step % 3 == 2:
            _ = sum(float(eval_step(params, batch).sum()) for _ in range(8))
    recorder.finish()


def evaluated_once(recorder: Recorder) -> None:
    """One batch is evaluated, once, in the middle of the profile: next to nothing of the loop."""
    train_step, params, batch = mlp(512, batch=1024)
    few = batch[:8]
    eval_step(params, few).block_until_ready()
    for step in range(recorder.steps):
        recorder.at(step)
        with recorder.marker(step):
            params, loss = train_step(params, batch)
            loss.block_until_ready()
        recorder.over()
        if step == recorder.first + recorder.count // 2:
            eval_step(params, few).block_until_ready()
    recorder.finish()


def evaluated_often(recorder: Recorder) -> None:
    """Two evaluations with markers of their own follow each training step."""
    train_step, params, batch = mlp(512, batch=1024)
    for step in recorder:
        with recorder.marker(step):
            params, loss = train_step(params, batch)
            loss.block_until_ready()
        recorder.over()
        for part in range(2):
            with recorder.marker(2 * step + part, "eval"):
                eval_step(params, batch).block_until_ready()


def nested_markers(recorder: Recorder) -> None:
    """A marker around the step, and one around each of its four microbatches."""
    params = weights(768, 4)
    parts = [jnp.asarray(rows(128, 768, seed)) for seed in range(4)]
    grad_fn = jax.jit(jax.grad(loss_of))
    apply_updates = jax.jit(lambda w, g: [x - 0.01 * y for x, y in zip(w, g, strict=True)])
    for step in recorder:
        with recorder.marker(step):
            for index, part in enumerate(parts):
                with recorder.marker(4 * step + index, "micro"):
                    grads = grad_fn(params, part)
                    jax.block_until_ready(grads)
            params = apply_updates(params, grads)
            jax.block_until_ready(params)


def several_updates(recorder: Recorder) -> None:
    """One call of a jitted function takes eight training steps in a scan."""
    params = weights(256, 3)
    batches = jnp.asarray(rows(8 * 512, 256)).reshape(8, 512, 256)

    @jax.jit
    def train_steps(params: Params, batches: Array) -> tuple[Params, Array]:
        def body(params: Params, x: Array) -> tuple[Params, Array]:
            loss, grads = jax.value_and_grad(loss_of)(params, x)
            return [w - 0.01 * g for w, g in zip(params, grads, strict=True)], loss

        return lax.scan(body, params, batches)

    for step in recorder:
        with recorder.marker(step):
            params, losses = train_steps(params, batches)
            losses.block_until_ready()


def large_numbers(recorder: Recorder) -> None:
    """Step numbers beyond 32 bits."""
    train_step, params, batch = mlp(512, batch=1024)
    for step in recorder:
        with recorder.marker(10_000_000_000 + step):
            params, loss = train_step(params, batch)
            loss.block_until_ready()


def one_number(recorder: Recorder) -> None:
    """Every marker has the number 0."""
    train_step, params, batch = mlp(512, batch=1024)
    for step in recorder:
        with recorder.marker(0 * step):
            params, loss = train_step(params, batch)
            loss.block_until_ready()


def one_step(recorder: Recorder) -> None:
    """The profile holds a single step."""
    recorder.count = 1
    plain_mlp(recorder)


def two_steps(recorder: Recorder) -> None:
    """The profile holds two steps."""
    recorder.count = 2
    plain_mlp(recorder)


def matrix_products(recorder: Recorder) -> None:
    """Large products alone."""
    multiply = jax.jit(lambda x, w: jnp.tanh(x @ w))
    x, w = jnp.asarray(rows(1024, 1024)), weights(1024, 1)[0]
    for step in recorder:
        with recorder.marker(step):
            x = multiply(x, w).block_until_ready()


def logged_every_fourth(recorder: Recorder) -> None:
    """Every fourth loss is fetched and formatted, which takes no time worth a word."""
    train_step, params, batch = mlp(512, batch=1024)
    lines: list[str] = []
    for step in recorder:
        with recorder.marker(step):
            params, loss = train_step(params, batch)
            if step % 4 == 3:
                lines.append(f"step {step}: {float(loss):.4f}")
            loss.block_until_ready()


def shuffled_on_the_device(recorder: Recorder) -> None:
    """Batches are gathered on the device from data that lies there."""
    _, params, _ = mlp(512, batch=1024)
    data = jnp.asarray(rows(4096, 512))

    @jax.jit
    def train_step(params: Params, data: Array, key: Array) -> tuple[Params, Array]:
        batch = data[jax.random.randint(key, (1024,), 0, 4096)]
        loss, grads = jax.value_and_grad(loss_of)(params, batch)
        return [w - 0.01 * g for w, g in zip(params, grads, strict=True)], loss

    for step in recorder:
        with recorder.marker(step):
            params, loss = train_step(params, data, jax.random.key(step))
            loss.block_until_ready()


def classes(recorder: Recorder) -> None:
    """A trainer is an object whose method is jitted."""
    trainer = _Trainer()
    for step in recorder:
        with recorder.marker(step):
            trainer.step().block_until_ready()


class _Trainer:
    """Holds the weights, as many trainers do."""

    def __init__(self) -> None:
        self.params, self.batch = mlp(512, batch=1024)[1:]
        self._jitted = jax.jit(self._step, donate_argnums=0)

    def _step(self, params: Params, x: Array) -> tuple[Params, Array]:
        loss, grads = jax.value_and_grad(loss_of)(params, x)
        return [w - 0.01 * g for w, g in zip(params, grads, strict=True)], loss

    def step(self) -> Array:
        """Take one step."""
        self.params, loss = self._jitted(self.params, self.batch)
        return loss
