"""Settings in YAML: manifests of Kubernetes, Helm's values, MaxText, Levanter, docker compose.

What is read, at any depth:

    - name: NCCL_DEBUG          a container's variable, `valueFrom` can't be known
      value: INFO
    env: {NCCL_DEBUG: INFO}     under env, env_vars, environment; elsewhere, known names only
    - NCCL_DEBUG=INFO           an item of a list of variables
    compile_xla_flags: "--..."  MaxText's compiler options;  `xla_flags:` text, list or mapping
    xla-flags: >- --xla_...     a text of flags under any key, as in a ConfigMap
    jax_config: {...}           Levanter's jax.config
    command: [bash, -c, "..."]  a command is read as a line of a shell, and a text that sets
                                variables as a script

A mapping that has an environment is a program of its own, with what the mappings around it set. In
a template, each `{{ }}` is a hole; a template that is still not YAML is read line by line.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import yaml

from counterpoint.core import InputError
from counterpoint.flags.catalogue.variable import meant_option
from counterpoint.flags.parse.flag_values import AS_TEXT, is_foreign_name
from counterpoint.flags.parse.launcher import TELLING, is_script
from counterpoint.flags.parse.lines import scan_lines
from counterpoint.flags.parse.scan import Scan
from counterpoint.flags.parse.shell import ShellScanner
from counterpoint.flags.parse.traced import (
    HOLE,
    TooMuchError,
    TracedText,
    joined,
    known,
    located,
    unknown,
)
from counterpoint.flags.parsed import PROGRAM
from counterpoint.flags.settings import FLAG_VARIABLES, Channel, is_setting

_ENVIRONMENTS: Final = ("env", "envs", "env_vars", "envVars", "environment", "extraEnv")
_TEMPLATE: Final = re.compile(r"\$?\{\{((?:(?!\{\{).)*?)\}\}", re.DOTALL)
_TEMPLATE_LINE: Final = re.compile(r"^[ \t-]*\{\{[^\n]*\}\}[ \t]*$", re.MULTILINE)
_MAPPED: Final = {
    "jax_config": (Channel.JAX_CONFIG, "Levanter jax_config"),
    "compiler_options": (Channel.COMPILER_OPTIONS, ""),
    "xla_compiler_options": (Channel.COMPILER_OPTIONS, ""),
}
_TRAINER: Final = "trainer"
_NULL: Final = "tag:yaml.org,2002:null"
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_REFERENCE: Final = re.compile(r"\$\$|\$\(([A-Za-z_]\w*)\)")
"""`$(NAME)` of Kubernetes."""
_COMPOSE: Final = "environment"
_OF_COMPOSE: Final = re.compile(r"\$\$|\$\{?([A-Za-z_]\w*)(?:(:?[-?+])([^{}]*))?\}?", re.ASCII)
"""`$NAME` and `${NAME:-default}` of docker compose, from the environment of whoever starts it."""
_COMMANDS: Final = ("entrypoint", "command", "args")
_ELSEWHERE: Final = ("env_file", "envFrom")
"""Keys that take variables from other files."""
_DEEPEST: Final = 100
_FLAGS: Final = re.compile(rf"[\s{HOLE}]*--(?:xla|megascale)_\w+")
_FLAG_KEYS: Final = re.compile(r"(?:\w+[_-])?xla[_-]?flags", re.IGNORECASE)
_ITEM: Final = re.compile(r"([A-Z][A-Z0-9_]*)=")
_ASSIGNED: Final = re.compile(r"[ \t]*(?:#.*|[A-Za-z_]\w*=(?!=)[^\"'`\\$\s;&|]*[ \t;]*)?")
"""A line that sets a variable, for a shell as for anything else."""
_ENTRY: Final = re.compile(r"[ \t]*[A-Za-z_]\w*=[^;\"'`]*;[ \t]*")
"""An entry of a list of variables, one on a line, in which blanks need no quotes."""


def scan_yaml(text: str, scan: Scan) -> str:
    """Read all documents, or the lines of a template that becomes YAML only later."""
    nodes = _documents(text, scan.where)
    if nodes is None:
        scan_lines(text, scan)
        return "text"
    manifest = _Manifest(scan, text.split("\n"))
    for node in nodes:
        manifest.visit(node, "")
    return "kubernetes" if re.search(r"^apiVersion:", text, re.MULTILINE) else "yaml"


def _documents(text: str, where: str) -> list[yaml.Node] | None:
    """Return the documents; None for a template that becomes YAML only later."""
    template = "{{" in text
    if template:
        text = _TEMPLATE_LINE.sub(lambda match: "\n" * match[0].count("\n"), text)
        text = _TEMPLATE.sub(lambda match: HOLE + "\n" * match[0].count("\n"), text)
    module: Any = yaml  # its stubs leave the type of a document open
    try:
        _check_depth(module.parse(text, Loader=_LOADER))
        documents: list[yaml.Node] = list(module.compose_all(text, Loader=_LOADER))
    except (yaml.YAMLError, RecursionError, UnicodeEncodeError) as failure:
        if template:
            return None
        mark = getattr(failure, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        deep = isinstance(failure, RecursionError)
        reason = "nested too deeply" if deep else "an invalid character"
        raise InputError(
            f"{where}{line}: not YAML: {getattr(failure, 'problem', None) or reason}",
            next=AS_TEXT,
        ) from None
    return documents


def _check_depth(events: Iterable[object]) -> None:
    """Check the depth first, since libyaml builds nodes by recursion, and overflows the stack."""
    depth = 0
    for event in events:
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise RecursionError


@dataclass(slots=True)
class _Manifest:
    """The lines of a source, and what was found in it."""

    scan: Scan
    lines: list[str]
    visited: set[tuple[int, bool]] = field(default_factory=set[tuple[int, bool]])

    def visit(self, node: yaml.Node | None, key: str) -> None:
        """Visit one node, under its key; only once, even if several aliases refer to it."""
        if isinstance(node, yaml.CollectionNode):
            mark = (id(node), key in _ENVIRONMENTS)
            if mark in self.visited:
                return
            self.visited.add(mark)
        if isinstance(node, yaml.MappingNode):
            self._mapping(node, key)
        elif isinstance(node, yaml.SequenceNode):
            for item in node.value:
                if not self._listed(item, key):
                    self.visit(item, key)
        elif isinstance(node, yaml.ScalarNode):
            self._script(node, started=key in _COMMANDS and bool(TELLING.search(node.value)))

    def _mapping(self, node: yaml.MappingNode, key: str) -> None:
        fields = _fields(node)
        if self._container_variable(fields, listed=False):
            return
        with self._program(node, fields, key):
            # Variables first: the scripts of a container find them, wherever they are written.
            names = sorted(fields, key=lambda name: name not in _ENVIRONMENTS)
            started = False
            for name in names:
                if name in _COMMANDS and not started:
                    started = self._start(fields)
                if not (started and name in _COMMANDS):
                    self._entry(name, fields[name], key)

    @contextmanager
    def _program(self, node: yaml.Node, fields: dict[str, yaml.Node], key: str) -> Generator[None]:
        """Read a mapping; one with an environment or a script is a program of its own."""
        own = fields.keys() & {*_ENVIRONMENTS, *_COMMANDS, "run", "script"}
        if not own or key in _ENVIRONMENTS:
            yield
            return
        scan = self.scan
        outer = scan.branch
        if "jobs" not in fields and "services" not in fields and "steps" not in fields:
            arms = [choice for choice in scan.branch if choice[0] != PROGRAM]
            scan.branch = (*arms, (PROGRAM, str(_line(node))))
        try:
            with scan.another_shell(dict(scan.values)):
                yield
        finally:
            scan.branch = outer

    def _start(self, fields: dict[str, yaml.Node]) -> bool:
        """Read the command of a container, given in words on one line or several."""
        words = _words(fields)
        texts = [word.value.replace(HOLE, "$TEMPLATE") for word in words]
        whole = " ".join(texts)
        sets = is_script(whole) or any(map(_ITEM.match, texts))
        if not words or not (sets or TELLING.search(whole)):
            return False
        lines = [_line(word) for word in words]
        breaks = ["\\\n" * max(line - before, 0) for before, line in pairwise(lines)]
        text = known("", lines[0])
        for gap, word, it in zip(["", *breaks], words, texts, strict=True):
            block = word.style in ("|", ">")
            text += known(gap, _line(word)) + known(f"{shlex.quote(it)} ", _line(word) + block)
        self._shell(text)
        return True

    def _script(self, node: yaml.ScalarNode, *, started: bool) -> None:
        """Read a text that sets variables for a shell; a block begins after its key's line."""
        text, line, block = node.value, _line(node), node.style in ("|", ">")
        self.scan.budget.spend_on(len(text) // 16, line)
        if not (started or is_script(text)) or _FLAGS.match(text):
            return
        rows = text.splitlines()
        listed = all(map(_ASSIGNED.fullmatch, rows)) or all(map(_ENTRY.fullmatch, rows))
        if node.style != "|" or not listed:
            with self.scan.another_shell(dict(self.scan.values)):
                self._shell(known(text.replace(HOLE, "$TEMPLATE"), line + block))
        elif any(map(_ITEM.match, text.split())):
            names = ", ".join(match[1] for match in map(_ITEM.match, text.split()) if match)
            self.scan.leave(line, f"lines of NAME=value in a text: {names}")
            self.scan.aside += [row.strip() for row in self.lines[line : node.end_mark.line]]

    def _shell(self, text: TracedText) -> None:
        line = text.line or 0
        try:
            ShellScanner(self.scan, text).read()
        except TooMuchError:
            raise
        except InputError as failure:
            self.scan.leave(line, f"a script can't be read: {failure.what}")

    def _listed(self, item: yaml.Node, key: str) -> bool:
        """Read an item of a list of variables: `NAME=value`, or a mapping with a name."""
        in_environment = key in _ENVIRONMENTS
        if isinstance(item, yaml.MappingNode):
            return in_environment and self._container_variable(_fields(item), listed=True)
        if not isinstance(item, yaml.ScalarNode):
            return False
        name, equals, rest = item.value.partition("=")
        own = in_environment or (is_setting(name) and name.isupper() and "\n" not in rest)
        if not equals or not own or not name.isidentifier():
            return False
        value = self._text(item).cut(len(name) + 1)
        self._set(name, self._interpolated(value) if key == _COMPOSE else value, _line(item))
        return True

    def _container_variable(self, fields: dict[str, yaml.Node], *, listed: bool) -> bool:
        """Read `name:` with `value:` or `valueFrom:`; in a list, also one that has neither."""
        name, value = fields.get("name"), fields.get("value")
        if not isinstance(name, yaml.ScalarNode):
            return False
        plain, line = name.value.isidentifier(), _line(name)
        if plain and "valueFrom" in fields:
            if is_setting(name.value):
                source = unknown(f"valueFrom in line {_line(fields['valueFrom'])}", line)
                self._set(name.value, source, line)
            return True
        if not set(fields) <= {"name", "value", "valueFrom"} or not (listed or plain):
            return False
        empty = value is None or value.tag == _NULL  # which Kubernetes reads as an empty text
        if isinstance(value, yaml.ScalarNode) and not empty:
            written = self._referred(self._text(value))
        elif empty and listed:
            written = TracedText()
        else:
            return False
        if plain or not is_foreign_name(name.value):
            self._set(name.value, written, line)
        return True

    def _entry(self, name: str, value: yaml.Node, under: str) -> None:
        """Read a key with its value."""
        line, flags = _line(value), _is_flag_key(name)
        if name in _ELSEWHERE:
            what = value.value if isinstance(value, yaml.ScalarNode) else name
            self.scan.left[f"{what} (line {line})"] = line
            return
        self._trainer(name, value, under)
        if isinstance(value, yaml.ScalarNode):
            self._scalar(name, value, under)
        elif isinstance(value, yaml.MappingNode) and (name in _MAPPED or flags):
            channel, via = _MAPPED.get(name, (Channel.XLA_FLAGS, "xla_flags"))
            for option, inner in _fields(value).items():
                if isinstance(inner, yaml.ScalarNode):
                    self._give(channel, option.removeprefix("--"), inner, via)
        elif isinstance(value, yaml.SequenceNode) and flags:
            for item in value.value:
                if isinstance(item, yaml.ScalarNode):
                    self.scan.take(self._text(item), Channel.XLA_FLAGS, "xla_flags")
        else:
            self.visit(value, name)

    def _trainer(self, name: str, value: yaml.Node, under: str) -> None:
        """Read the options of a trainer's profiler, or note that there are some."""
        if name == _TRAINER and isinstance(value, yaml.MappingNode):
            self._options(value, name)
        elif name == "profiler" and under != _TRAINER and value.value not in ("", "false", "null"):
            line = _line(value)
            self.scan.notes[f"line {line}: the profiler is also configured here; not read"] = None

    def _options(self, node: yaml.MappingNode, path: str) -> None:
        """Read the trainer's own options that are known here, or nearly, by their dotted names."""
        for name, value in _fields(node).items():
            dotted = f"{path}.{name}"
            if isinstance(value, yaml.MappingNode):
                self._options(value, dotted)
            elif isinstance(value, yaml.ScalarNode) and meant_option(dotted) is not None:
                self._give(Channel.TRAINER, dotted, value, "")

    def _scalar(self, name: str, value: yaml.ScalarNode, under: str) -> None:
        self.scan.budget.spend_on(len(value.value) // 16, _line(value))
        flags = _is_flag_key(name) or _FLAGS.match(value.value)
        if value.tag == _NULL:  # unset, or inherited, as in docker compose
            return
        if name == "compile_xla_flags":
            self.scan.take(self._text(value), Channel.COMPILER_OPTIONS, f"MaxText {name}")
        elif name not in FLAG_VARIABLES and flags:
            self.scan.take(self._text(value), Channel.XLA_FLAGS, name)
        elif is_setting(name) or (under in _ENVIRONMENTS and name.isidentifier()):
            text = self._text(value)
            text = self._interpolated(text) if under == _COMPOSE else text
            self._set(name, text, _line(value))
        else:
            self.visit(value, name)

    def _give(self, channel: Channel, name: str, value: yaml.ScalarNode, via: str) -> None:
        text = self._text(value)
        self.scan.option(channel, name, text, _line(value), text=f"{name}: {text.shown}", via=via)

    def _text(self, node: yaml.ScalarNode) -> TracedText:
        """Return a scalar with the lines of its words, and its templates as holes."""
        line = node.start_mark.line + 1
        self.scan.budget.spend_on(len(node.value) // 16, line)
        value = located(node.value, self.lines, line, node.end_mark.line + 1)
        if HOLE not in value.text:
            return value
        parts: list[TracedText] = []
        for piece in value.pieces:
            for index, part in enumerate(piece.text.split(HOLE)):
                parts += [unknown("{{...}}", piece.line)] if index else []
                parts.append(known(part, piece.line))
        return joined(parts)

    def _referred(self, value: TracedText) -> TracedText:
        """Substitute earlier variables of the container for `$(NAME)`, as Kubernetes does."""
        parts: list[TracedText] = []
        at = 0
        for match in _REFERENCE.finditer(value.text):
            line = value.line_at(match.start())
            parts.append(value.cut(at, match.start()))
            earlier = self.scan.values.get(match[1] or "") or unknown(match[0], line)
            parts.append(earlier if match[1] else known("$", line))
            at = match.end()
        whole = joined([*parts, value.cut(at)]) if parts else value
        return self.scan.budget.spend(whole, value.line)

    def _interpolated(self, value: TracedText) -> TracedText:
        """Put in the defaults of variables, as docker compose does; other values are unknown."""
        parts: list[TracedText] = []
        at = 0
        for match in _OF_COMPOSE.finditer(value.text):
            line = value.line_at(match.start())
            parts.append(value.cut(at, match.start()))
            at = match.end()
            if (match[2] or "").endswith("-"):
                parts.append(known(match[3], line).as_default())
            else:
                parts.append(unknown(match[0], line) if match[1] else known("$", line))
        return joined([*parts, value.cut(at)]) if parts else value

    def _set(self, name: str, value: TracedText, line: int) -> None:
        self.scan.values[name] = value
        self.scan.exported.add(name)
        self.scan.give(name, value, line)


def _fields(node: yaml.MappingNode) -> dict[str, yaml.Node]:
    return {name.value: value for name, value in node.value if isinstance(name, yaml.ScalarNode)}


def _words(fields: dict[str, yaml.Node]) -> list[yaml.ScalarNode]:
    """Return the words of a container's command, if it is given in words."""
    words: list[yaml.ScalarNode] = []
    for node in (fields[name] for name in _COMMANDS if name in fields):
        nodes: list[yaml.Node] = node.value if isinstance(node, yaml.SequenceNode) else [node]
        plain = [word for word in nodes if isinstance(word, yaml.ScalarNode) and word is not node]
        if len(plain) != len(nodes):
            return []
        words += plain
    return words


def _is_flag_key(name: str) -> bool:
    return bool(_FLAG_KEYS.fullmatch(name)) and name != "XLA_FLAGS"


def _line(node: yaml.Node) -> int:
    return node.start_mark.line + 1
