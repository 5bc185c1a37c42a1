"""The report of `doctor`, as a Document and as JSON (docs/reference/doctor-json.md).

Problems come first, with their commands, then the other results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Final

from counterpoint.core.field import Field
from counterpoint.core.printable import counted_noun, some
from counterpoint.doctor import Checkup, SharedResult, Status
from counterpoint.report.document import (
    Block,
    Document,
    Fact,
    FactList,
    NumberedItem,
    Section,
    Tone,
)
from counterpoint.report.json import At, Result, TextOrNull, TextsOrNull, fill, json_text

__all__ = ["doctor_document", "doctor_json", "next_command"]

_LOUD: Final = (Status.ERROR, Status.WARNING)
_TITLES: Final = {
    Status.NOTE: "Notes",
    Status.UNKNOWN: "Unknown",
    Status.OK: "OK",
    Status.NOT_APPLICABLE: "Not applicable",
}
_NAMED: Final = 6


def doctor_document(checkup: Checkup) -> Document:
    """Return the whole report."""
    return Document(
        sections=tuple(_sections(checkup)),
        legend="values and limits were read on the host; each recommendation names its source",
        next=next_command(checkup),
    )


def _sections(checkup: Checkup) -> Iterator[Section]:
    loud = [shared for shared in checkup.verdicts if shared.verdict.status in _LOUD]
    entries = tuple(_entry(index, shared, checkup) for index, shared in enumerate(loud, 1))
    yield Section("Doctor", _summary(checkup), entries)
    for status, title in _TITLES.items():
        verdicts = checkup.of(status)
        if verdicts:
            yield Section(title, str(len(verdicts)), tuple(_quiet(verdicts, checkup)))


def _summary(checkup: Checkup) -> str:
    hosts = checkup.hosts
    where = hosts[0] if len(hosts) == 1 else f"{len(hosts)} hosts"
    kinds = (Status.ERROR, Status.WARNING, Status.NOTE)
    counts = ((len(checkup.of(kind)), kind) for kind in kinds)
    parts = [counted_noun(count, kind) for count, kind in counts if count]
    return f"{where}: {', '.join(parts) or 'no problems'}"


def _entry(number: int, shared: SharedResult, checkup: Checkup) -> NumberedItem:
    verdict = shared.verdict
    return NumberedItem(
        number=number,
        title=verdict.found,
        price=str(verdict.status),
        text=verdict.why,
        rows=tuple(_rows(shared, checkup)),
    )


def _rows(shared: SharedResult, checkup: Checkup) -> Iterator[Fact]:
    verdict = shared.verdict
    if len(checkup.hosts) > 1 and shared.hosts:
        yield Fact("on", _hosts(shared, checkup))
    if verdict.wanted:
        yield Fact("wanted", verdict.wanted)
    if verdict.remedy:
        yield Fact("do", verdict.remedy, Tone.STRONG)
    if verdict.source:
        yield Fact("source", verdict.source, Tone.QUIET)
    yield Fact("check", f"{verdict.code} {verdict.name}", Tone.QUIET)


def _hosts(shared: SharedResult, checkup: Checkup) -> str:
    if len(shared.hosts) == len(checkup.hosts):
        return f"all {len(shared.hosts)} hosts"
    return some(shared.hosts, _NAMED)


def _quiet(verdicts: tuple[SharedResult, ...], checkup: Checkup) -> Iterator[Block]:
    """Yield one line per verdict; notes also show their command and source."""
    rows: list[Fact] = []
    for shared in verdicts:
        verdict = shared.verdict
        where = ""
        if len(checkup.hosts) > 1 and shared.hosts and len(shared.hosts) < len(checkup.hosts):
            where = f" ({_hosts(shared, checkup)})"
        note = verdict.status is Status.NOTE
        why = f": {verdict.why}" if note and verdict.why else ""
        tone = Tone.PLAIN if note else Tone.QUIET
        rows.append(Fact(f"{verdict.code} {verdict.name}", verdict.found + why + where, tone))
        if note and verdict.remedy:
            rows.append(Fact("", verdict.remedy, Tone.STRONG))
        if note and verdict.source:
            rows.append(Fact("", verdict.source, Tone.QUIET))
    yield FactList(tuple(rows))


def next_command(checkup: Checkup) -> str:
    """Return the command that explains the first problem, or else starts a run."""
    first = next(
        (shared.verdict.code for shared in checkup.verdicts if shared.verdict.status in _LOUD), None
    )
    if first is not None:
        return f"counterpoint explain-code {first}"
    return "counterpoint run -- python train.py"


class HostVerdict(Result):
    """The result of a check; `hosts` is null if it is about all hosts together."""

    code: Annotated[str, At("verdict.code"), Field("code of the check: `DOC403`")]
    name: Annotated[str, At("verdict.name"), Field("its name: `tcp-buffers`")]
    status: Annotated[
        str,
        At("verdict.status"),
        Field("`error`, `warning`, `note`, `unknown`, `ok`, `not applicable`"),
    ]
    found: Annotated[
        str,
        At("verdict.found"),
        Field("the observed state; for `unknown` and `not applicable`, the reason"),
    ]
    wanted: Annotated[
        TextOrNull,
        At("verdict.wanted"),
        Field("the wanted state"),
    ]
    why: Annotated[
        TextOrNull,
        At("verdict.why"),
        Field("the consequence of any other state"),
    ]
    remedy: Annotated[
        TextOrNull,
        At("verdict.remedy"),
        Field("a command to paste; the text after `#` is a comment"),
    ]
    source: Annotated[TextOrNull, At("verdict.source"), Field("the source of the wanted value")]
    hosts: Annotated[
        TextsOrNull,
        Field("hosts with this verdict; null if it is about all hosts together (DOC6xx)"),
    ]


class Doctor(Result, tag_field="schema", tag="counterpoint.doctor/1"):
    """Problems of the hosts: `counterpoint doctor --json`."""

    failed: Annotated[bool, Field("true if any verdict is an error or a warning (exit code 1)")]
    hosts: Annotated[
        tuple[str, ...],
        Field("the name of the host; with `--compare`, those of all, in the order of the files"),
    ]
    verdicts: Annotated[
        tuple[HostVerdict, ...], Field("results of the checks, most severe first; see below")
    ]
    compared: Annotated[
        Mapping[str, str] | None,
        Field(
            "what `--compare` compares: versions, settings and limits by name; null if the report "
            "is of several hosts"
        ),
    ]
    next: Annotated[str, Field("the command to run next")]


def doctor_json(checkup: Checkup, next: str) -> str:
    """Return `doctor` as text; inapplicable and unknown checks have statuses of their own."""
    return json_text(fill(Doctor, checkup, next=next))
