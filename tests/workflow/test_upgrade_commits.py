"""Commits of the user's code are checked out apart, and nothing of them stays."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from counterpoint.core import InputError, UsageError
from counterpoint.workflow.upgrade.commits import checked_out, inside

GIT = shutil.which("git") or "git"
pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(directory: Path, *words: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        [GIT, "-C", str(directory), *who, *words], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    home = tmp_path / "repository"
    (home / "sub").mkdir(parents=True)
    git(home, "init", "-q", "-b", "main")
    (home / "sub" / "step.py").write_text("old\n")
    git(home, "add", ".")
    git(home, "commit", "-qm", "the first")
    (home / "sub" / "step.py").write_text("new\n")
    git(home, "commit", "-qam", "the second")
    return home


def test_each_commit_has_its_files_at_the_place_of_the_current_directory(
    repository: Path, tmp_path: Path
) -> None:
    here = repository / "sub"
    with (
        checked_out("HEAD~1", tmp_path, here) as old,
        checked_out("main", tmp_path, here) as new,
        checked_out(".", tmp_path, here) as now,
    ):
        assert (old.cwd / "step.py").read_text() == "old\n"
        assert (new.cwd / "step.py").read_text() == "new\n"
        assert old.name.endswith(" the first")
        assert now.cwd == here
        assert len(git(repository, "worktree", "list").splitlines()) == 3
    assert len(git(repository, "worktree", "list").splitlines()) == 1
    assert not old.cwd.exists()
    assert here.exists()


def test_an_interrupt_leaves_no_worktree(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), checked_out("main", tmp_path, repository):
        raise KeyboardInterrupt
    assert len(git(repository, "worktree", "list").splitlines()) == 1


@pytest.mark.parametrize("commit", ["nowhere", "--all", ""])
def test_what_is_no_commit_is_refused(commit: str, repository: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a commit"), checked_out(commit, tmp_path, repository):
        pass


def test_one_commit_under_two_names_is_refused(repository: Path, tmp_path: Path) -> None:
    with (
        checked_out("HEAD", tmp_path, repository),
        pytest.raises(UsageError, match=r"--code main: both are .* the second"),
        checked_out("main", tmp_path, repository),
    ):
        pass
    assert len(git(repository, "worktree", "list").splitlines()) == 1


def test_a_directory_that_the_commit_lacks_and_one_without_git_are_refused(
    repository: Path, tmp_path: Path
) -> None:
    later = repository / "later"
    later.mkdir()
    with (
        pytest.raises(InputError, match="no directory later"),
        checked_out("main", tmp_path, later),
    ):
        pass
    with pytest.raises(UsageError, match="not in a git"), checked_out("main", tmp_path, tmp_path):
        pass


def test_the_path_of_a_function_is_one_that_each_checkout_has(tmp_path: Path) -> None:
    assert inside("step.py:f", tmp_path) == "step.py:f"
    assert inside(f"{tmp_path}/a/step.py:f", tmp_path) == "a/step.py:f"
    with pytest.raises(UsageError, match="not below"):
        inside("/elsewhere/step.py:f", tmp_path)
