"""The notes of a report: each once, those that differ only in figures or names as one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from counterpoint.core.printable import counted_noun
from counterpoint.report.document import Fact, Tone
from counterpoint.timeline.model import Host

_MOST: Final = 8
_NUMBER: Final = re.compile(r"[+-]?\d[\d,.]*")
_PATH: Final = re.compile(r"(?<!\S)\S*/\S*")


def note_facts(
    notes: Sequence[str], hosts: Iterable[Host] = (), names: Iterable[str] = ()
) -> list[Fact]:
    """Return the notes, only the first if there are many; `names` are names of programs."""
    merged = list(merged_notes(notes, hosts, names))
    rows = [Fact("note", note, Tone.QUIET) for note in merged[:_MOST]]
    more = len(merged) - _MOST
    if more > 0:
        rows.append(Fact("", f"and {counted_noun(more, 'more note')}: --json", Tone.QUIET))
    return rows


def merged_notes(
    notes: Sequence[str], hosts: Iterable[Host] = (), names: Iterable[str] = ()
) -> Iterator[str]:
    """Yield each note once; those that differ only in numbers, paths and names share the first."""
    known = {word for host in hosts for word in (host.name, host.source) if word}
    words = sorted({*known, *names}, key=len, reverse=True)
    known_names = re.compile("|".join(map(re.escape, words))) if words else None
    by_form: dict[str, list[str]] = {}
    for note in dict.fromkeys(notes):
        form = known_names.sub("*", note) if known_names else note
        by_form.setdefault(_NUMBER.sub("#", _PATH.sub("*", form)), []).append(note)
    for first, *others in by_form.values():
        yield f"{first} (and {len(others)} more like this)" if others else first
