"""Select: the choices of a draft that exist here and can matter, or why there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from counterpoint.flags.catalogue import release
from counterpoint.flags.version import PROFILE
from counterpoint.tune.arm import Acts, Change
from counterpoint.tune.space.break_points import break_points
from counterpoint.tune.space.draft import ANY, Draft, Pick
from counterpoint.tune.space.situation import Situation
from counterpoint.tune.space.space import Dimension, LeftOut
from counterpoint.tune.space.standing import fitted, is_said, refused, says_all
from counterpoint.tune.space.table import known, names_of

_ALREADY: Final = "the base has it already"
_NO_MERGE: Final = "no threshold merges otherwise than the base does"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """What became of a draft. `met`: the base has one of its choices, so what needs it has it."""

    draft: Draft
    dimension: Dimension | None = None
    left_out: tuple[LeftOut, ...] = ()
    met: bool = False


def selected(draft: Draft, here: Situation, only: Sequence[str] | None = None) -> Selected:
    """The dimension with the choices that are any here. `only` are those that the user wants."""
    why = beside_the_point(draft, here)
    if why is not None:
        return _dropped(draft, why)
    choices = _choices(draft, here) if only is None else draft.choices
    if not choices:
        return _dropped(draft, _NO_MERGE)
    found: list[Change] = []
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
        met |= any(it.startswith("runs unasked") for it in reasons.values())
        return _dropped(draft, "; ".join(dict.fromkeys(reasons.values())) or _ALREADY, met=met)
    return Selected(
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


def beside_the_point(draft: Draft, here: Situation) -> str | None:
    """Why none of it can matter, whatever its settings are."""
    why = None if draft.by_hand and here.platform is None else here.no_gpu()
    if why is not None and not (draft.by_hand and not _is_for_gpus(draft)):
        return why
    if draft.kinds and here.devices == 1:
        return "one device has no collectives"
    return here.unmet(draft.condition) or _not_in_program(draft, here)


def acts_of(draft: Draft) -> Acts:
    """As it is written, else as its names are known to act; runtime where one is not."""
    if draft.acts is not None:
        return draft.acts
    acts = known().acts
    names = names_of(draft)
    sure = names and all(acts.get(it) is Acts.SCHEDULE for it in names)
    return Acts.SCHEDULE if sure else Acts.RUNTIME


def _is_for_gpus(draft: Draft) -> bool:
    return any(name.startswith("xla_gpu_") for name in names_of(draft))


def _not_in_program(draft: Draft, here: Situation) -> str | None:
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


def _choices(draft: Draft, here: Situation) -> Mapping[str, tuple[Pick, ...]]:
    """As written; thresholds as the program asks for them, where it is known."""
    if not draft.combine or here.facts is None:
        return draft.choices
    kinds = here.facts.thresholds.kinds
    combining = next((it for it in kinds if it.kind == draft.combine), None)
    return break_points(combining, here) if combining else {}


def _change(
    draft: Draft, name: str, picks: Sequence[Pick], here: Situation
) -> tuple[Change | None, str | None, bool]:
    """One choice as a Change; else why not, and whether the base is as it would be.

    A choice that only takes back what nobody said is none, and needs no reason.
    """
    reason: str | None = None
    for pick in picks:
        reason = reason or here.unmet(pick.condition)
        if here.unmet(pick.condition) is None:
            break
    else:
        return None, None if all(it.undo for it in picks) else reason, False
    settings = fitted(pick.settings, here)
    if pick.undo and not is_said(settings, here):
        return None, None, False
    why = refused(settings, here) or _trips(pick, here) or _profile(pick, here) or _per(pick, here)
    if why is not None:
        return None, why, False
    if says_all(settings, here) and not (pick.profile or pick.per):
        return None, None if pick.undo else _ALREADY, not pick.undo
    if pick.per is not None and pick.per == here.per:
        return None, None, False
    change = Change(
        dimension=draft.name,
        choice=name,
        settings=settings,
        acts=acts_of(draft),
        per=pick.per,
        profile=pick.profile,
    )
    return change, None, False


def _trips(pick: Pick, here: Situation) -> str | None:
    if pick.most_trips is None or here.program is None:
        return None
    if here.trips is None:
        return "nobody knows how often its loops run"
    if here.trips > pick.most_trips:
        return f"a loop runs {here.trips} times, and unrolled the program is as many times as large"
    return None


def _profile(pick: Pick, here: Situation) -> str | None:
    if not pick.profile:
        return None
    if PROFILE in here.before.flags or PROFILE in dict(here.base.options):
        return "the base is given a profile already"
    if here.variables.get("JAX_ENABLE_PGLE", "").casefold() in ("1", "true", "yes", "on"):
        return "the base measures a profile by itself (JAX_ENABLE_PGLE)"
    return None


def _per(pick: Pick, here: Situation) -> str | None:
    if pick.per is None:
        return None
    if here.shape is None:
        return "nothing is run, and a prediction is the same for any processes"
    if here.per is None:
        return "how many processes there are is said outright"
    if here.gpus_per_host is None:
        return "nobody knows how many GPUs a node has"
    return "a node has one GPU" if here.gpus_per_host < 2 else None


def _dropped(draft: Draft, why: str, *, met: bool = False) -> Selected:
    return Selected(draft=draft, left_out=(LeftOut(draft.name, why),), met=met)


def hint_of(version: str | None) -> str | None:
    """What to know where the catalogue is of another release than is meant."""
    found = release(version)
    if version is None:
        return f"the version of jaxlib is not known: settings are those of {found.version}"
    if found.exact:
        return None
    return f"jaxlib {version} is not known: settings are those of {found.version}"
