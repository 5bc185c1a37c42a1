"""Pipeline parallelism in one program: stages in a ring, micro-batches under one `lax.scan`.

The model's blocks lie on a ring of stages, one per device, and go round it `repeats` times: block
`r * stages + s` is the r-th of stage s. In an iteration every stage works on a micro-batch of its
own. The results of all stages are one array, sharded by stage, so what moves is a shift of that
array, which XLA's partitioner makes a collective permute:

- the forward edge, stage s to s + 1, used in the iteration after;
- the back edge, last to first, for what goes round again. It waits in a buffer until the first
  stage is done with the micro-batches of a round, so its permute has an iteration to hide behind.

    python examples/pipeline.py                 # on 4 virtual CPU devices, checked and trained
    counterpoint predict examples/pipeline.py:make_step --target 4xH100

With `--candidate pipeline-parallel` the flags of that recipe are compared with XLA's defaults.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

AXIS = "stage"

Weights = dict[str, Any]  # by name, each of shape (stages, repeats, ...)


@dataclass(frozen=True)
class Config:
    """The model and the pipeline."""

    stages: int = 0  # 0: one for each device
    repeats: int = 2  # how often a micro-batch goes round the ring
    microbatches: int = 0  # 0: twice as many as stages
    rows: int = 4096  # tokens in a micro-batch
    width: int = 4096
    mlp_width: int = 16384
    dtype: str = "bfloat16"
    learning_rate: float = 0.1
    forward: bool = False  # only the forward pass


DTYPES = ("bfloat16", "float16", "float32")
KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}
TRUTHS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
SMALL = Config(rows=16, width=32, mlp_width=64, dtype="float32")


# The step, of arrays or of their shapes


def make_step(devices: int | None = None, **settings: Any) -> tuple[Any, Any]:  # noqa: ANN401
    """The jitted step and its abstract arguments, on so many devices, for a compiler.

    Settings are the fields of `Config`, as values or as text. The variable PIPELINE, as in
    PIPELINE="rows=8192 repeats=1", comes before them.
    """
    words = os.environ.get("PIPELINE", "").split()
    asked = {name: value for name, _, value in (word.partition("=") for word in words)}
    config, mesh = arrange(Config(), devices, {**settings, **asked})
    by_stage, everywhere = NamedSharding(mesh, P(AXIS)), NamedSharding(mesh, P())
    weights = {
        name: jax.ShapeDtypeStruct(shape, jnp.float32, sharding=by_stage)
        for name, shape in shapes(config).items()
    }
    batch = jax.ShapeDtypeStruct(
        (config.microbatches, config.rows, config.width), config.dtype, sharding=everywhere
    )
    step = run_pipeline if config.forward else train_step
    return bind(step, config, mesh), (weights, batch)


def bind(step: Any, config: Config, mesh: Mesh) -> Any:  # noqa: ANN401 - a function, jitted
    """The step with its config, under its own name."""

    def pipeline(weights: Weights, batch: Array) -> Any:  # noqa: ANN401 - what the step gives
        return step(weights, batch, config, mesh)

    return jax.jit(pipeline, donate_argnums=() if config.forward else 0)


def train_step(weights: Weights, batch: Array, config: Config, mesh: Mesh) -> tuple[Weights, Array]:
    """Forward, backward, and a step down the gradient; the answers are zero."""
    loss, gradients = jax.value_and_grad(loss_of)(weights, batch, config, mesh)
    with jax.named_scope("optimizer"):
        new = jax.tree.map(lambda w, g: w - config.learning_rate * g, weights, gradients)
    return new, loss


def loss_of(weights: Weights, batch: Array, config: Config, mesh: Mesh) -> Array:
    """The mean square of what comes out."""
    out = run_pipeline(weights, batch, config, mesh).astype(jnp.float32) ** 2
    last = jnp.arange(config.stages) == config.stages - 1
    return jnp.sum(jnp.where(last[:, None, None, None], out, 0)) / batch.size


# The pipeline


def run_pipeline(weights: Weights, batch: Array, config: Config, mesh: Mesh) -> Array:
    """What the blocks make of each micro-batch: by stage, and what the last one has is the result.

    The last stage's output waits in a buffer for its next round, or for the end.
    """
    weights = jax.tree.map(lambda weight: weight.astype(config.dtype), weights)
    nothing = jnp.zeros((config.stages, config.rows, config.width), config.dtype)
    waiting = jnp.zeros((config.stages, config.microbatches, *nothing.shape[1:]), config.dtype)
    stage = jnp.arange(config.stages)

    def iteration(carry: tuple[Array, ...], now: Array) -> tuple[tuple[Array, ...], None]:
        made, back, waiting = carry
        forward = shift(made, 1)
        # What goes back is for the next iteration, and was ready before this one.
        next_back = shift(read(waiting, now + 1, config), 1 - config.stages)
        entering = jnp.where(now < config.microbatches, batch[now % config.microbatches], back)
        x = jnp.where((stage == 0)[:, None, None], entering, forward)
        come = now - stage  # how many micro-batches came to each stage before
        x = compute(x, weights, jnp.clip(come // config.microbatches, 0, config.repeats - 1))
        waiting = write(waiting, x, now - (config.stages - 1), config)
        carry = (x, next_back, waiting)
        return jax.lax.with_sharding_constraint(carry, NamedSharding(mesh, P(AXIS))), None

    carry = (nothing, nothing, waiting)
    carry = jax.lax.with_sharding_constraint(carry, NamedSharding(mesh, P(AXIS)))
    carry, _ = jax.lax.scan(iteration, carry, jnp.arange(iterations(config)))
    return carry[-1]


@jax.checkpoint
def compute(x: Array, weights: Weights, repeat: Array) -> Array:
    """One block at each stage, that of the round its micro-batch is in."""
    return jax.vmap(lambda x, own, at: block(x, pick(own, at)))(x, weights, repeat)


def iterations(config: Config) -> int:
    """How many it takes until the last micro-batch has left the last stage."""
    return config.repeats * config.microbatches + config.stages - 1


def shift(x: Array, by: int) -> Array:
    """Each stage's part, `by` stages further on; zeros where none comes from."""
    ends = [(by, -by, 0)] + [(0, 0, 0)] * (x.ndim - 1)
    return jax.lax.pad(x, jnp.zeros((), x.dtype), ends)


def read(waiting: Array, index: Array, config: Config) -> Array:
    """What waits of a micro-batch, whatever round it is in."""
    return jax.lax.dynamic_index_in_dim(waiting, index % config.microbatches, 1, keepdims=False)


def write(waiting: Array, x: Array, index: Array, config: Config) -> Array:
    """Let what the stages made wait; the last stage's is of that micro-batch."""
    return jax.lax.dynamic_update_index_in_dim(waiting, x, index % config.microbatches, 1)


def pick(weights: Weights, repeat: Array) -> Weights:
    """A stage's weights of a round."""
    return jax.tree.map(lambda weight: weight[repeat], weights)


def block(x: Array, weights: Weights) -> Array:
    """One block of the model."""
    return x + jax.nn.gelu(x @ weights["up"]) @ weights["down"]


def run_in_order(weights: Weights, batch: Array, config: Config) -> Array:
    """The same without a pipeline: one block after the other, each on all micro-batches."""
    for repeat in range(config.repeats):
        for stage in range(config.stages):
            own = jax.tree.map(lambda weight: weight[stage, repeat], weights)  # noqa: B023
            batch = block(batch, jax.tree.map(lambda it: it.astype(config.dtype), own))
    return batch


# What it is made of, and where that lies


def shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """The shape of each weight."""
    ahead = (config.stages, config.repeats)
    return {
        "up": (*ahead, config.width, config.mlp_width),
        "down": (*ahead, config.mlp_width, config.width),
    }


def initial_weights(config: Config, mesh: Mesh) -> Weights:
    """Weights from a fixed seed, each drawn where it will live."""

    def draw() -> Weights:
        keys = jax.random.split(jax.random.key(0), len(shapes(config)))
        drawn = zip(keys, shapes(config).items(), strict=True)
        return {
            name: jax.random.normal(key, shape) * 0.5 * shape[-2] ** -0.5
            for key, (name, shape) in drawn
        }

    return jax.jit(draw, out_shardings=NamedSharding(mesh, P(AXIS)))()


def arrange(config: Config, devices: int | None, settings: dict[str, Any]) -> tuple[Config, Mesh]:
    """The config with settings of one's own, which may be text, and a ring of devices."""
    kinds = {field.name: type(field.default) for field in fields(Config)}
    for name in settings:
        if name not in kinds:
            raise ValueError(f"{name!r} is no setting; there are {', '.join(kinds)}")
    read = {name: convert(name, kinds[name], value) for name, value in settings.items()}
    config = replace(config, **read)
    wanted = config.stages or devices or len(jax.devices())
    microbatches = config.microbatches or 2 * wanted
    config = replace(config, stages=wanted, microbatches=microbatches)
    check(config)
    if len(jax.devices()) < wanted or wanted != (devices or wanted):
        have = devices or len(jax.devices())
        raise ValueError(f"{wanted} stages need as many devices; there are {have}")
    if config.repeats > 1 and config.microbatches < config.stages + 1:
        raise ValueError(
            f"{config.microbatches} micro-batches do not keep {config.stages} stages busy: what "
            f"goes round again would come back too late; {config.stages + 1} do"
        )
    mesh = Mesh(np.array(jax.devices()[:wanted]), (AXIS,), (AxisType.Auto,))
    return config, mesh


def convert(name: str, kind: type, value: Any) -> Any:  # noqa: ANN401 - whatever a setting is
    """A value of that kind, from text too."""
    try:
        return TRUTHS[str(value).lower()] if kind is bool else kind(value)
    except (KeyError, ValueError):
        raise ValueError(f"{name}={value}: it takes {KINDS[kind]}") from None


def check(config: Config) -> None:
    """Refuse what no step can be made of."""
    for name, value in vars(config).items():
        if type(value) is int and value < 1:
            raise ValueError(f"{name}={value}: it is at least 1")
    if config.dtype not in DTYPES:
        raise ValueError(f"dtype={config.dtype}: it is one of {', '.join(DTYPES)}")


# Checked, and trained


def main() -> None:
    """Compare with the same blocks in order, forward and backward, and train for some steps."""
    options = parse_options()
    start_platform(options)
    given = {field.name: getattr(options, field.name) for field in fields(Config)}
    given = {name: value for name, value in given.items() if value is not None}
    base = Config() if options.full else SMALL
    try:
        config, mesh = arrange(base, options.devices, given)
    except ValueError as mistake:
        raise SystemExit(f"error: {mistake}") from None
    weights = initial_weights(config, mesh)
    shape = (config.microbatches, config.rows, config.width)
    batch = jax.random.normal(jax.random.key(1), shape, config.dtype)
    batch = jax.device_put(batch, NamedSharding(mesh, P()))
    if not options.full:
        for name, error in compare(weights, batch, config, mesh).items():
            print(f"{name}: at most {error:.1e} from the blocks in order")
    step = bind(run_pipeline if config.forward else train_step, config, mesh)
    for index in range(options.steps):
        began = time.perf_counter()
        result = jax.block_until_ready(step(weights, batch))
        told = f"step {index:3d}  {time.perf_counter() - began:.3f} s"
        if not config.forward:
            weights, loss = result
            told += f"  loss {float(loss):.4f}"
        print(told, flush=True)


def compare(weights: Weights, batch: Array, config: Config, mesh: Mesh) -> dict[str, float]:
    """How far outputs and gradients are from those of the blocks in order, of their largest."""

    def in_order(weights: Weights) -> Array:
        return jnp.mean(run_in_order(weights, batch, config).astype(jnp.float32) ** 2)

    pipelined = jax.jit(partial(run_pipeline, config=config, mesh=mesh))(weights, batch)[-1]
    gradients = jax.jit(jax.grad(partial(loss_of, config=config, mesh=mesh)))(weights, batch)
    expected = {
        "forward": jax.jit(partial(run_in_order, config=config))(weights, batch),
        **{f"gradient of {name}": it for name, it in jax.jit(jax.grad(in_order))(weights).items()},
    }
    found = {"forward": pipelined, **{f"gradient of {name}": it for name, it in gradients.items()}}
    return {
        name: float(jnp.max(jnp.abs(found[name] - wanted)) / jnp.max(jnp.abs(wanted)))
        for name, wanted in expected.items()
    }


def parse_options() -> argparse.Namespace:
    """What the command line asks for; every field of `Config` is an option."""
    parser = argparse.ArgumentParser(description="Run a pipeline of stages, checked and timed.")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--platform", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--devices", type=int, help="how many; 4 on a CPU, else all")
    parser.add_argument(
        "--full", action="store_true", help="the sizes that make_step has, unchecked"
    )
    for field in fields(Config):
        name = f"--{field.name.replace('_', '-')}"
        if isinstance(field.default, bool):
            parser.add_argument(name, action=argparse.BooleanOptionalAction)
        else:
            words = DTYPES if field.name == "dtype" else None
            parser.add_argument(name, type=type(field.default), choices=words)
    options = parser.parse_args()
    if options.devices is not None and options.devices < 1:
        parser.error(f"--devices {options.devices}: at least one")
    return options


def start_platform(options: argparse.Namespace) -> None:
    """Choose the devices; on a CPU there are as many as asked for, unless XLA_FLAGS says."""
    jax.config.update("jax_platforms", {"gpu": "cuda"}.get(options.platform, options.platform))
    counted = "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", "")
    if options.platform == "cpu" and not counted:
        jax.config.update("jax_num_cpu_devices", options.devices or 4)


if __name__ == "__main__":
    main()
