"""The race of all arms of a study."""

from counterpoint.tune.race.budget import StudyCost as StudyCost
from counterpoint.tune.race.race import DECIDED as DECIDED
from counterpoint.tune.race.race import SPENT as SPENT
