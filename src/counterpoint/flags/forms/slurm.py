"""A job for sbatch: the layout as `#SBATCH` lines, exports, and srun with what is handed to it.

GPUs are asked for by the node: asked for by the task, Slurm shows each process its own GPUs only,
and NCCL falls back from NVLink where it can't see the others.
"""

from __future__ import annotations

from collections.abc import Iterator

from counterpoint.flags.forms.bash import exports
from counterpoint.flags.forms.lines import remarks
from counterpoint.flags.layout import Layout
from counterpoint.flags.settings import Settings


def render_slurm(settings: Settings) -> str:
    """The job: `sbatch job.sh python train.py`."""
    lines = ["#!/bin/bash", *_options(settings.layout or Layout()), ""]
    lines += [f"# {remark}" for remark in remarks(settings, layout=True)]
    return "\n".join([*lines, *exports(settings), "", 'srun "$@"', ""])


def _options(layout: Layout) -> Iterator[str]:
    tasks, gpus = layout.processes_per_host, layout.gpus_per_process
    if layout.hosts is not None:
        yield f"#SBATCH --nodes={layout.hosts}"
    if tasks is not None:
        yield f"#SBATCH --ntasks-per-node={tasks}"
    if gpus is not None and tasks is not None:
        yield f"#SBATCH --gpus-per-node={gpus * tasks}"
    elif gpus is not None:
        yield f"#SBATCH --gpus-per-task={gpus}"
    if layout.cpus_per_process is not None:
        yield f"#SBATCH --cpus-per-task={layout.cpus_per_process}"
