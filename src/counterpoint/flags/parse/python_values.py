"""Values of Python expressions, as far as they consist of constants; nothing is run.

Texts with their lines, lists, and dicts. Names that were bound to such a value before are resolved;
anything else is a hole in the text.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, TypeAlias

from counterpoint.flags.parse.traced import (
    TextBudget,
    TracedText,
    either,
    inherited,
    joined,
    known,
    located,
    unknown,
)

_PERCENT: Final = re.compile(r"%[-#0 +]*\d*(?:\.\d+)?[a-z]")
_BRACES: Final = re.compile(r"\{[^{}]*\}")
_ROWS: Final = 4
_BITS: Final = 64
_ARITHMETIC: Final[dict[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}

Value: TypeAlias = "TracedText | Items | Entries"


@dataclass(slots=True)
class Items:
    """A list or tuple of values."""

    items: list[Value] = field(default_factory=list["Value"])


@dataclass(slots=True)
class Entries:
    """A dict with text keys; `open`: it may contain more."""

    entries: dict[str, Value] = field(default_factory=dict[str, "Value"])
    open: bool = False

    def take(self, other: Value) -> None:
        """Add another dict's entries; of anything else the content is unknown."""
        if isinstance(other, Entries):
            self.entries |= other.entries
        self.open = self.open or may_hold_more(other)


@dataclass(slots=True)
class Evaluator:
    """Source lines and the names bound so far; `environ` holds what the program has set."""

    lines: Sequence[str]
    environ: Mapping[str, TracedText]
    budget: TextBudget
    names: dict[str, Value] = field(default_factory=dict[str, "Value"])
    _values: dict[ast.expr, Value] = field(default_factory=dict[ast.expr, "Value"])

    def inside(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Evaluator:
        """Return an evaluator for a function, where its parameters are not known."""
        self.budget.spend_on(len(self.names), function.lineno)
        arguments = function.args
        parameters = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        names = self.names.copy()
        for parameter in parameters:
            names.pop(parameter.arg, None)
        return Evaluator(self.lines, self.environ, self.budget, names)

    def value(self, node: ast.expr) -> Value:
        """Return a value, with holes for unknown parts; cached from the first visit of the node."""
        if node not in self._values:
            value = self._value(node)
            inner = value.items if isinstance(value, Items) else ()
            inner = value.entries if isinstance(value, Entries) else inner
            size = value.size if isinstance(value, TracedText) else len(inner)
            self.budget.spend_on(size, node.lineno)
            self._values[node] = value
        return self._values[node]

    def text(self, node: ast.expr) -> TracedText:
        """Return a value as text."""
        value = self.value(node)
        return value if isinstance(value, TracedText) else self._hole(node)

    def key(self, node: ast.expr) -> str | None:
        """Return a text, if all of it is known."""
        value = self.value(node)
        return value.text if isinstance(value, TracedText) and value.known else None

    def entries(self, node: ast.Call) -> Entries:
        """Return the arguments of `dict(other, NAME=value, **another)` and `.update(...)`."""
        taken = Entries()
        for value in (*node.args, *(word.value for word in node.keywords if word.arg is None)):
            taken.take(self.value(value))
        taken.entries |= {word.arg: self.value(word.value) for word in node.keywords if word.arg}
        return taken

    def _hole(self, node: ast.expr) -> TracedText:
        return unknown(segment(self.lines, node), node.lineno)

    def _value(self, node: ast.expr) -> Value:  # noqa: C901, PLR0911, PLR0912 - one for each kind
        match node:
            case ast.Constant(value=str(text)):
                return located(text, self.lines, node.lineno, node.end_lineno or node.lineno)
            case ast.Constant(value=constant):
                return known(str(constant), node.lineno)
            case ast.Name(id=name) if name in self.names:
                return self.names[name]
            case ast.JoinedStr(values=parts):
                return joined([self._formatted(part) for part in parts])
            case ast.BinOp(left=left, op=ast.Mod()):
                return self._filled(left, _PERCENT, node)
            case ast.BinOp():
                return self._sum(node)
            case ast.IfExp(body=body, orelse=orelse):
                return self._either(self.text(body), self.text(orelse), node)
            case ast.BoolOp(op=ast.Or(), values=[first, default]):
                before = self.value(first)  # os.environ.get("XLA_FLAGS") or ""
                inherits = isinstance(before, TracedText) and not before.text
                texts = self.text(first), self.text(default)
                return either(*texts) if inherits else self._hole(node)
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                return self._items(elements)
            case ast.Dict():
                return self._dict(node)
            case ast.Call():
                return self._call(node)
            case ast.Subscript():
                return self._subscript(node)
            case _:
                return self._hole(node)

    def _formatted(self, part: ast.expr) -> TracedText:
        if not isinstance(part, ast.FormattedValue):
            return self.text(part)
        plain = part.conversion < 0 and part.format_spec is None
        return self.text(part.value) if plain else self._hole(part.value)

    def _sum(self, node: ast.BinOp) -> Value:
        if (number := _number(node)) is not None:
            return known(str(number), node.lineno)
        if not isinstance(node.op, ast.Add):
            return self._hole(node)
        left, right = self.value(node.left), self.value(node.right)
        if isinstance(left, Items) and isinstance(right, Items):
            return Items([*left.items, *right.items])
        return self.text(node.left) + self.text(node.right)

    def _filled(self, text: ast.expr, place: re.Pattern[str], node: ast.expr) -> TracedText:
        """Evaluate `"--xla_a=%d" % n` and `"--xla_a={}".format(n)`, whose places are not known."""
        whole, parts, at = self.text(text), list[TracedText](), 0
        if not whole.known:
            return self._hole(node)
        for match in place.finditer(whole.text):
            parts += [whole.cut(at, match.start()), unknown(match[0], node.lineno)]
            at = match.end()
        return joined([*parts, whole.cut(at)])

    def _either(self, one: TracedText, other: TracedText, node: ast.expr) -> TracedText:
        """Evaluate `"--xla_a=1" if fast else ""`: of flags, those of both, each as a branch."""
        if not all(text.strip()[:1] in ("", "-") for text in (one.text, other.text)):
            return self._hole(node)
        choice = f"if {node.lineno}"
        between = known(" ", node.lineno)
        return joined([one.within(((choice, "then"),)), between, other.within(((choice, "else"),))])

    def _items(self, elements: list[ast.expr]) -> Items:
        items: list[Value] = []
        for node in elements:
            inner = self.value(node.value) if isinstance(node, ast.Starred) else None
            items += inner.items if isinstance(inner, Items) else [self.value(node)]
        return Items(items)

    def _dict(self, node: ast.Dict) -> Entries:
        written = Entries()
        for key, value in zip(node.keys, node.values, strict=True):
            inner = self.value(value)
            if key is None:  # **other
                written.take(inner)
            elif (name := self.key(key)) is not None:
                written.entries[name] = inner
            else:
                written.open = True
        return written

    def _call(self, node: ast.Call) -> Value:  # noqa: PLR0911 - one for each function
        name, function = dotted(node.func), node.func
        if name == "dict":
            return self.entries(node)
        match function, node.args:
            case ast.Name(id="str" | "list"), [only] if not node.keywords:
                return self.value(only)
            case ast.Attribute(attr="split", value=ast.Name(id="shlex")), [only]:
                return Items([self.value(only)])
            case ast.Attribute(attr="join"), [only]:
                return self._joined(function.value, only) or self._hole(node)
            case ast.Attribute(attr="get" | "getenv" | "setdefault"), [key, *default]:
                return self._get(node, is_environ(function.value), key, default)
            case ast.Attribute(attr="format"), _:
                return self._filled(function.value, _BRACES, node)
            case ast.Attribute(attr="split"), []:
                return Items([self.value(function.value)])
            case ast.Attribute(attr="strip" | "copy"), []:
                return self.value(function.value)
            case _:
                return self._hole(node)

    def _joined(self, separator: ast.expr, node: ast.expr) -> TracedText | None:
        items, between = self.value(node), self.key(separator)
        if not isinstance(items, Items) or between is None:
            return None
        texts = [item for item in items.items if isinstance(item, TracedText)]
        return joined(texts, between) if len(texts) == len(items.items) else None

    def _get(self, node: ast.Call, own: bool, name: ast.expr, rest: list[ast.expr]) -> Value:
        """Evaluate `os.environ.get("XLA_FLAGS", "")`: set here before, or else inherited."""
        key = self.key(name)
        if key is None or key in self.environ:
            return self._hole(node) if key is None else self.environ[key]
        default = self.value(rest[0]) if rest else TracedText()
        if isinstance(default, TracedText) and default.text == "None":
            default = TracedText()
        if _holds_flags(key) and isinstance(default, TracedText) and (own or not default.text):
            return either(inherited(key, node.lineno), default)
        return default if rest and own else self._hole(node)

    def _subscript(self, node: ast.Subscript) -> Value:
        key, whole = self.key(node.slice), self.value(node.value)
        if key is not None and isinstance(whole, Entries) and key in whole.entries:
            return whole.entries[key]
        if key is not None and key in self.environ:
            return self.environ[key]
        if key is not None and is_environ(node.value) and _holds_flags(key):
            return inherited(key, node.lineno)
        return self._hole(node)


def _holds_flags(name: str) -> bool:
    return name.endswith(("_FLAGS", "_ARGS"))


def _number(node: ast.expr) -> int | None:
    """Evaluate integer arithmetic such as `64 * 1024 * 1024`."""
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return value
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            left_number, right_number = _number(left), _number(right)
            if left_number is None or right_number is None:
                return None
            number = _ARITHMETIC[type(op)](left_number, right_number)
            return number if abs(number) < 1 << _BITS else None
        case _:
            return None


_encoded: Final = lru_cache(maxsize=16)(str.encode)
"""Encodes a line; the columns of an expression count bytes. One line may have very many of them."""


def segment(lines: Sequence[str], node: ast.expr | ast.stmt) -> str:
    """Return an expression as written, on one line, cut off if it is long."""
    last = node.end_lineno or node.lineno
    rows = [_encoded(line) for line in lines[node.lineno - 1 : min(last, node.lineno + _ROWS)]]
    if not rows:  # a form feed ends a line for one of the two that count them
        return ""
    if len(rows) == 1:
        rows = [rows[0][node.col_offset : node.end_col_offset if last == node.lineno else None]]
    else:
        if last < node.lineno + _ROWS:
            rows[-1] = rows[-1][: node.end_col_offset]
        rows[0] = rows[0][node.col_offset :]
    return " ".join(b" ".join(rows).decode(errors="replace").split())


def dotted(node: ast.expr) -> str:
    """Return the dotted name of an attribute, such as `os.environ.get`, or an empty text."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return f"{before}.{node.attr}" if before else ""
    return ""


def is_environ(node: ast.expr) -> bool:
    """Return whether an expression is the environment of this process."""
    return dotted(node).rpartition(".")[2] in ("environ", "environb", "os")


def stands_for_environ(value: Value) -> bool:
    """Return whether a value is the environment the program inherits, or a copy of it."""
    shown = value.shown if isinstance(value, TracedText) else ""
    return shown in ("os.environ", "environ")


def may_hold_more(value: Value) -> bool:
    """Return whether a value may hold settings that are not known."""
    if isinstance(value, Entries):
        return value.open
    if isinstance(value, TracedText) and value.shown == "None":
        return False
    return not stands_for_environ(value)
