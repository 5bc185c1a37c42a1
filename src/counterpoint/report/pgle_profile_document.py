"""A PGLE profile as a Document: what `pgle make` made, and what `pgle show` finds in a file."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Sequence
from typing import Any, Final

from counterpoint.pgle.made import Made, ModuleCosts
from counterpoint.pgle.needed import costs_found
from counterpoint.pgle.profile import Cost, Profile
from counterpoint.pgle.settled import settled
from counterpoint.report import units
from counterpoint.report.document import (
    Column,
    Document,
    Fact,
    Facts,
    Kind,
    Section,
    Table,
    Tone,
    printable,
)

MADE_SCHEMA: Final = "counterpoint.pgle-make/1"
PROFILE_SCHEMA: Final = "counterpoint.pgle-profile/1"

_BARE: Final = "any (bare names)"
_NOTES: Final = 8
_MODULES: Final = 10
_SHORT: Final = 12
_US_PER_MS: Final = 1e3


def made_document(made: Made, out: str, next: str) -> Document:
    """What a profile was made of, module by module."""
    rows = [
        Fact("wrote", printable(out)),
        Fact("costs", f"{len(made.profile.costs):,}"),
        Fact("statistic", made.profile.origin.get("statistic", units.UNKNOWN)),
    ]
    rows += [Fact("note", printable(note), Tone.QUIET) for note in made.notes[:_NOTES]]
    more = len(made.notes) - _NOTES
    if more > 0:
        rows.append(Fact("", f"and {more} more: --json", Tone.QUIET))
    sections = (Section("Profile", "", (Facts(tuple(rows)),)), _made_modules(made.modules))
    return Document(sections=sections, legend="", next=printable(next))


def _made_modules(modules: Sequence[ModuleCosts]) -> Section:
    shown = modules[:_MODULES]
    cells = (
        [printable(it.name) for it in shown],
        [it.fingerprint or _BARE for it in shown],
        [f"{it.instructions:,}" for it in shown],
        [f"{it.collectives:,}" for it in shown],
        [f"{it.executions:,} x {it.devices:,}" for it in shown],
        units.column(it.device_ms for it in shown),
        [units.percent(it.covered) for it in shown],
    )
    columns = (
        Column("module", Kind.NAME),
        Column("fingerprint", Kind.NAME, rank=2),
        Column("instructions", Kind.NUMBER),
        Column("collectives", Kind.NUMBER, rank=1),
        Column("runs x devices", Kind.NUMBER),
        Column("device ms", Kind.NUMBER),
        Column("with cost", Kind.NUMBER),
    )
    return Section(
        "Modules", _of(len(shown), len(modules)), (Table(columns=columns, rows=_rows(cells)),)
    )


def made_json(made: Made, out: str, next: str) -> str:
    """The same as data."""
    data: dict[str, Any] = {
        "schema": MADE_SCHEMA,
        "profile": out,
        "costs": len(made.profile.costs),
        "origin": dict(made.profile.origin),
        "modules": [_module_data(it) for it in made.modules],
        "notes": [*made.notes],
        "next": next,
    }
    return json.dumps(data, indent=1, allow_nan=False) + "\n"


def _module_data(module: ModuleCosts) -> dict[str, Any]:
    return {
        "name": module.name,
        "fingerprint": module.fingerprint,
        "instructions": module.instructions,
        "collectives": module.collectives,
        "executions": module.executions,
        "devices": module.devices,
        "hosts": module.hosts,
        "device_ms": module.device_ms,
        "covered_ms": module.covered_ms,
        "covered": module.covered,
    }


def profile_document(profile: Profile, name: str, top: int) -> Document:
    """What a file holds, and what XLA takes of it: of duplicates the last."""
    taken = tuple(settled(profile).values())
    sections = [_head(profile, name, taken), _modules(profile, taken, top), _largest(taken, top)]
    if profile.duplicates:
        sections.append(_duplicates(profile, top))
    zero = [cost for cost in taken if not cost.us]
    if zero:
        names = ", ".join(printable(cost.name) for cost in zero[:top])
        sections.append(Section("Without cost", f"{_of(min(top, len(zero)), len(zero))}: {names}"))
    follow = shlex.join(["counterpoint", "pgle", "check", name, "--program"])
    return Document(sections=tuple(sections), legend="", next=printable(f"{follow} PROGRAM"))


def _head(profile: Profile, name: str, taken: Sequence[Cost]) -> Section:
    held = f"{len(profile.costs):,}"
    dropped = len(profile.costs) - len(taken)
    if dropped:
        held += f", of which XLA drops {dropped:,} (of duplicates the last counts)"
    rows = [
        Fact("read", printable(name)),
        Fact("costs", f"{held}; {units.milliseconds(_ms(taken))} in all"),
    ]
    if profile.latencies:
        text = f"{len(profile.latencies):,}; XLA:GPU leaves them out"
        rows.append(Fact("latencies", text, Tone.WARNING))
    about = [(key, it) for key, it in profile.origin.items() if not key.startswith("module")]
    rows += [Fact(printable(key), printable(text), Tone.QUIET) for key, text in about]
    return Section("Profile", "", (Facts(tuple(rows)),))


def _modules(profile: Profile, taken: Sequence[Cost], top: int) -> Section:
    """By fingerprint; what is known of a module, its origin tells."""
    by_module: dict[str | None, list[Cost]] = {}
    for cost in taken:
        by_module.setdefault(cost.fingerprint, []).append(cost)
    shown = list(by_module.items())[:top]
    cells = (
        [fingerprint or _BARE for fingerprint, _ in shown],
        [f"{len(costs):,}" for _, costs in shown],
        units.column(_ms(costs) for _, costs in shown),
        [printable(profile.origin.get(f"module {it}", "")) for it, _ in shown],
    )
    columns = (
        Column("module", Kind.NAME),
        Column("costs", Kind.NUMBER),
        Column("ms in all", Kind.NUMBER),
        Column("made of", Kind.NAME, rank=1),
    )
    table = Table(columns=columns, rows=_rows(cells))
    return Section("Modules", _of(len(shown), len(by_module)), (table,))


def _largest(taken: Sequence[Cost], top: int) -> Section:
    shown = sorted(taken, key=lambda it: (-it.us, it.key))[:top]
    whole = _ms(taken)
    cells = (
        [printable(it.name) for it in shown],
        [(it.fingerprint or "any")[:_SHORT] for it in shown],
        [f"{it.us:,.3f}" for it in shown],
        [units.percent(it.us / _US_PER_MS / whole if whole else None) for it in shown],
    )
    columns = (
        Column("instruction", Kind.NAME),
        Column("module", Kind.WORD),
        Column("us", Kind.NUMBER),
        Column("share", Kind.NUMBER),
    )
    summary = _of(len(shown), len(taken))
    return Section("Largest costs", summary, (Table(columns=columns, rows=_rows(cells)),))


def _duplicates(profile: Profile, top: int) -> Section:
    found = list(profile.duplicates.values())
    shown = found[:top]
    taken = {it: costs_found(profile.costs, it) for it in (None, *profile.fingerprints)}
    cells = (
        [printable(same[0].name) for same in shown],
        [(same[0].fingerprint or "any")[:_SHORT] for same in shown],
        [_range(same) for same in shown],
        units.column((taken[same[0].fingerprint].get(same[0].name) for same in shown), 3),
    )
    columns = (
        Column("instruction", Kind.NAME),
        Column("module", Kind.WORD),
        Column("us", Kind.WORD),
        Column("XLA takes", Kind.NUMBER),
    )
    table = Table(columns=columns, rows=_rows(cells))
    summary = f"{_of(len(shown), len(found))} {_stand(len(found))} more than once"
    return Section("Duplicates", summary, (table,))


def _range(same: Sequence[Cost]) -> str:
    costs = [it.us for it in same]
    if len(costs) == 2:
        return " and ".join(f"{us:,.3f}" for us in costs)
    return f"{min(costs):,.3f} to {max(costs):,.3f} ({len(costs):,} costs)"


def _stand(names: int) -> str:
    return "name stands" if names == 1 else "names stand"


def profile_json(profile: Profile, name: str) -> str:
    """The same as data, uncut; `total_us` is of what XLA takes."""
    taken = settled(profile).values()
    data: dict[str, Any] = {
        "schema": PROFILE_SCHEMA,
        "profile": name,
        "origin": dict(profile.origin),
        "fingerprints": [*profile.fingerprints],
        "bare": sum(cost.fingerprint is None for cost in profile.costs),
        "taken": len(taken),
        "total_us": sum(cost.us for cost in taken),
        "costs": [
            {"name": it.name, "fingerprint": it.fingerprint, "us": it.us} for it in profile.costs
        ],
        "duplicates": {key: [it.us for it in same] for key, same in profile.duplicates.items()},
        "latencies": len(profile.latencies),
    }
    return json.dumps(data, indent=1, allow_nan=False) + "\n"


def _ms(costs: Iterable[Cost]) -> float:
    return sum(cost.us for cost in costs) / _US_PER_MS


def _rows(cells: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    return tuple(zip(*cells, strict=True))


def _of(shown: int, all_: int) -> str:
    return f"{all_:,}" if shown == all_ else f"{shown:,} of {all_:,}"
