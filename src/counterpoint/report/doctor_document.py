"""`doctor` as a Document and as JSON: what is bad first, with commands; what is well at the end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from counterpoint.doctor.diagnosis import Diagnosis, Said, Status
from counterpoint.report.document import (
    Block,
    Document,
    Entry,
    Fact,
    Facts,
    Section,
    Tone,
    printable,
)

SCHEMA: Final = "counterpoint.doctor/1"
_LOUD: Final = (Status.ERROR, Status.WARNING)
_TITLES: Final = {
    Status.NOTE: "Notes",
    Status.UNKNOWN: "Unknown",
    Status.OK: "Well",
    Status.NOT_APPLICABLE: "Not applicable",
}
_NAMED: Final = 6


def doctor_document(diagnosis: Diagnosis) -> Document:
    """The whole report."""
    return Document(
        sections=tuple(_sections(diagnosis)),
        legend="values and limits are measured here; recommended ones bear their source",
        next=_next(diagnosis),
    )


def _sections(diagnosis: Diagnosis) -> Iterator[Section]:
    loud = [one for one in diagnosis.said if one.verdict.status in _LOUD]
    entries = tuple(_entry(index, one, diagnosis) for index, one in enumerate(loud, 1))
    yield Section("Doctor", _summary(diagnosis), entries)
    for status, title in _TITLES.items():
        said = diagnosis.of(status)
        if said:
            yield Section(title, str(len(said)), tuple(_quiet(said, diagnosis)))


def _summary(diagnosis: Diagnosis) -> str:
    hosts = diagnosis.hosts
    where = hosts[0] if len(hosts) == 1 else f"{len(hosts)} hosts"
    if diagnosis.ranks > 1:
        where += f", {diagnosis.ranks} ranks"
    kinds = (Status.ERROR, Status.WARNING, Status.NOTE)
    counts = ((len(diagnosis.of(kind)), kind) for kind in kinds)
    told = [f"{count} {kind}{'s' if count > 1 else ''}" for count, kind in counts if count]
    return printable(f"{where}: {', '.join(told) or 'nothing to say'}")


def _entry(number: int, one: Said, diagnosis: Diagnosis) -> Entry:
    verdict = one.verdict
    return Entry(
        number=number,
        title=printable(verdict.found),
        price=str(verdict.status),
        text=printable(verdict.why),
        rows=tuple(_rows(one, diagnosis)),
    )


def _rows(one: Said, diagnosis: Diagnosis) -> Iterator[Fact]:
    verdict = one.verdict
    if len(diagnosis.hosts) > 1 and one.hosts:
        yield Fact("on", printable(_hosts(one, diagnosis)))
    if verdict.wanted:
        yield Fact("wanted", printable(verdict.wanted))
    if verdict.remedy:
        yield Fact("do", printable(verdict.remedy), Tone.STRONG)
    if verdict.source:
        yield Fact("source", printable(verdict.source), Tone.QUIET)
    yield Fact("check", f"{verdict.code} {verdict.name}", Tone.QUIET)


def _hosts(one: Said, diagnosis: Diagnosis) -> str:
    if len(one.hosts) == len(diagnosis.hosts):
        return f"all {len(one.hosts)} hosts"
    more = f" and {len(one.hosts) - _NAMED} more" if len(one.hosts) > _NAMED else ""
    return ", ".join(one.hosts[:_NAMED]) + more


def _quiet(said: tuple[Said, ...], diagnosis: Diagnosis) -> Iterator[Block]:
    """A line or two for each; for notes the command, too."""
    rows: list[Fact] = []
    for one in said:
        verdict = one.verdict
        where = ""
        if len(diagnosis.hosts) > 1 and one.hosts and len(one.hosts) < len(diagnosis.hosts):
            where = f" ({_hosts(one, diagnosis)})"
        note = verdict.status is Status.NOTE
        why = f": {verdict.why}" if note and verdict.why else ""
        tone = Tone.PLAIN if note else Tone.QUIET
        rows.append(
            Fact(f"{verdict.code} {verdict.name}", printable(verdict.found + why + where), tone)
        )
        if note and verdict.remedy:
            rows.append(Fact("", printable(verdict.remedy), Tone.STRONG))
        if note and verdict.source:
            rows.append(Fact("", printable(verdict.source), Tone.QUIET))
    yield Facts(tuple(rows))


def _next(diagnosis: Diagnosis) -> str:
    first = next((one.verdict.code for one in diagnosis.said if one.verdict.status in _LOUD), None)
    if first is not None:
        return f"counterpoint explain-code {first}"
    return "counterpoint run -- python train.py"


def doctor_json(diagnosis: Diagnosis) -> str:
    """All of it as data. What does not apply or is not known has a status of its own."""
    data: dict[str, Any] = {
        "schema": SCHEMA,
        "failed": diagnosis.failed,
        "ranks": diagnosis.ranks,
        "hosts": [*diagnosis.hosts],
        "clocks": {
            host: {"ahead_ms": ms, "within_ms": within, "basis": "measured"}
            for host, (ms, within) in diagnosis.offsets_ms.items()
        },
        "verdicts": [_data(one) for one in diagnosis.said],
        "next": _next(diagnosis),
    }
    return json.dumps(data, indent=1, allow_nan=False) + "\n"


def _data(one: Said) -> dict[str, Any]:
    verdict = one.verdict
    return {
        "code": verdict.code,
        "name": verdict.name,
        "status": str(verdict.status),
        "found": verdict.found,
        "wanted": verdict.wanted or None,
        "why": verdict.why or None,
        "remedy": verdict.remedy or None,
        "source": verdict.source or None,
        "hosts": [*one.hosts] or None,
    }
