"""`pgle make`, `show`, `diff`, `check` and `apply` as JSON. Nothing is cut."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from counterpoint.core import Unknown
from counterpoint.core.field import Field
from counterpoint.pgle.checking.check import ImplausibleCost
from counterpoint.pgle.lookups import effective_costs, same_costs
from counterpoint.pgle.profiles.profile import InstructionCost
from counterpoint.report.json import At, CountOf, Pair, ReasonUnknown, Result, fill, json_text

if TYPE_CHECKING:
    from counterpoint.pgle.applying.apply import AppliedProfile
    from counterpoint.pgle.applying.movement import Movement
    from counterpoint.pgle.checking.check import Coverage
    from counterpoint.pgle.checking.difference import ProfileDiff
    from counterpoint.pgle.checking.verdict import CoverageVerdict
    from counterpoint.pgle.making.modules import ProfileBuild
    from counterpoint.pgle.profiles.profile import Profile


class ModuleCostsJson(Result):
    """A module that costs were made of; `covered` is the share of its device time with a cost."""

    name: str
    fingerprint: str | None
    instructions: int
    collectives: int
    executions: int
    devices: int
    hosts: int
    device_ms: float
    covered_ms: float
    covered: float | None


class PgleMake(Result, tag_field="schema", tag="counterpoint.pgle-make/1"):
    """The recording that a profile was made from: `counterpoint pgle make --json`."""

    profile: str
    costs: Annotated[int, CountOf("profile.costs")]
    origin: Annotated[dict[str, str], At("profile.origin")]
    modules: tuple[ModuleCostsJson, ...]
    notes: tuple[str, ...]
    next: str


def made_json(build: ProfileBuild, out: str, next: str) -> str:
    """Return `pgle make` as text."""
    return json_text(fill(PgleMake, build, profile=out, next=next))


class ModuleSum(Result):
    """Modules with the same costs, and the sum of these costs."""

    fingerprints: tuple[str, ...]
    us: float


class PgleProfile(Result, tag_field="schema", tag="counterpoint.pgle-profile/1"):
    """The contents of a profile: `counterpoint pgle show --json`."""

    profile: str
    origin: dict[str, str]
    fingerprints: tuple[str, ...]
    bare: int
    taken: int
    total_us: float
    modules: tuple[ModuleSum, ...]
    costs: tuple[InstructionCost, ...]
    duplicates: dict[str, tuple[float, ...]]
    latencies: Annotated[int, CountOf("latencies")]


def profile_json(profile: Profile, name: str) -> str:
    """Return `pgle show` as text; `total_us` counts what XLA takes, each module once."""
    taken = effective_costs(profile)
    same = same_costs(profile, taken)
    sums: defaultdict[str | None, float] = defaultdict(float)
    for cost in taken.values():
        sums[cost.fingerprint] += cost.us
    return json_text(
        fill(
            PgleProfile,
            profile,
            profile=name,
            bare=sum(cost.fingerprint is None for cost in profile.costs),
            taken=len(taken),
            total_us=sum(sums[first] for first in same),
            modules=[
                {
                    "fingerprints": [
                        fingerprint for fingerprint in group if fingerprint is not None
                    ],
                    "us": sums[first],
                }
                for first, group in same.items()
            ],
            duplicates={
                key: tuple(cost.us for cost in costs) for key, costs in profile.duplicates.items()
            },
        )
    )


class CostChange(Result):
    """A cost that both profiles have."""

    key: str
    a_us: float
    b_us: float
    difference_us: float
    ratio: float | None


class KeyCost(Result):
    """A cost that one profile has."""

    key: str
    us: float


class PgleDiff(Result, tag_field="schema", tag="counterpoint.pgle-diff/1"):
    """Two profiles side by side: `counterpoint pgle diff --json`."""

    a: str
    b: str
    by_name: bool
    a_us: float
    b_us: float
    equal: int
    changes: tuple[CostChange, ...]
    only_a: tuple[KeyCost, ...]
    only_b: tuple[KeyCost, ...]


def diff_json(diff: ProfileDiff, a: str, b: str) -> str:
    """Return `pgle diff` as text."""
    return json_text(fill(PgleDiff, diff, a=a, b=b))


class CoveredPartJson(Result):
    """What was found of a whole: instructions, or microseconds of device time."""

    found: float
    whole: float
    share: float


class LookupAnswerJson(Result):
    """The profile's answer to one lookup."""

    name: str
    us: float | None
    category: str
    collective: Annotated[bool, At("lookup.collective")]
    sync: Annotated[bool, At("lookup.sync")]
    executions: int | None
    measured_us: float | None
    what: str
    source: str | None


class Unused(Result):
    """A cost that XLA does not look up."""

    name: str
    us: float
    why: str
    meant: str | None


class PgleCheck(Result, tag_field="schema", tag="counterpoint.pgle-check/1"):
    """The coverage of a program by a profile: `counterpoint pgle check --json`."""

    profile: str
    program: str
    module: str
    other_modules: tuple[str, ...]
    fingerprint: str | None
    passed: bool
    reasons: tuple[str, ...]
    remarks: tuple[str, ...]
    fit: Annotated[str, At("staleness.fit")]
    fit_reason: Annotated[str, At("staleness.reason")]
    differences: Annotated[tuple[str, ...], At("staleness.differences")]
    instructions: CoveredPartJson
    collectives: CoveredPartJson
    time_us: Annotated[CoveredPartJson | None, At("time")]
    time_unknown: Annotated[str | None, ReasonUnknown("time")]
    measured: str | None
    answers: tuple[LookupAnswerJson, ...]
    unused: tuple[Unused, ...]
    duplicates: tuple[str, ...]
    doubts: tuple[ImplausibleCost, ...]
    latencies_left_out: Annotated[int, At("latencies")]
    next: str


def pgle_check_json(
    coverage: Coverage,
    judgment: CoverageVerdict,
    profile: str,
    program: str,
    next: str,
    others: Sequence[str] = (),
) -> str:
    """Return `pgle check` as text."""
    unused = [
        fill(Unused, cost, why=cost.why.name.lower().replace("_", "-")) for cost in coverage.extra
    ]
    return json_text(
        fill(
            PgleCheck,
            coverage,
            profile=profile,
            program=program,
            other_modules=others,
            passed=judgment.passed,
            reasons=judgment.reasons,
            remarks=judgment.remarks,
            unused=unused,
            next=next,
        )
    )


class HiddenAtMost(Result):
    """The most transfer time that can be hidden, before and after, and that of all transfers."""

    before: Annotated[float, At("hidden_before_us"), Field("before the profile")]
    after: Annotated[float, At("hidden_after_us"), Field("with it")]
    all: Annotated[float, At("transfers_us"), Field("of all transfers")] = msgspec.field(name="of")


class CollectiveMoveJson(Result):
    """A collective in both schedules."""

    name: Annotated[str, Field("its name")]
    name_before: Annotated[str, Field("its name before; null: the same")]
    kind: Annotated[str, Field("the kind of collective")]
    bytes: Annotated[int, Field("of one execution")]
    source: Annotated[str | None, Field("file:line")]
    executions: Annotated[int | None, Field("in a step")]
    start_shift_us: Annotated[float, Field("compute that the start passed; negative: earlier")]
    within_us: Annotated[
        Pair,
        At("before.within_us", "after.within_us"),
        Field("compute between start and done, before and after"),
    ]
    hidden_us: Annotated[
        Pair,
        At("before.hidden_us", "after.hidden_us"),
        Field("the hidden part of its transfer, before and after"),
    ]
    transfer_us: Annotated[float | None, At("after.cost_us"), Field("its transfer")]


class Moved(Result):
    """The collectives that the profile moved in the schedule."""

    why_not: Annotated[str | None, ReasonUnknown(), Field("why it is not known; null: it is")]
    reordered: Annotated[bool | None, Field("whether anything moved")]
    basis: Annotated[Literal["predicted"], Field("`predicted`: by the profile's costs")]
    hidden_at_most_us: Annotated[
        HiddenAtMost | None, Field("transfer time that can be hidden at most")
    ]
    newly_overlapped: Annotated[tuple[str, ...], At("newly_overlapped.name"), Field("names")]
    no_longer_overlapped: Annotated[
        tuple[str, ...], At("no_longer_overlapped.name"), Field("names")
    ]
    gone: Annotated[tuple[str, ...], Field("names that only the schedule before has")]
    new: Annotated[tuple[str, ...], Field("names that only the schedule after has")]
    moves: Annotated[tuple[CollectiveMoveJson, ...], Field("the collectives that moved")]


def moved(found: Movement | Unknown) -> Moved:
    """Return the movement as data."""
    return fill(Moved, found, hidden_at_most_us=found)


class PlannedMemoryJson(Result):
    """The compiler's plan, in bytes of one device."""

    peak: int | None
    temp: int | None
    argument: int | None
    output: int | None
    buffers: int | None


class BothMemories(Result):
    """Memory without and with the profile."""

    without: Annotated[PlannedMemoryJson, At("without.memory")]
    within: Annotated[PlannedMemoryJson, At("compiled.memory")] = msgspec.field(name="with")


class BothSeconds(Result):
    """The compiler's time, in seconds."""

    without: Annotated[float, At("without.seconds")]
    within: Annotated[float, At("compiled.seconds")] = msgspec.field(name="with")


class PgleApply(Result, tag_field="schema", tag="counterpoint.pgle-apply/1"):
    """The compiler's use of a profile, and its effect: `counterpoint pgle apply --json`."""

    profile: Annotated[str, At("path")]
    used: bool
    stale: bool
    own_fingerprint: Annotated[str | None, At("own.fingerprint")]
    reason: str
    warnings: tuple[str, ...]
    fit: Annotated[str, At("coverage.staleness.fit")]
    program: Annotated[str, At("compiled.program.name")]
    fingerprint: Annotated[str | None, At("compiled.fingerprint")]
    target: str
    flags: Annotated[dict[str, str], At("options")]
    versions: Annotated[dict[str, str], At("compiled.versions")]
    notes: Annotated[tuple[str, ...], At("compiled.notes")]
    proof: tuple[str, ...]
    found: int
    missing: int
    missing_names: Annotated[tuple[str, ...], At("module.missing_names")]
    fallback: Annotated[str | None, At("module.fallback")]
    changed: bool
    movement: Moved
    memory: BothMemories
    compile_s: BothSeconds
    next: str


def pgle_apply_json(applied: AppliedProfile, next: str) -> str:
    """Return `pgle apply` as text."""
    movement = applied.movement if applied.used else Unknown("none of its costs were used")
    own = {"movement": moved(movement), "memory": applied, "compile_s": applied, "next": next}
    return json_text(fill(PgleApply, applied, **own))
