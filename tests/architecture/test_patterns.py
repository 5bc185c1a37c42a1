"""No regular expression of the package takes exponential time, whatever it is given.

A loop within a loop is exponential where a text can be divided between the two in several ways.
It can't be where the inner or the outer one never gives back what it took (`*+`, `(?>...)`), or
where each round has a character in a fixed place that nothing else in the round matches.
"""

# ruff: noqa: ANN401, PLR0911 - what re._parser makes has no types

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from typing import Any

import pytest

from package_source import PACKAGE, parsed, sources, walk

op: Any = importlib.import_module("re._constants")
parser: Any = importlib.import_module("re._parser")

FUNCTIONS = ("compile", "match", "fullmatch", "search", "sub", "split", "findall", "finditer")
MANY = 64
"""A loop of more rounds than this counts as one without an end."""

Parsed = Any  # what re._parser makes of a pattern: pairs of an opcode and its argument


def excess(pattern: str, flags: int = 0) -> list[str]:
    """What in a pattern may take exponential time."""
    return list(_in_parts(parser.parse(pattern, flags), flags))


def _in_parts(parts: Parsed, flags: int) -> Iterator[str]:
    for code, argument in parts:
        if _is_loop(code, argument) and _loops(argument[2]) and not _delimited(argument[2], flags):
            yield f"a loop within a loop: {list(argument[2])}"
        for inner in _inner(code, argument):
            yield from _in_parts(inner, flags)


def _is_loop(code: Any, argument: Any) -> bool:
    return code in (op.MAX_REPEAT, op.MIN_REPEAT) and argument[1] > MANY


def _inner(code: Any, argument: Any) -> list[Parsed]:
    match code:
        case op.MAX_REPEAT | op.MIN_REPEAT | op.POSSESSIVE_REPEAT:
            return [argument[2]]
        case op.SUBPATTERN:
            return [argument[3]]
        case op.BRANCH:
            return list(argument[1])
        case op.ATOMIC_GROUP:
            return [argument]
        case op.ASSERT | op.ASSERT_NOT:
            return [argument[1]]
        case op.GROUPREF_EXISTS:
            return [it for it in argument[1:] if it is not None]
        case _:
            return []


def _loops(parts: Parsed) -> bool:
    """Whether there is a loop in it that can give back what it took."""
    for code, argument in parts:
        if code in (op.ATOMIC_GROUP, op.POSSESSIVE_REPEAT, op.ASSERT, op.ASSERT_NOT):
            continue
        if _is_loop(code, argument) or any(_loops(it) for it in _inner(code, argument)):
            return True
    return False


def _delimited(body: Parsed, flags: int) -> bool:
    """Whether a round begins or ends with a character that nothing else in it matches."""
    rounds = [list(body)]
    while any(len(it) == 1 and it[0][0] in (op.SUBPATTERN, op.BRANCH) for it in rounds):
        rounds = [way for it in rounds for way in _ways(it)]
    return any(all(_alone(it, at, rounds, flags) for it in rounds) for at in (0, -1))


def _ways(parts: list[Any]) -> list[list[Any]]:
    if len(parts) == 1 and parts[0][0] in (op.SUBPATTERN, op.BRANCH):
        return [list(it) for it in _inner(*parts[0])]
    return [parts]


def _alone(parts: list[Any], at: int, rounds: list[list[Any]], flags: int) -> bool:
    if not parts or parts[at][0] not in (op.LITERAL, op.IN, op.NOT_LITERAL):
        return False
    own = _matched([parts[at]], flags)
    rest = [part for part in parts if part is not parts[at]]
    others = [part for it in rounds if it is not parts for part in it]
    return not own & _matched([*rest, *(it for it in others if it != parts[at])], flags)


CHARACTERS = [chr(code) for code in (*range(128), 0xA0, 0xE9, 0x2013, 0x2028, 0x3000, 0x4E00)]


def _matched(parts: Parsed, flags: int) -> frozenset[str]:
    """The characters, of a sample, that something in it matches."""
    found: set[str] = set()
    for code, argument in parts:
        if code in (op.LITERAL, op.NOT_LITERAL, op.IN, op.ANY):
            found |= {it for it in CHARACTERS if _matches(code, argument, it, flags)}
        elif code is op.GROUPREF:
            found |= set(CHARACTERS)
        for inner in _inner(code, argument):
            found |= _matched(inner, flags)
    return frozenset(found)


def _matches(code: Any, argument: Any, character: str, flags: int) -> bool:
    if flags & re.IGNORECASE:
        return any(_fits(code, argument, it) for it in (character.lower(), character.upper()))
    return _fits(code, argument, character)


def _fits(code: Any, argument: Any, character: str) -> bool:
    if code is op.ANY:
        return True
    if code is op.IN:
        negated = argument[0][0] is op.NEGATE
        return negated != any(
            _fits(kind, it, character) for kind, it in argument if kind is not op.NEGATE
        )
    if code is op.RANGE:
        return argument[0] <= ord(character) <= argument[1]
    if code is op.CATEGORY:
        name = str(argument).rpartition("_")[2].lower()
        kind = {"digit": r"\d", "space": r"\s", "word": r"\w"}[name]
        return bool(re.match(kind, character)) != ("NOT" in str(argument))
    return (argument == ord(character)) != (code is op.NOT_LITERAL)


def patterns() -> Iterator[tuple[str, str, int]]:
    """Place, text and flags of all patterns in the package; what is put in counts as a word."""
    for path in (path for path, source in sources().items() if "re." in source):
        module = parsed(path)
        known = dict(_constants(module))
        for node in walk(module):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id == "re"
                and node.func.attr in FUNCTIONS
                and node.args
            ):
                text = _text(node.args[0], known)
                if text is not None:
                    yield f"{path.relative_to(PACKAGE)}:{node.lineno}", text, _flags(node)


def _constants(module: ast.Module) -> Iterator[tuple[str, str]]:
    for node in module.body:
        value = getattr(node, "value", None)
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and isinstance(value, ast.expr):
            text = _text(value, {})
            if text is not None:
                yield target.id, text


def _text(node: ast.expr, known: dict[str, str]) -> str | None:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Constant(value=bytes(data)):
            return data.decode("latin-1")
        case ast.JoinedStr(values=values):
            return "".join(_text(it, known) or "" for it in values)
        case ast.FormattedValue(value=ast.Name(id=name)):
            return known.get(name, "x")
        case ast.FormattedValue():
            return "x"
        case ast.BinOp(left=left, right=right, op=ast.Add()):
            return (_text(left, known) or "x") + (_text(right, known) or "x")
        case ast.Name(id=name):
            return known.get(name)
        case _:
            return None


def _flags(node: ast.Call) -> int:
    named = {it.attr for it in ast.walk(node) if isinstance(it, ast.Attribute)}
    return sum(getattr(re, it) for it in named if it.isupper() and hasattr(re, it))


def test_no_pattern_of_the_package_has_ambiguous_loops() -> None:
    every = list(patterns())
    assert len(every) > 300, "they are found"
    found = [
        f"{place}: {text!r}: {what}" for place, text, flags in every for what in excess(text, flags)
    ]
    assert found == []


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a+)+b",
        r"(?:\s*(?:#.*)?\n)*x",
        r"(?:\w+=\S*\s+)*x",
        r"(\w|\d+)*x",
        r"(?:a*,?)*",
        r"(x+x+)+",
    ],
)
def test_ambiguous_loops_are_found(pattern: str) -> None:
    assert excess(pattern)


@pytest.mark.parametrize(
    "pattern",
    [r"(?:,\w+)*", r"(?:\w+,)+", r"(?:a++)*b", r"(?:(?>\s+)x)*", r"\w+\s*", r"(?:[^\n]*\n)*"],
)
def test_loops_that_can_be_divided_in_one_way_only_are_taken(pattern: str) -> None:
    assert not excess(pattern)
