"""One run of one arm: what it tells, how it failed, and whether it computed the same."""

from counterpoint.tune.trial.report import Failure as Failure
from counterpoint.tune.trial.steady import ENOUGH as ENOUGH
from counterpoint.tune.trial.steady import FEWEST as FEWEST
