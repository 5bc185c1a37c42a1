"""Problems of a host, or differences between hosts, found before a run starts.

    /proc, /sys, environment, packages, nvidia-smi ── gather ──► HostFacts ── checks ──► results

All input is read in `gather`; each check is a pure function of HostFacts, in a file of its own.
comparison.py merges the reports of several hosts, and tells how they differ.
"""

from counterpoint.doctor import hosts_differ as hosts_differ
from counterpoint.doctor.comparison import compare as compare
from counterpoint.doctor.comparison import report_of as report_of
from counterpoint.doctor.result import Checkup as Checkup
from counterpoint.doctor.result import SharedResult as SharedResult
from counterpoint.doctor.result import Status as Status
from counterpoint.doctor.result import merge as merge
