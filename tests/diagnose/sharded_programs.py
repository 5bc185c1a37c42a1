"""Steps of known sharding: `python sharded_programs.py OUT NAME...` lowers some for 8 devices."""

# ruff: noqa: ANN401 - weights are trees, and arguments are arrays or their shapes

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

BATCH, LENGTH, WIDTH, HEADS, LAYERS, WORDS = 32, 1024, 1024, 16, 3, 8192
BF16 = jnp.bfloat16
Step = tuple[Callable[..., Any], tuple[Any, ...]]


def mesh(**axes: int) -> Mesh:
    devices = np.array(jax.devices()).reshape(tuple(axes.values()))
    return Mesh(devices, tuple(axes))


def shaped(of: Mesh, spec: Any, *shape: int, dtype: Any = jnp.float32) -> Any:
    return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(of, spec))


def weights(of: Mesh, wide: P, narrow: P, words: P) -> dict[str, Any]:
    """Of a transformer: `wide` shards (layer, width, more), `narrow` the way back."""
    return {
        "emb": shaped(of, words, WORDS, WIDTH),
        "qkv": shaped(of, wide, LAYERS, WIDTH, 3 * WIDTH),
        "out": shaped(of, narrow, LAYERS, WIDTH, WIDTH),
        "up": shaped(of, wide, LAYERS, WIDTH, 4 * WIDTH),
        "down": shaped(of, narrow, LAYERS, 4 * WIDTH, WIDTH),
    }


def norm(x: Any) -> Any:
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)


def attention(q: Any, k: Any, v: Any) -> Any:
    def split(t: Any) -> Any:
        return t.reshape(*t.shape[:-1], HEADS, t.shape[-1] // HEADS)

    scores = jnp.einsum("bqhd,bkhd->bhqk", split(q), split(k))
    shares = jax.nn.softmax(scores.astype(jnp.float32)).astype(BF16)
    return jnp.einsum("bhqk,bkhd->bqhd", shares, split(v)).reshape(q.shape)


def transformer(keep: Callable[[Any], Any], logits: Callable[[Any], Any] = lambda y: y) -> Any:
    """The loss; `keep` constrains the activations."""

    def layer(x: Any, w: Any) -> Any:
        x = keep(x)
        q, k, v = jnp.split(norm(x).astype(BF16) @ w["qkv"].astype(BF16), 3, -1)
        x = x + (attention(q, k, v) @ w["out"].astype(BF16)).astype(jnp.float32)
        up = jax.nn.gelu(norm(x).astype(BF16) @ w["up"].astype(BF16))
        return keep(x + (up @ w["down"].astype(BF16)).astype(jnp.float32)), None

    def loss(params: Any, tokens: Any) -> Any:
        x = keep(params["emb"][tokens[:, :-1]])
        x, _ = jax.lax.scan(layer, x, {k: params[k] for k in ("qkv", "out", "up", "down")})
        y = logits((norm(x).astype(BF16) @ params["emb"].T.astype(BF16)).astype(jnp.float32))
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(y), tokens[:, 1:, None], -1))

    return loss


def trained(loss: Any, *, shardings: Any = None) -> Any:
    def step(params: Any, batch: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(params, batch)
        return jax.tree.map(lambda w, g: w - 1e-3 * g, params, gradient), value

    out = None if shardings is None else (shardings, None)
    return jax.jit(step, donate_argnums=0, out_shardings=out)


def of(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf.sharding, tree)


def free(x: Any) -> Any:
    return x


def kept(where: Mesh, *spec: Any) -> Callable[[Any], Any]:
    return lambda x: jax.lax.with_sharding_constraint(x, NamedSharding(where, P(*spec)))


def lm(
    where: Mesh,
    params: Any,
    tokens: P,
    keep: Callable[[Any], Any],
    *,
    batch: int = BATCH,
    length: int = LENGTH,
    logits: Callable[[Any], Any] = free,
) -> Step:
    data = shaped(where, tokens, batch, length + 1, dtype=jnp.int32)
    return trained(transformer(keep, logits), shardings=of(params)), (params, data)


def fsdp_weights(where: Mesh, axis: Any = "fsdp") -> Any:
    return weights(where, P(None, axis), P(None, None, axis), P(axis))


# --- a part of the batch's work is not sharded although it could be ---


def fsdp_without_constraint() -> Step:
    where = mesh(fsdp=8)
    return lm(where, fsdp_weights(where), P("fsdp"), free)


def input_on_one_axis_of_two() -> Step:
    where = mesh(data=2, fsdp=4)
    return lm(where, fsdp_weights(where), P("data"), kept(where, "data"))


def input_not_sharded() -> Step:
    where = mesh(data=8)
    return lm(where, weights(where, P(), P(), P()), P(), free)


def inference_without_sharding() -> Step:
    where = mesh(data=8)
    params = weights(where, P(), P(), P())
    return jax.jit(transformer(free)), (
        params,
        shaped(where, P(), BATCH, LENGTH + 1, dtype=jnp.int32),
    )


def mlp_in_scan_without_constraint() -> Step:
    """No product is repeated, but activations are summed over devices with different examples."""
    return _mlp_in_scan(free)


def mlp_in_scan_with_constraint() -> Step:
    return _mlp_in_scan(kept(mesh(fsdp=8), "fsdp"))


def _mlp_in_scan(keep: Callable[[Any], Any]) -> Step:
    where = mesh(fsdp=8)
    params = {
        "emb": shaped(where, P("fsdp"), WORDS, WIDTH),
        "up": shaped(where, P(None, "fsdp"), LAYERS, WIDTH, 4 * WIDTH),
        "down": shaped(where, P(None, None, "fsdp"), LAYERS, 4 * WIDTH, WIDTH),
    }

    def layer(x: Any, w: Any) -> Any:
        x = keep(x)
        return keep(x + jax.nn.gelu(x @ w["up"].astype(BF16)) @ w["down"].astype(BF16)), None

    def loss(params: Any, tokens: Any) -> Any:
        x = keep(params["emb"][tokens].astype(BF16))
        x, _ = jax.lax.scan(layer, x, {name: params[name] for name in ("up", "down")})
        return jnp.mean(x.astype(jnp.float32) ** 2)

    data = shaped(where, P("fsdp"), BATCH, LENGTH, dtype=jnp.int32)
    return trained(loss, shardings=of(params)), (params, data)


def weights_cut_by_rows() -> Step:
    """In the backward pass, activations are cut by features, and gathered for each product."""
    return _cut_alike(P(None, "fsdp"), P("fsdp"), free)


def weights_cut_by_rows_with_constraint() -> Step:
    return _cut_alike(P(None, "fsdp"), P("fsdp"), kept(mesh(fsdp=8), "fsdp"))


def weights_cut_by_columns() -> Step:
    return _cut_alike(P(None, None, "fsdp"), P("fsdp"), free)


def hybrid_without_constraint() -> Step:
    return _cut_alike(P(None, None, "fsdp"), P(("data", "fsdp")), free, data=2, fsdp=4)


def hybrid_with_constraint() -> Step:
    both = ("data", "fsdp")
    keep = kept(mesh(data=2, fsdp=4), both)
    return _cut_alike(P(None, None, "fsdp"), P(both), keep, data=2, fsdp=4)


def _cut_alike(
    spec: P, tokens: P, keep: Callable[[Any], Any], *, batch: int = BATCH, length: int = LENGTH,
    **axes: int,
) -> Step:  # fmt: skip
    where = mesh(**(axes or {"fsdp": 8}))
    return lm(
        where, weights(where, spec, spec, P("fsdp")), tokens, keep, batch=batch, length=length
    )


def microbatches_without_constraint() -> Step:
    """The batch is reshaped: what is cut may be the number of microbatches."""
    return _microbatches(free)


def microbatches_with_constraint() -> Step:
    where = mesh(fsdp=8)
    return _microbatches(kept(where, "fsdp"), kept(where, None, "fsdp"))


def _microbatches(keep: Callable[[Any], Any], split: Callable[[Any], Any] = free) -> Step:
    where = mesh(fsdp=8)
    loss = transformer(keep)

    def step(params: Any, tokens: Any) -> Any:
        def add(total: Any, some: Any) -> Any:
            return jax.tree.map(jnp.add, total, jax.grad(loss)(params, some)), None

        zero = jax.tree.map(jnp.zeros_like, params)
        gradient, _ = jax.lax.scan(add, zero, split(tokens.reshape(2, BATCH, LENGTH + 1)))
        return jax.tree.map(lambda w, g: w - 1e-3 * g, params, gradient)

    params = weights(where, P(None, "fsdp"), P(None, "fsdp"), P("fsdp"))
    data = shaped(where, P("fsdp"), 2 * BATCH, LENGTH + 1, dtype=jnp.int32)
    return jax.jit(step, donate_argnums=0, out_shardings=of(params)), (params, data)


def attention_whole_on_tensor_axis() -> Step:
    where = mesh(data=2, tensor=4)
    params = weights(where, P(), P(), P())
    return lm(where, params, P("data"), kept(where, "data"))


def convolutions_not_sharded() -> Step:
    return _convolutions(P())


# --- each device has its own work, or can't have ---


def fsdp_with_constraint() -> Step:
    where = mesh(fsdp=8)
    return lm(where, fsdp_weights(where), P("fsdp"), kept(where, "fsdp"))


def mlp_without_constraint() -> Step:
    """The partitioner gathers these weights of itself."""
    where = mesh(fsdp=8)
    params = {
        f"w{n}": shaped(where, P("fsdp") if n % 2 == 0 else P(None, "fsdp"), 4096, 4096)
        for n in range(4)
    }

    def loss(params: Any, batch: Any) -> Any:
        x, y = batch
        for n in range(4):
            x = jax.nn.gelu(x @ params[f"w{n}"].astype(BF16))
        return jnp.mean((x - y) ** 2)

    data = shaped(where, P("fsdp"), 65536, 4096, dtype=BF16)
    return trained(loss, shardings=of(params)), (params, (data, data))


def data_parallel() -> Step:
    where = mesh(data=8)
    return lm(where, weights(where, P(), P(), P()), P("data"), free)


def data_and_fsdp() -> Step:
    where = mesh(data=2, fsdp=4)
    both = ("data", "fsdp")
    return lm(where, fsdp_weights(where), P(both), kept(where, both))


def tensor_parallel() -> Step:
    where = mesh(tensor=8)
    params = weights(where, P(None, None, "tensor"), P(None, "tensor"), P("tensor"))
    return lm(where, params, P(), kept(where))


def tensor_and_data_parallel() -> Step:
    where = mesh(data=2, tensor=4)
    params = weights(where, P(None, None, "tensor"), P(None, "tensor"), P("tensor"))
    return lm(where, params, P("data"), kept(where, "data"))


def tensor_and_fsdp() -> Step:
    where = mesh(fsdp=2, tensor=4)
    params = weights(
        where, P(None, "fsdp", "tensor"), P(None, "tensor", "fsdp"), P("tensor", "fsdp")
    )
    return lm(where, params, P("fsdp"), kept(where, "fsdp"))


def sequence_parallel() -> Step:
    where = mesh(data=2, seq=4)
    data = shaped(where, P("data", "seq"), BATCH, LENGTH, dtype=jnp.int32)
    loss = transformer(kept(where, "data", "seq"))

    def whole(params: Any, tokens: Any) -> Any:
        return loss(params, jnp.pad(tokens, ((0, 0), (0, 1))))

    params = weights(where, P(), P(), P())
    return trained(whole, shardings=of(params)), (params, data)


def tensor_with_sequence_between() -> Step:
    where = mesh(data=2, tensor=4)
    params = weights(where, P(None, None, "tensor"), P(None, "tensor"), P("tensor"))
    return lm(where, params, P("data"), kept(where, "data", "tensor"))


def batch_smaller_than_axis() -> Step:
    where = mesh(data=8)
    return lm(where, weights(where, P(), P(), P()), P(), free, batch=4, length=LENGTH)


def decode_one() -> Step:
    where = mesh(tensor=8)
    params = weights(where, P(None, None, "tensor"), P(None, "tensor"), P("tensor"))
    loss = transformer(kept(where))
    return jax.jit(loss), (params, shaped(where, P(), 1, LENGTH + 1, dtype=jnp.int32))


def inference_tensor_parallel() -> Step:
    where = mesh(tensor=8)
    params = weights(where, P(None, None, "tensor"), P(None, "tensor"), P("tensor"))
    return jax.jit(transformer(kept(where))), (
        params,
        shaped(where, P(), 8, LENGTH + 1, dtype=jnp.int32),
    )


def weights_stay_while_decoding() -> Step:
    """Few examples, large weights on the same axis: to gather the examples is right."""
    where = mesh(fsdp=8)
    params = {f"w{n}": shaped(where, P("fsdp"), 8192, 8192, dtype=BF16) for n in range(4)}

    def apply(params: Any, x: Any) -> Any:
        for n in range(4):
            x = jax.nn.gelu(x @ params[f"w{n}"])
        return x

    return jax.jit(apply), (params, shaped(where, P("fsdp"), 16, 8192, dtype=BF16))


def few_tokens() -> Step:
    """Activations are smaller than weights: to move them is right."""
    return _cut_alike(P(None, "fsdp"), P("fsdp"), free, batch=8, length=64)


def sequences_on_tensor_axis() -> Step:
    """Tensor parallelism for which the input, too, is cut along its sequence."""
    where = mesh(data=2, tensor=4)
    params = weights(where, P(None, None, "tensor"), P(None, "tensor"), P("tensor"))
    loss = transformer(kept(where, "data", "tensor"))

    def padded(params: Any, tokens: Any) -> Any:
        return loss(params, jnp.pad(tokens, ((0, 0), (0, 1))))

    data = shaped(where, P("data", "tensor"), BATCH, LENGTH, dtype=jnp.int32)
    return trained(padded, shardings=of(params)), (params, data)


def packed_sequence_on_tensor_axis() -> Step:
    """One long sequence without a dimension of examples."""
    where = mesh(tensor=8)
    params = {
        "emb": shaped(where, P(), WORDS, 2048),
        "up": shaped(where, P(None, "tensor"), 2048, 8192),
        "down": shaped(where, P("tensor"), 8192, 2048),
    }
    keep, inside = kept(where, "tensor"), kept(where, None, "tensor")

    def loss(params: Any, tokens: Any) -> Any:
        x = keep(params["emb"].astype(BF16)[tokens])
        for _ in range(3):
            up = inside(jax.nn.gelu(x @ params["up"].astype(BF16)))
            x = keep(x + up @ params["down"].astype(BF16))
        return jnp.mean(x.astype(jnp.float32) ** 2)

    data = shaped(where, P("tensor"), BATCH * LENGTH, dtype=jnp.int32)
    return trained(loss, shardings=of(params)), (params, data)


def tensor_parallel_by_hand() -> Step:
    """The program itself gathers activations along the axis of its batch."""
    where = mesh(x=8)
    params = {
        "up": shaped(where, P(None, "x"), 2048, 8192),
        "down": shaped(where, P("x"), 8192, 2048),
    }

    def mlp(up: Any, down: Any, x: Any) -> Any:
        x = jax.lax.all_gather(x, "x", axis=0, tiled=True)
        y = jax.nn.gelu(x @ up.astype(BF16)) @ down.astype(BF16)
        return jax.lax.psum_scatter(y, "x", scatter_dimension=0, tiled=True)

    def loss(params: Any, batch: Any) -> Any:
        x, y = batch
        specs = (P(None, "x"), P("x"), P("x"))
        run = jax.shard_map(mlp, mesh=where, in_specs=specs, out_specs=P("x"), check_vma=False)
        for _ in range(2):
            x = x + run(params["up"], params["down"], x)
        return jnp.mean((x - y) ** 2)

    data = shaped(where, P("x"), BATCH, LENGTH, 2048, dtype=BF16)
    return trained(loss, shardings=of(params)), (params, (data, data))


def ulysses() -> Step:
    """Attention is cut by heads, and all else by the sequence."""
    return _ulysses(P("data", "seq"), data=2, seq=4)


def ulysses_without_data_axis() -> Step:
    return _ulysses(P(None, "seq"), seq=8)


def _ulysses(tokens: P, **axes: int) -> Step:
    where = mesh(**axes)
    params = {name: shaped(where, P(), 2048, 2048) for name in ("q", "k", "v", "out")}
    params["emb"] = shaped(where, P(), WORDS, 2048)
    keep, by_heads = kept(where, *tokens), kept(where, tokens[0], None, "seq")

    def loss(params: Any, tokens: Any) -> Any:
        w = {name: one.astype(BF16) for name, one in params.items()}
        x = keep(w["emb"][tokens])
        for _ in range(2):
            q, k, v = (by_heads((x @ w[n]).reshape(*x.shape[:2], HEADS, -1)) for n in "qkv")
            mixed = keep(jax.nn.dot_product_attention(q, k, v).reshape(x.shape))
            x = keep(x + mixed @ w["out"])
        return jnp.mean(x.astype(jnp.float32) ** 2)

    data = shaped(where, tokens, BATCH, LENGTH, dtype=jnp.int32)
    return trained(loss, shardings=of(params)), (params, data)


def vocabulary_on_tensor_axis() -> Step:
    where = mesh(data=2, tensor=4)
    params = weights(where, P(None, None, "tensor"), P(None, "tensor"), P("tensor"))
    logits = kept(where, "data", None, "tensor")
    return lm(where, params, P("data"), kept(where, "data"), logits=logits)


def tables_on_data_axis() -> Step:
    """Embeddings of categories are cut by rows, and what is looked up goes to its examples."""
    return _tables(P(None, "x"))


def tables_cut_by_features() -> Step:
    return _tables(P(None, None, "x"))


def _tables(spec: P) -> Step:
    where = mesh(x=8)
    params = {
        "tables": shaped(where, spec, 16, 100_000, 64),
        "in": shaped(where, P(), 16 * 64, 4096),
        "out": shaped(where, P(), 4096, 1),
    }
    keep = kept(where, "x")

    def loss(params: Any, batch: Any) -> Any:
        ids, clicked = batch
        found = jax.vmap(lambda table, at: table[at], (0, 1), 1)(params["tables"], ids)
        x = keep(found.reshape(ids.shape[0], -1).astype(BF16))
        y = jax.nn.relu(x @ params["in"].astype(BF16)) @ params["out"].astype(BF16)
        return jnp.mean((y[:, 0] - clicked) ** 2)

    data = shaped(where, P("x"), 65536, 16, dtype=jnp.int32), shaped(where, P("x"), 65536)
    return trained(loss, shardings=of(params)), (params, data)


def contrastive_with_fsdp() -> Step:
    """One side of the examples is gathered on purpose, and so are the weights."""
    where = mesh(fsdp=8)
    params = {name: shaped(where, P("fsdp"), 2048, 2048) for name in ("left", "right")}
    keep, whole = kept(where, "fsdp"), kept(where)

    def loss(params: Any, batch: Any) -> Any:
        left, right = (
            keep(x @ params[name].astype(BF16)) for x, name in zip(batch, params, strict=True)
        )
        scores = keep((left @ whole(right).T).astype(jnp.float32))
        return -jnp.mean(jnp.diagonal(jax.nn.log_softmax(scores)))

    data = shaped(where, P("fsdp"), 16384, 2048, dtype=BF16)
    return trained(loss, shardings=of(params)), (params, (data, data))


def experts_on_data_axis() -> Step:
    where = mesh(data=8)
    params = {
        "router": shaped(where, P(), WIDTH, 8),
        "up": shaped(where, P("data"), 8, WIDTH, 4 * WIDTH),
        "down": shaped(where, P("data"), 8, 4 * WIDTH, WIDTH),
    }
    keep = kept(where, "data")
    experts = kept(where, "data")

    def loss(params: Any, batch: Any) -> Any:
        x, y = batch
        gates = jax.nn.softmax(x @ params["router"].astype(BF16))
        picked = jax.nn.one_hot(jnp.argmax(gates, -1), 8, dtype=BF16)
        sent = experts(jnp.einsum("bse,bsd->ebsd", picked, x))
        h = jax.nn.gelu(jnp.einsum("ebsd,edf->ebsf", sent, params["up"].astype(BF16)))
        h = experts(jnp.einsum("ebsf,efd->ebsd", h, params["down"].astype(BF16)))
        back = keep(jnp.einsum("ebsd,bse->bsd", h, picked))
        return jnp.mean((back - y) ** 2)

    data = shaped(where, P("data"), BATCH, 256, WIDTH, dtype=BF16)
    return trained(loss, shardings=of(params)), (params, (data, data))


def experts_two_on_each() -> Step:
    return _experts(mesh(data=8), 16, P("data"), "data")


def experts_and_fsdp() -> Step:
    return _experts(mesh(expert=4, fsdp=2), 8, P("expert", "fsdp"), ("expert", "fsdp"))


def _experts(where: Mesh, count: int, spec: P, axes: Any) -> Step:
    """Each has room for 64 tokens of an example."""
    params = {
        "router": shaped(where, P(), WIDTH, count),
        "up": shaped(where, spec, count, WIDTH, 4 * WIDTH),
        "down": shaped(where, spec, count, 4 * WIDTH, WIDTH),
    }
    keep, experts = kept(where, axes), kept(where, spec[0])

    def loss(params: Any, batch: Any) -> Any:
        x, y = batch
        chosen = jnp.argmax(keep(x) @ params["router"].astype(BF16), -1)
        picked = jax.nn.one_hot(chosen, count, dtype=BF16)
        place = (jnp.cumsum(picked, 1) * picked).sum(-1).astype(jnp.int32) - 1
        mask = jnp.einsum("bse,bsc->bsec", picked, jax.nn.one_hot(place, 64, dtype=BF16))
        sent = experts(jnp.einsum("bsec,bsd->ebcd", mask, x))
        h = jax.nn.gelu(jnp.einsum("ebcd,edf->ebcf", sent, params["up"].astype(BF16)))
        h = experts(jnp.einsum("ebcf,efd->ebcd", h, params["down"].astype(BF16)))
        return jnp.mean((keep(jnp.einsum("bsec,ebcd->bsd", mask, h)) - y) ** 2)

    data = shaped(where, P(axes), 64, 512, WIDTH, dtype=BF16)
    return trained(loss, shardings=of(params)), (params, (data, data))


def pipeline() -> Step:
    where = mesh(stage=8)
    params = {"w": shaped(where, P("stage"), 8, 4, 2048, 2048)}

    def stage(w: Any, x: Any) -> Any:
        place = jax.lax.axis_index("stage")
        held, done = jnp.zeros_like(x[0]), jnp.zeros_like(x)
        for turn in range(x.shape[0] + 7):
            held = jnp.where(place == 0, x[min(turn, x.shape[0] - 1)], held)
            for n in range(4):
                held = jax.nn.gelu(held @ w[0, n].astype(BF16))
            done = done.at[max(turn - 7, 0)].set(held)
            held = jax.lax.ppermute(held, "stage", [(n, n + 1) for n in range(7)])
        return jax.lax.psum(jnp.where(place == 7, done, 0), "stage")

    def loss(params: Any, batch: Any) -> Any:
        x, y = batch
        run = jax.shard_map(
            stage, mesh=where, in_specs=(P("stage"), P()), out_specs=P(), check_vma=False
        )
        return jnp.mean((run(params["w"], x) - y) ** 2)

    data = shaped(where, P(), 4, 2048, 2048, dtype=BF16)
    return trained(loss, shardings=of(params)), (params, (data, data))


def convolutions() -> Step:
    return _convolutions(P("data"))


def _convolutions(spec: P) -> Step:
    where = mesh(data=8)
    params = {f"k{n}": shaped(where, P(), 3, 3, 128, 128) for n in range(4)}

    def loss(params: Any, batch: Any) -> Any:
        x, y = batch
        for n in range(4):
            x = jax.lax.conv_general_dilated(
                x, params[f"k{n}"].astype(BF16), (1, 1), "SAME",
                dimension_numbers=("NHWC", "HWIO", "NHWC"),
            )  # fmt: skip
            mean = jnp.mean(x, (0, 1, 2), dtype=jnp.float32)
            x = jax.nn.relu(x - mean.astype(BF16))
        return jnp.mean((jnp.mean(x, (1, 2))[:, 0].astype(jnp.float32) - y) ** 2)

    images = shaped(where, spec, 256, 56, 56, 128, dtype=BF16)
    labels = shaped(where, spec, 256, dtype=jnp.int32)
    return trained(loss, shardings=of(params)), (params, (images, labels))


def contrastive() -> Step:
    """Each compares its examples with those of all: one side is gathered."""
    where = mesh(data=8)
    params = {name: shaped(where, P(), WIDTH, 4096) for name in ("left", "right")}

    def loss(params: Any, batch: Any) -> Any:
        left, right = (x @ params[name].astype(BF16) for x, name in zip(batch, params, strict=True))
        scores = (left @ right.T).astype(jnp.float32)
        return -jnp.mean(jnp.diagonal(jax.nn.log_softmax(scores)))

    data = shaped(where, P("data"), 16384, WIDTH, dtype=BF16)
    return trained(loss, shardings=of(params)), (params, (data, data))


def correlations() -> Step:
    """A sum over the batch in the forward pass, of two activations."""
    where = mesh(data=8)
    params = {"w": shaped(where, P(), WIDTH, 8192), "v": shaped(where, P(), 8192, 8192)}

    def loss(params: Any, x: Any) -> Any:
        z = jax.nn.relu(x @ params["w"].astype(BF16)) @ params["v"].astype(BF16)
        z = z - jnp.mean(z, 0)
        c = (z.T @ z).astype(jnp.float32)
        return jnp.mean((c - jnp.eye(8192)) ** 2)

    return trained(loss, shardings=of(params)), (
        params,
        shaped(where, P("data"), 16384, WIDTH, dtype=BF16),
    )


def one_key_and_value_head() -> Step:
    """All heads share a projection that is small: every device has it."""
    where = mesh(tensor=8)
    params = {
        "q": shaped(where, P(None, "tensor"), 4096, 4096),
        "kv": shaped(where, P(), 4096, 128),
        "o": shaped(where, P("tensor"), 4096, 4096),
        "up": shaped(where, P(None, "tensor"), 4096, 16384),
        "down": shaped(where, P("tensor"), 16384, 4096),
    }

    def loss(params: Any, batch: Any) -> Any:
        x, y = batch
        w = {name: one.astype(BF16) for name, one in params.items()}
        q = (x @ w["q"]).reshape(*x.shape[:2], 32, 128)
        kv = x @ w["kv"]
        scores = jax.nn.softmax(jnp.einsum("bqhd,bkd->bhqk", q, kv))
        x = x + jnp.einsum("bhqk,bkd->bqhd", scores, kv).reshape(x.shape) @ w["o"]
        x = x + jax.nn.gelu(x @ w["up"]) @ w["down"]
        return jnp.mean((x - y) ** 2)

    data = shaped(where, P(), 8, 2048, 4096, dtype=BF16)
    return trained(loss, shardings=of(params)), (params, (data, data))


def adam_with_products() -> Step:
    """The optimizer multiplies gradients that all devices have: that is no work of the batch."""
    where = mesh(data=8)
    params = {"w": shaped(where, P(), 2048, 2048)}

    def loss(params: Any, x: Any) -> Any:
        return jnp.mean((x @ params["w"].astype(BF16)) ** 2)

    def step(params: Any, x: Any) -> Any:
        g = jax.grad(loss)(params, x)["w"]
        for _ in range(5):
            a = g @ g.T
            g = 3.4 * g - 4.7 * a @ g + 2.0 * (a @ (a @ g))
        return {"w": params["w"] - 1e-3 * g}

    data = shaped(where, P("data"), 16384, 2048, dtype=BF16)
    return jax.jit(step, donate_argnums=0), (params, data)


def accumulation() -> Step:
    where = mesh(data=8)
    loss = transformer(kept(where, "data"))

    def step(params: Any, tokens: Any) -> Any:
        def add(total: Any, some: Any) -> Any:
            return jax.tree.map(jnp.add, total, jax.grad(loss)(params, some)), None

        zero = jax.tree.map(jnp.zeros_like, params)
        gradient, _ = jax.lax.scan(add, zero, tokens)
        return jax.tree.map(lambda w, g: w - 1e-3 * g, params, gradient)

    params = weights(where, P(), P(), P())
    data = shaped(where, P(None, "data"), 4, BATCH, LENGTH + 1, dtype=jnp.int32)
    return jax.jit(step, donate_argnums=0, out_shardings=of(params)), (params, data)


# --- gradient accumulation ---


def _accumulated(spec: P, update: Callable[[Any, Any, Any], Any], *, layers: bool = False) -> Step:
    """`update` gives the carry of the next microbatch from carry, parameters and microbatch."""
    where = mesh(data=8)
    params = {f"w{n}": shaped(where, spec, 4096, 4096) for n in range(4)}
    if layers:
        stacked = P(None, *spec)
        params = {"w": shaped(where, stacked, 4, 4096, 4096)}

    def step(params: Any, batch: Any) -> Any:
        zero = jax.tree.map(jnp.zeros_like, params)
        total, _ = jax.lax.scan(lambda c, x: (update(c, params, x), None), zero, batch)
        return jax.tree.map(lambda w, g: w - 1e-3 * g, params, total)

    data = shaped(where, P(None, "data"), 4, 4096, 4096, dtype=BF16)
    return jax.jit(step, donate_argnums=0, out_shardings=of(params)), (params, data)


def _mlp_loss(params: Any, x: Any) -> Any:
    x = jax.lax.with_sharding_constraint(x, NamedSharding(mesh(data=8), P("data")))
    if "w" in params:
        x, _ = jax.lax.scan(lambda x, w: (jax.nn.gelu(x @ w.astype(BF16)), None), x, params["w"])
    else:
        for w in params.values():
            x = jax.nn.gelu(x @ w.astype(BF16))
    return jnp.mean(x.astype(jnp.float32) ** 2)


def _added(total: Any, params: Any, x: Any) -> Any:
    return jax.tree.map(jnp.add, total, jax.grad(_mlp_loss)(params, x))


def reduced_by_xla() -> Step:
    """XLA moves such sums behind the loop itself, if no second loop is around them."""
    return _accumulated(P(), _added)


def reduced_each_time_by_layer() -> Step:
    return _accumulated(P(), _added, layers=True)


def averaged_each_time() -> Step:
    def update(total: Any, params: Any, x: Any) -> Any:
        gradients = jax.grad(_mlp_loss)(params, x)
        return jax.tree.map(lambda t, g: t + g.astype(jnp.float32) / 4, total, gradients)

    return _accumulated(P(), update)


def scattered_each_time() -> Step:
    """FSDP: what is carried is sharded."""
    return _accumulated(P("data"), _added)


def clipped_each_time() -> Step:
    """Each microbatch's gradients are clipped: their norm needs the sum."""

    def update(total: Any, params: Any, x: Any) -> Any:
        gradients = jax.grad(_mlp_loss)(params, x)
        norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(gradients)))
        return jax.tree.map(lambda t, g: t + g / jnp.maximum(norm, 1.0), total, gradients)

    return _accumulated(P(), update)


def trained_in_a_scan() -> Step:
    """The carry are weights, which the next iteration uses."""
    where = mesh(data=8)
    params = {f"w{n}": shaped(where, P(), 4096, 4096) for n in range(4)}

    def step(params: Any, batch: Any) -> Any:
        def one(weights: Any, x: Any) -> Any:
            gradients = jax.grad(_mlp_loss)(weights, x)
            return jax.tree.map(lambda w, g: w - 1e-3 * g, weights, gradients), None

        return jax.lax.scan(one, params, batch)[0]

    data = shaped(where, P(None, "data"), 4, 4096, 4096, dtype=BF16)
    return jax.jit(step, donate_argnums=0, out_shardings=of(params)), (params, data)


def reduced_once() -> Step:
    where = mesh(data=8)
    params = {f"w{n}": shaped(where, P(), 4096, 4096) for n in range(4)}

    def loss(params: Any, x: Any) -> Any:
        for w in params.values():
            x = jax.nn.gelu(x @ w.astype(BF16))
        return jnp.mean(x.astype(jnp.float32) ** 2)

    def own(params: Any, batch: Any) -> Any:
        def add(total: Any, x: Any) -> Any:
            return jax.tree.map(jnp.add, total, jax.grad(loss)(params, x)), None

        zero = jax.tree.map(jnp.zeros_like, params)
        return jax.lax.psum(jax.lax.scan(add, zero, batch)[0], "data")

    def step(params: Any, batch: Any) -> Any:
        summed = jax.shard_map(
            own, mesh=where, in_specs=(P(), P(None, "data")), out_specs=P(), check_vma=False
        )
        return jax.tree.map(lambda w, g: w - 1e-3 * g, params, summed(params, batch))

    data = shaped(where, P(None, "data"), 4, 4096, 4096, dtype=BF16)
    return jax.jit(step, donate_argnums=0, out_shardings=of(params)), (params, data)


def layers_in_a_scan() -> Step:
    """A loop over layers keeps their gradients apart."""
    where = mesh(data=8)
    params = {"w": shaped(where, P(), 4, 4096, 4096)}
    data = shaped(where, P("data"), 4096, 4096, dtype=BF16)
    return trained(_mlp_loss, shardings=of(params)), (params, data)


def main(directory: Path, names: list[str]) -> None:
    for name in names:
        step, arguments = globals()[name]()
        text = step.lower(*arguments).as_text(debug_info=True)
        (directory / f"{name}.mlir").write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
