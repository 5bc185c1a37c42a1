"""Result files: checked before the work starts, and written completely or not at all.

The text is written to a temporary file that is then renamed, so an interrupted command leaves
neither a partial file nor a damaged old one.
"""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

from counterpoint.cli.wording import argument_of
from counterpoint.core import UsageError, refuse_url
from counterpoint.core.arguments import Retry


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
            next=Retry({argument: Path(f"counterpoint{endings[0]}")}),
        )
    if path.suffix not in endings:
        raise UsageError(
            f"can't write {path}: unknown suffix {path.suffix or '(none)'}",
            why=f"the suffix selects the format: {', '.join(endings)}",
            next=Retry({argument: path.with_suffix(endings[0])}),
        )
    if path.is_dir():
        raise UsageError(f"can't write {path}: it is a directory")
    if path.exists() and not force:
        raise UsageError(f"{path} exists", why="--force overwrites it", next=Retry({"force": True}))
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
            next=Retry({"html": "page.html"}),
        )


def check_digest(
    as_: str | None, budget: int | None, *, json: bool, out: Path | None = None
) -> int | None:
    """Return the characters of the digest that is wanted; None if none is."""
    if as_ != "digest":
        if budget is not None:
            raise UsageError(
                "--budget is the size of a digest", next=Retry({"as": "digest", "budget": budget})
            )
        return None
    from counterpoint.report.digest import BUDGET, LEAST

    if json:
        raise UsageError("--json and --as digest exclude each other: use one")
    if out is not None and out.suffix == ".json":
        raise UsageError(
            f"can't write a digest to {out}: it is text",
            next=Retry({"out": out.with_suffix(".txt")}),
        )
    check_number("--budget", budget, LEAST, instead=BUDGET)
    return BUDGET if budget is None else budget


def check_number(
    option: str, value: float | None, least: float, instead: float | None = None
) -> None:
    """Refuse a number below the least one that makes sense, or one that is not finite."""
    if value is not None and not least <= value < float("inf"):
        raise UsageError(
            f"{option} takes a number of at least {least:g}, not {value:g}",
            next=Retry({argument_of(option): f"{max(least, 1) if instead is None else instead:g}"}),
        )


def write_output(path: Path, text: str) -> None:
    """Write the whole text, or nothing. A file that is replaced keeps its mode, a link stays."""
    place = path.resolve() if path.is_symlink() else path
    part = place.with_name(f".{place.name}.{os.getpid()}.part")
    try:
        if place.exists() and not place.is_file():  # a pipe or a terminal
            place.write_text(text, encoding="utf-8", errors="backslashreplace")
            return
        try:
            part.write_text(text, encoding="utf-8", errors="backslashreplace")
            if place.exists():
                shutil.copymode(place, part)
            part.replace(place)
        finally:
            part.unlink(missing_ok=True)
    except OSError as failure:
        raise UsageError(f"can't write {path}: {failure.strerror or failure}") from None
