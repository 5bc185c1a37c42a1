"""The errors shown to a user.

    CounterpointError        anything the user can fix; has an exit code, never a traceback
    ├── UsageError           the command line or a setting is wrong (exit code 2)
    │   └── ArgumentError    one argument of a function, which a command takes as an option
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


class ArgumentError(UsageError):
    """An argument has a value that is not accepted; `instead` is one that is.

    `problem` continues the sentence `argument value: ...`. A command that takes the argument as an
    option words the error with `as_option`.
    """

    def __init__(
        self,
        argument: str,
        value: object,
        problem: str,
        *,
        why: str | None = None,
        instead: str | None = None,
    ) -> None:
        self.argument, self.value, self.problem, self.instead = argument, value, problem, instead
        super().__init__(self._what(argument), why=why, next=self._next(argument))

    def as_option(self) -> UsageError:
        """Return the same error in the words of a command line."""
        option = f"--{self.argument.replace('_', '-')}"
        return UsageError(self._what(option), why=self.why, next=self._next(option))

    def _what(self, name: str) -> str:
        return f"{name} {self.value}: {self.problem}"

    def _next(self, name: str) -> str | None:
        return None if self.instead is None else f"{name} {self.instead}"


class InputError(CounterpointError):
    """A file, or its content, is wrong."""

    exit_code = 3
