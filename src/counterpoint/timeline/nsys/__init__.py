"""Readers of what NVIDIA Nsight Systems writes.

    database ─► work, launches, target ─► sqlite ─► Recording   `.sqlite`, `.nsys-rep`
    archive  ─► launches               ─► bundle ─► Recording   `nsys-jax`, `nsys-jax-combine`

XLA wraps the launch of each op and each module in an NVTX range whose text names it (`launches`).
That text is the only link from a kernel to HLO.
"""
