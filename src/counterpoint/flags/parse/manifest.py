"""Settings in YAML: manifests of Kubernetes, Helm's values, MaxText, Levanter, docker compose.

What is read, at any depth:

    - name: NCCL_DEBUG          a container's variable, `valueFrom` can't be known
      value: INFO
    env: {NCCL_DEBUG: INFO}     under env, env_vars, environment; elsewhere, known names only
    compile_xla_flags: "--..."  MaxText's compiler options;  `xla_flags:` text, list or mapping
    xla-flags: >- --xla_...     a text of flags under any key, as in a ConfigMap
    jax_config: {...}           Levanter's jax.config
    command: [bash, -c, "..."]  a command that sets such variables, starts nsys, or has options of a
                                trainer is read as a shell script, and so is any text that sets some

In a template, each `{{ }}` is a hole; a template that is still not YAML is read as plain text.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final

import yaml

from counterpoint.core import InputError
from counterpoint.flags.catalogue.variable import meant_option
from counterpoint.flags.parse.any_text import read_any_text
from counterpoint.flags.parse.flag_values import (
    AS_TEXT,
    Assignment,
    ParsedValues,
    ValueSource,
    is_foreign_name,
    other_programs,
    parse_assignments,
    read_flags,
)
from counterpoint.flags.parse.launcher import TELLING
from counterpoint.flags.parse.shell import read_shell
from counterpoint.flags.parse.traced import (
    HOLE,
    TextBudget,
    TooMuchError,
    TracedText,
    joined,
    known,
    located,
    unknown,
)
from counterpoint.flags.parsed import Location, Occurrence, ParsedSource, SyntaxIssue
from counterpoint.flags.settings import FLAG_VARIABLES, Channel, is_setting

_ENVIRONMENTS: Final = ("env", "envs", "env_vars", "envVars", "environment", "extraEnv")
_TEMPLATE: Final = re.compile(r"\{\{((?:(?!\{\{).)*?)\}\}", re.DOTALL)
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
_COMMANDS: Final = ("entrypoint", "command", "args")
_ELSEWHERE: Final = ("env_file", "envFrom")
"""Keys that take variables from other files."""
_DEEPEST: Final = 100
_FLAGS: Final = re.compile(rf"[\s{HOLE}]*--(?:xla|megascale)_\w+")
_ENV_LINE: Final = re.compile(r"[A-Za-z_]\w*=(?!=)(.*)")
_COMMAND: Final = re.compile(r"\s(?:[\w./-]+\s|\S*[;&|])")
_SET: Final = re.compile(r"(?:^|[\s;&|])(?:export\s+|env\s+)?([A-Z][A-Z0-9_]*)\+?=", re.MULTILINE)
_FLAG_KEYS: Final = re.compile(r"(?:\w+[_-])?xla[_-]?flags", re.IGNORECASE)


def read_yaml(text: str, where: str) -> ParsedSource:
    """Read all documents of a text."""
    nodes = _documents(text, where)
    if nodes is None:
        return read_any_text(text, where)
    manifest = _Manifest(where, text.split("\n"), TextBudget(where))
    for node in nodes:
        manifest.visit(node, "")
    kubernetes = re.search(r"^apiVersion:", text, re.MULTILINE)
    return replace(manifest.parsed("kubernetes" if kubernetes else "yaml"), source=text)


def _documents(text: str, where: str) -> list[yaml.Node] | None:
    """Return the documents; None for a template that becomes YAML only later."""
    template = "{{" in text
    if template:
        text = _TEMPLATE_LINE.sub(lambda match: "\n" * match[0].count("\n"), text)
        text = _TEMPLATE.sub(lambda match: HOLE + "\n" * match[0].count("\n"), text)
    module: Any = yaml  # its stubs leave the type of a document open
    try:
        _check_depth(module.parse(text, Loader=_LOADER))
        found: list[yaml.Node] = list(module.compose_all(text, Loader=_LOADER))
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
    return found


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
    """The content found in a source so far."""

    where: str
    lines: list[str]
    budget: TextBudget
    assigned: dict[str, Assignment] = field(default_factory=dict[str, Assignment])
    superseded: list[Assignment] = field(default_factory=list[Assignment])
    scripts: list[tuple[str, int, bool]] = field(default_factory=list[tuple[str, int, bool]])
    """Texts for a shell with their lines, and whether they may inherit variables set here."""
    given: list[Occurrence] = field(default_factory=list[Occurrence])
    found: ParsedValues = field(default_factory=ParsedValues)
    notes: dict[str, None] = field(default_factory=dict[str, None])  # in order, each once
    unread: dict[str, None] = field(default_factory=dict[str, None])
    visited: set[tuple[int, bool]] = field(default_factory=set[tuple[int, bool]])

    def visit(self, node: yaml.Node | None, key: str) -> None:
        """Visit one node, under its key; only once, even if several aliases refer to it."""
        if isinstance(node, yaml.CollectionNode):
            mark = (id(node), key in _ENVIRONMENTS)
            if mark in self.visited:
                return
            self.visited.add(mark)
        if isinstance(node, yaml.MappingNode):
            self._mapping(_fields(node), key)
        elif isinstance(node, yaml.SequenceNode):
            for item in node.value:
                if key not in _ENVIRONMENTS or not self._listed(item):
                    self.visit(item, key)
        elif isinstance(node, yaml.ScalarNode):
            self._script(node, started=key in _COMMANDS and bool(TELLING.search(node.value)))

    def _mapping(self, fields: dict[str, yaml.Node], key: str) -> None:
        if self._container_variable(fields, listed=False):
            return
        started = self._start(fields)
        for name, value in fields.items():
            if not (started and name in _COMMANDS):
                self._entry(name, value, key)

    def _start(self, fields: dict[str, yaml.Node]) -> bool:
        """Keep the command of a container, given in words on one line or several."""
        words = _words(fields)
        texts = [word.value for word in words]
        whole = " ".join(texts)
        sets = any(is_setting(match[1]) for match in _SET.finditer(whole))
        if not (sets or TELLING.search(whole)) or HOLE in whole or "\n" in whole:
            return False
        lines = [_line(word) for word in words]
        breaks = ["\\\n" * (line - before) for before, line in pairwise(lines)]
        text = " ".join(
            f"{gap}{shlex.quote(it)}" for gap, it in zip(["", *breaks], texts, strict=True)
        )
        self.scripts.append((text, lines[0], bool(fields.keys() & {*_ENVIRONMENTS})))
        return True

    def _script(self, node: yaml.ScalarNode, *, started: bool) -> None:
        """Keep a text that sets variables for a shell; a block begins after its key's line."""
        text, line, block = node.value, _line(node), node.style in ("|", ">")
        self.budget.spend_on(len(text) // 16, line)
        sets = started or any(is_setting(match[1]) for match in _SET.finditer(text))
        if not sets or _FLAGS.match(text):
            return
        if all(map(_is_literal, text.splitlines())):
            self.unread[f"line {line}: lines of NAME=value in a text"] = None
        else:
            self.scripts.append((text.replace(HOLE, "$TEMPLATE"), line + block, True))

    def _listed(self, item: yaml.Node) -> bool:
        """Read an item of a list of variables: `NAME=value`, or a mapping with a name."""
        if isinstance(item, yaml.MappingNode):
            return self._container_variable(_fields(item), listed=True)
        if not isinstance(item, yaml.ScalarNode):
            return False
        name, equals, _ = item.value.partition("=")
        if equals:
            value = self._text(item)
            self._set(name, value.cut(len(name) + 1), _line(item))
        return bool(equals)

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
            self.unread[f"{what} (line {line})"] = None
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
                    self._take(item, Channel.XLA_FLAGS, "xla_flags")
        else:
            self.visit(value, name)

    def _trainer(self, name: str, value: yaml.Node, under: str) -> None:
        """Read the options of a trainer's profiler, or note that there are some."""
        if name == _TRAINER and isinstance(value, yaml.MappingNode):
            self._options(value, name)
        elif name == "profiler" and under != _TRAINER and value.value not in ("", "false", "null"):
            line = _line(value)
            self.notes[f"line {line}: the profiler is also configured here; not read"] = None

    def _options(self, node: yaml.MappingNode, path: str) -> None:
        """Read the trainer's own options that are known here, or nearly, by their dotted names."""
        for name, value in _fields(node).items():
            dotted = f"{path}.{name}"
            if isinstance(value, yaml.MappingNode):
                self._options(value, dotted)
            elif isinstance(value, yaml.ScalarNode) and meant_option(dotted) is not None:
                self._give(Channel.TRAINER, dotted, value, "")

    def _scalar(self, name: str, value: yaml.ScalarNode, under: str) -> None:
        self.budget.spend_on(len(value.value) // 16, _line(value))
        flags = _is_flag_key(name) or _FLAGS.match(value.value)
        if name == "compile_xla_flags":
            self._take(value, Channel.COMPILER_OPTIONS, f"MaxText {name}")
        elif name not in FLAG_VARIABLES and flags:
            self._take(value, Channel.XLA_FLAGS, name)
        elif value.tag == _NULL:  # unset, or inherited, as in docker compose
            return
        elif is_setting(name) or (under in _ENVIRONMENTS and name.isidentifier()):
            self._set(name, self._text(value), _line(value))
        else:
            self.visit(value, name)

    def _give(self, channel: Channel, name: str, value: yaml.ScalarNode, via: str) -> None:
        text, place = self._text(value), Location(self.where, _line(value))
        self.given.append(
            Occurrence(
                channel=channel,
                name=name,
                value=text.shown,
                place=place,
                text=f"{name}: {text.shown}",
                via=via,
                known=text.known,
            )
        )

    def _take(self, value: yaml.ScalarNode, channel: Channel, via: str) -> None:
        found = read_flags(self._text(value), ValueSource(self.where, channel, via))
        self.given += found.given
        self.found.issues += found.issues

    def _text(self, node: yaml.ScalarNode) -> TracedText:
        """Return a scalar with the lines of its words, and its templates as holes."""
        line = node.start_mark.line + 1
        self.budget.spend_on(len(node.value) // 16, line)
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
            earlier = self.assigned.get(match[1] or "")
            found = earlier.value if earlier else unknown(match[0], line)
            parts.append(found if match[1] else known("$", line))
            at = match.end()
        return self.budget.spend(joined([*parts, value.cut(at)]) if parts else value, value.line)

    def _set(self, name: str, value: TracedText, line: int) -> None:
        earlier = self.assigned.pop(name, None)
        if earlier and name in FLAG_VARIABLES:
            self.superseded.append(earlier)
            if earlier.value.text.split() != value.text.split():
                self.notes[
                    f"line {line}: a different program's {name} than in line {earlier.line};"
                    " each is checked separately"
                ] = None
        self.assigned[name] = Assignment(name, value, line=line)

    def parsed(self, form: str) -> ParsedSource:
        """Build the result; variables are set first, since a container's script inherits them."""
        found = parse_assignments(self.assigned.values(), self.where)
        before = {name: variable.value for name, variable in self.assigned.items()}
        read: list[ParsedSource] = []
        for script, line, inherits in self.scripts:
            own = before if inherits else {}
            try:
                one = read_shell(script, self.where, line=line, before=own, budget=self.budget)
            except TooMuchError:
                raise
            except InputError as failure:
                self.unread[f"line {line}: a script can't be read: {failure.what}"] = None
                continue
            read.append(one)
            self.notes |= dict.fromkeys(one.notes)
            found.inherited += one.inherited
        if read:
            given, issues = _of_scripts(read, set(found.given))
            if any(inherits for _, _, inherits in self.scripts):
                found.given, found.issues = given, issues
            else:
                found.given, found.issues = [*found.given, *given], [*found.issues, *issues]
        issues = [*found.issues, *self.found.issues]
        others = other_programs(self.superseded, self.where, form)
        return ParsedSource(
            where=self.where,
            form=form,
            given=(*found.given, *self.given),
            issues=tuple(sorted(issues, key=lambda issue: issue.place.line or 0)),
            layout=next((one.layout for one in reversed(read) if one.layout), None),
            nsys=any(one.nsys for one in read),
            nsys_line=next((one.nsys_line for one in read if one.nsys), None),
            notes=tuple(self.notes),
            unread=tuple(dict.fromkeys([*self.unread, *(it for one in read for it in one.unread)])),
            inherited=tuple(dict.fromkeys(found.inherited)),
            others=(*others, *(another for one in read for another in one.others)),
        )


def _of_scripts(
    read: list[ParsedSource], outer: set[Occurrence]
) -> tuple[list[Occurrence], list[SyntaxIssue]]:
    """Return what scripts set, and their issues; they are independent of each other."""
    given: dict[Occurrence, None] = {}
    for number, one in enumerate(read):
        arm = (("script", str(number)),)
        given |= dict.fromkeys(it if it in outer else replace(it, branch=arm) for it in one.given)
    return list(given), list(dict.fromkeys(issue for one in read for issue in one.issues))


def _is_literal(line: str) -> bool:
    """Return whether an env file may have this line, with a value that needs no shell."""
    bare = line.strip().strip(HOLE + " ")
    if not bare or bare.startswith("#"):
        return True
    match = _ENV_LINE.fullmatch(bare)
    if match is None or re.search(r"[\"'`\\]|\$[({A-Za-z]", match[1]):
        return False
    return match[1].startswith("--") or not _COMMAND.search(match[1] + " ")


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
