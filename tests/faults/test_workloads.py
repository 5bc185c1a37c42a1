"""Programs that print what nobody reads, and commands that may listen on this machine only."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import counterpoint
from timelines import two_devices

pytestmark = pytest.mark.system

FLOOD = """
import sys
for _ in range(20_000):
    sys.stdout.buffer.write(b"x" * 999 + b"\\n")
print("step 3 loss 1.5")
"""
BINARY = """
import os
os.write(1, bytes(range(256)) * 100)
os.write(2, b"\\xff\\0")
os.close(1)
os.close(2)
"""
MOST_KIB = 300 << 10


MEASURED = """
import resource, subprocess, sys
code = subprocess.call([sys.executable, "-P", "-m", "counterpoint", *sys.argv[2:]])
open(sys.argv[1], "w").write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(code)
"""
"""A process counts the memory of the one that started it as its own, so a small one does."""


def run(place: Path, program: str) -> tuple[Path, int]:
    """Run a program; returns the logs and the peak memory of Counterpoint, in KiB."""
    words = ["run", "-o", "r", "--no-profile", "--", sys.executable, "-c", program]
    with (place / "out").open("wb") as out, (place / "err").open("wb") as err:
        code = subprocess.call(
            [sys.executable, "-c", MEASURED, "peak", *words], cwd=place, stdout=out, stderr=err
        )
    assert code == 0, (place / "err").read_bytes()
    return place / "r" / "rank0", int((place / "peak").read_text())


def test_a_flood_is_kept_whole_and_its_step_is_seen(tmp_path: Path) -> None:
    logs, peak_kib = run(tmp_path, FLOOD)
    log = (logs / "stdout.log").read_bytes()
    assert len(log) == 20_000_000 + len("step 3 loss 1.5\n")
    assert (tmp_path / "out").read_bytes() == log
    assert peak_kib < MOST_KIB
    assert '"step": 3' in "".join(file.read_text() for file in logs.rglob("steps-*.jsonl"))


def test_bytes_that_are_no_text_are_kept(tmp_path: Path) -> None:
    logs, _ = run(tmp_path, BINARY)
    assert (logs / "stdout.log").read_bytes() == bytes(range(256)) * 100
    assert (logs / "stderr.log").read_bytes() == b"\xff\0"


def listening(pid: int) -> set[str]:
    """Return the addresses at which a process listens, in hexadecimal as the kernel has them."""
    held = set[str]()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            held.add(str(entry.readlink()))
        except OSError:
            continue
    found = set[str]()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in held:
                found.add(fields[1].partition(":")[0])
    return found


LOOPBACK = "0100007F"


def test_the_viewer_listens_on_the_loopback_address_alone(tmp_path: Path) -> None:
    counterpoint.write_parquet(two_devices(), tmp_path / "t.parquet")
    words = [sys.executable, "-P", "-m", "counterpoint", "view", "t.parquet", "--no-browser"]
    with (tmp_path / "err").open("wb") as err:
        started = subprocess.Popen(words, cwd=tmp_path, stdout=err, stderr=err)
    seen = set[str]()
    while started.poll() is None and not seen:
        seen = listening(started.pid)
        time.sleep(0.05)
    started.send_signal(signal.SIGINT)
    started.wait()
    assert seen == {LOOPBACK}, (tmp_path / "err").read_text()


def test_explaining_listens_nowhere(tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    counterpoint.write_parquet(two_devices(), tmp_path / "t.parquet")
    program = f"""
import sys
def hear(event, arguments):
    if event in ("socket.bind", "socket.connect", "socket.__new__"):
        open({str(heard)!r}, "a").write(event)
sys.addaudithook(hear)
from counterpoint.cli.app import main
for line in ("explain t.parquet", "network t.parquet", "convert t.parquet u",
             "pgle make t.parquet -o p.pbtxt", "flags check p.env --no-probe"):
    main(line.split())
"""
    (tmp_path / "p.env").write_text("NCCL_DEBUG=INFO\n")
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "u").is_dir()
    assert (tmp_path / "p.pbtxt").is_file()
    assert not heard.exists()
