"""For tests of the workflows: the command line, and the workload that it starts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from command_line import Counterpoint, in_process
from xla_compiler import why_none

WORKLOAD = Path(__file__).parent / "gpu_workload.py"


@pytest.fixture(scope="session")
def counterpoint_in(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Counterpoint]:
    """Command lines that run in a given directory."""
    tools = tmp_path_factory.mktemp("tools")
    (tools / "nvidia-smi").write_text("#!/bin/sh\n")  # a sign of GPUs, which few machines have
    (tools / "nvidia-smi").chmod(0o755)

    def made(directory: Path) -> Counterpoint:
        def run(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
            ours = ("XLA_FLAGS", "JAX_PLATFORMS")  # programs choose the CPU themselves
            environment = {name: it for name, it in os.environ.items() if name not in ours}
            environment["PATH"] = f"{tools}:{environment['PATH']}"
            return in_process(*arguments, cwd=directory, environment={**environment, **variables})

        return run

    return made


@pytest.fixture
def counterpoint(counterpoint_in: Callable[[Path], Counterpoint], tmp_path: Path) -> Counterpoint:
    """Run a command line in an empty directory."""
    return counterpoint_in(tmp_path)


@pytest.fixture(scope="session")
def workload() -> list[str]:
    """The command that compiles for GPUs; skips where there is no compiler for them."""
    reason = why_none()
    if reason:
        pytest.skip(reason)
    return [sys.executable, str(WORKLOAD)]
