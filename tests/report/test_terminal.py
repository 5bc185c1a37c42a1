"""The screen as a user meets it: the text itself, colours, widths, pipes and hostile names."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest

import timelines
from counterpoint.core.basis import Unknown
from counterpoint.diagnose.explain import Explanation, explain
from counterpoint.report.bar import bar_cells
from counterpoint.report.document import Part, Slice
from counterpoint.report.explain_document import explain_document
from counterpoint.report.terminal import plain_text, print_document
from counterpoint.timeline.device import Host

GOLDEN = Path(__file__).parent / "golden"
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")


class Screen(io.StringIO):
    """A stream that calls itself a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(scope="module")
def explained() -> Explanation:
    return explain(timelines.two_devices())


def on_screen(explained: Explanation, monkeypatch: pytest.MonkeyPatch, width: int) -> str:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", str(width))
    screen = Screen()
    print_document(explain_document(explained), screen)
    return screen.getvalue()


@pytest.mark.parametrize("name", ["two_devices", "two_devices_without_hlo"])
def test_the_text(name: str, tmp_path: Path) -> None:
    """The golden text is read by people: when it changes on purpose, take the new one."""
    text = plain_text(explain_document(explain(getattr(timelines, name)())))
    (tmp_path / f"{name}.txt").write_text(text)
    assert text == (GOLDEN / f"{name}.txt").read_text(), f"the new text is in {tmp_path}"


def test_a_pipe_gets_the_plain_text(explained: Explanation) -> None:
    pipe = io.StringIO()
    print_document(explain_document(explained), pipe)
    assert pipe.getvalue() == plain_text(explain_document(explained))


def test_a_pipe_keeps_long_names_and_their_sources(explained: Explanation) -> None:
    name = "input_scatter_multiply_convert_reduce_fusion.clone.1772"
    long = explained.ops.with_columns(op=explained.ops["op"].replace("fusion.1", name))
    text = plain_text(explain_document(replace(explained, ops=long)))
    line = next(line for line in text.splitlines() if name in line)
    assert "me/model/mlp.py:12" in line


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_tables_fit_the_screen(
    explained: Explanation, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    text = re.sub(r"\x1b\[[0-9;]*m", "", on_screen(explained, monkeypatch, width))
    assert not CONTROL.search(text)
    *lines, last = text.splitlines()
    # The words of a setting are kept in one piece.
    pasted = [line for line in lines if "export " in line or "--xla_" in line]
    assert max(len(line) for line in lines if line not in pasted) <= width
    assert last.startswith("next: counterpoint convert made.xplane.pb profile.pftrace")


def test_a_narrow_screen_says_what_it_leaves_out(
    explained: Explanation, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "no room for: kind" in on_screen(explained, monkeypatch, 80)
    assert "no room for" not in on_screen(explained, monkeypatch, 200)


def test_colours_are_for_terminals_that_want_them(
    explained: Explanation, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "\x1b[34m" in on_screen(explained, monkeypatch, 100)
    monkeypatch.setenv("NO_COLOR", "1")
    screen = Screen()
    print_document(explain_document(explained), screen)
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", screen.getvalue())


def test_a_terminal_without_unicode_gets_letters(explained: Explanation) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", write_through=True)
    print_document(explain_document(explained), stream)
    assert b"# compute" in raw.getvalue()


def test_names_from_a_file_never_reach_the_terminal_as_commands(explained: Explanation) -> None:
    evil = "x\x1b]0;owned\x07\n\r[bold]y[/bold]\udcff"
    ops = explained.ops.with_columns(op=explained.ops["op"].replace("fusion.1", evil[:-1]))
    hostile = replace(explained, ops=ops, notes=(evil,), inputs=(evil,))
    text = plain_text(explain_document(hostile))
    assert not CONTROL.search(text)
    assert "\\x1b]0;owned\\x07\\n\\r[bold]y[/bold]" in text
    text.encode()


def test_a_cut_off_profile_is_said_loudly(explained: Explanation) -> None:
    cut = replace(explained, truncated=True)
    assert "CUT OFF" in plain_text(explain_document(cut))
    assert "CUT OFF" not in plain_text(explain_document(explained))


def test_top_cuts_tables_and_says_of_how_many(explained: Explanation) -> None:
    text = plain_text(explain_document(explained, top=1))
    assert "1 of 4" in text
    assert "fusion.2 " not in text.partition("Largest losses")[0]


def test_one_step_of_one_device() -> None:
    text = plain_text(explain_document(explain(timelines.two_devices(), step=1, devices=[1])))
    assert "Where step 1 goes" in text
    assert "1 x H100 SXM (gpu): number 1 of this profile" in text
    assert "12.00 ms   1 step" in text


def test_processes_of_one_machine_are_one_host(explained: Explanation) -> None:
    def shown(*names: str) -> str:
        hosts = tuple(Host(name=name, source="") for name in names)
        return plain_text(explain_document(replace(explained, hosts=hosts)))

    assert "2 x H100 SXM (gpu) in 2 processes on 1 host\n" in shown("vm #0", "vm #1")
    assert "in 3 processes on 2 hosts" in shown("a #0", "a #1", "b")
    assert "(gpu) on 2 hosts" in shown("a", "b")


def test_rates_over_half_the_work_are_lower_bounds(explained: Explanation) -> None:
    half = replace(explained.utilisation, flops_known_share=0.5)
    text = plain_text(explain_document(replace(explained, utilisation=half)))
    assert "compute at least 199.9 TFLOP/s" in text
    assert "operations known for 50% of compute time" in text


def test_without_findings_the_next_thing_is_all_of_it_as_data(explained: Explanation) -> None:
    text = plain_text(explain_document(replace(explained, findings=())))
    assert "Largest losses   none worth a word" in text
    assert text.endswith("next: counterpoint explain made.xplane.pb -o explain.json\n")


def test_what_says_nothing_of_time_is_no_loss(explained: Explanation) -> None:
    loss = explained.findings[0]
    other = replace(loss, title="clocks", saves_ms=Unknown("it tells what to believe"))
    text = plain_text(explain_document(replace(explained, findings=(loss, other))))
    losses, _, about = text.partition("About this profile")
    assert loss.title in losses
    assert "clocks" not in losses
    assert f"2  {other.code} clocks" in about
    alone = plain_text(explain_document(replace(explained, findings=(other,))))
    assert "Largest losses   none worth a word" in alone
    assert "About this profile" in alone


def test_the_bar_is_as_wide_as_asked_and_shows_hidden_within_compute() -> None:
    def part(which: Part, fraction: float, within: Part | None = None) -> Slice:
        return Slice(part=which, label="", ms="", share="", fraction=fraction, within=within)

    slices = [
        part(Part.COMPUTE, 0.75),
        part(Part.HIDDEN, 0.25, within=Part.COMPUTE),
        part(Part.COLLECTIVE, 0.25),
    ]
    cells = dict(bar_cells(slices, 40))
    assert cells == {Part.COMPUTE: 20, Part.HIDDEN: 10, Part.COLLECTIVE: 10}
