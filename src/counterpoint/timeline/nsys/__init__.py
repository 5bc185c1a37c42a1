"""Readers of what NVIDIA Nsight Systems writes.

    database ─► activities, launches       ─► sqlite ─► Recording     `nsys export --type sqlite`
    archive  ─► projection, bundle_*       ─► bundle ─► Recording     `nsys-jax`, `nsys-jax-combine`
    report   ─► sqlite                                                `.nsys-rep`

XLA wraps the launch of each op and each module in an NVTX range whose text names it
(`annotations`). That text is the only link from a kernel to HLO.
"""
