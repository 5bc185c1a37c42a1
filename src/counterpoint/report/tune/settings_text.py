"""The settings of an arm as text, under a comment that tells where they come from."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from counterpoint.core import InputError, UsageError
from counterpoint.flags.catalogue.flag import Release
from counterpoint.flags.catalogue.lookup import release
from counterpoint.flags.forms import SettingsForm, one_line, render
from counterpoint.flags.jaxlib import chosen_release
from counterpoint.flags.settings import Layout, Settings
from counterpoint.tune.arm import Arm
from counterpoint.tune.conclusion import FAILURES, Conclusion, settings_caveats
from counterpoint.tune.study import Study, plan_of

_BAD: Final = FAILURES | {"failed", "other numbers"}
_SHEBANG: Final = "#!"


def laid_out(study: Study, settings: Settings, form: SettingsForm) -> Settings:
    """Return the settings, for a Slurm job with the measured nodes and processes."""
    if form != "slurm" or settings.layout is not None or not study.trials:
        return settings
    shape = plan_of(study).shape
    ranks = shape.ranks_per_node or (1 if shape.per == "node" else None)
    return replace(settings, layout=Layout(hosts=shape.nodes, processes_per_host=ranks))


def release_of(study: Study) -> Release:
    """Return the study's jaxlib; for old studies that lack it, the installed one."""
    return release(study.jaxlib) if study.jaxlib is not None else chosen_release()


def headed(text: str, conclusion: Conclusion, directory: Path, arm: Arm) -> str:
    """Return the text after a comment with its origin."""
    won = conclusion.winner is not None and conclusion.winner.name == arm.name
    origin = conclusion.sentence if won else f"the arm {arm.name}"
    state = "" if conclusion.state == "done" else f" ({conclusion.state}: not final)"
    comment = (f"{origin}{state}", f"counterpoint tune, {directory}", *warnings(conclusion, arm))
    return _with_comment(text, comment)


def warnings(conclusion: Conclusion, arm: Arm) -> list[str]:
    """Return what to know before using these settings, such as that the arm failed."""
    row = next((candidate for candidate in conclusion.rows if candidate.arm.name == arm.name), None)
    bad: list[str] = []
    if row is not None and row.status in _BAD:
        kind = "" if row.status == "failed" else f"{row.status}: "
        bad.append(f"{arm.name} failed: {kind}{row.why}")
    return [*bad, *settings_caveats(arm)]


def _with_comment(text: str, lines: Iterable[str]) -> str:
    """Return the text after a comment, which starts with `#` in all forms."""
    comment = "".join(f"# {one_line(line)}\n" for line in lines)
    first, end, rest = text.partition("\n")
    return f"{first}{end}{comment}{rest}" if first.startswith(_SHEBANG) else f"{comment}{text}"


def settings_text(
    study: Study, conclusion: Conclusion, directory: Path, arm: Arm, form: SettingsForm
) -> tuple[Settings, str]:
    """Return an arm's settings as this form has them, and their text with its origin."""
    settings = laid_out(study, arm.settings, form)
    return settings, headed(render(settings, form, release_of(study)), conclusion, directory, arm)


def chosen_arm(conclusion: Conclusion, directory: Path, name: str | None) -> Arm:
    """Return the arm of this name, which may be shortened; without one, the winner."""
    if name is None:
        if conclusion.winner is not None:
            return conclusion.winner
        raise InputError(
            f"{directory} has no winner{'' if conclusion.state == 'done' else ' yet'}",
            why=conclusion.sentence,
            next=f"counterpoint tune show {shlex.quote(str(directory))}",
        )
    arms = {row.arm.name: row.arm for row in conclusion.rows}
    # A line of progress shortens a name in the middle.
    pattern = ".+".join(map(re.escape, name.split("\N{HORIZONTAL ELLIPSIS}")))
    names = [name] if name in arms else [it for it in arms if re.fullmatch(pattern, it)]
    if len(names) != 1:
        what = "matches several arms of the study" if names else "no arm of the study has this name"
        raise UsageError(
            f"--arm {name}: {what}", why=f"its arms are {', '.join(names or arms) or 'none yet'}"
        )
    return arms[names[0]]
