"""Statistics of runs; the unit of observation is the run, never the step.

estimate.py has the records, and how error rates are shared between looks and arms; fit.py estimates
the noise and the gains from the runs; alarms.py looks for signs that the measurements are doubtful.
"""

from counterpoint.tune.statistics.estimate import ArmVerdict as ArmVerdict
from counterpoint.tune.statistics.estimate import DecisionRule as DecisionRule
from counterpoint.tune.statistics.estimate import GainEstimate as GainEstimate
from counterpoint.tune.statistics.estimate import Observation as Observation
from counterpoint.tune.statistics.estimate import RunNoise as RunNoise
from counterpoint.tune.statistics.fit import confirmed as confirmed
from counterpoint.tune.statistics.fit import estimates as estimates
from counterpoint.tune.statistics.fit import noise as noise
