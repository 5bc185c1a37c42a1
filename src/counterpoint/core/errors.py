"""The errors shown to a user.

    CounterpointError        anything the user can fix; has an exit code, never a traceback
    ├── UsageError           the command line or a setting is wrong (exit code 2)
    └── InputError           a file or its content is wrong (exit code 3)

Each says three things: what failed (with the value and where), why, and what to do next.
Programming errors are ordinary exceptions and keep their traceback.
"""

from __future__ import annotations


class CounterpointError(Exception):
    """Something the user can fix."""

    exit_code = 1

    def __init__(self, what: str, *, why: str | None = None, next: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.next = next

    def __str__(self) -> str:
        lines = [self.what]
        if self.why:
            lines.append(f"  why: {self.why}")
        if self.next:
            lines.append(f"  next: {self.next}")
        return "\n".join(lines)

    @property
    def sentence(self) -> str:
        """The whole error in one line: `what (why); next`."""
        text = f"{self.what} ({self.why.rstrip('.')})" if self.why else self.what
        return " ".join(f"{text}; {self.next}".split() if self.next else text.split())


class UsageError(CounterpointError):
    """The command line or a setting is wrong."""

    exit_code = 2


class InputError(CounterpointError):
    """A file, or its content, is wrong."""

    exit_code = 3
