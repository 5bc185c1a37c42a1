"""A program that is lowered gets four fifths of the free memory, and one clear error."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from counterpoint.compile.inputs.function_process import lower_function
from counterpoint.core.errors import InputError
from counterpoint.core.memory import free_memory, memory_of_session
from counterpoint.lowering import lower_command, memory_limit
from xla_compiler import why_none

HELD = 300 << 20
HOLDING = f"""
import time
import numpy as np

def make_step(devices=1):
    held = np.ones({HELD}, np.uint8)
    time.sleep(60)

if __name__ == "__main__":
    make_step()
"""


def test_memory_is_that_of_all_processes_of_a_session() -> None:
    twice = (
        "import os, sys, time; os.fork(); held = b'x' * (64 << 20); os.write(1, b'held\\n');"
        " time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", twice], stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == [b"held\n"] * 2
        held = memory_of_session(process.pid)
        os.killpg(process.pid, signal.SIGKILL)
    assert 128 << 20 < held < free_memory()


@pytest.mark.system
def test_a_program_that_takes_more_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_limit, "free_memory", lambda: float(HELD))
    (tmp_path / "train.py").write_text(HOLDING)
    with pytest.raises(InputError, match=r"train.py took 0.\d GiB of memory before") as raised:
        lower_command(
            [sys.executable, str(tmp_path / "train.py")],
            devices=2,
            directory=tmp_path / "lowered",
        )
    assert "0.3 GiB were free" in (raised.value.why or "")


@pytest.mark.system
@pytest.mark.skipif(why_none() is not None, reason=str(why_none()))
def test_a_function_that_takes_more_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_limit, "free_memory", lambda: float(HELD))
    (tmp_path / "train.py").write_text(HOLDING)
    with pytest.raises(InputError, match=r"train.py:make_step\(8\) took 0.\d GiB of memory"):
        lower_function(
            f"{tmp_path / 'train.py'}:make_step", devices=8, directory=tmp_path / "lowered"
        )
