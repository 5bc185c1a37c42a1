"""Outcomes: how a process or a run ended, from its exit status and its last lines."""

from counterpoint.runs.outcomes.outcome import KINDS_WITH_CAUSE as KINDS_WITH_CAUSE
from counterpoint.runs.outcomes.outcome import TIMED_OUT as TIMED_OUT
from counterpoint.runs.outcomes.outcome import classify as classify
from counterpoint.runs.outcomes.outcome import last_loss_is_nan as last_loss_is_nan
from counterpoint.runs.outcomes.outcome import outcome_of_ranks as outcome_of_ranks
