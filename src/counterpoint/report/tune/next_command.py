"""The command that follows a study: continue, measure, use the winner, or look elsewhere."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from counterpoint.core.notebook import as_typed
from counterpoint.tune.conclusion import Conclusion, lacks_profile
from counterpoint.tune.plan import Budget
from counterpoint.tune.race import SPENT
from counterpoint.tune.study import Study, plan_of

_ASKED_FOR: Final = re.compile(r"(--budget|--confirm-rows|--cap) ('[^']*'|\d+)")
"""Options in the sentence of a conclusion that would decide it."""


def next_command(
    conclusion: Conclusion, study: Study, directory: Path, command: Sequence[str] = ()
) -> str:
    """Return the next command: continue, measure, use the winner, or look elsewhere.

    `command` is run if the study itself, a prediction, has no command.
    """
    place = shlex.quote(str(directory))
    shown_command = shlex.join(as_typed(study.began.command or command))
    if conclusion.state == "running":
        return f"watch -n 60 counterpoint tune show {place}"
    if (words := _words_on(conclusion, study)) is not None:
        return _again(study, words, place)
    return _of_one_that_is_done(conclusion, place, shown_command)


def _of_one_that_is_done(conclusion: Conclusion, place: str, behind: str) -> str:
    winner = conclusion.winner
    if winner is None:
        return f"counterpoint run --profile-start-step 5 -- {behind or 'python train.py'}"
    if conclusion.basis != "predicted":
        return f"counterpoint tune show {place} --as slurm -o job.sh"
    has_settings = bool(winner.settings.flags or winner.settings.variables)
    if not behind:  # no command is known that could be run
        helps = has_settings or not lacks_profile(winner)
        return f"counterpoint tune show {place} --as bash" if helps else "counterpoint pgle --help"
    if lacks_profile(winner):
        given = f"--settings {place}/best.env " if has_settings else ""
        return f"counterpoint pgle manual {given}--profile-start-step 5 -- {behind}"
    return f"counterpoint tune --arm {place}/best.env -- {behind}"


def _words_on(conclusion: Conclusion, study: Study) -> tuple[str, ...] | None:
    """Return the command that continues the study if it should be continued, else None."""
    if conclusion.state != "done" or not study.is_done:
        return study.began.words
    if conclusion.winner is not None and conclusion.confirmed:
        return None
    return _with_more(conclusion, study)


def _again(study: Study, words: Sequence[str], place: str) -> str:
    """Return the command that began or continues it, from the directory it was started in."""
    if not words:
        return f"less {place}/journal.jsonl"
    line = shlex.join(words)
    elsewhere = study.began.cwd and Path(study.began.cwd) != Path.cwd()
    return f"cd {shlex.quote(study.began.cwd)} && {line}" if elsewhere else line


def _with_more(conclusion: Conclusion, study: Study) -> tuple[str, ...] | None:
    """Return the command with the rows and the budget that would decide it; None without such."""
    asked = _ASKED_FOR.findall(conclusion.sentence)
    words, more = study.began.words, {option: value.strip("'") for option, value in asked}
    if study.ended is not None and study.ended.why == SPENT:
        more = {"--budget": _twice(plan_of(study).budget), **more}
    if not more or not words:
        return None
    end = words.index("--") if "--" in words else len(words)
    own, program = list(words[:end]), words[end:]
    for option in more:
        own = [
            word
            for before, word in pairwise(("", *own))
            if option not in (word, before) and not word.startswith(f"{option}=")
        ]
    return (*own, *(word for pair in more.items() for word in pair), *program)


def _twice(budget: Budget) -> str:
    parts = [f"{2 * budget.trials} trials"] if budget.trials is not None else []
    if budget.seconds is not None:
        parts.append(f"{math.ceil(2 * budget.seconds / 60)}m")
    return ", ".join(parts)


def resume_command(words: Sequence[str], directory: Path) -> tuple[str, ...]:
    """Return the command line of `tune` that continues the study, with its path added if absent."""
    at = words.index("--") if "--" in words else len(words)
    own = [word for word in words[:at] if word != "--json"]
    named = any(word in ("-o", "--out") or word.startswith(("-o=", "--out=")) for word in own)
    place = [] if named else ["-o", str(directory)]
    return ("counterpoint", *own, *place, *words[at:])
