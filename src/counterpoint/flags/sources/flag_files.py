"""Files of flags that a value of XLA_FLAGS names, put in the place of their names.

Readers only say that a file is named: which files are read, the caller decides. Of a word in it
that is no flag only the place is told.
"""

from __future__ import annotations

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
    reach = replace(reach, start=directory or Path())
    written = _within(written, reach, own)
    found, unread = Found(given=list(written.given)), list(written.unread)
    for slip in written.slips:
        if slip.kind is not SlipKind.NAMES_FILE:
            found.slips.append(slip)
            continue
        inner = _read(slip, written.reach_of(slip.place))
        found.given += inner.given if inner else ()
        found.slips += inner.slips if inner else (slip,)
        if inner is None:
            unread.append(_unread(slip, reach))
    return replace(
        written,
        given=tuple(found.given),
        slips=tuple(found.slips),
        unread=tuple(dict.fromkeys(unread)),
        others=tuple(
            with_files(one, reach, directory=directory, own=own) for one in written.others
        ),
    )


def _within(written: Written, reach: Reach, own: tuple[str, ...]) -> Written:
    anywhere = replace(ANYWHERE, start=reach.start)
    return replace(written, reach=reach, own=dict.fromkeys(own, anywhere))


def _read(slip: Slip, reach: Reach) -> Found | None:
    """What stands in the file; None where it may not be looked for."""
    first = reach.first(slip.text)
    for path in reach.places(slip.text):
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


def _missing(slip: Slip, path: Path, failure: OSError | ValueError | None) -> Slip:
    reason = getattr(failure, "strerror", None) or failure or "no such file"
    why = f"a value without `--` names a file: {path} can't be read: {reason}"
    return replace(slip, kind=SlipKind.MISSING_FILE, why=why)


def _unread(slip: Slip, reach: Reach) -> str:
    line = "" if slip.place.line is None else f" (line {slip.place.line})"
    parent = reach.to_allow(slip.text)
    return f"{slip.text}{line}: it does not lie beside the source; --allow {parent} has it read"
