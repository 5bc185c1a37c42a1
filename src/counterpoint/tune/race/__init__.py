"""The race: trials of all arms of a study, row after row, until it is clear which are faster.

Read moves.py (all that can happen next), race.py (which of them does), and tuner.py, which carries
it out. race.py asks state.py, which has what follows from the records so far, and the modules that
each know one reason for a move: faults.py (a failed trial), drop_rules.py (an arm is decided),
budget.py (what is affordable) and combinations.py (arms that are each faster). tuner.py makes its
jobs with jobs.py, and first ends what an earlier tuner left behind (leftovers.py).
"""

from counterpoint.tune.race.budget import StudyCost as StudyCost
from counterpoint.tune.race.race import DECIDED as DECIDED
from counterpoint.tune.race.race import SPENT as SPENT
