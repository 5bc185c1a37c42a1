"""A setting names a file or directory that does not exist.

## What it does

Finds XLA_FLAGS that name a missing file of flags, flags that name a missing input file, such as a
PGLE profile, and output directories that are files.

## Why it costs time

XLA aborts if the file of flags is missing. Without a PGLE profile that it should read, it compiles
with its estimates; from jaxlib {+missing-profile-is-logged} on it prints one error line, among
others: `PGLE profile file does not exist`.

## How it is detected

The rule looks for the file on this machine. Paths on other machines can't be seen from here, so it
is a warning except for the file of flags itself. For a source, only files in its directory, below
it, or in a directory of `--allow` are looked for: the author of a script must not learn which other
files this machine has.

## Example

```sh jaxlib=0.10.2
export XLA_FLAGS="--xla_gpu_pgle_profile_file_or_directory_path=/no/such/profile.pbtxt"
```

## Fix

Name an existing file, or remove the flag.

```sh jaxlib=0.10.2
export XLA_FLAGS=""
```

## Fix safety

Never fixed automatically: only you know the right path.

## References

- `counterpoint pgle check PROFILE --program PROGRAM` reports whether a profile fits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from counterpoint.flags.lint import LintContext, Remark, Severity, remark
from counterpoint.flags.named_files import AllowedFiles
from counterpoint.flags.observed import with_releases
from counterpoint.flags.parsed import IssueKind, Occurrence

__doc__ = with_releases(__doc__ or "")

CODE: Final = "FLAG209"
NAME: Final = "missing-file"
SINCE: Final = "0.1"

_FILE: Final = Path(__file__).with_name("paths.tsv")


def check(case: LintContext) -> Iterator[Remark]:
    for issue in case.written.issues:
        if issue.kind is IssueKind.MISSING_FILE:
            advice = "name an existing file, or start the flags with --"
            yield remark(CODE, Severity.ERROR, issue, issue.why, advice)
    for setting in case.compiler:
        if setting.known and setting.value and case.known(setting):
            reach = case.written.reach_of(setting.place)
            yield from _path(setting, setting.value, _paths().get(setting.name, ""), reach)


def _path(one: Occurrence, value: str, use: str, reach: AllowedFiles) -> Iterator[Remark]:
    places = [*reach.places(value)]
    if use == "read" and not any(map(_there, places)):
        if reach.holds(reach.first(value)):
            message = f"{value} does not exist here; XLA continues without it"
            yield remark(
                CODE, Severity.WARNING, one, message, "name an existing file, or remove it"
            )
        else:
            message = f"not checked whether {value} exists: it is outside the source's directory"
            advice = f"--allow {reach.to_allow(value)} has it checked, too"
            yield remark(CODE, Severity.NOTE, one, message, advice)
    if use == "write" and value not in ("-", "sponge") and any(map(_is_file, places)):
        message = f"{value} is a file, but XLA writes a directory there"
        yield remark(CODE, Severity.WARNING, one, message, "name a directory")


def _is_file(path: Path) -> bool:
    return _there(path) and not path.is_dir()


def _there(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name too long, or invalid
        return False


@cache
def _paths() -> Mapping[str, str]:
    """Return flags that name a file that XLA reads, or a directory that it writes."""
    lines = (line for line in _FILE.read_text("utf-8").splitlines() if not line.startswith("#"))
    return dict(line.split("\t")[:2] for line in lines)
