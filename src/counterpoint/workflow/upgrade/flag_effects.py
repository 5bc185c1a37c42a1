"""Flags between two releases: which went, came or changed, and which undo what changed in a step.

The catalogue knows the flags of each release. A flag whose default changed, or that came switched
on, is tried at its old behavior: all of them together first, and one by one only if that makes
another program. Others that steer what did change are tried, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from counterpoint.core import CounterpointError, Range, Unknown
from counterpoint.flags.catalogue.flag import Flag
from counterpoint.flags.catalogue.lookup import release
from counterpoint.flags.history import ChangedFlag, ReleaseDiff, diff
from counterpoint.flags.lifecycle import replacements
from counterpoint.flags.settings import Settings
from counterpoint.flags.text import Pairs
from counterpoint.hardware.target import Target
from counterpoint.workflow.forecast.forecast import PricingContext
from counterpoint.workflow.forecast.ranking import Forecast, difference, same_programs
from counterpoint.workflow.upgrade.changes import ChangeKind, StepChangeOfKind
from counterpoint.workflow.upgrade.installation import Installation
from counterpoint.workflow.upgrade.side import (
    LoweredSide,
    Say,
    UpgradeOptions,
    UpgradeSide,
    compile_variants,
)
from counterpoint.workflow.variant import Variant

_OF_GPUS: Final = "xla_gpu_"
_MOST: Final = 12
_NOT_TRIED: Final = (
    # Of autotuning, runtime and debugging: a compile without the device does not show them.
    *("autotun", "command_buffer", "dump", "debug", "cupti", "nccl", "cudnn", "pdl", "barrier"),
    *("embed", "allocator", "cache", "crash", "verif", "trace", "profile", "multi_host"),
)
LEAST_EFFECT: Final = 0.001
"""Share of the step: less is no effect."""

_STEERING: Final = {
    ChangeKind.SYNCHRONOUS: (("xla_gpu_enable_latency_hiding_scheduler", "true"),),
    ChangeKind.EXPOSED: (
        ("xla_gpu_enable_latency_hiding_scheduler", "true"),
        ("xla_gpu_enable_pipelined_all_gather", "true"),
        ("xla_gpu_enable_pipelined_reduce_scatter", "true"),
    ),
    ChangeKind.SPLIT: (
        ("xla_gpu_all_gather_combine_threshold_bytes", "1073741824"),
        ("xla_gpu_reduce_scatter_combine_threshold_bytes", "1073741824"),
        ("xla_gpu_all_reduce_combine_threshold_bytes", "1073741824"),
    ),
    ChangeKind.COMBINED: (
        ("xla_gpu_all_gather_combine_threshold_bytes", "31457280"),
        ("xla_gpu_reduce_scatter_combine_threshold_bytes", "31457280"),
    ),
}
"""Flags that steer what changed, by the kind of change: tried only where it cost time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagTry:
    """Settings tried with the new release, and what they undo.

    `undone` is the share of what the step became longer that they take back: above 1, the step is
    even shorter than before. None if it did not become longer, or if the compile failed.
    """

    variant: Variant  # the Settings of the new side, and these flags
    flags: Pairs
    why: str
    forecast: Forecast | None = None
    error: CounterpointError | None = None
    saves_s: float | None = None  # compared with the new release without them
    reach_s: Range | None = None  # of the saving
    undone: float | None = None
    same_program: bool = False  # as without them

    @property
    def has_effect(self) -> bool:
        """True if the step becomes shorter or longer by a thousandth with them, or more."""
        if self.forecast is None or self.saves_s is None or self.same_program:
            return False
        return abs(self.saves_s) >= LEAST_EFFECT * self.forecast.step_s

    @property
    def helps(self) -> bool:
        """True if the step becomes shorter with them, by a thousandth or more."""
        return self.has_effect and (self.saves_s or 0.0) > 0


def flag_changes(one: Installation, other: Installation, target: Target) -> ReleaseDiff | Unknown:
    """Return the flags that differ between two releases of jaxlib, if both are known."""
    if target.tpu is not None:
        libtpus = [it.packages.get("libtpu", "of unknown version") for it in (one, other)]
        return Unknown(
            f"a TPU's compiler is libtpu, here {' and '.join(libtpus)}, which does not tell its"
            " defaults"
        )
    before, after = one.jaxlib, other.jaxlib
    old, new = release(before), release(after)
    for known, asked in ((old, before), (new, after)):
        if not known.exact:
            return Unknown(
                f"the catalogue does not know the flags of jaxlib {asked}; the nearest release that"
                f" it knows is {known.version}"
            )
    return diff(old, new, replacements(old, new))


def old_behaviors(changed: ReleaseDiff, given: Settings) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield flags at their old behavior, and why; none that the user sets."""
    mine = {**given.flags, **dict(given.options)}
    for one in changed.changed:
        if one.what == "default" and _can_be_tried(one.flag) and one.flag.name not in mine:
            value = _old_value(one)
            if value is not None:
                now = one.after or "empty"
                yield (one.flag.name, value), f"its default was {value}, and is {now}"
    for flag in changed.added:
        if (flag.type, flag.default) == ("bool", "true") and _can_be_tried(flag):
            yield (flag.name, "false"), "it is new, and on by default"


def _can_be_tried(flag: Flag) -> bool:
    return (
        flag.name.startswith(_OF_GPUS)
        and flag.compile_option
        and not (flag.no_op or flag.deprecated or flag.fatal or flag.alias_of)
        and not any(part in flag.name for part in _NOT_TRIED)
    )


def _old_value(one: ChangedFlag) -> str | None:
    """Return the old default as the new release takes it; None if it can't be written."""
    if not one.before or one.flag.type in ("strings", "map", "message"):
        return None
    return one.before if one.flag.meaning(one.before) is not None else None


@dataclass(frozen=True, slots=True)
class TriedWith:
    """The new side, as it was and as it was lowered, and what compiles and prices tries."""

    before: UpgradeSide
    after: UpgradeSide
    lowered: LoweredSide
    pricing: PricingContext
    options: UpgradeOptions
    say: Say

    def results(self, asked: Sequence[tuple[Pairs, str]]) -> list[FlagTry]:
        """Compile with these flags, each a line of its own, and say what each undoes."""
        variants = [self._variant(flags) for flags, _ in asked]
        results = compile_variants(
            [(self.lowered, variant) for variant in variants], self.pricing, self.options, self.say
        )
        return [
            self._try(variant, flags, why, result)
            for variant, (flags, why), result in zip(variants, asked, results, strict=True)
        ]

    def _variant(self, flags: Pairs) -> Variant:
        added = self.after.settings.merged(Settings(xla=flags))
        line = " ".join(f"--{name}={value}" for name, value in flags)
        return Variant(f"{len(flags)} flags as before" if len(flags) > 1 else line, added)

    def _try(
        self, variant: Variant, flags: Pairs, why: str, result: Forecast | CounterpointError
    ) -> FlagTry:
        if isinstance(result, CounterpointError):
            return FlagTry(variant=variant, flags=flags, why=why, error=result)
        now = self.after.forecast
        saves = now.step_s - result.step_s
        added = now.step_s - self.before.forecast.step_s
        return FlagTry(
            variant=variant,
            flags=flags,
            why=why,
            forecast=result,
            saves_s=saves,
            reach_s=difference(now.simulation, result.simulation),
            undone=saves / added if added > LEAST_EFFECT * now.step_s else None,
            same_program=same_programs(now, result),
        )


def tried_flags(
    tried: TriedWith, changes: Sequence[StepChangeOfKind], changed: ReleaseDiff | Unknown
) -> tuple[FlagTry, ...]:
    """Try the flags that may undo changes with the new release, the best first."""
    old = [] if isinstance(changed, Unknown) else [*old_behaviors(changed, tried.after.settings)]
    asked = [*_steering(tried.after, changes)]
    if old:
        together = tuple(flag for flag, _ in old)
        asked.insert(
            0, (together, "their defaults changed, or they came on" if old[1:] else old[0][1])
        )
    if not asked:
        return ()
    tried.say(f"trying {len(asked)} settings that may undo changes")
    tries = tried.results(asked)
    if len(old) > 1 and not tries[0].same_program:
        tried.say(f"trying {len(old[:_MOST])} flags one by one")
        tries += tried.results([((flag,), why) for flag, why in old[:_MOST]])
    return tuple(sorted(tries, key=lambda it: -math.inf if it.saves_s is None else -it.saves_s))


def _steering(
    after: UpgradeSide, changes: Sequence[StepChangeOfKind]
) -> Iterator[tuple[Pairs, str]]:
    """Yield flags that steer what changed and took longer, unless the user sets them."""
    known = release(after.installation.jaxlib).flags
    mine = {**after.settings.flags, **dict(after.settings.options)}
    step_ms = after.forecast.step_s * 1e3
    seen = set[str]()
    for change in changes:
        if change.difference_ms < LEAST_EFFECT * step_ms:
            continue
        for name, value in _STEERING.get(change.kind, ()):
            flag = known.get(name)
            if flag is None or name in seen or flag.is_default(value):
                continue
            if name in mine or flag.alias_of in mine:
                continue
            seen.add(name)
            yield ((name, value),), f"it steers: {change.kind}"
