"""The rank of a process and the number of ranks, also without a launcher."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpoint.core.errors import UsageError
from counterpoint.doctor.cluster import exchange_directory, find_ranks

SLICE = {"TPU_WORKER_ID": "2", "TPU_WORKER_HOSTNAMES": "t0,t1,t2,t3"}
SLURM = {"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_STEP_ID": "0"}


@pytest.mark.parametrize(
    ("environ", "rank", "ranks", "expected"),
    [
        ({}, 3, 8, (3, 8)),
        ({"JOB_COMPLETION_INDEX": "5"}, None, 8, (5, 8)),
        ({"JOB_COMPLETION_INDEX": "5"}, 6, 8, (6, 8)),
        ({"JOB_COMPLETION_INDEX": "5", "NNODES": "8"}, None, None, (5, 8)),
        (SLICE, None, None, (2, 4)),
        ({**SLICE, "MEGASCALE_NUM_SLICES": "3", "MEGASCALE_SLICE_ID": "1"}, None, None, (6, 12)),
        (SLURM, None, None, (1, 2)),
        ({**SLURM, **SLICE}, None, None, (1, 2)),
        (SLURM, 3, 4, (3, 4)),
    ],
)
def test_options_count_before_the_environment(
    environ: dict[str, str], rank: int | None, ranks: int | None, expected: tuple[int, int]
) -> None:
    world = find_ranks(environ, rank, ranks)
    assert (world.seats[0].rank, world.size) == expected


@pytest.mark.parametrize("environ", [{}, {"TPU_WORKER_ID": "0"}])
def test_without_any_numbers_both_ways_are_named(environ: dict[str, str]) -> None:
    with pytest.raises(UsageError) as refused:
        find_ranks(environ, None, None)
    assert "srun" in str(refused.value.next)
    assert "`rank=`" in (refused.value.why or "")


def test_an_indexed_job_does_not_know_the_number_of_ranks() -> None:
    with pytest.raises(UsageError, match="`ranks=N` is missing"):
        find_ranks({"JOB_COMPLETION_INDEX": "0"}, None, None)


def test_pods_need_a_directory_and_steps_take_the_one_they_start_in() -> None:
    pod = find_ranks(SLICE, None, None)
    with pytest.raises(UsageError, match="`meet=DIR` is missing"):
        exchange_directory(None, pod)
    assert exchange_directory(Path("/shared"), pod) == Path("/shared/.counterpoint-doctor-pods-4")
    step = find_ranks({**SLURM, "SLURM_JOB_ID": "17"}, None, None)
    assert exchange_directory(None, step) == Path(".counterpoint-doctor-slurm-17.0")
    again = find_ranks({**SLURM, "SLURM_JOB_ID": "17", "SLURM_RESTART_COUNT": "2"}, None, None)
    assert exchange_directory(None, again) == Path(".counterpoint-doctor-slurm-17.0-restart2")
