"""Remedies: the settings that `explain` recommends for losses in the base's predicted step.

They are tried before anything else, the largest loss first, as a reader of the report would.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from counterpoint.diagnose import Finding
from counterpoint.flags import Settings
from counterpoint.flags.lines import write_line
from counterpoint.tune.arm import Acts, Arm, ArmChange, ArmOrigin
from counterpoint.tune.search.grid import Grid
from counterpoint.tune.space.dimensions import builtin_dimensions
from counterpoint.tune.space.space import distinct, same_as


def remedies(findings: Iterable[Finding], grid: Grid) -> Iterator[Arm]:
    """Yield an arm for each remedy; if the space already offers it, that arm."""
    yield from distinct(grid.space.base, _arms(findings, grid))


def _arms(findings: Iterable[Finding], grid: Grid) -> Iterator[Arm]:
    base = grid.space.base
    points = (point for point in grid.singles() if grid.why_not(point) is None)
    offered = (*grid.space.seeds, *(grid.arm(point, ArmOrigin.SPACE) for point in points))
    for finding in findings:
        settings = Settings(finding.remedy.flags, finding.remedy.environment)
        whole = base.merged(settings)
        if (whole.flags, whole.variables) == (base.flags, base.variables):
            continue
        name = write_line(settings)
        acts = Acts.SCHEDULE if settings.xla else Acts.RUNTIME
        change = ArmChange(dimension=name, choice="on", settings=settings, acts=acts)
        arm = Arm(name=name, settings=whole, changes=(change,), origin=ArmOrigin.REMEDY)
        same = same_as(base, arm, offered)
        if same is not None:
            yield same
        elif not _is_left_out(settings, grid):
            yield arm


def _is_left_out(settings: Settings, grid: Grid) -> bool:
    """Return whether its dimension is not in this space: inapplicable, or dropped by the user."""
    names = {dimension.name for dimension in grid.space.dimensions}
    return any(
        name not in names and not settings.flags.keys().isdisjoint(pick.settings.flags)
        for name, draft in builtin_dimensions().drafts.items()
        for picks in draft.choices.values()
        for pick in picks
    )
