"""The doctor on all hosts: one process per host; rank 0 merges the results.

exchange.py   finds the rank of this process, the number of ranks, and the directory that all ranks
              share; each rank leaves its report there as JSON; rank 0 merges them, prints, and sets
              one exit code for all ranks
hosts_differ.py, missing_ranks.py   checks of all reports, documented like the others (DOC6xx)
"""

from counterpoint.doctor.cluster.exchange import CLUSTER_CHECKS as CLUSTER_CHECKS
from counterpoint.doctor.cluster.exchange import PODS as PODS
from counterpoint.doctor.cluster.exchange import exchange_and_report as exchange_and_report
from counterpoint.doctor.cluster.exchange import exchange_directory as exchange_directory
from counterpoint.doctor.cluster.exchange import find_ranks as find_ranks
from counterpoint.doctor.cluster.exchange import merge_reports as merge_reports
from counterpoint.doctor.cluster.exchange import report_of as report_of
