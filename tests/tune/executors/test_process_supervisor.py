"""The process around a command of a trial."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid

import pytest

from counterpoint.tune.executors.process_supervisor import supervised
from tune.executors.contract import MARK, alive, wait_until

NEVER = (sys.executable, "-c", "import time; time.sleep(3600)")


def test_signals_that_whoever_starts_it_has_blocked_reach_the_command() -> None:
    """As below a worker of Ray, which blocks SIGINT."""
    command = supervised(("grep", "SigBlk", "/proc/self/status"))
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        made = subprocess.run(command, capture_output=True, text=True, check=True)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    assert int(made.stdout.split()[1], 16) == 0


@pytest.mark.smoke
@pytest.mark.system
def test_it_ends_with_whoever_started_it() -> None:
    """As below a slurmstepd that is killed."""
    mark = uuid.uuid4().hex
    program = f"import subprocess; subprocess.run({supervised(NEVER)!r})"
    parent = subprocess.Popen(
        [sys.executable, "-c", program], env={**os.environ, MARK: mark}, start_new_session=True
    )
    wait_until(lambda: len(alive(mark)) == 3, "the command never came")
    parent.kill()
    parent.wait()
    wait_until(lambda: not alive(mark), "the command lives on")
