"""`--patch`: a job's own file with other settings, as a difference or written."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Final

from counterpoint.cli.output import check_output, write_output
from counterpoint.cli.wording import say_line
from counterpoint.core import InputError
from counterpoint.flags import Settings

_NO_NEWLINE: Final = "\n\\ No newline at end of file\n"


def write_patch(
    path: Path, place: Path | None, settings: Settings, warnings: Sequence[str], *, force: bool
) -> None:
    """Write the patched file to its place; print the difference if there is none."""
    from counterpoint.flags.patch import patch_text

    if place is not None:
        check_output(place, force=force, endings=(place.suffix,))
    try:
        text, mode = path.read_bytes().decode(), path.stat().st_mode
    except OSError as failure:
        raise InputError(f"{path}: cannot be read: {failure.strerror or failure}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not a text file") from None
    patched = patch_text(text, path.name, settings)
    for line in (*patched.notes, *warnings):
        say_line(line)
    if place is None:
        name = str(path)
        lines = (text.splitlines(keepends=True), patched.text.splitlines(keepends=True))
        for line in unified_diff(*lines, name, name):
            sys.stdout.write(
                line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
            )
        if patched.text == text:
            print(f"{path} has these settings already", file=sys.stderr)
        return
    if patched.text == text and place == path:
        print(f"{path} has these settings already", file=sys.stderr)
        return
    write_output(place, patched.text)
    place.chmod(mode)
    print(f"wrote {place}", file=sys.stderr)
