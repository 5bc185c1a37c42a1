"""Settings that were requested and that a process did not have when it compiled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from counterpoint.core.injection import FLAG_VARIABLES, flags_in
from counterpoint.runs.run import ObservedProcess, Rank, RunSettings
from counterpoint.runs.setting_history import compiling, facts_of, texts_of

__all__ = ["missing_settings"]

_TRUE: Final = ("1", "true", "yes", "on", "t", "y")


@dataclass(frozen=True, slots=True)
class MissingSetting:
    """A requested setting that a process did not have; `why` says what is known."""

    name: str
    value: str
    why: str


def missing_settings(settings: RunSettings, process: ObservedProcess) -> tuple[MissingSetting, ...]:
    """Return the requested flags and variables that a process did not have when it compiled."""
    return (*_missing_flags(settings, process), *_missing_variables(settings, process))


def _missing_flags(settings: RunSettings, process: ObservedProcess) -> Iterator[MissingSetting]:
    text = process.facts.get("xla_flags")
    if not isinstance(text, str) or text.lstrip()[:1] not in ("", "-"):
        return  # not recorded, or the name of a file
    had = flags_in(text)
    for name, value in dict(settings.xla).items():
        if had.get(name) != value:
            yield MissingSetting(name, value, _itself(f"--{name}", "XLA_FLAGS", had.get(name)))


def _missing_variables(settings: RunSettings, process: ObservedProcess) -> Iterator[MissingSetting]:
    facts = facts_of(process)
    values = texts_of(facts.get("values"))
    options = facts.get("options")
    for name, value in settings.env:
        if name in values and not _holds(name, value, values[name]):
            yield MissingSetting(name, value, _itself(name, name, values[name]))
        elif isinstance(options, dict) and name in options:
            option = cast("Mapping[str, object]", options)[name]
            if not _same_option(value, option):
                yield MissingSetting(name, value, f"jax.config has {option!r}")


def _holds(name: str, value: str, had: str | None) -> bool:
    if name not in FLAG_VARIABLES or had is None:
        return had == value
    return flags_in(value, name).items() <= flags_in(had, name).items()


def _same_option(value: str, option: object) -> bool:
    """Return whether a variable's text means the option's value; True in doubt."""
    if isinstance(option, bool):
        return (value.strip().lower() in _TRUE) is option
    if isinstance(option, int | float):
        try:
            return float(value) == float(option)
        except ValueError:
            return True
    return not isinstance(option, str) or value.strip().lower() == option.strip().lower()


def _itself(name: str, variable: str, had: str | None) -> str:
    return f"the program itself sets {variable}" if had is None else f"it sets {name}={had} itself"


def unreached_settings(settings: RunSettings, ranks: Iterable[Rank]) -> tuple[str, ...]:
    """Return notes on settings that did not reach a compiling process, each distinct one once."""
    notes: dict[str, None] = {}
    for rank in ranks:
        for process in compiling([rank]):
            for missing in missing_settings(settings, process):
                what = f"{missing.name}={missing.value} did not reach the program: {missing.why}"
                notes[what] = None
            if note := _undumped(rank, process):
                notes[note] = None
    return tuple(notes)


def _undumped(rank: Rank, process: ObservedProcess) -> str | None:
    text = process.facts.get("xla_flags")
    if rank.dump is None or not isinstance(text, str) or text.lstrip()[:1] not in ("", "-"):
        return None
    had = flags_in(text).get("xla_dump_to")
    if _same_place(had, rank.dump):
        return None
    way = "its XLA_FLAGS lacks --xla_dump_to" if had is None else f"it sets --xla_dump_to={had}"
    return f"XLA's modules are not in this run: {way}"


def _same_place(had: str | None, dump: Path) -> bool:
    """Return whether the dump goes to the expected place; the user's may be a relative path."""
    return had is not None and (had == str(dump) or not Path(had).is_absolute())
