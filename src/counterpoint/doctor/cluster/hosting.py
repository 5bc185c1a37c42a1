"""Rank 0: listens, hears every rank, measures its clock, and tells all the same exit code."""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from counterpoint.doctor.cluster.clock import Offset, Ping, offset
from counterpoint.doctor.cluster.gathering import Gathering
from counterpoint.doctor.cluster.meeting import (
    Meeting,
    new_meeting,
    remove_meeting,
    write_meeting,
)
from counterpoint.doctor.cluster.report import Report, from_message
from counterpoint.doctor.cluster.wire import Gone, Wire

_PINGS: Final = 16
_LOOK: Final = 0.2
_STRANGER_SECONDS: Final = 10.0
"""So long a connection may take to prove itself: strangers and broken ones are not waited for."""


@dataclass(slots=True)
class _Heard:
    """What came so far, from several threads."""

    size: int
    lock: threading.Lock = field(default_factory=threading.Lock)
    reports: dict[int, Report] = field(default_factory=dict[int, Report])
    offsets: dict[int, Offset] = field(default_factory=dict[int, Offset])
    wires: dict[int, Wire] = field(default_factory=dict[int, Wire])
    left: set[int] = field(default_factory=set[int])
    complete: threading.Event = field(default_factory=threading.Event)


def host_meeting(
    own: Report,
    size: int,
    path: Path,
    seconds: float,
    finish: Callable[[Gathering], int],
    now: Callable[[], float] = time.monotonic,
) -> int:
    """Wait for the others, have it merged and printed by `finish`, and tell all its exit code."""
    heard = _Heard(size)
    heard.reports[own.rank] = own
    with socket.create_server(("", 0), backlog=max(128, size)) as server:
        meeting = new_meeting(int(server.getsockname()[1]))
        write_meeting(path, meeting)
        try:
            _wait(server, meeting, heard, seconds, now)
            remove_meeting(path, meeting)
            code = finish(_gathering(heard, seconds))
            for wire in heard.wires.values():
                _tell(wire, code)
            return code
        finally:
            remove_meeting(path, meeting)
            for wire in heard.wires.values():
                wire.close()


def _wait(
    server: socket.socket,
    meeting: Meeting,
    heard: _Heard,
    seconds: float,
    now: Callable[[], float],
) -> None:
    deadline = now() + seconds
    server.settimeout(_LOOK)
    if heard.size == 1:
        return
    while not heard.complete.is_set() and now() < deadline:
        try:
            connection, _ = server.accept()
        except TimeoutError:
            continue
        left = deadline - now()
        threading.Thread(
            target=_hear,
            args=(Wire(connection, _STRANGER_SECONDS), meeting, heard, left),
            name=f"doctor hears on {meeting.port}",
            daemon=True,
        ).start()


def _gathering(heard: _Heard, seconds: float) -> Gathering:
    with heard.lock:
        reports = tuple(heard.reports[rank] for rank in sorted(heard.reports))
        offsets = {0: Offset(0.0, 0.0), **heard.offsets}
        left = tuple(sorted(heard.left - set(heard.reports)))
    return Gathering(size=heard.size, seconds=seconds, reports=reports, offsets=offsets, left=left)


def _hear(wire: Wire, meeting: Meeting, heard: _Heard, seconds: float) -> None:
    """One rank, in a thread of its own: who it is, its report, its clock."""
    rank = -1
    try:
        rank = _admit(wire, meeting, heard.size)
        wire.wait_at_most(seconds)
        report = replace(from_message(wire.receive()), rank=rank)
        measured = offset(_ping(wire) for _ in range(_PINGS))
    except Gone:
        wire.close()
        if rank >= 0:
            with heard.lock:
                heard.left.add(rank)
        return
    with heard.lock:
        heard.reports[rank] = report
        heard.wires[rank] = wire
        if measured is not None:
            heard.offsets[rank] = measured
        if len(heard.reports) == heard.size:
            heard.complete.set()


def _admit(wire: Wire, meeting: Meeting, size: int) -> int:
    """The rank of somebody who has the token; others are sent away."""
    nonce = secrets.token_hex(16)
    wire.send({"nonce": nonce})
    answer = wire.receive()
    rank = answer.get("rank")
    if not isinstance(rank, int) or not 0 < rank < size:
        raise Gone("no rank of ours")
    proof = meeting.proof("rank", nonce, str(rank))
    if not secrets.compare_digest(proof, str(answer.get("proof"))):
        wire.send({"refused": "the token is another one"})
        raise Gone("a wrong token")
    wire.send({"proof": meeting.proof("host", str(answer.get("nonce")))})
    return rank


def _ping(wire: Wire) -> Ping:
    asked = time.time_ns()
    wire.send({"ping": True})
    theirs = wire.receive().get("clock")
    heard = time.time_ns()
    if not isinstance(theirs, int):
        raise Gone("no answer to a ping")
    return Ping(asked, theirs, heard)


def _tell(wire: Wire, code: int) -> None:
    try:
        wire.wait_at_most(_STRANGER_SECONDS)
        wire.send({"exit": code})
    except Gone:
        pass  # it has ended; its exit code is its own
