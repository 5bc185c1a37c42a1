"""Settings as written in a file: a line of flags and variables, or tables of them.

"--xla_gpu_enable_triton_gemm=false NCCL_NVLS_ENABLE=0"
{ xla_flags = { xla_gpu_enable_triton_gemm = false }, env = { NCCL_NVLS_ENABLE = 0 } }
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from counterpoint.core import UsageError
from counterpoint.flags import Settings, why_invalid
from counterpoint.flags.lines import OWN_PREFIX, read_line, refuse_bare_flag
from counterpoint.flags.text import Pairs, parse_xla_flags
from counterpoint.tune.space.place import ValuePlace, shown

KEYS: Final = ("xla_flags", "env", "options")
"""The keys of a table that hold settings."""

EXAMPLE: Final = '"--xla_gpu_enable_triton_gemm=false NCCL_NVLS_ENABLE=0"'


def settings_of_table(table: Mapping[str, Any], place: ValuePlace) -> Settings:
    """Return the settings under the keys that hold them."""
    xla = _flags(table.get("xla_flags", {}), place.at("xla_flags"))
    env = _pairs(table.get("env", {}), place.at("env"))
    options = _pairs(table.get("options", {}), place.at("options"))
    return _of_tables(xla, env, options, place)


def settings_of_line(text: str, place: ValuePlace) -> Settings:
    """Parse flags with or without dashes, and variables between them."""
    try:
        return read_line(text, bare=True).settings
    except UsageError as failure:
        what = failure.what if failure.what.startswith("no ") else f"{shown(text)}: {failure.what}"
        raise place.wrong(what, why=failure.why, next=failure.next or EXAMPLE) from None


def _of_tables(xla: Pairs, env: Pairs, options: Pairs, place: ValuePlace) -> Settings:
    """Make settings of the tables; XLA_FLAGS among the variables is parsed as flags."""
    inner = next((value for name, value in env if name == "XLA_FLAGS"), None)
    if inner is not None:
        xla = (*_parsed(inner, place.at("XLA_FLAGS")), *xla)
        env = tuple(pair for pair in env if pair[0] != "XLA_FLAGS")
    for name, value in env:
        try:
            refuse_bare_flag(name, value)
        except UsageError as failure:
            raise place.at("env").wrong(failure.what, why=failure.why, next=failure.next) from None
    env = tuple((name.removeprefix(OWN_PREFIX), value) for name, value in env)
    for name, value in (*xla, *env, *options):
        if why_invalid(name, value):
            raise place.wrong(f"{shown(name)} is no name of a setting", next=EXAMPLE)
    return Settings().merged(Settings(xla, env, options))


def _flags(value: object, place: ValuePlace) -> Pairs:
    """Parse a string as XLA takes it, a list of such strings, or a table."""
    if isinstance(value, str):
        return _parsed(value, place)
    if isinstance(value, list):
        return tuple(
            pair
            for number, item in enumerate(cast("list[object]", value), 1)
            for pair in _parsed(place.at(number).text(item), place.at(number))
        )
    return tuple((name.removeprefix("--"), flag_value) for name, flag_value in _pairs(value, place))


def _parsed(text: str, place: ValuePlace) -> Pairs:
    try:
        return parse_xla_flags(text, where=str(place))
    except UsageError as failure:
        what = failure.what.removeprefix(f"{place}: ")
        raise place.wrong(what, why=failure.why, next=failure.next) from None


def _pairs(value: object, place: ValuePlace) -> Pairs:
    table = place.table(value, '{ NAME = "value" }')
    return tuple((name, _value(item, place.at(name))) for name, item in table.items())


def _value(value: object, place: ValuePlace) -> str:
    """Format a value as XLA and the environment write it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, list):
        return ",".join(_value(item, place) for item in cast("list[object]", value))
    raise place.wrong(
        f"can't be a value: {shown(value)}",
        why="values are texts, numbers, true, false, and lists of these",
    )
