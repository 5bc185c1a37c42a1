"""Real compilers without their devices, XLA:GPU and libtpu, in worker processes that may crash.

`inputs` makes Workloads. Read compiler.py first: it compiles one task (task.py) in a worker
(worker_slot.py, worker_process.py); pool.py compiles many at once, as many as capacity.py allows.
channels.py passes options, allocator.py and assumptions.py match a run, workarounds.py retries,
cache.py stores results, notes.py and failures.py tell what happened. worker.py and xla_session.py
run in the worker, a process of this Python or of an Interpreter that has another JAX; job.py is
what both sides share.
"""
