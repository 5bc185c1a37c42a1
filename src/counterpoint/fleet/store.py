"""A store of many runs over time: partitioned Parquet files in a directory or a bucket, no server.

    runs/model=MODEL/day=2026-11-27/KEY.parquet     a row per run: RUNS
    hosts/model=MODEL/day=2026-11-27/KEY.parquet    its digests: a row per host

The row of a run is written last and in one step, so a run is in the store whole or not at all,
whatever ends the process. Docs: docs/formats/store.md.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

import numpy as np
import polars as pl

from counterpoint.core import InputError, UsageError, WriteError
from counterpoint.core.arguments import Retry
from counterpoint.core.frozen import frozen
from counterpoint.core.outputs import write_whole
from counterpoint.core.parquet_counts import check_parquet
from counterpoint.fleet.digest import OPS, to_bytes
from counterpoint.fleet.fleet import arrange
from counterpoint.fleet.summary import summarize
from counterpoint.fleet.tasks import Gathering
from counterpoint.timeline.remote import RemoteStore, open_url
from counterpoint.timeline.source import ProfileSource

__all__ = ["PARTS", "Query", "StoredFacts", "add_run", "parse_day", "parse_query", "read_runs"]

FORMAT: Final = "counterpoint.store/1"
PARTS: Final = ("compute_ms", "hidden_ms", "exposed_ms", "copy_ms", "idle_ms")
RUNS: Final[dict[str, Any]] = {
    "format": pl.String,
    "key": pl.String,  # equal for a run that is stored twice
    "run": pl.String,
    "source": pl.String,
    "started": pl.Datetime("us", "UTC"),  # null: the profile does not say
    "commit": pl.String,
    "jax": pl.String,
    "jaxlib": pl.String,
    "settings": pl.List(pl.Struct({"name": pl.String, "value": pl.String})),
    "chip": pl.String,  # cpu: virtual devices
    "hosts": pl.UInt32,
    "devices": pl.UInt32,
    "program": pl.String,
    "build": pl.String,
    "step_ms": pl.Float64,  # the median of steps_ms
    "steps_ms": pl.List(pl.Float64),
    "steps_from": pl.String,  # profile, or how the Run saw its undisturbed steps
    **dict.fromkeys(PARTS, pl.Float64),  # of profiled steps; null: none was whole
    "ops": pl.List(pl.Struct(OPS)),  # mean over hosts
    "left_out": pl.List(pl.String),
}
"""Of a run; the model and the day are the names of its directories."""
MOST_OPS: Final = 200


@frozen(kw_only=True)
class StoredFacts:
    """What is known of a run beside its profiles."""

    model: str | None
    name: str
    source: str
    day: date | None = None
    started: datetime | None = None
    commit: str | None = None
    versions: Mapping[str, str] | None = None
    settings: tuple[tuple[str, str], ...] | None = None  # None: those that the profile records
    steps_s: tuple[float, ...] = ()
    steps_from: str = "profile"


@frozen(kw_only=True)
class Query:
    """The runs of a store that are meant: `runs/?model=llama&since=2026-11-01&jaxlib=0.12.0`."""

    store: str
    wanted: tuple[tuple[str, str], ...] = ()


def parse_query(text: str) -> Query:
    """Parse the location of a store, with what is wanted of it after a question mark."""
    store, _, words = text.partition("?")
    pairs = [each.partition("=") for each in words.split("&") if each]
    wanted = tuple((unquote(name), unquote(value)) for name, _, value in pairs)  # + stays +
    for name, value in wanted:
        if name in ("since", "until", "day"):
            parse_day(value, f"{name}={value}")
    return Query(store=store, wanted=wanted)


def parse_day(text: str, shown: str) -> date:
    """Parse a day that was given as `shown`."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{shown}: not a day", next="write it as 2026-11-27") from None


def add_run(store: str, facts: StoredFacts, gathering: Gathering) -> tuple[str, pl.DataFrame]:
    """Store a run, its digests first; return its path below the store, and its row."""
    digests = gathering.digests
    summary = summarize(arrange(digests), gathering)
    fleet = summary.fleet
    environment = {
        each["name"]: each["value"] for each in digests.row(0, named=True)["environment"]
    }
    began = _started(facts, environment)
    day = facts.day or (began.date() if began else None)
    model = facts.model or fleet.hosts[0].program
    if day is None or not model:
        lacking = "when it ran" if day is None else "its model"
        raise UsageError(
            f"{facts.source}: the profile does not tell {lacking}",
            next=Retry({"day": "2026-11-27"} if day is None else {"model": "llama"}),
        )
    if summary.step_ms is None and not facts.steps_s:
        raise InputError(
            f"{facts.source}: no whole step in this profile, so its step time is unknown",
            next="profile more steps",
        )
    steps_ms = [each * 1e3 for each in facts.steps_s] or [*map(float, fleet.step_lengths)]
    versions = facts.versions or {}
    own = tuple((name, value) for name, value in environment.items() if name.isupper())
    row = {
        "format": FORMAT,
        "key": sha256("".join(sorted(digests["key"])).encode()).hexdigest()[:32],
        "run": facts.name,
        "source": facts.source,
        "started": began,
        "commit": facts.commit,
        "jax": versions.get("jax") or environment.get("jax_version"),
        "jaxlib": versions.get("jaxlib") or environment.get("jaxlib_version"),
        "settings": [
            {"name": name, "value": value}
            for name, value in (own if facts.settings is None else facts.settings)
        ],
        "chip": "cpu" if digests["kind"][0] == "cpu" else fleet.hosts[0].chip,
        "hosts": fleet.machines,
        "devices": len(fleet.host_of),
        "program": fleet.hosts[0].program,
        "build": fleet.hosts[0].build,
        "step_ms": float(np.nanmedian(steps_ms)),
        "steps_ms": steps_ms,
        "steps_from": facts.steps_from,
        **({} if summary.step_ms is None else {name: getattr(summary, name) for name in PARTS}),
        "ops": _ops(digests),
        "left_out": list(gathering.left_out),
    }
    made = pl.DataFrame([row], schema=RUNS)
    place = f"model={quote(model, safe='')}/day={day.isoformat()}/{row['key']}.parquet"
    _write(store, f"hosts/{place}", to_bytes(digests))
    _write(store, f"runs/{place}", to_bytes(made))
    return place, made


def _started(facts: StoredFacts, environment: Mapping[str, str]) -> datetime | None:
    told = environment.get("profile_start_time", "")
    if facts.started is not None or not told.isdecimal():
        return facts.started
    try:
        return datetime.fromtimestamp(int(told) / 1e9, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def _ops(digests: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the ops that take longest, mean over hosts; one that a host lacks took no time."""
    each = digests.select("ops").explode("ops").drop_nulls().unnest("ops")
    mean = (pl.col("ms", "count").sum() / len(digests)).cast(pl.Float64)
    by_op = each.group_by("op", "category").agg(mean)
    return by_op.sort("ms", "op", descending=[True, False]).head(MOST_OPS).to_dicts()


def _write(store: str, path: str, content: bytes) -> None:
    """Write a file whole: an object store shows none before it is complete."""
    if "://" not in store:
        place = Path(store) / path
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            write_whole(place, content)
        except OSError as failure:
            raise WriteError(
                place, failure, next=f"name a directory that may be written, instead of {store}"
            ) from None
        return
    RemoteStore(f"{store.rstrip('/')}/{path}").write(content)


def read_runs(query: Query) -> pl.DataFrame:
    """Return RUNS with `model` and `day` of the runs that are meant, oldest first."""
    wanted = dict(query.wanted)
    found = [
        _table(source).with_columns(model=pl.lit(model), day=pl.lit(day))
        for model, day, source in _files(query.store)
        if _is_within(wanted, model, day)
    ]
    schema = {**RUNS, "model": pl.String, "day": pl.Date}
    runs = pl.concat(found) if found else pl.DataFrame(schema=schema)
    runs = runs.unique("key", keep="last", maintain_order=True)
    for name, value in query.wanted:
        if name not in ("model", "day", "since", "until"):
            runs = runs.filter(_meant(name, value))
    if runs.is_empty():
        text = "&".join(f"{name}={value}" for name, value in query.wanted)
        raise InputError(
            f"{query.store}: no run in this store" + (f" with {text}" if text else ""),
            next=f"counterpoint history {query.store}" if text else None,
        )
    return runs.sort("day", "started", "key", nulls_last=False)


def _meant(name: str, value: str) -> pl.Expr:
    """Return whether a run has a value: of a column, of the beginning of a commit, or a setting."""
    if name == "commit":
        return pl.col("commit").str.starts_with(value)
    if name in ("run", "jax", "jaxlib", "chip", "program", "build", "key"):
        return pl.col(name) == value
    if name in ("hosts", "devices"):
        return pl.col(name).cast(pl.String) == value
    given = pl.element().struct
    same = (given.field("name") == name) & (given.field("value") == value)
    return pl.col("settings").list.eval(same).list.any()


def _is_within(wanted: Mapping[str, str], model: str, day: date) -> bool:
    text = day.isoformat()
    return (
        wanted.get("model", model) == model
        and wanted.get("day", text) == text
        and wanted.get("since", text) <= text <= wanted.get("until", text)
    )


def _files(store: str) -> Iterator[tuple[str, date, ProfileSource]]:
    top = open_url(store) if "://" in store else Path(store)
    if isinstance(top, Path) and not (top / "runs").is_dir():
        raise InputError(f"{store}: not a store of runs", next=f"counterpoint store {store} RUN")
    for path in sorted(top.glob("runs/model=*/day=*/*.parquet"), key=str):
        parts = str(path).rsplit("/", 3)
        model = unquote(parts[1].removeprefix("model="))
        day = parse_day(parts[2].removeprefix("day="), str(path))
        if isinstance(path, Path):
            yield model, day, ProfileSource(str(path))
        else:
            yield model, day, ProfileSource(path.shown, True, str(path), path.entry.size)


def _table(source: ProfileSource) -> pl.DataFrame:
    try:
        with source.opened() as (data, _):
            check_parquet(held := bytes(data))
            found = pl.read_parquet(io.BytesIO(held), hive_partitioning=False)
    except (
        OSError,
        ValueError,
        pl.exceptions.PolarsError,
        pl.exceptions.PanicException,
    ) as failure:
        raise _no_run(source, str(failure).splitlines()[0]) from None
    schema = pl.Schema(RUNS)
    if found.schema != schema:
        raise _no_run(source, "not a run of this version of Counterpoint")
    return found


def _no_run(source: ProfileSource, what: str) -> InputError:
    return InputError(f"{source.name}: {what}", next="remove this file, and store its run again")
