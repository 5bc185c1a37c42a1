"""Evidence: the files of a study that prove what it says, and what of them is told to nobody else.

A Run writes down no inherited environment but what was changed of it. What a user gave by `--env`
is kept, for it belongs to the question; a bundle is passed on, and leaves out the values of
variables that steer neither JAX, XLA, the communication libraries nor the driver.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from counterpoint.core.documents import parse_json
from counterpoint.flags.sources.variables import is_setting
from counterpoint.runs import layout
from counterpoint.tune.study.study import Study

LEFT_OUT: Final = "<left out>"
_SHORTEST: Final = 8
"""A shorter value is hardly a secret, and may be a word that stands everywhere: `fast`."""
_OURS: Final = ("COUNTERPOINT_", "PYTHON", "OMPI_", "PMI", "SLURM_", "RAY_", "TF_")
_ABOUT: Final[Mapping[str, str]] = {
    "journal.jsonl": "all that happened, line by line, each with its checksum",
    "report.txt": "the report",
    "report.json": "the report, uncut: docs/reference/tune-json.md",
    "best.env": "the winner's settings, as lines of an env file",
    "best.sh": "the same as exports of a shell",
    "best.py": "the same for Python, before JAX starts",
    "best.sbatch": "the same as a job of Slurm",
    "best.yaml": "the same for a container of Kubernetes",
    layout.MANIFEST: "a trial: its command, settings and end",
    layout.RANK_MANIFEST: "a process of a trial: what was changed of its environment, and its end",
    layout.STDOUT: "what it printed",
    layout.STDERR: "what it printed, the compiler's log included",
}
_BY_FOLDER: Final[Mapping[str, str]] = {
    layout.AGENT: "versions, devices, peak memory, steps and compiles, as seen in the process",
    layout.PROFILE: "a profile",
    layout.XLA: "modules before and after XLA's passes, and the flags each was compiled with",
    layout.IR: "what JAX handed to the compiler",
}
_OTHER: Final = "left there by a part of the study"


@dataclass(frozen=True, slots=True)
class Item:
    """A file of the evidence: where it lies in the study, and what it is."""

    path: Path
    about: str


def evidence(study: Path) -> list[Item]:
    """All files of a study, in order; links are not followed."""
    found = (it for it in study.rglob("*") if it.is_file() and not it.is_symlink())
    inside = sorted(it.relative_to(study) for it in found)
    return [
        Item(it, _about(it)) for it in inside if it.name != layout.RESERVE and it.suffix != ".part"
    ]


def _about(path: Path) -> str:
    if path.name in _ABOUT:
        return _ABOUT[path.name]
    if path.name.endswith(".launcher.log"):
        return "what the launcher of a trial printed"
    folders = (_BY_FOLDER[it] for it in path.parts[:-1] if it in _BY_FOLDER)
    return next(folders, _OTHER)


def contents(items: Iterable[Item]) -> str:
    """A table of contents: what there is of each kind, with a first example."""
    kinds: dict[str, list[Path]] = {}
    for it in items:
        kinds.setdefault(it.about, []).append(it.path)
    lines = [
        f"{paths[0]}{f' and {len(paths) - 1} more' if len(paths) > 1 else ''}\n    {about}"
        for about, paths in kinds.items()
    ]
    return "\n".join(lines) + "\n"


def hidden_values(study: Study, directory: Path) -> dict[str, str]:
    """Variables by the values that they had, which are passed on to nobody."""
    found: dict[str, str] = {}
    arms = (*study.arms, *(it.arm for it in study.candidates))
    for settings in (study.began.base, *(it.settings for it in arms)):
        found |= {value: name for name, value in settings.env if not is_setting(name)}
    for path in directory.glob(f"runs/**/{layout.RANK_MANIFEST}"):
        found |= {value: name for name, value in _changed(path)}
    return {value: name for value, name in found.items() if len(value) >= _SHORTEST}


def _changed(path: Path) -> Iterator[tuple[str, str]]:
    """What was added to a rank's environment, and what it had before it was changed."""
    try:
        told: Any = parse_json(path.read_text(encoding="utf-8"))
        environment = cast("dict[str, dict[str, Any]]", told["environment"])
        added, changed = environment["set"], environment["changed"]
        pairs = [*added.items(), *((name, it) for name, both in changed.items() for it in both)]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return
    for name, value in pairs:
        if not is_setting(name) and not name.startswith(_OURS) and isinstance(value, str):
            yield name, value


def redacted(text: str, hidden: Iterable[str]) -> str:
    """The text without the values, also as JSON and shells write them."""
    for value in sorted(set(hidden), key=len, reverse=True):
        for written in {value, json.dumps(value)[1:-1]}:
            text = text.replace(written, LEFT_OUT)
    return text


def without(plain: Any, hidden: Iterable[str]) -> Any:  # noqa: ANN401 - whatever JSON may hold
    """The same of plain data."""
    hidden = tuple(hidden)
    if isinstance(plain, str):
        return redacted(plain, hidden)
    if isinstance(plain, list):
        return [without(it, hidden) for it in cast("list[Any]", plain)]
    if isinstance(plain, dict):
        items = cast("dict[str, Any]", plain).items()
        return {name: without(it, hidden) for name, it in items}
    return plain
