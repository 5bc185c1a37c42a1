"""Programs of several hosts: which is which.

A program is the same on two hosts when it has the same name and came as the same-numbered program
of that name; fingerprints differ between ranks and file ids between processes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import polars as pl

from counterpoint.timeline.model import ProgramEntry
from counterpoint.timeline.recording import EmbeddedProgram, Recording

Share = Callable[[EmbeddedProgram], EmbeddedProgram]


def program_keys(frame: pl.DataFrame) -> list[str | None]:
    """What a host calls each row's program: its key, or its name where it has no key."""
    return frame.select(pl.coalesce("program_key", "module")).to_series().to_list()


def program_order(recording: Recording) -> dict[str, str]:
    """Programs of a host in the order in which they first ran, with their names."""
    first = recording.spans.group_by("op").agg(pl.col("start_ps").min()).sort("start_ps")
    keys, modules = program_keys(recording.ops), recording.ops["module"].to_list()
    order: dict[str, str] = {}
    executions = recording.executions.sort("start_ps")
    seen = [*zip(program_keys(executions), executions["module"].to_list(), strict=True)]
    seen += [(keys[op], modules[op]) for op in first["op"].to_list()]
    for key, module in seen:
        if key is not None and order.get(key) in (None, key):
            embedded = recording.programs.get(key)
            order[key] = module or (embedded.name if embedded else key)
    return order


def identify(
    programs: list[ProgramEntry],
    recording: Recording,
    keys: dict[str, str],
    host: int,
    share: Share,
) -> dict[str, int]:
    """The index of each of a host's programs, adding those not met on an earlier host."""
    index_of: dict[str, int] = {}
    taken: set[int] = set()
    for key, name in keys.items():
        index = next(
            (i for i, entry in enumerate(programs) if entry.name == name and i not in taken),
            len(programs),
        )
        if index == len(programs):
            programs.append(ProgramEntry(name))
        taken.add(index)
        index_of[key] = index
        embedded = recording.programs.get(key) or recording.programs.get(name)
        if embedded is not None:
            embedded = share(embedded)
        programs[index] = _with_variant(programs[index], key, embedded, host)
    return index_of


def _with_variant(
    entry: ProgramEntry, key: str, embedded: EmbeddedProgram | None, host: int
) -> ProgramEntry:
    fingerprint = embedded.fingerprint if embedded is not None else None
    variants = {**entry.variants, host: embedded} if embedded is not None else entry.variants
    known = (*entry.fingerprints, fingerprint or key)
    return replace(entry, variants=variants, fingerprints=tuple(dict.fromkeys(known)))
