"""An env file: `NAME=value` in each line, to the letter, as `docker run --env-file` reads it."""

from __future__ import annotations

import re
from typing import Final

from counterpoint.flags.sources.traced import known
from counterpoint.flags.sources.variables import Assigned, write_up
from counterpoint.flags.written import Written

ENTRY: Final = re.compile(r"[ \t]*(?:export[ \t]+)?([A-Za-z_]\w*)=(.*)")


def read_env_file(text: str, where: str) -> Written:
    """All lines; other ones are passed over with a note. The last value of a name counts."""
    assigned: dict[str, Assigned] = {}
    notes: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.lstrip("\ufeff").rstrip("\r")
        if not bare.strip() or bare.lstrip().startswith("#"):
            continue
        match = ENTRY.fullmatch(bare)
        if not match:
            notes.append(f"line {number}: not NAME=value, not read: {bare.strip()[:40]}")
            continue
        value = match[2]
        if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
            value = value[1:-1]
            notes.append(f"line {number}: read without its quotes, which docker would keep")
        assigned.pop(match[1], None)
        assigned[match[1]] = Assigned(match[1], known(value, number), line=number)
    found = write_up(assigned.values(), where)
    return Written(
        where=where,
        form="env",
        given=tuple(found.given),
        slips=tuple(found.slips),
        notes=tuple(notes),
    )
