"""The real XLA:GPU compiler without a GPU, in worker processes: Workload x options x Target."""

from counterpoint.compile.compiler import Compiled as Compiled
from counterpoint.compile.compiler import Memory as Memory
from counterpoint.compile.compiler import compile_workload as compile_workload
from counterpoint.compile.failures import CompileFailed as CompileFailed
from counterpoint.compile.installed import require_compiler as require_compiler
from counterpoint.compile.options import ForPrediction as ForPrediction
from counterpoint.compile.options import for_prediction as for_prediction
from counterpoint.compile.task import TIMEOUT_S as TIMEOUT_S
from counterpoint.compile.task import Task as Task
from counterpoint.compile.workers.pool import Pool as Pool
from counterpoint.compile.workers.pool import Result as Result
from counterpoint.compile.workers.pool import compile_all as compile_all
from counterpoint.compile.workload import Workload as Workload
from counterpoint.compile.workload import load_workload as load_workload
from counterpoint.compile.workload import own_programs as own_programs
from counterpoint.compile.workload import own_target as own_target
from counterpoint.hardware.target import Target as Target
from counterpoint.hardware.target_text import parse_target as parse_target
