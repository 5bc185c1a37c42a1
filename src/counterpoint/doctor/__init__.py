"""Doctor: what is wrong on this host, or across all hosts, before a run starts.

    /proc, /sys, environment, packages, nvidia-smi ── gather ──► Facts ── checks ──► Verdicts

All input is read in `gather`; each check is a pure function of Facts, in a file of its own.
`cluster` runs both in one process per host and merges the results.
"""

from counterpoint.doctor.examine import refuse_empty_selection as refuse_empty_selection
from counterpoint.doctor.examine import refuse_unknown_rules as refuse_unknown_rules
from counterpoint.doctor.examine import run_checks as run_checks
from counterpoint.doctor.examine import select_rules as select_rules
from counterpoint.doctor.result import Checkup as Checkup
from counterpoint.doctor.result import SharedResult as SharedResult
from counterpoint.doctor.result import Status as Status
from counterpoint.doctor.result import merge_results as merge_results
