"""Flags of a release that its compiler options accept too, obtained from an interpreter's JAX.

Fields in XLA's descriptor are options, but not of every type: messages are refused by all releases,
lists of strings up to 0.5.3, enums up to 0.4.33; in between enums need numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from counterpoint.flags.catalogue.flag import Flag
from counterpoint.flags.live.option_probe import Value, probe_options
from counterpoint.flags.refresh.descriptor import read_fields

_SAMPLES: Final[Mapping[str, Value]] = {
    "bool": True,
    "int32": 1,
    "int64": 1,
    "float": 1.5,
    "string": "x",
    "strings": "x",
}


def with_options(
    flags: Iterable[Flag], library: Path, python: Path, environment: Mapping[str, str] | None
) -> tuple[Flag, ...]:
    """Return the flags, corrected by JAX's answers about options; unchanged if it gives none."""
    known = tuple(flags)
    queried = [(flag.name, _sample(flag)) for flag in known if flag.compile_option]
    answer = probe_options(python, queried, environment)
    if answer.note is not None:
        return known
    refused = {rejected.name for rejected in answer.rejected}
    enums = [flag for flag in known if flag.name in refused and flag.enum]
    numbers = {field.name: field.enum for field in read_fields(library)}
    by_number = {flag.name: _numbers(flag, numbers[flag.name]) for flag in enums}
    pairs = [(name, texts[-1]) for name, texts in by_number.items()]
    refused_again = {
        rejected.name for rejected in probe_options(python, pairs, environment).rejected
    }
    return tuple(
        flag
        if flag.name not in refused
        else replace(flag, enum=by_number[flag.name])
        if flag.name in by_number.keys() - refused_again
        else replace(flag, compile_option=False)
        for flag in known
    )


def _sample(flag: Flag) -> Value:
    return _SAMPLES.get(flag.type, flag.enum[-1] if flag.enum else "x")


def _numbers(flag: Flag, enum: Mapping[int, str]) -> tuple[str, ...]:
    """Return the numbers of a flag's values, as text."""
    numbers = {name: str(number) for number, name in enum.items()}
    return tuple(numbers[name] for name in flag.enum)
