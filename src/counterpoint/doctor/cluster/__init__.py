"""The doctor on all hosts: one process per host; rank 0 merges the results.

seat.py       the rank of this process, the number of ranks, and the directory that all ranks share
exchange.py   each rank leaves a HostReport there as JSON; rank 0 collects them in a Gathering
consult.py    this process's report, the merging of all reports, and one exit code for all ranks
hosts_differ.py, missing_ranks.py   the comparisons, documented like the checks (DOC6xx)
"""

from counterpoint.doctor.cluster.consult import CLUSTER_CHECKS as CLUSTER_CHECKS
from counterpoint.doctor.cluster.consult import exchange_and_report as exchange_and_report
from counterpoint.doctor.cluster.consult import merge_reports as merge_reports
from counterpoint.doctor.cluster.consult import report_of as report_of
from counterpoint.doctor.cluster.seat import PODS as PODS
from counterpoint.doctor.cluster.seat import exchange_directory as exchange_directory
from counterpoint.doctor.cluster.seat import find_ranks as find_ranks
