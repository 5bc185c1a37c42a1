"""CollectiveTable: collectives a user measured with nccl-tests or rccl-tests, from their logs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveTable:
    """One operation on one layout of ranks: seconds by size, in rising order.

    Sizes are nccl-tests': an all-gather's output, a reduce-scatter's input, else the buffer.
    """

    kind: str  # as Collective.kind
    ranks: int
    nodes: int
    device: str  # as the log names it, or ""
    seconds: Mapping[int, float]
    origin: str


def read_nccl_log(path: Path) -> tuple[CollectiveTable, ...]:
    """The tables of a log; InputError where it holds none."""
    raise NotImplementedError
