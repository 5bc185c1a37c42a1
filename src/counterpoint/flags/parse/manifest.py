"""Settings in YAML: manifests of Kubernetes, Helm's values, MaxText, Levanter, docker compose.

What is read, at any depth:

    - name: NCCL_DEBUG          a container's variable, `valueFrom` can't be known
      value: INFO
    env: {NCCL_DEBUG: INFO}     under env, env_vars, environment; elsewhere, known names only
    compile_xla_flags: "--..."  MaxText's compiler options;  `xla_flags:` text, list or mapping
    xla-flags: >- --xla_...     a text of flags under any key, as in a ConfigMap
    jax_config: {...}           Levanter's jax.config
    command: [bash, -c, "..."]  any text that sets such variables is read as a shell script

In a template, each `{{ }}` is a hole; a template that is still not YAML is read as plain text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any, Final

import yaml

from counterpoint.core import InputError
from counterpoint.flags.parse.any_text import read_any_text
from counterpoint.flags.parse.flag_values import (
    Assignment,
    ParsedValues,
    ValueSource,
    is_foreign_name,
    other_programs,
    parse_assignments,
    read_flags,
)
from counterpoint.flags.parse.shell import read_shell
from counterpoint.flags.parse.traced import (
    HOLE,
    Piece,
    TextBudget,
    TooMuchError,
    TracedText,
    known,
    located,
    unknown,
)
from counterpoint.flags.parsed import Location, Occurrence, ParsedSource, SyntaxIssue
from counterpoint.flags.settings import FLAG_VARIABLES, Channel, is_setting

_ENVIRONMENTS: Final = ("env", "envs", "env_vars", "envVars", "environment", "extraEnv")
_TEMPLATE_LINE: Final = re.compile(r"^[ \t-]*\{\{[^\n]*\}\}[ \t]*$", re.MULTILINE)
_MAPPED: Final = {
    "jax_config": (Channel.JAX_CONFIG, "Levanter jax_config"),
    "compiler_options": (Channel.COMPILER_OPTIONS, ""),
    "xla_compiler_options": (Channel.COMPILER_OPTIONS, ""),
}
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_REFERENCE: Final = re.compile(r"\$\$|\$\(([A-Za-z_]\w*)\)")
_ELSEWHERE: Final = ("env_file", "envFrom")
"""Keys that take variables from other files."""
_DEEPEST: Final = 100
_MAXTEXT: Final = "MaxText compile_xla_flags"
_FLAGS: Final = re.compile(rf"[\s{HOLE}]*--(?:xla|megascale)_\w+")
_ENV_LINE: Final = re.compile(r"([A-Za-z_]\w*)=(?!=)(.*)")
_SET: Final = re.compile(r"(?:^|[\s;&|])(?:export\s+|env\s+)?([A-Z][A-Z0-9_]*)\+?=", re.MULTILINE)
_COMMAND: Final = re.compile(r"\s(?:[\w./-]+\s|\S*[;&|])")
_FLAG_KEYS: Final = re.compile(r"(?:\w+[_-])?xla[_-]?flags", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class EmbeddedScript:
    """A text that sets flags in a shell."""

    text: str
    line: int


@dataclass(slots=True)
class YamlContent:
    """The content found in a source so far."""

    where: str
    lines: list[str]
    assigned: dict[str, Assignment] = field(default_factory=dict[str, Assignment])
    superseded: list[Assignment] = field(default_factory=list[Assignment])
    scripts: list[EmbeddedScript] = field(default_factory=list[EmbeddedScript])
    found: ParsedValues = field(default_factory=ParsedValues)
    notes: dict[str, None] = field(default_factory=dict[str, None])  # in order, each once
    unread: dict[str, None] = field(default_factory=dict[str, None])
    visited: set[tuple[int, bool]] = field(default_factory=set[tuple[int, bool]])
    budget: TextBudget = field(default_factory=lambda: TextBudget(""))

    def note(self, text: str) -> None:
        self.notes[text] = None

    def set(self, name: str, value: TracedText, line: int) -> None:
        earlier = self.assigned.pop(name, None)
        if earlier and name in FLAG_VARIABLES and earlier.value.text.split() != value.text.split():
            self.superseded.append(earlier)
            self.note(
                f"line {line}: a different program's {name} than in line {earlier.line};"
                " each is checked separately"
            )
        self.assigned[name] = Assignment(name, value, line=line)

    def text(self, node: yaml.ScalarNode) -> TracedText:
        """Return a scalar with the lines of its words, and its templates as holes."""
        line = node.start_mark.line + 1
        self.budget.spend_on(len(node.value) // 16, line)
        value = located(node.value, self.lines, line, node.end_mark.line + 1)
        return _with_holes(value)


def _with_holes(value: TracedText) -> TracedText:
    """Mark each template as unknown."""
    if HOLE not in value.text:
        return value
    pieces: list[Piece] = []
    for piece in value.pieces:
        for index, part in enumerate(piece.text.split(HOLE)):
            pieces += unknown("{{...}}", piece.line).pieces if index else ()
            pieces += known(part, piece.line).pieces
    return TracedText(tuple(pieces))


def read_yaml(text: str, where: str) -> ParsedSource:
    """Read all documents of a text."""
    nodes = _documents(text, where)
    if nodes is None:
        return read_any_text(text, where)
    manifest = YamlContent(where, text.split("\n"), budget=TextBudget(where))
    for node in nodes:
        _visit(manifest, node, "")
    return _written(manifest, _is_kubernetes(text))


def _is_kubernetes(text: str) -> bool:
    return bool(re.search(r"^apiVersion:", text, re.MULTILINE))


def _documents(text: str, where: str) -> list[yaml.Node] | None:
    """Return the documents; None for a template that becomes YAML only later."""
    template = "{{" in text
    if template:
        text = _TEMPLATE_LINE.sub(lambda match: "\n" * match[0].count("\n"), text)
        text = _without_templates(text)
    module: Any = yaml  # its stubs leave the type of a document open
    try:
        _check_depth(module.parse(text, Loader=_LOADER))
        found: list[yaml.Node] = list(module.compose_all(text, Loader=_LOADER))
    except (yaml.YAMLError, RecursionError, UnicodeEncodeError) as failure:
        if template:
            return None
        mark = getattr(failure, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise InputError(
            f"{where}{line}: not YAML: {_reason(failure)}",
            next="--form text finds flags in any text",
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


def _without_templates(text: str) -> str:
    """Replace each template by a hole, and keep its newlines."""
    parts: list[str] = []
    at = 0
    while (start := text.find("{{", at)) >= 0 and (end := text.find("}}", start)) >= 0:
        parts += [text[at:start], HOLE, "\n" * text.count("\n", start, end)]
        at = end + 2
    return "".join([*parts, text[at:]])


def _reason(failure: Exception) -> str:
    if isinstance(failure, UnicodeEncodeError):
        return "an invalid character"
    return getattr(failure, "problem", None) or "nested too deeply"


def _visit(manifest: YamlContent, node: yaml.Node | None, key: str) -> None:
    """Visit one node, under its key; only once, even if several aliases refer to it."""
    if isinstance(node, yaml.CollectionNode):
        mark = (id(node), key in _ENVIRONMENTS)
        if mark in manifest.visited:
            return
        manifest.visited.add(mark)
    if isinstance(node, yaml.MappingNode):
        if not _container_variable(manifest, node):
            for name, value in _pairs(node):
                _entry(manifest, name, value, key)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            if key not in _ENVIRONMENTS or not _listed(manifest, item):
                _visit(manifest, item, key)
    elif isinstance(node, yaml.ScalarNode):
        _text(manifest, node)


def _listed(manifest: YamlContent, item: yaml.Node) -> bool:
    """Read an item of a list of variables: `NAME=value`, or an unusual variable."""
    if isinstance(item, yaml.ScalarNode) and "=" in item.value:
        name, _, _ = item.value.partition("=")
        manifest.set(name, _behind(manifest.text(item), len(name) + 1), _line(item))
        return True
    return _odd_variable(manifest, item)


def _text(manifest: YamlContent, node: yaml.ScalarNode) -> None:
    """Read a text whose meaning depends only on its content."""
    manifest.budget.spend_on(len(node.value) // 16, _line(node))
    match _content(node.value):
        case Content.SCRIPT:
            manifest.scripts.append(_script(node))
        case Content.LINES:
            manifest.unread[f"line {_line(node)}: lines of NAME=value in a text"] = None
        case _:
            return


def _pairs(node: yaml.MappingNode) -> Iterator[tuple[str, yaml.Node]]:
    for name, value in node.value:
        if isinstance(name, yaml.ScalarNode):
            yield name.value, value


def _container_variable(manifest: YamlContent, node: yaml.MappingNode) -> bool:
    """Read `name:` with `value:` or `valueFrom:`."""
    fields = dict(_pairs(node))
    name, value = fields.get("name"), fields.get("value")
    if not isinstance(name, yaml.ScalarNode) or not name.value.isidentifier():
        return False
    if isinstance(value, yaml.ScalarNode) and set(fields) <= {"name", "value"}:
        manifest.set(name.value, _referred(manifest, manifest.text(value)), _line(name))
        return True
    if "valueFrom" in fields and is_setting(name.value):
        source = unknown(f"valueFrom in line {_line(fields['valueFrom'])}", _line(name))
        manifest.set(name.value, source, _line(name))
        return True
    return "valueFrom" in fields


def _odd_variable(manifest: YamlContent, node: yaml.Node) -> bool:
    """Read an entry of a list of variables that has no value, or an invalid name."""
    fields = dict(_pairs(node)) if isinstance(node, yaml.MappingNode) else {}
    name, value = fields.get("name"), fields.get("value")
    if not isinstance(name, yaml.ScalarNode) or not set(fields) <= {"name", "value", "valueFrom"}:
        return False
    if name.value.isidentifier() and len(fields) > 1:
        return False
    if not is_foreign_name(name.value):
        written = manifest.text(value) if isinstance(value, yaml.ScalarNode) else TracedText()
        manifest.set(name.value, written, _line(name))
    return True


def _referred(manifest: YamlContent, value: TracedText) -> TracedText:
    """Substitute earlier variables of the container for `$(NAME)`, as Kubernetes does."""
    if "$" not in value.text:
        return value
    pieces: list[Piece] = []
    for piece in value.pieces:
        at = 0
        for match in _REFERENCE.finditer(piece.text) if piece.known else ():
            pieces += known(piece.text[at : match.start()], piece.line).pieces
            earlier = manifest.assigned.get(match[1] or "")
            found = earlier.value if earlier else unknown(match[0], piece.line)
            pieces += found.pieces if match[1] else known("$", piece.line).pieces
            at = match.end()
        rest = piece.text[at:]
        pieces += known(rest, piece.line).pieces if piece.known else (piece,)
    return manifest.budget.spend(TracedText(tuple(pieces)), value.line)


def _entry(manifest: YamlContent, name: str, value: yaml.Node, under: str) -> None:
    """Read a key with its value."""
    if name in _ELSEWHERE:
        what = value.value if isinstance(value, yaml.ScalarNode) else name
        manifest.unread[f"{what} (line {_line(value)})"] = None
        return
    if isinstance(value, yaml.ScalarNode):
        _scalar(manifest, name, value, under)
    elif name in _MAPPED and isinstance(value, yaml.MappingNode):
        channel, via = _MAPPED[name]
        for option, inner in _pairs(value):
            if isinstance(inner, yaml.ScalarNode):
                manifest.found.given.append(_given(manifest, channel, option, inner, via))
    elif _is_flag_key(name) and isinstance(value, yaml.MappingNode | yaml.SequenceNode):
        _flag_list(manifest, value)
    else:
        if name == "profiler":
            manifest.note(f"line {_line(value)}: the profiler is also configured here; not read")
        _visit(manifest, value, name)


def _scalar(manifest: YamlContent, name: str, value: yaml.ScalarNode, under: str) -> None:
    manifest.budget.spend_on(len(value.value) // 16, _line(value))
    if name == "compile_xla_flags":
        variable = ValueSource(manifest.where, Channel.COMPILER_OPTIONS, _MAXTEXT)
        _take(manifest, read_flags(manifest.text(value), variable))
    elif name not in FLAG_VARIABLES and (
        _is_flag_key(name) or _content(value.value) is Content.FLAGS
    ):
        variable = ValueSource(manifest.where, Channel.XLA_FLAGS, name)
        _take(manifest, read_flags(manifest.text(value), variable))
    elif is_setting(name) or (under in _ENVIRONMENTS and name.isidentifier()):
        manifest.set(name, manifest.text(value), _line(value))
    elif name == "profiler" and value.value not in ("", "false", "null"):
        manifest.note(f"line {_line(value)}: the profiler is also configured here; not read")
    else:
        _visit(manifest, value, name)


def _flag_list(manifest: YamlContent, node: yaml.MappingNode | yaml.SequenceNode) -> None:
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            if isinstance(item, yaml.ScalarNode):
                variable = ValueSource(manifest.where, Channel.XLA_FLAGS, "xla_flags")
                _take(manifest, read_flags(manifest.text(item), variable))
        return
    for name, value in _pairs(node):
        if isinstance(value, yaml.ScalarNode):
            bare = name.removeprefix("--")
            given = _given(manifest, Channel.XLA_FLAGS, bare, value, "xla_flags")
            manifest.found.given.append(given)


def _given(
    manifest: YamlContent, channel: Channel, name: str, value: yaml.ScalarNode, via: str
) -> Occurrence:
    text = manifest.text(value)
    return Occurrence(
        channel=channel,
        name=name,
        value=text.shown,
        place=Location(manifest.where, _line(value)),
        text=f"{name}: {text.shown}",
        via=via,
        known=text.known,
    )


def _take(manifest: YamlContent, found: ParsedValues) -> None:
    manifest.found.given += found.given
    manifest.found.issues += found.issues


def _line(node: yaml.Node) -> int:
    return node.start_mark.line + 1


def _behind(value: TracedText, count: int) -> TracedText:
    """Return the value without its first characters, on the line where it begins."""
    if value.known:
        return known(value.text[count:], value.line)
    return unknown(value.shown[count:], value.line)


def _script(node: yaml.ScalarNode) -> EmbeddedScript:
    """Return the script; a block (`|`) begins on the line after its key."""
    line = _line(node) + (1 if node.style in ("|", ">") else 0)
    return EmbeddedScript(node.value.replace(HOLE, "$TEMPLATE"), line)


def _written(manifest: YamlContent, kubernetes: bool) -> ParsedSource:
    """Build the result; variables are set first, since a container's script inherits them."""
    assigned = list(manifest.assigned.values())
    found, notes = parse_assignments(assigned, manifest.where), list(manifest.notes)
    before = {variable.name: variable.value for variable in assigned}
    read: list[ParsedSource] = []
    unread = list(manifest.unread)
    for script in manifest.scripts:
        try:
            read.append(
                read_shell(
                    script.text,
                    manifest.where,
                    line=script.line,
                    before=before,
                    budget=manifest.budget,
                )
            )
        except TooMuchError:
            raise
        except InputError as failure:
            unread.append(f"line {script.line}: a script can't be read: {failure.what}")
    inherited = [*found.inherited, *(part for program in read for part in program.inherited)]
    if read:
        found = _of_scripts(read, set(found.given))
    issues = [*found.issues, *manifest.found.issues]
    form = "kubernetes" if kubernetes else "yaml"
    return ParsedSource(
        where=manifest.where,
        form=form,
        given=(*found.given, *manifest.found.given),
        issues=tuple(sorted(issues, key=lambda issue: issue.place.line or 0)),
        layout=next((program.layout for program in reversed(read) if program.layout), None),
        notes=tuple(dict.fromkeys([*notes, *(note for program in read for note in program.notes)])),
        unread=tuple(
            dict.fromkeys([*unread, *(part for program in read for part in program.unread)])
        ),
        inherited=tuple(dict.fromkeys(inherited)),
        others=(
            *other_programs(manifest.superseded, manifest.where, form),
            *(another for program in read for another in program.others),
        ),
    )


def _of_scripts(read: list[ParsedSource], outer: set[Occurrence]) -> ParsedValues:
    """Return the settings from the scripts; scripts are independent of each other."""
    given: dict[Occurrence, None] = {}
    issues: dict[SyntaxIssue, None] = {}
    for number, program in enumerate(read):
        arm = (("script", str(number)),)
        given |= dict.fromkeys(
            occurrence if occurrence in outer else replace(occurrence, branch=arm)
            for occurrence in program.given
        )
        issues |= dict.fromkeys(program.issues)
    return ParsedValues(list(given), list(issues))


class Content(Enum):
    """The kind of content of a text."""

    FLAGS = auto()
    LINES = auto()  # each NAME=value, taken literally
    SCRIPT = auto()
    OTHER = auto()


def _is_flag_key(name: str) -> bool:
    """Recognize `xla_flags`, `xla-flags`, `xlaFlags`, `extra_xla_flags`."""
    return bool(_FLAG_KEYS.fullmatch(name)) and name != "XLA_FLAGS"


def _content(text: str) -> Content:
    """Classify the content of a scalar."""
    if _FLAGS.match(text):
        return Content.FLAGS
    if not any(is_setting(match[1]) for match in _SET.finditer(text)):
        return Content.OTHER
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    matches = [
        _ENV_LINE.fullmatch(line.strip(HOLE + " ")) for line in lines if line.strip(HOLE + " ")
    ]
    if all(match and _to_the_letter(match[2]) for match in matches):
        return Content.LINES
    return Content.SCRIPT


def _to_the_letter(value: str) -> bool:
    """Return whether a value has no quotes, references or commands, which need a shell."""
    return not re.search(r"[\"'`\\]|\$[({A-Za-z]", value) and (
        value.startswith("--") or not _COMMAND.search(value + " ")
    )
