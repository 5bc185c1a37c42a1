"""The state of a shell script as it is read: its variables, dropped values, notes and issues.

A value is assembled from the parts of words. Why it may be wrong (a block that may not run, a
default) stays with it, so that one note names all settings of the same block and reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from counterpoint.core.frozen import frozen
from counterpoint.flags.parse.flag_values import (
    Assignment,
    other_programs,
    overwritten,
    parse_assignments,
)
from counterpoint.flags.parse.launcher import (
    Numbers,
    layout_of,
)
from counterpoint.flags.parse.shell_words import PartKind, Token, WordPart
from counterpoint.flags.parse.traced import (
    Doubt,
    TextBudget,
    TracedText,
    inherited,
    joined,
    known,
    unknown,
)
from counterpoint.flags.parsed import IssueKind, Location, Occurrence, ParsedSource, SyntaxIssue
from counterpoint.flags.settings import FLAG_VARIABLES, is_setting

_NAMED: Final = re.compile(r"([A-Za-z_]\w*)(?:\[.*|\+?=.*|[-+]*)", re.ASCII | re.DOTALL)
"""A word that may change the variable that it names."""
_NAMES: Final = 3
_SHOWN: Final = 60


@dataclass(slots=True)
class OpenBlock:
    """An open `if`, `case` or loop."""

    kind: str
    number: int
    arm: int = 0


@frozen
class AssignedAt:
    """The place where a variable got its value: arms of blocks, and programs before it."""

    line: int
    branch: tuple[tuple[int, int], ...] = ()
    program: int = 0


@dataclass(slots=True)
class ShellState:
    """Variables, arrays and open blocks of a script, with notes and issues.

    `certain`: a default is not assumed for a variable that may be set elsewhere. `whole`: the
    environment contains nothing else than `values`.
    """

    where: str
    budget: TextBudget
    values: dict[str, TracedText] = field(default_factory=dict[str, TracedText])
    certain: bool = False
    whole: bool = False
    arrays: dict[str, list[TracedText]] = field(default_factory=dict[str, list[TracedText]])
    exported: set[str] = field(default_factory=set[str])
    exports_all: bool = False
    fixed: set[str] = field(default_factory=set[str])  # not taking the assigned value
    bare: bool = False  # XLA_FLAGS are given as lines of flags, not assigned
    assigned_at: dict[str, AssignedAt] = field(default_factory=dict[str, AssignedAt])
    for_command: dict[str, Assignment] = field(default_factory=dict[str, Assignment])
    options: list[Occurrence] = field(default_factory=list[Occurrence])
    issues: list[SyntaxIssue] = field(default_factory=list[SyntaxIssue])
    notes: dict[str, None] = field(default_factory=dict[str, None])  # in order, each once
    _left: dict[tuple[int, str], None] = field(default_factory=dict[tuple[int, str], None])
    superseded: list[Assignment] = field(default_factory=list[Assignment])
    """Flags of programs and branches other than the last."""
    numbers: Numbers = ()
    programs: int = 0
    nsys_line: int | None = None
    nsys: bool = False  # Nsight Systems records one of the programs
    passed_on: int = 0  # the line where XLA_FLAGS is passed as LIBTPU_INIT_ARGS
    blocks: list[OpenBlock] = field(default_factory=list[OpenBlock])
    opened: int = 0
    doubted: dict[tuple[int, str], dict[tuple[int, str], None]] = field(
        default_factory=dict[tuple[int, str], dict[tuple[int, str], None]]
    )
    """Settings with their lines, by the number of their block and the reason for doubt."""

    def __post_init__(self) -> None:
        for name, value in self.values.items():  # set before the script started
            self.assigned_at[name] = AssignedAt(value.line or 0)
            self.exported.add(name)

    def enter(self, kind: str) -> OpenBlock:
        """Open a block."""
        self.opened += 1
        self.blocks.append(OpenBlock(kind, self.opened))
        return self.blocks[-1]

    # Values of words.

    def command_word(self, word: Token) -> list[TracedText]:
        if any(part.kind is PartKind.HOLE and part.text[:1] == "{" for part in word.parts):
            return [unknown(word.text, word.line)]
        return self.words(word.parts)

    def words(self, parts: Sequence[WordPart]) -> list[TracedText]:
        """Expand a word of a command: elements of an array, words of an unquoted `$NAME`."""
        only = parts[0] if len(parts) == 1 and parts[0].kind is PartKind.REFERENCE else None
        if only and only.quoted and only.index == "[@]" and only.name in self.arrays:
            return self.arrays[only.name]
        value = self.expand(parts)
        if only is None or only.quoted or only.operator:
            return [value]
        return [value.cut(*found.span()) for found in re.finditer(r"\S+", value.text)]

    def expand(self, parts: Sequence[WordPart]) -> TracedText:
        """Return the value of a word."""
        values = [self._part(part) for part in parts]
        value = values[0] if len(values) == 1 else joined(values)
        return self.budget.spend(value, value.line)

    def _part(self, part: WordPart) -> TracedText:
        if part.kind is PartKind.TEXT:
            return known(part.text, part.line)
        if part.kind is not PartKind.REFERENCE:
            return unknown(part.text, part.line)
        value = self.values.get(part.name)
        if part.index and part.name in self.arrays:
            plain = "IFS" not in self.values
            value = joined(self.arrays[part.name], " ") if plain else None
        if value is None:
            return self._unset_value(part)
        if not part.operator or part.operator == "?" or not value.known:
            return unknown(part.text, part.line) if part.operator.endswith("+") else value
        empty = part.operator.startswith(":") and not value.text
        if empty == part.operator.endswith("+"):
            return TracedText() if empty else value
        operand = self.expand(part.inner)
        for doubt in value.doubts:  # which decides whether the operand is used
            operand = operand.doubted(doubt)
        if part.operator.endswith("="):
            self.values[part.name] = operand
        return operand

    def _unset_value(self, part: WordPart) -> TracedText:
        """Return an unset variable's value; flags that it inherits are checked elsewhere."""
        line, name, operator = part.line, part.name, part.operator[-1:]
        flags = name in FLAG_VARIABLES
        before = self._inherited(name, line)
        if self.certain and not flags:
            return unknown(part.text, line)
        if operator not in ("-", "=", "+"):
            return before if flags else unknown(part.text, line)
        if operator == "+":
            return before
        value = self.expand(part.inner)
        if value.text and not self.whole and (is_setting(name) or "--xla" in value.text):
            value = value.doubted(Doubt(0, "read as unset: the default applies", line))
        if operator == "=":
            self.values[name] = value
        return before + value

    def _inherited(self, name: str, line: int) -> TracedText:
        if name not in FLAG_VARIABLES or self.whole:
            return TracedText()
        return inherited(name, line)

    # Assignments.

    def assign(
        self, name: str, value: TracedText, line: int, *, adds: bool = False, exported: bool = False
    ) -> None:
        """Set a variable, or append to it."""
        before = self.values.get(name)
        value = unknown(f"${name}", line) if name in self.fixed else value
        if adds:
            if before is None and self.certain and name not in FLAG_VARIABLES:
                before = unknown(f"${name}", line)
            value = self.budget.spend((before or self._inherited(name, line)) + value, line)
        elif before and name in FLAG_VARIABLES:
            self._may_overwrite(name, before, value, line)
        keeps = bool(self.blocks and before and before.known and before.text and not value.known)
        if keeps and before:
            why = "possibly set again: read with the previous value"
            value = before.doubted(Doubt(0, why, line))
        elif self.blocks:
            kind = self.blocks[-1].kind.removesuffix(" arm")
            why = f"set within `{kind}`: read as if it ran"
            value = value.doubted(Doubt(self.blocks[0].number, why, line))
        self.arrays.pop(name, None)
        self.values.pop(name, None)
        self.values[name] = value
        if is_setting(name) or self.certain:
            self._doubt(name, value)
        if not keeps:
            branch = tuple((block.number, block.arm) for block in self.blocks)
            self.assigned_at[name] = AssignedAt(line, branch, self.programs)
        if exported or self.exports_all:
            self.exported.add(name)

    def give(self, one: Assignment) -> None:
        """Set a variable for one command only; of several commands, the last counts."""
        line, earlier = one.line or 0, self.for_command.get(one.name)
        if is_setting(one.name):
            self._doubt(one.name, one.value)
        if one.name in FLAG_VARIABLES:
            self._may_overwrite(one.name, self.values.get(one.name, TracedText()), one.value, line)
            if earlier and earlier.value != one.value:
                self.superseded.append(earlier)
                if earlier.value.text != one.value.text:
                    self.notes[
                        f"line {line}: a different {one.name} for this command than in line"
                        f" {earlier.line}; each is checked separately"
                    ] = None
        self.for_command[one.name] = one

    def _may_overwrite(self, name: str, before: TracedText, value: TracedText, line: int) -> None:
        """Report dropped flags as an issue, unless a program or another branch had them."""
        at = self.assigned_at.get(name)
        if at is None:
            return
        self.budget.spend(before, line)
        origin = f"the flags of line {at.line}" if at.line else "the inherited flags"
        place, suggestion = (
            Location(self.where, line or None),
            f'{name}="${{{name}}} {{start}} ..."',
        )
        issue = overwritten(name, before, value, origin, place, suggestion)
        arms = {block.number: block.arm for block in self.blocks}
        apart = any(arms.get(number, arm) != arm for number, arm in at.branch)
        if issue and (apart or self.programs > at.program):
            self.superseded.append(Assignment(name, before, line=at.line))
            note = "set in several branches; each is checked separately"
            note = note if apart else "set again for the programs started after it"
            self.notes[f"line {line}: {name} is {note}"] = None
        elif issue:
            self.issues.append(issue)

    def unset(self, name: str, line: int) -> None:
        self.values.pop(name, None)
        self.arrays.pop(name, None)
        self.exported.discard(name)
        if self.blocks and is_setting(name):
            self.doubted.setdefault((0, "possibly unset"), {})[line, name] = None

    def lose(self, words: Iterable[str], line: int) -> None:
        """Mark the values of variables as unknown from here on."""
        for name in (match[1] for match in map(_NAMED.fullmatch, words) if match):
            self.arrays.pop(name, None)
            if name in self.values or not is_setting(name):
                self.values[name] = unknown(f"${name}", line)

    # Doubts, notes and issues.

    def _doubt(self, name: str, value: TracedText) -> None:
        for doubt in value.doubts:
            self.doubted.setdefault((doubt.block, doubt.why), {})[doubt.line, name] = None

    def doubts(self) -> Iterator[str]:
        """Yield one note per block and reason: a script may have one `if` around everything."""
        for (_, why), places in self.doubted.items():
            lines = sorted({line for line, _ in places})
            names = list(dict.fromkeys(name for _, name in places))
            between = " and " if len(lines) == 2 else " to "
            ends = dict.fromkeys((str(lines[0]), str(lines[-1])))
            start = f"line{'s' * (len(lines) > 1)} {between.join(ends)}"
            rest = len(names) - _NAMES
            listed = ", ".join(names[:_NAMES]) + (f" and {rest} more" if rest > 0 else "")
            yield f"{start}: {listed} {'is' if len(names) == 1 else 'are'} {why}"

    def leave(self, line: int, text: str) -> None:
        """List a part that was not read though it may set something."""
        text = " ".join(text.split())
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
        self._left[line, f"line {line}: {shown}" if line else shown] = None

    @property
    def unread(self) -> tuple[str, ...]:
        """The parts that were not read, in the order of their lines."""
        return tuple(text for _, text in sorted(self._left, key=lambda it: it[0]))

    def issue(
        self, kind: IssueKind, name: str, text: str, why: str, line: int, instead: str | None = None
    ) -> None:
        place, channel = Location(self.where, line or None), FLAG_VARIABLES[name]
        self.issues.append(
            SyntaxIssue(
                kind=kind, channel=channel, text=text, why=why, place=place, suggestion=instead
            )
        )

    def outside_quotes(self, word: Token) -> None:
        """Report a flag after an unquoted space, at which the shell ends the value."""
        why = "not quoted: the shell ends the value at the space before it"
        self.issue(IssueKind.STRAY, "XLA_FLAGS", word.text, why, word.line)

    # Results.

    @property
    def mixed(self) -> bool:
        """Whether several programs are started, and not all with the same variables."""
        return bool(self.superseded) or (self.programs > 1 and bool(self.for_command))

    def assigned(self, *, every: bool = False) -> Iterator[Assignment]:
        """Yield the script's own variables as a program started last would inherit them.

        `every`: without any export, all of them count.
        """
        exports = bool(self.exported - ({"XLA_FLAGS"} if self.bare else set()))
        for name, value in self.values.items():
            at = self.assigned_at.get(name)
            if at is None or name in self.for_command:
                continue
            if name not in self.exported and (exports or not every):
                if not is_setting(name) or (exports and name not in FLAG_VARIABLES):
                    continue
                if (exports or self.programs) and not self.passed_on:
                    self.notes[f"line {at.line}: {name} is set but not exported"] = None
            libtpu = self.passed_on and "LIBTPU_INIT_ARGS" not in self.values
            if name == "XLA_FLAGS" and libtpu:
                note = f"{name} is passed on as LIBTPU_INIT_ARGS, and read as such"
                self.notes[f"line {self.passed_on}: {note}"] = None
                yield Assignment("LIBTPU_INIT_ARGS", value, f"${name}", line=at.line or None)
                continue
            self._doubt(name, value)
            yield Assignment(name, value, line=at.line or None)
        yield from self.for_command.values()

    def parsed(self, numbers: Numbers = ()) -> ParsedSource:
        """Build the result; `numbers` are those of the job around the script."""
        form = "slurm" if numbers else "shell"
        found = parse_assignments(self.assigned(), self.where)
        self.notes |= dict.fromkeys(self.doubts())
        issues = sorted([*self.issues, *found.issues], key=lambda issue: issue.place.line or 0)
        return ParsedSource(
            where=self.where,
            form=form,
            given=(*found.given, *self.options),
            issues=tuple(issues),
            layout=layout_of((*numbers, *self.numbers)),
            nsys=self.nsys,
            nsys_line=self.nsys_line,
            notes=tuple(self.notes),
            unread=self.unread,
            inherited=tuple(dict.fromkeys(found.inherited)),
            others=other_programs(self.superseded, self.where, form),
        )
