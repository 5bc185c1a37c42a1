"""A study as one archive, to be passed on: whole or not at all, and without others' business."""

from __future__ import annotations

import io
import os
import shlex
import tarfile
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

from counterpoint.cli.output import check_output
from counterpoint.core.errors import UsageError
from counterpoint.report.tune_evidence import (
    LEFT_OUT,
    Item,
    contents,
    evidence,
    hidden_values,
    redacted,
    without,
)
from counterpoint.tune.journal.codec import of_plain, to_plain
from counterpoint.tune.journal.journal import read_journal
from counterpoint.tune.journal.lines import line_of
from counterpoint.tune.study.directory import JOURNAL, read_study

_ENDINGS: Final = (".tar.gz", ".tgz")
_BINARY: Final = (".pb", ".gz", ".xz", ".zst", ".parquet", ".npz", ".pkl")
_CONTENTS: Final = "contents.txt"
_WARNING: Final = """\
Values (of eight characters or more) of variables that steer neither JAX, XLA, the communication
libraries nor the driver are replaced by {mark} in all text{names}.
What the program printed and its command line are as they were: look through them before you pass
this on.
"""


def check_bundle(path: Path, *, force: bool) -> None:
    """Refuse a place that can't or must not be written to."""
    if not path.name.endswith(_ENDINGS):
        raise UsageError(
            f"can't write {path}: a bundle is a .tar.gz",
            next=f"--bundle {shlex.quote(str(path.with_suffix('.tar.gz')))}",
        )
    check_output(path, force=force, endings=(".gz", ".tgz"))


def write_bundle(study: Path, path: Path) -> list[str]:
    """Write it, and return the names of variables whose values were left out."""
    hidden = hidden_values(read_study(study), study)
    items = [it for it in evidence(study) if (study / it.path).resolve() != path.resolve()]
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        try:
            with tarfile.open(part, "w:gz") as archive:
                root = study.resolve().name
                _add(archive, f"{root}/{_CONTENTS}", _words(items, hidden).encode(), time.time())
                for it in items:
                    _put(archive, root, study, it, hidden)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as failure:
        raise UsageError(f"can't write {path}: {failure.strerror or failure}") from None
    return sorted(set(hidden.values()))


def _words(items: list[Item], hidden: Mapping[str, str]) -> str:
    names = f": {', '.join(sorted(set(hidden.values())))}" if hidden else " (there were none)"
    return f"{contents(items)}\n{_WARNING.format(mark=LEFT_OUT, names=names)}"


def _put(
    archive: tarfile.TarFile, root: str, study: Path, item: Item, hidden: Collection[str]
) -> None:
    source, name = study / item.path, f"{root}/{item.path}"
    if source.suffix in _BINARY or not hidden:
        archive.add(source, name, recursive=False)
        return
    data = source.read_bytes()
    if item.path == Path(JOURNAL):
        data = _journal(source, hidden)
    else:
        data = redacted(data.decode("utf-8", "surrogateescape"), hidden).encode(
            "utf-8", "surrogateescape"
        )
    _add(archive, name, data, source.stat().st_mtime)


def _journal(path: Path, hidden: Collection[str]) -> bytes:
    """The same records, with checksums that fit."""
    lines: list[bytes] = []
    for number, record in enumerate(read_journal(path).records):
        kind: type[Any] = type(record)
        lines.append(line_of(of_plain(kind, without(to_plain(record), hidden)), number))
    return b"".join(lines)


def _add(archive: tarfile.TarFile, name: str, data: bytes, at: float) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    info.mtime = int(at)
    archive.addfile(info, io.BytesIO(data))
