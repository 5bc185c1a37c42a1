"""A document: its code blocks, each read in its own language, and what stands between as text.

A code block is a block of settings of its own: what two of them say is not said twice. What its
reader can't parse, or passes over, is looked for as in any text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from counterpoint.core.errors import InputError
from counterpoint.flags.settings import Channel
from counterpoint.flags.sources.passages import Passage, passages
from counterpoint.flags.sources.sniff import sniff
from counterpoint.flags.sources.text import Loose, find, notes
from counterpoint.flags.sources.traced import TooMuchError
from counterpoint.flags.written import Given, Slip, Written

Reader = Callable[[str, str], Written]
_MARKS: Final = re.compile(r"xla_|megascale_|[A-Z]_|CUBLAS")
"""Without any of these, a code block sets nothing."""
_CODE: Final = ("shell", "slurm", "python", "yaml", "env", "docker")
_SHELL: Final = ("shell", "slurm")
_PLACEHOLDER: Final = re.compile(r"(?<![<\w])<([A-Za-z]\w*)(?:[ .-]\w+)*>")
"""`<your name>` is not known, and no redirection."""


def read_document(text: str, where: str, reader: Callable[[str], Reader]) -> Written:
    """All settings, in the order of the document. `reader` finds the reader of a form."""
    lines = text.split("\n")
    prose = list(lines)
    parts: list[Written] = []
    mentioned: list[str] = []
    for passage in passages(lines):
        if _MARKS.search(passage.text):
            loose = find(passage.padded, where)
            parts.append(_read(passage, loose, where, reader))
            mentioned += loose.mentioned
        for row in range(passage.first - 1, passage.last):
            prose[row] = ""
    loose = find("\n".join(prose), where)
    parts.append(Written(where=where, form="text", given=tuple(map(_apart, loose.given))))
    return _together(parts, (*loose.mentioned, *mentioned), where)


def _read(passage: Passage, loose: Loose, where: str, reader: Callable[[str], Reader]) -> Written:
    form = passage.form or sniff(passage.text, "")
    text = _PLACEHOLDER.sub(r"$\1", passage.padded) if form in _SHELL else passage.padded
    code = _parsed(text, where, reader(form)) if form in _CODE else None
    if code is None or not (code.given or code.slips):
        code = Written(where=where, form="text", given=loose.given)
    names = {one.name for one in code.given}
    lost = " ".join(slip.text for slip in code.slips)
    passed = [it for it in loose.given if it.name not in names and it.name not in lost]
    arm = (("code block", str(passage.first)),)
    given = [replace(one, branch=(*one.branch, *arm)) for one in (*code.given, *passed)]
    return replace(code, given=tuple(one for one in given if not _stands_for_any(one)))


def _parsed(text: str, where: str, read: Reader) -> Written | None:
    try:
        return read(text, where)
    except TooMuchError:
        raise
    except InputError:
        return None


def _stands_for_any(one: Given) -> bool:
    """`XLA_FLAGS="--flag1=value1"`: documents show how it is written."""
    return one.channel is Channel.XLA_FLAGS and "_" not in one.name


def _apart(one: Given) -> Given:
    """Each line of prose speaks for itself."""
    return replace(one, branch=(("code block", f"line {one.place.line}"),))


def _together(parts: list[Written], mentioned: tuple[str, ...], where: str) -> Written:
    """Each setting once, where it stands first."""
    found: dict[tuple[str, str, str | None], Given] = {}
    for one in sorted((it for part in parts for it in part.given), key=_line):
        found.setdefault((one.channel, one.name, one.value), one)
    slips: dict[tuple[str, str], Slip] = {}
    for slip in sorted((it for part in parts for it in part.slips), key=_line):
        slips.setdefault((slip.kind.name, slip.text), slip)
    given = tuple(found.values())
    said = dict.fromkeys(note for part in parts for note in part.notes)
    return Written(
        where=where,
        form="text",
        given=given,
        slips=tuple(slips.values()),
        layout=next((part.layout for part in reversed(parts) if part.layout), None),
        notes=(*notes(Loose(given, mentioned)), *said),
        unread=tuple(dict.fromkeys(text for part in parts for text in part.unread)),
        inherited=tuple(dict.fromkeys(text for part in parts for text in part.inherited)),
    )


def _line(one: Given | Slip) -> int:
    return one.place.line or 0
