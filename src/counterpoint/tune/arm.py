"""Arm: Settings to try, expressed as changes to the base, and the words in which they are shown."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import field
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias, cast

from counterpoint.core import Range, Unknown, parse_json
from counterpoint.core.frozen import frozen
from counterpoint.flags import Settings
from counterpoint.hlo import Instruction, Program, Shape
from counterpoint.hlo.model import Iota, ListedGroups, Mesh, ReplicaGroups

Per: TypeAlias = Literal["gpu", "node"]

BASE: Final = "base"
"""Name of the arm that all others are compared with: the user's own settings."""


class Acts(StrEnum):
    """The time at which a change takes effect.

    A change that acts only on the schedule and leaves the schedule unchanged has no effect by
    construction. A change that acts at run time may have an effect that neither the compiler nor
    the simulator can predict.
    """

    SCHEDULE = "schedule"
    RUNTIME = "runtime"


@frozen(kw_only=True)
class ArmChange:
    """One choice of one dimension.

    `settings` are merged after the base's. `per` is set if the change is in how processes are
    distributed. With `profile`, a PGLE profile is measured first, under the arm's other settings.
    `excludes` names dimensions that can't be combined with this one.
    """

    dimension: str
    choice: str
    settings: Settings = field(default_factory=Settings)
    acts: Acts = Acts.SCHEDULE
    per: Per | None = None
    profile: bool = False
    excludes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return a short description: `all-gather threshold 512 MiB`."""
        return f"{self.dimension} {self.choice}" if self.choice != "on" else self.dimension


@frozen(kw_only=True)
class Predicted:
    """The simulator's prediction for an arm; `gain` is the share of the base's step that it saves.

    `program` is the hash of the scheduled program: equal hashes are equal programs. `reach` holds
    the effect on the step, in seconds, of errors in each family of prices; errors that two arms
    share cancel when they are compared.
    """

    step_s: float
    range_s: Range
    gain: float
    gain_range: Range
    program: str
    exposed_s: float | None = None
    peak_bytes: int | None = None
    limit_bytes: int | None = None
    fits: bool | None = None
    tied: bool = False  # with the best arm
    reach: tuple[tuple[str, float, float], ...] = ()


class ArmOrigin(StrEnum):
    """The source of an arm."""

    BASE = "base"
    HAND = "by hand"
    RECIPE = "recipe"
    REMEDY = "remedy"  # named by a finding in the base's predicted step
    SPACE = "space"  # one change alone
    SEARCH = "search"  # several changes, found offline
    COMBINED = "combined"  # from arms that were each faster
    ABLATION = "ablation"  # the winner without one of its changes


@frozen(kw_only=True)
class Arm:
    """Settings that compete in a study.

    `settings` are complete: the base's, with all changes merged in order.
    """

    name: str
    settings: Settings
    changes: tuple[ArmChange, ...] = ()
    origin: ArmOrigin = ArmOrigin.SPACE
    predicted: Predicted | None = None

    @property
    def is_base(self) -> bool:
        return self.name == BASE

    @property
    def acts(self) -> Acts:
        """RUNTIME if any change acts at run time or is unknown, as for settings given by hand."""
        known = self.changes and all(change.acts is Acts.SCHEDULE for change in self.changes)
        return Acts.SCHEDULE if known else Acts.RUNTIME

    @property
    def shows(self) -> bool:
        """True if a change acts on the schedule, or sets flags by hand: worth compiling.

        The run-time effect of other flags is unknown, but their effect on the schedule can be seen.
        """
        if not self.changes or any(change.acts is Acts.SCHEDULE for change in self.changes):
            return True
        flags = any(change.settings.xla or change.settings.options for change in self.changes)
        return self.origin is ArmOrigin.HAND and flags

    @property
    def per(self) -> Per | None:
        """The distribution of processes, by the last change that sets it."""
        dealt: list[Per] = [change.per for change in self.changes if change.per is not None]
        return dealt[-1] if dealt else None

    @property
    def profile(self) -> bool:
        """True if a PGLE profile must be measured before the arm runs."""
        return any(change.profile for change in self.changes)


def merged(base: Settings, changes: tuple[ArmChange, ...]) -> Settings:
    """Return the base with the changes merged in order."""
    for change in changes:
        base = base.merged(change.settings)
    return base


def gain_text(gain: float, reach: Range | Unknown | None = None) -> str:
    """Format a gain with its range: `+3.1% [+2.3%, +3.9%]`."""
    text = f"{100 * gain:+.1f}%"
    if not isinstance(reach, Range):
        return text
    return f"{text} [{gain_text(reach.low)}, {gain_text(reach.high)}]"


def share_text(share: float) -> str:
    """Format a share, rounded up: `0.6%`."""
    return f"{100 * share + 0.04999:.1f}%"


def hidden_text(reaches: Sequence[Range]) -> str:
    """Describe the effects that ranges leave possible; a gain is at most the whole step."""
    gain = min(max(reach.high for reach in reaches), 1.0)
    loss = max(-reach.low for reach in reaches)
    parts = [f"gains up to {share_text(gain)}"] if gain > 0 else []
    parts += [f"losses up to {share_text(loss)}"] if loss > 0 else []
    return " and ".join(parts) or "effects"


def what_text(arm: Arm) -> str:
    """Describe what an arm changes: `all-gather threshold 512 MiB + pipelined all-gather`."""
    if arm.origin is ArmOrigin.HAND:
        return arm.name
    return " + ".join(map(str, arm.changes)) or arm.name


_THOUGHTS: Final = frozenset({"force_earliest_schedule", "reification_cost"})
"""Backend config keys in which the scheduler keeps notes; their effect shows in the order."""
_HINTS: Final = frozenset({"_scheduling_group_id", "fingerprint_before_lhs"})
_DIGITS: Final = 16


def schedule_hash(program: Program) -> str:
    """Return 16 hexadecimal digits that are equal for compiles with the same schedule.

    Programs with equal hashes run the same instructions in the same order, on the same shapes and
    with the same kernels, so their speeds differ only by noise. Names, source locations and the
    scheduler's notes do not count, nor do values that no cost depends on: the numbers in an array,
    the bounds of a slice.
    """
    digest = hashlib.blake2b(digest_size=_DIGITS // 2)
    for line in _lines(program):
        digest.update(line.encode("utf-8", errors="surrogateescape"))
        digest.update(b"\n")
    return digest.hexdigest()


def _lines(program: Program) -> Iterator[str]:
    """Yield the program as text: computations in order of first call, all names as numbers."""
    aliases = sorted(
        (alias.output, alias.parameter, alias.parameter_index) for alias in program.aliases
    )
    yield repr((program.num_partitions, program.num_replicas, aliases))
    numbers = {program.entry: 0}
    waiting = [program.entry]
    channels: dict[int, int] = {}
    for name in waiting:
        computation = program.computations.get(name)
        if computation is None:
            continue
        members = {
            instruction.name: index for index, instruction in enumerate(computation.instructions)
        }
        yield f"computation {numbers[name]} {len(members)} {members.get(computation.root)}"
        for instruction in computation.instructions:
            for called in instruction.calls:
                if called not in numbers:
                    numbers[called] = len(numbers)
                    waiting.append(called)
            yield _line(instruction, members, numbers, channels)


def _line(
    it: Instruction, members: dict[str, int], numbers: dict[str, int], channels: dict[int, int]
) -> str:
    reads = " ".join([str(members.get(name)) for name in it.operands])
    calls = " ".join([str(numbers[name]) for name in it.calls])
    config = _config(it.backend_config) if it.backend_config else ""
    head = f"{it.opcode} {_shape(it.shape)} ({reads}) {{{calls}}} {config}"
    rest = _rest(it)
    if it.channel_id is not None:
        rest.append(f"channel {channels.setdefault(it.channel_id, len(channels))}")
    return f"{head} {' '.join(rest)}" if rest else head


def _rest(it: Instruction) -> list[str]:
    """Return the attributes that only few instructions have."""
    found: list[str] = []
    if it.groups is not None:
        found.append(f"groups {_groups(it.groups)} {it.use_global_device_ids}")
    if it.frontend_attributes:
        attributes = sorted(pair for pair in it.frontend_attributes if pair[0] not in _HINTS)
        found += [f"{name}={value}" for name, value in attributes]
    plain: tuple[tuple[str, object], ...] = (
        ("pairs", it.source_target_pairs),
        ("target", it.custom_call_target),
        ("kind", it.fusion_kind),
        ("comparison", it.comparison),
        ("dimensions", it.dimensions),
        ("dot", it.dot),
        ("convolution", it.convolution),
        ("host", it.is_host_transfer),
    )
    found += [f"{name} {value!r}" for name, value in plain if value]
    numbered = (
        ("parameter", it.parameter_number),
        ("element", it.tuple_index),
        ("literal", it.literal),
    )
    found += [f"{name} {value}" for name, value in numbered if value is not None]
    return found


@lru_cache(maxsize=4096)
def _shape(shape: Shape) -> str:
    if shape.parts:
        return f"({', '.join(map(_shape, shape.parts))})"
    return f"{shape}{shape.minor_to_major}{shape.memory_space}"


@lru_cache(maxsize=256)
def _groups(groups: ReplicaGroups) -> str:
    """Return the groups as written: the same compiler always writes equal groups alike."""
    match groups:
        case ListedGroups():
            return repr(groups.groups)
        case Iota():
            return repr((groups.count, groups.size, groups.reshape, groups.permutation))
        case Mesh():
            return repr((groups.sizes, groups.axes, groups.devices))


@lru_cache(maxsize=4096)
def _config(text: str) -> str:
    """Return a backend config with sorted keys, without the scheduler's own notes."""
    try:
        parsed: object = parse_json(text)
    except ValueError:
        return repr(text)  # a custom call's config may be anything
    if not isinstance(parsed, dict):
        return repr(text)
    config = cast("dict[str, Any]", parsed)
    significant = {name: value for name, value in config.items() if name not in _THOUGHTS}
    return json.dumps(significant, sort_keys=True)
