"""Settings in a manifest of Kubernetes or a task of SkyPilot.

PyYAML forgets comments when it writes, so nothing is written anew: the parsed nodes say where each
value is, and only these places of the text are replaced. JSON, which is YAML, stays JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from counterpoint.core import UsageError
from counterpoint.flags.settings import FLAG_VARIABLES, Settings
from counterpoint.flags.text import parse_xla_flags, render_xla_flags

_DASH: Final = re.compile(r"^ *(?=-)", re.MULTILINE)
"""What is before an entry of a block's list."""

_EMPTY: Final = (
    "these settings are empty, and what an earlier patch set can't be told from your own: take the"
    " original file"
)
_KEPT: Final = ("NCCL_", "XLA_", "JAX_", "LIBTPU_", "CUDA_", "TF_")
"""Variables that another arm may have set."""


def patch_manifest(text: str, name: str, settings: Settings) -> tuple[str, tuple[str, ...]]:
    """Return the text with the settings in every container, and notes."""
    rendered = "a template is patched after it was rendered: `helm template`"
    documents = _composed(text, f"{name}: not YAML", rendered if "{{" in text else None)
    if not settings.xla and not settings.variables:
        return text, (_EMPTY,)
    edit = _Edit(text, name, settings)
    for document in documents:
        edit.visit(document, top=True)
    if not edit.places:
        raise UsageError(
            f"{name}: no container whose environment could be set",
            why="`containers` of a pod, `trainer` of a TrainJob and `run` of a SkyPilot task have"
            " one",
        )
    result = edit.result()
    _composed(result, f"{name}: the environment can't be changed", "its YAML has an unusual form")
    return result, tuple(dict.fromkeys(edit.notes))


def _composed(text: str, what: str, why: str | None) -> list[Node]:
    compose: Callable[..., Iterator[Node | None]] = getattr(yaml, "compose_all")  # noqa: B009 - untyped
    try:
        return [node for node in compose(text, Loader=yaml.SafeLoader) if node]
    except yaml.YAMLError as damage:
        problem = " ".join(str(damage).replace('in "<unicode string>", ', "at ").split())
        raise UsageError(f"{what}: {problem}", why=why) from None


@dataclass
class _Edit:
    """The replacements in one text: start, end and new text of each."""

    text: str
    name: str
    settings: Settings
    changes: list[tuple[int, int, str]] = field(default_factory=list[tuple[int, int, str]])
    notes: list[str] = field(default_factory=list[str])
    places: int = 0
    seen: set[int] = field(default_factory=set[int])

    def visit(self, node: Node, *, top: bool = False) -> None:
        if id(node) in self.seen:  # an alias: the anchor's text is edited once
            return
        self.seen.add(id(node))
        if isinstance(node, SequenceNode):
            for item in node.value:
                self.visit(item)
        elif isinstance(node, MappingNode):
            self._mapping(node, _keys(node), top=top)

    def _mapping(self, node: MappingNode, keys: Mapping[str, Node], *, top: bool) -> None:
        kind = keys.get("kind")
        named = kind.value if isinstance(kind, ScalarNode) else ""
        if top and "run" in keys and not kind:
            self._task(node, keys)
        if named == "MPIJob":
            self.notes.append("mpirun passes on only the variables that its -x names")
        if "rayClusterSpec" in keys:  # of a RayJob: both reach its tasks after the containers' own
            self._note_scripts(keys)
        for key, value in keys.items():
            if key == "containers" and isinstance(value, SequenceNode):
                for item in value.value:
                    self._environment(item)
            elif key == "trainer" and isinstance(value, MappingNode) and "trainJob" not in keys:
                self._environment(value)
            self.visit(value)

    def _environment(self, container: Node) -> None:
        """Set the variables in a container's list `env`."""
        if not isinstance(container, MappingNode):
            return
        self.places += 1
        keys = _keys(container)
        self._note_scripts(keys)
        env = keys.get("env")
        if env is None and "<<" in keys:
            raise self._refusal(container, "its environment comes from an anchor (`<<`)")
        had = self._entries(env)
        new = self._replaced(had)
        if new:
            self._add(container, env, new)

    def _replaced(self, had: Mapping[str, Node]) -> list[tuple[str, str]]:
        """Replace values that differ, and return the variables that are not there yet."""
        new: list[tuple[str, str]] = []
        self._note_kept(had)
        for name, value in _variables(self.settings, had, self._text_of):
            if name not in had:
                new.append((name, value))
            elif self._text_of(had[name]) != value:
                self._replace(had[name], value)
        return new

    def _entries(self, env: Node | None) -> dict[str, Node]:
        if env is None or (isinstance(env, ScalarNode) and env.value in ("", "null", "~")):
            return {}
        if not isinstance(env, SequenceNode):
            raise self._refusal(env, "`env` is not a list")
        found: dict[str, Node] = {}
        for entry in env.value:
            keys = _keys(entry) if isinstance(entry, MappingNode) else {}
            name = keys.get("name")
            if isinstance(name, ScalarNode):
                found[str(name.value)] = keys.get("value", entry)
        return found

    def _text_of(self, node: Node) -> str:
        if not isinstance(node, ScalarNode):
            raise self._refusal(node, "it has no `value`, or that comes from elsewhere")
        return str(node.value).replace("$$(", "$(")

    def _task(self, node: MappingNode, keys: Mapping[str, Node]) -> None:
        """Set the variables of a SkyPilot task, in its mapping `envs`."""
        self.places += 1
        self._note_scripts(keys)
        envs = keys.get("envs")
        had = _keys(envs) if isinstance(envs, MappingNode) else {}
        new = self._replaced(had)
        if new and isinstance(envs, MappingNode) and envs.value and not envs.flow_style:
            column = envs.value[0][0].start_mark.column
            self._insert(
                self._after(envs),
                [f"{' ' * column}{name}: {json.dumps(value)}" for name, value in new],
            )
        elif new and envs is not None:
            raise self._refusal(envs, "`envs` is empty, or in one line")
        elif new:
            lines = ["envs:", *(f"  {name}: {_quoted(value)}" for name, value in new)]
            self._insert(node.start_mark.index, lines)

    def _note_scripts(self, keys: Mapping[str, Node]) -> None:
        for key in ("command", "args", "run", "setup", "entrypoint", "runtimeEnvYAML"):
            sign = ":" if key == "runtimeEnvYAML" else "="
            for scalar in _scalars(keys.get(key)):
                for name in ("XLA_FLAGS", *self.settings.variables):
                    if name + sign in str(scalar.value) and self._is_set(name):
                        line = scalar.start_mark.line + 1
                        what = f"`{key}`" if sign == ":" else f"the script of `{key}`"
                        self.notes.append(
                            f"line {line}: {what} sets {name} itself, after the environment:"
                            " change it there, too"
                        )

    def _note_kept(self, had: Mapping[str, Node]) -> None:
        """Note what stays: it may be of another arm, patched into the file before."""
        kept: list[str] = []
        for name, node in had.items():
            if name in FLAG_VARIABLES and self._is_set(name):
                before = self._flags_of(node, name)
                kept += [f"--{flag}" for flag in before if flag not in self._flags(name)]
            elif name.startswith(_KEPT) and not self._is_set(name):
                kept.append(name)
        if kept:
            self.notes.append(
                f"the file's own {', '.join(kept)} stay: if an earlier patch with other settings"
                " set them, patch the original file instead"
            )

    def _flags_of(self, node: Node, name: str) -> dict[str, str]:
        text = self._text_of(node)
        try:
            return dict(parse_xla_flags(text, where=name)) if text.strip() else {}
        except UsageError as error:  # such as $(NAME), which Kubernetes expands
            raise self._refusal(node, error.what) from None

    def _flags(self, name: str) -> Mapping[str, str]:
        if name == "XLA_FLAGS":
            return self.settings.flags
        return dict(parse_xla_flags(self.settings.variables[name], where=name))

    def _is_set(self, name: str) -> bool:
        return bool(self.settings.xla) if name == "XLA_FLAGS" else name in self.settings.variables

    def _replace(self, node: Node, value: str) -> None:
        start, end = node.start_mark.index, node.end_mark.index
        old = self.text[start:end]
        if old.startswith("&"):
            raise self._refusal(node, "other places take its value by an anchor (`&`)")
        self.changes.append((start, end, scalar(value) + old[len(old.rstrip()) :]))

    def _add(
        self, container: MappingNode, env: Node | None, new: Sequence[tuple[str, str]]
    ) -> None:
        flow = ", ".join(f'{{"name": "{name}", "value": {scalar(value)}}}' for name, value in new)
        if isinstance(env, SequenceNode) and not env.flow_style:
            self._insert_entries(env, new)
        elif isinstance(env, SequenceNode):
            self._insert_first(env, "[", flow)
        elif env is not None:
            key = next(key for key, value in container.value if value is env)
            end = max(env.end_mark.index, key.end_mark.index + 1)
            self.changes.append((key.end_mark.index + 1, end, f" [{flow}]"))
        elif container.flow_style:
            self._insert_first(container, "{", f'"env": [{flow}]')
        else:
            column = container.value[0][0].start_mark.column
            lines = [f"{' ' * column}env:", *_lines(new, column)]
            plain = [
                _later(pair)
                for pair in container.value
                if isinstance(pair[1], ScalarNode) and pair[1].style not in ("|", ">")
            ]
            self._insert(self._after(plain[0] if plain else container), lines)

    def _insert_entries(self, env: SequenceNode, new: Sequence[tuple[str, str]]) -> None:
        """Insert at the end of a block, or at its start if its last entry is an alias."""
        start = env.start_mark
        dash = _DASH.search(self.text, start.index - start.column)
        if dash is None:
            raise self._refusal(env, "its entries are not in lines of their own")
        alias = env.value[-1].start_mark.index < start.index
        at = dash.start() if alias else self._after(env)
        self._insert(at, _lines(new, len(dash[0])))

    def _insert_first(self, node: Node, bracket: str, new: str) -> None:
        """Insert where neither a comma nor a comment at the end is in the way."""
        at = self.text.index(bracket, node.start_mark.index) + 1
        self.changes.append((at, at, f"{new}, " if node.value else new))

    def _after(self, node: Node) -> int:
        """Return the start of the line after a block's last line."""
        last = _last(node)
        end = last.end_mark.index
        if end and self.text[end - 1] == "\n":
            return end
        found = self.text.find("\n", end)
        return len(self.text) if found < 0 else found + 1

    def _insert(self, at: int, lines: Sequence[str]) -> None:
        newline = self._newline()
        first = newline if at and self.text[at - 1] != "\n" else ""
        self.changes.append((at, at, first + "".join(f"{line}{newline}" for line in lines)))

    def _newline(self) -> str:
        return "\r\n" if "\r\n" in self.text else "\n"

    def _refusal(self, node: Node, why: str) -> UsageError:
        line = node.start_mark.line + 1
        return UsageError(f"{self.name}, line {line}: the environment can't be changed", why=why)

    def result(self) -> str:
        text = self.text
        for start, end, new in sorted(set(self.changes), reverse=True):  # anchors are met twice
            text = text[:start] + new + text[end:]
        return text


def _variables(
    settings: Settings, had: Mapping[str, Node], text_of: Callable[[Node], str]
) -> Iterator[tuple[str, str]]:
    """Yield each variable with its new value; of flags that are there already, others stay."""
    wanted = {"XLA_FLAGS": settings.flags} if settings.xla else {}
    for name, value in settings.variables.items():
        if name in FLAG_VARIABLES:
            wanted[name] = dict(parse_xla_flags(value, where=name))
        else:
            yield name, value
    for name, flags in wanted.items():
        yield name, merged_flags(name, text_of(had[name]) if name in had else "", flags)


def merged_flags(variable: str, text: str, flags: Mapping[str, str]) -> str:
    """Return the text with these values, and its other flags as they were."""
    before = dict(parse_xla_flags(text, where=variable)) if text.strip() else {}
    merged = {**before, **flags}
    return text if merged == before else render_xla_flags(merged.items())


def _keys(node: Node) -> dict[str, Node]:
    if not isinstance(node, MappingNode):
        return {}
    return {str(key.value): value for key, value in node.value if isinstance(key, ScalarNode)}


def _scalars(node: Node | None) -> Iterator[ScalarNode]:
    if isinstance(node, ScalarNode):
        yield node
    elif isinstance(node, SequenceNode):
        for item in node.value:
            yield from _scalars(item)


def _last(node: Node) -> Node:
    """Return the node within a block after which the block ends; a block's own mark is later."""
    while isinstance(node, MappingNode | SequenceNode) and not node.flow_style and node.value:
        last: Any = node.value[-1]
        node = _later(last) if isinstance(node, MappingNode) else last
    return node


def _later(pair: tuple[Node, Node]) -> Node:
    """Return the value, or its key if the value is an alias, whose text is elsewhere."""
    return max(pair, key=lambda node: node.start_mark.index)


def _lines(new: Sequence[tuple[str, str]], column: int) -> list[str]:
    indent = " " * column
    return [
        line
        for name, value in new
        for line in (f"{indent}- name: {name}", f"{indent}  value: {scalar(value)}")
    ]


def scalar(value: str) -> str:
    """Return a value in quotes; Kubernetes would replace `$(NAME)`."""
    return _quoted(value.replace("$(", "$$("))


def _quoted(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)
