"""Place: where a value stands, in a file or on the command line, and checks of its type."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from counterpoint.core import CounterpointError, InputError, UsageError


@dataclass(frozen=True, slots=True)
class Place:
    """A file, and the keys on the way to a value in it.

    `typed`: no file, but what a user typed as an argument, which `file` repeats.
    """

    file: str
    keys: tuple[str, ...] = ()
    typed: bool = False

    def at(self, key: object) -> Place:
        """One key further down."""
        return Place(self.file, (*self.keys, str(key)), self.typed)

    def __str__(self) -> str:
        keys = ".".join(it if it.replace("_", "").isalnum() else f'"{it}"' for it in self.keys)
        return f"{self.file}: {keys}" if keys else self.file

    def wrong(
        self, what: str, *, why: str | None = None, next: str | None = None
    ) -> CounterpointError:
        """What to raise of a value here."""
        kind = UsageError if self.typed else InputError
        return kind(f"{self}: {what}", why=why, next=next)

    def table(self, value: object, example: str) -> Mapping[str, Any]:
        """A table, or an error with an example of one."""
        if not isinstance(value, dict):
            raise self.wrong(f"not a table: {shown(value)}", next=example)
        return cast("dict[str, Any]", value)

    def text(self, value: object) -> str:
        """A text."""
        if not isinstance(value, str):
            raise self.wrong(f"not a text: {shown(value)}", next="put it in quotes")
        return value

    def flag(self, value: object) -> bool:
        """True or false."""
        if not isinstance(value, bool):
            raise self.wrong(f"neither true nor false: {shown(value)}")
        return value

    def count(self, value: object) -> int:
        """A whole number from 1 on."""
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise self.wrong(f"not a whole number from 1 on: {shown(value)}")
        return value

    def texts(self, value: object) -> tuple[str, ...]:
        """A list of texts; one text is a list of one."""
        if isinstance(value, str):
            return (value,)
        if not isinstance(value, list):
            raise self.wrong(f"not a list of texts: {shown(value)}", next='["one", "two"]')
        items = cast("list[object]", value)
        return tuple(self.at(number).text(it) for number, it in enumerate(items, 1))

    def word(self, value: object, known: Iterable[str]) -> str:
        """One of the known words."""
        words = tuple(known)
        text = self.text(value)
        if text not in words:
            raise self.unknown(text, words)
        return text

    def keys_of(self, table: Mapping[str, Any], known: Iterable[str]) -> None:
        """Nothing else than the known keys is in the table."""
        words = tuple(known)
        for key in table:
            if key not in words:
                raise self.unknown(key, words)

    def unknown(
        self, word: str, known: Iterable[str], *, why: str | None = None
    ) -> CounterpointError:
        """A word that nobody knows, and what it may have been meant to be."""
        words = tuple(known)
        near = nearest(word, words)
        known_ = f"known are {', '.join(words)}" if words else "there is none"
        return self.wrong(
            f"`{word}` is not known there",
            why=f"{why}; {known_}" if why else known_,
            next=f"did you mean `{near}`?" if near else None,
        )


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that this one may have been meant to be."""
    by_small = {it.casefold(): it for it in known}
    found = difflib.get_close_matches(word.casefold(), by_small, n=1, cutoff=0.6)
    return by_small[found[0]] if found else None


def shown(value: object) -> str:
    """A value as an error shows it: short, and on one line."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
