"""Options of `tune`: what is tried, how it is predicted and measured, and where it runs.

The command line has the same options: their names, defaults and help are those of the fields here.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from counterpoint.compile.task import TIMEOUT_S
from counterpoint.tune.executors.choose import NO_OPTIONS, ExecutorOptions
from counterpoint.tune.executors.executor import TrialLimits
from counterpoint.workflow.forecast.options import ForecastOptions, Where
from counterpoint.workflow.variant import BaseSettings


@dataclass(frozen=True, kw_only=True)
class TriedOptions:
    """The base, and the settings tried on top of it.

    Args:
        arm: Try these settings: flags in quotes, a file, or a recipe, or options of the command:
            '--batch 16'; repeatable.
        vary: Try these values of an option of the command, an arm each: batch=16,32; repeatable.
        space: TOML or JSON file that adds, fixes or drops dimensions, or names arms.
        seed: Seed for all random choices.
    """

    base: BaseSettings = field(default_factory=BaseSettings)
    arm: tuple[str, ...] = ()
    vary: tuple[str, ...] = ()
    space: Path | None = None
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """How many candidates the prediction compiles, and how many it hands on.

    Args:
        candidates: Maximum number of candidates to compile. Default: 100, or 24 for TPUs without
            --schedule-only.
        shortlist: Maximum number of candidates to measure.
        confirm: Maximum number of arms found by the search to measure, in addition to those of
            --arm and --space; default: --shortlist; 0: none.
    """

    candidates: int | None = None
    shortlist: int = 8
    confirm: int | None = None


@dataclass(frozen=True, kw_only=True)
class RaceOptions:
    """The measurement, and when it ends.

    Args:
        budget: Limit on the trials: 4h, 90m, 20trials, or '20 trials, 2h'; default: 2h. A larger
            one continues a study.
        target_gain: Stop when this gain is shown, for example 2%.
        confirm_rows: Number of fresh runs of the winner and of the base, in a fresh allocation;
            more (up to --cap) if runs differ much; 0: none, otherwise at least 2.
        cap: Maximum number of rows (one pass through the base and the arms) per arm.
        loss_tolerance: Allowed deviation of the losses from the base's, for example 0.1%;
            default: derived from the differences between runs of the base.
        ablate: Also measure the winner without each of its changes.
    """

    budget: str | None = None
    target_gain: str | None = None
    confirm_rows: int = 4
    cap: int = 6
    limits: TrialLimits = field(default_factory=TrialLimits)
    loss_tolerance: str | None = None
    ablate: bool = False


@dataclass(frozen=True, kw_only=True)
class PlaceOptions:
    """The place where trials run, and the number of processes.

    Args:
        nodes: Number of nodes; default: those of the current allocation, or of --target.
        ranks_per_node: Number of processes per node, instead of --per.
        per: One process per GPU, or one per node.
    """

    nodes: int | None = None
    ranks_per_node: int | None = None
    per: Literal["gpu", "node"] = "node"
    own: ExecutorOptions = NO_OPTIONS


@dataclass(frozen=True, kw_only=True)
class TuneOptions:
    """All options, by group.

    Args:
        compile_timeout_s: Time limit of one compile or lowering, in seconds.
        indifferent: Gains and losses within this share of the step do not count.
        executor: Where trials run; default: what the environment suggests, otherwise here.
    """

    tried: TriedOptions = field(default_factory=TriedOptions)
    where: Where = field(default_factory=Where)
    search: SearchOptions = field(default_factory=SearchOptions)
    forecast: ForecastOptions = field(default_factory=ForecastOptions)
    compile_timeout_s: float = TIMEOUT_S
    race: RaceOptions = field(default_factory=RaceOptions)
    indifferent: str = "0.5%"
    executor: str | None = None
    place: PlaceOptions = field(default_factory=PlaceOptions)


def given(options: Any) -> list[str]:  # noqa: ANN401 - any group
    """Return the names of the options in a group that differ from their defaults."""
    names: list[str] = []
    for each in fields(options):
        value = getattr(options, each.name)
        if each.default is MISSING:
            names += given(value)
        elif value != each.default:
            names.append(each.name)
    return names
