"""Readers of what NVIDIA Nsight Systems writes.

    database ─► activities, launches       ─► sqlite ─► Recording     `nsys export --type sqlite`
    archive  ─► projection, bundle_*       ─► bundle ─► Recording     `nsys-jax`, `nsys-jax-combine`
    report   ─► sqlite                                                `.nsys-rep`

XLA wraps the launch of each op and each module in an NVTX range whose text names it
(`annotations`). That text is the only link from a kernel to HLO.
"""

from counterpoint.timeline.nsys.bundle import is_nsys_jax as is_nsys_jax
from counterpoint.timeline.nsys.bundle import read_nsys_jax as read_nsys_jax
from counterpoint.timeline.nsys.bundle import read_nsys_jax_ranks as read_nsys_jax_ranks
from counterpoint.timeline.nsys.database import is_sqlite as is_sqlite
from counterpoint.timeline.nsys.sqlite import read_nsys_rep as read_nsys_rep
from counterpoint.timeline.nsys.sqlite import read_sqlite as read_sqlite
