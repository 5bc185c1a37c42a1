"""What a Python expression comes to, as far as it is made of constants; nothing is run.

Texts with their lines, lists of texts, and dicts of texts. Names count that were bound to such a
value before; anything else is a hole in the text.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from counterpoint.flags.sources.traced import (
    Budget,
    Traced,
    inherited,
    joined,
    known,
    located,
    unknown,
)

_ENVIRONS: Final = ("os.environ", "environ", "os.environ.copy()", "environ.copy()")
_ROWS: Final = 4
_BITS: Final = 64
_ARITHMETIC: Final[dict[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.LShift: lambda number, bits: number << bits,
}

Value: TypeAlias = "Traced | Items | Entries"


@dataclass(slots=True)
class Items:
    """A list or tuple of values."""

    items: list[Value] = field(default_factory=list["Value"])


@dataclass(slots=True)
class Entries:
    """A dict with texts for keys."""

    entries: dict[str, Value] = field(default_factory=dict[str, "Value"])
    open: bool = False  # more may be in it


@dataclass(slots=True)
class Evaluator:
    """The lines, and the names bound so far; `environ` holds what the program has set."""

    lines: Sequence[str]
    names: dict[str, Value] = field(default_factory=dict[str, "Value"])
    environ: Mapping[str, Traced] = field(default_factory=dict[str, Traced])
    budget: Budget = field(default_factory=lambda: Budget(""))
    _found: dict[ast.expr, Value] = field(default_factory=dict[ast.expr, "Value"])

    def value(self, node: ast.expr) -> Value:
        """A value, with holes where it is not known; as it was when the node was come to."""
        if node not in self._found:
            found = self._value(node)
            if isinstance(found, Traced):
                self.budget.spend(found, node.lineno)
            else:
                self.budget.spend_on(_size(found), node.lineno)
            self._found[node] = found
        return self._found[node]

    def _value(self, node: ast.expr) -> Value:
        readers: dict[type[ast.expr], Callable[[Any], Value]] = {
            ast.Constant: self._constant,
            ast.Name: self._name,
            ast.JoinedStr: self._joined,
            ast.BinOp: self._sum,
            ast.BoolOp: self._either,
            ast.List: self._items,
            ast.Tuple: self._items,
            ast.Set: self._items,
            ast.Dict: self._dict,
            ast.Call: self._call,
            ast.Subscript: self._subscript,
        }
        return readers.get(type(node), self._hole)(node)

    def text(self, node: ast.expr) -> Traced:
        """A value as text."""
        value = self.value(node)
        return value if isinstance(value, Traced) else self._hole(node)

    def _hole(self, node: ast.expr) -> Traced:
        return unknown(segment(self.lines, node), node.lineno)

    def _constant(self, node: ast.Constant) -> Traced:
        if not isinstance(node.value, str):
            return known(str(node.value), node.lineno)
        return located(node.value, self.lines, node.lineno, node.end_lineno or node.lineno)

    def _name(self, node: ast.Name) -> Value:
        return self.names.get(node.id) or self._hole(node)

    def _joined(self, node: ast.JoinedStr) -> Traced:
        return joined(self._formatted(part) for part in node.values)

    def _formatted(self, part: ast.expr) -> Traced:
        if isinstance(part, ast.FormattedValue):
            return self.text(part.value)
        return self.text(part)

    def _sum(self, node: ast.BinOp) -> Value:
        if (number := _number(node)) is not None:
            return known(str(number), node.lineno)
        if not isinstance(node.op, ast.Add):
            return self._hole(node)
        left, right = self.value(node.left), self.value(node.right)
        if isinstance(left, Items) and isinstance(right, Items):
            return Items([*left.items, *right.items])
        return self._as_text(left, node.left) + self._as_text(right, node.right)

    def _either(self, node: ast.BoolOp) -> Value:
        """`os.environ.get("XLA_FLAGS") or ""`: what stands first is inherited."""
        first, *others = node.values
        before = self.value(first)
        if isinstance(node.op, ast.And) or not isinstance(before, Traced) or before.text:
            return self._hole(node)
        return before + self.text(others[0]) if len(others) == 1 else self._hole(node)

    def _as_text(self, value: Value, node: ast.expr) -> Traced:
        return value if isinstance(value, Traced) else self._hole(node)

    def _items(self, whole: ast.List | ast.Tuple | ast.Set) -> Items:
        items: list[Value] = []
        for node in whole.elts:
            if isinstance(node, ast.Starred):
                inner = self.value(node.value)
                items += inner.items if isinstance(inner, Items) else [self._hole(node)]
            else:
                items.append(self.value(node))
        return Items(items)

    def _dict(self, node: ast.Dict) -> Entries:
        found = Entries()
        for key, value in zip(node.keys, node.values, strict=True):
            inner = self.value(value)
            if key is None:  # **other
                found.entries |= inner.entries if isinstance(inner, Entries) else {}
                found.open = found.open or self._is_open(inner)
                continue
            name = self.value(key)
            if isinstance(name, Traced) and name.known:
                found.entries[name.text] = inner
            else:
                found.open = True
        return found

    def _call(self, node: ast.Call) -> Value:
        name = dotted(node.func)
        if name in ("dict", "collections.OrderedDict"):
            return self._entries(node)
        if name == "str" and len(node.args) == 1:
            return self.value(node.args[0])
        if name == "shlex.split" and node.args:
            return Items([self.value(node.args[0])])
        if isinstance(node.func, ast.Attribute):
            return self._method(node.func, node)
        return self._hole(node)

    def _entries(self, node: ast.Call) -> Entries:
        """`dict(other, NAME=value, **another)`."""
        found = Entries()
        wholes = [*node.args, *(it.value for it in node.keywords if it.arg is None)]
        for value in map(self.value, wholes):
            found.entries |= value.entries if isinstance(value, Entries) else {}
            found.open = found.open or self._is_open(value)
        found.entries |= {it.arg: self.value(it.value) for it in node.keywords if it.arg}
        return found

    def _is_open(self, value: Value) -> bool:
        """Whether it may hold what is not known; the own environment is read where it is set."""
        return value.open if isinstance(value, Entries) else not stands_for_environ(value)

    def _method(self, function: ast.Attribute, node: ast.Call) -> Value:
        if function.attr == "join" and len(node.args) == 1:
            items = self.value(node.args[0])
            separator = self.value(function.value)
            if isinstance(items, Items) and isinstance(separator, Traced):
                texts = [it for it in items.items if isinstance(it, Traced)]
                return joined(texts, separator.text)
        if function.attr in ("get", "getenv", "setdefault") and node.args:
            return self._get(function, node)
        if function.attr in ("strip", "lstrip", "rstrip", "copy") and not node.args:
            return self.value(function.value)
        if function.attr == "split" and not node.args:
            return Items([self.value(function.value)])
        return self._hole(node)

    def _get(self, function: ast.Attribute, node: ast.Call) -> Value:
        """`os.environ.get("XLA_FLAGS", "")`: what was set here before, else what it inherits."""
        key = self.value(node.args[0])
        if not isinstance(key, Traced) or not key.known:
            return self._hole(node)
        if key.text in self.environ:
            return self.environ[key.text]
        own = _is_environ(function.value)
        default = self.value(node.args[1]) if len(node.args) > 1 else Traced()
        if default == known("None", node.lineno):
            default = Traced()
        holds_flags = key.text.endswith(("_FLAGS", "_ARGS"))
        if holds_flags and isinstance(default, Traced) and (own or not default.text):
            return inherited(key.text, node.lineno) + default
        return default if len(node.args) > 1 and own else self._hole(node)

    def _subscript(self, node: ast.Subscript) -> Value:
        key = self.value(node.slice)
        if not isinstance(key, Traced) or not key.known:
            return self._hole(node)
        if _is_environ(node.value):
            flags = key.text.endswith(("_FLAGS", "_ARGS"))
            before = inherited(key.text, node.lineno) if flags else self._hole(node)
            return self.environ.get(key.text) or before
        whole = self.value(node.value)
        if isinstance(whole, Entries) and key.text in whole.entries:
            return whole.entries[key.text]
        return self.environ.get(key.text) or self._hole(node)


def _size(value: Items | Entries) -> int:
    return len(value.items) if isinstance(value, Items) else len(value.entries)


def _number(node: ast.expr) -> int | None:
    """`64 * 1024 * 1024`."""
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return value
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            one, other = _number(left), _number(right)
            if one is None or other is None or (type(op) is ast.LShift and not 0 <= other < _BITS):
                return None
            number = _ARITHMETIC[type(op)](one, other)
            return number if abs(number) < 1 << _BITS else None
        case _:
            return None


def segment(lines: Sequence[str], node: ast.expr | ast.stmt) -> str:
    """How an expression is written, on one line, and not all of it where it is long."""
    last = node.end_lineno or node.lineno
    rows = [line.encode() for line in lines[node.lineno - 1 : min(last, node.lineno + _ROWS)]]
    if last < node.lineno + _ROWS:
        rows[-1] = rows[-1][: node.end_col_offset]
    rows[0] = rows[0][node.col_offset :]
    return " ".join(b" ".join(rows).decode(errors="replace").split())


def dotted(node: ast.expr) -> str:
    """`os.environ.get` of an attribute, or nothing."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return f"{before}.{node.attr}" if before else ""
    return ""


def _is_environ(node: ast.expr) -> bool:
    return dotted(node).rpartition(".")[2] in ("environ", "os")


def stands_for_environ(value: Value) -> bool:
    """Whether a value is the environment that the program finds, or a copy of it."""
    return isinstance(value, Traced) and value.shown in _ENVIRONS


def is_environ(node: ast.expr) -> bool:
    """Whether an expression is the environment of the own process."""
    return _is_environ(node)
