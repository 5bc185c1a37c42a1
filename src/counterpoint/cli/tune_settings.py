"""The settings of a study's arm as text: laid out as they were measured, and with what to know."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from counterpoint.flags.forms.lines import one_line
from counterpoint.tune.conclusion.beside import beside
from counterpoint.tune.conclusion.sentence import FAILURES

if TYPE_CHECKING:
    from counterpoint.flags import Settings
    from counterpoint.flags.catalogue import Release
    from counterpoint.flags.rendering import Form
    from counterpoint.tune.arm import Arm
    from counterpoint.tune.conclusion.conclusion import Conclusion
    from counterpoint.tune.study.study import Study

_BAD: Final = FAILURES | {"failed", "other numbers"}
_SHEBANG: Final = "#!"


def laid_out(told: Study, settings: Settings, form: Form) -> Settings:
    """For a job of Slurm: nodes and processes as they were measured."""
    from counterpoint.flags.layout import Layout
    from counterpoint.tune.study.plan_text import plan_of

    if form != "slurm" or settings.layout is not None or not told.trials:
        return settings
    shape = plan_of(told).shape
    ranks = shape.ranks_per_node or (1 if shape.per == "node" else None)
    return replace(settings, layout=Layout(hosts=shape.nodes, processes_per_host=ranks))


def release_of(told: Study) -> Release:
    """The jaxlib that the study ran with; of an older study without that, the one installed."""
    from counterpoint.flags.catalogue import release
    from counterpoint.flags.live.installed import chosen_release

    return release(told.jaxlib) if told.jaxlib is not None else chosen_release()


def headed(text: str, conclusion: Conclusion, study: Path, arm: Arm) -> str:
    """The text behind a comment that says where it is from."""
    won = conclusion.winner is not None and conclusion.winner.name == arm.name
    said = conclusion.sentence if won else f"the arm {arm.name}"
    state = "" if conclusion.state == "done" else f" ({conclusion.state}: not final)"
    found = (f"{said}{state}", f"counterpoint tune, {study}", *warnings(conclusion, arm))
    return _with_comment(text, found)


def warnings(conclusion: Conclusion, arm: Arm) -> list[str]:
    """What to know before these settings are used: the arm failed, say."""
    row = next((it for it in conclusion.rows if it.arm.name == arm.name), None)
    bad: list[str] = []
    if row is not None and row.status in _BAD:
        kind = "" if row.status == "failed" else f"{row.status}: "
        bad.append(f"{arm.name} failed: {kind}{row.why}")
    return [*bad, *beside(arm)]


def _with_comment(text: str, lines: Iterable[str]) -> str:
    """The text behind a comment, which all forms begin with `#`."""
    comment = "".join(f"# {one_line(line)}\n" for line in lines)
    first, end, rest = text.partition("\n")
    return f"{first}{end}{comment}{rest}" if first.startswith(_SHEBANG) else f"{comment}{text}"
