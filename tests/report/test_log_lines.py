"""Lines of another program's log are searched for, so they are never wrapped."""

from __future__ import annotations

import io

import pytest

from counterpoint.report.document import Document, Log, Section
from counterpoint.report.terminal import plain_text, print_document

LINE = "I1201 gpu_hlo_schedule.cc:551] Using PGLE profile from " + "/directory" * 20 + "/step.pbtxt"
DOCUMENT = Document(sections=(Section("Proof", "", (Log((LINE, "short")),)),), legend="", next="")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_pipe_gets_each_line_whole() -> None:
    assert plain_text(DOCUMENT).splitlines()[1:3] == [f"  {LINE}", "  short"]


def test_a_terminal_cuts_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"COLUMNS": "80", "TERM": "xterm", "NO_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)
    stream = Terminal()
    print_document(DOCUMENT, stream)
    (line,) = (it for it in stream.getvalue().splitlines() if "gpu_hlo_schedule" in it)
    assert "Using PGLE profile" in line
    assert "step.pbtxt" not in line
    assert len(line) <= 80 + len("\x1b[2m\x1b[0m")
