"""What tests of readers ask of a ParsedSource."""

from __future__ import annotations

from counterpoint.flags.parse.source import read_text
from counterpoint.flags.parsed import IssueKind, ParsedSource, SyntaxIssue
from counterpoint.flags.settings import Channel


def script(*lines: str) -> ParsedSource:
    """A shell script, read."""
    return read_text("\n".join([*lines, ""]), "job.sh")


def program(*lines: str) -> ParsedSource:
    """A Python program, read."""
    return read_text("\n".join([*lines, ""]), "train.py")


def manifest(text: str) -> ParsedSource:
    """A YAML text, read."""
    return read_text(text, "job.yaml")


def flags(written: ParsedSource) -> list[tuple[str, str]]:
    """XLA's flags, in order."""
    return [(one.name, one.meant) for one in written.through(Channel.XLA_FLAGS)]


def lines(written: ParsedSource) -> list[tuple[str, int | None]]:
    """All names with their lines."""
    return [(one.name, one.place.line) for one in written.given]


def kinds(written: ParsedSource) -> list[IssueKind]:
    return [one.kind for one in written.issues]


def issue(written: ParsedSource) -> SyntaxIssue:
    """The only issue."""
    (one,) = written.issues
    return one
