"""CollectiveTable: collectives a user measured with nccl-tests or rccl-tests, from their logs.

A log may hold several tests, lines of other programs, and a launcher's prefix before every line.
The participants are in the header's `# Rank` lines; if those are missing, the ratio of bus to
algorithm bandwidth gives the number of ranks. Out-of-place times are used, as XLA's collectives are
mostly out of place.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Final

from counterpoint.core import InputError
from counterpoint.core.opening import read_input

KIND_OF: Final = {
    "all_reduce": "all-reduce",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "alltoall": "all-to-all",
    "sendrecv": "collective-permute",
    "broadcast": "collective-broadcast",
}
"""Programs of nccl-tests, and XLA's names of what they measure."""
_TEST: Final = re.compile(
    r"\b([a-z]+(?:_[a-z]+)*)_perf(?:_mpi)?\b"
    # In wrappers' spelling: run_nccl_tests.sh -t all_gather.
    rf"|^(?>.*?nccl).*\s-t\s+({'|'.join(KIND_OF)})\b"
)
_START: Final = re.compile(r"\bnThread\s+(\d{1,9})\s+nGpus\s+(\d{1,9})\b", re.IGNORECASE)
_RANK: Final = re.compile(
    r"#\s*Rank\s+(?P<rank>\d{1,9})(?:\s+Group\s+(?P<group>\d{1,9}))?\s+Pid\s+\d+\s+on\s+(?P<host>\S+)"
    r"\s+device\s+(?P<device>\d+)\s+\[[^\]]*\]\s*(?P<name>.*)"
)
_ROW: Final = re.compile(r"(?:^|[\s:>|\]])(\d{1,18})\s+(\d+)\s+([a-z]\w*+)\s++(.+)")
_TYPES: Final = re.compile(
    r"u?int\d+|u?int8|half|float|double|bfloat16|float8\w*|f8\w*|fp8\w*|char"
)
_REDUCES: Final = ("sum", "prod", "max", "min", "avg", "all", "mulsum")
_MEGABYTES: Final = 512 << 20  # no log is longer


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveTable:
    """One operation on one layout of ranks: seconds by size, in ascending order.

    Sizes are nccl-tests': an all-gather's output, a reduce-scatter's input, else the buffer.
    """

    kind: str  # as Collective.kind
    ranks: int
    nodes: int  # 0 if the log does not contain it
    device: str  # the log's name for it, or ""
    seconds: Mapping[int, float]
    origin: str


@dataclass(frozen=True, slots=True)
class _LogRow:
    size: int
    seconds: float
    ratio: float | None  # bus over algorithm bandwidth, if both are large enough
    reduces: bool


@dataclass(slots=True)
class _Test:
    """One run of one program within the log."""

    program: str = ""
    per_process: int = 0  # GPUs of a process, from the header
    ranks: list[re.Match[str]] = field(default_factory=list[re.Match[str]])
    rows: list[_LogRow] = field(default_factory=list[_LogRow])


def read_nccl_log(path: Path) -> tuple[CollectiveTable, ...]:
    """Read the tables of a log; raise InputError if it has none."""
    try:
        if path.stat().st_size > _MEGABYTES:
            raise InputError(f"{path} is larger than any log of nccl-tests")
        text = read_input(path).decode(errors="replace")
    except OSError as error:
        raise InputError(f"{path} can't be read", why=error.strerror or str(error)) from error
    return parse_nccl_log(text, path.name)


def parse_nccl_log(text: str, name: str) -> tuple[CollectiveTable, ...]:
    """Parse the tables in a log's text; `name` identifies the operation if the text does not."""
    tests = [test for test in _tests(text.lstrip("\ufeff")) if test.rows]
    if not tests:
        raise InputError(
            f"{name} holds no results of nccl-tests",
            why="a result is a line of size, count, type, time, algbw and busbw",
            next="pass the output of all_reduce_perf, all_gather_perf, ..., including its header",
        )
    tables = tuple(table for test in tests if (table := _table(test, name)) is not None)
    if not tables:
        tested = ", ".join(sorted({test.program for test in tests}))
        raise InputError(
            f"{name} contains {tested}_perf, which matches no collective of XLA",
            next="pass a log of " + ", ".join(f"{program}_perf" for program in KIND_OF),
        )
    return tables


def _tests(text: str) -> list[_Test]:
    tests = [_Test()]
    for line in text.splitlines():
        named = _TEST.search(line)
        start, rank = _START.search(line), _RANK.search(line)
        if (named or start or rank) and tests[-1].rows and "concluded" not in line:
            tests.append(_Test(program=tests[-1].program))
        test = tests[-1]
        if named:
            test.program = named[1] or named[2]
        if start:
            test.per_process = int(start[1]) * int(start[2])
        if rank:
            test.ranks.append(rank)
        elif "#" not in line.partition("float")[0] and (row := _row(line)) is not None:
            test.rows.append(row)
    return tests


def _row(line: str) -> _LogRow | None:
    match = _ROW.search(line)
    if match is None or not _TYPES.fullmatch(match[3]):
        return None
    size, words = int(match[1]), match[4].split()
    for place in range(len(words) - 2):
        numbers = [_number(word) for word in words[place : place + 3]]
        if any(number is None for number in numbers):
            continue
        microseconds, algbw, busbw = (number or 0.0 for number in numbers)
        # A reduction and a root may precede the time: the rate shows which number is the time.
        if microseconds > 0 and abs(algbw - size / 1e3 / microseconds) <= 0.006 + 0.01 * algbw:
            ratio = busbw / algbw if min(algbw, busbw) >= 1 else None
            return _LogRow(size, microseconds * 1e-6, ratio, words[0] in _REDUCES)
    return None


def _number(word: str) -> float | None:
    try:
        number = float(word)
    except ValueError:
        return None
    return number if 0 <= number < 1e12 else None


def _table(test: _Test, name: str) -> CollectiveTable | None:
    program = test.program or _program_by_name(name)
    ratio = max((row.ratio for row in test.rows[-3:] if row.ratio), default=None)
    kind = KIND_OF.get(program) if program else _kind_by_ratio(ratio, test.rows[-1].reduces, name)
    if kind is None:
        return None
    members = [
        rank_line for rank_line in test.ranks if rank_line["group"] == test.ranks[0]["group"]
    ]
    ranks = _ranks(members, kind, ratio, test.per_process, name)
    seconds = {row.size: row.seconds for row in test.rows if row.size > 0}
    return CollectiveTable(
        kind=kind,
        ranks=ranks,
        nodes=_nodes(members),
        device=members[0]["name"].strip() if members else "",
        seconds=dict(sorted(seconds.items())),
        origin=name,
    )


def _program_by_name(name: str) -> str:
    plain = re.sub(r"[^a-z]", "", name.casefold())
    return next((program for program in KIND_OF if program.replace("_", "") in plain), "")


def _kind_by_ratio(ratio: float | None, reduces: bool, name: str) -> str:
    """Return the kind: only an all-reduce moves more than its size.

    Of the others only a reduce-scatter reduces.
    """
    if ratio is not None and ratio > 1.01:
        return "all-reduce"
    if reduces and ratio is not None and ratio < 0.995:
        return "reduce-scatter"
    raise InputError(
        f"{name} does not state which operation was measured",
        why="all-gather, all-to-all and others print the same columns",
        next="keep the line that names the program, or name the file after it: all_gather.log",
    )


def _ranks(
    members: list[re.Match[str]], kind: str, ratio: float | None, per_process: int, name: str
) -> int:
    listed = {int(member["rank"]) for member in members}
    if len(members) > 1 and len(listed) == 1:
        raise InputError(
            f"{name}: {len(members)} processes ran alone, each as rank {min(listed)}",
            why="nccl-tests was built without MPI",
            next="build it with MPI=1 and measure again",
        )
    by_ratio = _ranks_by_ratio(kind, ratio)
    if listed:
        # A truncated header still names the last rank; one rank of a shortened log does not.
        ranks = max(listed) + 1 if members[0]["group"] in (None, "0") else len(listed)
        return ranks if ranks > 1 or by_ratio is None else by_ratio
    if by_ratio is not None:
        return by_ratio
    if per_process > 1:
        return per_process
    raise InputError(
        f"{name} does not state how many ranks took part",
        why="it has no `# Rank` lines, and its rates are too low to infer them",
        next="keep the log's header",
    )


def _ranks_by_ratio(kind: str, ratio: float | None) -> int | None:
    """Return ranks n from (n-1)/n, or 2(n-1)/n, as long as rounding leaves no doubt."""
    if ratio is None or kind not in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all"):
        return None
    share = ratio / 2 if kind == "all-reduce" else ratio
    if not 0.4 < share < 0.999:
        return None
    ranks = 1 / (1 - share)
    whole = round(ranks)
    return whole if abs(ranks - whole) < 0.05 * whole else None


def _nodes(members: list[re.Match[str]]) -> int:
    """Return the number of hosts by name.

    In an anonymized log, a repeated device means another host.
    """
    if not members:
        return 0
    hosts = {member["host"] for member in members}
    twice = Counter((member["host"], member["device"]) for member in members)
    return max(len(hosts), *twice.values())


@dataclass(frozen=True, slots=True)
class SizeCurve:
    """Seconds that never decrease with size: a smaller message that took longer is an outlier."""

    sizes: tuple[int, ...]
    seconds: tuple[float, ...]

    def at(self, size: float) -> float:
        """Interpolate linearly between logarithms.

        Below the first point use its time, which is latency. Beyond the last use its rate, because
        the wire is saturated.
        """
        after = bisect_right(self.sizes, size)
        if after == 0:
            return self.seconds[0]
        if after == len(self.sizes):
            return self.seconds[-1] * max(1.0, size / self.sizes[-1])
        low, high = self.sizes[after - 1], self.sizes[after]
        share = math.log(size / low) / math.log(high / low)
        return self.seconds[after - 1] ** (1 - share) * self.seconds[after] ** share

    @property
    def floor(self) -> float:
        return self.seconds[0]


def curve(points: Iterable[tuple[int, float]]) -> SizeCurve:
    """Return the curve through points in any order; of equal sizes, the fastest counts."""
    best: dict[int, float] = {}
    for size, seconds in points:
        if size > 0 and seconds > 0:
            best[size] = min(seconds, best.get(size, math.inf))
    sizes = tuple(sorted(best))
    falling = accumulate((best[size] for size in reversed(sizes)), min)
    return SizeCurve(sizes, tuple(falling)[::-1])
