"""Executors: the places where trials run: this machine, Slurm, a Ray cluster, or Kubernetes.

Read executor.py first, the contract of all of them, and choose.py, which lists them. local.py is
the simplest: `executor.rank_command` builds the command it runs, process_supervisor.py ensures that
no process of it survives, exit_report.py reports how it ended. slurm.py (steps), slurm_batch.py
(jobs) and slurm_control.py (the controller) follow, then ray.py, ray_gang.py and ray_node.py, and
kubernetes.py, kubernetes_template.py, kubernetes_cluster.py and kubernetes_gang.py.
"""

from counterpoint.tune.executors.choose import EXECUTORS as EXECUTORS
from counterpoint.tune.executors.choose import ExecutorOptions as ExecutorOptions
from counterpoint.tune.executors.choose import executor_kind as executor_kind
from counterpoint.tune.executors.choose import runs_here as runs_here
from counterpoint.tune.executors.executor import ProcessShape as ProcessShape
from counterpoint.tune.executors.executor import TrialLimits as TrialLimits
