"""`--patch`: a job's own file with other settings, as a difference or written."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Final

from counterpoint.cli.output import check_output, write_output
from counterpoint.cli.printing import say_line, say_wrote, write_file
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
            write_file(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
        if patched.text == text:
            say_line(f"{path} has these settings already")
        return
    if patched.text == text and place == path:
        say_line(f"{path} has these settings already")
        return
    write_output(place, patched.text)
    place.chmod(mode)
    say_wrote(place)
