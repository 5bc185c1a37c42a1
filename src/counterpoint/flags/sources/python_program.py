"""Program: what was found in a Python source so far."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Final

from counterpoint.flags.sources.python_branches import branch_at
from counterpoint.flags.sources.traced import Traced
from counterpoint.flags.sources.variables import Assigned
from counterpoint.flags.written import Branch, Given, Slip

_SHOWN: Final = 60


@dataclass(slots=True)
class Program:
    """What was found in the source so far."""

    where: str
    source: list[str]
    body: list[ast.stmt]
    defined: frozenset[str]
    environ: dict[str, Traced] = field(default_factory=dict[str, Traced])
    lines: dict[str, int] = field(default_factory=dict[str, int])
    via: dict[str, str] = field(default_factory=dict[str, str])
    given: list[Given] = field(default_factory=list[Given])
    dicts: list[Given] = field(default_factory=list[Given])  # flags in dicts of no known use
    slips: list[Slip] = field(default_factory=list[Slip])
    notes: dict[str, None] = field(default_factory=dict[str, None])  # in order, each once
    unread: dict[str, None] = field(default_factory=dict[str, None])
    functions: dict[str, int] = field(default_factory=dict[str, int])
    function: int = 0  # which one is read; 0 is the module
    apart: list[Assigned] = field(default_factory=list[Assigned])
    """What functions and arms set that don't run together with the last one."""

    def assigned(self, name: str) -> Assigned:
        line = self.lines.get(name)
        return Assigned(name, self.environ[name], self.via.get(name, ""), line)

    def branch(self, line: int | None, *, library: bool = False) -> Branch:
        return branch_at(self.body, line, library=library)

    def leave_unread(self, text: str, line: int) -> None:
        """Say what may set something and was not read."""
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
        self.unread[f"line {line}: {shown}"] = None

    def note(self, text: str) -> None:
        self.notes[text] = None
