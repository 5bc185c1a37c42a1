"""`.nsys-rep` reports. Nsight Systems can't be had here, so a script stands in for `nsys`."""

from __future__ import annotations

import os
import shlex
import signal
from pathlib import Path

import pytest
from nsys_export import Export

from counterpoint.core.errors import InputError
from counterpoint.timeline.nsys.sqlite import read_nsys_rep

REMEMBER = 'while [ "$1" != --output ]; do shift; done; printf %s "$2" > {told}\n'


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "run 1.nsys-rep"
    path.write_bytes(b"proprietary")
    return path


def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Path:
    """Put a `nsys` on PATH; the file it writes its --output argument to."""
    told = tmp_path / "told"
    tools = tmp_path / "bin"
    tools.mkdir()
    nsys = tools / "nsys"
    nsys.write_text("#!/bin/sh\n" + REMEMBER.format(told=shlex.quote(str(told))) + script)
    nsys.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    return told


def test_a_report_is_exported_and_read(
    tmp_path: Path, report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Export(tmp_path / "prepared.sqlite") as export:
        export.kernel(0, 7, 100, 110, "fusion_3", 1)
    told = install(tmp_path, monkeypatch, f'cp {shlex.quote(str(export.path))} "$2"\n')
    recording = read_nsys_rep(report)
    assert recording.ops["name"].to_list() == ["fusion_3"]
    assert recording.source == str(report)
    assert not Path(told.read_text()).parent.exists()


def test_a_failing_export_passes_on_what_the_tool_said(
    tmp_path: Path, report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = install(tmp_path, monkeypatch, "echo 'version mismatch' >&2; exit 3\n")
    with pytest.raises(InputError) as failure:
        read_nsys_rep(report)
    assert "exit code 3" in failure.value.what
    assert failure.value.why == "version mismatch"
    assert not Path(told.read_text()).parent.exists()


def test_an_export_that_writes_nothing_has_failed(
    tmp_path: Path, report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, "exit 0\n")
    with pytest.raises(InputError, match="`nsys export` failed"):
        read_nsys_rep(report)


def test_an_interrupt_leaves_nothing_behind(
    tmp_path: Path, report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = 'echo half > "$2"; kill -INT $PPID; exec sleep 20\n'
    told = install(tmp_path, monkeypatch, script)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            read_nsys_rep(report)
    finally:
        signal.signal(signal.SIGINT, before)
    assert not Path(told.read_text()).parent.exists()


def test_without_the_tool_the_error_says_how(
    report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError) as failure:
        read_nsys_rep(report)
    assert "`nsys`" in failure.value.what
    assert shlex.split(str(failure.value.next))[-3:] == ["-o", "run 1.sqlite", "run 1.nsys-rep"]


def test_a_report_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_nsys_rep(tmp_path / "gone.nsys-rep")
