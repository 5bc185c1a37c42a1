"""uv, the installer: which releases the package index has, and what requirements become.

Everything goes through uv, so its configuration counts: index, mirror, proxy, credentials, offline.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from packaging.version import Version

from counterpoint.core import InputError, UsageError
from counterpoint.core.frozen import frozen

_FOUND: Final = re.compile(r"^jax==(\S+)", re.MULTILINE)
_OFFLINE: Final = re.compile(
    r"network was disabled|error sending request|dns error|Failed to fetch|Could not connect",
    re.IGNORECASE,
)
_OTHER_PYTHON: Final = re.compile(r"does not satisfy Python|only supports >=?\d")
_NO_RELEASE: Final = re.compile(r"there (?:is no version|are no versions) of jax(?:\[[\w-]*\])?==")
REQUIREMENTS: Final = "requirements.txt"
_LINES: Final = 8
_MOST_RELEASES: Final = 64
_PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")


class Unresolved(Exception):
    """Raised if requirements do not resolve for one Python; `text` is uv's explanation."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    @property
    def wants_other_python(self) -> bool:
        """True if the version of Python is in the way."""
        return _OTHER_PYTHON.search(self.text) is not None

    @property
    def is_missing_release(self) -> bool:
        """True if the index has no such release of JAX."""
        return _NO_RELEASE.search(self.text) is not None

    @property
    def shown(self) -> str:
        """The explanation, without uv's own headings."""
        lines = [line.strip() for line in self.text.splitlines() if line.strip()]
        kept = [re.sub(r"^(?:error|cause|hint): ", "", line) for line in lines]
        return "\n       ".join(kept[:_LINES])


@frozen
class BasePython:
    """A Python to make environments of; `version` is its minor version, such as 3.12."""

    path: Path
    version: str


class Uv:
    """The program uv: beside this Python, else on the PATH; missed once it is needed."""

    @cached_property
    def _program(self) -> str:
        beside = Path(sys.executable).parent / "uv"
        found = str(beside) if beside.is_file() else shutil.which("uv")
        if found is None:
            raise UsageError(
                "uv is not installed, and it makes the environment of each release",
                why=f"it is neither beside {sys.executable} nor on the PATH",
                next=f"{sys.executable} -m pip install uv",
            )
        return found

    def resolve(
        self, requirements: Sequence[str], python: BasePython, constraints: Sequence[str] = ()
    ) -> tuple[str, ...]:
        """Return the pinned packages that these requirements become."""
        with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as limits:
            limits.write("\n".join(constraints))
            limits.flush()
            out = self._compile(requirements, python, "--constraints", limits.name)
        return tuple(line.strip() for line in out.splitlines() if line.strip())

    def make(self, directory: Path, python: BasePython, pins: Iterable[str]) -> None:
        """Make an environment of these packages and nothing else.

        Its scripts find their Python by a relative path, so that the directory can be renamed.
        """
        made = ["venv", "--relocatable", "--allow-existing", "--python", str(python.path)]
        self._answer([*made, str(directory)])
        pinned = directory / REQUIREMENTS
        pinned.write_text("".join(f"{pin}\n" for pin in pins), encoding="utf-8")
        own = directory / "bin" / "python"
        self._answer(["pip", "sync", str(pinned), "--python", str(own)])

    def release(self, python: BasePython, below: str | None = None) -> str | None:
        """Return the newest release of JAX for this Python (below one); None if there is none."""
        wanted = "jax" if below is None else f"jax<{below}"
        try:
            found = _FOUND.search(self._compile([wanted], python, "--no-deps"))
        except Unresolved:
            return None
        return found[1] if found else None

    def releases(self, python: BasePython, oldest: str, newest: str | None = None) -> Iterator[str]:
        """Yield the releases from below `newest` down to `oldest`."""
        below = newest
        for _ in range(_MOST_RELEASES):
            below = self.release(python, below)
            if below is None or Version(below) < Version(oldest):
                return
            yield below

    def pythons(self) -> tuple[BasePython, ...]:
        """Return the installed Pythons, one of each minor version: that of this process first."""
        own = Path(getattr(sys, "_base_executable", sys.executable))
        found = {f"{sys.version_info[0]}.{sys.version_info[1]}": own}
        for version, place in (*self._listed(), *_of_pyenv()):
            if version in _PYTHONS:
                found.setdefault(version, place)
        return tuple(BasePython(path, version) for version, path in found.items())

    def _listed(self) -> Iterator[tuple[str, Path]]:
        said = self._answer(["python", "list", "--only-installed", "--output-format", "json"])
        entries: list[dict[str, Any]] = json.loads(said or "[]")
        for entry in entries:
            if entry["implementation"] == "cpython" and entry.get("variant") == "default":
                parts = entry["version_parts"]
                yield f"{parts['major']}.{parts['minor']}", Path(entry["path"])

    def _compile(self, requirements: Sequence[str], python: BasePython, *words: str) -> str:
        plain = ["pip", "compile", "-", "--no-header", "--no-annotate"]
        return self._answer([*plain, "--python", str(python.path), *words], "\n".join(requirements))

    def _answer(self, words: Sequence[str], text: str = "") -> str:
        done = subprocess.run(  # noqa: S603  uv, with our own words
            [self._program, "--quiet", *words],
            input=text,
            capture_output=True,
            text=True,
            check=False,
            env={name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"},
        )
        if done.returncode == 0:
            return done.stdout
        refusal = Unresolved(done.stderr.strip())
        if _OFFLINE.search(refusal.text):
            raise InputError(
                "the package index can't be reached, and the release is not installed here yet",
                why=refusal.shown,
                next="go online once: each environment is kept; or let UV_DEFAULT_INDEX name an"
                " index that can be reached",
            )
        raise refusal


def _of_pyenv() -> Iterator[tuple[str, Path]]:
    """Yield the Pythons of pyenv; its shims run only those that are switched on."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for place in sorted(root.glob("versions/3.*/bin/python3")):
        yield ".".join(place.parent.parent.name.split(".")[:2]), place
