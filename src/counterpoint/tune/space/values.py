"""Values that a user wrote: each has a place, in a file or on the command line, that errors name.

`ValuePlace` checks types and names; `settings_of_table` and `settings_of_line` read Settings.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from counterpoint.core import CounterpointError, InputError, UsageError
from counterpoint.flags.lines.known import OWN_PREFIX, refuse_bare_flag
from counterpoint.flags.lines.line import read_line
from counterpoint.flags.settings import Settings, why_invalid
from counterpoint.flags.text import Pairs, parse_xla_flags

KEYS: Final = ("xla_flags", "env", "options")
"""The keys of a table that hold settings."""
EXAMPLE: Final = '"--xla_gpu_enable_triton_gemm=false NCCL_NVLS_ENABLE=0"'


@dataclass(frozen=True, slots=True)
class ValuePlace:
    """A file, and the keys that lead to a value in it.

    If `typed`, the value is a command-line argument, which `file` repeats; there is no file.
    """

    file: str
    keys: tuple[str, ...] = ()
    typed: bool = False

    def at(self, key: object) -> ValuePlace:
        """Return the place one key further down."""
        return ValuePlace(self.file, (*self.keys, str(key)), self.typed)

    def __str__(self) -> str:
        keys = ".".join(key if key.replace("_", "").isalnum() else f'"{key}"' for key in self.keys)
        return f"{self.file}: {keys}" if keys else self.file

    def wrong(
        self, what: str, *, why: str | None = None, next: str | None = None
    ) -> CounterpointError:
        """Make the error to raise for a value here."""
        kind = UsageError if self.typed else InputError
        return kind(f"{self}: {what}", why=why, next=next)

    def table(self, value: object, example: str) -> Mapping[str, Any]:
        """Return the value if it is a table, or raise an error with an example of one."""
        if not isinstance(value, dict):
            raise self.wrong(f"not a table: {shown(value)}", next=example)
        return cast("dict[str, Any]", value)

    def text(self, value: object) -> str:
        """Return the value if it is a string."""
        if not isinstance(value, str):
            raise self.wrong(f"not a string: {shown(value)}", next="put it in quotes")
        return value

    def flag(self, value: object) -> bool:
        """Return the value if it is a Boolean."""
        if not isinstance(value, bool):
            raise self.wrong(f"neither true nor false: {shown(value)}")
        return value

    def count(self, value: object) -> int:
        """Return the value if it is a positive integer."""
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise self.wrong(f"not a positive integer: {shown(value)}")
        return value

    def texts(self, value: object) -> tuple[str, ...]:
        """Return a list of strings; a single string becomes a list of one."""
        if isinstance(value, str):
            return (value,)
        if not isinstance(value, list):
            raise self.wrong(f"not a list of strings: {shown(value)}", next='["one", "two"]')
        items = cast("list[object]", value)
        return tuple(self.at(number).text(item) for number, item in enumerate(items, 1))

    def word(self, value: object, known: Iterable[str]) -> str:
        """Return the value if it is one of the known words."""
        words = tuple(known)
        text = self.text(value)
        if text not in words:
            raise self.unknown(text, words)
        return text

    def keys_of(self, table: Mapping[str, Any], known: Iterable[str]) -> None:
        """Raise an error if the table has an unknown key."""
        words = tuple(known)
        for key in table:
            if key not in words:
                raise self.unknown(key, words)

    def unknown(
        self, word: str, known: Iterable[str], *, why: str | None = None
    ) -> CounterpointError:
        """Make the error for an unknown word, suggesting the closest known one."""
        words = tuple(known)
        near = nearest(word, words)
        allowed = f"known names: {', '.join(words)}" if words else "no name is known here"
        return self.wrong(
            f"unknown name `{word}`",
            why=f"{why}; {allowed}" if why else allowed,
            next=f"did you mean `{near}`?" if near else None,
        )


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word closest to this one, or None."""
    by_small = {known_word.casefold(): known_word for known_word in known}
    found = difflib.get_close_matches(word.casefold(), by_small, n=1, cutoff=0.6)
    return by_small[found[0]] if found else None


def shown(value: object) -> str:
    """Format a value for an error message: short, and on one line."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


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
            raise place.wrong(f"{shown(name)} is not a valid name of a setting", next=EXAMPLE)
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
        f"not a valid value: {shown(value)}",
        why="values are strings, numbers, true, false, and lists of these",
    )
