"""Keeps requested settings in a program's environment, and notes what else changes there.

A launch script that exports XLA_FLAGS, or a module that sets it when it is imported, replaces what
`counterpoint run` passed. XLA and NCCL read the environment only when they are first needed, so the
requested settings are put back in the program's own process at two moments: when it begins to
import jax, which reads its options then, and when jax is about to make its backends, whose XLA
reads the flags then. Until the first, the program finds the flags of its own environment alone, so
that `os.environ.setdefault("XLA_FLAGS", ...)` does what it does without us.

Who changed a variable is told by copies of the environment: as passed to the command, when Python
started, and at these moments.

This file runs in the program's interpreter: `core/injection`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

FLAG_VARIABLES = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")
"""Variables that hold flags, of which the last one of a name counts."""

NOTED = ("XLA_", "JAX_", "LIBTPU_", "TPU_", "NCCL_", "CUDA_", "NVTE_", "NVSHMEM_", "TF_", "UCX_")
"""Beginnings of the names of variables whose changes are noted."""

_SECRET_NAME = re.compile(
    r"TOKEN|SECRET|PASSW|CREDENTIAL|(?:API|ACCESS|PRIVATE|AUTH)_?KEY|^TF_(?:VAR|CLI|HTTP)_"
)
"""Names that may hold a secret; of those with `TF_`, some are Terraform's and not TensorFlow's."""
_SECRET_VALUE = re.compile(
    r"://[^/\s:@]+:[^/\s@]+@|-----BEGIN |\b(?:gh[opsu]_|github_pat_|hf_|sk-|xox[bp]-|AKIA|eyJ)\w{8}"
)
"""A password in a URL, a key, or the beginning of a well-known kind of token."""
_FLAG = re.compile(r"""\s*(?:--?(\w+)(?:=("(?:\\.|[^"\\])*"|'[^']*'|\S*))?(?!\S)|\S+)""")

PROGRAM = "the program"
"""Who has changed the environment since Python started, unless it was the import of jax."""


def flags_in(text: str, variable: str = "XLA_FLAGS") -> dict[str, str]:
    """Parse the flags in a variable's text: of a name the last one counts.

    XLA stops at a word that is no flag; libtpu goes on.
    """
    return dict(flag_pairs(text, variable))


def flag_pairs(text: str, variable: str = "XLA_FLAGS") -> list[tuple[str, str]]:
    """Parse the flags in a variable's text, repeats included."""
    pairs: list[tuple[str, str]] = []
    at = 0
    while match := _FLAG.match(text, at):
        if match[1] is not None:
            pairs.append((match[1], _plain(match[2] or "")))
        elif variable == "XLA_FLAGS":
            break
        at = match.end()
    return pairs


def _plain(value: str) -> str:
    if value[:1] == "'":
        return value[1:-1]
    return re.sub(r"\\(.)", r"\1", value[1:-1]) if value[:1] == '"' else value


def is_noted(name: str, value: str | None) -> bool:
    """Return whether a Run records this variable: it can change a program, and is no secret."""
    if not name.startswith(NOTED) or _SECRET_NAME.search(name):
        return False
    return value is None or _SECRET_VALUE.search(value) is None


class KeptVariables:
    """The requested settings, and the changes of the environment of this process.

    Args:
        flags: By variable, the flags to append: name, value, and both as written.
        optional: Names of flags that are left out if the program sets them itself.
        variables: Variables to set.
        passed: The environment's values as they were passed to the command; None if unknown.
        before: Those of variables with flags as they were before the settings were added.
    """

    def __init__(
        self,
        flags: dict[str, list[tuple[str, str, str]]] | None = None,
        optional: tuple[str, ...] = (),
        variables: dict[str, str] | None = None,
        passed: dict[str, str] | None = None,
        before: dict[str, str] | None = None,
    ) -> None:
        self._flags = flags or {}
        self._optional = frozenset(optional)
        self._variables = variables or {}
        self._passed = passed or {}
        self._before = before or {}
        self._hidden: set[str] = set()
        self._read: dict[str, str | None] = {}  # the flags, since XLA has read them
        self._copy: dict[str, str] = {}
        self.writes: list[dict[str, str | None]] = []
        self.at_start = {} if passed is None else self._changes()

    def install(self) -> None:
        """Set the requested variables, and hide the flags until jax is imported."""
        for name in (*self._flags, *self._variables):
            if not self._hide(name):
                self._put_back(name)
        self._copy = self._noted({})

    def restore(self) -> None:
        """Put back all settings that the program has changed, or that were hidden."""
        self.compare(PROGRAM)
        self._hidden.clear()
        for name in (*self._flags, *self._variables):
            self._put_back(name)
        self._copy = self._noted({})

    def restore_last(self) -> None:
        """Put the settings back before XLA reads the flags: of these, later changes are in vain."""
        self.restore()
        self._read = {name: os.environ.get(name) for name in FLAG_VARIABLES}

    def compare(self, by: str, instead: Mapping[str, str | None] | None = None) -> None:
        """Note what has changed since the last copy; `instead` has values that count for others."""
        now = self._noted(instead or {})
        for name in sorted({*self._copy, *now}):
            value = now.get(name)
            if value == self._copy.get(name):
                continue
            if value is not None:
                value = self._with_hidden(name, value)
            if is_noted(name, value) or name in self._variables:
                self.writes.append({"name": name, "value": value, "by": by})
        self._copy = now

    def facts(
        self,
        config: object = None,
        instead: Mapping[str, str | None] | None = None,
    ) -> dict[str, object]:
        """Return what became of the settings so far; `config` is `jax.config`."""
        self.compare(PROGRAM, instead)
        names = (*self._flags, *self._variables)
        options = {name: getattr(config, name.lower(), None) for name in self._variables}
        return {
            "values": {name: self._copy.get(name) for name in names},
            "options": {
                name: value
                for name, value in options.items()
                if isinstance(value, (bool, int, float, str))
            },
            "passed": self._passed,
            "at_start": dict(self.at_start),
            "writes": list(self.writes),
            "late": {
                name: os.environ.get(name)
                for name, read in self._read.items()
                if os.environ.get(name) != read
            },
        }

    def _noted(self, instead: Mapping[str, str | None]) -> dict[str, str]:
        """Return a copy of the variables whose changes matter."""
        variables = {**os.environ, **self._read, **instead}
        return {
            name: value
            for name, value in variables.items()
            if value is not None and (name.startswith(NOTED) or name in self._variables)
        }

    def _hide(self, name: str) -> bool:
        """Show the program what it would find without flags, unless a script has set its own."""
        if name in self._flags and os.environ.get(name, "") == self._passed.get(name):
            if name in self._before:
                os.environ[name] = self._before[name]
            else:
                os.environ.pop(name, None)
        if self._is_hidden(name):
            self._hidden.add(name)
        return name in self._hidden

    def _is_hidden(self, name: str) -> bool:
        """Return whether this process, or one that started it, has hidden the flags."""
        own = self._before.get(name)
        return name in self._flags and name in self._passed and os.environ.get(name) == own

    def _changes(self) -> dict[str, str | None]:
        """Return the noted variables that something changed before Python started."""
        names = {name for name in (*os.environ, *self._passed) if name.startswith(NOTED)}
        values = {name: os.environ.get(name) for name in sorted(names) if not self._is_hidden(name)}
        return {
            name: value
            for name, value in values.items()
            if value != self._passed.get(name) and is_noted(name, value)
        }

    def _with_hidden(self, name: str, value: str) -> str:
        """Return what a program that could not see the flags would have written beside them."""
        if name not in self._hidden:
            return value
        had = flags_in(value, name)
        unseen = [written for flag, _, written in self._flags[name] if flag not in had]
        return " ".join([value.strip(), *unseen])

    def _put_back(self, name: str) -> None:
        wanted = self._variables.get(name)
        if name in self._flags:
            wanted = self._appended(name)
        if wanted is not None and os.environ.get(name) != wanted:
            os.environ[name] = wanted

    def _appended(self, name: str) -> str | None:
        """Return a variable's text with the flags that it lacks, or that something overrode."""
        text = os.environ.get(name, "")
        if text.strip() and text.lstrip()[0] != "-":
            text = _content(text.strip())  # XLA reads flags from a file of that name
        had = flags_in(text, name)
        missing = [
            written
            for flag, value, written in self._flags[name]
            if had.get(flag) != value and not (flag in self._optional and flag in had)
        ]
        if not missing:
            return os.environ.get(name)
        whole = " ".join([text.strip(), *missing]).lstrip()
        lost = not {flag for flag, _, _ in self._flags[name]} <= set(flags_in(whole, name))
        return " ".join([*missing, text.strip()]) if lost else whole  # a stray word ends the flags


def _content(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123  pathlib is slow to import
            return " ".join(file.read().split())
    except OSError:
        return ""
