"""A training step sharded over eight devices, and a profile of it.

A small transformer learns to answer each token with a fixed function of it. The weights are
sharded over a mesh of 4 (fully sharded data parallel) by 2 (tensor parallel), so the compiled step
holds what large steps hold: all-gathers of weights, all-reduces of activations, reductions of
gradients, and a loop over layers whose backward pass repeats the forward pass.

By default the devices are eight virtual ones on the CPU. Needs JAX 0.8 or later and nothing else.

    python examples/sharded_step.py --profile profile/
    counterpoint explain profile/
"""

from __future__ import annotations

import argparse
import os
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

VIRTUAL_DEVICES = 8
DECAY = (0.9, 0.95)  # of the mean of a gradient, and of the mean of its square
WEIGHT_DECAY = 0.01

Weights = dict[str, Any]  # by name, nested: arrays, or their shapes or shardings


class State(NamedTuple):
    """What a step takes and gives back."""

    weights: Weights
    mean: Weights
    mean_square: Weights
    step: Any  # an array, or its sharding


def main() -> None:
    """Train, print the loss of each step, and record the steps asked for."""
    options = parse_options()
    mesh = make_mesh(options.platform)
    last_profiled = min(options.profile_start + options.profile_steps, options.steps) - 1
    with jax.set_mesh(mesh):
        state = initial_state(options, mesh)
        for index in range(options.steps):
            if options.profile and index == options.profile_start:
                start_profile(options.profile, options.python_tracer)
            began = time.perf_counter()
            with jax.profiler.StepTraceAnnotation("train", step_num=index):
                tokens = jax.device_put(make_batch(options, index), NamedSharding(mesh, P("fsdp")))
                state, loss = train_step(state, tokens, options.dtype, options.learning_rate)
                loss = float(jax.block_until_ready((state, loss))[1])
            print(
                f"step {index:3d}  loss {loss:.4f}  {time.perf_counter() - began:.3f} s", flush=True
            )
            if options.profile and index == last_profiled:
                jax.profiler.stop_trace()
                print(f"steps {options.profile_start} to {index} are in {options.profile}")


def parse_options() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(
        description="Train a small sharded transformer for a few steps, and profile some of them."
    )
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--profile", type=Path, help="directory to write a profile into")
    parser.add_argument("--profile-start", type=int, default=4, help="first step to record")
    parser.add_argument("--profile-steps", type=int, default=6, help="how many steps to record")
    parser.add_argument("--python-tracer", type=int, choices=(0, 1), default=0)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--vocabulary", type=int, default=256)
    parser.add_argument("--batch", type=int, default=8, help="sequences in a batch")
    parser.add_argument("--sequence", type=int, default=128, help="tokens in a sequence")
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--platform", choices=("cpu", "gpu", "tpu"), default="cpu")
    options = parser.parse_args()
    if options.profile and not 0 <= options.profile_start < options.steps:
        parser.error(f"--profile-start {options.profile_start} is not one of {options.steps} steps")
    if options.profile_steps < 1:
        parser.error(f"--profile-steps {options.profile_steps} records nothing")
    return options


def make_mesh(platform: str) -> Mesh:
    """Arrange the devices for fully sharded data parallel by tensor parallel: eight as 4 by 2."""
    if platform == "cpu":
        # XLA reads this when the first device is asked for, which is below.
        count = f"--xla_force_host_platform_device_count={VIRTUAL_DEVICES}"
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {count}".strip()
    jax.config.update("jax_platforms", {"gpu": "cuda"}.get(platform, platform))
    devices = np.array(jax.devices())
    tensor_parallel = 2 if len(devices) % 2 == 0 else 1
    return Mesh(devices.reshape(-1, tensor_parallel), ("fsdp", "tp"), (AxisType.Auto,) * 2)


def start_profile(directory: Path, python_tracer: int) -> None:
    """Record from here on."""
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = python_tracer
    jax.profiler.start_trace(str(directory), profiler_options=options)


def make_batch(options: argparse.Namespace, index: int) -> np.ndarray:
    """Tokens of one batch, the same in every run."""
    draw = np.random.default_rng(index)
    return draw.integers(options.vocabulary, size=(options.batch, options.sequence), dtype=np.int32)


def shardings() -> Weights:
    """How each weight lies on the mesh; the first axis of a layer's weight counts the layers."""
    return {
        "embedding": P(None, "fsdp"),
        "layers": {
            "attention_norm": P(),
            "query_key_value": P(None, "fsdp", None, "tp", None),
            "attention_out": P(None, "tp", None, "fsdp"),
            "mlp_norm": P(),
            "up": P(None, "fsdp", "tp"),
            "down": P(None, "tp", "fsdp"),
        },
        "final_norm": P(),
        "logits": P("fsdp", "tp"),
    }


def shapes(options: argparse.Namespace) -> Weights:
    """The shape of each weight."""
    layers, width, heads = options.layers, options.width, options.heads
    return {
        "embedding": (options.vocabulary, width),
        "layers": {
            "attention_norm": (layers, width),
            "query_key_value": (layers, width, 3, heads, width // heads),
            "attention_out": (layers, heads, width // heads, width),
            "mlp_norm": (layers, width),
            "up": (layers, width, 4 * width),
            "down": (layers, 4 * width, width),
        },
        "final_norm": (width,),
        "logits": (width, options.vocabulary),
    }


def initial_state(options: argparse.Namespace, mesh: Mesh) -> State:
    """Weights from a fixed seed, each drawn where it will live."""

    def draw(path: tuple[object, ...], shape: tuple[int, ...]) -> Array:
        name = jax.tree_util.keystr(path)
        if "norm" in name:
            return jnp.ones(shape)
        key = jax.random.fold_in(jax.random.key(0), sum(name.encode()))
        return jax.random.normal(key, shape) * options.width**-0.5

    def is_shape(node: object) -> bool:
        return isinstance(node, tuple)

    def state() -> State:
        weights = jax.tree_util.tree_map_with_path(draw, shapes(options), is_leaf=is_shape)
        zeros = jax.tree.map(jnp.zeros_like, weights)
        return State(weights, zeros, zeros, jnp.zeros((), jnp.int32))

    of_weights = jax.tree.map(partial(NamedSharding, mesh), shardings())
    of_state = State(of_weights, of_weights, of_weights, NamedSharding(mesh, P()))
    return jax.jit(state, out_shardings=of_state)()


@partial(jax.jit, static_argnames=("dtype", "rate"), donate_argnames="state")
def train_step(state: State, tokens: Array, dtype: str, rate: float) -> tuple[State, Array]:
    """Forward, backward, and the optimizer."""
    loss, gradients = jax.value_and_grad(loss_of)(state.weights, tokens, dtype)
    with jax.named_scope("optimizer"):
        return adamw(state, gradients, rate), loss


def loss_of(weights: Weights, tokens: Array, dtype: str) -> Array:
    """The mean cross entropy of the answers."""
    with jax.named_scope("embed"):
        table = jax.lax.with_sharding_constraint(weights["embedding"].astype(dtype), P())
        x = jax.lax.with_sharding_constraint(table[tokens], P("fsdp"))
    with jax.named_scope("layers"):
        x, _ = jax.lax.scan(jax.checkpoint(layer), x, weights["layers"])
    with jax.named_scope("loss"):
        logits = normalize(x, weights["final_norm"]) @ weights["logits"].astype(dtype)
        logits = logits.astype(jnp.float32)
        answers = (5 * tokens + 3) % logits.shape[-1]
        of_answers = jnp.take_along_axis(logits, answers[..., None], axis=-1)[..., 0]
        return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - of_answers)


def layer(x: Array, weights: Weights) -> tuple[Array, None]:
    """One transformer layer, as `jax.lax.scan` wants it."""
    with jax.named_scope("attention"):
        x = x + attend(normalize(x, weights["attention_norm"]), weights)
    with jax.named_scope("mlp"):
        wide = jax.nn.gelu(normalize(x, weights["mlp_norm"]) @ weights["up"].astype(x.dtype))
        x = x + wide @ weights["down"].astype(x.dtype)
    return jax.lax.with_sharding_constraint(x, P("fsdp")), None


def attend(x: Array, weights: Weights) -> Array:
    """Causal attention; the heads are divided over the tensor parallel axis."""
    query, key, value = jnp.einsum("bsd,dchk->cbshk", x, weights["query_key_value"].astype(x.dtype))
    scores = jnp.einsum("bshk,bthk->bhst", query, key).astype(jnp.float32) * key.shape[-1] ** -0.5
    visible = jnp.tril(jnp.ones(scores.shape[-2:], jnp.bool_))
    shares = jax.nn.softmax(jnp.where(visible, scores, -jnp.inf)).astype(x.dtype)
    mixed = jnp.einsum("bhst,bthk->bshk", shares, value)
    return jnp.einsum("bshk,hkd->bsd", mixed, weights["attention_out"].astype(x.dtype))


def normalize(x: Array, scale: Array) -> Array:
    """Divide by the root of the mean square, in float32."""
    wide = x.astype(jnp.float32)
    mean_square = jnp.mean(wide**2, axis=-1, keepdims=True)
    return (wide * jax.lax.rsqrt(mean_square + 1e-6) * scale).astype(x.dtype)


def adamw(state: State, gradients: Weights, rate: float) -> State:
    """Adam with decoupled weight decay, written out."""
    step = state.step + 1
    mean = jax.tree.map(lambda m, g: DECAY[0] * m + (1 - DECAY[0]) * g, state.mean, gradients)
    mean_square = jax.tree.map(
        lambda s, g: DECAY[1] * s + (1 - DECAY[1]) * g**2, state.mean_square, gradients
    )

    def update(weight: Array, m: Array, s: Array) -> Array:
        unbiased = m / (1 - DECAY[0] ** step)
        size = jnp.sqrt(s / (1 - DECAY[1] ** step)) + 1e-8
        return weight - rate * (unbiased / size + WEIGHT_DECAY * weight)

    return State(jax.tree.map(update, state.weights, mean, mean_square), mean, mean_square, step)


if __name__ == "__main__":
    main()
