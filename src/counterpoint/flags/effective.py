"""Effective: the values that the compiler reports, compared with the requested ones.

    asked (Settings)   ─┐
                        ├─ compare ──► Used, one for each flag of one module
    reported (a dump)  ─┘

A compiler reports what differs from its defaults, after XLA_FLAGS and the options of the compile.
It reports no empty list, and no flag without a field of its own; what can't be told is UNSEEN.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from counterpoint.core.field import Field
from counterpoint.flags.catalogue.flag import Flag, Release
from counterpoint.flags.settings import Settings

__all__ = ["Difference", "EffectiveFlag", "FlagOutcome", "compare", "differences"]

_LISTS: Final = ("enums", "strings", "map")
_JAX: Final = frozenset(
    {
        "xla_detailed_logging",
        "xla_gpu_cuda_data_dir",
        "xla_gpu_enable_llvm_module_compilation_parallelism",
        "xla_gpu_experimental_autotune_cache_mode",
        "xla_gpu_kernel_cache_file",
        "xla_gpu_per_fusion_autotune_cache_dir",
        "xla_pjrt_allow_auto_layout_in_hlo",
        "xla_test_all_input_layouts",
    }
)
"""Flags that JAX sets in every compile, or for its compilation cache."""
_UNOPTIMIZED: Final = ("xla_backend_optimization_level", "xla_llvm_disable_expensive_passes")


class FlagOutcome(StrEnum):
    """The effect of a requested or reported flag."""

    APPLIED = "applied"
    ALTERED = "another value"  # requested, and the compiler used something else
    IGNORED = "ignored"  # requested, and the default was used
    DEFAULT = "default anyway"
    ELSEWHERE = "set elsewhere"  # not requested, and in effect
    UNSEEN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveFlag:
    """One flag of one module. `used` is None if not reported; `note` says why, or who set it."""

    name: str
    outcome: FlagOutcome
    asked: str | None = None
    used: str | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A flag whose value differs between modules of one program; None: its default."""

    name: Annotated[str, Field("the flag")]
    by_module: Annotated[
        Mapping[str, str | None], Field("its value in each module; null: its default")
    ]


def compare(
    asked: Settings, reported: Mapping[str, str], release: Release, *, all_flags: bool = False
) -> tuple[EffectiveFlag, ...]:
    """Return the requested flags in their order, then those that something else set.

    `all_flags`: the request holds all of XLA_FLAGS, so that the rest came from elsewhere.
    """
    wanted = {**asked.flags, **dict(asked.options)}
    options = dict(asked.options)
    requested = tuple(
        _asked(name, value, reported, release, option=name in options)
        for name, value in wanted.items()
    )
    fields = {_field(name, release) for name in wanted}
    others = "compiler_options, or the program"
    others = others if all_flags else f"XLA_FLAGS, {others}"
    return (*requested, *_elsewhere(fields, reported, release, others))


def differences(reported: Mapping[str, Mapping[str, str]]) -> tuple[Difference, ...]:
    """Return the flags that differ between modules."""
    names = sorted({name for flags in reported.values() for name in flags})
    values = {
        name: {module: flags.get(name) for module, flags in reported.items()} for name in names
    }
    return tuple(
        Difference(name=name, by_module=by_module)
        for name, by_module in values.items()
        if len(set(by_module.values())) > 1
    )


def _field(name: str, release: Release) -> str:
    flag = release.flags.get(name)
    return flag.alias_of if flag and flag.alias_of else name


def _asked(
    name: str, value: str, reported: Mapping[str, str], release: Release, *, option: bool
) -> EffectiveFlag:
    flag = release.flags.get(name)
    field = _field(name, release)
    target = release.flags.get(field)
    if flag is None:
        note = f"jaxlib {release.version} does not know it"
        return EffectiveFlag(
            name=name, outcome=FlagOutcome.UNSEEN, asked=value, used=None, note=note
        )
    if flag.no_op and not (option and flag.compile_option):
        note = f"jaxlib {release.version} ignores it"
        return EffectiveFlag(
            name=name, outcome=FlagOutcome.IGNORED, asked=value, used=None, note=note
        )
    meant = _meant(flag, target, value) if target else None
    shown = target is not None and (
        target.compile_option or target.type == "map" or field in reported
    )
    if target is None or meant is None or not shown:
        note = "the compiler does not report it"
        return EffectiveFlag(
            name=name, outcome=FlagOutcome.UNSEEN, asked=value, used=None, note=note
        )
    outcome, note = _held(target, meant, reported.get(field))
    used = None if outcome is FlagOutcome.UNSEEN else reported.get(field, target.default)
    return EffectiveFlag(name=name, outcome=outcome, asked=value, used=used, note=note)


def _meant(flag: Flag, reported: Flag, value: str) -> str | None:
    """Return the value of the field that a flag sets; None if an old name's values differ."""
    if flag is reported or flag.type == reported.type:
        return value
    if flag.type == "bool" and reported.type == "enum":
        truth = flag.meaning(value)
        return None if truth is None else "ON" if truth else "DEFAULT"
    return None


def _held(flag: Flag, asked: str, used: str | None) -> tuple[FlagOutcome, str]:
    if used is None:
        if flag.is_default(asked):
            return FlagOutcome.DEFAULT, ""
        if flag.type in _LISTS and not _items(asked):
            return FlagOutcome.UNSEEN, "an emptied list is not reported"
        return FlagOutcome.IGNORED, "the default was used"
    if flag.type in _LISTS:
        return _list_held(flag, asked, used)
    same = _same(flag, asked, used)
    return (
        (FlagOutcome.APPLIED, "")
        if same
        else (FlagOutcome.ALTERED, "overridden by compiler_options or the program")
    )


def _list_held(flag: Flag, asked: str, used: str) -> tuple[FlagOutcome, str]:
    wanted, in_effect = _entries(flag, asked), _entries(flag, used)
    if wanted == in_effect:
        return FlagOutcome.APPLIED, ""
    if wanted < in_effect and flag.type != "enums":  # these lists grow, or have more by default
        return FlagOutcome.APPLIED, ""
    lost = ", ".join(sorted(wanted - in_effect))
    return FlagOutcome.ALTERED, f"without {lost}" if lost else "with more entries"


def _entries(flag: Flag, text: str) -> set[str]:
    """Return a list's entries in one spelling, with `+NAME` and `-NAME` applied to the default."""
    given = _items(text)
    if flag.type != "enums":
        return set(given)
    if given and all(entry[0] in "+-" for entry in given):
        entries = _entries(flag, flag.default)
        added = {_spelled(flag, entry[1:]) for entry in given if entry[0] == "+"}
        taken = {_spelled(flag, entry[1:]) for entry in given if entry[0] == "-"}
        return (entries | added) - taken
    return {_spelled(flag, entry) for entry in given}


def _spelled(flag: Flag, entry: str) -> str:
    """Return an enum's name as spelled in XLA_FLAGS; reports spell it as compiler_options do."""
    names = dict(zip((name.upper() for name in flag.enum), flag.values, strict=False))
    return names.get(entry.upper()) or flag.spelled(entry) or entry.upper()


def _same(flag: Flag, asked: str, used: str) -> bool:
    if flag.type == "float":
        return math.isclose(float(asked), float(used), rel_tol=1e-4, abs_tol=1e-6)
    if flag.type == "enum":
        return _spelled(flag, asked) == _spelled(flag, used)
    return flag.meaning(asked) == flag.meaning(used)


def _elsewhere(
    fields: set[str], reported: Mapping[str, str], release: Release, others: str
) -> Iterator[EffectiveFlag]:
    for name, value in reported.items():
        flag = release.flags.get(name)
        if name in fields or (flag is not None and flag.is_default(value)):
            continue
        yield EffectiveFlag(
            name=name, outcome=FlagOutcome.ELSEWHERE, used=value, note=_who(name, value) or others
        )


def _who(name: str, value: str) -> str:
    """Return who is known to set it; empty if unknown."""
    if name in _JAX:
        return "JAX"
    if name in _UNOPTIMIZED:
        return "compiler_options, or JAX if JAX_DISABLE_MOST_OPTIMIZATIONS is set"
    if name == "xla_disable_hlo_passes" and value == "rematerialization":
        return "JAX if jax_compiler_enable_remat_pass is off, or compiler_options"
    return ""


def _items(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",") if entry.strip()]
