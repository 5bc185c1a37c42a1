"""The state of a shell script as it is read: variables set, values dropped, notes and issues."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from counterpoint.flags.parse.flag_values import (
    Assignment,
    other_programs,
    overwritten,
    parse_assignments,
)
from counterpoint.flags.parse.shell_values import Doubt, Variables
from counterpoint.flags.parse.traced import TracedText, known, unknown
from counterpoint.flags.parsed import IssueKind, Location, Occurrence, ParsedSource, SyntaxIssue
from counterpoint.flags.settings import FLAG_VARIABLES, Layout, is_setting

_SHOWN: Final = 60

Numbers = tuple[tuple[str, int], ...]
"""Counts by the names of Slurm's long options; the last value of a name counts."""

Branch = tuple[tuple[int, int], ...]
"""The enclosing blocks: the number of each, and which of its branches."""


@dataclass(slots=True)
class OpenBlock:
    """An open `if`, `case` or loop."""

    kind: str
    number: int
    arm: int = 0


@dataclass(frozen=True, slots=True)
class AssignedAt:
    """The place where a variable got its value, and the number of programs started before that."""

    line: int
    branch: Branch
    program: int


@dataclass(slots=True)
class ShellState:
    """Variables and open blocks of a script, with notes and issues."""

    variables: Variables
    exported: set[str] = field(default_factory=set[str])
    exports_all: bool = False
    bare: set[str] = field(default_factory=set[str])  # given as lines of flags, not assigned
    sets: dict[str, AssignedAt] = field(default_factory=dict[str, AssignedAt])
    for_command: dict[str, Assignment] = field(default_factory=dict[str, Assignment])
    options: list[Occurrence] = field(default_factory=list[Occurrence])
    slips: list[SyntaxIssue] = field(default_factory=list[SyntaxIssue])
    notes: dict[str, None] = field(default_factory=dict[str, None])  # in order, each once
    unread: dict[str, None] = field(default_factory=dict[str, None])
    superseded: list[Assignment] = field(default_factory=list[Assignment])
    """Flags of programs and branches other than the last."""
    numbers: Numbers = ()
    programs: int = 0
    fixed: set[str] = field(default_factory=set[str])  # not taking the assigned value
    handed: int = 0  # the line where XLA_FLAGS is passed as LIBTPU_INIT_ARGS
    blocks: list[OpenBlock] = field(default_factory=list[OpenBlock])
    opened: int = 0

    def assign(
        self, name: str, value: TracedText, line: int, *, adds: bool = False, exported: bool = False
    ) -> None:
        """Set a variable, or append to it."""
        before = self.variables.values.get(name, TracedText())
        value = unknown(f"${name}", line) if name in self.fixed else value
        if adds:
            value = self._added(name, value, line)
        elif name in FLAG_VARIABLES:
            self._may_overwrite(name, before, value, line)
        self.variables.arrays.pop(name, None)
        keeps = bool(self.blocks and before.known and before.text and not value.known)
        self.variables.condition(name, self._doubt(line, keeps=keeps))
        if keeps:
            return
        self.variables.values.pop(name, None)
        self.variables.values[name] = value
        branch = tuple((block.number, block.arm) for block in self.blocks)
        self.sets[name] = AssignedAt(line, branch, self.programs)
        if exported or self.exports_all:
            self.exported.add(name)

    def _doubt(self, line: int, *, keeps: bool) -> Doubt | None:
        if not self.blocks:
            return None
        if keeps:
            return (0, "possibly set again: read with the previous value", line)
        kind = self.blocks[-1].kind.removesuffix(" arm")
        return (self.blocks[0].number, f"set within `{kind}`: read as if it ran", line)

    def _added(self, name: str, value: TracedText, line: int) -> TracedText:
        """Return the value of a variable after `NAME+=value`."""
        before = self.variables.values.get(name, TracedText())
        if name not in self.variables.values and name not in self.bare:
            before = self.variables.inherited(name, line)
            if self.variables.certain and name not in FLAG_VARIABLES:
                before = unknown(f"${name}", line)
        space = known(" ", line) if name in self.bare and before.text else TracedText()
        return self.variables.budget.spend(before + space + value, line)

    def enter(self, kind: str) -> OpenBlock:
        """Open a block."""
        self.opened += 1
        self.blocks.append(OpenBlock(kind, self.opened))
        return self.blocks[-1]

    def forget(self, name: str, line: int) -> None:
        """Unset a variable."""
        self.variables.values.pop(name, None)
        self.variables.arrays.pop(name, None)
        self.exported.discard(name)
        if self.blocks:
            self.variables.doubtful[name] = (0, "possibly unset", line)

    def inherit(self, name: str) -> None:
        """Add a variable that was set before the script started."""
        self.sets[name] = AssignedAt(self.variables.values[name].line or 0, (), 0)
        self.exported.add(name)

    def leave(self, line: int, text: str) -> None:
        """List a part that was not read though it may set something."""
        text = " ".join(text.split())
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
        self.unread[f"line {line}: {shown}" if line else shown] = None

    def outside_quotes(self, word: str, line: int) -> None:
        """Report a flag after an unquoted space, at which the shell ends the value."""
        why = "not quoted: the shell ends the value at the space before it"
        self.slip(IssueKind.STRAY, "XLA_FLAGS", word, why, line)

    def slip(
        self,
        kind: IssueKind,
        variable: str,
        text: str,
        why: str,
        line: int,
        mend: str | None = None,
    ) -> None:
        """Report an issue."""
        channel, place = FLAG_VARIABLES[variable], Location(self.variables.where, line or None)
        self.slips.append(
            SyntaxIssue(kind=kind, channel=channel, text=text, why=why, place=place, mend=mend)
        )

    def give(self, one: Assignment) -> None:
        """Set a variable for one command only; of several commands, the last counts."""
        line = one.line or 0
        for used in sorted(self.variables.used) if is_setting(one.name) else ():
            if used in self.variables.doubtful:
                self.variables.doubt(used, self.variables.doubtful[used])
        if one.name in FLAG_VARIABLES:
            before = self.variables.values.get(one.name, TracedText())
            self._may_overwrite(one.name, before, one.value, line)
            earlier = self.for_command.get(one.name)
            if earlier and earlier.value.text != one.value.text:
                self.superseded.append(earlier)
                self.notes[
                    f"line {line}: a different {one.name} for this command than in line"
                    f" {earlier.line}; each is checked separately"
                ] = None
        self.for_command[one.name] = one

    def _may_overwrite(self, name: str, before: TracedText, value: TracedText, line: int) -> None:
        """Report dropped flags as an issue, unless a program or another branch had them."""
        at = self.sets.get(name)
        if at is None:
            return
        self.variables.budget.spend(before, line)
        origin = f"the flags of line {at.line}" if at.line else "the inherited flags"
        place, mend = (
            Location(self.variables.where, line or None),
            f'{name}="${{{name}}} {{start}} ..."',
        )
        slip = overwritten(name, before, value, origin, place, mend)
        arms = {block.number: block.arm for block in self.blocks}
        apart = any(arms.get(number, arm) != arm for number, arm in at.branch)
        if slip and (apart or self.programs > at.program):
            self.superseded.append(Assignment(name, before, line=at.line))
            note = "set in several branches; each is checked separately"
            note = note if apart else "set again for the programs started after it"
            self.notes[f"line {line}: {name} is {note}"] = None
        elif slip:
            self.slips.append(slip)

    # Results.

    def assigned(self, *, every: bool = False) -> Iterator[Assignment]:
        """Yield the script's own variables as a program started last would inherit them.

        `every`: without any export, all of them count.
        """
        exports = bool(self.exported - self.bare)
        for name, value in self.variables.values.items():
            at = self.sets.get(name)
            if at is None or name in self.for_command:
                continue
            if name not in self.exported and (exports or not every):
                if not is_setting(name) or (exports and name not in FLAG_VARIABLES):
                    continue
                if (exports or self.programs) and not self.handed:
                    self.notes[f"line {at.line}: {name} is set but not exported"] = None
            if (
                name == "XLA_FLAGS"
                and self.handed
                and "LIBTPU_INIT_ARGS" not in self.variables.values
            ):
                note = f"{name} is passed on as LIBTPU_INIT_ARGS, and read as such"
                self.notes[f"line {self.handed}: {note}"] = None
                yield Assignment("LIBTPU_INIT_ARGS", value, f"${name}", line=at.line or None)
                continue
            if doubt := self.variables.doubtful.get(name):
                self.variables.doubt(name, doubt)
            yield Assignment(name, value, line=at.line or None)
        yield from self.for_command.values()

    def parsed(self, form: str, layout: Layout | None) -> ParsedSource:
        """Build the result."""
        found = parse_assignments(self.assigned(), self.variables.where)
        for text in self.variables.doubts():
            self.notes[text] = None
        slips = sorted([*self.slips, *found.slips], key=lambda slip: slip.place.line or 0)
        return ParsedSource(
            where=self.variables.where,
            form=form,
            given=(*found.given, *self.options),
            slips=tuple(slips),
            layout=layout,
            notes=tuple(self.notes),
            unread=tuple(self.unread),
            inherited=tuple(dict.fromkeys(found.inherited)),
            others=other_programs(self.superseded, self.variables.where, form),
        )
