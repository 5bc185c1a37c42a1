"""The state of a study, the journal that it is read from, and the study directory.

records.py lists all that can happen to a study, study.py has the state that records add up to,
journal.py keeps them in a file whose lines lines.py writes, ledger.py adds a record to both, and
directory.py creates and opens a study.
"""

from counterpoint.tune.study.directory import JOURNAL as JOURNAL
from counterpoint.tune.study.directory import is_study as is_study
from counterpoint.tune.study.directory import plan_of as plan_of
from counterpoint.tune.study.directory import read_study as read_study
from counterpoint.tune.study.directory import step_path as step_path
from counterpoint.tune.study.journal import read_journal as read_journal
from counterpoint.tune.study.lines import line_of as line_of
from counterpoint.tune.study.records import Ablated as Ablated
from counterpoint.tune.study.study import NO_BUDGET as NO_BUDGET
from counterpoint.tune.study.study import Study as Study
from counterpoint.tune.study.study import Trial as Trial
