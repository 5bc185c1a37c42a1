"""The files of a study, and the bundle in which they are shared without secrets."""

from __future__ import annotations

import io
import json
import tarfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from counterpoint.core import WriteError, parse_json
from counterpoint.core.outputs import whole_file
from counterpoint.core.records import from_plain, to_plain
from counterpoint.flags.settings import is_setting
from counterpoint.runs import layout
from counterpoint.tune.study import JOURNAL, Study, line_of, read_journal, read_study

_BINARY: Final = (".pb", ".gz", ".xz", ".zst", ".parquet", ".npz", ".pkl")
_CONTENTS: Final = "contents.txt"
_WARNING: Final = """\
In all text, the values (of eight characters or more) of variables that affect neither JAX, XLA, the
communication libraries nor the driver are replaced by {mark}{names}.
The program's output and command line are unchanged: review them before you share this bundle.
"""
LEFT_OUT: Final = "<redacted>"
_SHORTEST: Final = 8
"""Shorter values are hardly secrets, and may be words that occur everywhere, such as `fast`."""
_OURS: Final = ("COUNTERPOINT_", "PYTHON", "OMPI_", "PMI", "SLURM_", "RAY_", "TF_")
_ABOUT: Final[Mapping[str, str]] = {
    "journal.jsonl": "every event, one per line, each with a checksum",
    "report.txt": "the report",
    "report.json": "the report in full: docs/reference/tune-json.md",
    "best.env": "the winner's settings, as lines of an env file",
    "best.sh": "the same as exports of a shell",
    "best.py": "the same for Python, before JAX starts",
    "best.sbatch": "the same as a job of Slurm",
    "best.yaml": "the same for a container of Kubernetes",
    layout.MANIFEST: "a trial: its command, settings and end",
    layout.RANK_MANIFEST: "a process of a trial: the changes to its environment, and its end",
    layout.STDOUT: "its output",
    layout.STDERR: "its error output, including the compiler's log",
}
_BY_FOLDER: Final[Mapping[str, str]] = {
    layout.AGENT: "versions, devices, peak memory, steps and compiles, as recorded in the process",
    layout.PROFILE: "a profile",
    "steps": "the Timelines of predicted steps: the base's, and those of the fastest arms",
    layout.XLA: "modules before and after XLA's passes, and the flags each was compiled with",
    layout.IR: "the input of the compiler, as JAX wrote it",
}
_OTHER: Final = "other files of the study"


@dataclass(frozen=True, slots=True)
class StudyFile:
    """A file of a study: its path there, and its description."""

    path: Path
    about: str


def study_files(study: Path) -> list[StudyFile]:
    """Return all files of a study in order; links are not followed."""
    files = (path for path in study.rglob("*") if path.is_file() and not path.is_symlink())
    inside = sorted(path.relative_to(study) for path in files)
    return [
        StudyFile(path, _about(path))
        for path in inside
        if path.name != layout.RESERVE and path.suffix != ".part"
    ]


def _about(path: Path) -> str:
    if path.name in _ABOUT:
        return _ABOUT[path.name]
    if path.name.endswith(".launcher.log"):
        return "the output of a trial's launcher"
    folders = (_BY_FOLDER[folder] for folder in path.parts[:-1] if folder in _BY_FOLDER)
    return next(folders, _OTHER)


def contents(items: Iterable[StudyFile]) -> str:
    """Return a table of contents: how many files of each kind, with the first as an example."""
    kinds: dict[str, list[Path]] = {}
    for item in items:
        kinds.setdefault(item.about, []).append(item.path)
    lines = [
        f"{paths[0]}{f' and {len(paths) - 1} more' if len(paths) > 1 else ''}\n    {about}"
        for about, paths in kinds.items()
    ]
    return "\n".join(lines) + "\n"


def hidden_values(study: Study, directory: Path) -> dict[str, str]:
    """Return the names of variables by those of their values that a bundle must not disclose.

    A Run records no inherited variables except those that were changed, but it does record those
    given with `--env`. The values of all variables that do not steer JAX, XLA, the communication
    libraries or the driver are hidden.
    """
    name_of_value: dict[str, str] = {}
    arms = (*study.arms, *(candidate.arm for candidate in study.candidates))
    for settings in (study.began.base, *(arm.settings for arm in arms)):
        name_of_value |= {value: name for name, value in settings.env if not is_setting(name)}
    for path in directory.glob(f"runs/**/{layout.RANK_MANIFEST}"):
        name_of_value |= {value: name for name, value in _changed(path)}
    return {value: name for value, name in name_of_value.items() if len(value) >= _SHORTEST}


def _changed(path: Path) -> Iterator[tuple[str, str]]:
    """Yield what was added to a rank's environment, and the old and new values of its changes."""
    try:
        manifest: Any = parse_json(path.read_text(encoding="utf-8"))
        environment = cast("dict[str, dict[str, Any]]", manifest["environment"])
        added, changed = environment["set"], environment["changed"]
        pairs = [
            *added.items(),
            *((name, value) for name, values in changed.items() for value in values),
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return
    for name, value in pairs:
        if not is_setting(name) and not name.startswith(_OURS) and isinstance(value, str):
            yield name, value


def redacted(text: str, hidden: Iterable[str]) -> str:
    """Return the text without these values, also in their JSON and shell forms."""
    for value in sorted(set(hidden), key=len, reverse=True):
        for written in {value, json.dumps(value)[1:-1]}:
            text = text.replace(written, LEFT_OUT)
    return text


def without(plain: Any, hidden: Iterable[str]) -> Any:  # noqa: ANN401 - whatever JSON may hold
    """Return plain data without these values."""
    hidden = tuple(hidden)
    if isinstance(plain, str):
        return redacted(plain, hidden)
    if isinstance(plain, list):
        return [without(item, hidden) for item in cast("list[Any]", plain)]
    if isinstance(plain, dict):
        items = cast("dict[str, Any]", plain).items()
        return {name: without(item, hidden) for name, item in items}
    return plain


def write_bundle(study: Path, path: Path) -> list[str]:
    """Write the bundle, and return the names of variables whose values were redacted."""
    hidden = hidden_values(read_study(study), study)
    items = [item for item in study_files(study) if (study / item.path).resolve() != path.resolve()]
    try:
        with whole_file(path, overwrite=True) as part, tarfile.open(part, "w:gz") as archive:
            root = study.resolve().name
            _add(archive, f"{root}/{_CONTENTS}", _words(items, hidden).encode(), time.time())
            for item in items:
                _put(archive, root, study, item, hidden)
    except OSError as failure:
        raise WriteError(path, failure) from None
    return sorted(set(hidden.values()))


def _words(items: list[StudyFile], hidden: Mapping[str, str]) -> str:
    names = f": {', '.join(sorted(set(hidden.values())))}" if hidden else " (none here)"
    return f"{contents(items)}\n{_WARNING.format(mark=LEFT_OUT, names=names)}"


def _put(
    archive: tarfile.TarFile, root: str, study: Path, item: StudyFile, hidden: Collection[str]
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
    """Return the redacted records with valid checksums."""
    lines: list[bytes] = []
    for number, record in enumerate(read_journal(path).records):
        kind: type[Any] = type(record)
        lines.append(line_of(from_plain(kind, without(to_plain(record), hidden)), number))
    return b"".join(lines)


def _add(archive: tarfile.TarFile, name: str, data: bytes, at: float) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    info.mtime = int(at)
    archive.addfile(info, io.BytesIO(data))
