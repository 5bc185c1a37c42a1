"""Spelling: the texts that a flag accepts as its value, in XLA_FLAGS and as a compiler option.

The two differ. XLA_FLAGS: `true`, `False`, `1`; enum names as in `Flag.values`. A compiler option:
`True` or `False` and nothing else; enum names in full and in upper case, or a number; no `+NAME`.
tests/flags/test_spelling.py compares this with the installed jaxlib; the other releases were
queried when this was written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from counterpoint.flags.catalogue.flag import Flag
from counterpoint.flags.parsed import Occurrence
from counterpoint.flags.settings import Channel
from counterpoint.flags.text import Pairs

__all__ = ["refusal"]

_INTEGER: Final = re.compile(r"[ \t\n\v\f\r]*([+-]?\d+)[ \t\n\v\f\r]*", re.ASCII)
_FLOAT: Final = re.compile(
    r"[ \t\n\v\f\r]*[+-]?(?:0x(?:[\da-f]++(?:\.[\da-f]*)?|\.[\da-f]+)(?:p[+-]?\d+)?"
    r"|(?:\d++(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?|inf(?:inity)?|nan(?:\(\w*\))?)[ \t\n\v\f\r]*",
    re.ASCII | re.IGNORECASE,
)
_BITS: Final = {"int32": 31, "int64": 63}
_DIGITS: Final = 40  # no parser reads more; leading zeros are allowed
_BOOLS: Final = {"true": "True", "1": "True", "false": "False", "0": "False"}
_MEANT: Final = {"yes": "true", "on": "true", "t": "true", "y": "true", "enable": "true"} | {
    "no": "false", "off": "false", "f": "false", "n": "false", "disable": "false"
}  # fmt: skip
_LEVELS: Final = {"UNKNOWN": "0", "O0": "9", "O1": "19", "O2": "29", "O3": "39"}
_WHOLE: Final = "xla_gpu_disable_async_collectives"
"""The only list that accepts no empty entry, no spaces and no changes."""
_MODE: Final = "COLLECTIVES_"
_SHORT_TOO: Final = ("CPU_OPT_PRESET_",)
"""Prefixes that may be omitted from an enum's names, as in lists."""


@dataclass(frozen=True, slots=True)
class ValueRefusal:
    """The reason for refusing a value: what would be accepted, and what was meant, if clear.

    Not `sure` if it may have been meant otherwise: GB can mean 10^9 bytes.
    """

    takes: str
    meant: str | None = None
    sure: bool = True


def refusal(flag: Flag, value: str | None, channel: Channel) -> ValueRefusal | None:
    """Return why a channel refuses a value; None if it accepts it. `value` None: no `=`."""
    option = channel is Channel.COMPILER_OPTIONS
    if value is None:
        return (
            None
            if flag.type == "bool" and not option
            else ValueRefusal(f"a value of type {flag.type}")
        )
    if flag.type == "bool":
        return _bool_refusal(value, option=option)
    if flag.type in _BITS:
        return _integer_refusal(value, flag.type)
    if flag.type == "float":
        return None if _FLOAT.fullmatch(value) else ValueRefusal("a number")
    if flag.type in ("enum", "enums") and flag.values:
        return _enum_refusal(flag, value, option=option)
    return None


def level_refusal(name: str, value: str) -> ValueRefusal | None:
    """Check a compile option that is not a flag like `refusal`: levels and efforts are numbers."""
    if name.endswith("_level") and not _INTEGER.fullmatch(value):
        return ValueRefusal(
            "a whole number, 19 for O1", _LEVELS.get(value.upper().removeprefix("EFFORT_"))
        )
    if name.endswith("_effort") and not _FLOAT.fullmatch(value):
        return ValueRefusal("a number")
    return None


def as_option(flag: Flag, value: str) -> str:
    """Convert a value from XLA_FLAGS to a compiler option's spelling; unknown ones stay as is."""
    if flag.type == "bool":
        return _BOOLS.get(value.lower(), value)
    if flag.type in ("enum", "enums") and flag.enum:
        spellings = _spoken(flag)
        return ",".join(
            spellings.get(_read(flag, item) or "", item) for item in _items(flag, value)
        )
    return value


def _bool_refusal(value: str, *, option: bool) -> ValueRefusal | None:
    if option:
        takes = value in ("True", "False")
        meant = _BOOLS.get(_MEANT.get(value.lower(), value.lower()))
        return None if takes else ValueRefusal("True or False", meant)
    if value.lower() in _BOOLS:
        return None
    return ValueRefusal("true or false", _MEANT.get(value.strip().lower()))


def _integer_refusal(value: str, kind: str) -> ValueRefusal | None:
    match = _INTEGER.fullmatch(value)
    if match is None:
        loose = re.fullmatch(r"(.*\d)\s*([kmgt])b?", value.strip().lower(), re.ASCII)
        if loose:
            return ValueRefusal(
                "a whole number", _as_integer(f"{loose[1]}{loose[2]}ib"), sure=False
            )
        return ValueRefusal("a whole number", _as_integer(value))
    limit = 1 << _BITS[kind]
    if len(match[1]) <= _DIGITS and -limit <= int(match[1]) < limit:
        return None
    return ValueRefusal(f"a whole number from {-limit} to {limit - 1}")


def _as_integer(value: str) -> str | None:
    """Return the whole number meant by 1e9, 4.0, 1_000 or 2GiB."""
    match = re.fullmatch(r"([\d_.]+(?:e\d{1,2})?)\s*([kmgt]ib)?", value.strip().lower(), re.ASCII)
    if match is None:
        return None
    try:
        number = float(match[1])
    except ValueError:
        return None
    number *= 1024 ** ("kmgt".index(match[2][0]) + 1) if match[2] else 1
    return str(int(number)) if number.is_integer() and number < 2**53 else None


def _enum_refusal(flag: Flag, value: str, *, option: bool) -> ValueRefusal | None:
    if option:
        taken = flag.enum or flag.values
        items = value.split(",") if flag.type == "enums" and value else [value]
        known = all(item in taken or _INTEGER.fullmatch(item) for item in items)
        known = known or (flag.type == "enums" and not value)
    else:
        taken = tuple(_spoken(flag))
        items = _items(flag, value)
        known = _changes_agree(value) and all(_read(flag, _bare(flag, item)) for item in items)
        known = known and bool(items or flag.name != _WHOLE)
    if known:
        return None
    what = "a list of " if flag.type == "enums" else ""
    return ValueRefusal(f"{what}{', '.join(taken)}", _meant_names(flag, items, taken))


def _read(flag: Flag, text: str) -> str | None:
    """Return the word that XLA_FLAGS reads in a text; None if none."""
    prefix = common_prefix(flag.values)
    any_case = flag.any_case or _by_first_word(flag)
    lenient = any_case and (flag.type == "enums" or prefix in _SHORT_TOO)
    for word in _spoken(flag):
        same = text.upper() == word.upper() if any_case else text == word
        if same or (lenient and text.upper() == word.removeprefix(prefix)):
            return word
    return None


def _spoken(flag: Flag) -> Mapping[str, str]:
    """Return the words of XLA_FLAGS for an enum, each with its name in the enum."""
    if _by_first_word(flag):
        return {
            name.removeprefix(_MODE).partition("_")[0].lower(): name
            for name in flag.values
            if name.endswith("_MEMORY")
        }
    return dict(zip(flag.values, flag.enum or flag.values, strict=True))


def _by_first_word(flag: Flag) -> bool:
    """Return whether a flag takes words the catalogue lacks: `peer`, COLLECTIVES_PEER_MEMORY."""
    single = flag.type == "enum"  # a list of command buffers may begin with COLLECTIVES_, too
    return single and flag.values == flag.enum and flag.default.startswith(_MODE)


def common_prefix(values: tuple[str, ...]) -> str:
    """Return the common prefix of an enum's names, up to an underscore."""
    first, last = min(values, default=""), max(values, default="")
    at = next((i for i, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), 0)
    return first[: first.rfind("_", 0, at) + 1]


def _items(flag: Flag, value: str) -> list[str]:
    """Return the names in a value; XLA's list parser drops blanks and empty entries."""
    if flag.type == "enum":
        return [value]
    items = value.split(",") if value else []
    if flag.name == _WHOLE:
        return items
    return [item.strip() for item in items if item.strip()]


def _changes_agree(value: str) -> bool:
    """Return whether all entries change the list, or none does; an empty one does not."""
    return len({item.strip()[:1] in ("+", "-") for item in value.split(",")}) == 1


def _bare(flag: Flag, item: str) -> str:
    changes = flag.type == "enums" and flag.name != _WHOLE and item[:1] in ("+", "-")
    return item[1:] if changes else item


def _meant_names(flag: Flag, items: list[str], taken: tuple[str, ...]) -> str | None:
    """Return the names as they are spelled, if each is clear."""
    names = [_meant_name(flag, item, taken) for item in items]
    return ",".join(name for name in names if name) if names and all(names) else None


def _meant_name(flag: Flag, item: str, taken: tuple[str, ...]) -> str | None:
    """Match a name in another case, without its underscores, or without the common prefix."""
    wanted = _letters(item)
    names = dict(zip(flag.enum, flag.enum, strict=True)) if taken == flag.enum else _spoken(flag)
    prefix = common_prefix(tuple(names.values()))
    fits = [
        word
        for word, name in names.items()
        if wanted in (_letters(word), _letters(name), _letters(name.removeprefix(prefix)))
    ]
    return fits[0] if len(fits) == 1 else None


def _letters(text: str) -> str:
    return "".join(letter for letter in text.upper() if letter.isalnum())


_STRTOLL: Final = re.compile(r"[ \t\n\v\f\r]*([+-]?)(0[xX][\da-fA-F]+|\d+)", re.ASCII)
_STREAM: Final = re.compile(r"[ \t\n\v\f\r]*([+-]?\d+)", re.ASCII)
_OCTAL: Final = re.compile(r"0[0-7]*")
_LIMIT: Final = 1 << 63


def strtoll(text: str) -> int | None:
    """Parse like C with base 0, as NCCL does: `0x10` is 16, `010` is 8.

    Parsing stops at the first character that is not a digit; without any digits the result is 0.
    None if the number does not fit.
    """
    match = _STRTOLL.match(text)
    if match is None:
        return 0
    digits = match[2]
    octal = _OCTAL.match(digits)
    base = 16 if digits[:2] in ("0x", "0X") else 8 if octal else 10
    digits = octal[0] if octal and base == 8 else digits
    return _fitting(match[1] + digits, base)


def from_stream(text: str) -> int:
    """Parse like a C++ stream, as XLA's log does: 0 if it fails."""
    match = _STREAM.match(text)
    return (_fitting(match[1], 10) if match else None) or 0


def is_python_int(text: str) -> bool:
    """Return whether Python's `int` accepts a text."""
    try:
        int(text)
    except ValueError:
        return False
    return True


def is_python_float(text: str) -> bool:
    """Return whether Python's `float` accepts a text."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _fitting(digits: str, base: int) -> int | None:
    if len(digits.lstrip("+-0")) > _DIGITS:
        return None
    number = int(digits, base)
    return number if -_LIMIT <= number < _LIMIT else None


_TEMPLATE: Final = re.compile(
    r"\$\{?\{|\{\{|\$\(|\$\{?[A-Za-z_]\w*|\{[A-Za-z_][\w.]*\}|%\(\w+\)s|%[A-Za-z_]\w*%|@\w+@"
)
_WORD: Final = re.compile(
    r"<[^<>]*>|\[[^\[\]]*\]|0?\.?[XxNn?_]{2,}|[X?]|\.{3}|\N{HORIZONTAL ELLIPSIS}"
)


def stands_for_another(value: str) -> bool:
    """Return whether a value is a placeholder or template, to be filled in by a reader or a tool.

    For example `.XX`, `<share>`, `{{ .Values.x }}`, `${{ inputs.x }}`, `%(share)s`, `...`.
    """
    return bool(_TEMPLATE.search(value) or _WORD.fullmatch(value.strip()))


_QUOTED: Final = re.compile(r"""(['"`])(.*)\1|['"`](?P<half>[^'"`]+)|(?P<other>[^'"`]+)['"`]""")
_NEXT_FLAG: Final = re.compile(r"[,;]\s*--(?=\w+(=|$))")
_TEXTS: Final = ("string", "strings", "map")


@dataclass(frozen=True, slots=True)
class StrayPunctuation:
    """A fault of a value, and the settings that were meant."""

    what: str
    instead: Pairs


def stray_punctuation(flag: Flag, one: Occurrence) -> StrayPunctuation | None:
    """Return the stray characters in a value; None if clean, or if it would be refused anyway."""
    value = one.value
    if not value:
        return None
    parts = _NEXT_FLAG.split(value)[::2]
    if len(parts) > 1:
        rest = (part.partition("=") for part in parts[1:])
        pairs = ((name, text if equals else "true") for name, equals, text in rest)
        what = "a comma between flags, where a space belongs,"
        return StrayPunctuation(what, ((one.name, parts[0]), *pairs))
    clean = _clean(value, text=flag.type in _TEXTS)
    if clean == value or refusal(flag, clean, one.channel) is not None:
        return None
    if flag.type == "enums" and refusal(flag, value, one.channel) is None:
        return None  # XLA's list parser drops an empty entry
    last = value[-1]
    what = f"{last!r} at the end" if last in ",;" else "quotes that became part of the value,"
    return StrayPunctuation(what, ((one.name, clean),))


def _clean(value: str, *, text: bool) -> str:
    """Remove a trailing comma or semicolon, and surrounding quotes."""
    bare = value if text else value.rstrip(",;")
    match = _QUOTED.fullmatch(bare)
    if match is None or (text and match[1] is None):
        return bare
    return match[2] or match["half"] or match["other"] or ""
