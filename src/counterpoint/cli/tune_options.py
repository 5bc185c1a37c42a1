"""How the options of `tune` are written on the command line: their panels in the help."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from cyclopts import Group, Parameter

from counterpoint.tune.executors.choose import EXECUTORS, NO_OPTIONS, ExecutorOptions
from counterpoint.tune.executors.executor import TrialLimits
from counterpoint.tune.options import PlaceOptions, RaceOptions, TriedOptions

TRIED = Group("Settings to try", sort_key=1)
PREDICTED = Group("Prediction (with --target)", sort_key=2)
MEASURED = Group("Measurement (with a command)", sort_key=3)
PLACE = Group("Where trials run", sort_key=4)

if TYPE_CHECKING:
    ExecutorName = str
else:
    ExecutorName = Literal[tuple(kind.name for kind in EXECUTORS)]
EXECUTOR_HELP = (
    f"{'; '.join(f'{kind.name}: {kind.summary}' for kind in EXECUTORS)}. The default is what the"
    " environment suggests (a Slurm job, or a Ray cluster's address), otherwise this machine."
)

in_race = Parameter(name="*", group=MEASURED, allow_leading_hyphen=True)
in_search = Parameter(name="*", group=PREDICTED)
Parameter(name="*", group=TRIED, allow_leading_hyphen=True)(TriedOptions)  # --arm --xla_a=1
in_race(RaceOptions)  # -5% is a value that is refused, and no option
in_race(TrialLimits)
for group in (ExecutorOptions, *map(type, NO_OPTIONS.groups)):
    Parameter(name="*", allow_leading_hyphen=True)(group)
Parameter(name="*", group=PLACE)(PlaceOptions)
