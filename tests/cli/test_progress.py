"""Short work is silent, a terminal gets a line that is wiped, a file gets whole lines."""

from __future__ import annotations

import threading

import pytest

from counterpoint.cli.progress import LineTiming, Progress, TimeLeft
from terminals import Terminal

AT_ONCE = LineTiming(first=0.0, next=0.001)
NEVER = LineTiming(first=3600.0, next=3600.0)


def test_short_work_is_silent() -> None:
    stream = Terminal()
    with Progress("reading", stream, NEVER):
        pass
    assert stream.getvalue() == ""


def test_a_terminal_shows_one_line_and_wipes_it() -> None:
    stream = Terminal()
    with Progress("reading", stream, AT_ONCE) as progress:
        stream.wait_for("\r\x1b[Kreading (0 s)")
        progress.say("finding steps")
        stream.wait_for("\r\x1b[Kfinding steps (")
    assert stream.getvalue().endswith(")\r\x1b[K")
    assert "\n" not in stream.getvalue()


def test_a_file_gets_whole_lines() -> None:
    stream = Terminal(terminal=False)
    with Progress("reading", stream, AT_ONCE):
        stream.wait_for("reading (0 s)\n")
    assert "\x1b" not in stream.getvalue()
    assert stream.getvalue().endswith("\n")


def test_the_thread_ends_with_the_block_even_when_it_fails() -> None:
    with pytest.raises(KeyboardInterrupt), Progress("reading", Terminal(), NEVER):
        raise KeyboardInterrupt
    assert "progress" not in {thread.name for thread in threading.enumerate()}


def test_a_closed_stream_does_not_stop_the_work() -> None:
    stream = Terminal()
    with Progress("reading", stream, AT_ONCE):
        stream.wait_for("reading")
        stream.close()


def test_the_rest_is_told_by_how_long_the_share_took() -> None:
    rest = TimeLeft().at(0.0, 100.0).at(0.25, 110.0)
    assert rest.text(110.0) == ", about 30 s to go"
    assert rest.at(0.5, 900.0).text(900.0) == ", about 13 min to go"
    assert rest.at(1.0, 120.0).text(120.0) == ", about 0 s to go"


def test_what_has_no_size_has_just_begun_or_is_other_work_tells_no_rest() -> None:
    rest = TimeLeft().at(0.5, 100.0)
    assert rest.text(200.0) == ""  # nothing was done since
    assert rest.at(None, 101.0).text(200.0) == ""
    assert rest.at(0.9, 100.5).text(100.5) == ""
    assert rest.at(0.9, 110.0).at(0.1, 120.0).text(130.0) == ""


def test_of_several_hosts_each_counts_the_same() -> None:
    stream = Terminal()
    with Progress("reading", stream, AT_ONCE) as progress:
        progress.read("a/rank0.zip (host 1 of 4)", 1, 100)
        stream.wait_for("reading rank0.zip (host 1 of 4), 1% (")
        for number in (1, 2):
            progress.read(f"a/rank{number}.zip (host {number} of 4)", 100, 100)
        stream.wait_for(" s to go)")
