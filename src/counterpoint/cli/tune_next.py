"""The last line of a study's report: what to do with it, as it is to be typed."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from counterpoint.tune.conclusion.beside import lacks_profile
from counterpoint.tune.online.race import SPENT
from counterpoint.tune.study.plan_text import plan_of

if TYPE_CHECKING:
    from counterpoint.tune.conclusion.conclusion import Conclusion
    from counterpoint.tune.plan import Budget
    from counterpoint.tune.study.study import Study


def next_command(
    conclusion: Conclusion, told: Study, study: Path, command: Sequence[str] = ()
) -> str:
    """Go on with it, measure it, use it, or look elsewhere.

    `command` is what is run where the study itself, a prediction, knows of none.
    """
    place = shlex.quote(str(study))
    behind = shlex.join(told.began.command or command)
    if conclusion.state == "running":
        return f"watch -n 60 counterpoint tune show {place}"
    if (words := _words_on(conclusion, told)) is not None:
        return _again(told, words, place)
    return _of_one_that_is_done(conclusion, place, behind)


def _of_one_that_is_done(conclusion: Conclusion, place: str, behind: str) -> str:
    winner = conclusion.winner
    if winner is None:
        return f"counterpoint run --profile-start-step 5 -- {behind or 'python train.py'}"
    if conclusion.basis != "predicted":
        return f"counterpoint tune show {place} --as slurm -o job.sh"
    has_settings = bool(winner.settings.flags or winner.settings.variables)
    if not behind:  # nothing can be run that nobody named
        helps = has_settings or not lacks_profile(winner)
        return f"counterpoint tune show {place} --as bash" if helps else "counterpoint pgle --help"
    if lacks_profile(winner):
        given = f"--settings {place}/best.env " if has_settings else ""
        return f"counterpoint pgle manual {given}--profile-start-step 5 -- {behind}"
    return f"counterpoint tune --arm {place}/best.env -- {behind}"


def _words_on(conclusion: Conclusion, told: Study) -> tuple[str, ...] | None:
    """The command that goes on with the study, where that is what to do; else None."""
    if conclusion.state != "done" or not told.is_done:
        return told.began.words
    if conclusion.winner is not None and conclusion.confirmed:
        return None
    return _with_more(conclusion, told)


def _again(told: Study, words: Sequence[str], place: str) -> str:
    """The command that began it, or goes on with it, from where that was."""
    if not words:
        return f"less {place}/journal.jsonl"
    line = shlex.join(words)
    elsewhere = told.began.cwd and Path(told.began.cwd) != Path.cwd()
    return f"cd {shlex.quote(told.began.cwd)} && {line}" if elsewhere else line


def _with_more(conclusion: Conclusion, told: Study) -> tuple[str, ...] | None:
    """The command with a larger budget, where a spent one ended it; else None."""
    words = told.began.words
    at = next((at for at, it in enumerate(words) if it.startswith("--budget")), None)
    if told.ended is None or told.ended.why != SPENT or at is None or "--" in words[:at]:
        return None
    asked = re.search(r"--budget '([^']+)'", conclusion.sentence)
    budget = asked[1] if asked else _twice(plan_of(told).budget)
    behind = at + (1 if "=" in words[at] else 2)
    return (*words[:at], "--budget", budget, *words[behind:])


def _twice(budget: Budget) -> str:
    parts = [f"{2 * budget.trials} trials"] if budget.trials is not None else []
    if budget.seconds is not None:
        parts.append(f"{math.ceil(2 * budget.seconds / 60)}m")
    return ", ".join(parts)


def words_again(words: Sequence[str], study: Path) -> tuple[str, ...]:
    """A command line of `tune` that goes on with the study; where it names none, one is named."""
    at = words.index("--") if "--" in words else len(words)
    own = [it for it in words[:at] if it != "--json"]
    named = any(it in ("-o", "--out") or it.startswith(("-o=", "--out=")) for it in own)
    place = [] if named else ["-o", str(study)]
    return ("counterpoint", *own, *place, *words[at:])
