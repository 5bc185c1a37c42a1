"""Edited: files that the command names, and that are not what they were when the study began.

A study is told apart by its command, so a program that was changed in between goes on with the
same one. That may be harmless, and is the user's to know.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from counterpoint.tune.journal.records import StudyBegan

_FILE: Final = "the file "
_WRITTEN: Final = (".py", ".sh", ".yaml", ".yml", ".toml", ".gin")
"""What people write. Other files of a command may be what its program writes itself."""


def file_parts(command: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each file that a word of the command is, and a hash of what it says."""
    for word in dict.fromkeys(command):
        path = Path(word)
        with suppress(OSError, ValueError):
            if path.suffix in _WRITTEN and path.is_file():
                yield f"{_FILE}{word}", hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def edited(first: StudyBegan, now: StudyBegan) -> str | None:
    """What to say of files that were changed; None where none was."""
    before = dict(first.parts)
    names = [
        name.removeprefix(_FILE)
        for name, it in now.parts
        if name.startswith(_FILE) and before.get(name, it) != it
    ]
    if not names:
        return None
    return (
        f"{', '.join(names)} changed since the study began: what was measured before is of another"
        " program; -o ANOTHER begins anew"
    )
