"""Statistics of runs; the unit of observation is the run, never the step."""

from counterpoint.tune.statistics.estimate import Estimate as Estimate
from counterpoint.tune.statistics.estimate import Noise as Noise
from counterpoint.tune.statistics.estimate import Observation as Observation
from counterpoint.tune.statistics.estimate import Rule as Rule
from counterpoint.tune.statistics.fit import confirmed as confirmed
from counterpoint.tune.statistics.fit import estimates as estimates
from counterpoint.tune.statistics.fit import noise as noise
