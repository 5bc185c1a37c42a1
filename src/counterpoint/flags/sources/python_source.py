"""Settings that a Python program makes, read from its source; nothing is run.

`os.environ` in all its forms, `jax.config.update`, `compiler_options=`, and dicts whose keys are
such variables. A module without any of these, but with flags in its strings, is read as a library
of flags.
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import Final

from counterpoint.core.errors import InputError
from counterpoint.flags.settings import Channel
from counterpoint.flags.sources.jax_use import JaxUse
from counterpoint.flags.sources.python_faults import may_overwrite, too_late
from counterpoint.flags.sources.python_flags import flag_entries
from counterpoint.flags.sources.python_library import in_dicts, library
from counterpoint.flags.sources.python_program import Program
from counterpoint.flags.sources.python_unread import (
    is_environ_like,
    is_open,
    opens,
    sets_by_its_name,
    sets_unread,
    takes_out,
)
from counterpoint.flags.sources.python_values import (
    Entries,
    Evaluator,
    Items,
    Value,
    dotted,
    is_environ,
    segment,
)
from counterpoint.flags.sources.traced import Budget, Traced, inherited, known
from counterpoint.flags.sources.variables import FLAGS, is_setting, write_up
from counterpoint.flags.written import (
    Given,
    Place,
    Slip,
    SlipKind,
    Written,
    exclusive,
)

_COMPILER: Final = (Channel.XLA_FLAGS, Channel.LIBTPU_INIT_ARGS, Channel.COMPILER_OPTIONS)
_MARKS: Final = re.compile(
    r"environ|putenv|setenv|dotenv|_FLAGS|_ARGS|\b(?:xla|megascale)_\w|config\.update"
    r"|compiler_options|compile_options"
    r"|\b(?:NCCL|JAX|XLA|CUDA)_"
)
"""Without any of these, a program sets nothing."""
_OPTIONS: Final = ("compiler_options", "xla_compiler_options", "compile_options")
_SETTERS: Final = ("putenv", "setdefault", "setenv")


class _Walker(ast.NodeVisitor):
    """Statement by statement, in the order of the source; one for each function."""

    def __init__(self, program: Program, evaluator: Evaluator, jax: JaxUse) -> None:
        self.program = program
        self.evaluator = evaluator
        self.jax = jax
        self.blocks = 0
        self.told: set[ast.expr] = set()  # dicts whose place says what they are

    # Places where a name is bound, or a function begins.

    def visit_Import(self, node: ast.Import) -> None:
        self.jax.see_import(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self.jax.see_import(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._function(node.body, node.lineno)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._function(node.body, node.lineno)

    def _function(self, body: list[ast.stmt], line: int) -> None:
        """What it binds and uses stays in it; when it runs is not known."""
        outside = self.evaluator
        outside.budget.spend_on(len(outside.names), line)
        inner = Evaluator(outside.lines, dict(outside.names), outside.environ, outside.budget)
        walker = _Walker(self.program, inner, self.jax.inner())
        outer, self.program.function = self.program.function, line
        for statement in body:
            walker.visit(statement)
        self.program.function = outer

    def visit_If(self, node: ast.If) -> None:
        self._block(node)

    def visit_For(self, node: ast.For) -> None:
        self._block(node)

    def visit_While(self, node: ast.While) -> None:
        self._block(node)

    def _block(self, node: ast.stmt) -> None:
        self.blocks += 1
        self.generic_visit(node)
        self.blocks -= 1

    def visit_Expr(self, node: ast.Expr) -> None:
        self.generic_visit(node)
        if isinstance(node.value, ast.Call) and sets_by_its_name(node.value, self.program.defined):
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
        value = self.evaluator.value(node.value)
        target = node.target
        if isinstance(node.op, ast.BitOr) and is_environ_like(target, self.evaluator):
            self._replace(value, node, target)
        if not isinstance(node.op, ast.Add):
            return
        if isinstance(target, ast.Name):
            before = self.evaluator.names.get(target.id)
            if isinstance(before, Traced) and isinstance(value, Traced):
                together = self.evaluator.budget.spend(before + value, node.lineno)
                self.evaluator.names[target.id] = together
            elif isinstance(value, Items):
                self._extend(target.id, value.items)
        elif (
            isinstance(target, ast.Subscript)
            and isinstance(value, Traced)
            and (name := self._key(target))
        ):
            together = self.evaluator.budget.spend(self._before(name, node) + value, node.lineno)
            self._set(name, together, node, target.value, adds=True)
        elif isinstance(target, ast.Subscript) and is_environ_like(target.value, self.evaluator):
            self._leave(node)

    def _extend(self, name: str, more: list[Value]) -> None:
        """`flags += [...]`, also where what was in it is not known."""
        before = self.evaluator.names.get(name)
        if isinstance(before, Entries):
            return
        items = before.items if isinstance(before, Items) else [before] if before else []
        self.evaluator.budget.spend_on(len(items) + len(more), None)
        self.evaluator.names[name] = Items([*items, *more])

    def _before(self, name: str, node: ast.stmt) -> Traced:
        """What is added to; another function may have had it, with a space at its end."""
        program = self.program
        before = program.environ.get(name)
        if before is None:
            return inherited(name, node.lineno) if name in FLAGS else Traced()
        if before.text and program.functions[name] not in (0, program.function):
            program.note(f"line {node.lineno}: several functions add to {name}: read in a row")
            return before + known(" ", node.lineno)
        return before

    def _bind(self, target: ast.expr, value: Value, node: ast.stmt) -> None:
        if isinstance(target, ast.Name):
            self.evaluator.names[target.id] = value
            if target.id in FLAGS and isinstance(value, Traced):
                self._set(target.id, value, node, target)
            elif target.id in _OPTIONS:
                self._options(value, node.lineno)
        elif isinstance(target, ast.Tuple | ast.List):
            items = value.items if isinstance(value, Items) else []
            rest = [self.evaluator.text(target)] * (len(target.elts) - len(items))
            for one, inner in zip(target.elts, [*items, *rest], strict=False):
                self._bind(one, inner, node)
        elif isinstance(target, ast.Subscript):
            self._put(target, value, node)
        elif is_environ(target):
            self._replace(value, node, target)

    def _put(self, target: ast.Subscript, value: Value, node: ast.stmt) -> None:
        """`os.environ[name] = value`."""
        name = self._key(target)
        if name and isinstance(value, Traced):
            self._set(name, value, node, target.value)
        elif is_environ_like(target.value, self.evaluator):
            if name or not self._is_known(target.slice):
                self._leave(node)
        elif not self._is_known(target.slice):
            opens(target.value, self.evaluator)

    def _is_known(self, node: ast.expr) -> bool:
        value = self.evaluator.value(node)
        return isinstance(value, Traced) and value.known

    def _replace(self, value: Value, node: ast.stmt, target: ast.expr) -> None:
        """`os.environ = ...`, `os.environ |= ...`."""
        if isinstance(value, Entries):
            self._update(value, node, target)
        if is_open(value):
            self._leave(node)

    def _leave(self, node: ast.expr | ast.stmt) -> None:
        self.program.leave_unread(segment(self.program.source, node), node.lineno)

    def _take_out(self, name: str, node: ast.expr | ast.stmt) -> None:
        """Whether that comes before or behind the program's start is not known."""
        if name in self.program.environ and is_setting(name):
            self._leave(node)

    def _key(self, target: ast.Subscript) -> str | None:
        key = self.evaluator.value(target.slice)
        if not isinstance(key, Traced) or not key.known:
            return None
        return key.text if is_environ(target.value) or is_setting(key.text) else None

    # Calls.

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Attribute) and node.func.attr == "update":
            self.told.update(node.args)
        self.generic_visit(node)
        self._list_call(node)
        self._environment_call(node)
        self._jax_config(node)
        for keyword in node.keywords:
            if keyword.arg in _OPTIONS:
                self._options(self.evaluator.value(keyword.value), keyword.value.lineno)
            elif keyword.arg == "env":
                value = self.evaluator.value(keyword.value)
                if isinstance(value, Entries):
                    self._update(value, node, None)
        if sets_unread(node, self.evaluator) or self._config_unread(node):
            self._leave(node)
        if name := takes_out(node, self.evaluator):
            self._take_out(name, node)
        self.jax.see_call(node)

    def visit_Dict(self, node: ast.Dict) -> None:
        self.generic_visit(node)
        self._dict(node)

    def _dict(self, node: ast.expr) -> None:
        value = self.evaluator.value(node)
        if isinstance(value, Entries) and node not in self.told:
            self._update(value, node, None)

    def _list_call(self, node: ast.Call) -> None:
        """`flags.append(...)`, `flags.extend([...])`."""
        function = node.func
        if not isinstance(function, ast.Attribute) or not isinstance(function.value, ast.Name):
            return
        for value in map(self.evaluator.value, node.args):
            if function.attr == "append":
                self._extend(function.value.id, [value])
            elif function.attr == "extend" and isinstance(value, Items):
                self._extend(function.value.id, value.items)

    def _environment_call(self, node: ast.Call) -> None:
        function = node.func
        if dotted(function) == "dict":
            self._dict(node)
        if not isinstance(function, ast.Attribute):
            return
        if function.attr == "update":
            own = Entries(
                {it.arg: self.evaluator.value(it.value) for it in node.keywords if it.arg}
            )
            for value in [*map(self.evaluator.value, node.args), own]:
                if isinstance(value, Entries):
                    self._update(value, node, function.value)
        elif function.attr in _SETTERS and len(node.args) >= 2:
            self._setter(node, function)

    def _setter(self, node: ast.Call, function: ast.Attribute) -> None:
        """`os.putenv(name, value)`; `.setdefault`, which keeps what is inherited."""
        name, value = self.evaluator.value(node.args[0]), self.evaluator.value(node.args[1])
        if not isinstance(name, Traced) or not isinstance(value, Traced) or not name.known:
            return
        if not is_environ(function.value) and not is_setting(name.text):
            return
        if function.attr == "setdefault":
            if name.text in self.program.environ:
                return
            if name.text in FLAGS:
                value = inherited(name.text, node.lineno) + value
        self._set(name.text, value, node, function.value, always=False)

    def _jax_config(self, node: ast.Call) -> None:
        if self.jax.full_name(node.func) != "jax.config.update" or len(node.args) < 2:
            return
        name, value = self.evaluator.value(node.args[0]), self.evaluator.value(node.args[1])
        if not isinstance(name, Traced) or not isinstance(value, Traced) or not name.known:
            return
        text = value.shown.lower() if value.shown in ("True", "False") else value.shown
        self._give(Channel.JAX_CONFIG, name.text, text, node, value)

    def _config_unread(self, node: ast.Call) -> bool:
        called = self.jax.full_name(node.func) == "jax.config.update"
        return called and len(node.args) > 1 and not self._is_known(node.args[0])

    def _options(self, value: Value, line: int) -> None:
        if isinstance(value, Entries):
            given = self.program.given
            self.evaluator.budget.spend_on(len(given), line)
            given += [one for one in self._entries(value, line) if one not in given]

    def _entries(self, value: Entries, line: int) -> list[Given]:
        return [
            Given(
                channel=Channel.COMPILER_OPTIONS,
                name=name,
                value=inner.shown,
                place=Place(self.program.where, inner.line or line),
                text=f'"{name}": {inner.shown}',
                known=inner.known,
            )
            for name, inner in value.entries.items()
            if isinstance(inner, Traced)
        ]

    def _give(self, channel: Channel, name: str, value: str, node: ast.Call, whole: Traced) -> None:
        text = segment(self.program.source, node)
        self.program.given = [
            it for it in self.program.given if (it.channel, it.name) != (channel, name)
        ]
        self.program.given.append(
            Given(
                channel=channel,
                name=name,
                value=value,
                place=Place(self.program.where, node.lineno),
                text=text,
                known=whole.known,
            )
        )

    # What is set.

    def _update(self, value: Entries, node: ast.AST, target: ast.expr | None) -> None:
        own = target is not None and is_environ(target)
        if flags := flag_entries(value):
            found = self._entries(flags, getattr(node, "lineno", 0))
            self.program.dicts += [one for one in found if one not in self.program.dicts]
        for name, inner in value.entries.items():
            if isinstance(inner, Traced) and (own or is_setting(name)):
                self._set(name, inner, node, target)
                self.program.lines[name] = inner.line or self.program.lines.get(name, 0)

    def _set(
        self,
        name: str,
        value: Traced,
        node: ast.AST,
        target: ast.expr | None,
        *,
        adds: bool = False,
        always: bool = True,
    ) -> None:
        program, line = self.program, getattr(node, "lineno", 0)
        if too_late(program, self.jax, name, value, line):
            return
        before = program.environ.get(name)
        if before is not None and not adds and before.text != value.text:
            if exclusive(program.branch(program.lines[name]), program.branch(line)):
                program.apart.append(program.assigned(name))
            elif name in FLAGS and always and not self.blocks:
                may_overwrite(program, name, before, value, line)
        if target is None or not is_environ(target):
            what = dotted(target) if target is not None else ""
            program.via[name] = what if what != name else ""
            program.note(f"`{what or 'a dict'}` is taken for the environment of a program")
        else:
            program.via.pop(name, None)
        if self.blocks and name in FLAGS:
            program.note(f"line {line}: {name} is set in a block: read as if it ran")
        program.environ.pop(name, None)
        program.environ[name] = value
        program.lines[name] = line
        program.functions[name] = program.function


def read_python(text: str, where: str) -> Written:
    """All settings of a source."""
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as failure:
        line = f":{failure.lineno}" if isinstance(failure, SyntaxError) else ""
        reason = failure.msg if isinstance(failure, SyntaxError) else "it can't be parsed"
        raise InputError(
            f"{where}{line}: not Python: {reason}", next="--form text finds flags in any text"
        ) from None
    if not _MARKS.search(text):
        return Written(where=where, form="python")
    lines = text.split("\n")
    program = Program(where, lines, module.body, _defined(module))
    evaluator = Evaluator(lines, environ=program.environ, budget=Budget(where))
    _Walker(program, evaluator, JaxUse()).visit(module)
    assigned = [*program.apart, *map(program.assigned, program.environ)]
    found = write_up(assigned, where)
    given = [*found.given, *program.given, *in_dicts(program)]
    constants = "--xla" in text and not any(it.channel in _COMPILER for it in given)
    if constants:
        given += library(program, evaluator)
    slips = sorted([*program.slips, *found.slips], key=lambda slip: slip.place.line or 0)
    return Written(
        where=where,
        form="python",
        given=tuple(
            replace(it, branch=program.branch(it.place.line, library=constants))
            if it.place.where == where
            else it
            for it in given
        ),
        slips=tuple(_when_it_runs(slip) for slip in slips),
        notes=tuple(program.notes),
        unread=tuple(program.unread),
        inherited=tuple(dict.fromkeys(found.inherited)),
        source=text,
    )


def _defined(module: ast.Module) -> frozenset[str]:
    """All functions that are read because they stand in the source."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(it.name for it in ast.walk(module) if isinstance(it, functions))


def _when_it_runs(slip: Slip) -> Slip:
    if slip.kind is not SlipKind.UNKNOWABLE:
        return slip
    return replace(slip, why="what it stands for is known only when the program runs")
