"""Files of flags that a value of XLA_FLAGS names, put in the place of their names.

Readers only say that a file is named: which files are read, the caller decides. Of a word in it
that is no flag only the place is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from counterpoint.flags.named_files import ANYWHERE, Reach, read_regular
from counterpoint.flags.sources.flag_words import Found, Variable, read_flags
from counterpoint.flags.sources.traced import known
from counterpoint.flags.written import Slip, SlipKind, Written


def with_files(
    written: Written, reach: Reach, *, directory: Path | None = None, own: tuple[str, ...] = ()
) -> Written:
    """The same with the flags of named files; `directory` is where the process runs.

    What stands in the places of `own` the user has said, and may name any file.
    """
    if not any(slip.kind is SlipKind.NAMES_FILE for one in written.programs for slip in one.slips):
        return written
    found, unread = Found(given=list(written.given)), list(written.unread)
    for slip in written.slips:
        if slip.kind is not SlipKind.NAMES_FILE:
            found.slips.append(slip)
            continue
        inner = _read(slip, ANYWHERE if slip.place.where in own else reach, directory)
        found.given += inner.given if inner else ()
        found.slips += inner.slips if inner else (slip,)
        if inner is None:
            unread.append(_unread(slip, reach, directory))
    return replace(
        written,
        given=tuple(found.given),
        slips=tuple(found.slips),
        unread=tuple(dict.fromkeys(unread)),
        others=tuple(
            with_files(one, reach, directory=directory, own=own) for one in written.others
        ),
    )


def _read(slip: Slip, reach: Reach, directory: Path | None) -> Found | None:
    """What stands in the file; None where it may not be looked for."""
    first = (directory or Path()) / slip.text
    for path in _places(slip.text, first, reach):
        try:
            data = read_regular(path)
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as failure:
            return Found(slips=[*slip.otherwise] or [_missing(slip, path, failure)])
        text = data.decode(errors="replace")
        variable = Variable(str(path), slip.channel, f"file {slip.text}", in_file=True, hidden=True)
        return read_flags(known(text, 1), variable)
    if slip.otherwise:
        return Found(slips=[*slip.otherwise])
    return Found(slips=[_missing(slip, first, None)]) if reach.holds(first) else None


def _places(name: str, first: Path, reach: Reach) -> Iterator[Path]:
    """Where the file may lie: XLA looks where its process runs, which may be beside the source."""
    places = (first, *(directory / name for directory in reach.directories))
    yield from (path for path in dict.fromkeys(places) if reach.holds(path))


def _missing(slip: Slip, path: Path, failure: OSError | ValueError | None) -> Slip:
    reason = getattr(failure, "strerror", None) or failure or "no such file"
    why = f"a value without `--` names a file: {path} can't be read: {reason}"
    return replace(slip, kind=SlipKind.MISSING_FILE, why=why)


def _unread(slip: Slip, reach: Reach, directory: Path | None) -> str:
    first = (directory or Path()) / slip.text
    places = (first, *(it / slip.text for it in reach.directories))
    parent = next((it.resolve().parent for it in places if _is_there(it)), first.parent)
    line = "" if slip.place.line is None else f" (line {slip.place.line})"
    return f"{slip.text}{line}: it does not lie beside the source; --allow {parent} has it read"


def _is_there(path: Path) -> bool:
    """Whether there is a file, behind all links: that one's directory is to be allowed."""
    try:
        return path.exists()
    except (OSError, ValueError):  # a name that is too long, or none
        return False
