"""`counterpoint view` as a process: how it begins, how it ends, and how much it stands."""

from __future__ import annotations

import http.client
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from test_window import waiting

from command_line import in_process
from counterpoint.cli.view_inputs import ViewOptions, open_input
from counterpoint.timeline.xplane.planes import LARGE
from counterpoint.view.serving import listen
from transcripts import next_command

pytestmark = pytest.mark.system


@contextmanager
def started(*words: object) -> Generator[tuple[subprocess.Popen[str], str]]:
    """The process, and the address that it printed."""
    with subprocess.Popen(
        [sys.executable, "-m", "counterpoint", "view", *map(str, words), "--no-browser"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={name: value for name, value in os.environ.items() if name != "SSH_CONNECTION"},
        text=True,
    ) as process:
        try:
            assert process.stdout
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def ended(process: subprocess.Popen[str], seconds: float = 15) -> tuple[int, str]:
    _, errors = process.communicate(timeout=seconds)
    return process.returncode, errors


def get(address: str, name: str = "state.json") -> bytes:
    parts = urlsplit(address)
    assert parts.hostname
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=20)
    connection.request("GET", f"{parts.path}{name}")
    response = connection.getresponse()
    assert response.status == 200
    body = response.read()
    connection.close()
    return body


@pytest.mark.smoke
def test_it_prints_one_address_on_this_machine(stored: Path) -> None:
    with started(stored) as (process, address):
        assert address.startswith("http://127.0.0.1:")
        assert json.loads(get(address))["complete"]
        port = urlsplit(address).port
        elsewhere = socket.gethostbyname(socket.gethostname())
        if not elsewhere.startswith("127."):
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((elsewhere, port), timeout=5)
        process.send_signal(signal.SIGINT)
        assert ended(process) == (0, "Ctrl-C ends it\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_another_signal_ends_it_as_the_shell_expects(stored: Path, number: signal.Signals) -> None:
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("whoever started the tests has this signal ignored, as nohup does")
    with started(stored) as (process, _):
        process.send_signal(number)
        assert ended(process) == (128 + number, "Ctrl-C ends it\n")


def test_it_ends_by_itself_when_nobody_looks(stored: Path) -> None:
    with started(stored, "--idle", "1s") as (process, _):
        assert ended(process) == (0, "Ctrl-C ends it\n")


def test_two_at_once_do_not_meet(stored: Path) -> None:
    with started(stored) as (_, one), started(stored) as (_, other):
        assert urlsplit(one).port != urlsplit(other).port
        assert get(one)
        assert get(other)
        with pytest.raises(AssertionError):
            get(urlsplit(one)._replace(netloc=urlsplit(other).netloc).geturl())


def test_a_port_that_is_taken_is_an_error_before_anything_is_read() -> None:
    with listen(0) as taken:
        port = taken.getsockname()[1]
        done = in_process("view", "absent", "--port", port, "--no-browser")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"error: port {port} is taken" in done.stderr
    assert f"--port {port + 1}" in done.stderr


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["absent"], "absent: no such file"),
        ([], "a profile is required"),
        (["a", "--idle", "soon"], "--idle takes a time, not 'soon'"),
        (["a", "--port", "70000"], "--port 70000 is not a port"),
        (["a", "b", "--with", "c"], "--with compares one input with another, and 2 are named"),
        (["a", "--with", "b", "--last", "3"], "are for one input, without --with"),
        (["x" * 5000], "File name too long"),
        (["a", "x" * 5000], "a: no such file"),
        (["a", "--with", "x" * 5000], "a: no such file"),
    ],
)
def test_what_cannot_be_shown_is_said(words: list[str], reason: str) -> None:
    done = in_process("view", *words, "--no-browser")
    assert done.returncode in (2, 3)
    assert reason in done.stderr
    assert "Traceback" not in done.stderr


def test_a_stored_timeline_and_another_input_are_compared(pair: tuple[Path, Path]) -> None:
    options = ViewOptions()
    opened = open_input(tuple(map(str, pair)), None, options)
    assert opened.found is not None
    assert list(opened.found.content.results) == ["compare"]


def test_a_study_is_shown_alone(tmp_path: Path) -> None:
    study = tmp_path / "a study"
    study.mkdir()
    (study / "journal.jsonl").touch()
    for words in ((study, tmp_path / "b"), (tmp_path / "b", "--with", study)):
        done = in_process("view", *words, "--no-browser")
        assert done.returncode == 2
        assert str(study) in done.stderr.splitlines()[0]
        assert next_command(done.stderr) == ["view", str(study)]


def large(content: bytes, directory: Path) -> Path:
    """A profile with a field that nobody reads, so large that it is served before it is read."""
    path = directory / "large.xplane.pb"
    size = LARGE
    length = bytearray()
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    with path.open("wb") as file:
        file.write(content + b"\x7a" + bytes([*length, size]))
        file.truncate(file.tell() + LARGE)
    return path


def test_a_large_profile_is_read_while_its_page_is_there(tmp_path: Path) -> None:
    with started(large(waiting(), tmp_path)) as (process, address):
        seen: list[dict[str, Any]] = []
        while not seen or not seen[-1]["complete"]:
            seen.append(json.loads(get(address)))
            time.sleep(0.02)
        page = json.loads(get(address, "page.json"))
        assert seen[-1]["message"] == ""
        assert {it["message"].partition(" ")[0] for it in seen} >= {"reading", ""}
        assert set(page["results"]) == {"explain", "network"}
        (timeline,) = page["timelines"]
        assert (timeline["complete"], timeline["preview"]) == (True, False)
        assert len(timeline["tracks"]) > 2
        process.send_signal(signal.SIGINT)
        assert ended(process)[0] == 0


def test_a_large_profile_that_cannot_be_read_ends_with_the_error(tmp_path: Path) -> None:
    with started(large(waiting()[:-400], tmp_path)) as (process, address):
        assert address.startswith("http://127.0.0.1:")
        code, printed = ended(process, 60)
        assert code in (2, 3)
        assert "large.xplane.pb: " in printed
        assert "Traceback" not in printed


def test_two_are_compared(pair: tuple[Path, Path]) -> None:
    with started(pair[0], "--with", pair[1]) as (process, address):
        page = json.loads(get(address, "page.json"))
        assert len(page["timelines"]) == 2
        assert set(page["results"]) == {"compare"}
        process.send_signal(signal.SIGINT)
        assert ended(process)[0] == 0


def test_thousands_of_connections_keep_nobody_out(stored: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 10_000 if hard == resource.RLIM_INFINITY else min(10_000, hard - 500)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted + 500), hard))
    held: list[socket.socket] = []
    try:
        with started(stored) as (process, address):
            parts = urlsplit(address)
            begun = time.monotonic()
            for number in range(wanted):
                held.append(socket.create_connection((parts.hostname, parts.port), timeout=20))
                if number % 1000 == 0:
                    held[-1].sendall(b"GET / HTTP/1.1\r\n")
                    assert get(address)
            assert get(address)
            assert time.monotonic() - begun < 60
            process.send_signal(signal.SIGINT)
            assert ended(process) == (0, "Ctrl-C ends it\n")
    finally:
        for connection in held:
            connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_garbage_is_no_news(stored: Path) -> None:
    sent = (
        b"\x16\x03\x01\x02\x00",
        b"GET /\xff HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /" + b"a" * 100_000,
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9999999999\r\n\r\nabc",
        b"GET http://evil.example/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"\0" * 5000,
    )
    with started(stored) as (process, address):
        parts = urlsplit(address)
        for text in sent:
            with socket.create_connection((parts.hostname, parts.port), timeout=20) as connection:
                connection.sendall(text)
                connection.settimeout(0.5)
                try:
                    reply = connection.recv(100)
                except (TimeoutError, ConnectionResetError):
                    reply = b""
                assert not reply.startswith(b"HTTP/1.1 2"), text[:40]
            assert get(address)
        process.send_signal(signal.SIGINT)
        assert ended(process) == (0, "Ctrl-C ends it\n")
