"""Recipe arms: every recipe that applies here, and the settings that `flags recommend` suggests.

The arm of a recipe is what `predict --candidate RECIPE` compiles: the base with the recipe
appended. A recipe yields no arm if it is for another release or chip, or if the program lacks what
it affects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from counterpoint.flags.catalogue.libtpu import libtpu_flag
from counterpoint.flags.jaxlib import installed_version
from counterpoint.flags.recipe import Recipe, recipes
from counterpoint.flags.recommendation import RecommendationRequest, recommend
from counterpoint.flags.settings import Channel, Settings
from counterpoint.flags.text import parse_xla_flags, render_xla_flags
from counterpoint.tune.arm import Arm, ArmOrigin
from counterpoint.tune.space.changes import changes_of, changes_something
from counterpoint.tune.space.context import SpaceContext
from counterpoint.tune.space.current_settings import why_refused
from counterpoint.tune.space.dimensions import builtin_dimensions
from counterpoint.tune.space.space import Dimension, LeftOut, new_fault, same_as

_LIBTPU: Final = "LIBTPU_INIT_ARGS"


RECOMMENDED: Final = "recommended"
_WORKLOADS: Final = (
    ("fsdp", ("all-gather", "reduce-scatter")),
    ("dp", ("all-reduce",)),
    ("ep", ("all-to-all", "ragged-all-to-all")),
    ("pp", ("send", "recv", "collective-permute")),
)
"""Kinds of parallelism, and the collectives by which a program shows each."""


@dataclass(frozen=True, slots=True)
class Seeds:
    """The seed arms, what is recommended here first, and the recipes that yield no arm."""

    arms: tuple[Arm, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


def recipe_arms(
    dimensions: Sequence[Dimension],
    here: SpaceContext,
    unwanted: Mapping[str, str],
    by_hand: Sequence[Arm] = (),
) -> Seeds:
    """Make an arm of each recipe that applies, unless the user rejected it or added it manually."""
    arms: list[Arm] = []
    left_out: list[LeftOut] = []
    first = RECOMMENDED
    offers = [
        (
            name,
            options_of_libtpu(recipe.resolve(here.version or installed_version(), here.chip), here),
        )
        for name, recipe in recipes().items()
    ]
    for name, settings in (*offers, (RECOMMENDED, recommended(here))):
        why = unwanted.get(name) or _why_not(name, settings, here)
        changes = () if why else changes_of(settings, dimensions, here)
        if not why and not changes:
            why = "the base has it already"
        if why:
            left_out.append(LeftOut(name, why))
            continue
        whole = here.base.merged(settings)
        arm = Arm(name=name, settings=whole, changes=changes, origin=ArmOrigin.RECIPE)
        same = same_as(here.base, arm, (*by_hand, *arms))
        if same is not None:
            left_out.append(LeftOut(name, f"equivalent to {same.name}"))
            first = same.name if name == first else first
            continue
        arms.append(arm)
    # A search for few candidates may end before the later ones, so the likeliest comes first.
    arms.sort(key=lambda arm: arm.name != first)
    return Seeds(tuple(arms), tuple(left_out))


def recommended(here: SpaceContext) -> Settings:
    """Return the settings recommended for speed; the process layout is a separate dimension."""
    if here.no_gpu() is not None and here.platform != "tpu":
        return Settings()
    facts = here.facts
    kinds = facts.kinds if facts else frozenset({"all-gather", "all-reduce"})
    workloads = [name for name, shown in _WORKLOADS if kinds & set(shown)]
    found = recommend(
        RecommendationRequest(
            workloads=tuple(workloads or ["dp"]),
            goal="speed",
            release=here.release,
            chip=here.chip,
            hosts=here.hosts,
            devices=here.devices,
            program=facts,
        )
    )
    settings = options_of_libtpu(found.settings, here)
    return Settings(settings.xla, settings.env, settings.options)


def options_of_libtpu(settings: Settings, here: SpaceContext) -> Settings:
    """Return settings with the flags of libtpu as options of a compile, as dimensions have them."""
    env = dict(settings.env)
    if here.platform != "tpu" or _LIBTPU not in env:
        return settings
    flags = parse_xla_flags(env.pop(_LIBTPU), where=_LIBTPU)
    known = {name: libtpu_flag(name) for name, _ in flags}
    alone = [pair for pair in flags if (flag := known[pair[0]]) is None or not flag.per_compile]
    rest = {_LIBTPU: render_xla_flags(alone)} if alone else {}
    options = tuple(pair for pair in flags if pair not in alone)
    return Settings(settings.xla, tuple({**env, **rest}.items()), (*settings.options, *options))


def _why_not(name: str, settings: Settings, here: SpaceContext) -> str | None:
    if name in builtin_dimensions().no_arms:
        return builtin_dimensions().no_arms[name]
    recipe = recipes().get(name)
    if settings == Settings():
        return _nothing(recipe, here)
    why = _other_devices(settings, here)
    if why is None and recipe is not None:
        why = _why_irrelevant(recipe, here)
    if why is not None:
        return why
    if settings.layout is not None and not _names(settings):
        return _layout_why_not(here)
    why = why_refused(settings, here)
    if why is None and not changes_something(settings, here):
        why = "the base has it already"
    whole = here.before.merged(settings)
    return why or new_fault(here.before, whole, here.version, here.chip) or None


def _other_devices(settings: Settings, here: SpaceContext) -> str | None:
    """Return why the settings are for devices that are not present."""
    on_tpu = here.platform == "tpu"
    if _LIBTPU in settings.variables or (on_tpu and settings.options):
        return None if on_tpu else "for TPUs"
    return here.no_gpu()


def _names(settings: Settings) -> tuple[object, ...]:
    return (*settings.xla, *settings.env, *settings.options)


def _nothing(recipe: Recipe | None, here: SpaceContext) -> str:
    """Return why a recipe has no settings."""
    if recipe is None:
        return here.no_gpu() or "nothing is recommended for this program"
    if not recipe.lines:
        return "only advice, no settings: see `counterpoint flags recommend`"
    unmet = (line.condition.why_not(here.version, here.chip, here.hosts) for line in recipe.lines)
    return next((why for why in unmet if why), "none of its settings apply here")


def _layout_why_not(here: SpaceContext) -> str | None:
    if here.shape is None:
        return "nothing is run, and a prediction does not depend on the process layout"
    if here.per != "node" or (here.gpus_per_host or 0) < 2:
        return "the base has it already"
    return None


def _why_irrelevant(recipe: Recipe, here: SpaceContext) -> str | None:
    """Return why none of the recipe's lines can matter for this program and these devices."""
    where = here.target.tpu if here.target is not None else None
    if "multislice" in recipe.workloads and where is not None and where.slices == 1:
        return "one slice has no network to another"
    lines = recipe.lines_for(here.version, here.chip, here.hosts)
    about = [
        (line.kinds, line.where == "loop")
        for line in lines
        if line.channel is not Channel.LIBTPU_INIT_ARGS
    ]
    reasons = [_not_there(kinds, here, loop=loop) for kinds, loop in about]
    return (
        next((reason for reason in reasons if reason), None) if reasons and all(reasons) else None
    )


def _not_there(kinds: Sequence[str], here: SpaceContext, *, loop: bool) -> str | None:
    if kinds and here.devices == 1:
        return "one device has no collectives"
    facts = here.facts
    if facts is None:
        return None
    if kinds and not facts.kinds & set(kinds):
        return f"{facts.name} has no {' or '.join(kinds)}"
    if loop and not facts.has_loop:
        return f"{facts.name} has no loop"
    if loop and kinds and not facts.in_loops & set(kinds):
        return f"{facts.name} has no {' or '.join(kinds)} in a loop"
    return None
