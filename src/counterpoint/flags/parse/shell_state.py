"""The state of a shell script as it is read: its variables, dropped values, notes and issues.

A value is assembled from the parts of words. Why it may be wrong (a block that may not run, a
default) is recorded, so that one note names all settings of the same block and reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from counterpoint.flags.parse.flag_values import (
    Assignment,
    other_programs,
    overwritten,
    parse_assignments,
)
from counterpoint.flags.parse.shell_words import Lexer, PartKind, Token, WordPart, has_braces
from counterpoint.flags.parse.traced import (
    TextBudget,
    TracedText,
    inherited,
    joined,
    known,
    unknown,
)
from counterpoint.flags.parsed import IssueKind, Location, Occurrence, ParsedSource, SyntaxIssue
from counterpoint.flags.settings import FLAG_VARIABLES, Layout, is_setting

_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_BRACED: Final = re.compile(
    r"\$\{([A-Za-z_]\w*)(\[[@*]\])?(?:(:?[-=+?])(.*))?\}", re.DOTALL | re.ASCII
)
_BARE: Final = re.compile(r"\$(?:\w+|\{\w+\})", re.ASCII)
_COMPUTED: Final = re.compile(
    r"([A-Za-z_]\w*)\s*(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)|(?:\+\+|--)(\w+)"
)
"""A name that arithmetic changes."""
_NAMED: Final = 3
_SHOWN: Final = 60

Numbers = tuple[tuple[str, int], ...]
"""Counts by the names of Slurm's long options; the last value of a name counts."""
Branch = tuple[tuple[int, int], ...]
"""The enclosing blocks: the number of each, and which of its branches."""
Doubt = tuple[int, str, int]
"""The number of a block, the reason for doubt, and the line."""


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
    """Variables, arrays and open blocks of a script, with notes and issues.

    `certain`: a default is not assumed for a variable that may be set elsewhere. `whole`: the
    environment contains nothing else. `used` are the names that the statement refers to.
    """

    where: str
    budget: TextBudget
    values: dict[str, TracedText] = field(default_factory=dict[str, TracedText])
    certain: bool = False
    whole: bool = False
    arrays: dict[str, list[TracedText]] = field(default_factory=dict[str, list[TracedText]])
    used: set[str] = field(default_factory=set[str])
    exported: set[str] = field(default_factory=set[str])
    exports_all: bool = False
    bare: set[str] = field(default_factory=set[str])  # given as lines of flags, not assigned
    fixed: set[str] = field(default_factory=set[str])  # not taking the assigned value
    assigned_at: dict[str, AssignedAt] = field(default_factory=dict[str, AssignedAt])
    for_command: dict[str, Assignment] = field(default_factory=dict[str, Assignment])
    options: list[Occurrence] = field(default_factory=list[Occurrence])
    issues: list[SyntaxIssue] = field(default_factory=list[SyntaxIssue])
    notes: dict[str, None] = field(default_factory=dict[str, None])  # in order, each once
    unread: dict[str, None] = field(default_factory=dict[str, None])
    superseded: list[Assignment] = field(default_factory=list[Assignment])
    """Flags of programs and branches other than the last."""
    numbers: Numbers = ()
    programs: int = 0
    passed_on: int = 0  # the line where XLA_FLAGS is passed as LIBTPU_INIT_ARGS
    blocks: list[OpenBlock] = field(default_factory=list[OpenBlock])
    opened: int = 0
    doubtful: dict[str, Doubt] = field(default_factory=dict[str, Doubt])
    """Variables that a block sets, or that derive from such variables."""
    doubted: dict[tuple[int, str], dict[tuple[int, str], None]] = field(
        default_factory=dict[tuple[int, str], dict[tuple[int, str], None]]
    )
    """Settings with their lines, by their block and the reason for doubt."""

    # Values of words.

    def words(self, word: Token) -> list[TracedText]:
        """Expand a word of a command: elements of an array, words of an unquoted `$NAME`."""
        (only,) = word.parts if len(word.parts) == 1 else (None,)
        match = _BRACED.fullmatch(only.text) if only else None
        if only and match and only.quoted and match[2] == "[@]" and match[1] in self.arrays:
            return self.arrays[match[1]] if not match[3] else [unknown(word.text, word.line)]
        if has_braces(word):
            return [unknown(word.text, word.line)]
        value = self.expand(word.parts)
        if only is None or only.quoted or not (_BARE.fullmatch(only.text) or "[" in only.text):
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
        if part.kind is PartKind.HOLE:
            if part.text.startswith("$(("):
                self.computed(part.text, part.line)
            return unknown(part.text, part.line)
        match = _BRACED.fullmatch(part.text)
        if match is None and part.text.startswith("${"):
            return unknown(part.text, part.line)
        name = match[1] if match else part.text[1:]
        value = self.values.get(name)
        self.used.add(name)
        if match and match[2]:
            value = joined(self.arrays[name], " ") if name in self.arrays else value
            value = value if "IFS" not in self.values else unknown(part.text, part.line)
        operator = (match[3] or "") if match else ""
        if value is None:
            return self._unset(name, operator, part)
        return self._with_operator(value, operator, part)

    def _with_operator(self, value: TracedText, operator: str, part: WordPart) -> TracedText:
        empty = operator.startswith(":") and not value.text
        if not operator or not value.known:
            return value if not operator.endswith("+") else unknown(part.text, part.line)
        if operator.endswith("+"):
            return TracedText() if empty else self._operand(part)
        return self._operand(part) if empty and not operator.endswith("?") else value

    def _unset(self, name: str, operator: str, part: WordPart) -> TracedText:
        """Return an unset variable's value; flags that it inherits are checked elsewhere."""
        line, flags = part.line, name in FLAG_VARIABLES
        before = self._inherited(name, line)
        if self.certain and not flags:
            return unknown(part.text, line)
        if operator[-1:] not in ("-", "=", "+"):
            return before if flags else unknown(part.text, line)
        value = self._operand(part)
        if value.text and not self.whole and (is_setting(name) or "--xla" in value.text):
            self.doubt(name, (0, "read as unset: the default applies", line))
        if operator.endswith("+"):
            return before
        if operator.endswith("="):
            self.values[name] = value
        return before + value

    def _inherited(self, name: str, line: int) -> TracedText:
        if name not in FLAG_VARIABLES or self.whole:
            return TracedText()
        return inherited(name, line)

    def _operand(self, part: WordPart) -> TracedText:
        match = _BRACED.fullmatch(part.text)
        text = (match[4] or "") if match else ""
        if len(text) > 1 and text[0] == text[-1] and text[0] not in text[1:-1] and text[0] in "\"'":
            if text[0] == "'" and part.quoted:
                return unknown(part.text, part.line)
            if text[0] == "'":
                return known(text[1:-1], part.line)
            text = text[1:-1]
        elif '"' in text or (not part.quoted and set("'\\~") & set(text)):
            return unknown(part.text, part.line)
        return self.expand(Lexer(text, self.where, part.line).operand())

    def elements(self, parts: Sequence[WordPart]) -> list[TracedText]:
        """Return the elements of NAME=(...)."""
        elements: list[TracedText] = []
        inner: list[WordPart] = []
        for part in parts:
            if part.kind is not PartKind.ELEMENT:
                inner.append(part)
                continue
            if inner:
                text = "".join(element_part.text for element_part in inner)
                elements += self.words(Token(text, part.line, tuple(inner)))
            inner = []
        return elements

    # Assignments.

    def assign(
        self, name: str, value: TracedText, line: int, *, adds: bool = False, exported: bool = False
    ) -> None:
        """Set a variable, or append to it."""
        before = self.values.get(name, TracedText())
        value = unknown(f"${name}", line) if name in self.fixed else value
        if adds:
            value = self._added(name, value, line)
        elif name in FLAG_VARIABLES:
            self._may_overwrite(name, before, value, line)
        self.arrays.pop(name, None)
        keeps = bool(self.blocks and before.known and before.text and not value.known)
        self._condition(name, self._block_doubt(line, keeps=keeps))
        if keeps:
            return
        self.values.pop(name, None)
        self.values[name] = value
        branch = tuple((block.number, block.arm) for block in self.blocks)
        self.assigned_at[name] = AssignedAt(line, branch, self.programs)
        if exported or self.exports_all:
            self.exported.add(name)

    def _added(self, name: str, value: TracedText, line: int) -> TracedText:
        """Return the value of a variable after `NAME+=value`."""
        before = self.values.get(name, TracedText())
        if name not in self.values and name not in self.bare:
            before = self._inherited(name, line)
            if self.certain and name not in FLAG_VARIABLES:
                before = unknown(f"${name}", line)
        space = known(" ", line) if name in self.bare and before.text else TracedText()
        return self.budget.spend(before + space + value, line)

    def give(self, one: Assignment) -> None:
        """Set a variable for one command only; of several commands, the last counts."""
        line = one.line or 0
        for used in sorted(self.used) if is_setting(one.name) else ():
            if used in self.doubtful:
                self.doubt(used, self.doubtful[used])
        if one.name in FLAG_VARIABLES:
            before = self.values.get(one.name, TracedText())
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

    def inherit(self, name: str) -> None:
        """Add a variable that was set before the script started."""
        self.assigned_at[name] = AssignedAt(self.values[name].line or 0, (), 0)
        self.exported.add(name)

    def forget(self, name: str, line: int) -> None:
        """Unset a variable."""
        self.values.pop(name, None)
        self.arrays.pop(name, None)
        self.exported.discard(name)
        if self.blocks:
            self.doubtful[name] = (0, "possibly unset", line)

    def lose(self, name: str, line: int) -> None:
        """Mark a variable's value as unknown from here on."""
        if _NAME.fullmatch(name):
            self.arrays.pop(name, None)
            if name in self.values or not is_setting(name):
                self.values[name] = unknown(f"${name}", line)

    def computed(self, text: str, line: int) -> None:
        """Lose the variables that arithmetic changes."""
        for match in _COMPUTED.finditer(text):
            self.lose(match[1] or match[2], line)

    def enter(self, kind: str) -> OpenBlock:
        """Open a block."""
        self.opened += 1
        self.blocks.append(OpenBlock(kind, self.opened))
        return self.blocks[-1]

    # Doubts, notes and issues.

    def _block_doubt(self, line: int, *, keeps: bool) -> Doubt | None:
        if not self.blocks:
            return None
        if keeps:
            return (0, "possibly set again: read with the previous value", line)
        kind = self.blocks[-1].kind.removesuffix(" arm")
        return (self.blocks[0].number, f"set within `{kind}`: read as if it ran", line)

    def _condition(self, name: str, own: Doubt | None) -> None:
        """Record why a value is doubtful: its block, and the variables it derives from."""
        used = {one: self.doubtful[one] for one in sorted(self.used) if one in self.doubtful}
        self.doubtful.pop(name, None)
        if own:
            self.doubtful[name] = own
        for variable, doubt in used.items():
            if is_setting(name) or self.certain:
                self.doubt(variable, doubt)
            else:
                self.doubtful.setdefault(name, doubt)
        if name in self.doubtful and (is_setting(name) or self.certain):
            self.doubt(name, self.doubtful[name])

    def doubt(self, name: str, doubt: Doubt) -> None:
        """Record that a setting is doubtful."""
        number, why, line = doubt
        self.doubted.setdefault((number, why), {})[line, name] = None

    def doubts(self) -> Iterator[str]:
        """Yield one note per block and reason: a script may have one `if` around everything."""
        for (_, why), places in self.doubted.items():
            lines = sorted({line for line, _ in places})
            names = list(dict.fromkeys(name for _, name in places))
            between = " and " if len(lines) == 2 else " to "
            ends = dict.fromkeys((str(lines[0]), str(lines[-1])))
            start = f"line{'s' * (len(lines) > 1)} {between.join(ends)}"
            rest = len(names) - _NAMED
            listed = ", ".join(names[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")
            yield f"{start}: {listed} {'is' if len(names) == 1 else 'are'} {why}"

    def leave(self, line: int, text: str) -> None:
        """List a part that was not read though it may set something."""
        text = " ".join(text.split())
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
        self.unread[f"line {line}: {shown}" if line else shown] = None

    def issue(
        self,
        kind: IssueKind,
        variable: str,
        text: str,
        why: str,
        line: int,
        suggestion: str | None = None,
    ) -> None:
        """Report an issue."""
        channel, place = FLAG_VARIABLES[variable], Location(self.where, line or None)
        self.issues.append(
            SyntaxIssue(
                kind=kind, channel=channel, text=text, why=why, place=place, suggestion=suggestion
            )
        )

    def outside_quotes(self, word: str, line: int) -> None:
        """Report a flag after an unquoted space, at which the shell ends the value."""
        why = "not quoted: the shell ends the value at the space before it"
        self.issue(IssueKind.STRAY, "XLA_FLAGS", word, why, line)

    # Results.

    def assigned(self, *, every: bool = False) -> Iterator[Assignment]:
        """Yield the script's own variables as a program started last would inherit them.

        `every`: without any export, all of them count.
        """
        exports = bool(self.exported - self.bare)
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
            if doubt := self.doubtful.get(name):
                self.doubt(name, doubt)
            yield Assignment(name, value, line=at.line or None)
        yield from self.for_command.values()

    def parsed(self, form: str, layout: Layout | None) -> ParsedSource:
        """Build the result."""
        found = parse_assignments(self.assigned(), self.where)
        for text in self.doubts():
            self.notes[text] = None
        issues = sorted([*self.issues, *found.issues], key=lambda issue: issue.place.line or 0)
        return ParsedSource(
            where=self.where,
            form=form,
            given=(*found.given, *self.options),
            issues=tuple(issues),
            layout=layout,
            notes=tuple(self.notes),
            unread=tuple(self.unread),
            inherited=tuple(dict.fromkeys(found.inherited)),
            others=other_programs(self.superseded, self.where, form),
        )
