"""Two commits of the user's code, each checked out in a git worktree of its own.

A worktree is in a scratch directory, and git forgets it at the end of the block, whatever ends it.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from counterpoint.core import InputError, UsageError

HERE: Final = "."
"""Names the files as they are now, committed or not."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """A commit's files: `cwd` is the directory there that corresponds to the current one."""

    name: str
    root: Path
    cwd: Path

    def without_root(self, text: bytes) -> bytes:
        """Return a program's text with paths as the repository has them, so that two compare."""
        for place in dict.fromkeys((str(self.root), str(self.root.resolve()))):
            text = text.replace(f"{place}/".encode(), b"")
        return text


@contextmanager
def checked_out(commit: str, scratch: Path, cwd: Path) -> Generator[Checkout]:
    """Check a commit out for the duration of a block; `.` stays where it is."""
    root = root_of(cwd)
    if commit == HERE:
        yield Checkout("the files now", root, cwd)
        return
    name = _name(commit, root)
    place = scratch / f"commit-{name.partition(' ')[0]}"
    if place.exists():
        raise UsageError(f"--code {commit}: both are {name}", next=f"git -C {root} log --oneline")
    try:
        _git(root, "worktree", "add", "--detach", "--quiet", str(place), commit)
        below = place / cwd.relative_to(root)
        if not below.is_dir():
            raise InputError(
                f"{name}: the commit has no directory {cwd.relative_to(root)}",
                next="run the command in a directory that both commits have",
            )
        yield Checkout(name, place, below)
    finally:
        shutil.rmtree(place, ignore_errors=True)
        _git(root, "worktree", "prune")


def inside(text: str, cwd: Path) -> str:
    """Return `file.py:function` with a path that each checkout has: relative to `cwd`."""
    home, _, function = text.rpartition(":")
    if not Path(home).is_absolute():
        return text
    try:
        return f"{Path(home).resolve().relative_to(cwd.resolve())}:{function}"
    except ValueError:
        raise UsageError(
            f"{home} is not below {cwd}, so the commits do not contain it",
            next="change to the repository, and name the file by its path there",
        ) from None


def root_of(cwd: Path) -> Path:
    """Return the top of the repository that contains a directory."""
    try:
        return Path(_git(cwd, "rev-parse", "--show-toplevel"))
    except InputError as error:
        raise UsageError(
            f"{cwd} is not in a git repository", why=error.why, next="change to your repository"
        ) from None


def _name(commit: str, root: Path) -> str:
    """Return the short hash of a commit and its subject."""
    try:
        return _git(root, "log", "-1", "--format=%h %s", "--end-of-options", commit, "--")
    except InputError as error:
        raise UsageError(
            f"--code {commit}: not a commit of {root}",
            why=error.why,
            next=f"git -C {root} log --oneline",
        ) from None


def _git(directory: Path, *words: str) -> str:
    program = shutil.which("git")
    if program is None:
        raise UsageError("git is not installed", why="it checks the commits out")
    done = subprocess.run(  # noqa: S603  git, with our own words
        [program, "-C", str(directory), *words], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise InputError(f"git {words[0]} failed", why=done.stderr.strip().partition("\n")[0])
    return done.stdout.strip()
