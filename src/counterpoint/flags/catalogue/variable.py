"""Variable: an environment variable that changes a run, with its type, default and values.

They come from NCCL's, CUDA's and JAX's documents and sources; no binary lists them. A default that
JAX itself keeps is in `Release.jax`, per release.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from counterpoint.flags.catalogue.about import Reader


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """One environment variable.

    `type`: bool, int, float, size, string, path, enum, enums (a list). `default` is None where
    nothing is set and what happens then is in the text. `since` and `until` are versions of its
    reader: the first that has it, the first that has it no more.
    """

    name: str
    reader: Reader
    type: str
    default: str | None = None
    values: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None

    def takes(self, value: str) -> bool:
        """Whether a value is of its type, and one of its values where they are known."""
        raise NotImplementedError

    def is_default(self, value: str) -> bool:
        """Whether a value says what holds anyhow."""
        raise NotImplementedError


@cache
def variables() -> Mapping[str, Variable]:
    """All environment variables that are known, by name: NCCL, CUDA, allocator, JAX, logging."""
    text = (
        resources.files("counterpoint.flags.catalogue").joinpath("variables.tsv").read_text("utf-8")
    )
    rows = (line.split("\t") for line in text.splitlines() if not line.startswith("#"))
    return {row[1]: _variable(*row) for row in rows}


def _variable(
    reader: str,
    name: str,
    kind: str,
    default: str = "",
    values: str = "",
    since: str = "",
    until: str = "",
) -> Variable:
    return Variable(
        name=name,
        reader=Reader[reader],
        type=kind,
        default=default or None,
        values=tuple(values.split(",")) if values else (),
        since=since or None,
        until=until or None,
    )
