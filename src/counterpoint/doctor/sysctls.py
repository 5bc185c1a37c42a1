"""The kernel's settings held to recommended values, and how grave a difference is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from counterpoint.doctor.facts import Facts
from counterpoint.doctor.recommended import Recommended
from counterpoint.doctor.verdict import Status, Verdict, not_applicable, ok, unknown


def held(facts: Facts, wanted: Sequence[Recommended], fine: str) -> Iterator[Verdict]:
    """One Verdict for each difference, or one that all is well."""
    if facts.hosts == 1 and not facts.dcn:
        yield not_applicable("one host: no step waits for TCP (--dcn: for a run on several)")
        return
    known = [(one, facts.network.sysctls[one.name]) for one in wanted if _told(facts, one)]
    if not known:
        yield unknown("the kernel does not show these settings here")
        return
    bad = [(one, value) for one, value in known if one.met(value) is False]
    for one, value in bad:
        grave = one.is_grave(value) and facts.by_tcp
        yield Verdict(
            status=Status.WARNING if grave else Status.NOTE,
            found=f"{one.name} = {' '.join(value.split())}",
            wanted=one.write,
            why=one.why + ("" if facts.by_tcp else "; little of a step's traffic is TCP's here"),
            remedy=f"sudo sysctl -w {one.name}={_quoted(one.write)}",
            source=one.source,
        )
    if not bad:
        yield ok(f"{fine} ({len(known)} settings)")


def _told(facts: Facts, one: Recommended) -> bool:
    return one.name in facts.network.sysctls


def _quoted(value: str) -> str:
    return f'"{value}"' if " " in value else value
