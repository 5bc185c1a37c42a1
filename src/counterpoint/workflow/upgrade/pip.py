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
_NO_PIP: Final = "No module named pip"
_LEVEL: Final = re.compile(r"^(?:ERROR|WARNING): ")


class Pip(Installer):
    """The pip of this Python, which installs for others, too."""

    name = "pip"
    get_python = "install Python 3.12, so that python3.12 is on the PATH"

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
        self._pip(own, "install", "--no-deps", "--requirement", str(pinned))

    def _alone(self, requirement: str, python: BasePython) -> str | None:
        try:
            found = self._would([requirement], python, (), "--no-deps")
        except Unresolved:
            return None
        return found[0][1] if found else None

    def _would(
        self,
        requirements: Sequence[str],
        python: BasePython,
        constraints: Sequence[str],
        *words: str,
    ) -> list[tuple[str, str]]:
        """Return the names and versions that would be installed; nothing is.

        With `--target` a Python counts that the system's packages are managed in, too.
        """
        with tempfile.TemporaryDirectory() as scratch:
            place = Path(scratch)
            (place / "limits.txt").write_text("\n".join(constraints), encoding="utf-8")
            report = place / "report.json"
            self._pip(
                python, "install", "--dry-run", "--ignore-installed",
                "--target", str(place / "none"), "--constraint", str(place / "limits.txt"),
                "--report", str(report), *words, *requirements,
            )  # fmt: skip
            told: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
        found = [entry["metadata"] for entry in told["install"]]
        return [(str(each["name"]), str(each["version"])) for each in found]

    def _pip(self, python: BasePython, *words: str) -> None:
        plain = [sys.executable, "-m", "pip", "--python", str(python.path), "--no-input"]
        self._run([*plain, "--disable-pip-version-check", "--quiet", "--retries", "1", *words])

    def _run(self, words: Sequence[str]) -> None:
        done = subprocess.run(  # noqa: S603  our own words
            words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
        if done.returncode == 0:
            return
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
