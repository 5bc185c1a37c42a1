"""Profile: the cost of each instruction of a compiled program, for XLA's scheduler.

XLA looks up an instruction by its exact name. A name does not identify its module: `fusion.3` of
one matches that of any other, unless it is written `<fingerprint>::fusion.3`. Then it counts only
for the module with that 128-bit fingerprint, taken before scheduling.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from google.protobuf import text_encoding

from counterpoint.core import UsageError
from counterpoint.core.field import Field, Form
from counterpoint.hlo.wire_schema import message_classes

SEPARATOR: Final = "::"
"""Separator of fingerprint and instruction in XLA's own keys."""

_FINGERPRINT: Final = re.compile(r"[0-9a-f]{32}")


def is_fingerprint(text: str) -> bool:
    """Return whether text has the form of a module's fingerprint: 32 hexadecimal digits."""
    return _FINGERPRINT.fullmatch(text) is not None


_LONGEST_US: Final = 1e15
"""Thirty years: sums of such times stay finite."""


@dataclass(frozen=True, slots=True)
class InstructionCost:
    """Microseconds of one execution of an instruction; for an async one, of its start.

    Without a fingerprint the name is bare: it stands for that instruction of any module.
    """

    name: Annotated[str, Field("the instruction", "instruction", Form.NAME)]
    us: Annotated[
        float,
        Field(
            "microseconds of one execution; of an async instruction, of its start", "us", Form.US
        ),
    ]
    fingerprint: Annotated[str | None, Field("of its module; null: a bare name, of any module")] = (
        None
    )

    def __post_init__(self) -> None:
        if not self.name or SEPARATOR in self.name:
            raise ValueError(f"{self.name!r} is not the name of an instruction")
        if self.fingerprint is not None and (not self.fingerprint or SEPARATOR in self.fingerprint):
            raise ValueError(f"{self.fingerprint!r} is not a fingerprint")
        if not 0 <= self.us <= _LONGEST_US:
            raise ValueError(f"{self.name} can't cost {self.us} us")

    @property
    def key(self) -> str:
        """The name as written for XLA."""
        return self.name if self.fingerprint is None else f"{self.fingerprint}::{self.name}"


@dataclass(frozen=True, slots=True)
class Latency:
    """Microseconds from one instruction to another. XLA:GPU ignores these; kept as read."""

    source: str
    target: str
    us: float

    def __post_init__(self) -> None:
        if not 0 <= self.us <= _LONGEST_US:
            raise ValueError(f"{self.source} to {self.target} can't take {self.us} us")


@dataclass(frozen=True, slots=True)
class Profile:
    """Costs in the order of the file, including duplicates, and how they were made.

    `origin` is stored as comments of the text format, in order; the binary format cannot hold it.
    """

    costs: tuple[InstructionCost, ...]
    latencies: tuple[Latency, ...] = ()
    origin: Mapping[str, str] = field(default_factory=dict[str, str])

    def __repr__(self) -> str:
        return f"<Profile of {len(self.costs):,} costs of {len(self.fingerprints)} modules>"

    @property
    def fingerprints(self) -> tuple[str, ...]:
        """Modules with costs, in order of first appearance; bare names have none."""
        every = dict.fromkeys(cost.fingerprint for cost in self.costs)
        return tuple(fingerprint for fingerprint in every if fingerprint is not None)

    @property
    def duplicates(self) -> Mapping[str, tuple[InstructionCost, ...]]:
        """Keys that appear more than once; XLA takes the last."""
        by_key: dict[str, list[InstructionCost]] = {}
        for cost in self.costs:
            by_key.setdefault(cost.key, []).append(cost)
        return {key: tuple(costs) for key, costs in by_key.items() if len(costs) > 1}


_COMMENT: Final = "# "
_COLON: Final = ": "


def profile_text(profile: Profile) -> str:
    """Return the whole file.

    One cost per line, below comments, which XLA's parser skips:

        # made by: counterpoint 0.1.0
        costs { name: "0123...cdef::fusion.3" cost_us: 12.5 }

    Numbers read back exactly; names use only escapes that the text format knows.
    """
    return "".join(f"{line}\n" for line in _lines(profile))


def _lines(profile: Profile) -> Iterator[str]:
    for key, value in profile.origin.items():
        yield f"{_COMMENT}{_one_line(key)}{_COLON}{_one_line(value)}"
    for cost in profile.costs:
        yield f"costs {{ name: {_quoted(cost.key)} cost_us: {cost.us!r} }}"
    for latency in profile.latencies:
        source, target = _quoted(latency.source), _quoted(latency.target)
        yield f"latencies {{ source: {source} target: {target} latency_us: {latency.us!r} }}"


def origin_of(text: str) -> Mapping[str, str]:
    """Parse the comments at the top of a file."""
    origin: dict[str, str] = {}
    for line in text.split("\n"):
        if not line.startswith(_COMMENT):
            break
        key, colon, value = line.removeprefix(_COMMENT).partition(_COLON)
        if colon:
            origin[key] = value
    return origin


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _quoted(name: str) -> str:
    encoding: Any = text_encoding
    return f'"{encoding.CEscape(name, as_utf8=False)}"'


# Fields from tsl/profiler/protobuf/profiled_instructions.proto, unchanged since 2022.
MESSAGES: Final = message_classes(
    "counterpoint.pgle",
    """
    ProfiledInstructionsProto
      1 costs InstructionCost*
      2 latencies Latency*
    InstructionCost
      1 name string
      2 cost_us double
    Latency
      1 source string
      2 target string
      3 latency_us double
    """,
)

PROFILE: Final = MESSAGES["ProfiledInstructionsProto"]

TEXT: Final = ".pbtxt"
BINARY: Final = ".pb"
ENDINGS: Final = (TEXT, BINARY)
"""File endings that XLA accepts; it silently ignores all others."""


MEDIAN: Final = 50.0
DECIMALS: Final = 6
"""Decimals of a microsecond: costs have picosecond precision, as profilers' clocks do."""


def check_percentile(percentile: float) -> None:
    """Refuse a value that is not a percentile.

    Percentiles are interpolated linearly, so with three runs the 90th is near the slowest. JAX
    takes the next lower value: its 90th percentile of three runs is their median.
    """
    if not 0 <= percentile <= 100:
        raise UsageError(
            f"a percentile is between 0 and 100, not {percentile:g}", next="use --percentile 50"
        )


def rounded_us(us: float) -> float:
    """Round a cost, to remove digits added by floating-point arithmetic."""
    return round(us, DECIMALS)
