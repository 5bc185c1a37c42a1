"""Which rank of how many a process is, where no launcher says it."""

from __future__ import annotations

from pathlib import Path

import pytest

from checked_hosts import gpu_host
from counterpoint.core.errors import UsageError
from counterpoint.doctor.cluster.seat import find_seat, place_to_meet, seated

SLICE = {"TPU_WORKER_ID": "2", "TPU_WORKER_HOSTNAMES": "t0,t1,t2,t3"}
SLURM = {"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_STEP_ID": "0"}


@pytest.mark.parametrize(
    ("environ", "rank", "ranks", "expected"),
    [
        ({}, 3, 8, (3, 8)),
        ({"JOB_COMPLETION_INDEX": "5"}, None, 8, (5, 8)),
        ({"JOB_COMPLETION_INDEX": "5"}, 6, 8, (6, 8)),
        (SLICE, None, None, (2, 4)),
        ({**SLICE, "MEGASCALE_NUM_SLICES": "3", "MEGASCALE_SLICE_ID": "1"}, None, None, (6, 12)),
        (SLURM, None, None, (1, 2)),
        ({**SLURM, **SLICE}, None, None, (1, 2)),
        (SLURM, 3, 4, (3, 4)),
    ],
)
def test_what_is_told_counts_before_what_the_environment_says(
    environ: dict[str, str], rank: int | None, ranks: int | None, expected: tuple[int, int]
) -> None:
    world = find_seat(environ, rank, ranks)
    assert (world.seats[0].rank, world.size) == expected


@pytest.mark.parametrize(
    "environ", [{}, {"TPU_WORKER_ID": "0"}, {"TPU_WORKER_ID": "x", "TPU_WORKER_HOSTNAMES": "a,b"}]
)
def test_where_nothing_says_it_both_ways_are_named(environ: dict[str, str]) -> None:
    with pytest.raises(UsageError) as told:
        find_seat(environ, None, None)
    assert "srun" in (told.value.next or "")
    assert "--rank" in (told.value.why or "")


def test_an_indexed_job_does_not_say_how_many_there_are() -> None:
    with pytest.raises(UsageError, match="--ranks N is missing"):
        find_seat({"JOB_COMPLETION_INDEX": "0"}, None, None)


def test_pods_must_be_told_where_they_meet_and_steps_meet_where_they_start() -> None:
    pod = find_seat(SLICE, None, None)
    with pytest.raises(UsageError, match="--meet DIR is missing"):
        place_to_meet(None, pod)
    assert place_to_meet(Path("/shared"), pod) == Path("/shared")
    assert place_to_meet(None, find_seat(SLURM, None, None)) == Path()


def test_each_pod_counts_as_a_host() -> None:
    assert seated(gpu_host(hosts=1), find_seat(SLICE, None, None)).hosts == 4
    assert seated(gpu_host(hosts=1), find_seat(SLURM, None, None)).hosts == 1
