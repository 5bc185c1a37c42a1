"""Settings that a Python program makes, read from its source; nothing is run.

Reads `os.environ` in its forms, `jax.config.update`, `compiler_options=`, and dicts whose keys are
such variables or flags. What may set more and can't be read here (`load_dotenv()`, `exec`, an
`env=` from elsewhere) is listed as not read.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from counterpoint.core import InputError
from counterpoint.flags.parse.flag_values import may_set, overwritten, parse_assignments
from counterpoint.flags.parse.python_program import (
    JaxUse,
    PythonProgram,
    flag_entries,
    for_their_chip,
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
from counterpoint.flags.parse.traced import TextBudget, TracedText, inherited, known
from counterpoint.flags.parsed import (
    Branch,
    IssueKind,
    Location,
    ParsedSource,
    SyntaxIssue,
    exclusive,
)
from counterpoint.flags.settings import FLAG_VARIABLES, Channel, is_setting

_MARKS: Final = re.compile(
    r"environ|putenv|setenv|dotenv|_FLAGS|_ARGS|\b(?:xla|megascale)_\w|config\.update"
    r"|compiler_options|compile_options|\b(?:NCCL|JAX|XLA|CUDA)_"
)
"""A program without any of these sets nothing."""
_OPTIONS: Final = ("compiler_options", "xla_compiler_options", "compile_options")
_SETTERS: Final = ("putenv", "setdefault", "setenv", "__setitem__")
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


class _Walker(ast.NodeVisitor):
    """Visits statement by statement, in the order of the source; one walker per function."""

    def __init__(
        self, program: PythonProgram, evaluator: Evaluator, jax: JaxUse, branch: Branch = ()
    ) -> None:
        self.program = program
        self.evaluator = evaluator
        self.jax = jax
        self.branch = branch
        self.blocks = 0
        self.known_dicts: set[ast.expr] = set()  # dicts whose position defines their use

    # Statements.

    def body(self, statements: Sequence[ast.stmt], *choices: tuple[str, str]) -> None:
        """Visit one branch; an `if` that leaves it puts what follows into another branch."""
        outer = self.branch
        self.branch = (*outer, *choices)
        for statement in statements:
            for line in range(statement.lineno, (statement.end_lineno or 0) + 1):
                if not hasattr(statement, "body"):
                    self.program.branches[line] = self.branch
            self.visit(statement)
            match statement:
                case ast.If(body=[*_, ast.Return() | ast.Raise()], orelse=[]):
                    self.branch = (*self.branch, (f"if {statement.lineno}", "else"))
                case _:
                    pass
        self.branch = outer

    def visit_Module(self, node: ast.Module) -> None:
        self.body(node.body)

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        self.jax.see_import(node)

    visit_ImportFrom = visit_Import  # noqa: N815

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Visit a function in a scope of its own; when it runs is not known."""
        outside = self.evaluator
        outside.budget.spend_on(len(outside.names), node.lineno)
        inner = Evaluator(outside.lines, outside.environ, outside.budget, dict(outside.names))
        walker = _Walker(self.program, inner, JaxUse(names=dict(self.jax.names)), self.branch)
        inside = any(choice == "function" for choice, _ in self.branch)
        own = () if inside else (("function", f"{node.name}:{node.lineno}"),)
        walker.body(node.body, *own)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.body(node.body)

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            self.visit(item.context_expr)
        self.body(node.body)

    visit_AsyncWith = visit_With  # noqa: N815

    def visit_Try(self, node: ast.Try | ast.TryStar) -> None:
        for part in (node.body, *(arm.body for arm in node.handlers), node.orelse, node.finalbody):
            self.body(part)

    visit_TryStar = visit_Try  # noqa: N815

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        compared: Branch = ()
        match node.test:
            case ast.Compare(left=left, ops=[ast.Eq()], comparators=[ast.Constant(value=value)]):
                compared = ((ast.unparse(left), repr(value)),)
            case _:
                pass
        self.blocks += 1
        self.body(node.body, (f"if {node.lineno}", "then"), *compared)
        self.body(node.orelse, (f"if {node.lineno}", "else"))
        self.blocks -= 1

    def visit_For(self, node: ast.For | ast.AsyncFor | ast.While) -> None:
        self.visit(node.test if isinstance(node, ast.While) else node.iter)
        if not isinstance(node, ast.While):
            for name in ast.walk(node.target):
                if isinstance(name, ast.Name):
                    self.evaluator.names.pop(name.id, None)
        self.blocks += 1
        self.body([*node.body, *node.orelse])
        self.blocks -= 1

    visit_AsyncFor = visit_While = visit_For  # noqa: N815

    def visit_Match(self, node: ast.Match) -> None:
        self.blocks += 1
        for number, arm in enumerate(node.cases):
            self.body(arm.body, (f"match {node.lineno}", str(number)))
        self.blocks -= 1

    def visit_Expr(self, node: ast.Expr) -> None:
        self.generic_visit(node)
        if isinstance(node.value, ast.Call):
            last = dotted(node.value.func).rpartition(".")[2]
            if _SETS_BY_NAME.fullmatch(last) and last not in self.program.defined:
                self.program.leave(node)

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
            self._replace(value, node, target)
        elif not isinstance(node.op, ast.Add):
            return
        elif isinstance(target, ast.Name):
            before = self.evaluator.names.get(target.id)
            if isinstance(before, TracedText) and isinstance(value, TracedText):
                together = self.evaluator.budget.spend(before + value, node.lineno)
                self.evaluator.names[target.id] = together
            elif isinstance(value, Items):
                self._extend(target.id, value.items)
            else:
                self.evaluator.names.pop(target.id, None)
        elif isinstance(target, ast.Subscript):
            name = self._key(target)
            if name and isinstance(value, TracedText):
                together = self._before(name, node) + value
                self.evaluator.budget.spend(together, node.lineno)
                self._set(name, together, node, target.value, adds=True)
            elif self._environ_like(target.value):
                self.program.leave(node)

    def _extend(self, name: str, more: list[Value]) -> None:
        """Extend a list, as in `flags += [...]`, even if its content is not known."""
        before = self.evaluator.names.get(name)
        if isinstance(before, Entries):
            return
        items = before.items if isinstance(before, Items) else [before] if before else []
        self.evaluator.budget.spend_on(len(items) + len(more), None)
        self.evaluator.names[name] = Items([*items, *more])

    def _before(self, name: str, node: ast.stmt) -> TracedText:
        """Return what is added to; if set by another function, with a space at its end."""
        program, line = self.program, node.lineno
        before = program.environ.get(name)
        if before is None:
            return inherited(name, line) if name in FLAG_VARIABLES else TracedText()
        functions = [
            dict(branch).get("function")
            for branch in (program.branch(program.set_at[name]), self.branch)
        ]
        if before.text and functions[0] and functions[0] != functions[1]:
            program.notes[f"line {line}: several functions append to {name}; read in order"] = None
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
            items = value.items if isinstance(value, Items) else []
            rest = [self.evaluator.text(target)] * (len(target.elts) - len(items))
            for element, inner in zip(target.elts, [*items, *rest], strict=False):
                self._bind(element, inner, node)
        elif isinstance(target, ast.Subscript):
            self._put(target, value, node)
        elif is_environ(target):
            self._replace(value, node, target)

    def _put(self, target: ast.Subscript, value: Value, node: ast.stmt) -> None:
        """Process `os.environ[name] = value`."""
        name, plain = self._key(target), self.evaluator.key(target.slice) is not None
        if name and isinstance(value, TracedText):
            self._set(name, value, node, target.value)
        elif self._environ_like(target.value):
            if name or not plain:
                self.program.leave(node)
        elif not plain:
            self._open(target.value)

    def _replace(self, value: Value, node: ast.stmt, target: ast.expr) -> None:
        """Process `os.environ = ...`, `os.environ |= ...`."""
        if isinstance(value, Entries):
            self._update(value, node, target)
        if may_hold_more(value):
            self.program.leave(node)

    def _open(self, target: ast.expr) -> None:
        """Mark a named dict as open: something unknown is put into it."""
        found = self.evaluator.names.get(target.id) if isinstance(target, ast.Name) else None
        if isinstance(found, Entries):
            found.open = True

    def _take_out(self, name: str, node: ast.expr | ast.stmt) -> None:
        """List a deletion as not read: it may precede or follow the program's start."""
        if name in self.program.environ and is_setting(name):
            self.program.leave(node)

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
        method = function.attr if isinstance(function, ast.Attribute) else ""
        if method == "update":
            self.known_dicts.update(node.args)
        self.generic_visit(node)
        unread = bool(_LOADS.fullmatch(name))
        if name == "dict":
            self._dict(node)
        elif isinstance(function, ast.Attribute):
            unread = self._method(node, function) or unread
        full = self.jax.full_name(function)
        if full == "jax.config.update" and len(node.args) > 1:
            unread = not self._config(node) or unread
        for keyword in node.keywords:
            value = self.evaluator.value(keyword.value)
            if keyword.arg in _OPTIONS:
                self._options(value, keyword.value.lineno)
            elif keyword.arg == "env" and isinstance(value, Entries):
                self._update(value, node, None)
        if unread or self._hands_over(node, name):
            self.program.leave(node)
        self.jax.see_call(node)

    def _method(self, node: ast.Call, function: ast.Attribute) -> bool:
        """Process a method call; return True if it may set something unknown."""
        target, method = function.value, function.attr
        environ = self._environ_like(target)
        own = environ or dotted(target) == "os"
        first = self.evaluator.key(node.args[0]) if node.args else None
        if method in ("append", "extend") and isinstance(target, ast.Name):
            for value in map(self.evaluator.value, node.args):
                items = [value] if method == "append" else []
                self._extend(
                    target.id, value.items if isinstance(value, Items) and not items else items
                )
        elif method in ("update", "__ior__"):
            more = self.evaluator.entries(node)
            self._update(more, node, target)
            if more.open and not environ:
                self._open(target)
            return more.open and environ
        elif method in _SETTERS and len(node.args) > 1:
            if first is None:
                return own
            self._setter(first, node, function)
        elif first and (method == "delenv" or (method in ("pop", "unsetenv") and own)):
            self._take_out(first, node)
        return method == "clear" and environ

    def _setter(self, name: str, node: ast.Call, function: ast.Attribute) -> None:
        """Process `os.putenv(name, value)`, or `.setdefault`, which keeps the inherited value."""
        value = self.evaluator.value(node.args[1])
        own = is_environ(function.value)
        if not isinstance(value, TracedText) or not (own or is_setting(name)):
            return
        if function.attr == "setdefault":
            if name in self.program.environ:
                return
            if name in FLAG_VARIABLES:
                value = inherited(name, node.lineno) + value
        self._set(name, value, node, function.value, always=False)

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
        name, value = self.evaluator.key(node.args[0]), self.evaluator.text(node.args[1])
        if name is None:
            return False
        text = value.shown.lower() if value.shown in ("True", "False") else value.shown
        channel = Channel.JAX_CONFIG
        program = self.program
        program.given = [old for old in program.given if (old.channel, old.name) != (channel, name)]
        whole = segment(program.lines, node)
        program.given.append(
            self.program.one(channel, name, text, node.lineno, whole, known=value.known)
        )
        return True

    def _options(self, value: Value, line: int) -> None:
        if isinstance(value, Entries):
            given = self.program.given
            self.evaluator.budget.spend_on(len(given), line)
            given += [option for option in self.program.entries(value, line) if option not in given]

    # Assigning.

    def _update(self, value: Entries, node: ast.AST, target: ast.expr | None) -> None:
        own, line = target is not None and is_environ(target), getattr(node, "lineno", 0)
        if flags := flag_entries(value):
            found = self.program.entries(flags, line)
            self.program.dicts += [entry for entry in found if entry not in self.program.dicts]
        for name, inner in value.entries.items():
            if isinstance(inner, TracedText) and (own or is_setting(name)):
                self._set(name, inner, node, target, always=False)
                self.program.set_at[name] = inner.line or self.program.set_at.get(name, line)

    def _set(
        self,
        name: str,
        value: TracedText,
        node: ast.AST,
        target: ast.expr | None,
        *,
        adds: bool = False,
        always: bool = True,
    ) -> None:
        program, line = self.program, getattr(node, "lineno", 0)
        if late := self.jax.too_late(name, value, Location(program.where, line)):
            program.issues.append(late)
            return
        before = program.environ.get(name)
        if before is not None and not adds and before.text != value.text:
            if exclusive(program.branch(program.set_at[name]), self.branch):
                program.apart.append(program.assigned(name))
            elif name in FLAG_VARIABLES and always and not self.blocks:
                place, origin = (
                    Location(program.where, line),
                    f"the flags of line {program.set_at[name]}",
                )
                suggestion = f'os.environ["{name}"] += " {{start}} ..."'
                issue = overwritten(name, before, value, origin, place, suggestion)
                program.issues += [issue] if issue else []
        what = dotted(target) if target is not None else ""
        program.via.pop(name, None)
        if target is None or not is_environ(target):
            program.via[name] = what if what != name else ""
            program.notes[f"`{what or 'a dict'}` is read as the environment of a program"] = None
        if self.blocks and name in FLAG_VARIABLES:
            program.notes[f"line {line}: {name} is set in a block; read as if it ran"] = None
        program.environ.pop(name, None)
        program.environ[name] = value
        program.set_at[name] = line


def read_python(text: str, where: str) -> ParsedSource:
    """Read all settings of a source."""
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as failure:
        line = f":{failure.lineno}" if isinstance(failure, SyntaxError) else ""
        reason = failure.msg if isinstance(failure, SyntaxError) else "it can't be parsed"
        raise InputError(
            f"{where}{line}: not Python: {reason}", next="--form text finds flags in any text"
        ) from None
    if not _MARKS.search(text):
        return ParsedSource(where=where, form="python")
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    defined = frozenset(node.name for node in ast.walk(module) if isinstance(node, functions))
    program = PythonProgram(where, text.split("\n"), defined)
    _Walker(program, Evaluator(program.lines, program.environ, TextBudget(where)), JaxUse()).visit(
        module
    )
    found = parse_assignments([*program.apart, *map(program.assigned, program.environ)], where)
    loose = list(for_their_chip(entry for entry in program.dicts if entry not in program.given))
    if loose:
        program.notes[f"dicts of flags are read as {loose[0].channel}"] = None
    given = (
        replace(item, branch=program.branch(item.place.line)) if item.place.where == where else item
        for item in (*found.given, *program.given, *loose)
    )
    issues = sorted([*program.issues, *found.issues], key=lambda issue: issue.place.line or 0)
    return ParsedSource(
        where=where,
        form="python",
        given=tuple(given),
        issues=tuple(_when_it_runs(issue) for issue in issues),
        notes=tuple(program.notes),
        unread=tuple(program.unread),
        inherited=tuple(dict.fromkeys(found.inherited)),
        source=text,
    )


def _when_it_runs(issue: SyntaxIssue) -> SyntaxIssue:
    if issue.kind is not IssueKind.UNKNOWABLE:
        return issue
    return replace(issue, why="its value is known only when the program runs")
