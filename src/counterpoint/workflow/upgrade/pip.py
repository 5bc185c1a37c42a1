"""pip and venv as the installer, where uv is not installed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from packaging.version import Version

from counterpoint.core import UsageError
from counterpoint.workflow.upgrade.installer import (
    REQUIREMENTS,
    BasePython,
    Installer,
    Unresolved,
    unreachable,
)

_OFFLINE: Final = re.compile(
    r"Failed to establish a new connection|Temporary failure in name resolution"
    r"|Connection refused|ConnectTimeoutError|Could not fetch URL"
)
_NO_RELEASE: Final = re.compile(r"No matching distribution found for jax(?:\[[\w-]*\])?==(\S+)")
_OTHER_PYTHON: Final = re.compile(r"require a different python version: (.*)")
_VERSIONS: Final = re.compile(r"^Available versions: (.+)$", re.MULTILINE)
_NO_PIP: Final = "No module named pip"
_LEVEL: Final = re.compile(r"^(?:ERROR|WARNING): ")


class Pip(Installer):
    """The pip of this Python, which installs for others, too."""

    name = "pip"
    get_python = "install Python 3.12, so that python3.12 is on the PATH"

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, ...]] = {}

    def resolve(
        self, requirements: Sequence[str], python: BasePython, constraints: Sequence[str] = ()
    ) -> tuple[str, ...]:
        return tuple(
            f"{name}=={version}" for name, version in self._would(requirements, python, constraints)
        )

    def make(self, directory: Path, python: BasePython, pins: Iterable[str]) -> None:
        self._run([str(python.path), "-m", "venv", "--without-pip", str(directory)])
        pinned = directory / REQUIREMENTS
        pinned.write_text("".join(f"{pin}\n" for pin in pins), encoding="utf-8")
        own = BasePython(directory / "bin" / "python", python.version)
        self._pip(own, "install", "--quiet", "--no-deps", "--requirement", str(pinned))

    def release(self, python: BasePython, below: str | None = None) -> str | None:
        known = self._known.get(python.version)
        if known is None:
            known = self._known[python.version] = self._listed_releases(python)
        older = (it for it in known if below is None or Version(it) < Version(below))
        return next(older, None)

    def _listed_releases(self, python: BasePython) -> tuple[str, ...]:
        """Return all releases for a Python, newest first: one question, since pip starts slowly."""
        try:
            said = self._pip(python, "index", "versions", "jax")
        except Unresolved:
            return ()
        match = _VERSIONS.search(said)
        return tuple(match[1].split(", ")) if match else ()

    def _would(
        self, requirements: Sequence[str], python: BasePython, constraints: Sequence[str]
    ) -> list[tuple[str, str]]:
        """Return the names and versions that would be installed; nothing is.

        With `--target` a Python counts that the system's packages are managed in, too.
        """
        with tempfile.TemporaryDirectory() as scratch:
            place = Path(scratch)
            (place / "limits.txt").write_text("\n".join(constraints), encoding="utf-8")
            report = place / "report.json"
            self._pip(
                python, "install", "--quiet", "--dry-run", "--ignore-installed",
                "--target", str(place / "none"), "--constraint", str(place / "limits.txt"),
                "--report", str(report), *requirements,
            )  # fmt: skip
            told: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
        packages = [entry["metadata"] for entry in told["install"]]
        return [(str(each["name"]), str(each["version"])) for each in packages]

    def _pip(self, python: BasePython, *words: str) -> str:
        plain = [sys.executable, "-m", "pip", "--python", str(python.path), "--no-input"]
        return self._run([*plain, "--disable-pip-version-check", "--retries", "1", *words])

    def _run(self, words: Sequence[str]) -> str:
        done = subprocess.run(  # noqa: S603  our own words
            words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
        if done.returncode == 0:
            return done.stdout
        said = f"{done.stdout}\n{done.stderr}"
        if _NO_PIP in said:
            raise UsageError(
                "neither uv nor pip is installed, and one makes the environment of each release",
                why=f"{sys.executable} has no module pip, and there is no uv beside it or on the"
                " PATH",
                next=f"{sys.executable} -m ensurepip",
            )
        lines = [_LEVEL.sub("", line.strip()) for line in said.splitlines() if line.strip()]
        refusal = _refusal(said, "\n".join(dict.fromkeys(lines)))
        if _OFFLINE.search(said):
            raise unreachable(refusal.shown, "PIP_INDEX_URL")
        raise refusal


def _refusal(said: str, text: str) -> Unresolved:
    """Return what pip's words mean: it calls a release missing that is for another Python."""
    missing = _NO_RELEASE.search(said)
    for_others = "; ".join(_OTHER_PYTHON.findall(said))
    other = missing is not None and f"{missing[1]} Requires-Python" in for_others
    return Unresolved(
        text, wants_other_python=other, is_missing_release=missing is not None and not other
    )
