"""Scan: what a source sets, in the order of its lines, whatever its form.

    reader ── give(name, value, line) ──► Scan ── parsed(form) ──► ParsedSource

All readers of one source share a Scan: a manifest hands its scripts to the reader of shells, a
script its heredocs to that of Python. Nothing is run and no call is followed: what a branch, a
loop, a function or a heredoc sets is read in its place, and marked with its `branch`. The last
value of a variable counts. An earlier one belongs to another program or branch, and is kept in
`others`; or it is lost, which is an issue.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from counterpoint.flags.parse.flag_values import (
    Assignment,
    ValueSource,
    parse_assignments,
    read_flags,
    value_origin,
)
from counterpoint.flags.parse.launcher import Numbers, layout_of
from counterpoint.flags.parse.mentions import mentions
from counterpoint.flags.parse.traced import Piece, TextBudget, TracedText, inherited, unknown
from counterpoint.flags.parsed import (
    LINE,
    PROGRAM,
    Branch,
    IssueKind,
    Location,
    Occurrence,
    ParsedSource,
    SyntaxIssue,
)
from counterpoint.flags.settings import FLAG_VARIABLES, Channel, is_setting

_NAMES: Final = 3
_SHOWN: Final = 60
_APPENDING: Final = '{name}="${{{name}}} {start} ..."'


Embed: TypeAlias = "Callable[[TracedText, Scan, str | None], bool]"
"""Reads a text of a form, by default the one it looks like; False if it can't be read."""


@dataclass(slots=True)
class Scan:
    """What was found so far, and the values of variables where the reader is.

    `certain`: a default is not assumed for a variable that may be set elsewhere. `whole`: the
    environment contains nothing else than `values`.
    """

    where: str
    budget: TextBudget
    embed: Embed = lambda _, __, ___: False  # how a text of any form is read
    certain: bool = False
    whole: bool = False
    branch: Branch = ()
    values: dict[str, TracedText] = field(default_factory=dict[str, TracedText])
    arrays: dict[str, list[TracedText]] = field(default_factory=dict[str, list[TracedText]])
    exported: set[str] = field(default_factory=set[str])
    exports_all: bool = False
    plain: dict[str, Assignment] = field(default_factory=dict[str, Assignment])
    """Variables of a shell that it does not export."""
    own: dict[str, dict[str, Assignment]] = field(default_factory=dict[str, dict[str, Assignment]])
    """Variables that a program gets: those of each program of its own, and of all, under ""."""
    others: list[Assignment] = field(default_factory=list[Assignment])
    options: list[Occurrence] = field(default_factory=list[Occurrence])
    """Settings that are no variables: compiler options, `jax.config`, options of a trainer."""
    issues: list[SyntaxIssue] = field(default_factory=list[SyntaxIssue])
    notes: dict[str, None] = field(default_factory=dict[str, None])  # in order, each once
    left: dict[str, int] = field(default_factory=dict[str, int])  # what was not read, with its line
    exports: bool = False  # whether the source exports anything
    programs: int = 0
    numbers: Numbers = ()
    nsys: bool = False  # Nsight Systems records one of the programs
    nsys_line: int | None = None
    aside: list[str] = field(default_factory=list[str])  # texts that set nothing: comments
    depth: int = 0  # of scripts in scripts
    appending: str = _APPENDING  # how the source appends to a variable

    @contextmanager
    def inside(self, choice: str, arm: str = "") -> Generator[None]:
        """Read a block: all that it sets has this branch."""
        outer = self.branch
        self.branch = (*outer, (choice, arm))
        try:
            yield
        finally:
            self.branch = outer

    @contextmanager
    def another_shell(self, values: dict[str, TracedText]) -> Generator[None]:
        """Read a script of another shell, whose environment has these values."""
        outer = self.values, self.arrays, self.exported, self.plain, self.exports_all
        self.values, self.arrays, self.exported, self.plain = values, {}, set(values), {}
        self.exports_all = False
        try:
            yield
        finally:
            self.values, self.arrays, self.exported, self.plain, self.exports_all = outer

    @property
    def _may_not_run(self) -> bool:
        return any(choice != PROGRAM for choice, _ in self.branch)

    # Variables.

    @property
    def given(self) -> dict[str, Assignment]:
        """The variables that the program here gets, and no other."""
        return self.own.setdefault(_program(self.branch), {})

    def got(self, name: str) -> Assignment | None:
        """Return what the program here gets for a variable."""
        return self.given.get(name) or self.own.get("", {}).get(name)

    def assign(self, name: str, value: TracedText, line: int, *, adds: bool = False) -> None:
        """Set a variable of a shell, or append to it."""
        before = self.values.get(name)
        if adds:
            if before is None and self.certain and name not in FLAG_VARIABLES:
                before = unknown(f"${name}", line)
            value = (before or self.inherited(name, line)) + value
        kept = before and before.known and before.text and before.text not in value.text
        if self._may_not_run and before and kept and not value.known:
            self.values[name] = before.as_default()  # an argument that may replace it
            return
        self.arrays.pop(name, None)
        self.values[name] = self.budget.spend(value.within(self.branch), line)
        if name in self.exported or self.exports_all:
            self.plain.pop(name, None)
            self.exported.add(name)
            self.give(name, value, line)
        else:
            self.plain[name] = self._assignment(name, value, line)

    def export(self, name: str) -> None:
        """Hand a variable of the shell to all programs from here on."""
        self.exports = True
        self.exported.add(name)
        if one := self.plain.pop(name, None):
            self._give(one)

    def give(self, name: str, value: TracedText, line: int | None, via: str = "") -> None:
        """Set a variable of a program."""
        self._give(self._assignment(name, value, line, via))

    def unset(self, name: str, line: int) -> None:
        """Remove a variable; a program that was started before still had it."""
        if self._may_not_run:
            if is_setting(name):
                self.notes[f"line {line}: {name} is possibly unset: read as if it were not"] = None
            return
        for where in (self.values, self.arrays, self.plain):
            where.pop(name, None)
        self.exported.discard(name)
        one = self.got(name)
        if one and one.program == self.programs:
            del self.own[_program(one.branch)][name]
        elif one and is_setting(name):
            self.notes[f"line {line}: {name} is unset for the programs started after it"] = None

    def lose(self, name: str, line: int) -> None:
        """Mark the value of a variable as unknown from here on."""
        self.arrays.pop(name, None)
        if name in self.values or not is_setting(name):
            self.values[name] = unknown(f"${name}", line)
            if name in self.exported:
                self.give(name, self.values[name], line)

    def inherited(self, name: str, line: int | None) -> TracedText:
        """Return what a variable has from whoever starts the source, which only flags keep."""
        if name not in FLAG_VARIABLES or self.whole:
            return TracedText()
        return inherited(name, line)

    def _assignment(
        self, name: str, value: TracedText, line: int | None, via: str = ""
    ) -> Assignment:
        value = value.within(self.branch)
        return Assignment(name, value, via, line or None, self.branch, self.programs)

    def _give(self, one: Assignment) -> None:
        before = self.given.pop(one.name, None)
        if before and one.name in FLAG_VARIABLES:
            self._replace(before, one)
        self.given[one.name] = one

    def _replace(self, before: Assignment, now: Assignment) -> None:
        """Keep the flags that an assignment drops if another program has them, or say so."""
        name, line = now.name, now.line
        self.budget.spend(before.value, line)
        lines, text = {piece.line for piece in before.value.pieces}, before.value.text
        if text in now.value.text and lines <= {piece.line for piece in now.value.pieces}:
            return  # it is added to
        apart = now.branch != before.branch
        if apart or self.programs > before.program:
            self.others.append(before)
            if text == now.value.text:
                return
            other = "in several branches" if apart else "for the programs started after it"
            note = f"{name} is set again {other}; each is checked separately"
            self.notes[f"line {line}: {note}"] = None
        elif issue := self._overwritten(before, now):
            self.issues.append(issue)

    def _overwritten(self, before: Assignment, now: Assignment) -> SyntaxIssue | None:
        """Return the issue with an assignment that drops flags."""
        variable = ValueSource(self.where, FLAG_VARIABLES[now.name])
        if not before.value.text.lstrip().startswith("-"):
            return None
        after = {flag.name for flag in read_flags(now.value, variable).given}
        lost = [flag.name for flag in read_flags(before.value, variable).given]
        lost = [name for name in lost if name not in after]
        if not lost:
            return None
        start = " ".join(now.value.shown.split(maxsplit=1)[:1])
        flags = ", ".join(f"--{flag}" for flag in lost[:_NAMES])
        flags += ", ..." if len(lost) > _NAMES else ""
        dropped = f"the flags of line {before.line}" if before.line else "the inherited flags"
        return SyntaxIssue(
            kind=IssueKind.OVERWRITTEN,
            channel=FLAG_VARIABLES[now.name],
            text=f"{now.name}={start}",
            why=f"it discards {dropped}: {flags}",
            place=Location(self.where, now.line),
            suggestion=self.appending.format(name=now.name, start=start),
        )

    # What is not variables.

    def option(
        self, channel: Channel, name: str, value: TracedText, line: int, *, text: str, via: str = ""
    ) -> None:
        """Keep a setting that is no variable."""
        self.options.append(
            Occurrence(
                channel=channel,
                name=name,
                value=value.shown,
                place=Location(self.where, line or None),
                text=text,
                via=via,
                origin=value_origin(value.pieces),
                branch=self.branch,
            )
        )

    def take(self, value: TracedText, channel: Channel, via: str) -> None:
        """Read a text of flags that a program gets in another way than by a variable."""
        parsed = read_flags(value.within(self.branch), ValueSource(self.where, channel, via))
        self.options += parsed.given
        self.issues += parsed.issues

    def issue(
        self, kind: IssueKind, name: str, text: str, why: str, line: int, instead: str | None = None
    ) -> None:
        place, channel = Location(self.where, line or None), FLAG_VARIABLES[name]
        self.issues.append(
            SyntaxIssue(
                kind=kind, channel=channel, text=text, why=why, place=place, suggestion=instead
            )
        )

    def leave(self, line: int, text: str) -> None:
        """List a part that was not read though it may set something."""
        text = " ".join(text.split())
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
        self.left.setdefault(f"line {line}: {shown}" if line else shown, line)

    # Results.

    def assigned(self, program: str = "") -> Iterator[Assignment]:
        """Yield the variables that a program gets.

        Of lines that export nothing and start nothing, all assignments count: another script
        sources them, or someone types them.
        """
        given = {**self.own.get("", {}), **self.own.get(program, {})}
        libtpu = given.get("LIBTPU_INIT_ARGS")
        for one in given.values():
            text = one.value.text.strip()
            if one.name == "XLA_FLAGS" and libtpu and text and text in libtpu.value.text:
                note = f"line {libtpu.line}: {one.name} is passed on as {libtpu.name}"
                self.notes[f"{note}, and read as such"] = None
            else:
                yield one
        alone = not self.exports and not self.programs
        for one in self.plain.values():
            if alone and (self.certain or is_setting(one.name)):
                yield one
            elif not alone and is_setting(one.name):
                self.notes[f"line {one.line}: {one.name} is set but not exported"] = None
                self.aside.append(one.value.shown)

    def doubts(self) -> Iterator[str]:
        """Yield one note per reason: a script may have an `if` around each setting."""
        doubted: dict[str, dict[tuple[int, str], None]] = {}
        plain = (one for one in self.plain.values() if is_setting(one.name) or self.certain)
        for one in (*self._all(), *plain, *self.others):
            for why, line in _doubts(one):
                doubted.setdefault(why, {})[line, one.name] = None
        for why, places in doubted.items():
            lines = sorted({line for line, _ in places})
            names = list(dict.fromkeys(name for _, name in places))
            between = " and " if len(lines) == 2 else " to "
            ends = dict.fromkeys((str(lines[0]), str(lines[-1])))
            start = f"line{'s' * (len(lines) > 1)} {between.join(ends)}"
            rest = len(names) - _NAMES
            listed = ", ".join(names[:_NAMES]) + (f" and {rest} more" if rest > 0 else "")
            yield f"{start}: {listed} {'is' if len(names) == 1 else 'are'} {why}"

    @property
    def unread(self) -> tuple[str, ...]:
        """The parts that were not read, in the order of their lines."""
        return tuple(sorted(self.left, key=lambda text: self.left[text]))

    def _all(self) -> Iterator[Assignment]:
        for given in self.own.values():
            yield from given.values()

    def parsed(self, form: str, text: str = "") -> ParsedSource:
        """Build the result; what is only named in the text of the source is listed as not read.

        Of several programs, the main one is the last that gets flags.
        """
        programs = [self._parsed(form, program) for program in self._programs()]
        programs = [one for one in programs if one.given or one.issues] or programs[:1]
        if len(programs) > 1:
            self.notes[f"{len(programs)} programs, each checked separately"] = None
        flags = [at for at, one in enumerate(programs) if any(map(_is_flag, one.given))]
        main = programs.pop(flags[-1] if flags else -1)
        for one in self.others:
            programs.append(self._result(form, [one], ()))
        self.notes |= dict.fromkeys(self.doubts())
        issues = sorted([*self.issues, *main.issues], key=lambda issue: issue.place.line or 0)
        parsed = replace(
            main,
            issues=tuple(dict.fromkeys(issues)),
            layout=layout_of(self.numbers),
            nsys=self.nsys,
            nsys_line=self.nsys_line,
            notes=tuple(self.notes),
            unread=self.unread,
            others=tuple(one for one in programs if one.given or one.issues),
        )
        assigned = (one.name for one in (*self._all(), *self.plain.values()))
        named = mentions(text, parsed, [*self.aside, *assigned])
        if not named:
            return parsed
        if form in ("markdown", "notebook"):
            note = f"named in the text, where it sets nothing: {named}"
            return replace(parsed, notes=(*parsed.notes, note))
        sentence = f"{named}: named, but not set in a way this reader knows"
        return replace(parsed, unread=(*parsed.unread, sentence))

    def _programs(self) -> Iterator[str]:
        """Yield the names of the programs; "" is one if all others replace its flags."""
        named = dict.fromkeys(_program(one.branch) for one in self.options)
        named |= dict.fromkeys(program for program, given in self.own.items() if given)
        shared = [one for one in self.own.get("", {}).values() if one.name in FLAG_VARIABLES]
        apart = [name for name in named if name]
        kept = any(
            one.name not in self.own.get(name, {})
            or one.value.text in self.own[name][one.name].value.text
            for one in shared
            for name in apart
        )
        if not apart or (shared and not kept):
            yield ""
        yield from apart

    def _parsed(self, form: str, program: str) -> ParsedSource:
        options = [one for one in self.options if _program(one.branch) in ("", program)]
        return self._result(form, self.assigned(program), options)

    def _result(
        self, form: str, assigned: Iterable[Assignment], options: Iterable[Occurrence]
    ) -> ParsedSource:
        parsed = parse_assignments(assigned, self.where)
        return ParsedSource(
            where=self.where,
            form=form,
            given=(*parsed.given, *options),
            issues=tuple(parsed.issues),
            inherited=tuple(dict.fromkeys(parsed.inherited)),
        )


def _program(branch: Branch) -> str:
    return next((arm for choice, arm in branch if choice == PROGRAM), "")


def _is_flag(one: Occurrence) -> bool:
    return str(one.channel) in FLAG_VARIABLES


def _doubts(one: Assignment) -> Iterator[tuple[str, int]]:
    """Yield why parts of a value may be wrong, with the line."""
    pieces = one.value.pieces or (Piece("", one.line, branch=one.branch),)
    for piece in pieces:
        line = piece.line or one.line or 0
        blocks = [choice for choice, _ in piece.branch if choice not in (PROGRAM, LINE)]
        if blocks:
            kind = blocks[-1].rpartition(" ")[0] or blocks[-1]
            yield f"set within `{kind}`: read as if it ran", line
        if piece.default:
            yield "read as unset: the default applies", line
