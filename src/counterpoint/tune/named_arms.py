"""Named arms: without a target there is no search, so what the user named takes part, in order."""

from __future__ import annotations

from counterpoint.capture import find_interpreter
from counterpoint.core import UsageError
from counterpoint.tune.arm import BASE, Arm, ArmOrigin
from counterpoint.tune.request import TuneRequest, example_target, run_facts
from counterpoint.tune.space.hand_arms import AS_THE_BASE
from counterpoint.tune.space.make import make_space
from counterpoint.tune.space.space import Space, arm_of, distinct, single_points
from counterpoint.tune.space.space_file import SpaceFile, read_space
from counterpoint.tune.study.ledger import Ledger, stamp
from counterpoint.tune.study.records import CandidateSeen, SearchEnded, SpaceMade


def list_arms(request: TuneRequest, ledger: Ledger) -> None:
    """Record the base and all named arms; raise UsageError if there are none."""
    space, arms = named_arms(request)
    ledger.add(SpaceMade.of(space, stamp()))
    base = Arm(name=BASE, settings=space.base, origin=ArmOrigin.BASE)
    for arm in (base, *arms):
        ledger.add(CandidateSeen(arm=arm, at=stamp()))
    names = tuple(arm.name for arm in arms)
    ledger.add(SearchEnded(why="named by hand", shortlist=names, seconds=0.0, at=stamp()))


def named_arms(request: TuneRequest) -> tuple[Space, tuple[Arm, ...]]:
    """Return arms by hand, and each choice of the dimensions that the user's file names."""
    space_file = None if request.plan.space_file is None else read_space(request.plan.space_file)
    found = find_interpreter(request.command, request.inherited)
    space = make_space(
        request.base,
        version=found.versions.get("jaxlib") if found else None,
        space_file=space_file,
        run_facts=run_facts(request),
        arms=request.arms,
    )
    by_hand = [arm for arm in space.seeds if arm.origin is ArmOrigin.HAND]
    named = _names_in(space_file) if space_file else frozenset[str]()
    alone = [
        arm_of(space, point, ArmOrigin.SPACE)
        for point in single_points(space)
        if named.issuperset(point)
    ]
    arms = tuple(distinct(space.base, (*by_hand, *alone)))
    if not arms:
        raise _nothing(space, named, request.plan.shape.nodes)
    return space, arms


def _nothing(space: Space, named: frozenset[str], nodes: int) -> UsageError:
    """Return the error that says why each named arm was left out."""
    out = [item for item in space.left_out if item.name in named or item.why == AS_THE_BASE]
    why = "; ".join(f"{item.name}: {item.why}" for item in out)
    same = bool(out) and all(item.why == AS_THE_BASE for item in out)
    return UsageError(
        "nothing to try: none of the named settings remains",
        why=why or "without --target there is no search: name arms with --arm",
        next="name an arm that differs from the base (--set, --env, your environment)"
        if same
        else f"use --target {example_target(nodes)}",
    )


def _names_in(space_file: SpaceFile) -> frozenset[str]:
    return frozenset(
        {
            *(draft.name for draft in space_file.drafts),
            *(space_file.only or ()),
            *space_file.choices,
        }
    )
