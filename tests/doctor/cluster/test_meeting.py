"""How ranks meet, with each rank a thread: late ones, dead ones, strangers, old files."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from counterpoint.core.errors import InputError
from counterpoint.doctor.cluster.attending import attend_meeting
from counterpoint.doctor.cluster.gathering import Gathering
from counterpoint.doctor.cluster.hosting import host_meeting
from counterpoint.doctor.cluster.meeting import (
    Meeting,
    own_addresses,
    read_meeting,
    write_meeting,
)
from counterpoint.doctor.cluster.report import Report

CODE = 7


@dataclass
class Room:
    """Where ranks meet, and what rank 0 made of it. Its time is up when a test says so."""

    path: Path
    threads: ThreadPoolExecutor
    seen: list[Gathering] = field(default_factory=list[Gathering])
    over: threading.Event = field(default_factory=threading.Event)

    def host(self, size: int) -> Future[int]:
        def finish(gathering: Gathering) -> int:
            self.seen.append(gathering)
            return CODE

        own = Report(0, "node0", (), {})
        return self.threads.submit(host_meeting, own, size, self.path, 60.0, finish, self.now)

    def now(self) -> float:
        return 1000.0 if self.over.is_set() else 0.0

    def end(self, port: int, hanging: int = 0) -> None:
        """Let rank 0's time be up, once all who came were heard, but for those that hang."""
        for _ in range(6000):
            names = [one.name for one in threading.enumerate()]
            if names.count(f"doctor hears on {port}") == hanging:
                self.over.set()
                return
            time.sleep(0.01)
        raise AssertionError("rank 0 still listens to somebody")

    def attend(self, rank: int, ahead_ms: int = 0, seconds: float = 60.0) -> Future[int]:
        def clock() -> int:
            return time.time_ns() + ahead_ms * 1_000_000

        report = Report(rank, f"node{rank}", (), {})
        return self.threads.submit(attend_meeting, report, self.path, seconds, clock)

    def opened(self) -> Meeting:
        for _ in range(6000):
            meeting = read_meeting(self.path)
            if meeting is not None:
                return meeting
            time.sleep(0.01)
        raise AssertionError("rank 0 wrote no file")


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    with ThreadPoolExecutor(40) as threads:
        yield Room(tmp_path / "meeting.json", threads)


def introduced(meeting: Meeting, rank: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", meeting.port), timeout=10)
    nonce = json.loads(connection.makefile().readline())["nonce"]
    message = {"rank": rank, "proof": meeting.proof("rank", nonce, str(rank)), "nonce": "n"}
    connection.sendall(json.dumps(message).encode() + b"\n")
    return connection


def test_all_ranks_get_one_exit_code_and_each_clock_is_measured(room: Room) -> None:
    host = room.host(32)
    others = [room.attend(rank, ahead_ms=1300 if rank == 7 else 0) for rank in range(1, 32)]
    assert {one.result(60) for one in (host, *others)} == {CODE}
    (seen,) = room.seen
    assert seen.missing == ()
    off = seen.offset_of_host["node7"]
    assert abs(off.ms - 1300) <= off.within_ms
    others_off = [one for host, one in seen.offset_of_host.items() if host != "node7"]
    assert all(abs(one.ms) <= max(one.within_ms, 0.01) for one in others_off)
    assert not room.path.exists()


def test_one_rank_alone_waits_for_nobody(room: Room) -> None:
    assert room.host(1).result(60) == CODE


def test_a_late_rank_still_takes_part(room: Room) -> None:
    host = room.host(2)
    room.opened()
    time.sleep(0.3)
    assert (room.attend(1).result(60), host.result(60)) == (CODE, CODE)


def test_who_comes_before_rank_0_waits_for_it(room: Room) -> None:
    other = room.attend(1)
    time.sleep(0.3)
    assert (room.host(2).result(60), other.result(60)) == (CODE, CODE)


def test_a_rank_that_comes_when_all_is_over_says_so(room: Room) -> None:
    with pytest.raises(InputError, match="rank 1 did not reach rank 0 within") as told:
        room.attend(1, seconds=0.5).result(60)
    assert "did not appear" in (told.value.why or "")


def test_a_rank_that_dies_on_the_way_is_missing(room: Room) -> None:
    host = room.host(2)
    meeting = room.opened()
    with introduced(meeting, 1) as connection:
        assert b"proof" in connection.recv(4096)
        connection.sendall(b'{"rank": 1, "ho')
    room.end(meeting.port)
    assert host.result(60) == CODE
    assert (room.seen[0].missing, room.seen[0].left) == ((1,), (1,))


def test_a_rank_that_hangs_is_missing(room: Room) -> None:
    host = room.host(3)
    meeting = room.opened()
    pinged = threading.Event()

    def clock() -> int:
        pinged.set()
        return time.time_ns()

    report = Report(2, "node2", (), {})
    with introduced(meeting, 1):
        other = room.threads.submit(attend_meeting, report, room.path, 60.0, clock)
        assert pinged.wait(60)
        room.end(meeting.port, hanging=1)
        assert other.result(60) == CODE
    assert host.result(60) == CODE
    assert room.seen[0].missing == (1,)


@pytest.mark.parametrize(
    "words",
    [
        b"GET / HTTP/1.0\r\n\r\n",
        b"[1, 2]\n",
        b'{"rank": 1, "proof": "guessed", "nonce": "n"}\n',
        b'{"rank": 99, "proof": "", "nonce": "n"}\n',
        b'{"rank": "1"}\n',
        b"\xff\xfe\n",
        b"",
    ],
)
def test_a_stranger_is_sent_away_and_does_no_harm(room: Room, words: bytes) -> None:
    host = room.host(2)
    meeting = room.opened()
    with socket.create_connection(("127.0.0.1", meeting.port), timeout=10) as connection:
        lines = connection.makefile()
        assert meeting.token not in lines.readline()
        connection.sendall(words)
        connection.shutdown(socket.SHUT_WR)
        answer = lines.readline()
        assert not answer or "refused" in answer
    assert (room.attend(1).result(60), host.result(60)) == (CODE, CODE)


def test_a_report_that_is_none_is_not_merged(room: Room) -> None:
    host = room.host(2)
    meeting = room.opened()
    with introduced(meeting, 1) as connection:
        assert b"proof" in connection.recv(4096)
        connection.sendall(b'{"rank": 1, "verdicts": 3}\n')
        room.end(meeting.port)
        assert host.result(60) == CODE
    assert room.seen[0].missing == (1,)


def test_an_old_file_whose_host_is_gone_does_no_harm(room: Room) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = int(nobody.getsockname()[1])
    write_meeting(room.path, Meeting(("127.0.0.1",), port, "old"))
    other = room.attend(1)
    time.sleep(0.3)
    assert (room.host(2).result(60), other.result(60)) == (CODE, CODE)


def test_an_old_file_with_another_token_is_refused_and_read_again(
    room: Room, tmp_path: Path
) -> None:
    elsewhere = Room(tmp_path / "other.json", room.threads)
    busy = elsewhere.host(2)
    port = elsewhere.opened().port
    write_meeting(room.path, Meeting(("127.0.0.1",), port, "old"))
    other = room.attend(1)
    time.sleep(0.3)
    assert (room.host(2).result(60), other.result(60)) == (CODE, CODE)
    elsewhere.end(port)
    assert (busy.result(60), elsewhere.seen[0].missing) == (CODE, (1,))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"addresses": 3}', '{"port": "x"}', "\0"])
def test_a_file_that_is_none_is_waited_over(room: Room, text: str) -> None:
    room.path.write_text(text)
    assert read_meeting(room.path) is None


def test_the_file_is_its_owner_s_only_and_names_this_host(tmp_path: Path) -> None:
    path = tmp_path / "meeting.json"
    write_meeting(path, Meeting(own_addresses(), 1, "secret"))
    assert path.stat().st_mode & 0o777 == 0o600
    assert own_addresses()[-1].startswith("127.")
