"""One run of one arm: its results, its failure if any, and a check that it computed the same.

report.py has the results; measure.py evaluates a Run, and asks runs/steady.py (its step time),
failures.py (why it has none), applied_settings.py (whether the arm's settings took effect) and
capture/losses.py. loss_check.py compares the losses of an arm with the base's.
"""

from counterpoint.tune.trial.report import TrialFailure as TrialFailure
