"""Settings that a Python program makes, read from its source by `ast`; nothing is run.

Statements are read in the order of their lines; branches, loops and functions are marked. Reads
`os.environ` in its forms, `jax.config.update`, `compiler_options=`, and dicts whose keys are such
variables or flags. What may set more and can't be read here (`load_dotenv()`, `exec`, an `env=`
from elsewhere) is listed as not read.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from counterpoint.core import InputError
from counterpoint.flags.parse.flag_values import (
    AS_TEXT,
    Assignment,
    may_set,
    parse_assignments,
    value_origin,
)
from counterpoint.flags.parse.jax_use import (
    JaxUse,
    flag_entries,
    for_their_chip,
    is_config,
    is_nearly_config,
)
from counterpoint.flags.parse.python_values import (
    Entries,
    Evaluator,
    Items,
    Value,
    dotted,
    is_environ,
    may_hold_more,
    segment,
    stands_for_environ,
)
from counterpoint.flags.parse.scan import Scan
from counterpoint.flags.parse.traced import TracedText, either, inherited, known
from counterpoint.flags.parsed import (
    PROGRAM,
    Branch,
    Location,
    Occurrence,
)
from counterpoint.flags.settings import FLAG_VARIABLES, Channel, is_setting

_MARKS: Final = re.compile(
    r"\bwith\b[^\n]*\w\.\w+\(|environ|putenv|setenv|dotenv|_FLAGS|_ARGS|\b(?:xla|megascale)_\w|config\.update"
    r"|compiler_options|compile_options|\b(?:NCCL|JAX|XLA|CUDA|jax)_"
)
"""A program without any of these sets nothing."""
_CONFIG_UPDATE: Final = re.compile(r"jax(?:\._src)?(?:\.config)+\.update")
_CONTEXT: Final = re.compile(r"(?:jax\.(?:_src\.)?)?config\.(\w+)|jax\.(\w+)")
"""A value of JAX's configuration for one block: `with jax.debug_nans(True)`."""
_CONFIG_VALUE: Final = re.compile(r"jax(?:\._src)?(?:\.config)+\.\w+")
"""What an assignment can't set: an option is a property without a setter."""
_OPTIONS: Final = ("compiler_options", "xla_compiler_options", "compile_options")
_SETTERS: Final = ("putenv", "setdefault", "setenv", "__setitem__")
_TAKERS: Final = ("delenv", "pop", "unsetenv")
_HANDED: Final = ("env", "runtime_env", "env_vars", "compiler_options", "xla_compiler_options")
_LOADS: Final = re.compile(
    r"(?:.+\.)?(?:load_dotenv|read_dotenv|read_env|run_path|run_module)|exec|execfile"
)
_STARTS: Final = re.compile(
    r"(?:(?:.+\.)?subprocess\.|sp\.)?(?:run|call)|os\.(?:system|popen|posix_spawnp?)"
    r"|(?:.+\.)?(?:Popen|check_call|check_output|getoutput|create_subprocess_(?:exec|shell))"
)
_REPLACES: Final = re.compile(r"os\.(?:exec|spawn)[lv]p?e")
_SETS_BY_NAME: Final = re.compile(
    r"\w*xla_?(?:flags|env\w*|options)"
    r"|(?:set|setup|load|apply|configure|update|export)_"
    r"(?:(?:\w+_)?(?:env|environ\w*)(?:_vars)?|(?:(?:jax|gpu|tpu|libtpu)_)?flags)"
)
_SHOWN: Final = 60
_APPENDING: Final = 'os.environ["{name}"] += " {start} ..."'
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def _equalities(test: ast.expr) -> Iterator[tuple[str, str]]:
    """Yield choices between the values of a variable: two `if platform == ...` exclude each other.

    Another value that it is given in between only makes them look like alternatives.
    """
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        for part in test.values:
            yield from _equalities(part)
    elif isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq) and len(test.ops) == 1:
        left, right = test.left, test.comparators[0]
        if dotted(left) and isinstance(right, ast.Constant):
            yield f"{dotted(left)} ==", repr(right.value)


class _Walker(ast.NodeVisitor):
    """Visits statement by statement, in the order of the source."""

    def __init__(self, text: str, scan: Scan, defined: frozenset[str]) -> None:
        self.scan = scan
        self.defined = defined
        self.earlier: dict[str, Branch] = {}  # where a variable was set
        self.dicts: list[Occurrence] = []  # flags in dicts of unknown use
        self.evaluator = Evaluator(text.split("\n"), scan.values, scan.budget)
        self.jax = JaxUse()
        self.known_dicts: set[ast.expr] = set()  # dicts whose position defines their use

    # Statements.

    def _body(self, statements: Sequence[ast.AST], choice: str = "", arm: str = "") -> None:
        outer, self.scan.branch = (
            self.scan.branch,
            (*self.scan.branch, *([(choice, arm)] if choice else ())),
        )
        for statement in statements:
            self.visit(statement)
        self.scan.branch = outer

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        self.jax.see_import(node)

    visit_ImportFrom = visit_Import  # noqa: N815

    def visit_FunctionDef(self, node: _Function) -> None:
        """Visit a function in a scope of its own; when it runs is not known."""
        outer = self.evaluator, self.jax
        self.evaluator = self.evaluator.inside(node)
        self.jax = JaxUse(names=dict(self.jax.names))
        inside = any(choice == "function" for choice, _ in self.scan.branch)
        self._body(node.body, *(() if inside else ("function", f"{node.name}:{node.lineno}")))
        self.evaluator, self.jax = outer

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._body(node.body)

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        main = isinstance(node.test, ast.Compare) and dotted(node.test.left) == "__name__"
        choice = "" if main else f"if {node.lineno}"
        outer = self.scan.branch
        self.scan.branch = (*outer, *(() if main else _equalities(node.test)))
        self._body(node.body, choice, "then")
        self.scan.branch = outer
        self._body(node.orelse, choice, "else")

    def visit_For(self, node: ast.For | ast.AsyncFor | ast.While) -> None:
        targets = () if isinstance(node, ast.While) else ast.walk(node.target)
        for name in targets:
            if isinstance(name, ast.Name):
                self.evaluator.names.pop(name.id, None)
        self.visit(node.test if isinstance(node, ast.While) else node.iter)
        kind = "while" if isinstance(node, ast.While) else "for"
        self._body([*node.body, *node.orelse], f"{kind} {node.lineno}")

    visit_AsyncFor = visit_While = visit_For  # noqa: N815

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        self._body(node.body, f"except {node.lineno}")

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            if isinstance(item.context_expr, ast.Call):
                self._context(item.context_expr)
        self.generic_visit(node)

    visit_AsyncWith = visit_With  # noqa: N815

    def visit_Match(self, node: ast.Match) -> None:
        for number, arm in enumerate(node.cases):
            self._body(arm.body, f"match {node.lineno}", str(number))

    def visit_Expr(self, node: ast.Expr) -> None:
        self.generic_visit(node)
        if isinstance(node.value, ast.Call):
            last = dotted(node.value.func).rpartition(".")[2]
            if _SETS_BY_NAME.fullmatch(last) and last not in self.defined:
                self._leave(node)

    def visit_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Subscript) and (name := self._key(target)):
                self._take_out(name, node)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        value = self.evaluator.value(node.value)
        for target in node.targets:
            self._bind(target, value, node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)
            self._bind(node.target, self.evaluator.value(node.value), node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.visit(node.value)
        value, target = self.evaluator.value(node.value), node.target
        if isinstance(node.op, ast.BitOr) and self._environ_like(target):
            self._update(value, node, target)
        elif not isinstance(node.op, ast.Add):
            return
        elif isinstance(target, ast.Name):
            before = self.evaluator.names.get(target.id)
            if isinstance(value, Items):
                self._extend(target, value.items)
            elif isinstance(before, TracedText) and isinstance(value, TracedText):
                together = before + value.within(self.scan.branch)
                self.evaluator.budget.spend(together, node.lineno)
                self.evaluator.names[target.id] = together
            else:
                self.evaluator.names.pop(target.id, None)
        elif isinstance(target, ast.Subscript):
            name = self._key(target)
            if name and isinstance(value, TracedText):
                together = self._before(name, node.lineno) + value
                self.evaluator.budget.spend(together, node.lineno)
                self._set(name, together, node, target.value)
            elif self._environ_like(target.value):
                self._leave(node)

    def _before(self, name: str, line: int) -> TracedText:
        """Return what is added to; if set by another function, with a space at its end."""
        before = self.scan.values.get(name)
        if before is None:
            return self.scan.inherited(name, line)
        earlier = self.earlier.get(name, ())
        functions = [dict(branch).get("function") for branch in (earlier, self.scan.branch)]
        if before.text and functions[0] and functions[0] != functions[1]:
            note = f"line {line}: several functions append to {name}; read in order"
            self.scan.notes[note] = None
            return before + known(" ", line)
        return before

    def _bind(self, target: ast.expr, value: Value, node: ast.stmt) -> None:
        if isinstance(target, ast.Name):
            self.evaluator.names[target.id] = value
            if target.id in FLAG_VARIABLES and isinstance(value, TracedText):
                self._set(target.id, value, node, target)
            elif target.id in _OPTIONS:
                self._options(value, node.lineno)
        elif isinstance(target, ast.Tuple | ast.List):
            for element in target.elts:
                self._bind(element, self.evaluator.text(target), node)
        elif isinstance(target, ast.Subscript):
            self._put(target, value, node)
        elif is_environ(target):
            self._update(value, node, target)
        elif _CONFIG_VALUE.fullmatch(self.jax.full_name(target)):
            self._leave(node)

    def _put(self, target: ast.Subscript, value: Value, node: ast.stmt) -> None:
        """Process `os.environ[name] = value`."""
        name, plain = self._key(target), self.evaluator.key(target.slice) is not None
        if name and isinstance(value, TracedText):
            self._set(name, value, node, target.value)
        elif self._environ_like(target.value):
            if name or not plain:
                self._leave(node)
        elif not plain:
            self._open(target.value)

    def _extend(self, target: ast.expr, more: Sequence[Value]) -> None:
        """Extend a list, as in `flags += [...]`, even if its content is not known."""
        before = self.evaluator.value(target) if isinstance(target, ast.Name) else Entries()
        if isinstance(target, ast.Name) and not isinstance(before, Entries):
            here = self.scan.branch
            more = [it.within(here) if isinstance(it, TracedText) else it for it in more]
            items = [*before.items, *more] if isinstance(before, Items) else [before, *more]
            self.evaluator.budget.spend_on(len(items), target.lineno)
            self.evaluator.names[target.id] = Items(items)

    def _open(self, target: ast.expr) -> None:
        """Mark a named dict as open: something unknown is put into it."""
        named = self.evaluator.names.get(target.id) if isinstance(target, ast.Name) else None
        if isinstance(named, Entries):
            named.open = True

    def _take_out(self, name: str, node: ast.expr | ast.stmt) -> None:
        """List a deletion as not read: it may precede or follow the program's start."""
        if name in self.scan.values and is_setting(name):
            self._leave(node)

    def _key(self, target: ast.Subscript) -> str | None:
        key = self.evaluator.key(target.slice)
        return key if key and (is_environ(target.value) or is_setting(key)) else None

    def _environ_like(self, node: ast.expr) -> bool:
        """Return whether it is the environment, a copy of it, or another name for one of them."""
        if dotted(node).rpartition(".")[2] in ("environ", "environb"):
            return True
        named = isinstance(node, ast.Name | ast.Call)
        return named and stands_for_environ(self.evaluator.value(node))

    # Calls and dicts.

    def visit_Dict(self, node: ast.Dict) -> None:
        self.generic_visit(node)
        self._dict(node)

    def _dict(self, node: ast.expr) -> None:
        value = self.evaluator.value(node)
        if isinstance(value, Entries) and node not in self.known_dicts:
            self._update(value, node, None)

    def visit_Call(self, node: ast.Call) -> None:
        function, name = node.func, dotted(node.func)
        if isinstance(function, ast.Attribute) and function.attr == "update":
            self.known_dicts.update(node.args)
        self.generic_visit(node)
        unread = bool(_LOADS.fullmatch(name))
        if name == "dict":
            self._dict(node)
        elif isinstance(function, ast.Attribute):
            unread = self._method(node, function) or unread
        if _CONFIG_UPDATE.fullmatch(self.jax.full_name(function)) and len(node.args) > 1:
            unread = not self._config(node) or unread
        for keyword in node.keywords:
            value = self.evaluator.value(keyword.value)
            if keyword.arg in _OPTIONS:
                self._options(value, keyword.value.lineno)
            elif keyword.arg == "env" and isinstance(value, Entries):
                self._update(value, node, None)
        if unread or self._hands_over(node, name):
            self._leave(node)
        self.jax.see_call(node, self.scan.branch)

    def _method(self, node: ast.Call, function: ast.Attribute) -> bool:
        """Process a method call; return True if it may set something unknown."""
        target, method = function.value, function.attr
        environ = self._environ_like(target)
        own = environ or dotted(target) == "os"
        first = self.evaluator.key(node.args[0]) if node.args else None
        if method in ("append", "extend"):
            for value in map(self.evaluator.value, node.args):
                items = value.items if isinstance(value, Items) else [value]
                self._extend(target, items if method == "extend" else [value])
        elif method in ("update", "__ior__"):
            more = self.evaluator.entries(node)
            self._update(more, node, target)
            if more.open and not environ:
                self._open(target)
        elif method in _SETTERS and len(node.args) > 1:
            if first is None:
                return own
            self._setter(first, node, function)
        elif first and method in _TAKERS and (own or method == "delenv"):
            self._take_out(first, node)
        return method == "clear" and environ

    def _setter(self, name: str, node: ast.Call, function: ast.Attribute) -> None:
        """Process `os.putenv(name, value)`, or `.setdefault`, which keeps the inherited value."""
        value = self.evaluator.value(node.args[1])
        keeps = function.attr == "setdefault"
        if not isinstance(value, TracedText) or (keeps and name in self.scan.values):
            return
        if keeps and name in FLAG_VARIABLES:
            value = either(inherited(name, node.lineno), value)
        if is_environ(function.value) or is_setting(name):
            self._set(name, value, node, function.value)

    def _hands_over(self, node: ast.Call, name: str) -> bool:
        """Return whether a call passes unknown settings in `env=`, `compiler_options=` etc."""
        if _REPLACES.fullmatch(name) and node.args:
            return may_hold_more(self.evaluator.value(node.args[-1]))
        given = {word.arg: word.value for word in node.keywords if word.arg in _HANDED}
        if not _STARTS.fullmatch(name):
            given.pop("env", None)  # for example, an environment for reinforcement learning
        elif node.args:
            command = self.evaluator.value(node.args[0])
            items = command.items if isinstance(command, Items) else [command]
            if any(may_set(item.shown) for item in items if isinstance(item, TracedText)):
                return True
        return any(may_hold_more(self.evaluator.value(value)) for value in given.values())

    def _config(self, node: ast.Call) -> bool:
        """Process `jax.config.update(name, value)`; return False if the name is not known."""
        name = self.evaluator.key(node.args[0])
        if name is None:
            return False
        self._configure(name, node.args[1], node)
        return True

    def _configure(self, name: str, argument: ast.expr, node: ast.Call) -> None:
        value, scan = self.evaluator.text(argument), self.scan
        if value.shown in ("True", "False"):
            value = known(value.shown.lower(), value.line)
        whole = segment(self.evaluator.lines, node)
        same = (Channel.JAX_CONFIG, name)
        scan.options = [old for old in scan.options if (old.channel, old.name) != same]
        scan.option(Channel.JAX_CONFIG, name, value, node.lineno, text=whole)

    def _context(self, node: ast.Call) -> None:
        """Process a value of JAX's configuration that holds in a block."""
        match = _CONTEXT.fullmatch(self.jax.full_name(node.func))
        option = f"jax_{match[1] or match[2]}" if match is not None else ""
        if len(node.args) != 1 or not option:
            return
        if is_config(option):
            note = f"line {node.lineno}: {option} holds in its block; read as if everywhere"
            self.scan.notes[note] = None
        elif not is_nearly_config(option):
            return
        self._configure(option, node.args[0], node)

    def _options(self, value: Value, line: int) -> None:
        if isinstance(value, Entries):
            self.scan.budget.spend_on(len(self.scan.options), line)
            options = self._entries(value, line)
            self.scan.options += [one for one in options if one not in self.scan.options]

    def _entries(self, value: Entries, line: int) -> list[Occurrence]:
        """Return the entries of a dict as compiler options."""
        return [
            Occurrence(
                channel=Channel.COMPILER_OPTIONS,
                name=name,
                value=inner.shown,
                place=Location(self.scan.where, inner.line or line),
                text=f'"{name}": {inner.shown}',
                origin=value_origin(inner.pieces),
                branch=self.scan.branch,
            )
            for name, inner in value.entries.items()
            if isinstance(inner, TracedText)
        ]

    # Assigning.

    def _update(self, value: Value, node: ast.expr | ast.stmt, target: ast.expr | None) -> None:
        """Process a dict, or what is put into the environment: of anything else, a part is left."""
        own = target is not None and is_environ(target)
        if target is not None and self._environ_like(target) and may_hold_more(value):
            self._leave(node)
        if not isinstance(value, Entries):
            return
        if flags := flag_entries(value):
            assigned = self._entries(flags, node.lineno)
            self.dicts += [one for one in assigned if one not in self.dicts]
        for name, inner in value.entries.items():
            if isinstance(inner, TracedText) and (own or is_setting(name)):
                self._set(name, inner, node, target, line=inner.line)

    def _set(
        self,
        name: str,
        value: TracedText,
        node: ast.expr | ast.stmt,
        target: ast.expr | None,
        *,
        line: int | None = None,
    ) -> None:
        """Set a variable of this program, or of one that gets a dict as its environment."""
        scan, what = self.scan, dotted(target) if target is not None else ""
        if late := self.jax.too_late(name, value, Location(scan.where, node.lineno), scan.branch):
            one = Assignment(name, value.within(scan.branch), "", node.lineno, scan.branch)
            lost = parse_assignments([one], scan.where).given
            scan.issues.append(replace(late, lost=tuple(lost)))
            return
        value = value.within(scan.branch)
        self.earlier[name] = scan.branch
        if target is not None and is_environ(target):
            scan.give(name, value, line or node.lineno)
        else:
            scan.notes[f"`{what or 'a dict'}` is read as the environment of a program"] = None
            with scan.inside(PROGRAM, what or f"dict {node.lineno}"):
                scan.give(name, value, line or node.lineno, "" if what == name else what)
        scan.values[name] = value

    def _leave(self, node: ast.expr | ast.stmt) -> None:
        """List what may set something and was not read."""
        text = segment(self.evaluator.lines, node)
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
        self.scan.left[f"line {node.lineno}: {shown}"] = node.lineno


def scan_python(text: str, scan: Scan) -> None:
    """Read all settings of a program."""
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as failure:
        place = f":{failure.lineno}" if isinstance(failure, SyntaxError) else ""
        reason = failure.msg if isinstance(failure, SyntaxError) else "it can't be parsed"
        raise InputError(f"{scan.where}{place}: not Python: {reason}", next=AS_TEXT) from None
    if not _MARKS.search(text):
        return
    defined = frozenset(node.name for node in ast.walk(module) if isinstance(node, _Function))
    walker = _Walker(text, scan, defined)
    outer, scan.appending = scan.appending, _APPENDING
    walker.visit(module)
    scan.appending = outer
    loose = list(for_their_chip(entry for entry in walker.dicts if entry not in scan.options))
    if loose:
        scan.notes[f"dicts of flags are read as {loose[0].channel}"] = None
        scan.options += loose
