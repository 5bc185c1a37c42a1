"""Matches runs of a program with the steps that host markers name.

A program that waits for each step has its runs within the markers' time, which identifies the step
of each run: runs between markers, of an evaluation for example, are in no step. A program that does
not wait dispatches far ahead of its devices: then only the numbers of runs and of markers can be
matched, and only if one is a multiple of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.core.columns import as_ranges, values_of

_LEAST, _MOST = -(2**31) + 1, 2**31 - 1
"""Range of the column `step`."""

_NO_STEP: Final = -(2**31)

Trains = Callable[[int], bool]

_CUT: Final = 2
"""The first and the last step: a profile may have cut them off."""


_CLOCKS_PS: Final = 100_000_000
"""The clocks of host and device may differ by so much."""

_PAIR: Final = 0.8
"""Least share of markers that contain a run of a program: they are a pair."""

_WORTH: Final = 0.05
"""Programs that never run in markers end a step if they take this share of its program's time."""

_EACH: Final = 0.5
"""A program that runs as often as this share of the steps, in turn with them, is part of them."""


@dataclass(frozen=True, slots=True, eq=False)
class MarkedRuns:
    """Runs of steps, whose `index` is the step's number; `others` are in no step.

    `marks` are the starts of the markers around the runs, by device and `index`; none where it is
    not known in which marker a run was launched.
    """

    runs: pl.DataFrame
    others: pl.DataFrame
    rule: str
    notes: tuple[str, ...] = ()
    marks: pl.DataFrame | None = None


@dataclass(frozen=True, slots=True, eq=False)
class MarkedLoop:
    """The markers of steps and the program that runs in them."""

    name: str
    program: int
    markers: pl.DataFrame  # those of the name, or those of them around the program
    of: int  # how many have the name


def marked_loop(
    runs: pl.DataFrame,
    names: Sequence[str],
    markers: pl.DataFrame,
    host_of_device: Sequence[int],
    trains: Trains,
) -> MarkedLoop | None:
    """Return the markers and the program that contain each other; None if none do.

    Of several such pairs it is one that trains, if there is one, with the outermost markers: a step
    may mark its microbatches, and an evaluation its own steps. Two loops may have markers of one
    name: then each loop has those around its program. If no program is in most markers, programs of
    one name may be: a function that was compiled again and again.
    """
    ordered = {
        str(name): own.sort("host", "start_ps").with_columns(
            end_ps=pl.col("start_ps") + pl.col("dur_ps")
        )
        for (name,), own in markers.group_by("name", maintain_order=True)
    }
    first: dict[str, int] = {}
    of_name = [first.setdefault(name, number) for number, name in enumerate(names)]
    for key in (pl.col("program"), pl.col("program").replace_strict(dict(enumerate(of_name)))):
        loops: list[tuple[tuple[bool, int, int], MarkedLoop]] = []
        for name, own in ordered.items():
            if any(_within(own, other) for other in ordered.values() if other is not own):
                continue
            begun, held = _marker_of(runs, own, host_of_device)
            placed = runs.with_columns(marker=pl.Series(begun), held=pl.Series(held))
            for _, own_runs in placed.group_by(key.alias("key"), maintain_order=True):
                took = _pair(own_runs, own, host_of_device)
                if took is not None:
                    number = min(own_runs["program"].mode().to_list())
                    loop = MarkedLoop(name, number, own, len(own))
                    loops.append(((trains(number), took, len(own)), loop))
            for loop, took in _loops_of_one_name(placed, own, name):
                loops.append(((trains(loop.program), took, len(loop.markers)), loop))
        if loops:
            return max(loops, key=lambda pair: pair[0])[1]
    return None


def _loops_of_one_name(
    placed: pl.DataFrame, markers: pl.DataFrame, name: str
) -> Iterator[tuple[MarkedLoop, int]]:
    """Yield the loops that share these markers' name, each with what its program takes.

    Each marker is of the loop whose program takes most of it, and that runs in no other loop's
    markers. Where one loop follows another their numbers do not go on; those of one loop that runs
    a program now and another then, as that of two networks does, do.
    """
    inside = (
        placed.filter("held")
        .group_by("marker", "program")
        .agg(ps=(pl.col("end_ps") - pl.col("start_ps")).sum())
        .sort("ps", "program", descending=[True, False])
    )
    main = inside.group_by("marker", maintain_order=True).first().sort("marker")
    of_markers = markers.select("host", "step")[main["marker"].to_list()]
    changes = of_markers.with_columns(
        is_change=(pl.Series(main["program"]).diff() != 0),
        goes_on=(pl.col("step").diff() == 1),
    ).filter(pl.col("is_change") & (pl.col("host") == pl.col("host").shift(1)))
    if changes.is_empty() or 2 * changes["goes_on"].sum() > len(changes):
        return
    loops = main.group_by("program", maintain_order=True).agg("marker", pl.col("ps").sum())
    for program, rows, took in loops.rows():
        runs_in = inside.filter(pl.col("program") == program)["marker"]
        alone = placed.filter((pl.col("program") == program) & (pl.col("marker") >= 0))["held"]
        if len(rows) > 1 and runs_in.is_in(rows).all() and alone.all():
            yield MarkedLoop(name, program, markers[rows], len(markers)), took


def _within(markers: pl.DataFrame, others: pl.DataFrame) -> bool:
    """Return whether each marker lies inside one of the others of its host."""
    inside = markers.join_asof(
        others.select("host", "start_ps", around_ps="end_ps").sort("start_ps"),
        on="start_ps",
        by="host",
        check_sortedness=False,
    )
    return bool((inside["end_ps"] <= inside["around_ps"]).fill_null(value=False).all())


def _pair(runs: pl.DataFrame, markers: pl.DataFrame, host_of_device: Sequence[int]) -> int | None:
    """Return how long the runs of a program in markers take; None if these have none, or others.

    The first and the last marker may be cut off, with their runs.
    """
    device = int(str(runs["device"].mode().min()))
    own = runs.filter(pl.col("device") == device)
    rows = np.flatnonzero(markers["host"].to_numpy() == host_of_device[device])
    whole = rows[1:-1] if len(rows) > _CUT else rows
    inside = own.filter("held")
    late = own.filter((pl.col("marker") >= 0) & ~pl.col("held"))
    if late["marker"].is_in(whole.tolist()).any() or not len(inside):
        return None
    if len(set(whole.tolist()) - set(inside["marker"].to_list())) > (1 - _PAIR) * len(whole):
        return None
    return int((inside["end_ps"] - inside["start_ps"]).sum())


def _marker_of(
    runs: pl.DataFrame, markers: pl.DataFrame, host_of_device: Sequence[int]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the row of the marker in which each run was launched, or else began; -1: in none.

    The second result is whether it was launched there, or else also ended.
    """
    marker, held = np.full(len(runs), -1, np.int64), np.zeros(len(runs), bool)
    device, begin, end = (runs[name].to_numpy() for name in ("device", "start_ps", "end_ps"))
    launched = runs["launched_ps"].to_numpy()
    known = runs["launched_ps"].is_not_null().to_numpy()
    since, until = np.where(known, launched, begin), np.where(known, launched, end)
    of_host = {
        int(str(host)): rows["row"].to_numpy().astype(np.int64)
        for (host,), rows in markers.with_row_index("row").group_by("host", maintain_order=True)
    }
    starts, ends = markers["start_ps"].to_numpy(), markers["end_ps"].to_numpy()
    for number in values_of(device):
        own = of_host.get(host_of_device[int(number)])
        if own is None:
            continue
        rows = np.flatnonzero(device == number)
        at = np.searchsorted(starts[own], since[rows], side="right") - 1
        around = own[np.maximum(at, 0)]
        inside = (at >= 0) & (since[rows] < ends[around])
        marker[rows] = np.where(inside, around, -1)
        held[rows] = inside & (until[rows] <= ends[around])
    return marker, held


def match_markers(
    runs: pl.DataFrame,
    loop: MarkedLoop,
    of_program: pl.DataFrame,
    program: str,
    markers: pl.DataFrame,
    host_of_device: Sequence[int],
) -> MarkedRuns:
    """Match the runs of a program with the markers in which they were launched.

    `of_program` are those of `runs` that make steps, with `index`.
    """
    own, marks = numbered(loop.markers, loop.name)
    marker, held = _marker_of(of_program, own, host_of_device)
    steps = np.where(held, own["step"].to_numpy()[marker], _NO_STEP)
    index = pl.Series(steps, dtype=pl.Int64)
    placed = of_program.with_columns(index=pl.when(index != _NO_STEP).then(index))
    inside = placed.filter(pl.col("index").is_not_null())
    outside = placed.filter(pl.col("index").is_null())
    in_each = inside.group_by("device", "index").len()["len"]
    rule = f"{marks}, {_span(in_each)} of {program} in each"
    if len(loop.markers) < loop.of:
        rule += f"; the {loop.of - len(loop.markers):,} others of that name are of another loop"
    notes = (_left_out(outside, program, loop.name),) if len(outside) else ()
    notes += _overlap(own, loop.name)
    marked = _marks(inside, own, host_of_device)
    starts = [
        outside.select("device", "start_ps"),
        _other_work(runs, own, of_program, host_of_device),
        _other_markers(markers, own, of_program["device"], host_of_device),
    ]
    return MarkedRuns(inside, pl.concat(starts), rule, notes, marked)


def _marks(
    runs: pl.DataFrame, markers: pl.DataFrame, host_of_device: Sequence[int]
) -> pl.DataFrame:
    """Return the start of the marker of each step, by device and `index`."""
    hosts = pl.col("device").replace_strict(dict(enumerate(host_of_device)), return_dtype=pl.UInt16)
    return (
        runs.select("device", "index")
        .unique()
        .with_columns(host=hosts)
        .join(markers.select("host", "start_ps", index="step"), on=["host", "index"])
        .drop("host")
    )


def _other_work(
    runs: pl.DataFrame,
    markers: pl.DataFrame,
    of_program: pl.DataFrame,
    host_of_device: Sequence[int],
) -> pl.DataFrame:
    """Return runs of programs that take much time between some markers, and never run inside.

    What runs between most of them, as a function that prepares the batch, is part of each step.
    """
    marker, _ = _marker_of(runs, markers, host_of_device)
    took = (pl.col("end_ps") - pl.col("start_ps")).sum()
    least = _WORTH * int(of_program.select(took).item())
    placed = runs.with_columns(marker=pl.Series(marker), inside=pl.Series(marker >= 0))
    steps = placed.filter("inside").select("device", "marker").n_unique()
    is_new = pl.col("program").ne_missing(pl.col("program").shift(1).over("device"))
    outside = (
        placed.sort("device", "start_ps")
        .with_columns(turns=is_new)
        .filter(~pl.col("program").is_in(of_program["program"].unique().implode()))
        .group_by("program")
        .agg(pl.col("inside").any(), pl.col("turns").sum(), took=took)
        .filter(~pl.col("inside") & (pl.col("took") >= least) & (pl.col("turns") < _EACH * steps))[
            "program"
        ]
    )
    return runs.filter(pl.col("program").is_in(outside.implode())).select("device", "start_ps")


def _other_markers(
    markers: pl.DataFrame,
    own: pl.DataFrame,
    devices: pl.Series,
    host_of_device: Sequence[int],
) -> pl.DataFrame:
    """Return the starts of other markers after a step, as of an evaluation."""
    others = markers.select("host", "start_ps").join(own, on=["host", "start_ps"], how="anti")
    around = others.sort("start_ps").join_asof(
        own.select("host", "start_ps", end_ps="end_ps").sort("start_ps"),
        on="start_ps",
        by="host",
        check_sortedness=False,
    )
    after = around.filter(pl.col("end_ps") <= pl.col("start_ps"))
    numbers: list[int] = devices.unique().to_list()
    of_host = pl.DataFrame(
        {"device": numbers, "host": [host_of_device[number] for number in numbers]},
        schema={"device": devices.dtype, "host": pl.UInt16},
    )
    return after.join(of_host, on="host").select("device", "start_ps")


def match_by_number(
    runs: pl.DataFrame, program: str, markers: pl.DataFrame, host_of_device: Sequence[int]
) -> MarkedRuns:
    """Match the runs of one program (with `index`) with the most frequent markers by number."""
    name = most_frequent(markers)
    own, marks = numbered(markers.filter(pl.col("name") == name), name)
    matched = _by_number(runs, program, own, marks, host_of_device)
    return replace(matched, notes=(*matched.notes, *_overlap(own, name)))


def _overlap(markers: pl.DataFrame, name: str) -> tuple[str, ...]:
    """Return a note if one marker begins before another one is over."""
    before = pl.col("end_ps").cum_max().shift(1).over("host")
    if not markers.sort("host", "start_ps").select((pl.col("start_ps") < before).any()).item():
        return ()
    note = (
        f"markers '{name}' overlap, as those of two threads do: the steps of both are counted as"
        " those of one loop. Give the markers of each loop a name of its own"
    )
    return (note,)


def _left_out(runs: pl.DataFrame, program: str, name: str) -> str:
    return f"{_most_on_a_device(runs)} of {program} outside the markers '{name}': in no step"


def most_frequent(markers: pl.DataFrame) -> str:
    """Return the most frequent marker name; of equally frequent ones, the first in time."""
    names = markers.group_by("name").agg(pl.len(), pl.col("start_ps").min().alias("first"))
    return str(names.sort("len", "first", descending=[True, False])["name"][0])


def one_to_a_step(markers: pl.DataFrame, where: str) -> bool:
    """Return whether marker numbers can be step numbers: unique on a host or device, and in range.

    Numbers restart in programs with several loops or several epochs.
    """
    once = not markers.select(where, "step").is_duplicated().any()
    return once and bool(markers["step"].is_between(_LEAST, _MOST).all())


def numbered(markers: pl.DataFrame, name: str) -> tuple[pl.DataFrame, str]:
    """Return markers in order, numbered uniquely and alike on all hosts, and their description."""
    ordered = markers.sort("host", "start_ps").select(
        "host", "step", "start_ps", end_ps=pl.col("start_ps") + pl.col("dur_ps")
    )
    if one_to_a_step(ordered, "host"):
        numbers = ordered["step"].unique().sort().to_list()
        steps = f"{'step' if len(numbers) == 1 else 'steps'} {as_ranges(numbers)}"
        return ordered, f"{_count(len(numbers), 'host marker')} '{name}' ({steps})"
    turns = ordered.with_columns(step=pl.int_range(pl.len()).over("host"))
    marks = _count(turns["step"].n_unique(), "host marker")
    fits = ordered["step"].is_between(_LEAST, _MOST).all()
    why = "whose numbers repeat" if fits else "whose numbers exceed 32 bits"
    return turns, f"{marks} '{name}', {why}: numbered from 0"


def _by_number(
    runs: pl.DataFrame,
    program: str,
    markers: pl.DataFrame,
    marks: str,
    host_of_device: Sequence[int],
) -> MarkedRuns:
    steps = markers["step"].unique().sort().to_list()
    most = max(runs.group_by("device").len()["len"].to_list())
    per_step = max(1, round(most / len(steps)))
    allowed = _CUT if per_step == 1 else per_step - 1
    none = runs.clear()
    if abs(most - per_step * len(steps)) > allowed:
        apart = f"{_count(most, 'run')} of {program} and {marks} do not match"
        note = (
            f"{apart}: each run is taken as a step, including those of an evaluation. Wait for each"
            " step (block_until_ready) while profiling, or evaluate with a separate function"
        )
        return MarkedRuns(runs, none, f"{apart}: one run is one step, numbered from 0", (note,))
    turn = (pl.col("index").cast(pl.Int64) - pl.col("index").min()) // per_step
    rule = f"{marks}, {_count(per_step, 'run')} of {program} in each"
    earlier = _called_before(runs, markers, per_step, host_of_device)
    first = runs["start_ps"].to_numpy().min() >= markers["start_ps"].to_numpy().min()
    in_order = steps == [*range(steps[0], steps[0] + len(steps))]
    if earlier and in_order:
        turn = turn - earlier + steps[0]
        rule += (
            f"; the first {_count(earlier, 'step')} on devices had been called before the profile"
            " began: no run begins before its marker"
        )
    elif first and not earlier and runs["index"].n_unique() == per_step * len(steps):
        turn = turn.replace_strict(dict(enumerate(steps)), return_dtype=pl.Int64)
    else:
        rule += "; runs cannot be assigned to markers: steps are numbered from 0"
        return MarkedRuns(runs.with_columns(index=turn), none, rule)
    indexed = runs.with_columns(index=turn)
    return MarkedRuns(indexed, none, rule, marks=_marks(indexed, markers, host_of_device))


def _called_before(
    runs: pl.DataFrame, markers: pl.DataFrame, per_step: int, host_of_device: Sequence[int]
) -> int:
    """Return how many steps devices run that were called before the first marker, at least.

    A loop that is ahead of its devices when the profile begins has runs in their queue. Then the
    runs of later steps would begin before their markers, if those were the first ones'.
    """
    earlier = 0
    for (device,), own in runs.group_by("device"):
        host = host_of_device[int(str(device))]
        begun = markers.filter(pl.col("host") == host)["start_ps"].sort().to_numpy()
        start = own.sort("start_ps")["start_ps"].to_numpy()[::per_step] + _CLOCKS_PS
        marked = np.searchsorted(begun, start, side="right")
        late = np.arange(len(start)) + 1 - marked
        earlier = max(earlier, int(late.max(initial=0)))
    return earlier


def _most_on_a_device(runs: pl.DataFrame) -> str:
    return _count(max(runs.group_by("device").len()["len"].to_list()), "run")


def _span(counts: pl.Series) -> str:
    least, most = min(counts.to_list()), max(counts.to_list())
    return _count(most, "run") if least == most else f"{least} to {_count(most, 'run')}"


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
