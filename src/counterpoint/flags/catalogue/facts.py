"""Flags as they stand in a table: what is usual is left out, so that lines stay short."""

from __future__ import annotations

from typing import Any, Final, cast

from counterpoint.flags.catalogue.flag import Flag
from counterpoint.flags.catalogue.table import Facts

_USUAL: Final = {
    "values": (),
    "enum": (),
    "any_case": False,
    "xla_flags": True,
    "compile_option": True,
    "no_op": False,
    "deprecated": False,
    "alias_of": None,
    "fatal": False,
}


def facts_of(flag: Flag) -> Facts:
    """A flag without its name."""
    facts: dict[str, Any] = {"type": flag.type, "default": flag.default}
    for key, usual in _USUAL.items():
        value = getattr(flag, key)
        if value != usual:
            facts[key] = [*cast("tuple[str, ...]", value)] if isinstance(value, tuple) else value
    if facts.get("enum") == facts.get("values"):
        facts.pop("enum", None)
    return facts


def flag_of(name: str, facts: Facts) -> Flag:
    """The flag again."""
    values: tuple[str, ...] = tuple(cast("list[str]", facts.get("values", [])))
    return Flag(
        name=name,
        type=facts["type"],
        default=facts["default"],
        values=values,
        enum=tuple(facts.get("enum", values)),
        any_case=facts.get("any_case", False),
        xla_flags=facts.get("xla_flags", True),
        compile_option=facts.get("compile_option", True),
        no_op=facts.get("no_op", False),
        deprecated=facts.get("deprecated", False),
        alias_of=facts.get("alias_of"),
        fatal=facts.get("fatal", False),
    )
