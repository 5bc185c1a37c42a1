"""Keeps requested settings in a program's environment, and notes what else writes there.

A launch script that exports XLA_FLAGS, or a module that sets it when it is imported, replaces what
`counterpoint run` passed. XLA and NCCL read the environment only when they are first needed, so the
requested settings are put back in the program's own process: after each write or deletion by the
program, and when jax has been imported. Until then the program finds the flags of its own
environment alone, so that `os.environ.setdefault("XLA_FLAGS", ...)` does what it does without us.

This file runs in the program's interpreter: `core/injection`.
"""

from __future__ import annotations

import os
import re
import sys
from types import FrameType
from typing import Any

FLAG_VARIABLES = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")
"""Variables that hold flags, of which the last one of a name counts."""

NOTED = ("XLA_", "JAX_", "LIBTPU_", "TPU_", "NCCL_", "CUDA_", "NVTE_", "NVSHMEM_", "TF_", "UCX_")
"""Beginnings of the names of variables whose writers are noted."""

_SECRET_NAME = re.compile(
    r"TOKEN|SECRET|PASSW|CREDENTIAL|(?:API|ACCESS|PRIVATE|AUTH)_?KEY|^TF_(?:VAR|CLI|HTTP)_"
)
"""Names that may hold a secret; of those with `TF_`, some are Terraform's and not TensorFlow's."""
_SECRET_VALUE = re.compile(
    r"://[^/\s:@]+:[^/\s@]+@|-----BEGIN |\b(?:gh[opsu]_|github_pat_|hf_|sk-|xox[bp]-|AKIA|eyJ)\w{8}"
)
"""A password in a URL, a key, or the beginning of a well-known kind of token."""
_MOST = 400  # notes kept; a program that writes a variable in each step adds no more
_DELETIONS = 1000  # after so many, none is undone: a loop may go on until nothing is left
_FLAG = re.compile(r"""\s*(?:--?(\w+)(?:=("(?:\\.|[^"\\])*"|'[^']*'|\S*))?(?!\S)|\S+)""")
_OWN = (os.__file__, __file__, "<frozen os>", "<frozen _collections_abc>")


def flags_in(text: str, variable: str = "XLA_FLAGS") -> dict[str, str]:
    """Parse the flags in a variable's text: of a name the last one counts.

    XLA stops at a word that is no flag; libtpu goes on.
    """
    return dict(flag_pairs(text, variable))


def flag_pairs(text: str, variable: str = "XLA_FLAGS") -> list[tuple[str, str]]:
    """Parse the flags in a variable's text, repeats included."""
    found: list[tuple[str, str]] = []
    at = 0
    while match := _FLAG.match(text, at):
        if match[1] is not None:
            found.append((match[1], _plain(match[2] or "")))
        elif variable == "XLA_FLAGS":
            break
        at = match.end()
    return found


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
    """The requested settings, and the writes to the environment of this process.

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
        self._busy = False
        self._deletions = 0
        self.writes: list[dict[str, str | None]] = []
        self.at_start = {} if passed is None else self._changes()

    def install(self) -> None:
        """Put the settings back after each write or deletion from now on; hide flags until then."""
        for name in (*self._flags, *self._variables):
            if not self._hide(name):
                self._put_back(name)
        environ: Any = type(os.environ)
        own_set, own_delete = environ.__setitem__, environ.__delitem__
        own_clear, own_popitem = environ.clear, environ.popitem

        def set_and_keep(this: Any, key: Any, value: Any) -> None:  # noqa: ANN401
            own_set(this, key, value)
            if this is os.environ:
                self._written(key, value)

        def delete(this: Any, key: Any) -> None:  # noqa: ANN401
            own_delete(this, key)
            if this is os.environ:
                self._deleted(key)

        def clear(this: Any) -> None:  # noqa: ANN401
            busy, self._busy = self._busy, True  # it deletes until nothing is left
            try:
                own_clear(this)
            finally:
                self._busy = busy
            if this is os.environ:
                self.restore()

        def popitem(this: Any) -> Any:  # noqa: ANN401
            busy, self._busy = self._busy, True  # it is called until nothing is left
            try:
                return own_popitem(this)
            finally:
                self._busy = busy

        environ.__setitem__ = set_and_keep
        environ.__delitem__ = delete
        environ.clear = clear
        environ.popitem = popitem

    def facts(self, config: object = None) -> dict[str, object]:
        """Return what became of the settings so far; `config` is `jax.config`."""
        names = (*self._flags, *self._variables)
        options = {name: getattr(config, name.lower(), None) for name in self._variables}
        return {
            "values": {name: os.environ.get(name) for name in names},
            "options": {
                name: value
                for name, value in options.items()
                if isinstance(value, (bool, int, float, str))
            },
            "passed": self._passed,
            "at_start": dict(self.at_start),
            "writes": list(self.writes),
        }

    def restore(self) -> None:
        """Put back all settings that something replaced, or that were hidden."""
        self._hidden.clear()
        for name in (*self._flags, *self._variables):
            self._put_back(name)

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
        found = {name: os.environ.get(name) for name in sorted(names) if not self._is_hidden(name)}
        return {
            name: value
            for name, value in found.items()
            if value != self._passed.get(name) and is_noted(name, value)
        }

    def _written(self, name: str, value: str) -> None:
        if self._busy:
            return
        self._note(name, self._with_hidden(name, value))
        self._put_back(name)

    def _with_hidden(self, name: str, value: str) -> str:
        """Return what a program that could not see the flags would have written beside them."""
        if name not in self._hidden:
            return value
        self._hidden.discard(name)
        had = flags_in(value, name)
        unseen = [written for flag, _, written in self._flags[name] if flag not in had]
        return " ".join([value.strip(), *unseen])

    def _deleted(self, name: str) -> None:
        self._note(name, None)
        self._deletions += 1
        if not self._busy and self._deletions <= _DELETIONS:
            self._put_back(name)

    def _put_back(self, name: str) -> None:
        wanted = self._variables.get(name)
        if name in self._flags:
            wanted = self._appended(name)
        if wanted is not None and os.environ.get(name) != wanted:
            self._busy = True
            try:
                os.environ[name] = wanted
            finally:
                self._busy = False

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

    def _note(self, name: str, value: str | None) -> None:
        if len(self.writes) < _MOST and (is_noted(name, value) or name in self._variables):
            self.writes.append({"name": name, "value": value, "where": _caller()})


def _content(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123  pathlib is slow to import
            return " ".join(file.read().split())
    except OSError:
        return ""


def _caller() -> str | None:
    """Return the file and line that writes the environment."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    while frame is not None and frame.f_code.co_filename in _OWN:
        frame = frame.f_back
    return None if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
