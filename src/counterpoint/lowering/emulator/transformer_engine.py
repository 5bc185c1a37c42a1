"""The attention of Transformer Engine, by the cuDNN kernels that JAX has itself.

The names and arguments are those of `transformer_engine.jax`. What these kernels cannot do raises
NotImplementedError, as Transformer Engine does for what it lacks. Packed sequences count as one,
the upper bound of their work.
"""

from __future__ import annotations

import enum
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from .function import JaxObject

_HALF = ("float16", "bfloat16")


class AttnBiasType(enum.Enum):
    """The place where a bias is added."""

    NO_BIAS = "no_bias"
    PRE_SCALE_BIAS = "pre_scale_bias"
    POST_SCALE_BIAS = "post_scale_bias"


class AttnMaskType(enum.Enum):
    """The scores that count."""

    NO_MASK = "no_mask"
    PADDING_MASK = "padding"
    CAUSAL_MASK = "causal"
    PADDING_CAUSAL_MASK = "padding_causal"
    CAUSAL_BOTTOM_RIGHT_MASK = "causal_bottom_right"
    PADDING_CAUSAL_BOTTOM_RIGHT_MASK = "padding_causal_bottom_right"


class AttnSoftmaxType(enum.Enum):
    """The kind of softmax."""

    VANILLA_SOFTMAX = "vanilla"
    OFF_BY_ONE_SOFTMAX = "off_by_one"
    LEARNABLE_SOFTMAX = "learnable"


class QKVLayout(enum.Enum):
    """The layout of queries, keys and values in memory."""

    T3HD = "t3hd"
    BS3HD = "bs3hd"
    THD_T2HD = "thd_t2hd"
    BSHD_BS2HD = "bshd_bs2hd"
    THD_THD_THD = "thd_thd_thd"
    BSHD_BSHD_BSHD = "bshd_bshd_bshd"


class MeshResource:
    """The names of the mesh's axes."""

    def __init__(self, *args: JaxObject, **named: JaxObject) -> None:
        self.args, self.named = args, named


@contextmanager
def global_shard_guard(resource: JaxObject) -> JaxObject:
    """Set the mesh resource: JAX's kernels follow the shardings of their operands."""
    yield resource


def _sequence_descriptor() -> JaxObject:
    jax: JaxObject = import_module("jax")

    @jax.tree_util.register_pytree_node_class
    class SequenceDescriptor:
        """The lengths of sequences; None where they are packed, or full."""

        def __init__(self, lengths: JaxObject = None) -> None:
            self.lengths = lengths

        @classmethod
        def from_seqlens(cls, seqlens: JaxObject, *_: JaxObject, **__: JaxObject) -> JaxObject:
            return cls(seqlens if isinstance(seqlens, tuple) else (seqlens, seqlens))

        @classmethod
        def from_seqlens_and_offsets(cls, *_: JaxObject, **__: JaxObject) -> JaxObject:
            return cls()

        @classmethod
        def from_segment_ids_and_pos(cls, *_: JaxObject, **__: JaxObject) -> JaxObject:
            return cls()

        def tree_flatten(self) -> JaxObject:
            return (self.lengths,), None

        @classmethod
        def tree_unflatten(cls, _: JaxObject, children: JaxObject) -> JaxObject:
            return cls(*children)

    return SequenceDescriptor


def fused_attn(  # noqa: PLR0913, PLR0917  as there
    qkv: tuple[JaxObject, ...],
    bias: JaxObject,
    sequence_descriptor: JaxObject = None,
    seed: JaxObject = None,
    attn_bias_type: JaxObject = AttnBiasType.NO_BIAS,
    attn_mask_type: JaxObject = AttnMaskType.CAUSAL_MASK,
    qkv_layout: JaxObject = QKVLayout.BSHD_BSHD_BSHD,
    softmax_type: JaxObject = AttnSoftmaxType.VANILLA_SOFTMAX,
    scaling_factor: float | None = None,
    dropout_probability: float = 0.0,
    is_training: bool = True,
    *_: JaxObject,
    window_size: JaxObject = None,
    context_parallel_axis: str = "",
    softmax_offset: JaxObject = None,
    **__: JaxObject,
) -> JaxObject:
    """Return the attention of queries, keys and values of shape [batch, sequence, heads, size]."""
    del seed
    _refuse(
        {
            "a bias": bias is not None or _word(attn_bias_type) not in ("no_bias", "none"),
            "dropout": bool(dropout_probability) and is_training,
            "context parallelism": _axis_size(context_parallel_axis) > 1,
            f"softmax {_word(softmax_type)}": _word(softmax_type) != "vanilla",
            "a softmax offset": softmax_offset is not None,
        }
    )
    queries, keys, values = _separate(qkv, _word(qkv_layout))
    mask = _word(attn_mask_type)
    jax: JaxObject = import_module("jax")
    lengths = _lengths(sequence_descriptor) if "padding" in mask else None
    if lengths:
        batch = queries.shape[:1]
        lengths = tuple(jax.numpy.broadcast_to(each, batch) for each in lengths)
    left = None if window_size is None or window_size[0] < 0 else (int(window_size[0]), 0)
    return jax.nn.dot_product_attention(
        queries,
        keys,
        values,
        scale=scaling_factor,
        is_causal="causal" in mask,
        local_window_size=left,
        query_seq_lengths=lengths[0] if lengths else None,
        key_value_seq_lengths=lengths[1] if lengths else None,
        # In 32 bits, Transformer Engine does not use a fused kernel either.
        implementation="cudnn" if str(queries.dtype) in _HALF else "xla",
    )


def _refuse(wanted: dict[str, bool]) -> None:
    for what, is_wanted in wanted.items():
        if is_wanted:
            raise NotImplementedError(
                f"{what}: what takes the place of transformer_engine here lacks it"
            )


def _word(option: JaxObject) -> str:
    """Return an option as lower-case text, from a string or one of the enumerations."""
    return str(getattr(option, "value", option)).lower()


def _axis_size(name: str) -> int:
    jax: JaxObject = import_module("jax")
    shape = dict(jax.sharding.get_abstract_mesh().shape) if name else {}
    return int(shape.get(name, 1))


def _separate(qkv: tuple[JaxObject, ...], layout: str) -> tuple[JaxObject, ...]:
    if len(qkv) == 1 or layout in ("bs3hd", "t3hd"):
        (packed,) = qkv[:1]
        return packed[:, :, 0], packed[:, :, 1], packed[:, :, 2]
    if len(qkv) == 2 or layout in ("bshd_bs2hd", "thd_t2hd"):
        queries, packed = qkv[:2]
        return queries, packed[:, :, 0], packed[:, :, 1]
    queries, keys, values = qkv[:3]
    return queries, keys, values


def _lengths(descriptor: JaxObject) -> tuple[JaxObject, ...] | None:
    """Return the lengths of queries and of keys, from a descriptor or a mask in which 1 is out."""
    if descriptor is None or hasattr(descriptor, "lengths"):
        lengths: tuple[JaxObject, ...] | None = getattr(descriptor, "lengths", None)
        return lengths
    jnp: JaxObject = import_module("jax.numpy")
    counts = jnp.logical_not(descriptor).astype(jnp.int32)
    batch = counts.shape[0]  # between it and the sequences there may be axes of heads
    return counts.sum(axis=-2).reshape(batch, -1)[:, 0], counts.sum(axis=-1).reshape(batch, -1)[
        :, 0
    ]


def _dot_product_attention() -> JaxObject:
    linen: JaxObject = import_module("flax.linen")

    class DotProductAttention(linen.Module):
        """The layer of `transformer_engine.jax.flax`; it has no parameters."""

        head_dim: int
        num_attention_heads: int
        num_gqa_groups: Any = None
        attention_dropout: float = 0.0
        attn_mask_type: Any = "causal"
        attn_bias_type: Any = None
        dropout_rng_name: str = "dropout"
        dtype: Any = None
        float32_logits: bool = False
        qkv_layout: Any = "bshd_bshd_bshd"
        scale_factor: Any = None
        transpose_batch_sequence: bool = True
        window_size: Any = None
        max_segments_per_seq: Any = 1
        context_parallel_causal_load_balanced: bool = False
        context_parallel_axis: str = ""
        context_parallel_strategy: Any = "DEFAULT"
        context_checkpoint_name: str = "context"
        softmax_type: Any = "vanilla"

        def __call__(
            self,
            query: JaxObject,
            key: JaxObject = None,
            value: JaxObject = None,
            sequence_descriptor: JaxObject = None,
            bias: JaxObject = None,
            *,
            deterministic: bool = False,
            mask: JaxObject = None,
        ) -> JaxObject:
            given = [part for part in (query, key, value) if part is not None]
            if self.transpose_batch_sequence:
                given = [part.swapaxes(0, 1) for part in given]
            out = fused_attn(
                tuple(given),
                bias,
                mask if sequence_descriptor is None else sequence_descriptor,
                attn_bias_type=self.attn_bias_type or "no_bias",
                attn_mask_type=self.attn_mask_type,
                qkv_layout=self.qkv_layout,
                softmax_type=self.softmax_type,
                scaling_factor=self.scale_factor,
                dropout_probability=self.attention_dropout,
                is_training=not deterministic,
                window_size=self.window_size,
                context_parallel_axis=self.context_parallel_axis,
            )
            return out.swapaxes(0, 1) if self.transpose_batch_sequence else out

    return DotProductAttention


def contents(module: str) -> dict[str, Any]:
    """Return what one of its modules holds."""
    enums = (AttnBiasType, AttnMaskType, AttnSoftmaxType, QKVLayout)
    if module.endswith(".jax.attention"):
        named = {kind.__name__: kind for kind in enums}
        return {**named, "SequenceDescriptor": _sequence_descriptor(), "fused_attn": fused_attn}
    if module.endswith((".flax.transformer", ".jax.flax")):
        return {"DotProductAttention": _dot_product_attention()}
    if module.endswith(".jax.sharding"):
        return {"MeshResource": MeshResource, "global_shard_guard": global_shard_guard}
    return {}
