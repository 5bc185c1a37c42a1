"""Ops summed up by what the user knows: the layer, the line of source, the kind of work.

A model of many layers has thousands of ops, none of which is much. Layers of one kind count as one:
where at least three numbers follow one name at one place of the scope, `layers_0` to `layers_31`
are `layers_*`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, Literal, get_args

import polars as pl

from counterpoint.diagnose.metrics.attribution import PHASES

By = Literal["scope", "source", "category", "op"]
GROUPINGS: Final[tuple[By, ...]] = get_args(By)
FINEST: Final[tuple[By, ...]] = ("op", "scope", "source", "category")

SCHEMA: Final = {
    "by": pl.String,
    "name": pl.String,  # null: not known of these ops
    "category": pl.String,  # of most of its time
    "self_ms": pl.Float64,  # per median step, mean over devices
    "share": pl.Float64,  # of the step
    "ops": pl.UInt32,  # instructions and kernels of their own name
    "count": pl.Float64,  # executions per step and device
    **{f"{phase}_ms": pl.Float64 for phase in PHASES},
    "longest": pl.String,  # the op with most of its time
}

_MOST: Final = 0.7
"""Of the time in ops, what the rows of a table should show."""

_FEW: Final = 4

_LAYERS: Final = 3
"""So many numbers behind one name are layers; two may be the two halves of a block."""

_NUMBERED: Final = re.compile(r"(.*?)(\d+)(\]?)$")


def grouped(ops: pl.DataFrame, by: By) -> pl.DataFrame:
    """The frame of `op_profile` summed up: SCHEMA, the dearest first."""
    named = ops.with_columns(name=pl.col(by))
    if by == "scope":
        scopes: list[str] = ops["scope"].drop_nulls().unique().sort().to_list()
        named = named.with_columns(pl.col("name").replace(merged_layers(scopes)))
    phase = pl.col("phase").fill_null("other")
    ms = pl.col("self_ms")
    keys = ["name", *(["program"] if by == "op" else [])]
    return (
        named.with_columns(kind_ms=ms.sum().over(*keys, "category"))
        .sort("self_ms", "op", descending=[True, False])
        .group_by(keys, maintain_order=True)
        .agg(
            pl.lit(by).alias("by"),
            pl.col("category").sort_by("kind_ms", descending=True, maintain_order=True).first(),
            ms.sum(),
            pl.col("share").sum(),
            pl.len().cast(pl.UInt32).alias("ops"),
            pl.col("count").sum(),
            *(ms.filter(phase == one).sum().alias(f"{one}_ms") for one in PHASES),
            pl.first("op").alias("longest"),
        )
        .select(*SCHEMA)
        .cast({**SCHEMA})
        .sort("self_ms", "name", descending=[True, False])
    )


def all_groups(ops: pl.DataFrame) -> pl.DataFrame:
    """By scope, source and category, under each other; by op it is the op profile itself."""
    return pl.concat([grouped(ops, by) for by in GROUPINGS if by != "op"])


def finest(ops: pl.DataFrame, rows: int) -> By:
    """The finest grouping of which so many rows show most of the time; else by category.

    A few ops more than there are rows need no summing up.
    """
    if len(ops) <= _FEW * rows:
        return "op"
    whole = float(ops["self_ms"].sum())
    for by in FINEST[:-1]:
        known = grouped(ops, by).head(rows).filter(pl.col("name").is_not_null())
        if float(known["self_ms"].sum()) >= _MOST * whole:
            return by
    return FINEST[-1]


def merged_layers(scopes: Iterable[str]) -> Mapping[str, str]:
    """Of each scope, how it reads with the numbers of its layers left out."""
    merged = {scope: tuple(scope.split("/")) for scope in scopes}
    for depth in range(max(map(len, merged.values()), default=0)):
        numbers: dict[tuple[str, ...], set[str]] = {}
        for parts in merged.values():
            if found := _numbered(parts, depth):
                numbers.setdefault(found[0], set()).add(found[1])
        for scope, parts in merged.items():
            found = _numbered(parts, depth)
            if found and len(numbers[found[0]]) >= _LAYERS:
                merged[scope] = (*found[0], *parts[depth + 1 :])
    return {scope: "/".join(parts) for scope, parts in merged.items()}


def _numbered(parts: tuple[str, ...], depth: int) -> tuple[tuple[str, ...], str] | None:
    """The path down to this part with `*` for its number, and the number."""
    match = _NUMBERED.match(parts[depth]) if depth < len(parts) else None
    if match is None:
        return None
    return (*parts[:depth], f"{match[1]}*{match[3]}"), match[2]
