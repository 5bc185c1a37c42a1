"""Lines that name steps have the time at which they came, and those that came together share it."""

from __future__ import annotations

import json
import os
from pathlib import Path

from counterpoint.capture.output import Output, PrintedSteps
from counterpoint.runs import layout
from counterpoint.runs.run import in_bursts

LINES = [f"step {number} loss 0.5\n".encode() for number in range(20)]


def arrivals(directory: Path, pieces: list[bytes]) -> list[float]:
    """When the steps of lines came that a program hands over in these pieces."""
    source, program = os.pipe()
    seen = PrintedSteps(directory).see
    output = Output(source, directory / "stdout.log", lambda _: None, seen, lambda _: None)
    try:
        for piece in pieces:
            os.write(program, piece)
            assert output.pump()
    finally:
        output.close()
        os.close(source)
        os.close(program)
    records = (directory / layout.STEPS_OF_LOG).read_text().splitlines()
    return [json.loads(record)["start_s"] for record in records]


def test_lines_that_are_flushed_one_by_one_are_no_burst(tmp_path: Path) -> None:
    came = arrivals(tmp_path, LINES)
    assert len({*came}) == len(LINES)
    assert not in_bursts(came)


def test_lines_of_one_piece_came_at_one_time(tmp_path: Path) -> None:
    came = arrivals(tmp_path, [b"".join(LINES[:10]), b"".join(LINES[10:])])
    assert len({*came}) == 2
    assert in_bursts(came)
