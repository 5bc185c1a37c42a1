"""Make a Space: the dimensions that exist for this release and can matter for this program.

    dimensions.toml, the user's file ── select ──► Dimensions ──┐
    recipes, recommended, manual arms ───────────► seeds ───────┴──► Space

The same input makes the same space, in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from counterpoint.core.frozen import frozen
from counterpoint.flags import Settings
from counterpoint.flags.catalogue import release
from counterpoint.flags.recipe import recipes
from counterpoint.flags.versions import PROFILE
from counterpoint.hardware import Target
from counterpoint.hlo import Program
from counterpoint.tune.arm import Acts, ArmChange
from counterpoint.tune.space.arms import RECOMMENDED, recipe_arms
from counterpoint.tune.space.dimensions import ANY, Draft, Pick, builtin_dimensions, names_of
from counterpoint.tune.space.hand_arms import hand_arms, typed_arms, warnings
from counterpoint.tune.space.situation import (
    RunFacts,
    SpaceContext,
    break_points,
    fitted,
    is_said,
    refused,
    says_all,
    space_context,
)
from counterpoint.tune.space.space import Dimension, LeftOut, Space
from counterpoint.tune.space.space_file import SpaceFile, checked, drafts_for, fixed, wanted

_ALREADY: Final = "the base has it already"
_TPUS: Final = ("tpu",)
_NO_MERGE: Final = "no threshold merges differently from the base"


@frozen(kw_only=True)
class Selected:
    """The result for a draft; `met` is true if the base has one of its choices, as `needs` asks."""

    draft: Draft
    dimension: Dimension | None = None
    left_out: tuple[LeftOut, ...] = ()
    met: bool = False


def selected(draft: Draft, here: SpaceContext, only: Sequence[str] | None = None) -> Selected:
    """Make the dimension with the choices that are valid here, limited to those in `only`."""
    why = beside_the_point(draft, here)
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


def beside_the_point(draft: Draft, here: SpaceContext) -> str | None:
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


def _dropped(draft: Draft, why: str, *, met: bool = False) -> Selected:
    return Selected(draft=draft, left_out=(LeftOut(draft.name, why),), met=met)


def hint_of(version: str | None) -> str | None:
    """Return a hint if the catalogue is of another release than the workload's."""
    found = release(version)
    if version is None:
        return f"the version of jaxlib is unknown: using the settings of {found.version}"
    if found.exact:
        return None
    return f"jaxlib {version} is not in the catalogue: using the settings of {found.version}"


_NOTHING: Final = SpaceFile(file="")
_NOT_RUN: Final = RunFacts()


def make_space(
    base: Settings,
    *,
    target: Target | None = None,
    program: Program | None = None,
    version: str | None = None,
    asked: SpaceFile | None = None,
    running: RunFacts = _NOT_RUN,
    arms: Sequence[str] = (),
) -> Space:
    """Make the space of everything that may be tried on top of the base.

    Args:
        base: The settings that all arms change.
        target: The GPUs; None if unknown.
        program: The compiled base; None if not compiled: it may then have any collective.
        version: The workload's jaxlib; None for the one installed here.
        asked: The user's file.
        running: What is known of the runs.
        arms: More manual arms, as `predict --candidate` takes them.
    """
    request = asked or _NOTHING
    here = space_context(
        base,
        version=version,
        target=target,
        program=program,
        running=running,
    )
    drafts = drafts_for(request)
    typed = typed_arms(arms, drafts, here)
    notes = checked(request, typed, here)
    here = replace(here, base=fixed(request, drafts, here))
    dimensions, left_out = _dimensions(drafts, request, here)
    by_hand = hand_arms((*request.arms, *typed), dimensions, here)
    unwanted = _unwanted(request, {arm.name for arm in by_hand.arms})
    found = recipe_arms(dimensions, here, unwanted, by_hand.arms)
    hint = hint_of(here.version)
    return Space(
        base=here.base,
        dimensions=dimensions,
        seeds=(*by_hand.arms, *found.arms),
        left_out=(*left_out, *by_hand.left_out, *found.left_out),
        version=here.version,
        chip=here.chip,
        notes=(*((hint,) if hint else ()), *notes, *warnings(by_hand.arms, here)),
    )


def refuse_odd(
    version: str | None, target: Target | None, asked: SpaceFile | None, arms: Sequence[str]
) -> None:
    """Raise the errors that making the space would, before the workload is lowered."""
    request = asked or _NOTHING
    here = space_context(Settings(), version=version, target=target, program=None, running=_NOT_RUN)
    checked(request, typed_arms(arms, drafts_for(request), here), here)


def _dimensions(
    drafts: Mapping[str, Draft], wishes: SpaceFile, here: SpaceContext
) -> tuple[tuple[Dimension, ...], tuple[LeftOut, ...]]:
    left_out: list[LeftOut] = []
    chosen: dict[str, Selected] = {}
    for name, draft in drafts.items():
        why = _not_wanted(name, wishes)
        # The base may have a choice of a dimension that is not wanted, and others may need it.
        selection = selected(draft, here, wanted(draft, wishes))
        if why is not None:
            fixed_ = name in wishes.fix
            left = (LeftOut(name, why),)
            selection = replace(
                selection, dimension=None, left_out=left, met=selection.met or fixed_
            )
        left_out += selection.left_out
        chosen[name] = selection
    dimensions = {
        name: selection.dimension
        for name, selection in chosen.items()
        if selection.dimension is not None
    }
    for name, why in _lacking(dimensions, chosen):
        del dimensions[name]
        left_out.append(LeftOut(name, why))
    return tuple(
        _closed(dimension, dimensions, chosen) for dimension in dimensions.values()
    ), tuple(left_out)


def _not_wanted(name: str, wishes: SpaceFile) -> str | None:
    if name in wishes.fix:
        return f"fixed to {wishes.fix[name]} by {wishes.file}"
    if name in wishes.drop:
        return f"dropped by {wishes.file}"
    own = name in {draft.name for draft in wishes.drafts}
    if wishes.only is not None and name not in wishes.only and not own:
        return f"not selected by {wishes.file}"
    return None


def _lacking(
    dimensions: Mapping[str, Dimension], chosen: Mapping[str, Selected]
) -> list[tuple[str, str]]:
    """Return the dimensions with unmet `needs`, directly or indirectly, each with the reason."""
    left = dict(dimensions)
    found: list[tuple[str, str]] = []
    while True:
        lacking = [
            (name, f"needs {needed}, which is left out")
            for name, dimension in left.items()
            for needed in dimension.needs
            if needed not in left and not chosen[needed].met
        ]
        if not lacking:
            return found
        for name, why in dict(lacking).items():
            del left[name]
            found.append((name, why))


def _closed(
    one: Dimension, dimensions: Mapping[str, Dimension], chosen: Mapping[str, Selected]
) -> Dimension:
    """Drop the `needs` that are met already, and make `excludes` symmetric."""
    needs = {name: choice for name, choice in one.needs.items() if not chosen[name].met}
    by_others = [
        dimension.name for dimension in dimensions.values() if one.name in dimension.excludes
    ]
    excludes = dict.fromkeys([*one.excludes, *by_others])
    apart = tuple(excluded for excluded in excludes if excluded in dimensions)
    choices = tuple(replace(change, excludes=apart) for change in one.choices)
    return replace(one, needs=needs, excludes=apart, choices=choices)


def _unwanted(wishes: SpaceFile, taken: set[str]) -> Mapping[str, str]:
    """Return the recipes that the user's file excludes as arms, each with the reason."""
    found: dict[str, str] = {}
    for name in (*recipes(), RECOMMENDED):
        if name in taken:
            found[name] = "one of your arms has this name"
        elif name in wishes.drop:
            found[name] = f"dropped by {wishes.file}"
        elif wishes.only is not None and name not in wishes.only:
            found[name] = f"not selected by {wishes.file}"
    return found
