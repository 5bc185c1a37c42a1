"""Executors: the places where trials run, which are this machine, Slurm or a Ray cluster.

Read executor.py first, the contract of all of them, and choose.py, which selects one. local.py is
the simplest: `executor.rank_command` builds the command it runs, process_supervisor.py ensures that
no process of it survives, exit_report.py reports how it ended. slurm.py (steps), slurm_batch.py
(jobs) and slurm_control.py (the controller) follow, then the modules of Ray.
"""

from counterpoint.tune.executors.choose import nodes_around as nodes_around
from counterpoint.tune.executors.executor import ProcessShape as ProcessShape
from counterpoint.tune.executors.executor import TrialLimits as TrialLimits
