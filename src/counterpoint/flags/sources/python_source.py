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
from counterpoint.flags.channel import Channel
from counterpoint.flags.sources.flag_words import Variable, read_flags
from counterpoint.flags.sources.jax_use import JaxUse
from counterpoint.flags.sources.python_flags import flag_entries
from counterpoint.flags.sources.python_library import in_dicts, library
from counterpoint.flags.sources.python_program import Program
from counterpoint.flags.sources.python_values import (
    Entries,
    Evaluator,
    Items,
    Value,
    dotted,
    is_environ,
    segment,
)
from counterpoint.flags.sources.traced import Budget, Traced, known
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
    r"environ|putenv|setenv|_FLAGS|_ARGS|\b(?:xla|megascale)_\w|config\.update"
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
        if not isinstance(node.op, ast.Add):
            return
        value = self.evaluator.value(node.value)
        target = node.target
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
        before = program.environ.get(name, Traced())
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
        elif isinstance(target, ast.Subscript) and (name := self._key(target)):
            if isinstance(value, Traced):
                self._set(name, value, node, target.value)
        elif is_environ(target) and isinstance(value, Entries):
            self._update(value, node, target)

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
            name, value = self.evaluator.value(node.args[0]), self.evaluator.value(node.args[1])
            if not isinstance(name, Traced) or not isinstance(value, Traced) or not name.known:
                return
            if not is_environ(function.value) and not is_setting(name.text):
                return
            if function.attr != "setdefault" or name.text not in self.program.environ:
                self._set(name.text, value, node, function.value, always=False)

    def _jax_config(self, node: ast.Call) -> None:
        if self.jax.full_name(node.func) != "jax.config.update" or len(node.args) < 2:
            return
        name, value = self.evaluator.value(node.args[0]), self.evaluator.value(node.args[1])
        if not isinstance(name, Traced) or not isinstance(value, Traced) or not name.known:
            return
        text = value.shown.lower() if value.shown in ("True", "False") else value.shown
        self._give(Channel.JAX_CONFIG, name.text, text, node, value)

    def _options(self, value: Value, line: int) -> None:
        if isinstance(value, Entries):
            given = self.program.given
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
        if self._too_late(name, value, line):
            return
        before = program.environ.get(name)
        if before is not None and not adds and before.text != value.text:
            if exclusive(program.branch(program.lines[name]), program.branch(line)):
                program.apart.append(program.assigned(name))
            elif name in FLAGS and always:
                self._may_overwrite(name, before, value, line)
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

    def _too_late(self, name: str, value: Traced, line: int) -> bool:
        used, why = self.jax.used, ""
        if used is not None and name in FLAGS:
            why = f"line {used} (`{self.jax.used_as}`) has made XLA read it already"
        elif self.jax.imported is not None and name.startswith(("JAX_", "JAXLIB_")):
            used, why = self.jax.imported, "JAX has read it when it was imported"
            why += f", in line {used}"
        if not why:
            return False
        option = name.lower()
        self.program.slips.append(
            Slip(
                kind=SlipKind.TOO_LATE,
                channel=FLAGS.get(name, Channel.ENVIRONMENT),
                text=f"{name}={value.shown}",
                why=why,
                place=Place(self.program.where, line),
                mend=f'jax.config.update("{option}", ...)' if name not in FLAGS else None,
            )
        )
        return True

    def _may_overwrite(self, name: str, before: Traced, value: Traced, line: int) -> None:
        variable = Variable(self.program.where, FLAGS[name])
        if self.blocks or not before.text.lstrip().startswith("-"):
            return
        after = {it.name for it in read_flags(value, variable).given}
        lost = [it.name for it in read_flags(before, variable).given if it.name not in after]
        if not lost:
            return
        start = " ".join(value.shown.split()[:1])
        flags = ", ".join(f"--{flag}" for flag in lost[:3]) + (", ..." if len(lost) > 3 else "")
        self.program.slips.append(
            Slip(
                kind=SlipKind.OVERWRITTEN,
                channel=FLAGS[name],
                text=f"{name}={start}",
                why=f"it throws away what line {self.program.lines[name]} has set: {flags}",
                place=Place(self.program.where, line),
                mend=f'os.environ["{name}"] += " {start} ..."',
            )
        )


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
    program = Program(where, lines, module.body)
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
        source=text,
    )


def _when_it_runs(slip: Slip) -> Slip:
    if slip.kind is not SlipKind.UNKNOWABLE:
        return slip
    return replace(slip, why="what it stands for is known only when the program runs")
