"""A Llama to train: FSDP, data and tensor parallel over a mesh, from 100 million to 70 billion.

Plain JAX, in one file: RMSNorm, RoPE, grouped-query attention, SwiGLU, a scan over layers with a
choice of what the backward pass recomputes, bfloat16 beside float32 weights, AdamW. The same step

- trains on eight virtual CPU devices, or on the GPUs at hand:
      python examples/llama.py --size tiny --fsdp 4 --tensor 2
      python examples/llama.py --size 1b --platform gpu --profile profile/
- is predicted for GPUs that are not at hand; no array is made, whatever its size:
      counterpoint predict examples/llama.py:make_step --target 64x8xH100
      LLAMA="size=70b batch=2" counterpoint predict examples/llama.py:make_step --target 8x8xH100
      counterpoint predict examples/llama.py:make_step --target v5e-256

Needs JAX 0.8 or later and nothing else. Older models of the GPT-3 kind are among the sizes, to be
compared with what others published; their LayerNorm is an RMSNorm here, and biases are left out.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

AXES = ("data", "fsdp", "tensor")  # the last is innermost: its devices share a host
BATCH = ("data", "fsdp")
DECAY = (0.9, 0.95)  # of the mean of a gradient, and of the mean of its square
WEIGHT_DECAY = 0.1
CPU_DEVICES = 8

Weights = dict[str, Any]  # by name, nested: arrays, or their shapes, layouts or shardings


@dataclass(frozen=True)
class Config:
    """The model, how it is laid out over devices, and how it is computed."""

    layers: int = 12
    width: int = 768
    mlp_width: int = 2048
    heads: int = 12
    kv_heads: int = 4  # query heads share keys and values where there are fewer
    vocabulary: int = 32000
    sequence: int = 1024
    mlp: str = "swiglu"  # or gelu: one matrix up instead of two
    positions: str = "rope"  # or learned
    rope_base: float = 10000.0
    tied: bool = False  # whether the embedding gives the logits, too
    data: int = 1
    fsdp: int = 0  # 0: whatever devices the other axes leave
    tensor: int = 1
    batch: float = 1.0  # sequences for each device
    remat: str = "full"  # a name in KEPT, or the names to keep: "query,key,value"
    scan: bool = True  # one compiled layer, run in a loop
    attention: str = "auto"  # cudnn, xla, splash (TPUs); auto: cudnn or splash for what compiles
    embedding: str = "lookup"  # or onehot, a matrix product
    dtype: str = "bfloat16"  # of activations and of the copies of weights computed with
    learning_rate: float = 1e-3
    clip: float = 1.0  # the norm that gradients are scaled down to


SIZES: dict[str, Config] = {
    "tiny": Config(4, 128, 384, 8, 4, 256, 64, rope_base=1e4, learning_rate=3e-3),
    "100m": Config(),
    "1b": Config(16, 2048, 8192, 32, 8, 128256, 4096, rope_base=5e5),
    "7b": Config(32, 4096, 11008, 32, 32, 32000, 4096),
    "8b": Config(32, 4096, 14336, 32, 8, 128256, 8192, rope_base=5e5),
    "13b": Config(40, 5120, 13824, 40, 40, 32000, 4096),
    "70b": Config(80, 8192, 28672, 64, 8, 32000, 4096),
    "gpt-126m": Config(12, 768, 3072, 12, 12, 50304, 2048, "gelu", "learned", tied=True),
    "gpt-5b": Config(24, 4096, 16384, 32, 32, 51200, 2048, "gelu", "learned", tied=True),
    "gpt-175b": Config(96, 12288, 49152, 96, 96, 51200, 2048, "gelu", "learned", tied=True),
}

# What the backward pass finds kept, beside the input of each layer. The names are set in `layer`.
PROJECTIONS = ("query", "key", "value", "out")
NAMED = (*PROJECTIONS, "up", "gate", "down")
KEPT: dict[str, Callable[..., Any] | None] = {
    "none": None,  # recompute nothing
    "full": jax.checkpoint_policies.nothing_saveable,  # recompute everything
    "minimal": jax.checkpoint_policies.dots_with_no_batch_dims_saveable,
    "dots": jax.checkpoint_policies.dots_saveable,
    "save_qkv": jax.checkpoint_policies.save_only_these_names(*PROJECTIONS[:3]),
    "save_dot_except_mlp": jax.checkpoint_policies.save_only_these_names(*PROJECTIONS),
    "save_dot_except_mlpwi": jax.checkpoint_policies.save_only_these_names(*PROJECTIONS, "down"),
}


WORDS = {
    "mlp": ("swiglu", "gelu"),
    "positions": ("rope", "learned"),
    "attention": ("auto", "cudnn", "xla", "splash"),
    "embedding": ("lookup", "onehot"),
    "dtype": ("bfloat16", "float16", "float32"),
}
"""Settings that are one of a few words."""
KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}
TRUTHS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


class State(NamedTuple):
    """What a step takes and gives back."""

    weights: Weights
    mean: Weights
    mean_square: Weights
    step: Any


class Layout(NamedTuple):
    """The shape of a weight, and which axes of the mesh divide it."""

    shape: tuple[int, ...]
    spec: P


# The step, of arrays or of their shapes


def make_step(
    devices: int | None = None,
    size: str = "8b",
    platform: str = "gpu",
    **settings: Any,  # noqa: ANN401
) -> tuple[Any, Any]:
    """The jitted step and its abstract arguments, on so many devices, for a compiler.

    Counterpoint gives the number of devices and the platform, "gpu" or "tpu", of its target.

    Settings are the fields of `Config`, as values or as text; they change what the size says. The
    variable LLAMA, as in LLAMA="size=70b batch=2", comes before both.
    """
    words = os.environ.get("LLAMA", "").split()
    asked = {name: value for name, _, value in (word.partition("=") for word in words)}
    config = configure(asked.pop("size", size), {**settings, **asked})
    mesh = make_mesh(config, devices)
    if config.attention == "auto":
        config = replace(config, attention="splash" if platform == "tpu" else "cudnn")
    return jit_step(config, mesh), abstract_arguments(config, mesh)


def jit_step(config: Config, mesh: Mesh) -> Any:  # noqa: ANN401 - jax gives it no public name
    """The step, compiled when it is first called."""
    shardings = state_shardings(config, mesh)

    def train_step(state: State, tokens: Array, answers: Array) -> tuple[State, Array]:
        """Forward, backward, and the optimizer."""
        with cudnn_supposed(config.attention):
            loss, gradients = jax.value_and_grad(loss_of)(
                state.weights, tokens, answers, config, mesh
            )
        with jax.named_scope("optimizer"):
            return adamw(state, gradients, config), loss

    return jax.jit(
        train_step, donate_argnums=0, out_shardings=(shardings, NamedSharding(mesh, P()))
    )


def abstract_arguments(config: Config, mesh: Mesh) -> tuple[State, Any, Any]:
    """Shapes with shardings, which need no memory."""

    def of_layout(layout: Layout) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(
            layout.shape, jnp.float32, sharding=NamedSharding(mesh, layout.spec)
        )

    weights = map_layouts(of_layout, layouts(config, mesh))
    count = jax.ShapeDtypeStruct((), jnp.int32, sharding=NamedSharding(mesh, P()))
    tokens = jax.ShapeDtypeStruct(
        (global_batch(config, mesh), config.sequence),
        jnp.int32,
        sharding=NamedSharding(mesh, P(BATCH)),
    )
    return State(weights, weights, weights, count), tokens, tokens


# The model


def loss_of(weights: Weights, tokens: Array, answers: Array, config: Config, mesh: Mesh) -> Array:
    """The mean cross entropy of the answers."""
    gathered = partial(gather, config=config, mesh=mesh)
    specs = map_layouts(lambda layout: layout.spec, layouts(config, mesh))
    table = gathered(weights["embedding"], specs["embedding"])
    with jax.named_scope("embed"):
        x = embed(tokens, table, config)
        if config.positions == "learned":
            x = x + gathered(weights["positions"], specs["positions"])
        x = jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P(BATCH)))
    with jax.named_scope("layers"):
        x = run_layers(x, weights["layers"], config, mesh)
    with jax.named_scope("loss"):
        x = normalize(x, gathered(weights["final_norm"], specs["final_norm"]))
        if config.tied:
            logits = jnp.einsum("bsd,vd->bsv", x, table)
        else:
            logits = jnp.einsum("bsd,dv->bsv", x, gathered(weights["logits"], specs["logits"]))
        logits = jax.lax.with_sharding_constraint(
            logits.astype(jnp.float32), NamedSharding(mesh, P(BATCH, None, "tensor"))
        )
        # A sum over a mask fuses, and stays where each device's part of the vocabulary lies.
        is_answer = answers[..., None] == jnp.arange(config.vocabulary)
        of_answers = jnp.sum(jnp.where(is_answer, logits, 0), axis=-1)
        return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - of_answers)


def embed(tokens: Array, table: Array, config: Config) -> Array:
    """A row of the table for each token."""
    if config.embedding == "onehot":
        rows = jax.nn.one_hot(tokens, config.vocabulary, dtype=table.dtype)
        return jnp.einsum("bsv,vd->bsd", rows, table)
    return table[tokens]


def run_layers(x: Array, layers: Any, config: Config, mesh: Mesh) -> Array:  # noqa: ANN401
    """All layers, in a loop or one after the other."""
    rotation = rotations(config) if config.positions == "rope" else None

    def body(x: Array, weights: Weights) -> tuple[Array, None]:
        return layer(x, weights, rotation, config, mesh), None

    names = tuple(config.remat.split(","))
    policy = KEPT.get(config.remat, jax.checkpoint_policies.save_only_these_names(*names))
    if policy is not None:
        # In a loop nothing can be merged with the forward pass, so nothing need prevent it.
        body = jax.checkpoint(body, policy=policy, prevent_cse=not config.scan)
    if config.scan:
        return jax.lax.scan(body, x, layers)[0]
    for weights in layers:
        x, _ = body(x, weights)
    return x


def layer(
    x: Array, weights: Weights, rotation: tuple[Array, Array] | None, config: Config, mesh: Mesh
) -> Array:
    """One transformer layer."""
    specs = map_layouts(lambda layout: layout.spec, layer_layouts(config, mesh))
    own = {name: gather(weights[name], specs[name], config, mesh) for name in weights}
    with jax.named_scope("attention"):
        normal = normalize(x, own["attention_norm"])
        query, key, value = (
            jnp.einsum("bsd,dhk->bshk", normal, own[name]) for name in PROJECTIONS[:3]
        )
        if rotation is not None:
            query, key = rotate(query, *rotation), rotate(key, *rotation)
        query = checkpoint_name(query, "query")
        key = checkpoint_name(key, "key")
        value = checkpoint_name(value, "value")
        mixed = attend(query, key, value, config, mesh)
        x = x + checkpoint_name(jnp.einsum("bshk,hkd->bsd", mixed, own["out"]), "out")
    with jax.named_scope("mlp"):
        normal = normalize(x, own["mlp_norm"])
        wide = checkpoint_name(normal @ own["up"], "up")
        if config.mlp == "swiglu":
            wide = jax.nn.silu(checkpoint_name(normal @ own["gate"], "gate")) * wide
        else:
            wide = jax.nn.gelu(wide)
        x = x + checkpoint_name(wide @ own["down"], "down")
    return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P(BATCH)))


def attend(query: Array, key: Array, value: Array, config: Config, mesh: Mesh) -> Array:
    """Causal attention, each device with its own sequences and heads.

    Being manual over the whole mesh, it leaves cuDNN's kernels nothing to partition, which needs
    Python at compile time.
    """
    shared = mesh.shape["tensor"] // config.kv_heads
    if shared > 1:  # more devices than heads: each gets a copy of its one
        key, value = jnp.repeat(key, shared, axis=2), jnp.repeat(value, shared, axis=2)
    spec = P(BATCH, None, "tensor")
    kernel: Callable[..., Array] = partial(
        jax.nn.dot_product_attention,
        is_causal=True,
        implementation="cudnn" if config.attention == "cudnn" else "xla",
    )
    if config.attention == "splash":
        kernel = splash_attention
    manual = jax.shard_map(
        kernel, mesh=mesh, in_specs=(spec, spec, spec), out_specs=spec, check_vma=False
    )
    return manual(query, key, value)


def splash_attention(query: Array, key: Array, value: Array) -> Array:
    """Causal attention by JAX's own kernel for TPUs, whose heads come before the sequence."""
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as splash
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks

    heads, length = query.shape[2], query.shape[1]
    key, value = (jnp.repeat(it, heads // it.shape[2], axis=2) for it in (key, value))
    mask = masks.MultiHeadMask([masks.CausalMask((length, length))] * heads)
    names = ("q", "kv", "kv_compute", "q_dkv", "kv_dkv", "kv_dkv_compute", "q_dq", "kv_dq")
    blocks: dict[str, Any] = {f"block_{name}": min(512, length) for name in names}
    kernel: Any = splash.make_splash_mha(
        mask, head_shards=1, q_seq_shards=1, block_sizes=splash.BlockSizes(**blocks)
    )
    scaled = query * query.shape[-1] ** -0.5
    mixed = jax.vmap(kernel)(*(jnp.swapaxes(it, 1, 2) for it in (scaled, key, value)))
    return jnp.swapaxes(mixed, 1, 2)


def normalize(x: Array, scale: Array) -> Array:
    """Divide by the root of the mean square, in float32."""
    wide = x.astype(jnp.float32)
    mean_square = jnp.mean(wide**2, axis=-1, keepdims=True)
    return (wide * jax.lax.rsqrt(mean_square + 1e-5)).astype(x.dtype) * scale


def rotations(config: Config) -> tuple[Array, Array]:
    """The cosine and sine that turn each position's pairs of numbers."""
    half = config.width // config.heads // 2
    speeds = config.rope_base ** (-jnp.arange(half, dtype=jnp.float32) / half)
    angles = jnp.arange(config.sequence, dtype=jnp.float32)[:, None] * speeds
    return jnp.cos(angles)[:, None, :], jnp.sin(angles)[:, None, :]


def rotate(x: Array, cosine: Array, sine: Array) -> Array:
    """Turn the pairs that the two halves of each head make."""
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    turned = (first * cosine - second * sine, second * cosine + first * sine)
    return jnp.concatenate(turned, axis=-1).astype(x.dtype)


def gather(weight: Array, spec: P, config: Config, mesh: Mesh) -> Array:
    """A weight as it is computed with: in few bits, and whole along `fsdp`.

    The first constraint lets it travel after it was made small, and its gradient be scattered
    before it is made large again.
    """
    weight = weight.astype(config.dtype)
    whole = P(*(None if axis == "fsdp" else axis for axis in spec))
    for each in (spec, whole):
        weight = jax.lax.with_sharding_constraint(weight, NamedSharding(mesh, each))
    return weight


def adamw(state: State, gradients: Weights, config: Config) -> State:
    """Adam with decoupled weight decay, written out, after clipping."""
    norm = jnp.sqrt(sum(jnp.sum(g**2) for g in jax.tree.leaves(gradients)))
    scale = jnp.minimum(1.0, config.clip / (norm + 1e-6))
    gradients = jax.tree.map(lambda g: g * scale, gradients)
    step = state.step + 1
    mean = jax.tree.map(lambda m, g: DECAY[0] * m + (1 - DECAY[0]) * g, state.mean, gradients)
    mean_square = jax.tree.map(
        lambda s, g: DECAY[1] * s + (1 - DECAY[1]) * g**2, state.mean_square, gradients
    )

    def update(weight: Array, m: Array, s: Array) -> Array:
        unbiased = m / (1 - DECAY[0] ** step)
        size = jnp.sqrt(s / (1 - DECAY[1] ** step)) + 1e-8
        return weight - config.learning_rate * (unbiased / size + WEIGHT_DECAY * weight)

    return State(jax.tree.map(update, state.weights, mean, mean_square), mean, mean_square, step)


# What it is made of, and where that lies


def layouts(config: Config, mesh: Mesh) -> Weights:
    """Every weight; those of layers have the layers as their first axis, if in a loop."""
    one = layer_layouts(config, mesh)
    if config.scan:
        of_layers: Any = map_layouts(
            lambda it: Layout((config.layers, *it.shape), P(None, *it.spec)), one
        )
    else:
        of_layers = [one] * config.layers
    found = {
        "embedding": Layout((config.vocabulary, config.width), P("tensor", "fsdp")),
        "layers": of_layers,
        "final_norm": Layout((config.width,), P("fsdp")),
    }
    if config.positions == "learned":
        found["positions"] = Layout((config.sequence, config.width), P(None, "fsdp"))
    if not config.tied:
        found["logits"] = Layout((config.width, config.vocabulary), P("fsdp", "tensor"))
    return found


def layer_layouts(config: Config, mesh: Mesh) -> Weights:
    """The weights of one layer."""
    width, head = config.width, config.width // config.heads
    of_heads = P("fsdp", "tensor", None)
    of_kv_heads = of_heads if config.kv_heads % mesh.shape["tensor"] == 0 else P("fsdp")
    found = {
        "attention_norm": Layout((width,), P("fsdp")),
        "query": Layout((width, config.heads, head), of_heads),
        "key": Layout((width, config.kv_heads, head), of_kv_heads),
        "value": Layout((width, config.kv_heads, head), of_kv_heads),
        "out": Layout((config.heads, head, width), P("tensor", None, "fsdp")),
        "mlp_norm": Layout((width,), P("fsdp")),
        "up": Layout((width, config.mlp_width), P("fsdp", "tensor")),
        "down": Layout((config.mlp_width, width), P("tensor", "fsdp")),
    }
    if config.mlp == "swiglu":
        found["gate"] = found["up"]
    return found


def map_layouts(function: Callable[[Layout], Any], tree: Any) -> Any:  # noqa: ANN401 - a tree
    """What the function makes of each layout of a tree."""
    return jax.tree.map(function, tree, is_leaf=lambda node: isinstance(node, Layout))


def state_shardings(config: Config, mesh: Mesh) -> State:
    """Where a state lies."""
    weights = map_layouts(lambda it: NamedSharding(mesh, it.spec), layouts(config, mesh))
    return State(weights, weights, weights, NamedSharding(mesh, P()))


def initial_state(config: Config, mesh: Mesh) -> State:
    """Weights from a fixed seed, each drawn where it will live."""

    def draw(path: tuple[Any, ...], layout: Layout) -> Array:
        name = jax.tree_util.keystr(path)
        if "norm" in name:
            return jnp.ones(layout.shape)
        key = jax.random.fold_in(jax.random.key(0), sum(name.encode()))
        return jax.random.normal(key, layout.shape) * config.width**-0.5

    def state() -> State:
        weights = jax.tree_util.tree_map_with_path(
            draw, layouts(config, mesh), is_leaf=lambda node: isinstance(node, Layout)
        )
        zeros = jax.tree.map(jnp.zeros_like, weights)
        return State(weights, zeros, zeros, jnp.zeros((), jnp.int32))

    return jax.jit(state, out_shardings=state_shardings(config, mesh))()


def make_batch(config: Config, mesh: Mesh, index: int) -> tuple[Array, Array]:
    """Tokens, and to each an answer that can be learned; the same in every run."""
    shape = (global_batch(config, mesh), config.sequence)
    tokens = np.random.default_rng(index).integers(config.vocabulary, size=shape, dtype=np.int32)
    answers = (5 * tokens + 3) % config.vocabulary
    sharding = NamedSharding(mesh, P(BATCH))
    first, second = (
        jax.make_array_from_callback(shape, sharding, partial(np.ndarray.__getitem__, values))
        for values in (tokens, answers)
    )
    return first, second


def global_batch(config: Config, mesh: Mesh) -> int:
    """Sequences in a step of all devices."""
    ways = mesh.shape["data"] * mesh.shape["fsdp"]
    sequences = round(config.batch * mesh.size)
    if sequences < 1 or sequences % ways:
        raise ValueError(
            f"batch={config.batch:g} on {mesh.size} devices is {config.batch * mesh.size:g} "
            f"sequences, which data x fsdp = {ways} devices cannot share evenly"
        )
    return sequences


# Settings and devices


def configure(size: str, settings: dict[str, Any]) -> Config:
    """The config of a size with settings of one's own, which may be text."""
    if size not in SIZES:
        raise ValueError(f"size={size}: it is one of {', '.join(SIZES)}")
    kinds = {field.name: type(field.default) for field in fields(Config)}
    for name in settings:
        if name not in kinds:
            raise ValueError(f"{name!r} is no setting; there are {', '.join(kinds)}")
    read = {name: convert(name, kinds[name], value) for name, value in settings.items()}
    config = replace(SIZES[size], **read)
    check(config)
    return config


def convert(name: str, kind: type, value: Any) -> Any:  # noqa: ANN401 - whatever a setting is
    """A value of that kind, from text too."""
    try:
        return TRUTHS[str(value).lower()] if kind is bool else kind(value)
    except (KeyError, ValueError):
        raise ValueError(f"{name}={value}: it takes {KINDS[kind]}") from None


def check(config: Config) -> None:
    """Refuse what no step can be made of."""
    for name, words in WORDS.items():
        if getattr(config, name) not in words:
            raise ValueError(f"{name}={getattr(config, name)}: it is one of {', '.join(words)}")
    for name, value in vars(config).items():
        least = 0 if name == "fsdp" else 1
        if type(value) is int and value < least:
            raise ValueError(f"{name}={value}: it is at least {least}")
    if config.width % (2 * config.heads) or config.heads % config.kv_heads:
        raise ValueError(
            f"width={config.width} heads={config.heads} kv_heads={config.kv_heads}: heads share "
            "the width, in pairs of numbers, and kv_heads the heads"
        )
    if config.remat not in KEPT and not {*config.remat.split(",")} <= {*NAMED}:
        raise ValueError(f"remat={config.remat}: {', '.join(KEPT)}, or of {','.join(NAMED)}")


def make_mesh(config: Config, count: int | None = None) -> Mesh:
    """Arrange devices, all or the first so many, for data x fsdp x tensor."""
    devices = np.array(jax.devices()[:count])
    if count is not None and len(devices) < count:
        raise ValueError(f"{count} devices are asked for; JAX has {len(devices)}")
    fsdp = config.fsdp or len(devices) // (config.data * config.tensor)
    shape = (config.data, fsdp, config.tensor)
    if np.prod(shape) != len(devices):
        named = " x ".join(f"{axis} {size}" for axis, size in zip(AXES, shape, strict=True))
        raise ValueError(f"{named} are not {len(devices)} devices")
    return Mesh(devices.reshape(shape), AXES, (AxisType.Auto,) * len(AXES))


@contextmanager
def cudnn_supposed(attention: str) -> Generator[None]:
    """Lower cuDNN's attention where no cuDNN is, for a compiler that needs none.

    JAX asks for its version while it traces. Running what was lowered needs the real one.
    """
    from jax._src.cudnn import fused_attention_stablehlo as kernels

    asked = kernels.check_cudnn_version
    on_gpu = jax.default_backend() == "gpu"
    if attention == "cudnn" and not on_gpu:
        kernels.check_cudnn_version = lambda: 91000
    try:
        yield
    finally:
        kernels.check_cudnn_version = asked


# Training for real


def main() -> None:
    """Train, print the loss and the time of each step, and record the steps asked for."""
    options = parse_options()
    start_platform(options)
    try:
        config, mesh = set_up(options)
        sequences = global_batch(config, mesh)
    except ValueError as mistake:
        raise SystemExit(f"error: {mistake}") from None
    step = jit_step(config, mesh)
    state = initial_state(config, mesh)
    count = sum(weight.size for weight in jax.tree.leaves(state.weights))
    print(f"{count / 1e6:,.1f} million weights on {mesh.size} devices {dict(mesh.shape)}")
    print(f"{sequences} sequences of {config.sequence} tokens in a step")
    last_profiled = min(options.profile_start + options.profile_steps, options.steps) - 1
    for index in range(options.steps):
        if options.profile and index == options.profile_start:
            jax.profiler.start_trace(str(options.profile))
        batch = make_batch(config, mesh, index)
        began = time.perf_counter()
        with jax.profiler.StepTraceAnnotation("train", step_num=index):
            state, loss = step(state, *batch)
            loss = float(loss)
        print(f"step {index:3d}  loss {loss:.4f}  {time.perf_counter() - began:.3f} s", flush=True)
        if options.profile and index == last_profiled:
            jax.block_until_ready(state)
            jax.profiler.stop_trace()
            print(f"steps {options.profile_start} to {index} are in {options.profile}")


def set_up(options: argparse.Namespace) -> tuple[Config, Mesh]:
    """What is trained, and the devices that train it."""
    given = {field.name: getattr(options, field.name) for field in fields(Config)}
    config = configure(options.size, {name: it for name, it in given.items() if it is not None})
    on_gpu = jax.default_backend() == "gpu"
    if config.attention == "auto":
        config = replace(config, attention="cudnn" if on_gpu else "xla")
    if config.attention == "cudnn" and not on_gpu:
        raise ValueError("attention=cudnn runs on GPUs only; here it is xla")
    return config, make_mesh(config, options.devices)


def parse_options() -> argparse.Namespace:
    """What the command line asks for; every field of `Config` is an option."""
    parser = argparse.ArgumentParser(
        description="Train a Llama of any size for a few steps, and profile some of them."
    )
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--platform", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--devices", type=int, help="how many, if not all")
    parser.add_argument("--profile", type=Path, help="directory to write a profile into")
    parser.add_argument("--profile-start", type=int, default=4, help="first step to record")
    parser.add_argument("--profile-steps", type=int, default=4, help="how many steps to record")
    for field in fields(Config):
        kind = type(field.default)
        name = f"--{field.name.replace('_', '-')}"
        if kind is bool:
            parser.add_argument(name, action=argparse.BooleanOptionalAction)
        else:
            parser.add_argument(name, type=kind, choices=WORDS.get(field.name))
    options = parser.parse_args()
    if options.devices is not None and options.devices < 1:
        parser.error(f"--devices {options.devices}: at least one")
    if options.profile and not 0 <= options.profile_start < options.steps:
        parser.error(f"--profile-start {options.profile_start} is not one of {options.steps} steps")
    return options


def start_platform(options: argparse.Namespace) -> None:
    """Choose the devices; on a CPU there are as many as asked for, unless XLA_FLAGS says."""
    jax.config.update("jax_platforms", {"gpu": "cuda"}.get(options.platform, options.platform))
    counted = "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", "")
    if options.platform == "cpu" and not counted:
        jax.config.update("jax_num_cpu_devices", options.devices or CPU_DEVICES)


if __name__ == "__main__":
    main()
