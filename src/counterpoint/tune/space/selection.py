"""Selection: a draft becomes a dimension with the choices that exist here and can matter, or none.

Whatever is left out has its reason, for the user.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from counterpoint.flags.versions import PROFILE
from counterpoint.tune.arm import Acts, ArmChange
from counterpoint.tune.space.context import SpaceContext
from counterpoint.tune.space.current_settings import (
    adapted,
    are_in_effect,
    base_sets_any,
    why_refused,
)
from counterpoint.tune.space.dimensions import ANY, Draft, Pick, builtin_dimensions, names_of
from counterpoint.tune.space.space import Dimension, LeftOut
from counterpoint.tune.space.thresholds import break_points

_ALREADY: Final = "the base has it already"
_TPUS: Final = ("tpu",)
_NO_MERGE: Final = "no threshold merges differently from the base"


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftSelection:
    """The result for a draft; `met` is true if the base has one of its choices, as `needs` asks."""

    draft: Draft
    dimension: Dimension | None = None
    left_out: tuple[LeftOut, ...] = ()
    met: bool = False


def select(draft: Draft, here: SpaceContext, only: Sequence[str] | None = None) -> DraftSelection:
    """Make the dimension with the choices that are valid here, limited to those in `only`."""
    why = why_irrelevant(draft, here)
    if why is not None:
        return _dropped(draft, why)
    choices = _choices(draft, here) if only is None else draft.choices
    if not choices:
        return _dropped(draft, _NO_MERGE)
    found: list[ArmChange] = []
    reasons: dict[str, str] = {}
    met = False
    for name, picks in choices.items():
        if only is not None and name not in only:
            continue
        change, reason, same = _change(draft, name, picks, here)
        met |= same
        if change is not None:
            found.append(change)
        elif reason:
            reasons[name] = reason
    if not found:
        met |= any(here.is_default(pick.condition) for name in reasons for pick in choices[name])
        return _dropped(draft, "; ".join(dict.fromkeys(reasons.values())) or _ALREADY, met=met)
    return DraftSelection(
        draft=draft,
        dimension=Dimension(
            name=draft.name,
            choices=tuple(found),
            acts=found[0].acts,
            why=draft.why,
            source=draft.source,
            needs=draft.needs,
            excludes=draft.excludes,
        ),
        left_out=tuple(LeftOut(f"{draft.name} {name}", why) for name, why in reasons.items()),
        met=met,
    )


def why_irrelevant(draft: Draft, here: SpaceContext) -> str | None:
    """Return why the dimension cannot matter, whatever its settings are."""
    why = None if draft.by_hand and here.platform is None else here.no_gpu()
    own = draft.condition.chips == _TPUS or (draft.by_hand and not _is_for_gpus(draft))
    if why is not None and not own:
        return why
    if draft.kinds and here.devices == 1:
        return "one device has no collectives"
    return here.unmet(draft.condition) or _not_in_program(draft, here)


def acts_of(draft: Draft) -> Acts:
    """Return where a draft takes effect: as written, or at run time if any of its names does."""
    if draft.acts is not None:
        return draft.acts
    acts = builtin_dimensions().acts
    names = names_of(draft)
    sure = names and all(acts.get(name) is Acts.SCHEDULE for name in names)
    return Acts.SCHEDULE if sure else Acts.RUNTIME


def _is_for_gpus(draft: Draft) -> bool:
    return any(name.startswith("xla_gpu_") for name in names_of(draft))


def _not_in_program(draft: Draft, here: SpaceContext) -> str | None:
    facts = here.facts
    if facts is None:
        return None
    kinds = set(draft.kinds)
    if ANY in kinds:
        kinds = set(facts.kinds)
        if not kinds:
            return f"{facts.name} has no collectives"
    if kinds and not kinds & facts.kinds:
        return f"{facts.name} has no {' or '.join(draft.kinds)}"
    if draft.loop and not facts.has_loop:
        return f"{facts.name} has no loop"
    if draft.loop and kinds and not kinds & facts.in_loops:
        return f"{facts.name} has no {' or '.join(draft.kinds)} in a loop"
    return None


def _choices(draft: Draft, here: SpaceContext) -> Mapping[str, tuple[Pick, ...]]:
    """Return the choices as written, or thresholds derived from the program if it is known."""
    if not draft.combine or here.facts is None:
        return draft.choices
    kinds = here.facts.thresholds.kinds
    combining = next((candidate for candidate in kinds if candidate.kind == draft.combine), None)
    return break_points(combining, here) if combining else {}


def _change(
    draft: Draft, name: str, picks: Sequence[Pick], here: SpaceContext
) -> tuple[ArmChange | None, str | None, bool]:
    """Return a choice as an ArmChange, or why it is left out, and whether the base already has it.

    A choice that only reverts a setting that the base does not have is left out without a reason.
    """
    reason: str | None = None
    for pick in picks:
        reason = reason or here.unmet(pick.condition)
        if here.unmet(pick.condition) is None:
            break
    else:
        return None, None if all(pick.undo for pick in picks) else reason, False
    settings = adapted(pick.settings, here)
    if pick.undo and not base_sets_any(settings, here):
        return None, None, False
    why = (
        why_refused(settings, here)
        or _trips(pick, here)
        or _profile(pick, here)
        or _per(pick, here)
    )
    if why is not None:
        return None, why, False
    if are_in_effect(settings, here) and not (pick.profile or pick.per):
        return None, None if pick.undo else _ALREADY, not pick.undo
    if pick.per is not None and pick.per == here.per:
        return None, None, False
    change = ArmChange(
        dimension=draft.name,
        choice=name,
        settings=settings,
        acts=acts_of(draft),
        per=pick.per,
        profile=pick.profile,
    )
    return change, None, False


def _trips(pick: Pick, here: SpaceContext) -> str | None:
    if pick.most_trips is None or here.program is None:
        return None
    if here.trips is None:
        return "the trip counts of its loops are unknown"
    if here.trips > pick.most_trips:
        return f"a loop runs {here.trips} times, and unrolling makes the program that much larger"
    return None


def _profile(pick: Pick, here: SpaceContext) -> str | None:
    if not pick.profile:
        return None
    if PROFILE in here.before.flags or PROFILE in dict(here.base.options):
        return "the base already uses a profile"
    if here.variables.get("JAX_ENABLE_PGLE", "").casefold() in ("1", "true", "yes", "on"):
        return "the base measures its own profile (JAX_ENABLE_PGLE)"
    return None


def _per(pick: Pick, here: SpaceContext) -> str | None:
    if pick.per is None:
        return None
    if here.shape is None:
        return "nothing is run, and a prediction does not depend on the process layout"
    if here.per is None:
        return "the number of processes is given explicitly"
    if here.gpus_per_host is None:
        return "the number of GPUs per node is unknown"
    return "a node has one GPU" if here.gpus_per_host < 2 else None


def _dropped(draft: Draft, why: str, *, met: bool = False) -> DraftSelection:
    return DraftSelection(draft=draft, left_out=(LeftOut(draft.name, why),), met=met)
