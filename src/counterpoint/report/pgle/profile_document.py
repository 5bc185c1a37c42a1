"""The reports of `pgle make`, on the profile it wrote, and `pgle show`, on a profile in a file."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from counterpoint.core.arguments import option_words
from counterpoint.core.printable import some
from counterpoint.pgle.lookups import effective_costs, same_costs
from counterpoint.pgle.making.modules import ModuleCosts, ProfileBuild
from counterpoint.pgle.profiles.profile import InstructionCost, Profile
from counterpoint.report import units
from counterpoint.report.columns import field_columns
from counterpoint.report.document import (
    Document,
    Fact,
    FactList,
    Section,
    Tone,
    names,
    numbers,
    table,
    words,
)
from counterpoint.report.pgle.pgle_json import ModuleCostsJson

_BARE: Final = "any (bare names)"
_NOTES: Final = 8
_MODULES: Final = 10
_SHORT: Final = 12
_US_PER_MS: Final = 1e3
_LISTED: Final = 3

_Same: TypeAlias = Mapping[str | None, tuple[str | None, ...]]


def made_document(build: ProfileBuild, out: str, next: str) -> Document:
    """Return what a profile was made from, by module."""
    rows = [
        Fact("wrote", out),
        Fact("costs", f"{len(build.profile.costs):,}"),
        Fact("statistic", build.profile.origin.get("statistic", units.UNKNOWN)),
    ]
    rows += [Fact("note", note, Tone.QUIET) for note in build.notes[:_NOTES]]
    more = len(build.notes) - _NOTES
    if more > 0:
        rows.append(Fact("", f"and {more} more: --json", Tone.QUIET))
    sections = (Section("Profile", "", (FactList(tuple(rows)),)), _made_modules(build.modules))
    return Document(sections=sections, legend="", next=next)


def _made_modules(modules: Sequence[ModuleCosts]) -> Section:
    shown = modules[:_MODULES]
    by_module = table(
        *field_columns(ModuleCostsJson, shown, ["name"]),
        names("fingerprint", [module.fingerprint or _BARE for module in shown], rank=2),
        *field_columns(ModuleCostsJson, shown, ["instructions", "collectives"]),
        numbers("runs x devices", [f"{each.executions:,} x {each.devices:,}" for each in shown]),
        *field_columns(ModuleCostsJson, shown, ["device_ms", "covered"]),
    )
    return Section("Modules", units.shown_of(len(shown), len(modules)), (by_module,))


def profile_document(profile: Profile, name: str, top: int) -> Document:
    """Return the contents of a file, and what XLA takes from it: the last of duplicates.

    Costs that appear under several fingerprints of one module count once.
    """
    taken = effective_costs(profile)
    same = same_costs(profile, taken)
    once = [cost for cost in taken.values() if cost.fingerprint in same]
    sections = [
        _head(profile, name, once, same, dropped=len(profile.costs) - len(taken)),
        _modules(profile, taken, top),
        _largest(once, same, top),
    ]
    duplicates = [
        duplicate for duplicate in profile.duplicates.values() if duplicate[0].fingerprint in same
    ]
    if duplicates:
        sections.append(_duplicates(duplicates, taken, same, top))
    zero = [cost for cost in once if not cost.us]
    if zero:
        listed = ", ".join(cost.name for cost in zero[:top])
        count = units.shown_of(min(top, len(zero)), len(zero))
        sections.append(Section("Zero cost", f"{count}: {listed}"))
    return Document(
        sections=tuple(sections), legend="", next=shlex.join(_next_words(profile, name))
    )


def _next_words(profile: Profile, name: str) -> list[str]:
    """Return the next command: the costs of a TPU need other names before a run can use them."""
    if profile.origin.get("devices", "").startswith("TPU"):
        target = option_words({"program": "step.mlir", "target": "v5e-8"})
        return ["counterpoint", "pgle", "apply", name, *target]
    words = option_words({"profile": name})
    return ["counterpoint", "pgle", "manual", *words, "--", "python", "train.py"]


def _head(
    profile: Profile, name: str, once: Sequence[InstructionCost], same: _Same, *, dropped: int
) -> Section:
    held = f"{len(profile.costs):,}"
    if dropped:
        held += f", of which XLA drops {dropped:,} (of duplicates the last counts)"
    rows = [
        Fact("read", name),
        Fact("costs", f"{held}; {units.milliseconds(_ms(once))} in all"),
    ]
    rows += [
        Fact("note", f"{_listed(group[1:])}: the same costs as {_digits(first)}, counted once")
        for first, group in same.items()
        if len(group) > 1
    ]
    if profile.latencies:
        text = f"{len(profile.latencies):,}; ignored by XLA:GPU"
        rows.append(Fact("latencies", text, Tone.WARNING))
    about = [(key, value) for key, value in profile.origin.items() if not key.startswith("module")]
    rows += [Fact(key, text, Tone.QUIET) for key, text in about]
    return Section("Profile", "", (FactList(tuple(rows)),))


def _listed(fingerprints: Sequence[str | None]) -> str:
    return some([_digits(fingerprint) for fingerprint in fingerprints], _LISTED)


def _digits(fingerprint: str | None) -> str:
    return (fingerprint or "any")[:_SHORT]


def _of_group(fingerprint: str | None, same: _Same) -> str:
    """Return the digits of a module, and how many other fingerprints it has."""
    others = len(same[fingerprint]) - 1
    return f"{_digits(fingerprint)} +{others}" if others else _digits(fingerprint)


def _modules(profile: Profile, taken: Mapping[str, InstructionCost], top: int) -> Section:
    """Return the modules by fingerprint, described by the profile's origin."""
    by_module: dict[str | None, list[InstructionCost]] = {}
    for cost in taken.values():
        by_module.setdefault(cost.fingerprint, []).append(cost)
    shown = sorted(by_module.items(), key=lambda entry: -_ms(entry[1]))[:top]
    origins = [profile.origin.get(f"module {fingerprint}", "") for fingerprint, _ in shown]
    modules = table(
        names("module", [fingerprint or _BARE for fingerprint, _ in shown]),
        numbers("costs", [f"{len(costs):,}" for _, costs in shown]),
        numbers("ms in all", units.column(_ms(costs) for _, costs in shown)),
        names("made from", origins, rank=1),
    )
    return Section("Modules", units.shown_of(len(shown), len(by_module)), (modules,))


def _largest(once: Sequence[InstructionCost], same: _Same, top: int) -> Section:
    """Return the largest costs; shares refer to their own module, since modules run separately."""
    shown = sorted(once, key=lambda cost: (-cost.us, cost.key))[:top]
    whole = _sums(once)
    shares = [
        cost.us / module_us if (module_us := whole[cost.fingerprint]) else None for cost in shown
    ]
    largest = table(
        *field_columns(InstructionCost, shown, ["name"]),
        words("module", [_of_group(cost.fingerprint, same) for cost in shown]),
        *field_columns(InstructionCost, shown, ["us"]),
        numbers("of module", [units.percent(share) for share in shares]),
    )
    return Section("Largest costs", units.shown_of(len(shown), len(once)), (largest,))


def _sums(costs: Iterable[InstructionCost]) -> dict[str | None, float]:
    """Return microseconds by fingerprint."""
    us_of: dict[str | None, float] = {}
    for cost in costs:
        us_of[cost.fingerprint] = us_of.get(cost.fingerprint, 0.0) + cost.us
    return us_of


def _duplicates(
    costs: Sequence[tuple[InstructionCost, ...]],
    taken: Mapping[str, InstructionCost],
    same: _Same,
    top: int,
) -> Section:
    shown = costs[:top]
    taken_us = (_taken_us(taken, duplicate[0]) for duplicate in shown)
    duplicates = table(
        names("instruction", [duplicate[0].name for duplicate in shown]),
        words("module", [_of_group(duplicate[0].fingerprint, same) for duplicate in shown]),
        words("us", [_range(duplicate) for duplicate in shown]),
        numbers("XLA takes", units.column(taken_us, 3)),
    )
    count = units.shown_of(len(shown), len(costs))
    return Section(
        "Duplicates", f"{count} {_names_occur(len(costs))} more than once", (duplicates,)
    )


def _taken_us(taken: Mapping[str, InstructionCost], cost: InstructionCost) -> float | None:
    chosen = taken.get(cost.key)
    return None if chosen is None else chosen.us


def _range(same: Sequence[InstructionCost]) -> str:
    costs = [cost.us for cost in same]
    if len(costs) == 2:
        return " and ".join(f"{us:,.3f}" for us in costs)
    return f"{min(costs):,.3f} to {max(costs):,.3f} ({len(costs):,} costs)"


def _names_occur(number: int) -> str:
    return "name occurs" if number == 1 else "names occur"


def _ms(costs: Iterable[InstructionCost]) -> float:
    return sum(cost.us for cost in costs) / _US_PER_MS
