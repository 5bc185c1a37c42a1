"""Without a prediction nobody chooses: what the user named takes part, in their order."""

from __future__ import annotations

from counterpoint.capture.interpreter import find_interpreter
from counterpoint.core.errors import UsageError
from counterpoint.tune.arm import BASE, Arm, Origin
from counterpoint.tune.asked import Asked, running
from counterpoint.tune.journal.records import CandidateSeen, SearchEnded, SpaceMade
from counterpoint.tune.space.equals import distinct
from counterpoint.tune.space.hand_arms import AS_THE_BASE
from counterpoint.tune.space.make import make_space
from counterpoint.tune.space.point import arm_of, single_points
from counterpoint.tune.space.space import Space
from counterpoint.tune.space.space_file import SpaceFile, read_space
from counterpoint.tune.study.ledger import Ledger, stamp


def list_arms(asked: Asked, ledger: Ledger) -> None:
    """Write down the base and all that was named; UsageError where that is nothing."""
    space, arms = named_arms(asked)
    dimensions = tuple((it.name, len(it.choices)) for it in space.dimensions)
    ledger.add(
        SpaceMade(
            dimensions=dimensions,
            left_out=space.left_out,
            at=stamp(),
            notes=space.notes,
            jaxlib=space.version,
        )
    )
    base = Arm(name=BASE, settings=space.base, origin=Origin.BASE)
    for arm in (base, *arms):
        ledger.add(CandidateSeen(arm=arm, at=stamp()))
    names = tuple(it.name for it in arms)
    ledger.add(SearchEnded(why="named by hand", shortlist=names, seconds=0.0, at=stamp()))


def named_arms(asked: Asked) -> tuple[Space, tuple[Arm, ...]]:
    """Arms by hand, and each choice of the dimensions that the user's file speaks of."""
    said = None if asked.plan.space_file is None else read_space(asked.plan.space_file)
    found = find_interpreter(asked.command, asked.inherited)
    space = make_space(
        asked.base,
        version=found.versions.get("jaxlib") if found else None,
        asked=said,
        running=running(asked),
        arms=asked.arms,
    )
    by_hand = [it for it in space.seeds if it.origin is Origin.HAND]
    spoken_of = _spoken_of(said) if said else frozenset[str]()
    alone = [
        arm_of(space, point, Origin.SPACE)
        for point in single_points(space)
        if spoken_of.issuperset(point)
    ]
    arms = tuple(distinct(space.base, (*by_hand, *alone)))
    if not arms:
        raise _nothing(space, _spoken_of(said) if said else frozenset[str]())
    return space, arms


def _nothing(space: Space, spoken_of: frozenset[str]) -> UsageError:
    """What became of all that was named."""
    out = [it for it in space.left_out if it.name in spoken_of or it.why == AS_THE_BASE]
    why = "; ".join(f"{it.name}: {it.why}" for it in out)
    same = bool(out) and all(it.why == AS_THE_BASE for it in out)
    return UsageError(
        "nothing to try: of what was named, no setting is left",
        why=why or "without a --target nothing is searched: arms are named by hand",
        next="name an arm that sets something else than the base (--set, --env, your environment)"
        if same
        else "--target 8xH100",
    )


def _spoken_of(said: SpaceFile) -> frozenset[str]:
    return frozenset({*(it.name for it in said.drafts), *(said.only or ()), *said.choices})
