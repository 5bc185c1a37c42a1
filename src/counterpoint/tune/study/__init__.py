"""The state of a study, read from its journal, and the study directory."""

from counterpoint.tune.study.directory import JOURNAL as JOURNAL
from counterpoint.tune.study.directory import is_study as is_study
from counterpoint.tune.study.directory import plan_of as plan_of
from counterpoint.tune.study.directory import read_study as read_study
from counterpoint.tune.study.study import Study as Study
from counterpoint.tune.study.study import Trial as Trial
