"""What a shell script has set so far, and what it has thrown away."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field

from counterpoint.flags.sources.doubts import Doubts
from counterpoint.flags.sources.flag_words import Variable, read_flags
from counterpoint.flags.sources.launcher import Asked
from counterpoint.flags.sources.shell_lexer import Token
from counterpoint.flags.sources.shell_values import Values
from counterpoint.flags.sources.traced import Traced, known
from counterpoint.flags.sources.variables import FLAGS, TPU, Assigned, is_setting
from counterpoint.flags.written import Given, Place, Slip, SlipKind

Branch = tuple[tuple[int, int], ...]
"""Blocks one is in: the number of each, and which of its arms."""


@dataclass(slots=True)
class Block:
    """An `if`, `case` or loop that is open."""

    kind: str
    number: int
    line: int
    arm: int = 0


@dataclass(frozen=True, slots=True)
class Set:
    """Where and how a variable got its value."""

    line: int
    branch: Branch
    program: int  # how many programs had been started before


@dataclass(slots=True)
class Body:
    """A function, or a file that the script writes: read where it is run."""

    line: int
    tokens: tuple[Token, ...]
    sets: bool  # whether there is something in it that may set something
    read: bool = False
    running: bool = False


@dataclass(slots=True)
class State:
    """Variables, exports, open blocks; and what there is to say."""

    where: str
    values: Values
    exported: set[str] = field(default_factory=set[str])
    exports_all: bool = False
    bare: set[str] = field(default_factory=set[str])  # given as lines of flags, by no assignment
    sets: dict[str, Set] = field(default_factory=dict[str, Set])
    for_command: dict[str, Assigned] = field(default_factory=dict[str, Assigned])
    options: list[Given] = field(default_factory=list[Given])
    slips: list[Slip] = field(default_factory=list[Slip])
    notes: dict[str, None] = field(default_factory=dict[str, None])  # in order, each once
    unread: dict[str, None] = field(default_factory=dict[str, None])
    doubts: Doubts = field(default_factory=Doubts)
    functions: dict[str, Body] = field(default_factory=dict[str, Body])
    files: dict[str, Body] = field(default_factory=dict[str, Body])
    calls: int = 0
    handed: dict[str, int] = field(default_factory=dict[str, int])
    asked: Asked = field(default_factory=Asked)
    programs: int = 0
    superseded: list[Assigned] = field(default_factory=list[Assigned])
    """Flags of other programs and branches than the last."""
    in_patterns: bool = False
    _blocks: list[Block] = field(default_factory=list[Block])
    _opened: int = 0

    @property
    def in_case(self) -> bool:
        return bool(self._blocks) and self._blocks[-1].kind == "case"

    def enter(self, kind: str, line: int) -> None:
        self._opened += 1
        self._blocks.append(Block(kind, self._opened, line))

    def next_arm(self) -> None:
        if self._blocks:
            self._blocks[-1].arm += 1

    def leave(self) -> None:
        self.in_patterns = False
        if self._blocks:
            self._blocks.pop()

    def note(self, text: str) -> None:
        self.notes[text] = None

    def leave_unread(self, text: str) -> None:
        """Say what was not read though it may set something."""
        self.unread[text] = None

    def finish(self) -> None:
        """At the end: say what is doubtful, and which functions and files nothing runs."""
        for name, at in self.values.defaults.items():
            self.doubts.add(0, "taken as unset: the default counts", at, name)
        for text in self.doubts.notes():
            self.note(text)
        for name, one in self.functions.items():
            if one.sets and not one.read:
                self.leave_unread(
                    f"line {one.line}: what the function {name} sets is not read: not called here"
                )
        for name, one in self.files.items():
            if one.sets and not one.read:
                self.leave_unread(f"line {one.line}: the text written to {name} is not read")

    def assign(
        self, name: str, value: Traced, line: int, *, adds: bool = False, exported: bool = False
    ) -> None:
        """Set a variable, or add to it."""
        before = self.values.known.get(name, Traced())
        if adds:
            space = known(" ", line) if name in FLAGS and not value.text[:1].isspace() else Traced()
            value = before + space + value if before.text and value.text else before + value
            self.values.spend(value, line)
        elif name in FLAGS:
            self._may_overwrite(name, before, value, line)
        if self._blocks and before.known and before.text and not value.known:
            self.doubts.add(0, "perhaps set anew: read with the value from before", line, name)
            return
        if self._blocks and is_setting(name):
            outer, kind = self._blocks[0], self._blocks[-1].kind
            self.doubts.add(outer.number, f"set within `{kind}`: read as if it ran", line, name)
        branch = tuple((block.number, block.arm) for block in self._blocks)
        self.values.known.pop(name, None)
        self.values.known[name] = value
        self.sets[name] = Set(line, branch, self.programs)
        if exported or self.exports_all:
            self.export(name)

    @contextmanager
    def for_one_command(self) -> Generator[None]:
        """A script or function that a command starts finds the variables of that command, too."""
        values = self.values.known
        own = {name: one.value for name, one in self.for_command.items()}
        before = {name: values.get(name) for name in own}
        values.update(own)
        yield
        for name, value in before.items():
            if values.get(name) is own[name]:
                values.pop(name)
                values |= {name: value} if value is not None else {}

    @contextmanager
    def within(self) -> Generator[None]:
        """Another text read as a part of this one: what it leaves open is closed behind it."""
        depth, in_patterns, self.in_patterns = len(self._blocks), self.in_patterns, False
        yield
        del self._blocks[depth:]
        self.in_patterns = in_patterns

    def inherit(self, name: str) -> None:
        """A variable that was set before the script started."""
        self.sets[name] = Set(self.values.known[name].line or 0, (), 0)
        self.export(name)

    def export(self, name: str) -> None:
        self.exported.add(name)

    def unset(self, name: str) -> None:
        self.values.known.pop(name, None)
        self.exported.discard(name)

    def outside_quotes(self, word: str, line: int) -> None:
        """A flag behind a space that is not in quotes: the shell takes it for something else."""
        self.slips.append(
            Slip(
                kind=SlipKind.STRAY,
                channel=FLAGS["XLA_FLAGS"],
                text=word,
                why="it is not in quotes: for the shell the value ends at the space before it",
                place=Place(self.where, line or None),
            )
        )

    def give_to_command(self, one: Assigned) -> None:
        """A variable for one command only; of several commands, the last counts."""
        line = one.line or 0
        if one.name in FLAGS:
            self._may_overwrite(
                one.name, self.values.known.get(one.name, Traced()), one.value, line
            )
            earlier = self.for_command.get(one.name)
            if earlier and earlier.value.text != one.value.text:
                self.superseded.append(earlier)
                self.note(
                    f"line {line}: another {one.name} for this command than that of line"
                    f" {earlier.line}: each is checked by itself"
                )
        self.for_command[one.name] = one

    def assigned(self, *, every: bool = False) -> Iterable[Assigned]:
        """What a program that is started last would find of the script's own variables.

        `every`: without any export, all of them are meant.
        """
        exports = bool(self.exported - self.bare)
        for name, value in self.values.known.items():
            at = self.sets.get(name)
            if at is None or name in self.for_command:
                continue
            if name not in self.exported and not (every and not exports):
                if not is_setting(name) or (exports and name not in FLAGS):
                    continue
                if (exports or self.programs) and name not in self.handed:
                    self.note(f"line {at.line}: {name} is set and not exported")
            if name in self.handed and TPU not in self.values.known:
                self.note(f"line {self.handed[name]}: {name} is handed over as {TPU}, read as such")
                yield Assigned(TPU, value, f"${name}", line=at.line or None)
                continue
            yield Assigned(name, value, line=at.line or None)
        yield from self.for_command.values()

    def _may_overwrite(self, name: str, before: Traced, value: Traced, line: int) -> None:
        """Flags that were set before and are not any more: a slip, if no program had them."""
        at = self.sets.get(name)
        lost = self._lost(name, before, value) if at else []
        if not lost or at is None:
            return
        here = {block.number: block.arm for block in self._blocks}
        if any(here.get(number, arm) != arm for number, arm in at.branch):
            self.superseded.append(Assigned(name, before, line=at.line))
            self.note(f"line {line}: {name} is set in several branches: each is checked by itself")
            return
        if self.programs > at.program:
            self.superseded.append(Assigned(name, before, line=at.line))
            self.note(f"line {line}: {name} is set anew for what is started behind it")
            return
        flags = ", ".join(f"--{flag}" for flag in lost[:3]) + (", ..." if len(lost) > 3 else "")
        start = value.shown.split(maxsplit=1)[:1]
        self.slips.append(
            Slip(
                kind=SlipKind.OVERWRITTEN,
                channel=FLAGS[name],
                text=f"{name}={' '.join(start)}",
                why=f"it throws away {_origin(at)}: {flags}",
                place=Place(self.where, line or None),
                mend=f'{name}="${{{name}}} {" ".join(start)}'.rstrip() + ' ..."',
            )
        )

    def _lost(self, name: str, before: Traced, value: Traced) -> list[str]:
        variable = Variable(self.where, FLAGS[name])
        if not before.text.lstrip().startswith("-") or value.text.startswith(before.text):
            return []
        self.values.spend(before)
        after = {one.name for one in read_flags(value, variable).given}
        return [it.name for it in read_flags(before, variable).given if it.name not in after]


def _origin(at: Set) -> str:
    return f"what line {at.line} has set" if at.line else "what is inherited"
