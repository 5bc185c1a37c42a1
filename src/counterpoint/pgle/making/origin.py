"""Describes how a profile was made: for the head of its file, and for its author."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final

import polars as pl

from counterpoint import __version__
from counterpoint.core import Basis
from counterpoint.hardware.chip import Chip, find_chip
from counterpoint.hardware.mismatch import mismatched_chip
from counterpoint.hardware.target import Target
from counterpoint.pgle.making.modules import Module, ModuleCosts
from counterpoint.pgle.making.samples import ProfiledRuns, Samples
from counterpoint.pgle.profiles.profile import MEDIAN
from counterpoint.timeline.model import Lane, Timeline

_LISTED: Final = 3
_AND: Final = "; "  # as `merge` joins values of profiles
DEVICES: Final = "devices"
_LEFT_OUT: Final = re.compile(r"step \S+ is left out\b(?!: no later)")
_NAMELESS: Final = 0.05
"""Share of kernel time above which missing costs are reported."""


def profile_origin(
    timeline: Timeline,
    modules: Sequence[ModuleCosts],
    percentile: float,
    about: Mapping[str, str],
    *,
    keep_warmup: bool = False,
) -> dict[str, str]:
    """Return the head of the file; no dates and no directories, so that it is reproducible."""
    warm = ", warm-up included" if keep_warmup else ""
    entries = {
        "made by": f"counterpoint {__version__}",
        "inputs": ", ".join(sorted(_file_names(timeline))),
        "statistic": f"{name_of_statistic(percentile)} over runs and devices{warm}; of a"
        " collective, of the last rank to arrive",
        **_devices(timeline),
        **({} if timeline.basis == Basis.MEASURED else {"costs": "PREDICTED, not measured"}),
        **about,
    }
    for module in modules:
        key = "module" if module.fingerprint is None else f"module {module.fingerprint}"
        entries[key] = (
            f"{module.name}, {count(module.instructions, 'instruction')},"
            f" {count(module.executions, 'run')} on {count(module.devices, 'device')}"
        )
    return entries


def _devices(timeline: Timeline) -> dict[str, str]:
    """Return the names of the devices: costs hold for this chip only."""
    names = sorted({device.chip for device in timeline.devices if device.chip})
    return {DEVICES: _AND.join(names)} if names else {}


def other_recorded(origin: Mapping[str, str], target: Target) -> str | None:
    """Return the chip that a profile's costs are of, if it is known to differ from the target's."""
    names = filter(None, origin.get(DEVICES, "").split(_AND))
    return next((other for name in names if (other := mismatched_chip(name, target))), None)


def chips_recorded(origin: Mapping[str, str]) -> list[Chip]:
    """Return the known chips that a profile's costs are of."""
    return [
        chip for name in origin.get(DEVICES, "").split(_AND) if (chip := find_chip(name or None))
    ]


def _file_names(timeline: Timeline) -> set[str]:
    """Return file names without directories; for patterns, those of the matches."""
    pattern = any(mark in name for name in timeline.inputs for mark in "*?[")
    paths = [host.source for host in timeline.hosts] if pattern else timeline.inputs
    return {PurePosixPath(name).name for name in paths}


def name_of_statistic(percentile: float) -> str:
    """Return "median", or the percentile's name."""
    return "median" if percentile == MEDIAN else f"percentile {percentile:g}"


def profile_notes(
    timeline: Timeline,
    ops: pl.DataFrame,
    chosen: Sequence[Module],
    unnamed: Sequence[Module],
    counted: ProfiledRuns,
    taken: Samples,
    *,
    keep_warmup: bool = False,
) -> list[str]:
    """Return notes for the reader of the costs.

    Notes on omitted steps appear only if their runs were left out too. In a prediction, one device
    represents all: none waits for another, and none warms up.
    """
    ran = timeline.basis == Basis.MEASURED
    return [
        *_cut(timeline),
        *_nameless(timeline, ops),
        *(_waiting(chosen, taken) if ran else []),
        *_builds(chosen),
        *_left_out(unnamed),
        *(_first_only(chosen, counted) if ran else []),
        *(note for note in timeline.notes if not (keep_warmup and _LEFT_OUT.match(note))),
    ]


def _cut(timeline: Timeline) -> list[str]:
    return (
        ["the profile is truncated: its last runs may lack kernels"] if timeline.truncated else []
    )


def _nameless(timeline: Timeline, ops: pl.DataFrame) -> list[str]:
    """Return a note if kernels that name no instruction take a significant share of the time."""
    kernels = ops.filter(pl.col("lane").is_in([Lane.COMPUTE, Lane.COLLECTIVE]))
    time = (
        timeline.spans.join(kernels.select("row", "instruction"), left_on="op", right_on="row")
        .group_by(pl.col("instruction").is_null().alias("nameless"))
        .agg(pl.col("dur_ps").sum())
    )
    spent = {bool(nameless): int(ps) for nameless, ps in time.iter_rows()}
    share = spent.get(True, 0) / max(sum(spent.values()), 1)
    note = (
        f"{share:.0%} of the kernel time has no cost, because the kernels name no instruction:"
        " command"
        " buffers (CUDA graphs) hide names; XLA_FLAGS=--xla_gpu_enable_command_buffer= keeps them"
    )
    return [note] if share > _NAMELESS else []


def _builds(chosen: Sequence[Module]) -> list[str]:
    numbers = [module.number for module in chosen]
    several = sorted({module.name for module in chosen if numbers.count(module.number) > 1})
    return [
        f"{name} has different fingerprints on different hosts: its costs, from all hosts, are"
        " listed under"
        " each"
        for name in several
    ]


def _left_out(unnamed: Sequence[Module]) -> list[str]:
    names = [module.name for module in unnamed]
    note = f"left out, because the profile has no fingerprint of them: {_modules(names)}"
    return [note] if names else []


def _first_only(chosen: Sequence[Module], counted: ProfiledRuns) -> list[str]:
    names = [module.name for module in chosen if module.number in counted.only_first]
    note = f"includes warm-up, because it ran once on each device: {_modules(names)}"
    return [note] if names else []


def _waiting(chosen: Sequence[Module], taken: Samples) -> list[str]:
    numbers = [module.number for module in chosen]
    names = taken.waiting.filter(pl.col("program").is_in(numbers))["instruction"].unique().sort()
    note = (
        f"waiting for late ranks is part of {count(len(names), 'cost')}"
        f" ({_some(names.to_list())}): the profile lacks participating devices, or does not show"
        " which they are; pass the profiles of all hosts"
    )
    return [note] if len(names) else []


def _modules(names: Sequence[str]) -> str:
    return f"{count(len(names), 'module')} ({_some(names)})"


def _some(names: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(names))
    return ", ".join(distinct[:_LISTED]) + (", ..." if len(distinct) > _LISTED else "")


def count(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
