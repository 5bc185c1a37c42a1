"""Doctor: what is wrong on this host, or across all hosts, before a run starts.

    /proc, /sys, environment, packages, nvidia-smi ── gather ──► Facts ── checks ──► Verdicts

All input is read in `gather`; each check is a pure function of Facts, in a file of its own.
`cluster` runs both in one process per host and merges the results.
"""

from counterpoint.doctor.diagnosis import Checkup as Checkup
from counterpoint.doctor.diagnosis import SharedVerdict as SharedVerdict
from counterpoint.doctor.diagnosis import Status as Status
from counterpoint.doctor.diagnosis import check_up as check_up
from counterpoint.doctor.examine import chosen as chosen
from counterpoint.doctor.examine import examine as examine
from counterpoint.doctor.examine import refuse_nothing as refuse_nothing
from counterpoint.doctor.examine import refuse_unknown as refuse_unknown
