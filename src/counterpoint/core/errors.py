"""The errors shown to a user.

    CounterpointError        anything the user can fix; has an exit code, never a traceback
    ├── UsageError           the command line or a setting is wrong (exit code 2)
    │   ├── ArgumentError    one argument of a function, which a command takes as an option
    │   └── WriteError       what was to be written can't be (exit code 2)
    └── InputError           a file or its content is wrong (exit code 3)

Each says three things: what failed (with the value and where), why, and what to do next. The texts
name arguments as in Python (`core.arguments`); a command words them as its options.
Programming errors are ordinary exceptions and keep their traceback.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from counterpoint.core.arguments import option_of, option_words


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

    def rename(self, option: str, other: str) -> None:
        """Name another option in all texts, for a caller that takes it under that name."""
        name = re.compile(rf"(?<![\w-]){option}\b")
        self.what = name.sub(other, self.what)
        self.why = self.why and name.sub(other, self.why)
        self.next = self.next and name.sub(other, self.next)


class UsageError(CounterpointError):
    """The command line or a setting is wrong."""

    exit_code = 2


class ArgumentError(UsageError):
    """An argument has a value that is not accepted; `instead` is one that is.

    `problem` continues the sentence `--argument value: ...`.
    """

    def __init__(
        self,
        argument: str,
        value: object,
        problem: str,
        *,
        why: str | None = None,
        instead: object = None,
        beside: Mapping[str, object] | None = None,
        remark: str = "",
    ) -> None:
        """Name in `beside` the other arguments to change; `remark` says what `instead` means."""
        self.argument, self.value, self.problem, self.instead = argument, value, problem, instead
        changed: dict[str, object] = {} if instead is None else {argument: instead}
        words = shlex.join(option_words(changed | dict(beside or {})))
        super().__init__(
            f"{option_of(argument)} {shlex.quote(str(value))}: {problem}",
            why=why,
            next=f"use {words}{remark and f': {remark}'}" if words else None,
        )


class WriteError(UsageError):
    """A file or directory can't be written: the place was wrong, not what was read."""

    def __init__(self, place: object, failure: Exception, *, next: str | None = None) -> None:
        lines = (getattr(failure, "strerror", None) or str(failure)).strip().splitlines()
        reason = lines[0] if lines else type(failure).__name__
        super().__init__(f"can't write {place}: {reason}", next=next)


class InputError(CounterpointError):
    """A file, or its content, is wrong."""

    exit_code = 3
