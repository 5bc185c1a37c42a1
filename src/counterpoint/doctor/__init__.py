"""Problems of this host, or of all hosts, found before a run starts.

    /proc, /sys, environment, packages, nvidia-smi ── gather ──► HostFacts ── checks ──► results

All input is read in `gather`; each check is a pure function of HostFacts, in a file of its own.
`cluster` runs both in one process per host and merges the results.
"""

from counterpoint.doctor.result import Checkup as Checkup
from counterpoint.doctor.result import SharedResult as SharedResult
from counterpoint.doctor.result import Status as Status
from counterpoint.doctor.result import merge_results as merge_results
