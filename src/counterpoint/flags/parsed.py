"""ParsedSource: settings as written, each with its place, before they are used.

    text, file, process, Run ── read ──► ParsedSource ── .settings ──► Settings
                                             └────── check ──────► Remarks

A reader never guesses: what it can't know, and what XLA would reject, is a SyntaxIssue; what it
does not read though it may set something is listed in `unread`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto
from typing import Annotated, Final

from counterpoint.core.field import Field
from counterpoint.flags.named_files import ANYWHERE, AllowedFiles
from counterpoint.flags.settings import Channel, Layout, Settings, valid_pairs, why_invalid

COMMAND_LINE: Final = "command line"
"""The place of flags that are not in a file."""
ENVIRONMENT: Final = "environment"
"""The place of settings that this process inherits."""


@dataclass(frozen=True, slots=True)
class Location:
    """The place where something is written; `line` is None if the source has no lines."""

    where: Annotated[str, Field("the file, `command line` or `environment`")]
    line: Annotated[int | None, Field("the line in it; null: it has no lines")] = None

    def __str__(self) -> str:
        return self.where if self.line is None else f"{self.where}:{self.line}"


@dataclass(frozen=True, slots=True)
class Pin:
    """The release of jaxlib that a source, or a file beside it, names.

    `releases` are several if it allows them, the newest first, or if it is an image of a day
    between two of them, which may have what either has.
    """

    text: str
    place: Location
    releases: tuple[str, ...]
    nightly: bool = False


@dataclass(frozen=True, slots=True)
class Machine:
    """The chip that a source names, as `hardware` names it; AMD is any of AMD's GPUs."""

    chip: str
    text: str
    place: Location


Branch = tuple[tuple[str, str], ...]
"""The position of a setting among alternatives: each choice on the way to it, and its branch."""
PROGRAM: Final = "program"
"""The choice between programs of their own: containers of a manifest, code blocks of a page."""
LINE: Final = "line"
"""The choice between lines of a text that nobody runs. Neither is a condition."""


def exclusive(one: Branch, other: Branch) -> bool:
    """Return whether two settings are in different branches, so that no program has both."""
    arms = dict(one)
    return any(arms.get(choice, arm) != arm for choice, arm in other)


class ValueOrigin(StrEnum):
    """Where a value comes from."""

    LITERAL = "literal"  # written in the source
    DEFAULT = "default"  # what the source says for a variable that is not set: ${X:-default}
    COMPUTED = "computed"  # known only when the program runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """One setting. `value` is None for a flag without `=`; `text` is how it was written.

    `via` names what passes it on, if that is not the channel itself: `MaxText compile_xla_flags`,
    `srun --export`. Of a computed value, the name can be checked, the value (as written) can't.
    `branch` distinguishes what excludes each other: branches of an `if`, functions, containers of
    a manifest, code blocks of a page.
    """

    channel: Channel
    name: str
    value: str | None
    place: Location
    text: str
    via: str = ""
    origin: ValueOrigin = ValueOrigin.LITERAL
    branch: Branch = ()
    joined: str = ""
    """The variable whose inherited value ends where this one begins, without a blank."""

    @property
    def known(self) -> bool:
        return self.origin is not ValueOrigin.COMPUTED

    @property
    def conditional(self) -> bool:
        """Return whether a branch, a loop, a function or a heredoc has it, which may not run."""
        return any(choice not in (PROGRAM, LINE) for choice, _ in self.branch)

    @property
    def variable(self) -> str:
        """The variable that holds it: a flag's is XLA_FLAGS, or another channel of flags."""
        return self.name if self.channel is Channel.ENVIRONMENT else str(self.channel)

    @property
    def meant(self) -> str:
        """The value; a flag without one is true."""
        return "true" if self.value is None else self.value


class IssueKind(Enum):
    """The kind of mistake in how settings are written."""

    STRAY = auto()  # XLA stops reading there, and the rest is lost
    DASH = auto()  # a character that only looks like `--`
    SINGLE_DASH = auto()  # one dash, or three
    UNKNOWABLE = auto()  # known only when the script or the program runs
    NAMES_FILE = auto()  # XLA_FLAGS names a file, which is not read yet
    MISSING_FILE = auto()  # XLA_FLAGS names a file that does not exist or can't be read
    OVERWRITTEN = auto()  # an assignment discards what was set before
    TOO_LATE = auto()  # set after it has been read
    REFUSED = auto()  # a name or a value that can't be a setting


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntaxIssue:
    """Something that does not do what it seems to do. `suggestion` is what to write instead.

    `lost`: what nobody reads, since it comes after a place where XLA stops, or too late: it is
    written, but no setting.
    `otherwise`: the issues if no file of this name exists.
    """

    kind: IssueKind
    channel: Channel
    text: str
    why: str
    place: Location
    suggestion: str | None = None
    lost: tuple[Occurrence, ...] = ()
    otherwise: tuple[SyntaxIssue, ...] = ()


def as_issue(one: Occurrence, why: str) -> SyntaxIssue:
    """Return the issue for an occurrence that can't be a setting."""
    return SyntaxIssue(
        kind=IssueKind.REFUSED, channel=one.channel, text=one.text, why=why, place=one.place
    )


NSYS_VARIABLES: Final = ("NSYS_PROFILING_SESSION_ID", "NVTX_INJECTION64_PATH")
"""Variables that Nsight Systems sets in the process that it records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedSource:
    """The settings of one source, in order of precedence."""

    where: str
    form: str  # `flags`, `shell`, `python`, `slurm`, `kubernetes`, `environment`, `run`, ...
    given: tuple[Occurrence, ...] = ()
    issues: tuple[SyntaxIssue, ...] = ()
    layout: Layout | None = None
    nsys: bool = False
    """Whether Nsight Systems records one of its programs, and the line of that command."""
    nsys_line: int | None = None
    notes: tuple[str, ...] = field(default=())
    unread: tuple[str, ...] = field(default=())
    """Parts of the source that may set something and were not read, so no guarantee is given."""
    inherited: tuple[str, ...] = field(default=())
    """Flags that whoever starts the program puts before these; they are not read here."""
    pin: Pin | None = None
    machine: Machine | None = None
    """The release and the chip that the source itself names."""
    others: tuple[ParsedSource, ...] = field(default=())
    """The settings of other programs of the source, started before or beside the last one."""
    reach: AllowedFiles = field(default=ANYWHERE, repr=False, compare=False)
    own: Mapping[str, AllowedFiles] = field(
        default_factory=dict[str, AllowedFiles], repr=False, compare=False
    )
    """The directories in which named files are read; `own` overrides this for certain places."""

    def reach_of(self, place: Location) -> AllowedFiles:
        """Return where a file named at a place may be read."""
        return self.own.get(place.where, self.reach)

    @property
    def programs(self) -> tuple[ParsedSource, ...]:
        """The last program's settings, and those of the others."""
        return (self, *self.others)

    @property
    def not_read(self) -> tuple[str, ...]:
        """All parts that are not read here, of all its programs."""
        parts = (
            part for program in self.programs for part in (*program.unread, *program.inherited)
        )
        return tuple(dict.fromkeys(parts))

    def through(self, channel: Channel) -> tuple[Occurrence, ...]:
        """Return the settings of one channel, in order."""
        return tuple(occurrence for occurrence in self.given if occurrence.channel is channel)

    @property
    def refused(self) -> tuple[tuple[Occurrence, str], ...]:
        """Occurrences that can't be settings, each with the reason."""
        checked = (
            (occurrence, why_invalid(occurrence.name, occurrence.meant))
            for occurrence in self.given
            if occurrence.channel is not Channel.TRAINER
        )
        return tuple((occurrence, why) for occurrence, why in checked if why)

    @property
    def settings(self) -> Settings:
        """The resulting Settings, as far as they are known."""
        xla = self._pairs(Channel.XLA_FLAGS)
        options = self._pairs(Channel.COMPILER_OPTIONS)
        tpu = " ".join(
            occurrence.text
            for occurrence in self.through(Channel.LIBTPU_INIT_ARGS)
            if occurrence.known and why_invalid(occurrence.name, occurrence.text) is None
        )
        env = [*self._pairs(Channel.ENVIRONMENT)]
        env += [(name.upper(), value) for name, value in self._pairs(Channel.JAX_CONFIG)]
        env += [("LIBTPU_INIT_ARGS", tpu)] if tpu else []
        return Settings(xla, tuple(env), options, self.layout)

    def _pairs(self, channel: Channel) -> tuple[tuple[str, str], ...]:
        return valid_pairs(
            (occurrence.name, occurrence.meant)
            for occurrence in self.through(channel)
            if occurrence.known
        )
