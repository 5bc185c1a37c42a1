"""One task for each profile: read it where it lies, and leave its digest.

The driver holds digests only. A task that is lost with its process is run again; a profile that
can't be read is named and left out.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol

import polars as pl

from counterpoint.core import InputError
from counterpoint.core.frozen import frozen
from counterpoint.fleet.digest import from_bytes, make_digest, merge, to_bytes
from counterpoint.timeline import read
from counterpoint.timeline.source import find_sources

ATTEMPTS: Final = 3
"""Times that a task is started before it counts as lost."""

DIGEST: Final = ".digest.parquet"
"""The ending of a file of digests, which is taken as it is."""

_MERGED: Final = 64


@frozen(kw_only=True)
class Reduction:
    """The outcome of a task: the digest of a profile as Parquet, or why there is none."""

    name: str
    digest: bytes | None = None
    read_bytes: int = 0
    failure: tuple[str, str | None, str | None] | None = None  # what, why, next


@frozen(kw_only=True, eq=False)
class Gathering:
    """Merged digests, and the profiles that are left out, each with the reason."""

    digests: pl.DataFrame
    profiles: int
    failures: tuple[Reduction, ...]
    read_bytes: int
    retried: int
    notes: tuple[str, ...]


class DigestExecutor(Protocol):
    """What runs tasks."""

    @property
    def retried(self) -> int:
        """How many tasks were run again."""
        ...

    def run(self, names: Sequence[str], memory_bytes: int) -> Iterator[Reduction]:
        """Yield the outcome of each task, in any order."""
        ...


def reduce_profile(name: str, memory_bytes: int) -> Reduction:
    """Read one profile and make its digest."""
    try:
        (source,), _ = find_sources(name)
        with source.opened() as (data, _):
            size = len(data)
            if name.endswith(DIGEST):
                return Reduction(name=name, digest=bytes(data), read_bytes=size)
        made = make_digest(read(name, memory_bytes=memory_bytes))
    except InputError as failure:
        told = (failure.what, failure.why, failure.next and str(failure.next))
        return Reduction(name=name, failure=told)
    except OSError as failure:
        return Reduction(name=name, failure=(f"{name}: {failure.strerror or failure}", None, None))
    except Exception as defect:  # noqa: BLE001 - the other hosts do not need this one
        return Reduction(name=name, failure=_defect(name, defect))
    return Reduction(name=name, digest=to_bytes(made), read_bytes=size)


def _defect(name: str, defect: Exception) -> tuple[str, str, None]:
    """Name the place in the code, for a report of the defect."""
    last = traceback.extract_tb(defect.__traceback__)[-1]
    what = f"{type(defect).__name__}: {defect}".splitlines()[0]
    place = f"{Path(last.filename).name}:{last.lineno}"
    return (f"{name}: a defect in Counterpoint prevents reading it", f"{what}, at {place}", None)


def gather_digests(
    names: Sequence[str],
    executor: DigestExecutor,
    *,
    memory_bytes: int,
    strict: bool = False,
    tell: Callable[[int, int], None] = lambda _done, _of: None,
) -> Gathering:
    """Make the digests of all profiles that the names stand for, and merge them.

    With `strict`, the first that can't be read is an error.
    """
    profiles, notes = _profiles(names)
    waiting: list[pl.DataFrame] = []
    failures: list[Reduction] = []
    read_bytes = 0
    for done, outcome in enumerate(executor.run(profiles, memory_bytes), 1):
        read_bytes += outcome.read_bytes
        if outcome.digest is None:
            if strict:
                raise _error(outcome)
            failures.append(outcome)
        else:
            waiting.append(from_bytes(outcome.digest, outcome.name))
            if len(waiting) == _MERGED:
                waiting = [merge(*waiting)]
        tell(done, len(profiles))
    digests = merge(*waiting)
    if digests.is_empty():
        raise _error(min(failures, key=lambda each: each.name))
    return Gathering(
        digests=digests,
        profiles=len(profiles),
        failures=tuple(sorted(failures, key=lambda each: each.name)),
        read_bytes=read_bytes,
        retried=executor.retried,
        notes=notes,
    )


def _error(outcome: Reduction) -> InputError:
    what, why, then = outcome.failure or ("no profile was read", None, None)
    return InputError(what, why=why, next=then)


def _profiles(names: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    found: dict[str, str] = {}
    notes: list[str] = []
    for name in names:
        sources, said = find_sources(name)
        notes += said
        for source in sources:
            found.setdefault(source.identity, source.url or source.name)
    return list(found.values()), tuple(notes)
