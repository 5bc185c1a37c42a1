"""`pgle make`, `show`, `diff`, `check` and `apply` as JSON. Nothing is cut."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from counterpoint.core import Unknown
from counterpoint.core.field import Field, Form
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
    """A module that costs were made of."""

    name: Annotated[str, Field("its name", "module", Form.NAME)]
    fingerprint: Annotated[
        str | None, Field("of the module before scheduling; null: its HLO is not in the profile")
    ]
    instructions: Annotated[int, Field("instructions with a cost", "instructions", Form.COUNT)]
    collectives: Annotated[int, Field("collectives among them", "collectives", Form.COUNT, rank=1)]
    executions: Annotated[int, Field("runs that count, on the device with the most")]
    devices: Annotated[int, Field("devices with such runs")]
    hosts: Annotated[int, Field("hosts of these devices")]
    device_ms: Annotated[
        float,
        Field(
            "time of everything that ran, each concurrent kernel counted; a sum over runs and "
            "devices",
            "device ms",
            Form.MS,
        ),
    ]
    covered_ms: Annotated[float, Field("the part of it that the costs were made from")]
    covered: Annotated[
        float | None,
        Field(
            "`covered_ms` as a share of `device_ms`; null: it took no time",
            "with cost",
            Form.SHARE,
            digits=1,
        ),
    ]


class PgleMake(Result, tag_field="schema", tag="counterpoint.pgle-make/1"):
    """The recording that a profile was made from: `counterpoint pgle make --json`."""

    profile: Annotated[str, Field("the file that was written")]
    costs: Annotated[int, CountOf("profile.costs"), Field("the number of costs in it")]
    origin: Annotated[
        dict[str, str],
        At("profile.origin"),
        Field("how it was made: the comments at its top, by name"),
    ]
    modules: Annotated[
        tuple[ModuleCostsJson, ...],
        Field("the modules that the costs are of, the highest cost first"),
    ]
    notes: Annotated[tuple[str, ...], Field("what to know of it")]
    next: Annotated[str, Field("the command to run next")]


def made_json(build: ProfileBuild, out: str, next: str) -> str:
    """Return `pgle make` as text."""
    return json_text(fill(PgleMake, build, profile=out, next=next))


class ModuleSum(Result):
    """Modules with the same costs, and the sum of these costs."""

    fingerprints: Annotated[
        tuple[str, ...], Field("of the modules; empty: the costs have bare names, of any module")
    ]
    us: Annotated[float, Field("the sum of the costs, in microseconds")]


class PgleProfile(Result, tag_field="schema", tag="counterpoint.pgle-profile/1"):
    """The contents of a profile: `counterpoint pgle show --json`."""

    profile: Annotated[str, Field("its file")]
    origin: Annotated[
        dict[str, str],
        Field("how it was made: the comments at its top, by name; empty of a binary file"),
    ]
    fingerprints: Annotated[
        tuple[str, ...], Field("the modules that it has costs of, in order of appearance")
    ]
    bare: Annotated[int, Field("the number of costs with bare names, of any module")]
    taken: Annotated[int, Field("the number of costs that XLA takes: one for each key")]
    total_us: Annotated[float, Field("their sum, each module once, in microseconds")]
    modules: Annotated[
        tuple[ModuleSum, ...],
        Field("the same by module; hosts may compile one to several fingerprints"),
    ]
    costs: Annotated[tuple[InstructionCost, ...], Field("the costs, in the order of the file")]
    duplicates: Annotated[
        dict[str, tuple[float, ...]],
        Field(
            "the costs of each key that occurs more than once, in microseconds; XLA takes the last"
        ),
    ]
    latencies: Annotated[
        int, CountOf("latencies"), Field("the number of latencies, which XLA:GPU ignores")
    ]


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

    key: Annotated[str, Field("the name as written for XLA")]
    a_us: Annotated[float, Field("in A, in microseconds", "A us", Form.US)]
    b_us: Annotated[float, Field("in B, in microseconds", "B us", Form.US)]
    difference_us: Annotated[float, Field("B less A")]
    ratio: Annotated[float | None, Field("B over A; null: A is zero")]


class KeyCost(Result):
    """A cost that one profile has."""

    key: Annotated[str, Field("the name as written for XLA")]
    us: Annotated[float, Field("in microseconds", "us", Form.US)]


class PgleDiff(Result, tag_field="schema", tag="counterpoint.pgle-diff/1"):
    """Two profiles side by side: `counterpoint pgle diff --json`."""

    a: Annotated[str, Field("the file of A")]
    b: Annotated[str, Field("the file of B")]
    by_name: Annotated[
        bool,
        Field("true if no key is in both, so that instructions are compared by their bare names"),
    ]
    a_us: Annotated[float, Field("the sum of the common costs in A, in microseconds")]
    b_us: Annotated[float, Field("the sum of the common costs in B, in microseconds")]
    equal: Annotated[int, Field("the number of keys with the same cost in both")]
    changes: Annotated[
        tuple[CostChange, ...], Field("the costs that both have, the largest difference first")
    ]
    only_a: Annotated[tuple[KeyCost, ...], Field("the costs that A alone has, the largest first")]
    only_b: Annotated[tuple[KeyCost, ...], Field("the costs that B alone has, the largest first")]


def diff_json(diff: ProfileDiff, a: str, b: str) -> str:
    """Return `pgle diff` as text."""
    return json_text(fill(PgleDiff, diff, a=a, b=b))


class CoveredPartJson(Result):
    """What was found of a whole: instructions, or microseconds of device time."""

    found: Annotated[float, Field("what has a cost")]
    whole: Annotated[float, Field("all of it")]
    share: Annotated[float, Field("the one over the other; 1 if there is nothing to find")]


class LookupAnswerJson(Result):
    """The profile's answer to one lookup."""

    name: Annotated[
        str, Field("the name under which XLA looks first", "name XLA looks up", Form.NAME)
    ]
    us: Annotated[float | None, Field("the cost that it finds, in microseconds; null: none")]
    category: Annotated[str, Field("what kind of work it is", "category")]
    collective: Annotated[
        bool,
        At("lookup.collective"),
        Field("true for a collective: the cost is how long it may overlap other work"),
    ]
    sync: Annotated[
        bool,
        At("lookup.sync"),
        Field("true for a collective without overlap, which XLA may not have counted"),
    ]
    executions: Annotated[
        int | None, Field("how often one run of the program executes it; null: unknown")
    ]
    measured_us: Annotated[
        float | None,
        Field("device time of all of these executions, in microseconds; null: not measured"),
    ]
    what: Annotated[str, Field("what the instruction does", "what", Form.NAME, rank=1)]
    source: Annotated[str | None, Field("`file:line`; null: unknown", "source", Form.PLACE)]


class Unused(Result):
    """A cost that XLA does not look up."""

    name: Annotated[str, Field("the name in the profile", "name in the profile", Form.NAME)]
    us: Annotated[float, Field("its cost, in microseconds", "us", Form.US)]
    why: Annotated[
        str,
        Field(
            "`other-module`, `collective` (not named by its start), `renamed` (after the lookup), "
            "`absent` from the program, or `not-asked` (XLA does not look it up)"
        ),
    ]
    meant: Annotated[
        str | None, Field("the name under which XLA would find it; null: none is clear")
    ]


class PgleCheck(Result, tag_field="schema", tag="counterpoint.pgle-check/1"):
    """The coverage of a program by a profile: `counterpoint pgle check --json`."""

    profile: Annotated[str, Field("its file")]
    program: Annotated[str, Field("where the program is from")]
    module: Annotated[str, Field("the module that was checked")]
    other_modules: Annotated[
        tuple[str, ...], Field("other modules of the same place, which were not")
    ]
    fingerprint: Annotated[str | None, Field("of the module; null: its compiler wrote none")]
    passed: Annotated[bool, Field("whether the profile is good enough for it")]
    reasons: Annotated[tuple[str, ...], Field("why it is not; empty if it is")]
    remarks: Annotated[tuple[str, ...], Field("what else to know")]
    fit: Annotated[
        str,
        At("staleness.fit"),
        Field(
            "`fits`, `stale` (XLA takes its costs, which are of other operations), `foreign` (XLA "
            "takes almost none of them) or `untold`"
        ),
    ]
    fit_reason: Annotated[str, At("staleness.reason"), Field("how that is known")]
    differences: Annotated[
        tuple[str, ...],
        At("staleness.differences"),
        Field("what differs between making the profile and this program"),
    ]
    instructions: Annotated[CoveredPartJson, Field("instructions that XLA looks up")]
    collectives: Annotated[CoveredPartJson, Field("collectives among them")]
    time_us: Annotated[
        CoveredPartJson | None,
        At("time"),
        Field("microseconds of measured device time; null: `time_unknown`"),
    ]
    time_unknown: Annotated[
        str | None, ReasonUnknown("time"), Field("why it is unknown; null: it is not")
    ]
    measured: Annotated[str | None, Field("where the times were taken; null: there are none")]
    answers: Annotated[
        tuple[LookupAnswerJson, ...],
        Field("what XLA finds for each instruction that it looks up, in the schedule's order"),
    ]
    unused: Annotated[tuple[Unused, ...], Field("costs that XLA does not look up")]
    duplicates: Annotated[
        tuple[str, ...], Field("keys that occur more than once, of which the last counts")
    ]
    doubts: Annotated[tuple[ImplausibleCost, ...], Field("costs that are implausible")]
    latencies_left_out: Annotated[
        int, At("latencies"), Field("the number of latencies in the file, which XLA:GPU ignores")
    ]
    next: Annotated[str, Field("the command to run next; empty if it passed")]


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

    name: Annotated[str, Field("its name", "collective", Form.NAME)]
    name_before: Annotated[str, Field("its name before; null: the same")]
    kind: Annotated[str, Field("the kind of collective", "kind", rank=2)]
    bytes: Annotated[int, Field("of one execution", "size", Form.BYTES, rank=2)]
    source: Annotated[str | None, Field("file:line", "source", Form.PLACE, rank=1)]
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


def moved(movement: Movement | Unknown) -> Moved:
    """Return the movement as data."""
    return fill(Moved, movement, hidden_at_most_us=movement)


class PlannedMemoryJson(Result):
    """The compiler's plan, in bytes of one device."""

    peak: Annotated[
        int | None, Field("XLA's own peak, of the fullest memory space; null: not reported")
    ]
    temp: Annotated[int | None, Field("temporary buffers; null: not reported")]
    argument: Annotated[int | None, Field("arguments; null: not reported")]
    output: Annotated[int | None, Field("results; null: not reported")]
    buffers: Annotated[
        int | None,
        Field(
            "all buffers of the schedule, where only that was compiled; null: the rest is "
            "reported, or nothing"
        ),
    ]


class BothMemories(Result):
    """Memory without and with the profile."""

    without: Annotated[PlannedMemoryJson, At("without.memory"), Field("without the profile")]
    within: Annotated[PlannedMemoryJson, At("compiled.memory"), Field("with the profile")] = (
        msgspec.field(name="with")
    )


class BothSeconds(Result):
    """The compiler's time, in seconds."""

    without: Annotated[float, At("without.seconds"), Field("without the profile")]
    within: Annotated[float, At("compiled.seconds"), Field("with the profile")] = msgspec.field(
        name="with"
    )


class PgleApply(Result, tag_field="schema", tag="counterpoint.pgle-apply/1"):
    """The compiler's use of a profile, and its effect: `counterpoint pgle apply --json`."""

    profile: Annotated[str, At("path"), Field("its file")]
    used: Annotated[bool, Field("whether the compiler scheduled by its costs, by its own log")]
    stale: Annotated[bool, Field("whether it was made from another program")]
    own_fingerprint: Annotated[
        str | None,
        At("own.fingerprint"),
        Field(
            "of the program that it was made from, compiled on its own devices; null: there was "
            "no need, or it is not known"
        ),
    ]
    reason: Annotated[str, Field("how it is known whether it was used")]
    warnings: Annotated[tuple[str, ...], Field("what may be wrong even so, the worst first")]
    fit: Annotated[
        str,
        At("coverage.staleness.fit"),
        Field("`fits`, `stale`, `foreign` or `untold`, by fingerprints, as in `pgle check`"),
    ]
    program: Annotated[
        str, At("compiled.program.name"), Field("the module that was compiled with it")
    ]
    fingerprint: Annotated[
        str | None,
        At("compiled.fingerprint"),
        Field("of that module; null: its compiler wrote none"),
    ]
    target: Annotated[str, Field("the hardware that it was compiled for")]
    flags: Annotated[dict[str, str], At("options"), Field("the options of both compiles")]
    versions: Annotated[
        dict[str, str], At("compiled.versions"), Field("of the packages that compiled")
    ]
    notes: Annotated[tuple[str, ...], At("compiled.notes"), Field("notes on the compile")]
    proof: Annotated[tuple[str, ...], Field("the compiler's own lines about the profile")]
    found: Annotated[int, Field("costs found, by the compiler's own count")]
    missing: Annotated[int, Field("instructions without a cost, by the compiler's own count")]
    missing_names: Annotated[
        tuple[str, ...], At("module.missing_names"), Field("those of them that it names")
    ]
    fallback: Annotated[
        str | None,
        At("module.fallback"),
        Field("what it used instead of the profile, as its log says; null: nothing"),
    ]
    changed: Annotated[bool, Field("whether the schedules differ")]
    movement: Annotated[Moved, Field("what moved in the schedule")]
    memory: Annotated[BothMemories, Field("the compiler's plan")]
    compile_s: Annotated[BothSeconds, Field("the compiler's time")]
    next: Annotated[str, Field("the command to run next")]


def pgle_apply_json(applied: AppliedProfile, next: str) -> str:
    """Return `pgle apply` as text."""
    movement = applied.movement if applied.used else Unknown("none of its costs were used")
    own = {"movement": moved(movement), "memory": applied, "compile_s": applied, "next": next}
    return json_text(fill(PgleApply, applied, **own))
