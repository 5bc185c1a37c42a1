"""The stand-in for the CUDA toolkit: what XLA asks of one, and no more."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from counterpoint.compile.toolkit import write_toolkit
from counterpoint.core.errors import UsageError


@pytest.mark.parametrize("tool", ["ptxas", "nvlink"])
def test_a_tool_tells_its_version_and_writes_where_it_is_told(tmp_path: Path, tool: str) -> None:
    path = write_toolkit(tmp_path / "cuda") / "bin" / tool
    version = subprocess.run([path, "--version"], capture_output=True, text=True, check=True)
    assert "release 13." in version.stdout
    out = tmp_path / "code.cubin"
    subprocess.run([path, "-arch=sm_90a", "in.ptx", "-o", out, "--warn-on-spills"], check=True)
    assert out.stat().st_size == 1


def test_the_device_library_is_bitcode_of_nothing(tmp_path: Path) -> None:
    library = write_toolkit(tmp_path / "cuda") / "nvvm" / "libdevice" / "libdevice.10.bc"
    assert library.read_bytes().startswith(b"BC\xc0\xde")
    assert library.stat().st_size < 32


def test_where_no_program_can_be_started_the_way_out_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What access(2) says of every file on a file system mounted with noexec.
    monkeypatch.setattr("os.access", lambda _path, mode: mode != os.X_OK)
    with pytest.raises(UsageError, match="cannot be executed") as told:
        write_toolkit(tmp_path / "cuda")
    assert "TMPDIR=" in str(told.value.next)
