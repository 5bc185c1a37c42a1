"""What tests of readers ask of a Written."""

from __future__ import annotations

from counterpoint.flags.reading import read_text
from counterpoint.flags.settings import Channel
from counterpoint.flags.written import Slip, SlipKind, Written


def script(*lines: str) -> Written:
    """A shell script, read."""
    return read_text("\n".join([*lines, ""]), "job.sh")


def program(*lines: str) -> Written:
    """A Python program, read."""
    return read_text("\n".join([*lines, ""]), "train.py")


def manifest(text: str) -> Written:
    """A YAML text, read."""
    return read_text(text, "job.yaml")


def flags(written: Written) -> list[tuple[str, str]]:
    """XLA's flags, in order."""
    return [(one.name, one.meant) for one in written.through(Channel.XLA_FLAGS)]


def lines(written: Written) -> list[tuple[str, int | None]]:
    """All names with their lines."""
    return [(one.name, one.place.line) for one in written.given]


def kinds(written: Written) -> list[SlipKind]:
    return [one.kind for one in written.slips]


def slip(written: Written) -> Slip:
    """The only slip."""
    (one,) = written.slips
    return one
