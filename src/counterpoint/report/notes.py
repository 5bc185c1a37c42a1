"""Notes as they are shown: those that say the same of several devices, hosts or files are one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from counterpoint.report.document import Fact, Tone, printable
from counterpoint.timeline.device import Host

_MOST: Final = 8
_NUMBER: Final = re.compile(r"[+-]?\d[\d,.]*")
_PATH: Final = re.compile(r"\S*/\S*")


def note_facts(
    notes: Sequence[str], hosts: Iterable[Host] = (), names: Iterable[str] = ()
) -> list[Fact]:
    """The notes, the first of them where they are many; `names` are those of programs."""
    merged = list(merged_notes(notes, hosts, names))
    rows = [Fact("note", printable(note), Tone.QUIET) for note in merged[:_MOST]]
    more = len(merged) - _MOST
    if more > 0:
        rows.append(Fact("", f"and {more} more note{'s' * (more > 1)}: --json", Tone.QUIET))
    return rows


def merged_notes(
    notes: Sequence[str], hosts: Iterable[Host] = (), names: Iterable[str] = ()
) -> Iterator[str]:
    """Each note once: those that differ in numbers, paths and names only are told by the first."""
    known = {word for host in hosts for word in (host.name, host.source) if word}
    words = sorted({*known, *names}, key=len, reverse=True)
    known_names = re.compile("|".join(map(re.escape, words))) if words else None
    alike: dict[str, list[str]] = {}
    for note in dict.fromkeys(notes):
        form = known_names.sub("*", note) if known_names else note
        alike.setdefault(_NUMBER.sub("#", _PATH.sub("*", form)), []).append(note)
    for first, *others in alike.values():
        yield f"{first} (and {len(others)} more like this)" if others else first
