"""`upgrade`: a step with two releases of JAX, predicted, and what makes the difference.

Upgrade ── before, after ──► UpgradeSide: an Installation, and its Forecast
├── changes ──► StepChangeOfKind: what the compilers did differently, and its time
├── flags ────► the flags that went, came or changed their default
├── tries ────► FlagTry: what undoes it
└── steps ────► ReleaseStep: the releases between, where it changed
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from packaging.version import Version

from counterpoint.core import CounterpointError, InputError, Range, Unknown, UsageError
from counterpoint.core.scratch import scratch_directory
from counterpoint.diagnose.compare.comparison import Comparison, StepDifference, compare
from counterpoint.flags.history import ReleaseDiff
from counterpoint.hardware.target import Target
from counterpoint.hardware.targets import parse_target
from counterpoint.workflow.forecast.forecast import PricingContext
from counterpoint.workflow.forecast.ranking import INDIFFERENCE, difference, same_programs
from counterpoint.workflow.subject import find_subject, is_function
from counterpoint.workflow.upgrade.bisection import ReleaseMove, ReleaseStep, bisect, moves_of
from counterpoint.workflow.upgrade.changes import (
    TINY_MS,
    StepChangeOfKind,
    changes_of,
    programs_of,
)
from counterpoint.workflow.upgrade.commits import Checkout, checked_out, inside, root_of
from counterpoint.workflow.upgrade.flag_effects import (
    FlagTry,
    TriedWith,
    flag_changes,
    tried_flags,
)
from counterpoint.workflow.upgrade.installation import NEWEST, Installation, Installations
from counterpoint.workflow.upgrade.side import (
    LoweredSide,
    Say,
    Source,
    UpgradeOptions,
    UpgradeSide,
    carried_packages,
    check_lowered,
    compile_sides,
    lower_side,
    require_file,
)

_OWN: Final = re.compile(r"jax|jaxlib|libtpu|jax-(cuda|rocm).*")
"""Packages of JAX's own, which come with its release."""
_MUTE: Final = ("parameter", "constant", "tuple", "get-tuple-element", "bitcast")
"""Opcodes that compute nothing."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Upgrade:
    """The result of `counterpoint upgrade`: one step before and after."""

    workload: str  # the module's name
    origin: str
    target: Target
    before: UpgradeSide
    after: UpgradeSide
    comparison: Comparison
    work: StepDifference
    changes: tuple[StepChangeOfKind, ...]
    flags: ReleaseDiff | Unknown
    tries: tuple[FlagTry, ...] = ()
    steps: tuple[ReleaseStep, ...] = ()
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        names = f"{self.before.name} to {self.after.name}"
        return f"<Upgrade of {self.workload!r} on {self.target}, {names}: {self.change:+.1%}>"

    @property
    def change(self) -> float:
        """The change of the step, as a share: 0.03 if it becomes 3% longer."""
        return self.after.forecast.step_s / self.before.forecast.step_s - 1

    @property
    def reach(self) -> Range:
        """The range of `change`: errors of prices that both steps share cancel."""
        before = self.before.forecast
        seconds = difference(self.after.forecast.simulation, before.simulation)
        return Range(seconds.low / before.step_s, seconds.high / before.step_s)

    @property
    def has_same_ops(self) -> bool:
        """True if ops of the same shapes take the same time; what they compute may differ."""
        return same_programs(self.before.forecast, self.after.forecast) or (
            not self.changes and abs(self.work.step.difference_ms) <= TINY_MS
        )

    @property
    def other_opcodes(self) -> tuple[tuple[str, int], ...]:
        """The opcodes, inside kernels too, that one side has more of; below 0: fewer now."""
        more, fewer = (
            Counter(
                it.opcode
                for program in programs_of(side.forecast).values()
                for it in program.instructions
                if it.opcode not in _MUTE
            )
            for side in (self.after, self.before)
        )
        more.subtract(fewer)
        return tuple(sorted((opcode, count) for opcode, count in more.items() if count))

    @property
    def is_same_program(self) -> bool:
        """True if both do the same in the same time and memory, names aside."""
        same_memory = self.before.held_bytes == self.after.held_bytes
        return self.has_same_ops and same_memory and not self.other_opcodes

    @property
    def matters(self) -> bool:
        """True if the step is certainly longer or shorter, by more than predictions can tell."""
        reach = self.reach
        certain = reach.low > 0 or reach.high < 0
        return certain and abs(self.change) > INDIFFERENCE

    def slower_by_more_than(self, limit: float) -> bool:
        """Return whether the step becomes longer by more than `limit`, and certainly longer."""
        return self.change > limit and self.reach.low > 0

    @property
    def is_of_releases(self) -> bool:
        """True if two releases are compared, not two commits with one release."""
        return self.before.installation.jax != self.after.installation.jax

    @property
    def moves(self) -> tuple[ReleaseMove, ...]:
        """The releases between that changed the step, if they were looked for."""
        return moves_of(self.steps)

    @property
    def other_packages(self) -> dict[str, tuple[str | None, str | None]]:
        """Packages beside JAX's own whose versions differ between the two environments."""
        one, other = (side.installation.packages for side in (self.before, self.after))
        return {
            name: (one.get(name), other.get(name))
            for name in sorted({*one, *other})
            if one.get(name) != other.get(name) and not _OWN.fullmatch(name)
        }


def upgrade(
    source: Source,
    *,
    target: Target | str,
    before: str,
    after: str,
    options: UpgradeOptions | None = None,
    say: Say = lambda _: None,
) -> Upgrade:
    """Predict a step with two releases of JAX, and say what makes the difference.

    The source is a path, `file.py:function`, or the words of a command. Each release is installed
    in an environment of its own, lowers the step and compiles it; no GPU is needed.
    """
    asked = options or UpgradeOptions()
    where = parse_target(target, tpus=True) if isinstance(target, str) else target
    with _releases(source, where, asked, say) as releases:
        versions = releases.exact(before, after)
        lowered = releases.lowered(versions)
        comparison = upgrade_of(lowered, releases.pricing, asked, say)
        if not asked.bisect:
            return comparison
        between = releases.available.between(*versions)
        say(f"{len(between) - 2} releases between them")
        ends = (comparison.before, comparison.after)
        steps = bisect(between, ends, releases.predicted, each=asked.every)
        return replace(comparison, steps=steps)


def upgrade_code(
    source: Source,
    *,
    target: Target | str,
    commits: tuple[str, str],
    release: str,
    options: UpgradeOptions | None = None,
    say: Say = lambda _: None,
) -> Upgrade:
    """Predict a step of two commits of the user's own code, with one release of JAX.

    Each is checked out in a git worktree; the commit `.` is the files as they are now.
    """
    asked = replace(options or UpgradeOptions(), tries=False, bisect=False)
    where = parse_target(target, tpus=True) if isinstance(target, str) else target
    cwd = Path.cwd()
    given = _code_of(source, cwd)
    with (
        _releases(given, where, asked, say) as releases,
        checked_out(commits[0], releases.scratch, cwd) as one,
        checked_out(commits[1], releases.scratch, cwd) as other,
    ):
        if one.cwd == other.cwd:
            raise UsageError(f"--code {commits[0]} and --code {commits[1]} are the same files")
        version = releases.available.exact(release, "from")
        (installed,) = releases.available.of([version], say)
        lowered = [releases.lowered_code(installed, it) for it in (one, other)]
        return upgrade_of(lowered, releases.pricing, asked, say)


def _code_of(source: Source, cwd: Path) -> Source:
    """Return the workload as each checkout can run it; refuse one that is no code of theirs."""
    if isinstance(source, str) and is_function(source):
        source = inside(source, cwd)
    elif isinstance(source, str | Path):
        raise UsageError(
            f"--code compares commits of a program, and {source} is lowered already",
            next="name file.py:make_step, or a command after `--`",
        )
    installed = carried_packages(source, (), cwd).installed_from(root_of(cwd))
    if installed is not None:
        raise UsageError(
            f"{installed.removeprefix('-e ')} is installed in editable mode, so both commits would"
            " import its files",
            why="Python finds an editable package at one place, whatever is checked out elsewhere",
            next="uninstall it, and let PYTHONPATH=src find it below the current directory",
        )
    return source


@contextmanager
def _releases(
    source: Source, target: Target, options: UpgradeOptions, say: Say
) -> Generator[_Releases]:
    try:
        if isinstance(source, Path) or (isinstance(source, str) and not is_function(source)):
            subject = find_subject(source, options.program, tpus=target.tpu is not None)
            check_lowered(subject, target)  # before anything is installed
        packages = carried_packages(source, options.packages, Path.cwd())
        with (
            scratch_directory("upgrade") as scratch,
            Installations(packages, tpus=target.tpu is not None) as available,
        ):
            yield _Releases(source, PricingContext(target=target), options, available, scratch, say)
    except CounterpointError as error:
        if isinstance(error.next, str):
            error.next = error.next.replace("counterpoint predict ", "counterpoint upgrade ")
        raise


@dataclass
class _Releases:
    """One workload, and what lowers and compiles it with any release."""

    source: Source
    pricing: PricingContext
    options: UpgradeOptions
    available: Installations
    scratch: Path
    say: Say
    ends: tuple[str, str] = ("", "")

    def exact(self, before: str, after: str) -> tuple[str, str]:
        """Return the two releases that the texts name, which are the ends from now on.

        A file that is not there is told before the package index is asked for the newest one.
        """
        require_file(self.source, self.options.packages)
        self.ends = (self.available.exact(before, "from"), self.available.exact(after, "to"))
        first, last = map(Version, self.ends)
        if first == last:
            raise UsageError(
                f"--from {before} and --to {after} are one release: JAX {self.ends[0]}",
                next="use --from 0.10.2" if first > Version("0.10.2") else f"use --to {NEWEST}",
            )
        if first > last:
            if after == NEWEST:
                self.available.python_for(self.ends[0])  # or the error that there is none
            raise UsageError(
                f"--from {before} is newer than --to {self.ends[1]}",
                why="an upgrade goes from the older release to the newer one",
                next=f"use --from {self.ends[1]} --to {self.ends[0]}",
            )
        return self.ends

    def lowered(self, versions: Sequence[str]) -> list[LoweredSide]:
        """Return the step as each of these releases lowers it."""
        return [self._lower(one) for one in self.available.of(versions, self.say)]

    def predicted(self, version: str) -> UpgradeSide:
        """Return the step with a release between the ends, with the Python of both if it can."""
        first, last = self.ends
        one = self.available.of((first, version, last), self.say)[1]
        return compile_sides([self._lower(one)], self.pricing, self.options, self.say)[0]

    def lowered_code(self, one: Installation, code: Checkout) -> LoweredSide:
        """Return the step of a commit, with the paths that the repository has."""
        side = self._lower(one, code)
        workload = side.subject.workload
        if workload is None:
            return side
        plain = replace(workload, program=code.without_root(workload.program))
        return replace(side, subject=replace(side.subject, workload=plain))

    def _lower(self, one: Installation, code: Checkout | None = None) -> LoweredSide:
        name = f"jax {one.jax}" if code is None else code.name
        return lower_side(
            self.source,
            one,
            self.pricing.target,
            self.options,
            name=name,
            directory=self.scratch / f"lowered-{name.replace('/', '-')}",
            cwd=None if code is None else code.cwd,
            say=self.say,
        )


def upgrade_of(
    lowered: Sequence[LoweredSide], pricing: PricingContext, options: UpgradeOptions, say: Say
) -> Upgrade:
    """Compile, simulate and compare two sides, and try what may undo the changes."""
    names = [part.workload.name for part in lowered[0].subject.cycle]
    say(f"compiling {', '.join(names) or lowered[0].subject.name} for {pricing.target}")
    before, after = compile_sides(lowered, pricing, options, say)
    say("comparing")
    comparison = compared(before, after, pricing.target)
    if not (options.tries and comparison.changes) or pricing.target.tpu is not None:
        return comparison
    tried = TriedWith(before, after, lowered[1], pricing, options, say)
    return replace(comparison, tries=tried_flags(tried, comparison.changes, comparison.flags))


def compared(before: UpgradeSide, after: UpgradeSide, target: Target) -> Upgrade:
    """Say what is different in two predicted sides."""
    comparison = compare(before.forecast.simulation.timeline, after.forecast.simulation.timeline)
    work = comparison.work
    if isinstance(work, Unknown):
        raise InputError(f"the two steps can't be compared: {work.reason}")
    return Upgrade(
        workload=before.subject.name,
        origin=before.subject.origin,
        target=target,
        before=before,
        after=after,
        comparison=comparison,
        work=work,
        changes=changes_of(work, programs_of(before.forecast), programs_of(after.forecast)),
        flags=flag_changes(before.installation, after.installation, target),
        notes=tuple(dict.fromkeys(_notes(before, after))),
    )


def _notes_of(side: UpgradeSide) -> Iterator[str]:
    yield from side.installation.notes
    yield from side.subject.notes
    yield from side.forecast.notes
    yield from side.forecast.simulation.notes


def _notes(before: UpgradeSide, after: UpgradeSide) -> Iterator[str]:
    """Yield what both say once, and what one says with its name."""
    one, other = ([*_notes_of(before)], [*_notes_of(after)])
    yield from (note for note in one if note in other)
    yield from (f"{before.name}: {note}" for note in one if note not in other)
    yield from (f"{after.name}: {note}" for note in other if note not in one)
    if before.installation.python != after.installation.python:
        yield (
            f"{before.name} runs in Python {before.installation.python}, {after.name} in"
            f" {after.installation.python}: no installed Python has packages of both"
        )
