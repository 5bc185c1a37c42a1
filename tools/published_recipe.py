"""Published: the recipes of other projects, as their repositories state them.

`recipes_of_others/` has one file per repository. recipe_verdict.py judges them by the rules.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from counterpoint.flags.parsed import Location, Occurrence, ParsedSource
from counterpoint.flags.settings import Channel
from counterpoint.flags.text import split_xla_flags


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """One recipe: `flags` is a value of XLA_FLAGS, `environment` has lines `NAME=value`.

    `together` is false if the flags of a page are alternatives. `named` are the flags that it names
    without a value.
    """

    name: str
    chip: str
    repository: str
    commit: str
    paths: tuple[str, ...]
    flags: str
    environment: tuple[str, ...] = ()
    together: bool = True
    named: tuple[str, ...] = ()

    @property
    def urls(self) -> tuple[str, ...]:
        """The addresses of its files."""
        return tuple(f"{self.repository}/blob/{self.commit}/{path}" for path in self.paths)

    @property
    def written(self) -> ParsedSource:
        """The whole recipe, as if it were one script."""
        return ParsedSource(where=self.paths[0], form="published", given=tuple(self._given()))

    @property
    def alone(self) -> tuple[ParsedSource, ...]:
        """Each setting by itself."""
        return tuple(
            ParsedSource(where=self.paths[0], form="published", given=(one,))
            for one in self._given()
        )

    def _given(self) -> Iterator[Occurrence]:
        place = Location(self.paths[0])
        for text in split_xla_flags(self.flags, where=self.name):
            name, equals, value = text.removeprefix("--").partition("=")
            yield Occurrence(
                channel=Channel.XLA_FLAGS,
                name=name,
                value=value if equals else None,
                place=place,
                text=text,
            )
        for text in self.environment:
            name, _, value = text.partition("=")
            yield Occurrence(
                channel=Channel.ENVIRONMENT, name=name, value=value, place=place, text=text
            )


@cache
def published() -> tuple[Published, ...]:
    """All recipes, by file and in the order of the file."""
    directory = Path(__file__).with_name("recipes_of_others")
    files = sorted(directory.iterdir(), key=lambda entry: entry.name)
    documents = [tomllib.loads(file.read_text("utf-8")) for file in files if _is_data(file.name)]
    return tuple(_recipe(document, table) for document in documents for table in document["recipe"])


def _is_data(name: str) -> bool:
    return name.endswith(".toml")


def _recipe(document: Mapping[str, Any], table: Mapping[str, Any]) -> Published:
    fields: dict[str, Any] = {**table}
    fields |= {name: tuple(table.get(name, ())) for name in ("paths", "environment", "named")}
    return Published(repository=document["repository"], commit=document["commit"], **fields)
