"""Program: the findings in a Python source so far, and where it makes JAX read its settings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from counterpoint.flags.parse.flag_values import Assignment
from counterpoint.flags.parse.python_values import Entries, Value, dotted, segment
from counterpoint.flags.parse.traced import TracedText
from counterpoint.flags.parsed import Branch, IssueKind, Location, Occurrence, SyntaxIssue
from counterpoint.flags.settings import FLAG_VARIABLES, Channel
from counterpoint.flags.text import LIBTPU

_FLAG_NAME: Final = re.compile(r"(?:xla|megascale)_[a-z0-9_]+")
_USES_DEVICE: Final = re.compile(
    r"jax\.(?:(?:numpy|random|lax|nn|scipy)\..*|(?:.*\.)?(?:devices|local_devices|device_count"
    r"|local_device_count|default_backend|process_index|process_count|device_put|device_get"
    r"|block_until_ready|make_mesh|make_array_from_callback))"
)
_NEEDS_NO_DEVICE: Final = ("dtype", "finfo", "iinfo", "result_type", "promote_types", "eval_shape")
_SHOWN: Final = 60


@dataclass(slots=True)
class PythonProgram:
    """The findings in the source so far."""

    where: str
    lines: list[str]
    defined: frozenset[str]
    environ: dict[str, TracedText] = field(default_factory=dict[str, TracedText])
    set_at: dict[str, int] = field(default_factory=dict[str, int])
    via: dict[str, str] = field(default_factory=dict[str, str])
    given: list[Occurrence] = field(default_factory=list[Occurrence])
    dicts: list[Occurrence] = field(
        default_factory=list[Occurrence]
    )  # flags in dicts of unknown use
    issues: list[SyntaxIssue] = field(default_factory=list[SyntaxIssue])
    notes: dict[str, None] = field(default_factory=dict[str, None])  # in order, each once
    unread: dict[str, None] = field(default_factory=dict[str, None])
    branches: dict[int, Branch] = field(default_factory=dict[int, Branch])  # by line
    apart: list[Assignment] = field(default_factory=list[Assignment])
    """Variables of functions and branches that don't run together with the last one."""

    def assigned(self, name: str) -> Assignment:
        return Assignment(name, self.environ[name], self.via.get(name, ""), self.set_at[name])

    def branch(self, line: int | None) -> Branch:
        return self.branches.get(line or 0, ())

    def leave(self, node: ast.expr | ast.stmt) -> None:
        """List what may set something and was not read."""
        text = segment(self.lines, node)
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
        self.unread[f"line {node.lineno}: {shown}"] = None

    def one(
        self, channel: Channel, name: str, value: str, line: int, text: str, *, known: bool
    ) -> Occurrence:
        """Build a setting that is not a variable."""
        place = Location(self.where, line)
        return Occurrence(
            channel=channel, name=name, value=value, place=place, text=text, known=known
        )

    def entries(self, value: Entries, line: int) -> list[Occurrence]:
        """Return the entries of a dict as compiler options."""
        return [
            self.one(
                Channel.COMPILER_OPTIONS,
                name,
                inner.shown,
                inner.line or line,
                f'"{name}": {inner.shown}',
                known=inner.known,
            )
            for name, inner in value.entries.items()
            if isinstance(inner, TracedText)
        ]


@dataclass(slots=True)
class JaxUse:
    """The names for JAX in a program, and the lines of its import and its first use.

    JAX reads its own variables when it is imported, and XLA_FLAGS when it first needs a device.
    """

    imported: int = 0
    used: int = 0
    used_as: str = ""
    names: dict[str, str] = field(default_factory=dict[str, str])

    def see_import(self, node: ast.Import | ast.ImportFrom) -> None:
        module = f"{node.module or ''}." if isinstance(node, ast.ImportFrom) else ""
        for alias in node.names:
            whole = module + alias.name
            if whole.partition(".")[0] == "jax":
                self.imported = self.imported or node.lineno
                plain = not (alias.asname or module)
                self.names["jax" if plain else alias.asname or alias.name] = (
                    "jax" if plain else whole
                )

    def see_call(self, node: ast.Call) -> None:
        name = self.full_name(node.func)
        harmless = name.rpartition(".")[2] in _NEEDS_NO_DEVICE
        if not self.used and not harmless and _USES_DEVICE.fullmatch(name):
            self.used, self.used_as = node.lineno, ast.unparse(node.func)

    def too_late(self, name: str, value: TracedText, place: Location) -> SyntaxIssue | None:
        """Return the issue with a variable that was already read, so that it has no effect."""
        if self.used and name in FLAG_VARIABLES:
            why, suggestion = (
                f"XLA has already read it in line {self.used} (`{self.used_as}`)",
                None,
            )
        elif self.imported and name.startswith(("JAX_", "JAXLIB_")):
            why = f"JAX has already read it in line {self.imported}, on import"
            suggestion = f'jax.config.update("{name.lower()}", ...)'
        else:
            return None
        return SyntaxIssue(
            kind=IssueKind.TOO_LATE,
            channel=FLAG_VARIABLES.get(name, Channel.ENVIRONMENT),
            text=f"{name}={value.shown}",
            why=why,
            place=place,
            suggestion=suggestion,
        )

    def full_name(self, node: ast.expr) -> str:
        """Return `jax.numpy.zeros` for `jnp.zeros`."""
        head, dot, rest = dotted(node).partition(".")
        return self.names.get(head, head) + dot + rest


def flag_entries(value: Entries) -> Entries | None:
    """Return the flags among the entries, if several look like flags or one is known."""
    from counterpoint.flags.history import history  # slow to import, and rarely needed

    found: dict[str, Value] = {
        name: inner
        for name, inner in value.entries.items()
        if _FLAG_NAME.fullmatch(name)
        and isinstance(inner, TracedText)
        and not inner.text.lstrip().startswith("-")
    }
    known = (name.startswith(LIBTPU) or history(name) is not None for name in found)
    return Entries(found) if len(found) > 1 or any(known) else None


def for_their_chip(given: Iterable[Occurrence]) -> Iterator[Occurrence]:
    """Move TPU flags to libtpu's channel; flags of both go with them if there are no GPU flags."""
    occurrences = list(given)
    gpu = any(occurrence.name.startswith("xla_gpu_") for occurrence in occurrences)
    tpu = any(occurrence.name.startswith(LIBTPU) for occurrence in occurrences) and not gpu
    for occurrence in occurrences:
        libtpu = tpu or occurrence.name.startswith(LIBTPU)
        yield replace(occurrence, channel=Channel.LIBTPU_INIT_ARGS) if libtpu else occurrence
