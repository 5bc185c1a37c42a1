"""A shell script or a Slurm job as Written."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from counterpoint.flags.sources.launcher import Asked, slurm_options, together
from counterpoint.flags.sources.shell_script import follow, follow_words
from counterpoint.flags.sources.state import State
from counterpoint.flags.sources.traced import Budget, Traced
from counterpoint.flags.sources.variables import other_programs, write_up
from counterpoint.flags.written import Written

_SBATCH: Final = re.compile(r"^#SBATCH[ \t]+([^\n]*)", re.MULTILINE)


def read_shell(
    text: str,
    where: str,
    *,
    line: int = 1,
    before: Mapping[str, Traced] | None = None,
    whole: bool = False,
    budget: Budget | None = None,
) -> Written:
    """What programs started by the script are given. `before`: the environment it finds."""
    state = follow(text, where, line=line, before=before, whole=whole, budget=budget)
    return _written(state, where, _job(text))


def read_words(
    words: Sequence[str], where: str, before: Mapping[str, Traced], script: tuple[str, str] | None
) -> Written:
    """A command in words, and the shell script (name and text) that it starts."""
    state = follow_words(words, where, before)
    if script is None:
        return _written(state, where, Asked())
    name, text = script
    given = {one.name: one.value for one in state.assigned()}
    outer = _written(state, where, Asked())
    inner = read_shell(text, name, before=given, whole=True)
    return replace(
        inner,
        given=(*inner.given, *state.options),
        slips=(*state.slips, *inner.slips),
        layout=inner.layout or outer.layout,
        notes=(*outer.notes, *inner.notes),
        unread=(*outer.unread, *inner.unread),
    )


def _written(state: State, where: str, job: Asked) -> Written:
    found = write_up(state.assigned(), where)
    state.finish()
    asked = together(job, state.asked)
    form = "slurm" if job.numbers else "shell"
    slips = sorted([*state.slips, *found.slips], key=lambda slip: slip.place.line or 0)
    return Written(
        where=where,
        form=form,
        given=(*found.given, *state.options),
        slips=tuple(slips),
        layout=asked.layout(),
        notes=tuple(state.notes),
        unread=tuple(state.unread),
        inherited=tuple(dict.fromkeys(found.inherited)),
        others=other_programs(state.superseded, where, form),
    )


def _job(text: str) -> Asked:
    """The options behind `#SBATCH`."""
    asked = Asked()
    for match in _SBATCH.finditer(text):
        try:
            words = shlex.split(match[1], comments=True)
        except ValueError:
            words = match[1].split()
        asked = together(asked, slurm_options(words))
    return asked
