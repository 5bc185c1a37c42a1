"""Makes Workloads: of files that JAX or XLA wrote, of functions, and of finished runs.

Read workload.py first: it chooses the step among the candidates (candidates.py) in a run's files
(artifacts.py, bytecode.py). scheduled.py reads what the run's own compiler scheduled. function.py
lowers a function in this process, function_process.py one of a file in a child process.
"""
