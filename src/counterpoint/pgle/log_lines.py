"""Lines of a compiler's log, in the two formats that XLA writes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_LINE: Final = re.compile(
    r"(?:\b(?P<level>[IWEF])\d{4} [\d:.]+ +(?P<thread>\d+)|: (?P<bare>[IWEF])) "
    r"(?P<file>[\w./+-]+)\.(?:cc|h):\d+\] (?P<message>.*)"
)


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line; `file` is the source file's name, `level` is empty for lines not from XLA.

    Lines of Python (warnings, loggers) are kept whole as their message.
    """

    level: str
    thread: str
    file: str
    message: str


def log_lines(text: str) -> Iterator[LogLine]:
    """Yield every line of a log, in order.

    XLA writes two formats:

        I1121 09:36:48.486799   11452 gpu_hlo_schedule.cc:377] Using PGLE profile from s.pbtxt
        2025-04-15 16:33:04.746693: I xla/service/gpu/gpu_hlo_schedule.cc:377] Using PGLE ...

    Launchers may put their own prefix before a line. Several threads compile modules at once, so
    lines are grouped by thread where the format has it.
    """
    for line in text.splitlines():
        match = _LINE.search(line) if "] " in line else None
        if match is None:
            yield LogLine("", "", "", line)
        else:
            file = match["file"].rpartition("/")[2]
            yield LogLine(
                match["level"] or match["bare"], match["thread"] or "", file, match["message"]
            )
