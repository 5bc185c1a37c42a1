"""One run of one arm: its results, its failure if any, and a check that it computed the same."""

from counterpoint.tune.trial.report import TrialFailure as TrialFailure
from counterpoint.tune.trial.steady import ENOUGH as ENOUGH
from counterpoint.tune.trial.steady import FEWEST as FEWEST
from counterpoint.tune.trial.steady import levels_of_runs as levels_of_runs
