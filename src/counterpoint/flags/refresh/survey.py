"""All flags of one jaxlib: fields from the library, the rest from its parser.

The parser is tried with each name once, with a value that is not the default. It may not know the
name (then XLA_FLAGS does not accept it), change that field, change another one (an alias), or
change nothing (a no-op). Names without a field are searched for among the library's strings.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from counterpoint.core import InputError
from counterpoint.flags.catalogue.flag import Flag
from counterpoint.flags.refresh.descriptor import OptionField, read_fields
from counterpoint.flags.refresh.enum_spelling import EnumSpelling, find_spelling
from counterpoint.flags.refresh.parser import Parser, ParseResult, is_unknown
from counterpoint.flags.refresh.wire import Fields, debug_options, spelled

LIBRARIES: Final = ("libjax_common.so", "xla_extension.so")
"""The names of jaxlib's library that contains XLA; the second up to 0.6."""

_NAME: Final = re.compile(rb"xla_[a-z0-9_]{3,90}\0")
_INSIDE: Final = re.compile(rb"[A-Za-z0-9_-]")
_MESSAGES: Final = ("message", "messages", "map")
_AT_ONCE: Final = 40
_BESIDE_OPTIONS: Final = frozenset({"xla_fuel"})
"""Flags without a field that have an effect nevertheless."""

Tell = Callable[[str], None]


def survey(parser: Parser, library: Path, known: Iterable[str], tell: Tell) -> tuple[Flag, ...]:
    """Return each flag and compile option of a jaxlib, by name."""
    tell(f"reading {library.name} of jaxlib {parser.version}")
    options = read_fields(library)
    queries = _Asked(parser, options)
    flags: list[Flag] = []
    for count, option in enumerate(options):
        tell(f"asking jaxlib {parser.version} about its flags: {count} of {len(options)}")
        flags.append(queries.field(option))
    names = {option.name for option in options}
    tell(f"looking for names without a field in {library.name}")
    candidates = {name for name in known if name.islower()} | names_in(library)
    flags += queries.strangers(sorted(candidates - names))
    return tuple(sorted(flags, key=lambda flag: flag.name))


def names_in(library: Path) -> set[str]:
    """Return the texts in a library that may be names of flags."""
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        found = (
            match for match in _NAME.finditer(data) if not _INSIDE.match(data, match.start() - 1)
        )
        return {match[0][:-1].decode() for match in found}


class _Asked:
    """A parser and its options without any flags."""

    def __init__(self, parser: Parser, options: tuple[OptionField, ...]) -> None:
        self._parser = parser
        self._names = {option.number: option.name for option in options}
        unasked = parser.parse("")
        if unasked.options is None:
            raise InputError(
                f"jaxlib {parser.version} in {parser.directory} ends without any flag",
                why=unasked.log.strip().rpartition("\n")[2][:300] or None,
            )
        self._unasked = debug_options(unasked.options)

    def field(self, option: OptionField) -> Flag:
        """Return the facts of one field and the flag of its name."""
        spelling = EnumSpelling(tuple(option.enum.values()), tuple(option.enum.values()))
        if option.enum:
            spelling = find_spelling(self._parse, option.name, option.enum) or spelling
        written = dict(zip(spelling.enum, spelling.values, strict=True))
        names = {number: written.get(name, name) for number, name in option.enum.items()}
        default = spelled(option.type, self._unasked.get(option.number, ()), names)
        taken, changed, crashed = self._effect(
            option.name, _others(option.type, default, spelling.values)
        )
        return Flag(
            name=option.name,
            type="message" if option.type in ("message", "messages") else option.type,
            default=default,
            values=spelling.values,
            enum=spelling.enum,
            any_case=spelling.any_case,
            xla_flags=taken,
            compile_option=option.type not in _MESSAGES,
            no_op=taken and changed == frozenset(),
            deprecated=option.deprecated,
            alias_of=self._alias(option.number, changed),
            fatal=crashed and changed is None,
        )

    def strangers(self, names: Sequence[str]) -> Iterator[Flag]:
        """Yield flags without a field, from names most of which are none: tried many at a time."""
        for start in range(0, len(names), _AT_ONCE):
            batch = names[start : start + _AT_ONCE]
            parsed = self._parse(" ".join(f"--{name}=true" for name in batch))
            unknown = set(parsed.log.split()) if is_unknown(parsed) else set[str]()
            for name in batch:
                if f"--{name}=true" not in unknown:
                    flag = self._stranger(name)
                    if flag is not None:
                        yield flag

    def _stranger(self, name: str) -> Flag | None:
        """Return a flag without a field of its name; None if there is no such flag."""
        if is_unknown(self._parse(f"--{name}=true")):
            return None
        kind = self._type(name)
        _, changed, crashed = self._effect(name, _others(kind, "", ()))
        return Flag(
            name=name,
            type=kind,
            default="",
            xla_flags=True,
            compile_option=False,
            no_op=changed == frozenset() and name not in _BESIDE_OPTIONS,
            alias_of=self._alias(None, changed),
            fatal=crashed and changed is None,
        )

    def _effect(self, name: str, values: Iterable[str]) -> tuple[bool, frozenset[int] | None, bool]:
        """Return if the name is known, the fields that it changes, and if a value crashed XLA.

        None for the fields: no value was accepted.
        """
        changed: frozenset[int] | None = None
        crashed = False
        for value in values:
            parsed = self._parse(f"--{name}='{value}'")
            if is_unknown(parsed):
                return False, None, False
            if parsed.options is not None:
                changed = _difference(self._unasked, debug_options(parsed.options))
                if changed:
                    break
            crashed = crashed or (parsed.options is None and not parsed.log.strip())
        return True, changed, crashed

    def _alias(self, number: int | None, changed: frozenset[int] | None) -> str | None:
        if not changed or number in changed:
            return None
        return self._names.get(min(changed))

    def _type(self, name: str) -> str:
        """Determine the type from the values that it accepts."""
        if self._takes(f"--{name}"):
            return "bool"
        if self._takes(f"--{name}=x") or self._takes(f"--{name}=0:1"):
            return "string"
        if self._takes(f"--{name}=1.5"):
            return "float"
        if self._takes(f"--{name}=3000000000"):
            return "int64"
        return "int32" if self._takes(f"--{name}=1") else "string"

    def _takes(self, text: str) -> bool:
        return self._parse(text).options is not None

    def _parse(self, text: str) -> ParseResult:
        return self._parser.parse(text)


def _difference(one: Fields, other: Fields) -> frozenset[int]:
    return frozenset(n for n in {*one, *other} if one.get(n) != other.get(n))


def _others(kind: str, default: str, values: tuple[str, ...]) -> Iterator[str]:
    """Yield values other than the default, those most likely to be accepted first."""
    if kind == "bool":
        yield "false" if default == "true" else "true"
        if not default:
            yield "false"
    elif kind in ("int32", "int64", "float"):
        yield from (value for value in ("1", "2", "0", "8", "-1", "0.5") if value != default)
    elif kind in ("enum", "enums"):
        yield from (value for value in values if value != default)
    elif kind == "map":
        yield from ("counterpoint=1", "rtt_us=7")
    else:
        yield from ("counterpoint", "1", "false", "0:1")
