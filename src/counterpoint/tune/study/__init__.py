"""A study as its journal tells it, and the directory that it lies in."""

from counterpoint.tune.study.directory import JOURNAL as JOURNAL
from counterpoint.tune.study.directory import is_study as is_study
from counterpoint.tune.study.directory import plan_of as plan_of
from counterpoint.tune.study.directory import read_study as read_study
from counterpoint.tune.study.study import Study as Study
from counterpoint.tune.study.study import Trial as Trial
