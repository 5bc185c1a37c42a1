"""Matches programs across hosts.

A program is the same on two hosts if it has the same name and the same number among the programs of
that name; fingerprints differ between ranks and file ids between processes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.timeline.model import OPS, EmbeddedProgram, ProgramEntry
from counterpoint.timeline.recording import Recording
from counterpoint.timeline.runs import NO_PROGRAM, NO_RUN, Programs, RunsOfSpans


@dataclass(frozen=True, slots=True, eq=False)
class AssignedOps:
    """The recording's ops with their programs, and the op of each span.

    An op that executes in runs of several programs gets a row for each.
    """

    ops: pl.DataFrame
    programs: Programs
    op_of_span: NDArray[np.uint32]


def assign_programs(
    ops: pl.DataFrame, programs: Programs, op_of_span: NDArray[np.uint32], runs: RunsOfSpans
) -> AssignedOps:
    """Assign a program to every op that has none but executes in a run."""
    if (programs != NO_PROGRAM).all():
        return AssignedOps(ops, programs, op_of_span)
    loose = (programs[op_of_span] == NO_PROGRAM) & (runs.run_of != NO_RUN)
    if not loose.any():
        return AssignedOps(ops, programs, op_of_span)
    run_program = runs.runs["program"].to_numpy().astype(np.int64)
    factor = int(run_program.max()) + 1
    pair = op_of_span[loose].astype(np.int64) * factor + run_program[runs.run_of[loose]]
    kinds, code = np.unique(pair, return_inverse=True)
    op, program = kinds // factor, (kinds % factor).astype(np.int32)
    rows = len(ops) + np.arange(len(kinds))
    claimed = op_of_span.copy()
    claimed[loose] = rows[code].astype(np.uint32)
    return AssignedOps(pl.concat([ops, ops[op]]), np.concatenate([programs, program]), claimed)


_Key = tuple[Hashable, ...]
Describe = Callable[[Sequence[int]], pl.DataFrame]
BuildOf = Callable[[int], Hashable]

_ALIKE = 0.8
"""Least share of its ops that a host has in common with one that saw more of the same program."""
_NAMES = ("module", "program_key")
"""A host's identifiers of the op's program, not compared because the program itself is known."""


class SharedOps:
    """Rows of the Timeline's ops, shared by all hosts.

    Hosts of one run execute the same program; with a row for each host, the table of ops and the
    time to process it would grow with the hosts. A row is shared only if everything known of the op
    is equal and the hosts hold identical HLO of its program, so looking up an op's program gives
    the same answer for all of them.
    """

    def __init__(self) -> None:
        self._as_read: dict[_Key, int] = {}
        self._described: dict[_Key, int] = {}
        self._rows: list[pl.DataFrame] = []
        self._names: dict[int, set[str]] = {}
        self.unlike: set[int] = set()
        """Programs of one name whose ops are others on another host."""

    def rows(
        self, ops: pl.DataFrame, programs: Sequence[int], build_of: BuildOf, describe: Describe
    ) -> NDArray[np.uint32]:
        """Return the row of each of a host's ops; `describe` is called for those not known yet.

        `build_of` distinguishes builds of a program: hosts may have compiled it differently.
        """
        builds = {program: (program, build_of(program)) for program in set(programs)}
        names: dict[int, set[str]] = {program: set() for program in builds}
        for program, name in zip(
            programs, ops.select(pl.coalesce("op", "name")).to_series(), strict=True
        ):
            names[program].add(name)
        for program, own in names.items():
            known = self._names.setdefault(program, own)
            if len(known & own) < _ALIKE * min(len(known), len(own)):
                self.unlike.add(program)
        keys = list(zip(ops.drop(_NAMES).rows(), map(builds.get, programs), strict=True))
        new = [row for row, key in enumerate(keys) if key not in self._as_read]
        if new:
            added = self._add(describe(new).select(*OPS), [keys[row][1] for row in new])
            self._as_read.update(zip([keys[row] for row in new], added, strict=True))
        return np.array([self._as_read[key] for key in keys], np.uint32)

    def _add(self, described: pl.DataFrame, builds: Sequence[Hashable]) -> list[int]:
        rows: list[int] = []
        new: list[int] = []
        for row, key in enumerate(zip(described.rows(), builds, strict=True)):
            if key not in self._described:
                self._described[key] = len(self._described)
                new.append(row)
            rows.append(self._described[key])
        self._rows.append(described[new])
        return rows

    def frame(self) -> pl.DataFrame:
        """Return all rows."""
        return pl.concat([pl.DataFrame(schema=OPS), *self._rows])


Share = Callable[[EmbeddedProgram], EmbeddedProgram]


def distinguish_programs(recording: Recording) -> Recording:
    """Return the recording with a key of its own for each of several programs that share one.

    On CPU devices, a program that was loaded from JAX's compilation cache keeps the id that it had
    in the process which compiled it, and another program of this process may have the same.
    """
    tables = [recording.ops, recording.executions]
    named = pl.concat([table.select("program_key", "module") for table in tables])
    named = named.drop_nulls().unique().group_by("program_key").len()
    shared = named.filter(pl.col("len") > 1)["program_key"].to_list()
    if not shared:
        return recording
    own_key = pl.format("{}({})", "module", "program_key")
    ambiguous = pl.col("program_key").is_in(shared) & pl.col("module").is_not_null()
    key = pl.when(ambiguous).then(own_key).otherwise("program_key")
    return replace(
        recording,
        ops=recording.ops.with_columns(program_key=key),
        executions=recording.executions.with_columns(program_key=key),
        programs={
            f"{program.name}({key})" if key in shared else key: program
            for key, program in recording.programs.items()
        },
    )


def program_keys(frame: pl.DataFrame) -> list[str | None]:
    """Return the host's identifier of each row's program: its key, or its name without a key."""
    return frame.select(pl.coalesce("program_key", "module")).to_series().to_list()


def program_order(recording: Recording) -> dict[str, str]:
    """Return the names of a host's programs by key, in the order in which they first ran."""
    keys, modules = program_keys(recording.ops), recording.ops["module"].to_list()
    order: dict[str, str] = {}
    executions = recording.executions.sort("start_ps")
    seen = [*zip(program_keys(executions), executions["module"].to_list(), strict=True)]
    seen += [(keys[op], modules[op]) for op in _by_first_start(recording.spans, len(keys))]
    for key, module in seen:
        if key is not None and order.get(key) in (None, key):
            embedded = recording.programs.get(key)
            order[key] = module or (embedded.name if embedded else key)
    return order


def _by_first_start(spans: pl.DataFrame, ops: int) -> list[int]:
    """Return the ops that ran, in the order in which they first did."""
    never = np.iinfo(np.int64).max
    first = np.full(ops, never)
    np.minimum.at(first, spans["op"].to_numpy(), spans["start_ps"].to_numpy())
    return [op for op in np.argsort(first, kind="stable").tolist() if first[op] != never]


def identify(
    programs: list[ProgramEntry],
    recording: Recording,
    keys: dict[str, str],
    host: int,
    share: Share,
) -> dict[str, int]:
    """Return the index of each of a host's programs, adding those not found on earlier hosts."""
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
        embedded = embedded or _loaded(recording, keys, key)
        if embedded is not None:
            embedded = share(embedded)
        programs[index] = _with_variant(programs[index], key, embedded, host)
    return index_of


def _loaded(recording: Recording, keys: dict[str, str], key: str) -> EmbeddedProgram | None:
    """Return the HLO of a program that the profile holds under another key.

    On CPU devices, a program that was loaded from JAX's compilation cache gets one there.
    """
    name, left = keys[key], recording.programs.keys() - keys.keys()
    same = [recording.programs[other] for other in left if recording.programs[other].name == name]
    if len(same) != 1 or [*keys.values()].count(name) != 1:
        return None
    hlo = same[0].load()
    ran = recording.ops.filter(pl.coalesce("program_key", "module") == key)["name"].unique()
    return same[0] if len(ran) and all(name.encode() in hlo for name in ran) else None


def _with_variant(
    entry: ProgramEntry, key: str, embedded: EmbeddedProgram | None, host: int
) -> ProgramEntry:
    fingerprint = embedded.fingerprint if embedded is not None else None
    variants = {**entry.variants, host: embedded} if embedded is not None else entry.variants
    known = (*entry.fingerprints, fingerprint or key)
    return replace(entry, variants=variants, fingerprints=tuple(dict.fromkeys(known)))
