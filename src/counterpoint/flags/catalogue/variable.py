"""Variable: a setting that no binary lists, with its type, default and values.

They come from the documents and sources of NCCL, CUDA, JAX, libtpu and Levanter. A default that JAX
keeps is in `Release.jax` too, per release. They are read from one small table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from counterpoint.flags.catalogue.about import ReadingProgram

_TRUE: Final = ("y", "yes", "t", "true", "on", "1")
_FALSE: Final = ("n", "no", "f", "false", "off", "0")
_ENVIRONMENT: Final = (
    ReadingProgram.JAX,
    ReadingProgram.CLIENT,
    ReadingProgram.LOG,
    ReadingProgram.NCCL,
    ReadingProgram.CUDA,
)
_LEVELS: Final = re.compile(r"[^=,\s]+=-?\d+(,[^=,\s]+=-?\d+)*")
_WHOLE: Final = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|\d{1,400})")

JAX_ELSEWHERE: Final = frozenset(
    {
        "JAX_COORDINATOR_ADDRESS",
        "JAX_COORDINATOR_BIND_ADDRESS",
        "JAX_COORDINATOR_IP",
        "JAX_COORDINATOR_PORT",
        "JAX_NUM_PROCESSES",
        "JAX_PROCESS_COUNT",
        "JAX_PROCESS_ID",
        "JAX_PROCESS_INDEX",
        "JAX_LOCAL_DEVICE_IDS",
        "JAX_PLATFORM_NAME",
    }
)
"""Variables that JAX's startup and trainers read, apart from JAX's options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentedSetting:
    """One setting.

    `type`: bool, int, float, string, path, bytes, enum; `choices`: comma-separated names, `^` in
    front to exclude them, also per collective; `union`: names with `|`; `levels`: file=level;
    `none`: nothing reads it. `values` are the names, or the lowest and highest number as `1..32`.
    `default` is None if nothing is set. `since` and `until` are versions of its reader (jaxlib for
    JAX, the client and the log): the first that has it, the first that no longer has it.
    """

    name: str
    reader: ReadingProgram
    type: str
    default: str | None = None
    values: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None

    @property
    def by_jaxlib(self) -> bool:
        """True if `since` and `until` are releases of jaxlib."""
        return self.reader in (ReadingProgram.JAX, ReadingProgram.CLIENT, ReadingProgram.LOG)

    def takes(self, value: str) -> bool:
        """Return whether a value is of its type, and one of its values if they are known."""
        if self.type == "none":
            return False
        if self.type in ("choices", "union"):
            return self._takes_names(value)
        if self.type == "levels":
            return _LEVELS.fullmatch(value) is not None
        return self.type in ("string", "path", "bytes") or self.meaning(value) is not None

    def is_default(self, value: str) -> bool:
        """Return whether a value has the same effect as the default."""
        if self.default is None:
            return False
        if self.type in ("choices", "union"):
            return set(_names(value)) == set(_names(self.default))
        if self.type in ("string", "path", "bytes", "levels"):
            return value == self.default
        meant = self.meaning(value)
        return meant is not None and meant == self.meaning(self.default)

    def meaning(self, value: str) -> bool | float | str | None:
        """Return the parsed value; None if its reader does not accept it."""
        word = value.strip()
        if self.type == "bool":
            return _truth(word)
        if self.type in ("int", "float"):
            return self._number(word)
        if self.type == "enum":
            return next((name for name in self.values if name.lower() == word.lower()), None)
        return None

    def _number(self, word: str) -> float | None:
        try:
            number = _whole(word) if self.type == "int" else float(word)
        except ValueError:
            return None
        if number is None or not self.values:
            return number
        low, _, high = self.values[0].partition("..")
        return number if int(low) <= number <= (int(high) if high else number) else None

    def _takes_names(self, value: str) -> bool:
        known = {name.lower() for name in self.values}
        names = _names(value)
        return bool(names) and all(name in known for name in names)


def _whole(word: str) -> int | None:
    """Parse a whole number like C's strtol with base 0."""
    if not _WHOLE.fullmatch(word):
        return None
    return int(word, 16) if "x" in word.lower() else int(word)


def _truth(word: str) -> bool | None:
    lower = word.lower()
    return True if lower in _TRUE else False if lower in _FALSE else None


def _names(value: str) -> tuple[str, ...]:
    """Return the names of a list, for any collective, without `^`."""
    parts = (part.rpartition(":")[2].lstrip("^") for part in value.split(";"))
    names = (name.strip().lower() for part in parts for name in re.split(r"[,|]", part))
    return tuple(name for name in names if name)


_TRAINER: Final = "trainer."
_CLOSE: Final = 0.85


@cache
def variables() -> Mapping[str, DocumentedSetting]:
    """Return all known environment variables, by name: NCCL, CUDA, allocator, JAX, logging."""
    return {name: variable for name, variable in _all().items() if variable.reader in _ENVIRONMENT}


@cache
def arguments() -> Mapping[str, DocumentedSetting]:
    """Return the other settings: compile options, libtpu's, Levanter's and the kernel's."""
    return {
        name: variable for name, variable in _all().items() if variable.reader not in _ENVIRONMENT
    }


@cache
def trainer_options() -> Mapping[str, DocumentedSetting]:
    """Return the options of trainers, which are dotted: `trainer.profiler_num_steps`."""
    return {
        name: option for name, option in _all().items() if option.reader is ReadingProgram.LEVANTER
    }


def meant_option(name: str) -> str | None:
    """Return the trainer's option that a name is, or is a misspelling of; None if of neither."""
    import difflib

    if name in trainer_options():
        return name
    if not name.startswith(_TRAINER) or "pr" not in name.removeprefix(_TRAINER):
        return None
    return next(iter(difflib.get_close_matches(name, trainer_options(), n=1, cutoff=_CLOSE)), None)


@cache
def nccl_names() -> frozenset[str]:
    """Return the variables that NCCL and its plugins read."""
    file = Path(__file__).with_name("nccl_names.txt")
    lines = file.read_text("utf-8").splitlines()
    return frozenset(line for line in lines if line and line[0] != "#")


@cache
def _all() -> Mapping[str, DocumentedSetting]:
    file = Path(__file__).with_name("variables.tsv")
    lines = file.read_text("utf-8").splitlines()
    rows = (line.split("\t") for line in lines if not line.startswith("#"))
    return {row[1]: _variable(*row) for row in rows}


def _variable(
    reader: str,
    name: str,
    kind: str,
    default: str = "",
    values: str = "",
    since: str = "",
    until: str = "",
) -> DocumentedSetting:
    return DocumentedSetting(
        name=name,
        reader=ReadingProgram[reader],
        type=kind,
        default=default or None,
        values=tuple(values.split(",")) if values else (),
        since=since or None,
        until=until or None,
    )
