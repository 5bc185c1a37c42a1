"""Every other rank: finds rank 0, sends its report, answers pings, and ends as rank 0 says."""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from counterpoint.core.errors import InputError
from counterpoint.doctor.cluster.meeting import Meeting, read_meeting
from counterpoint.doctor.cluster.report import Report, as_message
from counterpoint.doctor.cluster.wire import Gone, Wire

_AGAIN: Final = 0.2
_CONNECT_SECONDS: Final = 3.0
_GRACE: Final = 30.0
"""Rank 0's time may have begun later than ours, and it merges before it tells."""


def attend_meeting(
    report: Report, path: Path, seconds: float, clock: Callable[[], int] = time.time_ns
) -> int:
    """The exit code that rank 0 gives to all."""
    deadline = time.monotonic() + seconds
    wire = _connected(report.rank, path, deadline, seconds)
    try:
        wire.wait_at_most(seconds + _GRACE)
        wire.send(as_message(report))
        while True:
            message = wire.receive()
            if "exit" in message:
                return int(message["exit"])
            wire.send({"clock": clock()})
    except Gone as failure:
        raise InputError(
            f"rank {report.rank}: rank 0 has gone before all had been merged",
            why=str(failure) or "it ended, or its host can't be reached any more",
            next="see what rank 0 says, and start all of them anew",
        ) from None
    finally:
        wire.close()


def _connected(rank: int, path: Path, deadline: float, seconds: float) -> Wire:
    """Look at the file again and again: rank 0 may be late, or the file of an earlier run."""
    tried = f"{path} did not appear"
    while time.monotonic() < deadline:
        meeting = read_meeting(path)
        if meeting is not None:
            for address in meeting.addresses:
                try:
                    return _introduced(rank, address, meeting)
                except (OSError, Gone) as failure:
                    tried = f"{address}:{meeting.port}: {failure}"
        time.sleep(_AGAIN)
    raise InputError(
        f"rank {rank} did not reach rank 0 within {seconds:g} s",
        why=tried,
        next="name a directory by --meet, which all hosts see, and a longer --timeout",
    )


def _introduced(rank: int, address: str, meeting: Meeting) -> Wire:
    """A connection on which both sides have proved that they have the token."""
    connection = socket.create_connection((address, meeting.port), timeout=_CONNECT_SECONDS)
    wire = Wire(connection, _CONNECT_SECONDS)
    try:
        _prove(wire, rank, meeting)
    except Gone:
        wire.close()
        raise
    return wire


def _prove(wire: Wire, rank: int, meeting: Meeting) -> None:
    nonce = str(wire.receive().get("nonce"))
    ours = secrets.token_hex(16)
    wire.send({"rank": rank, "proof": meeting.proof("rank", nonce, str(rank)), "nonce": ours})
    answer = wire.receive()
    if not secrets.compare_digest(meeting.proof("host", ours), str(answer.get("proof"))):
        raise Gone(str(answer.get("refused") or "somebody else listens there"))
