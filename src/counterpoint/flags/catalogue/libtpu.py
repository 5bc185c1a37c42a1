"""The flags of libtpu, by release: what each accepts, in LIBTPU_INIT_ARGS and as a compile option.

libtpu lists no flags and no defaults. tools/libtpu_flags.py asks it name by name; libtpu.jsonl has
the answers of five releases, each the one that belongs to a series of JAX.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from counterpoint.flags.catalogue.about import ReadingProgram
from counterpoint.flags.catalogue.flag import FlagFacts, FlagTable, parse_table
from counterpoint.flags.catalogue.variable import DocumentedSetting
from counterpoint.flags.versions import version_number

_OF_JAX: Final = (
    ("0.8", "0.0.32.1"),
    ("0.9", "0.0.37"),
    ("0.10", "0.0.42.1"),
    ("0.11", "0.0.48.1"),
    ("0.12", "0.0.50.1"),
)
"""For each series of JAX, from its oldest release on, the libtpu that its `jax[tpu]` installs."""
_FAMILIES: Final = ("xla_", "megascale_", "tpu_", "jf_")
"""How the names begin that the releases were searched for; others are not known here."""
_TYPES: Final = {"int64": "int", "duration": "string"}
_NUMBER: Final = "a whole number"
_TAKES: Final = {
    "bool": "true or false",
    "int64": _NUMBER,
    "float": "a number",
    "duration": "a time such as 5s",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LibtpuFlag:
    """One flag in one release. `per_compile`: a compile takes it as an option, too."""

    name: str
    type: str  # bool, int64, float, string, duration, enum; of an enum the values may be unknown
    values: tuple[str, ...]
    per_compile: bool

    @property
    def takes(self) -> str:
        """The values that it accepts, in words."""
        return _TAKES.get(self.type) or ", ".join(self.values) or "some text"

    def accepts(self, value: str) -> bool:
        """Return whether libtpu accepts the value, as far as its type says."""
        if self.type == "duration" or (self.type == "enum" and not self.values):
            return True
        kind = _TYPES.get(self.type, self.type)
        setting = DocumentedSetting(
            name=self.name, reader=ReadingProgram.LIBTPU, type=kind, values=self.values
        )
        return setting.takes(value)


@cache
def _table() -> FlagTable:
    return parse_table(Path(__file__).with_name("libtpu.jsonl").read_text("utf-8"))


def libtpu_of(jaxlib: str | None) -> str:
    """Return the known release of libtpu that belongs to a jaxlib, or else the nearest."""
    wanted = version_number(jaxlib)
    fitting = [libtpu for jax, libtpu in _OF_JAX if version_number(jax) <= wanted]
    return fitting[-1] if fitting else _OF_JAX[0][1]


@cache
def _flags(release: str) -> Mapping[str, FlagFacts]:
    return _table().at(release)


@cache
def libtpu_names() -> frozenset[str]:
    """Return the flags that any known release of libtpu has."""
    return frozenset(name for release in _table().releases for name in _flags(release))


def libtpu_flag(name: str, release: str | None = None) -> LibtpuFlag | None:
    """Return a flag of a release (None: the newest that has it); None if there is none."""
    for version in (release,) if release else reversed(_table().releases):
        facts = _flags(version).get(name)
        if facts is not None:
            return LibtpuFlag(
                name=name,
                type=facts["type"],
                values=tuple(facts.get("values", ())),
                per_compile=facts.get("compile_option", True),
            )
    return None


def is_libtpu_name(name: str) -> bool:
    """Return whether a name begins like those that the releases were searched for."""
    return name.startswith(_FAMILIES)


def similar_libtpu_flags(name: str, release: str, count: int = 2) -> tuple[str, ...]:
    """Return names of the release that are similar to a misspelled one."""
    import difflib

    tried = name.lower().replace("-", "_")
    return tuple(difflib.get_close_matches(tried, _flags(release), n=count, cutoff=0.85))


def libtpu_span(name: str) -> tuple[str, str] | None:
    """Return the first and the last known release with a flag; None if none has it."""
    having = [release for release in _table().releases if name in _flags(release)]
    return (having[0], having[-1]) if having else None


@cache
def libtpu_setting(name: str) -> DocumentedSetting | None:
    """Return a flag as a setting that can be shown, with the releases of libtpu that have it."""
    flag, span = libtpu_flag(name), libtpu_span(name)
    if flag is None or span is None:
        return None
    known = _table().releases
    after = known.index(span[1]) + 1
    return DocumentedSetting(
        name=name,
        reader=ReadingProgram.LIBTPU,
        type=_TYPES.get(flag.type, flag.type),
        values=flag.values,
        since=span[0] if span[0] != known[0] else f"{span[0]} or older",
        until=known[after] if after < len(known) else None,
    )
