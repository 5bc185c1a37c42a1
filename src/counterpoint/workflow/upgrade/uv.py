"""uv as the installer."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from counterpoint.workflow.upgrade.installer import (
    REQUIREMENTS,
    BasePython,
    Installer,
    Unresolved,
    unreachable,
)

_FOUND: Final = re.compile(r"^jax==(\S+)", re.MULTILINE)
_OFFLINE: Final = re.compile(
    r"network was disabled|error sending request|dns error|Failed to fetch|Could not connect",
    re.IGNORECASE,
)
_OTHER_PYTHON: Final = re.compile(r"does not satisfy Python|only supports >=?\d")
_NO_RELEASE: Final = re.compile(r"there (?:is no version|are no versions) of jax(?:\[[\w-]*\])?==")


def find_uv() -> str | None:
    """Return the program: beside this Python, else on the PATH."""
    beside = Path(sys.executable).parent / "uv"
    return str(beside) if beside.is_file() else shutil.which("uv")


class Uv(Installer):
    """The program uv."""

    name = "uv"
    get_python = "uv python install 3.12"

    def __init__(self, program: str) -> None:
        self._program = program

    def resolve(
        self, requirements: Sequence[str], python: BasePython, constraints: Sequence[str] = ()
    ) -> tuple[str, ...]:
        with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as limits:
            limits.write("\n".join(constraints))
            limits.flush()
            out = self._compile(requirements, python, "--constraints", limits.name)
        return tuple(line.strip() for line in out.splitlines() if line.strip())

    def make(self, directory: Path, python: BasePython, pins: Iterable[str]) -> None:
        """Make an environment; its scripts find their Python by a relative path."""
        made = ["venv", "--relocatable", "--allow-existing", "--python", str(python.path)]
        self._answer([*made, str(directory)])
        pinned = directory / REQUIREMENTS
        pinned.write_text("".join(f"{pin}\n" for pin in pins), encoding="utf-8")
        own = directory / "bin" / "python"
        self._answer(["pip", "sync", str(pinned), "--python", str(own)])

    def release(self, python: BasePython, below: str | None = None) -> str | None:
        wanted = "jax" if below is None else f"jax<{below}"
        try:
            match = _FOUND.search(self._compile([wanted], python, "--no-deps"))
        except Unresolved:
            return None
        return match[1] if match else None

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
        lines = (line.strip() for line in done.stderr.splitlines())
        refusal = Unresolved(
            "\n".join(re.sub(r"^(?:error|cause|hint): ", "", line) for line in lines if line),
            wants_other_python=_OTHER_PYTHON.search(done.stderr) is not None,
            is_missing_release=_NO_RELEASE.search(done.stderr) is not None,
        )
        if _OFFLINE.search(done.stderr):
            raise unreachable(refusal.shown, "UV_DEFAULT_INDEX")
        raise refusal
