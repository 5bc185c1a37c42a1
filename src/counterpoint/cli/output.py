"""Result files: checked before the work starts, and written completely or not at all."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

from counterpoint.core import UsageError, WriteError, refuse_url
from counterpoint.core.arguments import option_of
from counterpoint.core.bounds import check_number

_free: Final[set[Path]] = set()
"""Outputs that did not exist when they were checked: what is there at the end is another's."""


def check_output(
    path: Path, *, force: bool, endings: tuple[str, ...], argument: str = "out"
) -> None:
    """Refuse a path that can't or must not be written, before any work is done.

    `argument` is the one that names the path.
    """
    refuse_url(path)
    if not path.name:
        raise UsageError(
            f"can't write {str(path)!r}: it names no file",
            next=f"use {option_of(argument)} counterpoint{endings[0]}",
        )
    if path.suffix not in endings:
        raise UsageError(
            f"can't write {path}: unknown suffix {path.suffix or '(none)'}",
            why=f"the suffix selects the format: {', '.join(endings)}",
            next=f"use {option_of(argument)} {path.with_suffix(endings[0])}",
        )
    if path.is_dir():
        raise UsageError(f"can't write {path}: it is a directory")
    if path.exists() and not force:
        raise UsageError(f"{path} exists", why="--force overwrites it", next="use --force")
    (_free.discard if force else _free.add)(path.absolute())
    if not path.parent.is_dir():
        raise UsageError(
            f"can't write {path}: the directory {path.parent} does not exist",
            next=f"mkdir -p {shlex.quote(str(path.parent))}",
        )


def check_page(path: Path | None, *, full: bool = False, force: bool = False) -> None:
    """Refuse a page that can't or must not be written."""
    if path is not None:
        check_output(path, force=force, endings=(".html",), argument="html")
    elif full:
        raise UsageError(
            "--full needs --html",
            why="it puts all steps into the page that --html writes",
            next="use --html page.html",
        )


def check_digest(
    as_: str | None, budget: int | None, *, json: bool, out: Path | None = None
) -> int | None:
    """Return the characters of the digest that is wanted; None if none is."""
    if as_ is None and budget is None:
        return None
    from counterpoint.report.digest import BUDGET, LEAST

    if as_ != "digest":
        if budget is not None:
            raise UsageError(
                "--budget is the size of a digest",
                next=f"use --as digest --budget {max(budget, LEAST)}",
            )
        return None
    if json:
        raise UsageError("--json and --as digest exclude each other: use one")
    if out is not None and out.suffix == ".json":
        raise UsageError(
            f"can't write a digest to {out}: it is text",
            next=f"use -o {out.with_suffix('.txt')}",
        )
    check_number("--budget", budget, LEAST, instead=BUDGET)
    return BUDGET if budget is None else budget


def write_output(path: Path, text: str | bytes) -> None:
    """Write the whole text, or nothing; refuse if another process wrote the file meanwhile."""
    from counterpoint.core.outputs import write_whole

    content = text if isinstance(text, bytes) else text.encode(errors="backslashreplace")
    try:
        if path.exists() and not path.is_file():  # a pipe or a terminal
            path.write_bytes(content)
        else:
            write_whole(path, content, overwrite=path.absolute() not in _free)
            _free.discard(path.absolute())
    except FileExistsError:
        raise UsageError(
            f"{path} exists",
            why="another process wrote it meanwhile",
            next="use --force",
        ) from None
    except OSError as failure:
        raise WriteError(path, failure) from None
