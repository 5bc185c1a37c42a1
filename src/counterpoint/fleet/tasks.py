"""One task for each profile: read it where it lies, and leave its extract, or another product.

The driver holds products only. A task that is lost with its process is run again; a profile that
can't be read is named and left out.
"""

from __future__ import annotations

import glob
import traceback
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol

import polars as pl

from counterpoint.core import CounterpointError, InputError
from counterpoint.core.printable import some
from counterpoint.fleet.extract import SCHEMA, from_bytes, merge
from counterpoint.fleet.products import make_product
from counterpoint.timeline.hosts import other_times
from counterpoint.timeline.reading import read
from counterpoint.timeline.sessions import in_order
from counterpoint.timeline.source import find_sources
from counterpoint.timeline.storage.parquet import is_timeline

__all__ = ["Gathering", "Order", "find_profiles", "gather", "gather_extracts"]

ATTEMPTS: Final = 3
"""Times that a task is started before it counts as lost."""

EXTRACT: Final = ".extract.parquet"
"""The ending of a file of extracts, which is taken as it is."""

_MERGED: Final = 64


_Failure = tuple[str, str | None, str | None]
"""What, why and next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """The outcome of a task: the extract of a profile as Parquet (or its product), or why none."""

    name: str
    product: bytes | None = None
    read_bytes: int = 0
    failure: _Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Gathering:
    """Merged extracts, and what is left out, each with the reason.

    `failures` could not be read, and `strangers` are hosts of another run.
    """

    extracts: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=SCHEMA))
    profiles: int
    failures: tuple[Reduction, ...]
    strangers: tuple[Reduction, ...] = ()
    read_bytes: int
    retried: int
    notes: tuple[str, ...]

    @property
    def left_out(self) -> tuple[str, ...]:
        """Each profile that is left out, with the reason."""
        return tuple(
            f"left out: {': '.join(filter(None, each.failure[:2]))}"
            for each in (*self.failures, *self.strangers)
            if each.failure is not None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a task is to make of a profile: a `kind` of product, with options that JSON can hold."""

    kind: str = "extract"
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    reading: dict[str, Any] = field(default_factory=dict[str, Any])  # options of `read`


EXTRACTS: Final = Order()


class ExtractExecutor(Protocol):
    """What runs tasks."""

    @property
    def retried(self) -> int:
        """How many tasks were run again."""
        ...

    def run(
        self, names: Sequence[str], memory_bytes: int, order: Order = EXTRACTS
    ) -> Generator[Reduction]:
        """Yield the outcome of each task, in any order."""
        ...


def reduce_profile(name: str, memory_bytes: int, order: Order = EXTRACTS) -> Reduction:
    """Read one profile and make its extract, or what else is ordered."""
    try:
        if is_timeline(Path(name)):
            size = sum(file.stat().st_size for file in Path(name).iterdir())
        else:
            (source,), _ = find_sources(name)
            with source.opened() as (data, _):
                size = len(data)
                if name.endswith(EXTRACT) and order.kind == EXTRACTS.kind:
                    return Reduction(name=name, product=bytes(data), read_bytes=size)
        timeline = read(name, memory_bytes=memory_bytes, **order.reading)
        made = make_product(order.kind, timeline, name, **order.options)
    except CounterpointError as failure:
        return Reduction(name=name, failure=(failure.what, failure.why, failure.next))
    except OSError as failure:
        return Reduction(name=name, failure=(f"{name}: {failure.strerror or failure}", None, None))
    except Exception as defect:  # noqa: BLE001 - the other hosts do not need this one
        return Reduction(name=name, failure=_defect(name, defect))
    return Reduction(name=name, product=made, read_bytes=size)


def _defect(name: str, defect: Exception) -> tuple[str, str, None]:
    """Name the place in the code, for a report of the defect."""
    last = traceback.extract_tb(defect.__traceback__)[-1]
    what = f"{type(defect).__name__}: {defect}".splitlines()[0]
    place = f"{Path(last.filename).name}:{last.lineno}"
    return (f"{name}: a defect in Counterpoint prevents reading it", f"{what}, at {place}", None)


def gather(
    names: Sequence[str],
    executor: ExtractExecutor,
    take: Callable[[str, bytes], None],
    *,
    order: Order,
    memory_bytes: int,
    strict: bool = False,
    tell: Callable[[int, int], None] = lambda _done, _of: None,
) -> Gathering:
    """Let `take` have the product of each profile that the names stand for, in any order.

    With `strict`, the first that can't be read is an error.
    """
    profiles, notes = find_profiles(names)
    failures: list[Reduction] = []
    read_bytes = 0
    with closing(executor.run(profiles, memory_bytes, order)) as outcomes:
        for done, outcome in enumerate(outcomes, 1):
            read_bytes += outcome.read_bytes
            if outcome.product is not None:
                take(outcome.name, outcome.product)
            elif strict:
                raise _error(outcome)
            else:
                failures.append(outcome)
            tell(done, len(profiles))
    failures.sort(key=lambda each: each.name)
    if len(failures) == len(profiles):
        raise _error(failures[0])
    return Gathering(
        profiles=len(profiles),
        failures=tuple(failures),
        read_bytes=read_bytes,
        retried=executor.retried,
        notes=notes,
    )


def gather_extracts(
    names: Sequence[str],
    executor: ExtractExecutor,
    *,
    memory_bytes: int,
    strict: bool = False,
    tell: Callable[[int, int], None] = lambda _done, _of: None,
) -> Gathering:
    """Make the extracts of all profiles that the names stand for, and merge them.

    With `strict`, the first that can't be read is an error.
    """
    waiting: list[pl.DataFrame] = []

    def take(name: str, extract: bytes) -> None:
        waiting.append(from_bytes(extract, name))
        if len(waiting) == _MERGED:
            waiting[:] = [merge(*waiting)]

    gathering = gather(
        names,
        executor,
        take,
        order=EXTRACTS,
        memory_bytes=memory_bytes,
        strict=strict,
        tell=tell,
    )
    merged = merge(*waiting)
    return _without_strangers(
        replace(gathering, extracts=merged, notes=(*gathering.notes, *_times(merged))),
        strict=strict,
    )


def _times(extracts: pl.DataFrame) -> list[str]:
    """Return a note if the profiles were not recorded at the same time."""
    step = pl.element().struct
    first = pl.col("steps").list.eval(step["start_ps"].min()).list.first()
    last = pl.col("steps").list.eval(step["end_ps"].max()).list.first()
    began = extracts.select("source", "zero_ns", first=first // 1000, last=last // 1000)
    return other_times(
        [
            (source, None if zero is None or start is None else (zero + start, zero + end))
            for source, zero, start, end in began.rows()
        ]
    )


def _without_strangers(gathering: Gathering, *, strict: bool) -> Gathering:
    """Leave out hosts of another run than most, which `strict` makes an error.

    They are of another kind, or have another chip and a program that no host with the chip of most
    runs: chips of one kind may be mixed, and stages of a pipeline have programs of their own.
    """
    hosts = [
        (kind, chip, next((each["name"] for each in programs if each["is_step"]), None))
        for kind, chip, programs in gathering.extracts.select("kind", "chip", "programs").rows()
    ]

    def run_of(kind: str | None, chip: str | None) -> tuple[bool, ...]:
        programs = {host[2] for host in hosts if host[:2] == (kind, chip)}
        return tuple(
            host[0] == kind and (None in (chip, host[1]) or host[1] == chip or host[2] in programs)
            for host in hosts
        )

    told = {host[0] for host in hosts if host[1]}  # kinds of which a chip is known
    chips = Counter(host[:2] for host in hosts if host[1] or host[0] not in told).most_common()
    runs = {run_of(*each): each for each, _ in reversed(chips)}
    of_most, *others = sorted(runs, key=sum, reverse=True)
    if all(of_most):
        return gathering
    kind, chip = runs[of_most]
    count = Counter(host[:2] for host in hosts)[kind, chip]
    programs = {host[2] for host in hosts if host[:2] == (kind, chip)}
    ran = some(sorted(filter(None, programs)), 3) or "an unknown program"
    most = f"{count} of {len(hosts)} hosts have {chip or kind}, and run {ran}"
    strangers: list[Reduction] = []
    for at, (source, name) in enumerate(gathering.extracts.select("source", "host").rows()):
        if not of_most[at]:
            own = f"{hosts[at][1] or hosts[at][0]}, and runs {hosts[at][2] or 'an unknown program'}"
            told = (f"{source} is of another run", f"{name} has {own}; {most}")
            strangers.append(Reduction(name=source, failure=(*told, "explain it separately")))
    if strict or any(sum(each) == sum(of_most) for each in others):
        raise _error(strangers[0])
    kept = gathering.extracts.filter(list(of_most))
    return replace(gathering, extracts=kept, strangers=tuple(strangers))


def _error(outcome: Reduction) -> InputError:
    what, why, then = outcome.failure or ("no profile was read", None, None)
    return InputError(what, why=why, next=then)


def _matches(name: str) -> list[str]:
    """Return what a pattern or a directory of stored Timelines stands for; else the name itself."""
    place = Path(name)
    paths = [*map(Path, [] if place.exists() else glob.glob(name, recursive=True))]  # noqa: PTH207
    with suppress(OSError):
        paths = paths or [path for path in place.iterdir() if is_timeline(path)]
    return [str(path) for path in in_order(paths)] or [name]


def find_profiles(names: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Return the profiles that names stand for, each once, and notes on the selection."""
    profiles: dict[str, str] = {}
    notes: list[str] = []
    places = [each for name in names for each in _matches(name)]
    for name in places:
        if is_timeline(Path(name)):
            profiles.setdefault(str(Path(name).resolve()), name)
            continue
        try:
            sources, said = find_sources(name)
        except InputError:
            if len(places) == 1 or not ("://" in name or Path(name).exists()):
                raise
            profiles.setdefault(name, name)  # its task says what is wrong with it
            continue
        notes += said
        for source in sources:
            profiles.setdefault(source.identity, source.url or source.name)
    return list(profiles.values()), tuple(notes)
