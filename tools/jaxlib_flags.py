"""Read the flags of an installed jaxlib out of itself, into flags/catalogue/flags.jsonl.

    python3.12 -m venv /tmp/jax && /tmp/jax/bin/pip install jax==0.13.0
    python tools/jaxlib_flags.py /tmp/jax/bin/python

Fields are read from its library, the rest from its parser and its JAX; other releases in the table
stay as they are. Each takes some ten seconds.

The parser is tried with each name once, with a value that is not the default. It may not know the
name (then XLA_FLAGS does not accept it), change that field, change another one (an alias), or
change nothing (a no-op). Names without a field are searched for among the library's strings.

Fields are options of one compile, too, but not of every type: messages are refused by all releases,
lists of strings up to 0.5.3, enums up to 0.4.33; in between enums need numbers. JAX's own options
are those whose variable it reads during import: some have none, whatever their name.
"""

from __future__ import annotations

import json
import mmap
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from counterpoint.flags.catalogue.flag import (
    Flag,
    FlagFacts,
    facts_of,
    parse_table,
    render_table,
    with_release,
)
from counterpoint.flags.catalogue.lookup import names_ever
from counterpoint.flags.option_probe import Value, probe_options
from xla_options import OptionField, options_reader, read_fields, spelled
from xla_parser import EnumSpelling, Parser, ParseResult, find_spelling, is_unknown

TABLE: Final = (
    Path(__file__).parent.parent / "src" / "counterpoint" / "flags" / "catalogue" / "flags.jsonl"
)
LIBRARIES: Final = ("libjax_common.so", "xla_extension.so")
"""The names of jaxlib's library that contains XLA; the second up to 0.6."""

_NAME: Final = re.compile(rb"xla_[a-z0-9_]{3,90}\0")
_INSIDE: Final = re.compile(rb"[A-Za-z0-9_-]")
_MESSAGES: Final = ("message", "messages", "map")
_AT_ONCE: Final = 40
_EFFECTIVE_WITHOUT_FIELD: Final = frozenset({"xla_fuel"})
"""Flags without a field that have an effect nevertheless."""


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for python in sys.argv[1:]:
        version, facts = read_jaxlib_flags(Path(python))
        table = with_release(parse_table(TABLE.read_text("utf-8")), version, facts)
        TABLE.write_text(render_table(table), encoding="utf-8")
        sys.stdout.write(f"jaxlib {version}: {len(facts)} flags and options\n")


def survey(parser: Parser, library: Path, known: Iterable[str]) -> tuple[Flag, ...]:
    """Return each flag and compile option of a jaxlib, by name."""
    options = read_fields(library)
    probe = _FlagProbe(parser, options, options_reader(library))
    flags = [probe.field(option) for option in options]
    names = {option.name for option in options}
    candidates = {name for name in known if name.islower()} | names_in(library)
    flags += probe.without_field(sorted(candidates - names))
    return tuple(sorted(flags, key=lambda flag: flag.name))


def names_in(library: Path) -> set[str]:
    """Return the texts in a library that may be names of flags."""
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        found = (
            match for match in _NAME.finditer(data) if not _INSIDE.match(data, match.start() - 1)
        )
        return {match[0][:-1].decode() for match in found}


class _FlagProbe:
    """Finds the properties of flags from what XLA's parser makes of them."""

    def __init__(
        self,
        parser: Parser,
        options: tuple[OptionField, ...],
        read: Callable[[bytes], dict[int, Any]],
    ) -> None:
        self._parser = parser
        self._read = read
        self._names = {option.number: option.name for option in options}
        parsed = parser.parse("")
        if parsed.options is None:
            sys.exit(f"jaxlib {parser.version} aborts even without flags: {parsed.log}")
        self._defaults = read(parsed.options)

    def field(self, option: OptionField) -> Flag:
        """Return the facts of one field and the flag of its name."""
        spelling = EnumSpelling(tuple(option.enum.values()), tuple(option.enum.values()))
        if option.enum:
            spelling = find_spelling(self._parse, option.name, option.enum) or spelling
        written = dict(zip(spelling.enum, spelling.values, strict=True))
        names = {number: written.get(name, name) for number, name in option.enum.items()}
        default = spelled(option.type, self._defaults.get(option.number), names)
        taken, changed, crashed = self._effect(
            option.name, _other_values(option.type, default, spelling.values)
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

    def without_field(self, names: Sequence[str]) -> Iterator[Flag]:
        """Yield flags without a field, from names most of which are none: tried many at a time."""
        for start in range(0, len(names), _AT_ONCE):
            batch = names[start : start + _AT_ONCE]
            parsed = self._parse(" ".join(f"--{name}=true" for name in batch))
            unknown = set(parsed.log.split()) if is_unknown(parsed) else set[str]()
            for name in batch:
                if f"--{name}=true" not in unknown:
                    flag = self._flag_without_field(name)
                    if flag is not None:
                        yield flag

    def _flag_without_field(self, name: str) -> Flag | None:
        """Return a flag without a field of its name; None if there is no such flag."""
        if is_unknown(self._parse(f"--{name}=true")):
            return None
        kind = self._type(name)
        _, changed, crashed = self._effect(name, _other_values(kind, "", ()))
        return Flag(
            name=name,
            type=kind,
            default="",
            xla_flags=True,
            compile_option=False,
            no_op=changed == frozenset() and name not in _EFFECTIVE_WITHOUT_FIELD,
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
                changed = self._changed(self._read(parsed.options))
                if changed:
                    break
            crashed = crashed or (parsed.options is None and not parsed.log.strip())
        return True, changed, crashed

    def _changed(self, options: dict[int, Any]) -> frozenset[int]:
        """Return the fields that differ from the defaults."""
        both = {*self._defaults, *options}
        return frozenset(n for n in both if self._defaults.get(n) != options.get(n))

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


def _other_values(kind: str, default: str, values: tuple[str, ...]) -> Iterator[str]:
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


_SAMPLES: Final[Mapping[str, Value]] = {
    "bool": True,
    "int32": 1,
    "int64": 1,
    "float": 1.5,
    "string": "x",
    "strings": "x",
}


def with_options(known: tuple[Flag, ...], library: Path, python: Path) -> tuple[Flag, ...]:
    """Return the flags, corrected by JAX's answers about options."""
    queried = [(flag.name, _sample(flag)) for flag in known if flag.compile_option]
    answer = probe_options(python, queried)
    if answer.note is not None:
        sys.exit(answer.note)
    refused = {rejected.name for rejected in answer.rejected}
    enums = [flag for flag in known if flag.name in refused and flag.enum]
    numbers = {field.name: field.enum for field in read_fields(library)}
    by_number = {flag.name: _numbers(flag, numbers[flag.name]) for flag in enums}
    pairs = [(name, texts[-1]) for name, texts in by_number.items()]
    refused_again = {rejected.name for rejected in probe_options(python, pairs).rejected}
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


_CHILD: Final = """
import json, os
read = set()
real = os.getenv
def getenv(name, default=None):
    read.add(name)
    return real(name, default)
os.getenv = getenv
import jax
from jax._src import config
found = {}
for name, value in jax.config.values.items():
    if name.upper() in read:
        kind, arguments, _ = jax.config.meta.get(name, (type(value), (), {}))
        values = [str(one) for one in arguments[0]] if kind == "enum" and arguments else []
        kind = kind if isinstance(kind, str) else getattr(kind, "__name__", "str")
        found[name.upper()] = [kind, value if isinstance(value, (bool, int, float)) or value is None
                               else str(value), values]
print(json.dumps(found))
"""
_TYPES: Final = {"bool": "bool", "int": "int64", "float": "float", "enum": "enum"}


def jax_options(python: Path) -> dict[str, FlagFacts]:
    """Return the options of an interpreter's jax, by variable."""
    child = {k: v for k, v in os.environ.items() if not k.startswith(("JAX", "XLA"))}
    done = subprocess.run(  # noqa: S603 - the interpreter that was named
        [python.absolute(), "-c", _CHILD],
        env=child,
        cwd="/",  # keeps a file from shadowing a module
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    answer = json.loads(done.stdout.strip().rpartition("\n")[2])
    return {name: _facts(*option) for name, option in answer.items()}


def _facts(kind: str, default: Any, values: list[str]) -> FlagFacts:  # noqa: ANN401 - from JSON
    text = "" if default is None else str(default)
    facts: dict[str, Any] = {
        "type": _TYPES.get(kind, "string"),
        "default": text.lower() if isinstance(default, bool) else text,
    }
    facts |= {"xla_flags": False, "compile_option": False}
    return {**facts, "values": values} if values else facts


def read_jaxlib_flags(python: Path) -> tuple[str, dict[str, FlagFacts]]:
    """Return the version of an interpreter's jaxlib, its flags and the options of its jax."""
    with Parser(python) as parser:
        library = find_library(parser.directory)
        flags = survey(parser, library, names_ever())
        version = parser.version
    found: dict[str, FlagFacts] = {
        flag.name: facts_of(flag) for flag in with_options(flags, library, python)
    }
    return version, found | jax_options(python)


def find_library(directory: Path) -> Path:
    """Return the library in which jaxlib has XLA."""
    found = [directory / name for name in LIBRARIES if (directory / name).is_file()]
    if not found:
        sys.exit(f"{directory} contains neither {' nor '.join(LIBRARIES)}")
    return found[0]


if __name__ == "__main__":
    main()
