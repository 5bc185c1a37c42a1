"""The three ways to feed a measured profile back to XLA, each as one piece of work.

    auto     AutoPGLE: JAX measures, recompiles, and keeps the result in its compilation cache
    manual   JAX's profiler measures a run; the next runs are compiled with the profile
    nsys     the same, measured by Nsight Systems, or from an export that exists already

Each is a list of phases that can be printed (`script`) or carried out, and ends in a result that
says what was proved: docs/guide/pgle.md.
"""
