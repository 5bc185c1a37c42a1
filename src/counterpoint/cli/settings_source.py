"""The source of a command's settings, with the release and chip that it names."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from counterpoint.core import UsageError
from counterpoint.flags.catalogue.lookup import release
from counterpoint.flags.named_files import AllowedFiles
from counterpoint.flags.parse.source import read_command, read_variables
from counterpoint.flags.parse.source import read_source as parse_source
from counterpoint.flags.parsed import ParsedSource

if TYPE_CHECKING:
    from counterpoint.runs.run import Run


_VERSION: Final = re.compile(r"\d+\.\d+")


@dataclass(frozen=True, slots=True)
class SettingsContext:
    """The release and chip that settings are for: the lines of a recipe depend on them."""

    jaxlib: str | None = None
    chip: str | None = None


@dataclass(frozen=True, slots=True)
class SettingsSource:
    """Settings as written; a Run also names its jaxlib and its devices."""

    written: ParsedSource
    jaxlib: str | None = None
    chip: str | None = None


def read_source(
    source: str | None,
    command: Sequence[str],
    *,
    env: bool,
    form: str | None,
    wanted: SettingsContext,
    allowed: Sequence[Path] = (),
) -> SettingsSource:
    """Read exactly one of: a named source, a command, or the environment of this process.

    Files that it names are read if they are next to it or in an `allowed` directory.
    """
    _check_allowed(allowed)
    if (source is not None) + bool(command) + env != 1:
        raise UsageError(
            "no settings were given" if not (source or command or env) else _TWO,
            why="give a source, --env, or `-- CMD`",
            next="counterpoint flags check job.sh",
        )
    if env:
        return SettingsSource(read_variables(os.environ))
    if command:
        return SettingsSource(read_command(command, os.environ, allowed=allowed))
    path = Path(source or "")
    if _is_directory(path):
        from counterpoint.runs.layout import is_run
        from counterpoint.runs.reader import read_run

        if is_run(path):
            return _of_run(read_run(path), allowed)
    version, chip = wanted.jaxlib, wanted.chip
    parsed = parse_source(source or "", form=form, version=version, chip=chip, allowed=allowed)
    return SettingsSource(parsed)


def check_version(version: str | None) -> None:
    """Refuse a --jaxlib that is no version number; of an unknown one, the nearest is used."""
    if version is not None and not _VERSION.match(version):
        raise UsageError(
            f"--jaxlib {version}: not a release",
            why="a release is a version number; the tables of the nearest older release are used",
            next=f"use --jaxlib {release(None).version}",
        )


_TPU: Final = re.compile(r"(?i)v\d[a-z]?")
"""A TPU as XPK and GKE name it; V100 is a GPU."""


def checked_chip(chip: str | None) -> str | None:
    """Return the name of a `--chip`; raise an error if no such chip is known."""
    on_tpu = chip is not None and _TPU.fullmatch(chip)
    if chip is None:
        return None
    from counterpoint.hardware.chip import find_chip
    from counterpoint.hardware.targets import known_chip

    if on_tpu:
        tpu = find_chip(f"TPU {chip.lower()}")
        known = None if tpu is None else tpu.name
    else:
        known = known_chip(chip)
    if known is None:
        raise UsageError(
            f"--chip {chip}: unknown chip",
            why="a chip is named as its vendor does: H100, A100, GB200, MI300X, TPU v5p",
            next="use --chip H100",
        )
    return known


def _check_allowed(allowed: Sequence[Path]) -> None:
    for directory in allowed:
        if not directory.is_dir():
            raise UsageError(
                f"--allow {directory}: not a directory",
                why="--allow takes a directory whose files a source may name",
            )


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # flags in quotes may be longer than any file name
        return False


_TWO = "more than one source was given"


def _of_run(run: Run, allowed: Sequence[Path]) -> SettingsSource:
    from counterpoint.hardware.chip import find_chip
    from counterpoint.runs.reports import device_of, jaxlib_of, variables_of

    chip = find_chip(device_of(run))
    reach = AllowedFiles((run.path, *allowed))
    written = read_variables(variables_of(run), str(run.path), form="run", reach=reach)
    return SettingsSource(written, jaxlib_of(run), chip.name if chip else None)
