"""ParsedSource: settings as somebody wrote them, each with its place, before use is made of them.

    text, file, process, Run ── read ──► ParsedSource ── .settings ──► Settings
                                             └────── check ──────► Remarks

A reader never guesses: what it can't know, and what XLA would stumble over, is a SyntaxIssue; what
it does not read though it may set something is listed in `unread`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from counterpoint.flags.named_files import ANYWHERE, Reach
from counterpoint.flags.settings import Channel, Layout, Settings, fault, sound

COMMAND_LINE: Final = "command line"
"""Where flags stand that are not in a file."""
ENVIRONMENT: Final = "environment"
"""Where settings stand that this process inherits."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where something is written; no line where the source has none."""

    where: str
    line: int | None = None

    def __str__(self) -> str:
        return self.where if self.line is None else f"{self.where}:{self.line}"


Branch = tuple[tuple[str, str], ...]
"""Where a setting stands among others: each choice on the way to it, and which of its arms."""


def exclusive(one: Branch, other: Branch) -> bool:
    """Whether two settings stand in different arms of a choice: no program has both."""
    arms = dict(one)
    return any(arms.get(choice, arm) != arm for choice, arm in other)


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """One setting. `value` is None for a flag without `=`; `text` is how it was written.

    `via` names what hands it over, where that is not the channel itself: `MaxText
    compile_xla_flags`, `srun --export`. Where it is not `known`, a part of the value is known
    only when the program runs: the name can be judged, the value (as it was written) can't.
    `branch` tells blocks apart that have nothing to do with each other: functions, constants of a
    library, code blocks of a document, arms of an `if`.
    """

    channel: Channel
    name: str
    value: str | None
    place: Place
    text: str
    via: str = ""
    known: bool = True
    branch: Branch = ()

    @property
    def meant(self) -> str:
        """The value; a flag without one is true."""
        return "true" if self.value is None else self.value


class IssueKind(Enum):
    """What went wrong in writing."""

    STRAY = auto()  # XLA stops reading there, what follows is lost
    DASH = auto()  # a character that only looks like `--`
    SINGLE_DASH = auto()  # one dash, or three
    UNKNOWABLE = auto()  # known only when the script or the program runs
    NAMES_FILE = auto()  # XLA_FLAGS names a file, which is not read so far
    MISSING_FILE = auto()  # XLA_FLAGS names a file that is not there or can't be read
    OVERWRITTEN = auto()  # an assignment throws away what was set before
    TOO_LATE = auto()  # set behind the place where it is read
    REFUSED = auto()  # a name or a value that nothing can be given


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntaxIssue:
    """Something written that does not do what it seems to. `mend` is what to write instead.

    `lost`: flags behind a place where XLA stops. It does not read them, so they are no settings.
    `otherwise`: what it is where no file of this name is there.
    """

    kind: IssueKind
    channel: Channel
    text: str
    why: str
    place: Place
    mend: str | None = None
    lost: tuple[Occurrence, ...] = ()
    otherwise: tuple[SyntaxIssue, ...] = ()


def as_issue(one: Occurrence, why: str) -> SyntaxIssue:
    """A setting that can't be one."""
    return SyntaxIssue(
        kind=IssueKind.REFUSED, channel=one.channel, text=one.text, why=why, place=one.place
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedSource:
    """All that one source says, in the order in which it counts."""

    where: str
    form: str  # `flags`, `shell`, `python`, `slurm`, `kubernetes`, `environment`, `run`, ...
    given: tuple[Occurrence, ...] = ()
    slips: tuple[SyntaxIssue, ...] = ()
    layout: Layout | None = None
    notes: tuple[str, ...] = field(default=())
    unread: tuple[str, ...] = field(default=())
    """Parts of the source that may set something and were not read: nothing is to be promised."""
    inherited: tuple[str, ...] = field(default=())
    """What is put before the flags by whoever starts the program: read there, and not here."""
    others: tuple[ParsedSource, ...] = field(default=())
    """What other programs of the source get, that are started before or beside the last one."""
    source: str = field(default="", repr=False, compare=False)
    """The whole text, where it is mended in its place: a program is more than its settings."""
    reach: Reach = field(default=ANYWHERE, repr=False, compare=False)
    own: Mapping[str, Reach] = field(default_factory=dict[str, Reach], repr=False, compare=False)
    """Where files are looked for that it names; `own` for what stands in certain places."""

    def reach_of(self, place: Place) -> Reach:
        """Where a file may be looked for that is named there."""
        return self.own.get(place.where, self.reach)

    @property
    def programs(self) -> tuple[ParsedSource, ...]:
        """The last program's settings, and those of the others."""
        return (self, *self.others)

    @property
    def not_read(self) -> tuple[str, ...]:
        """All that the source leaves to others, of all its programs."""
        parts = (it for one in self.programs for it in (*one.unread, *one.inherited))
        return tuple(dict.fromkeys(parts))

    def through(self, channel: Channel) -> tuple[Occurrence, ...]:
        """Those of one channel, in order."""
        return tuple(one for one in self.given if one.channel is channel)

    @property
    def refused(self) -> tuple[tuple[Occurrence, str], ...]:
        """What is written and can't be a setting, each with the reason."""
        every = ((one, fault(one.name, one.meant)) for one in self.given)
        return tuple((one, why) for one, why in every if why)

    @property
    def settings(self) -> Settings:
        """What it comes to, as far as it is known."""
        xla = self._pairs(Channel.XLA_FLAGS)
        options = self._pairs(Channel.COMPILER_OPTIONS)
        tpu = " ".join(
            one.text
            for one in self.through(Channel.LIBTPU_INIT_ARGS)
            if one.known and fault(one.name, one.text) is None
        )
        env = [*self._pairs(Channel.ENVIRONMENT)]
        env += [(name.upper(), value) for name, value in self._pairs(Channel.JAX_CONFIG)]
        env += [("LIBTPU_INIT_ARGS", tpu)] if tpu else []
        return Settings(xla, tuple(env), options, self.layout)

    def _pairs(self, channel: Channel) -> tuple[tuple[str, str], ...]:
        return sound((one.name, one.meant) for one in self.through(channel) if one.known)
