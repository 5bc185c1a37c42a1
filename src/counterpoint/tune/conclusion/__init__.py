"""The conclusion of a study: the verdict in one sentence, a row for each arm, and caveats.

Read conclusion.py first, which has the records, then conclude.py, which fills them in: from
results.py (what the measurements show), caveats.py, and sentence.py (the verdict in words).
"""

from counterpoint.tune.conclusion.caveats import lacks_profile as lacks_profile
from counterpoint.tune.conclusion.caveats import settings_caveats as settings_caveats
from counterpoint.tune.conclusion.conclude import BY_USER as BY_USER
from counterpoint.tune.conclusion.conclude import conclude as conclude
from counterpoint.tune.conclusion.conclusion import NOT_LOOKED_AT as NOT_LOOKED_AT
from counterpoint.tune.conclusion.conclusion import NOT_PREDICTABLE as NOT_PREDICTABLE
from counterpoint.tune.conclusion.conclusion import NOT_TRIED as NOT_TRIED
from counterpoint.tune.conclusion.conclusion import WORTH_A_TRIAL as WORTH_A_TRIAL
from counterpoint.tune.conclusion.conclusion import ArmRow as ArmRow
from counterpoint.tune.conclusion.conclusion import Conclusion as Conclusion
from counterpoint.tune.conclusion.conclusion import Spent as Spent
from counterpoint.tune.conclusion.sentence import FAILURES as FAILURES
