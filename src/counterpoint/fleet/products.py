"""What a task makes of one host's profile, and how the products of all hosts are merged.

An extract is the usual product. `timeline` stores the host's Timeline, and `costs` are those of
`pgle make`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from counterpoint.core import InputError
from counterpoint.fleet.extract import make_extract, to_bytes
from counterpoint.timeline.formats import RECORDING_ENDINGS
from counterpoint.timeline.model import Lane, Timeline
from counterpoint.timeline.storage.parquet import write_parquet

if TYPE_CHECKING:
    from counterpoint.pgle.making.modules import ModuleCosts, ProfileBuild
    from counterpoint.pgle.profiles.profile import Profile

__all__ = ["host_name", "merge_costs"]

_NOTES: Final = 20
_APART: Final = (
    "each host was read by itself: costs are medians over hosts, of a collective the shortest stay"
)
_ALONE: Final = re.compile(r"waiting for late ranks is part|profiles of 1 of (\d+) hosts were read")
"""What a task notes of the hosts that it did not read, and that others did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredHost:
    """What a task wrote of one host."""

    name: str
    spans: int
    devices: int


def make_product(kind: str, timeline: Timeline, name: str, **options: Any) -> bytes:  # noqa: ANN401 - of JSON
    """Return a product as bytes; `name` is that of the profile."""
    if kind == "timeline":
        return _stored(timeline, Path(options["out"]) / host_name(name), force=options["force"])
    if kind == "costs":
        return _costs(timeline, **options)
    return to_bytes(make_extract(timeline))


def host_name(profile: str) -> str:
    """Return the name of a profile's file without its ending, by which its host goes."""
    file = profile.rstrip("/").rpartition("/")[2]
    ending = next((each for each in RECORDING_ENDINGS if file.endswith(each)), "")
    return file.removesuffix(ending)


def _stored(timeline: Timeline, place: Path, *, force: bool) -> bytes:
    if not len(timeline.spans) and not len(timeline.host_events):
        why = "; ".join(timeline.notes) or "it contains no work of a device or of the host"
        raise InputError(f"{', '.join(timeline.inputs)}: no spans to convert", why=why)
    # A task that is repeated finds what it wrote before it was lost.
    write_parquet(timeline, place, overwrite=force or place.exists())
    told = StoredHost(name=place.name, spans=len(timeline.spans), devices=len(timeline.devices))
    return json.dumps(asdict(told)).encode()


def _costs(timeline: Timeline, **options: Any) -> bytes:  # noqa: ANN401 - of JSON
    from counterpoint.pgle.making.make import make_profile

    build = make_profile(timeline, **options)
    collective = timeline.ops.filter(pl.col("lane") == Lane.COLLECTIVE)
    names = pl.concat([collective["op"], collective["pair"]]).drop_nulls().unique().sort()
    programs = [program.name for program in timeline.programs]
    kinds: dict[tuple[str | None, str], str] = {}
    for number, op, *kind in collective.select("program", pl.coalesce("pair", "op"), *_KIND).rows():
        name = "" if number is None else programs[int(number)]
        if programs.count(name) == 1:
            kinds[name, op] = " ".join(map(str, (name, op, *kind)))
    of = {module.fingerprint: module.name for module in build.modules}
    told = {
        "costs": [
            (cost.name, cost.us, key := cost.fingerprint, kinds.get((of.get(key), cost.name)))
            for cost in build.profile.costs
        ],
        "origin": dict(build.profile.origin),
        "modules": [asdict(module) for module in build.modules],
        "notes": build.notes,
        "collectives": names.to_list(),
    }
    return json.dumps(told).encode()


_KIND: Final = ("collective", "bytes", "group_size", "scope", "source")
"""What makes collectives of one name in two builds of a program the same."""


def merge_costs(
    products: Mapping[str, bytes], notes: Iterable[str], *, strict: bool = False
) -> ProfileBuild:
    """Return one profile: the median over hosts, and of a collective that of the shortest stay.

    Who arrives last at a collective stays as long as it takes; the others wait, and a task that
    reads one host can't tell for whom. A host with another chip than most is left out, and with
    bare names, which match any program, one with other programs; with `strict`, it is an error.
    """
    from counterpoint.pgle.making.merge import merge_profiles
    from counterpoint.pgle.making.modules import ModuleCosts, ProfileBuild

    told: dict[str, Any] = {name: json.loads(products[name]) for name in sorted(products)}
    others = _left_out(told, lambda each: each["origin"].get("devices", ""), strict=strict)
    if any(cost[2] is None for each in told.values() for cost in each["costs"]):
        others += _left_out(told, _programs, strict=strict)
    together = {name for each in told.values() for name in each["collectives"]}
    merged = merge_profiles(_of_hosts(told), names=[*told], least=together)
    modules: dict[tuple[str, str | None], ModuleCosts] = {}
    for module in (ModuleCosts(**module) for each in told.values() for module in each["modules"]):
        key = (module.name, module.fingerprint)
        modules[key] = _sum(modules[key], module) if key in modules else module
    said = dict.fromkeys(
        f"of one host: {note}"
        for each in told.values()
        for note in each["notes"]
        if (alone := _ALONE.match(note)) is None or len(told) < int(alone[1] or 2)
    )
    return ProfileBuild(
        merged,
        tuple(sorted(modules.values(), key=lambda module: -module.cost_ms)),
        (*others, *notes, _APART, *list(said)[:_NOTES]),
    )


def _of_hosts(told: Mapping[str, dict[str, Any]]) -> list[Profile]:
    """Return the costs of each host; a collective's also under other hosts' builds of its program.

    Who waits least may run another build, and the host that alone has one always waits.
    """
    from counterpoint.pgle.profiles.profile import InstructionCost, Profile

    builds: dict[str | None, set[str]] = {}
    for *_, fingerprint, kind in (cost for each in told.values() for cost in each["costs"]):
        builds.setdefault(kind, set()).update([fingerprint] if kind else [])
    profiles: list[Profile] = []
    for each in told.values():
        own = {fingerprint for *_, fingerprint, _ in each["costs"]}
        costs = tuple(
            InstructionCost(name, us, of)
            for name, us, fingerprint, kind in each["costs"]
            for of in (fingerprint, *sorted(builds[kind] - own))
        )
        profiles.append(Profile(costs, origin=each["origin"]))
    return profiles


def _programs(product: dict[str, Any]) -> str:
    return ", ".join(sorted({module["name"] for module in product["modules"]}))


def _left_out(
    told: dict[str, Any], of: Callable[[dict[str, Any]], str], *, strict: bool
) -> list[str]:
    """Take away the hosts of which `of` says something else than of most, and name them."""
    own = {name: text for name, each in told.items() if (text := of(each))}
    counts = Counter(own.values()).most_common()
    others = [name for name in own if own[name] != counts[0][0]]
    said = [f"{name} has {own[name]}, most have {counts[0][0]}" for name in others]
    if others and (strict or counts[0][1] == counts[1][1]):
        raise InputError(
            f"{others[0]} is of another run than others",
            why="; ".join(
                f"{count} of {len(own)} profiles have {text}" for text, count in counts[:3]
            ),
            next="make the costs of each run separately",
        )
    for name in others:
        del told[name]
    return [f"left out: {each}" for each in said]


def _sum(a: ModuleCosts, b: ModuleCosts) -> ModuleCosts:
    return replace(
        a,
        instructions=max(a.instructions, b.instructions),
        collectives=max(a.collectives, b.collectives),
        executions=max(a.executions, b.executions),
        devices=a.devices + b.devices,
        hosts=a.hosts + b.hosts,
        device_ms=a.device_ms + b.device_ms,
        covered_ms=a.covered_ms + b.covered_ms,
        cost_ms=a.cost_ms + b.cost_ms,
    )
