"""Flag and Release: the flags of one jaxlib."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_BOOLS = {"true": True, "1": True, "false": False, "0": False}
_BITS = {"int32": 31, "int64": 63}


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One of XLA's flags in one release.

    `type`: bool, int32, int64, float, string, enum, message; lists: enums, strings, map. `default`
    is spelled as in XLA_FLAGS. `alias_of`: this flag sets the field of that one. `values` are
    spelled as in XLA_FLAGS, `enum` as in compiler_options (before 0.6 as numbers), in the same
    order. `fatal`: XLA knows the name, and crashes on any value.
    """

    name: str
    type: str
    default: str
    values: tuple[str, ...] = ()
    enum: tuple[str, ...] = ()
    any_case: bool = False  # XLA_FLAGS accepts `values` in upper and lower case
    xla_flags: bool  # XLA_FLAGS accepts it
    compile_option: bool  # compiler_options accepts it
    no_op: bool = False
    deprecated: bool = False
    alias_of: str | None = None
    fatal: bool = False

    def is_default(self, value: str) -> bool:
        """Return whether a value, as spelled in XLA_FLAGS, has the same effect as the default."""
        if self.alias_of is not None or (self.no_op and not self.compile_option):
            return False  # it has no value of its own
        if self.type == "enums":
            return self._is_default_list(value)
        if self.type in ("strings", "map"):  # given values add to the default
            return set(_items(value)) <= set(_items(self.default))
        return self.meaning(value) == self.meaning(self.default)

    def meaning(self, value: str) -> bool | int | float | str | None:
        """Return the parsed value; None if the flag does not accept it."""
        if self.type == "bool":
            return _BOOLS.get(value.lower())
        if self.type in _BITS:
            return _whole(value, _BITS[self.type])
        if self.type == "float":
            return _real(value)
        if self.type == "enum":
            return self.spelled(value)
        return value

    def spelled(self, value: str) -> str | None:
        """Return an enum's name as spelled in `values`; None if there is no such name."""
        for name in self.values:
            if value == name or (self.any_case and value.lower() == name.lower()):
                return name
        return None

    def _is_default_list(self, value: str) -> bool:
        default = {self.spelled(name) for name in _items(self.default)}
        given = _items(value)
        if given and all(name[0] in "+-" for name in given):
            added = {self.spelled(name[1:]) for name in given if name[0] == "+"}
            taken = {self.spelled(name[1:]) for name in given if name[0] == "-"}
            return added <= default and not taken & default
        return {self.spelled(name) for name in given} == default


def _items(text: str) -> list[str]:
    return text.split(",") if text else []


def _whole(text: str, bits: int) -> int | None:
    try:
        number = int(text)
    except ValueError:
        return None
    return number if "_" not in text and -(1 << bits) <= number < 1 << bits else None


def _real(text: str) -> float | None:
    try:
        return float(text) if "_" not in text else None
    except ValueError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The flags of jaxlib `version`; `asked` is the requested version, which may differ."""

    version: str
    asked: str
    flags: Mapping[str, Flag]
    jax: Mapping[str, str]  # JAX's own options by environment variable, with their defaults
    jax_options: Mapping[str, Flag] = field(default_factory=dict[str, Flag])  # with their types

    @property
    def exact(self) -> bool:
        return self.version == self.asked
