"""How a profile came to be, in words: for the head of its file, and for whoever makes it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final

import polars as pl

from counterpoint import __version__
from counterpoint.hardware import Chip, Target, find_chip
from counterpoint.hardware.targets import other_chip
from counterpoint.pgle.making.samples import Counted, Samples
from counterpoint.pgle.profiles.modules import Module, ModuleCosts
from counterpoint.pgle.profiles.profile import MEDIAN
from counterpoint.timeline import Lane, Timeline

_LISTED: Final = 3
_AND: Final = "; "  # as `merge` joins what profiles say
DEVICES: Final = "devices"
_LEFT_OUT: Final = re.compile(r"step \S+ is left out\b(?!: no later)")
_NAMELESS: Final = 0.05
"""Share of kernel time above which costs that are missing are worth a word."""


def tell_origin(
    timeline: Timeline,
    modules: Sequence[ModuleCosts],
    percentile: float,
    about: Mapping[str, str],
    *,
    keep_warmup: bool = False,
) -> dict[str, str]:
    """What the file says of itself: no dates and no directories, so the same input gives it."""
    warm = ", warm-up included" if keep_warmup else ""
    told = {
        "made by": f"counterpoint {__version__}",
        "inputs": ", ".join(sorted(_file_names(timeline))),
        "statistic": f"{name_of_statistic(percentile)} over runs and devices{warm}; of a"
        " collective, of the stay of the last to come",
        **_devices(timeline),
        **about,
    }
    for module in modules:
        key = "module" if module.fingerprint is None else f"module {module.fingerprint}"
        told[key] = (
            f"{module.name}, {count(module.instructions, 'instruction')},"
            f" {count(module.executions, 'run')} on {count(module.devices, 'device')}"
        )
    return told


def _devices(timeline: Timeline) -> dict[str, str]:
    """By the names that the profile gives them: costs are of this chip alone."""
    names = sorted({it.chip for it in timeline.devices if it.chip})
    return {DEVICES: _AND.join(names)} if names else {}


def other_recorded(origin: Mapping[str, str], target: Target) -> str | None:
    """The chip that a profile says its costs are of, where that is known not to be the target's."""
    names = filter(None, origin.get(DEVICES, "").split(_AND))
    return next((other for it in names if (other := other_chip(it, target))), None)


def chips_recorded(origin: Mapping[str, str]) -> list[Chip]:
    """The chips that a profile says its costs are of, as far as they are known."""
    return [it for name in origin.get(DEVICES, "").split(_AND) if (it := find_chip(name or None))]


def _file_names(timeline: Timeline) -> set[str]:
    """Names alone; with a pattern among them, of the files that were found."""
    pattern = any(mark in name for name in timeline.inputs for mark in "*?[")
    found = [host.source for host in timeline.hosts] if pattern else timeline.inputs
    return {PurePosixPath(name).name for name in found}


def name_of_statistic(percentile: float) -> str:
    """The median, or a percentile."""
    return "median" if percentile == MEDIAN else f"percentile {percentile:g}"


def tell_notes(
    timeline: Timeline,
    ops: pl.DataFrame,
    chosen: Sequence[Module],
    unnamed: Sequence[Module],
    counted: Counted,
    taken: Samples,
    *,
    keep_warmup: bool = False,
) -> list[str]:
    """What to know before trusting the costs; of steps left out only where their runs were, too."""
    return [
        *_cut(timeline),
        *_nameless(timeline, ops),
        *_waiting(chosen, taken),
        *_builds(chosen),
        *_left_out(unnamed),
        *_first_only(chosen, counted),
        *(it for it in timeline.notes if not (keep_warmup and _LEFT_OUT.match(it))),
    ]


def _cut(timeline: Timeline) -> list[str]:
    return ["the profile is cut off: its last runs may miss kernels"] if timeline.truncated else []


def _nameless(timeline: Timeline, ops: pl.DataFrame) -> list[str]:
    """Say so when kernels that name no instruction take a good part of the time."""
    kernels = ops.filter(pl.col("lane").is_in([Lane.COMPUTE, Lane.COLLECTIVE]))
    time = (
        timeline.spans.join(kernels.select("row", "instruction"), left_on="op", right_on="row")
        .group_by(pl.col("instruction").is_null().alias("nameless"))
        .agg(pl.col("dur_ps").sum())
    )
    spent = {bool(nameless): int(ps) for nameless, ps in time.iter_rows()}
    share = spent.get(True, 0) / max(sum(spent.values()), 1)
    said = (
        f"{share:.0%} of the time in kernels has no cost, for they name no instruction: command"
        " buffers (CUDA graphs) hide names; XLA_FLAGS=--xla_gpu_enable_command_buffer= keeps them"
    )
    return [said] if share > _NAMELESS else []


def _builds(chosen: Sequence[Module]) -> list[str]:
    numbers = [module.number for module in chosen]
    several = sorted({module.name for module in chosen if numbers.count(module.number) > 1})
    return [
        f"{name} has other fingerprints on other hosts: its costs, from all of them, stand under"
        " each"
        for name in several
    ]


def _left_out(unnamed: Sequence[Module]) -> list[str]:
    names = [module.name for module in unnamed]
    said = f"left out, for the profile tells no fingerprint of theirs: {_modules(names)}"
    return [said] if names else []


def _first_only(chosen: Sequence[Module], counted: Counted) -> list[str]:
    names = [module.name for module in chosen if module.number in counted.only_first]
    said = f"warm-up counts in what ran once on each device: {_modules(names)}"
    return [said] if names else []


def _waiting(chosen: Sequence[Module], taken: Samples) -> list[str]:
    numbers = [module.number for module in chosen]
    found = taken.waiting.filter(pl.col("program").is_in(numbers))["instruction"].unique().sort()
    said = (
        f"waiting for late ranks is part of {count(len(found), 'cost')}"
        f" ({_some(found.to_list())}): the profile lacks devices that take part, or does not tell"
        " which they are; all hosts' profiles together do"
    )
    return [said] if len(found) else []


def _modules(names: Sequence[str]) -> str:
    return f"{count(len(names), 'module')} ({_some(names)})"


def _some(names: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(names))
    return ", ".join(distinct[:_LISTED]) + (", ..." if len(distinct) > _LISTED else "")


def count(number: int, noun: str) -> str:
    """How many of them there are, in words."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
