"""Trials on a real Slurm: steps of an allocation of ours, or of one around us; batch jobs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from typing import ClassVar

import pytest

from counterpoint.tune.executors.executor import ProcessShape
from slurm_cluster import SlurmCluster
from tune.executors.contract import SOON, Contract, FreshContract, PlacementContract

pytestmark = pytest.mark.system

CONSTRUCT = """
from counterpoint.tune.executors.choose import NO_OPTIONS, ExecutorOptions, choose_executor
from counterpoint.tune.executors.executor import ProcessShape
from counterpoint.tune.executors.process_supervisor import EndingTimes
from counterpoint.tune.executors.slurm_control import SlurmOptions
executor = choose_executor({name!r}, ProcessShape(nodes=2), {options}, ending={ending})
"""


@pytest.fixture(scope="class", autouse=True)
def environment(running_slurm: SlurmCluster) -> Iterator[None]:
    """For all of a class: its allocation outlives its tests."""
    running_slurm.make_idle()
    with pytest.MonkeyPatch.context() as patch:
        for name, text in running_slurm.variables.items():
            patch.setenv(name, text)
        yield


class OnSlurm(PlacementContract):
    two = ProcessShape(nodes=2)
    other = (ProcessShape(nodes=2, ranks_per_node=2), 4)
    node = "os.environ['SLURMD_NODENAME']"


class TestStepsOfOurAllocation(OnSlurm, Contract, FreshContract):
    construct: ClassVar[str] = CONSTRUCT.format(
        name="slurm", options="ExecutorOptions(slurm=SlurmOptions('--time=60'))", ending=SOON
    )


class TestBatchJobs(OnSlurm, FreshContract):
    construct: ClassVar[str] = CONSTRUCT.format(
        name="slurm-batch", options="ExecutorOptions(slurm=SlurmOptions('--time=60'))", ending=SOON
    )


class TestStepsOfTheAllocationAroundUs(OnSlurm, FreshContract):
    construct: ClassVar[str] = CONSTRUCT.format(name=None, options="NO_OPTIONS", ending=SOON)

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def around(cls, environment: None, running_slurm: SlurmCluster) -> Iterator[None]:
        del environment
        command = ("salloc", "--no-shell", "--nodes=3", "--exclusive", "--job-name=around")
        subprocess.run(command, check=True, capture_output=True)
        (job,) = running_slurm.ask("squeue", "-h", "-n", "around", "-o", "%i").split()
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SLURM_JOB_ID", job)
            patch.setenv("SLURM_NTASKS", "17")  # of the batch script, and nothing to us
            patch.setenv("SLURM_MEM_PER_CPU", "10")
            yield
        assert running_slurm.jobs() == [job]  # it is not ours to end
        assert "SLURM_JOB_ID" not in os.environ
