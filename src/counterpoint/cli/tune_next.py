"""The last line of a study's report: what to do with it, as it is to be typed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from counterpoint.tune.conclusion.beside import lacks_profile

if TYPE_CHECKING:
    from counterpoint.tune.conclusion.conclusion import Conclusion
    from counterpoint.tune.study.study import Study


def next_command(
    conclusion: Conclusion, told: Study, study: Path, command: Sequence[str] = ()
) -> str:
    """Go on with it, measure it, use it, or look elsewhere.

    `command` is what is run where the study itself, a prediction, knows of none.
    """
    place = shlex.quote(str(study))
    behind = shlex.join(told.began.command or command) or "python train.py"
    if conclusion.state == "running":
        return f"counterpoint tune show {place}"
    if conclusion.state != "done":
        return _again(told, place)
    winner = conclusion.winner
    if winner is None:
        return f"counterpoint run --profile-start-step 5 -- {behind}"
    if conclusion.basis != "predicted":
        return f"counterpoint tune show {place} --as slurm -o job.sh"
    if lacks_profile(winner):
        given = f"--settings {place}/best.env --profile-start-step 5"
        return f"counterpoint pgle manual {given} -- {behind}"
    return f"counterpoint tune --arm {place}/best.env -- {behind}"


def _again(told: Study, place: str) -> str:
    """The command that began it, from where that was."""
    if not told.began.words:
        return f"the command that began it, with -o {place}: it goes on from here"
    line = shlex.join(told.began.words)
    elsewhere = told.began.cwd and Path(told.began.cwd) != Path.cwd()
    return f"cd {shlex.quote(told.began.cwd)} && {line}" if elsewhere else line


def words_again(words: Sequence[str], study: Path) -> tuple[str, ...]:
    """A command line of `tune` that goes on with the study; where it names none, one is named."""
    at = words.index("--") if "--" in words else len(words)
    own = [it for it in words[:at] if it != "--json"]
    named = any(it in ("-o", "--out") or it.startswith(("-o=", "--out=")) for it in own)
    place = [] if named else ["-o", str(study)]
    return ("counterpoint", *own, *place, *words[at:])
