"""`Trainer`: what is known of one trainer, from its file of data.

Nothing here imports a trainer: a file says how a command or a process that runs it is recognized,
what it prints, and what its options are called.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import PurePath
from typing import Any, Final

from counterpoint.core import parse_toml
from counterpoint.core.records import from_plain


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFacts:
    """The functions, markers and log lines of a trainer's steps.

    `lines` are regular expressions with the groups `step`, `seconds`, `tokens_per_s`,
    `tokens_per_s_device` and `loss`, all but the first optional. Those with `seconds` are how long
    the trainer says that a step took.
    """

    functions: tuple[str, ...] = ()
    annotation: str | None = None
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenKeys:
    """The options that tell how many tokens a step has: sequences times their length."""

    batch: tuple[str, ...] = ()
    sequence: tuple[str, ...] = ()
    batches: tuple[str, ...] = ()  # how many a step trains, before it updates the weights
    batch_is_per_device: bool = False


@dataclass(frozen=True, slots=True)
class NamedOption:
    """An option of a trainer, and what it does."""

    name: str
    does: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnProfiler:
    """The profiler that a trainer starts itself: what turns it on and off.

    `on` has the option that a command sets for it, with its value (`*`: any). It is empty if only
    code does. `first_step` and `steps` name the options for its window, `writes_to` says where it
    writes, with what the user chose in capitals.
    """

    on: dict[str, str] = field(default_factory=dict[str, str])
    off: str = ""
    first_step: str | None = None
    steps: str | None = None
    writes_to: str | None = None
    options: tuple[NamedOption, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFacts:
    """Files and directories of a framework, from a package on: `haliax`, `axlearn/common/utils.py`.

    A line of the user's model that calls them says more than theirs.
    """

    framework: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietVariable:
    """A variable that stops a trainer from measuring on devices, and the note of what stands in.

    `predict` sets it, because times of devices that execute nothing may decide nothing.
    """

    name: str
    value: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trainer:
    """A trainer. `packages` are its modules at the top level, `page` is its page of documentation.

    libraries.toml has what trainers share (flax, equinox): only its sources count.
    """

    name: str
    packages: tuple[str, ...]
    page: str | None = None
    step: StepFacts = StepFacts()
    tokens: TokenKeys = TokenKeys()
    profiler: OwnProfiler = OwnProfiler()
    sources: SourceFacts = SourceFacts()
    measures: tuple[QuietVariable, ...] = ()

    def runs(self, command: Sequence[str]) -> bool:
        """Return whether the command names a module or a file of this trainer."""
        return any(_is_within(word, self.packages) for word in command_words(command))


ROOM: Final = "counterpoint.trainers"


@cache
def _tables() -> tuple[dict[str, Any], ...]:
    files = (file for file in resources.files(ROOM).iterdir() if file.name.endswith(".toml"))
    return tuple(parse_toml(file.read_text("utf-8")) for file in files)


@cache
def _entries() -> tuple[Trainer, ...]:
    return tuple(sorted(map(_trainer, _tables()), key=lambda trainer: trainer.name.lower()))


def trainers() -> tuple[Trainer, ...]:
    """Return all trainers, by name."""
    return tuple(entry for entry in _entries() if entry.step.functions)


def read_trainer(text: str) -> Trainer:
    """Parse a file of data; raise a ValueError if it is invalid, or misses what a line needs."""
    return _trainer(parse_toml(text))


def _trainer(table: dict[str, Any]) -> Trainer:
    trainer = from_plain(Trainer, table)
    for line in trainer.step.lines:
        if "step" not in re.compile(line).groupindex:
            raise ValueError(f"{trainer.name}: a line of a step has no group `step`: {line}")
    return trainer


def find_trainer(command: Sequence[str], packages: Iterable[str] = ()) -> Trainer | None:
    """Return the trainer that a command names, else the one whose packages a process imported.

    Trainers are built on each other (MaxText imports Tunix), so a command decides first, and of
    packages that were imported only one trainer's may be there.
    """
    named = [trainer for trainer in trainers() if trainer.runs(command)]
    if named:
        return named[0]
    loaded = frozenset(packages)
    imported = [trainer for trainer in trainers() if loaded.intersection(trainer.packages)]
    return imported[0] if len(imported) == 1 else None


def trainer_packages() -> tuple[str, ...]:
    """Return the packages of all trainers."""
    return tuple(name for trainer in trainers() for name in trainer.packages)


@cache
def _frameworks() -> frozenset[tuple[str, ...]]:
    # Every explanation asks for these; what else the files say, few need.
    paths = (path for table in _tables() for path in table.get("sources", {}).get("framework", ()))
    return frozenset(PurePath(path).parts for path in paths)


@cache
def is_framework_file(path: str) -> bool:
    """Return whether a source file belongs to a framework, so that its caller says more.

    A directory of the framework's name anywhere in the path counts.
    """
    parts = PurePath(path.replace("\\", "/")).parts
    ends = range(1, len(parts) + 1)
    return any(
        parts[first:end] in _frameworks() for first in range(len(parts)) for end in ends[first:]
    )


def command_words(command: Sequence[str]) -> list[str]:
    """Return the words of a command, with those of `bash -c "..."`."""
    words: list[str] = []
    for word in command:
        try:
            words += shlex.split(word) if " " in word else [word]
        except ValueError:  # an open quotation mark
            words.append(word)
    return words


def _is_within(word: str, packages: Sequence[str]) -> bool:
    """Return whether a word is a module of these packages, or a script in their directories."""
    if "=" in word:
        return False
    if word.endswith(".py"):
        return bool(frozenset(packages).intersection(PurePath(word).parts[:-1]))
    module = re.fullmatch(r"([A-Za-z_]\w*)(?:\.[A-Za-z_]\w*)+", word)
    return module is not None and module[1] in packages
