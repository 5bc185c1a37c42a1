"""`counterpoint store` and `history`: digests of many runs, and when their step times moved."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

from cyclopts import Parameter

from counterpoint.cli.explain_fleet import FleetOptions, gather_hosts
from counterpoint.cli.numbers import MaybeWholeNumber, WholeNumber
from counterpoint.cli.printing import say_line, say_result
from counterpoint.cli.profiles import as_typed, check_options, write_answer
from counterpoint.core import UsageError
from counterpoint.core.arguments import Retry
from counterpoint.fleet.history import StoredComparison, compare_runs, history_of
from counterpoint.fleet.local import LocalExecutor
from counterpoint.fleet.store import Query, StoredFacts, add_run, parse_day, parse_query, read_runs
from counterpoint.report.history import (
    history_document,
    history_json,
    stored_document,
    stored_json,
)
from counterpoint.runs import is_run, read_run
from counterpoint.runs.scores import score_of_steps

_STAMP = re.compile(r"\d{4}(?:_\d{2}){5}")


def store(  # noqa: PLR0913 - the options of the command
    store: str,
    *paths: str,
    model: str | None = None,
    commit: str | None = None,
    day: str | None = None,
    name: str | None = None,
    jobs: MaybeWholeNumber = None,
    memory: float | None = None,
    fleet: FleetOptions | None = None,
) -> None:
    """Keep the digests of runs in a store, by model and day.

    Args:
        store: The store: a directory or a URL (gs://, s3://, ...).
        paths: Runs, each of which is stored by itself; other paths are the hosts of one run.
        model: The model; by default the name of the step's program.
        commit: The commit of the code that ran, e.g. of `git rev-parse HEAD`.
        day: The day on which it ran, e.g. 2026-11-27; by default as the Run or the profile says.
        name: Name of the run; by default that of its directory.
        jobs: Processes that read profiles; by default one per core.
        memory: Memory limit for reading, in GB; by default half of the machine's memory.
        fleet: How the profiles of many hosts are read.
    """
    check_options(paths, 1, None, f"store {store}", json=False, force=False)
    fleet = fleet or FleetOptions()
    executor = fleet.chosen(jobs) or LocalExecutor(jobs)
    when = None if day is None else parse_day(day, f"--day {day}")
    runs = [path for path in paths if is_run(path)]
    others = tuple(path for path in paths if path not in runs)
    if name is not None and len(runs) + bool(others) > 1:
        raise UsageError("--name is for one run", next=Retry(without=("name",)))
    for group in ((path,) for path in runs) if not others else (*((p,) for p in runs), others):
        facts = _facts(group, model, commit, when, name)
        gathering = gather_hosts(group, executor, memory, strict=fleet.strict)
        for line in gathering.left_out:
            say_line(line)
        place, row = add_run(store, facts, gathering)
        say_result(f"{facts.name}: {row['step_ms'][0]:,.3f} ms, {store}/runs/{place}")
    say_result(f"next: counterpoint history {store}")


def _facts(
    paths: tuple[str, ...],
    model: str | None,
    commit: str | None,
    day: date | None,
    name: str | None,
) -> StoredFacts:
    shown = as_typed(paths)[0]
    if is_run(paths[0]):
        run = read_run(paths[0])
        score = score_of_steps(run)
        return StoredFacts(
            model=model or run.name,
            name=name or run.path.name,
            source=shown,
            day=day,
            started=run.started.astimezone(UTC),
            commit=commit,
            versions=run.versions,
            settings=(*run.settings.xla, *run.settings.env),
            steps_s=() if score is None else score.each_s,
            steps_from="profile" if score is None else score.source,
        )
    stamp = _STAMP.search(shown)
    began = None
    if stamp is not None:
        with suppress(ValueError):
            began = datetime.strptime(stamp.group(), "%Y_%m_%d_%H_%M_%S").replace(tzinfo=UTC)
    own = name or Path(shown.rstrip("/*")).name or shown
    return StoredFacts(model=model, name=own, source=shown, day=day, started=began, commit=commit)


def history(  # noqa: PLR0913 - the options of the command
    store: str,
    *,
    model: str | None = None,
    since: str | None = None,
    until: str | None = None,
    top: WholeNumber = 30,
    json: Annotated[bool, Parameter(show_default=False)] = False,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    force: Annotated[bool, Parameter(show_default=False)] = False,
) -> None:
    """Show the step time of stored runs by day, and what changed when it moved.

    Args:
        store: The store, or a query of it: STORE?jaxlib=0.12.0 or STORE?NCCL_NVLS_ENABLE=0.
        model: Only runs of this model.
        since: Only runs from this day on, e.g. 2026-11-01.
        until: Only runs up to this day.
        top: Rows of runs: the newest.
        json: Print everything as JSON.
        out: Write to this file: .json as JSON, .txt or .md as text.
        force: Overwrite the file.
    """
    check_options((store,), top, out, "history", json=json, force=force)
    given = {"model": model, "since": since, "until": until}
    words = [f"{name}={quote(value)}" for name, value in given.items() if value is not None]
    query = parse_query(store)
    more = parse_query(f"{query.store}?{'&'.join(words)}")
    runs = read_runs(Query(store=query.store, wanted=(*query.wanted, *more.wanted)))
    if (models := runs["model"].unique().sort().to_list())[1:]:
        raise UsageError(
            f"{store} holds runs of {len(models)} models: {', '.join(models[:5])}",
            why="their step times are not one history",
            next=Retry({"model": models[0]}),
        )
    from counterpoint.tune.trial import levels_of_runs

    found = history_of(runs, levels_of_runs)
    write_answer(
        partial(history_document, found, query.store, top),
        partial(history_json, found, store),
        out,
        json=json,
    )


def compare_stored(a: str, b: str, top: int, out: Path | None, *, json: bool) -> StoredComparison:
    """Compare two queries of stores, and show it."""
    found = compare_runs(read_runs(parse_query(a)), read_runs(parse_query(b)))
    write_answer(
        partial(stored_document, found, a, b, top),
        partial(stored_json, found, a, b),
        out,
        json=json,
    )
    return found
