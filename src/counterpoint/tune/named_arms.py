"""Named arms: without a target there is no search, so what the user named takes part, in order."""

from __future__ import annotations

from counterpoint.capture import find_interpreter
from counterpoint.core import UsageError
from counterpoint.core.arguments import Retry
from counterpoint.tune.arm import BASE, Arm, ArmOrigin
from counterpoint.tune.request import TuneRequest, example_target, running
from counterpoint.tune.space.hand_arms import AS_THE_BASE
from counterpoint.tune.space.make import make_space
from counterpoint.tune.space.space import Space, arm_of, distinct, single_points
from counterpoint.tune.space.space_file import SpaceFile, read_space
from counterpoint.tune.study.ledger import Ledger, stamp
from counterpoint.tune.study.records import CandidateSeen, SearchEnded, SpaceMade


def list_arms(asked: TuneRequest, ledger: Ledger) -> None:
    """Record the base and all named arms; raise UsageError if there are none."""
    space, arms = named_arms(asked)
    ledger.add(SpaceMade.of(space, stamp()))
    base = Arm(name=BASE, settings=space.base, origin=ArmOrigin.BASE)
    for arm in (base, *arms):
        ledger.add(CandidateSeen(arm=arm, at=stamp()))
    names = tuple(arm.name for arm in arms)
    ledger.add(SearchEnded(why="named by hand", shortlist=names, seconds=0.0, at=stamp()))


def named_arms(asked: TuneRequest) -> tuple[Space, tuple[Arm, ...]]:
    """Return arms by hand, and each choice of the dimensions that the user's file names."""
    space_file = None if asked.plan.space_file is None else read_space(asked.plan.space_file)
    found = find_interpreter(asked.command, asked.inherited)
    space = make_space(
        asked.base,
        version=found.versions.get("jaxlib") if found else None,
        asked=space_file,
        running=running(asked),
        arms=asked.arms,
    )
    by_hand = [arm for arm in space.seeds if arm.origin is ArmOrigin.HAND]
    spoken_of = _spoken_of(space_file) if space_file else frozenset[str]()
    alone = [
        arm_of(space, point, ArmOrigin.SPACE)
        for point in single_points(space)
        if spoken_of.issuperset(point)
    ]
    arms = tuple(distinct(space.base, (*by_hand, *alone)))
    if not arms:
        spoken_of = _spoken_of(space_file) if space_file else frozenset[str]()
        raise _nothing(space, spoken_of, asked.plan.shape.nodes)
    return space, arms


def _nothing(space: Space, spoken_of: frozenset[str], nodes: int) -> UsageError:
    """Return the error that says why each named arm was left out."""
    out = [item for item in space.left_out if item.name in spoken_of or item.why == AS_THE_BASE]
    why = "; ".join(f"{item.name}: {item.why}" for item in out)
    same = bool(out) and all(item.why == AS_THE_BASE for item in out)
    return UsageError(
        "nothing to try: none of the named settings remains",
        why=why or "without `target=` there is no search: name arms with `arm=`",
        next="name an arm that differs from the base (`set=`, `env=`, your environment)"
        if same
        else Retry({"target": example_target(nodes)}),
    )


def _spoken_of(wishes: SpaceFile) -> frozenset[str]:
    return frozenset(
        {*(draft.name for draft in wishes.drafts), *(wishes.only or ()), *wishes.choices}
    )
