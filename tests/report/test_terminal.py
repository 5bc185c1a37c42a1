"""The screen as a user meets it: the text itself, colours, widths, pipes and hostile names."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import timelines
from counterpoint.cli.printing import document_text
from counterpoint.core.basis import Basis, Range, Unknown
from counterpoint.core.errors import UsageError
from counterpoint.diagnose.explanation import Explanation, explain
from counterpoint.diagnose.finding import Finding, Remedy
from counterpoint.report import units
from counterpoint.report.digest import LEAST
from counterpoint.report.document import (
    Document,
    Fact,
    FactList,
    NumberedItem,
    Prose,
    Section,
    Slice,
    StepPart,
    TextTable,
    names,
    numbers,
    table,
)
from counterpoint.report.explain.explain_digest import explain_digest
from counterpoint.report.explain.explain_document import explain_document, run_digest
from counterpoint.report.explain.explain_tables import ops_section
from counterpoint.report.html import document_html
from counterpoint.report.runs import run_lines, runs_document, steps_line
from counterpoint.report.summary import summarize_explanation, summarize_run
from counterpoint.report.terminal import bar_cells, plain_text, print_document
from counterpoint.runs.run import (
    Compile,
    ObservedProcess,
    ProfileWindow,
    Rank,
    Run,
    StepStart,
)
from counterpoint.timeline.hosts.assemble import assemble
from counterpoint.timeline.model import Host, Timeline
from golden_files import Golden, cases
from recorded_runs import ENDED, run_of
from recordings import Span, recording

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
def test_the_text(name: str, golden: Golden) -> None:
    golden(f"{name}.txt", document_text(explain_document(explain(getattr(timelines, name)()))))


def test_little_time_of_the_other_ops_has_no_more_digits_than_the_rows(
    explained: Explanation,
) -> None:
    times = [200.0, 100.0, *[0.00001] * (len(explained.ops) - 2)]
    made = replace(explained, ops=explained.ops.with_columns(self_ms=pl.Series(times)))
    shown = ops_section(made, 2, by="op").blocks[-1]
    assert isinstance(shown, TextTable)
    at = [column.title for column in shown.columns].index("self ms")
    assert shown.rows[-1][at] == "<0.1"


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


@pytest.mark.parametrize(("width", "lines"), [(80, 22), (120, 21)])
def test_the_first_screen_is_the_answer(
    explained: Explanation, monkeypatch: pytest.MonkeyPatch, width: int, lines: int
) -> None:
    notes = tuple(f"note of {number * 'x'}" for number in range(9))
    noted = replace(explained, notes=notes, truncated=True)
    text = re.sub(r"\x1b\[[0-9;]*m", "", on_screen(noted, monkeypatch, width))
    first = text.splitlines()[:lines]
    heads = [line.partition("   ")[0] for line in first if line and not line.startswith(" ")]
    titles = [section.title for section in explain_document(explained).sections]
    assert len(heads) == 4
    assert heads == titles[:4]
    losses = [line for line in first if re.match(r"  [123]  STEP", line)]
    for line, found in zip(losses, explained.findings, strict=False):
        assert isinstance(found.saves_ms, Range)
        price = units.span(found.saves_ms.low, found.saves_ms.high)
        share = units.percent(found.saves_ms.high / 11.0)
        row = re.search(rf"{found.code} +(\S.*?)  +{price}( +{share}( +{found.basis})?)?$", line)
        assert row
        assert found.title.startswith(row[1].removesuffix("…"))
        assert row[1] == found.title or not row[2]  # the other columns go first
        assert len(row[1]) > 40
    assert len(losses) == 3
    assert "CUT OFF" in "\n".join(first[:4])
    assert "note" not in "\n".join(first)


def test_losses_of_one_code_and_one_sentence_are_told_apart(
    explained: Explanation, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = explained.findings[0]
    twins = tuple(
        replace(first, evidence=(replace(first.evidence[0], what=f"all-reduce-start.{at}"),))
        for at in (3, 7)
    )
    for width in (60, 80, 120, 200):
        text = on_screen(replace(explained, findings=twins), monkeypatch, width)
        one, other = (line for line in text.splitlines() if re.match(r"  [12]  STEP", line))
        assert one[len("  1") :] != other[len("  2") :]
        assert "start.3" in one
        assert "start.7" in other


def test_notes_that_differ_in_names_and_numbers_only_are_one(
    explained: Explanation, golden: Golden
) -> None:
    """As of many devices, hosts and programs."""
    hosts = tuple(Host(name=f"node-{at}", source=f"run/{at}.xplane.pb") for at in "abc")
    notes = (
        *(f"/device:TPU:{at}: lines derived by the profiler are left out" for at in range(9)),
        *(f"{host.name}: {len(host.name)},000 events were dropped" for host in hosts),
        "jit_train_step is not jit_other",
        "step 0 is left out: the profile's first",
        "step 4 is left out: no later one tells where it ends",
    )
    text = plain_text(explain_document(replace(explained, notes=notes, hosts=hosts)))
    shown = text.partition("\nNotes\n")[2]
    assert shown.count("\n  note ") == 5
    assert "8 more" in shown
    assert "2 more" in shown
    golden("notes_that_are_alike.txt", shown)


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
    assert last.startswith("next: ")


def test_a_narrow_screen_says_what_it_leaves_out(
    explained: Explanation, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "room for: kind" in on_screen(explained, monkeypatch, 80)
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


def test_every_text_of_a_document_is_made_printable() -> None:
    evil = "x\x1b]0;owned\x07"
    entry = NumberedItem(number=1, title=evil, price=evil, text=evil, rows=(Fact(evil, evil),))
    cells = table(names("op", [evil]), numbers("ms", [evil], total=evil))
    blocks = (Prose(evil), FactList((Fact(evil, evil),)), entry, cells)
    document = Document(sections=(Section(evil, evil, blocks),), legend=evil, next=evil)
    assert not CONTROL.search(plain_text(document))
    assert not CONTROL.search(document_html(document))


def test_a_cut_off_profile_is_said_loudly(explained: Explanation) -> None:
    cut = replace(explained, truncated=True)
    assert "CUT OFF" in plain_text(explain_document(cut))
    assert "CUT OFF" not in plain_text(explain_document(explained))


def test_top_cuts_tables_and_says_of_how_many(explained: Explanation) -> None:
    text = plain_text(explain_document(explained, top=1))
    assert "1 of 4" in text
    assert "fusion.2 " not in text.partition("Top ops")[2]


def test_one_step_of_one_device() -> None:
    text = plain_text(explain_document(explain(timelines.two_devices(), step=3, devices=[1])))
    assert "Where step 3 goes" in text
    assert "1 x H100 SXM (gpu): number 1 in this profile" in text
    assert "12.00 ms   1 step" in text


def test_processes_of_one_machine_are_one_host(explained: Explanation) -> None:
    def shown(*names: str) -> str:
        hosts = tuple(Host(name=name, source="") for name in names)
        return plain_text(explain_document(replace(explained, hosts=hosts)))

    assert "2 x H100 SXM (gpu) in 2 processes on 1 host\n" in shown("vm #0", "vm #1")
    assert "in 3 processes on 2 hosts" in shown("a #0", "a #1", "b")
    assert "(gpu) on 2 hosts" in shown("a", "b")


def test_rates_over_half_the_work_are_lower_bounds(explained: Explanation) -> None:
    half = replace(explained.utilization, flops_known_share=0.5)
    text = plain_text(explain_document(replace(explained, utilization=half)))
    assert "compute at least 199.9 TFLOP/s" in text
    assert "operations known for 50% of compute time" in text


def test_without_findings_a_step_is_seen_moment_by_moment(explained: Explanation) -> None:
    text = plain_text(explain_document(replace(explained, findings=())))
    assert "Largest losses   nothing worth your time: no loss above 3% of the step" in text
    assert "counterpoint view made.xplane.pb" in text.splitlines()[-1]


def test_what_says_nothing_of_time_is_no_loss(explained: Explanation) -> None:
    loss = explained.findings[0]
    other = replace(loss, title="clocks", saves_ms=Unknown("it tells what to believe"))
    text = plain_text(explain_document(replace(explained, findings=(loss, other))))
    losses, _, about = text.partition("About this profile")
    assert loss.title in losses
    assert "clocks" not in losses
    assert f"2  {other.code} clocks" in about
    alone = plain_text(explain_document(replace(explained, findings=(other,))))
    assert "Largest losses   nothing worth your time: no loss above 3% of the step" in alone
    assert "About this profile" in alone


def test_the_bar_is_as_wide_as_asked_and_shows_hidden_within_compute() -> None:
    def part(which: StepPart, fraction: float, within: StepPart | None = None) -> Slice:
        return Slice(part=which, label="", ms="", share="", fraction=fraction, within=within)

    slices = [
        part(StepPart.COMPUTE, 0.75),
        part(StepPart.HIDDEN, 0.25, within=StepPart.COMPUTE),
        part(StepPart.COLLECTIVE, 0.25),
    ]
    cells = dict(bar_cells(slices, 40))
    assert cells == {StepPart.COMPUTE: 20, StepPart.HIDDEN: 10, StepPart.COLLECTIVE: 10}


def few_steps(count: int) -> Timeline:
    """Runs of 80 ms, one every 100 ms, in markers from 5 on."""
    ms = 1_000_000
    spans = [Span("fusion", 100 * k * ms, 80 * ms, run=k) for k in range(count)]
    markers = [(None, 5 + k, 100 * k * ms, 90 * ms) for k in range(count)]
    return assemble([recording(spans, markers=markers)], ["few.xplane.pb"])


def test_a_single_step_has_no_step_time_but_its_program_has_one() -> None:
    explained = explain(few_steps(1))
    assert (explained.steps.median_ms, explained.steps.execution_ms) == (None, 80)
    assert explained.breakdown is not None
    assert explained.breakdown.idle_ms == 0


def test_of_two_steps_the_first_is_a_whole_one() -> None:
    steps = explain(few_steps(2)).steps
    assert (steps.count, steps.median_ms, steps.execution_ms) == (1, 100, 80)


def accumulated(update_ms: int = 10) -> Timeline:
    """Four runs of jit_grad and one of jit_update to a step, without markers."""
    ms = 1_000_000
    spans = [
        Span("fusion", (step * (120 + update_ms) + 30 * k) * ms, 30 * ms, module="jit_grad")
        for step in range(6)
        for k in range(4)
    ]
    spans += [
        Span(
            "add",
            (step * (120 + update_ms) + 120) * ms,
            update_ms * ms,
            line=1,
            module="jit_update",
        )
        for step in range(6)
    ]
    executions = [(0, span.module or "", span.start, span.dur) for span in spans]
    return assemble([recording(spans, executions=executions)], ["accumulated.xplane.pb"])


def a_run(step_s: float) -> Run:
    """Twenty steps, as lines of the program tell them."""
    steps = tuple(StepStart(n, 100 + n * step_s, "log") for n in range(20))
    return run_of(Rank(0, "host0", Path("rank0"), ENDED, steps=steps))


def flat(text: str) -> str:
    return " ".join(text.split())


def headline(explained: Explanation, run: Run | None = None) -> str:
    """What the report, the digest and the history say of the step time, without tables."""
    text = plain_text(explain_document(explained, run=run)).partition("\nLargest losses")[0]
    said = run_digest(explained, run)
    found = [text, f"\ndigest: {said.step_time}"]
    if run is not None:
        found.append(f"run: {steps_line(run)}")
    return "\n".join(found)


def test_headlines(golden: Golden, tmp_path: Path) -> None:
    guessed, marked = explain(accumulated()), explain(few_steps(4))
    golden(
        "headlines.txt",
        cases(
            {
                "one step, not whole": headline(explain(few_steps(1))),
                "two steps, of which the first is whole": headline(explain(few_steps(2))),
                "a step that is not whole is asked for": headline(explain(few_steps(4), step=8)),
                "a program that runs four times in a step": headline(guessed),
                "the same, where the other program takes little": headline(explain(accumulated(2))),
                "the run counted longer steps": headline(guessed, a_run(0.130)),
                "the run agrees": headline(guessed, a_run(0.033)),
                "the profile has markers, the run disagrees": headline(marked, a_run(0.300)),
                "the run alone has steps": headline(explain(few_steps(1)), a_run(0.125)),
                "one step is asked for": headline(explain(accumulated(), step=2), a_run(0.200)),
                "the run profiled all its steps": headline(guessed, profiled_run(tmp_path)),
            }
        ),
    )


def step_of(explained: Explanation, run: Run) -> float:
    """The step time of the summary, in ms."""
    return summarize_explanation(explained, "run", run).numbers["step_ms"]


def test_the_step_time_is_that_which_the_run_counted_not_the_guess_of_an_unmarked_profile() -> None:
    explained, run = explain(accumulated()), a_run(0.130)
    assert step_of(explained, run) == pytest.approx(130)
    assert "the step" not in run_digest(explained, run).largest_loss


@pytest.mark.parametrize(
    ("seconds", "line"),
    [
        ([196.8], "compiles 196.8 s in 1 compile of jit_step"),
        ([3.0, 1.5], "compiles 4.5 s in 2 compiles, the longest 3.0 s (jit_step)"),
        ([0.3], None),
    ],
)
def test_a_run_says_how_long_it_compiled(seconds: list[float], line: str | None) -> None:
    compiles = tuple(Compile("jit_step", took, "backend", 90.0) for took in seconds)
    run = a_run(0.1)
    run = replace(run, ranks=(replace(run.ranks[0], compiles=compiles),))
    said = [it for it in run_lines(run, Path("run")) if it.startswith("compiles")]
    assert said == ([line] if line else [])


def test_steps_inside_the_profile_that_agree_with_it_are_no_matter_of_markers() -> None:
    """The machine was slower outside the profile than inside it."""
    run = a_run(0.130)
    starts = [0.130 * n for n in range(10)] + [1.3 + 0.030 * n for n in range(6)]
    starts += [1.48 + 0.130 * n for n in range(10)]
    steps = tuple(StepStart(n, start, "log") for n, start in enumerate(starts))
    window = ProfileWindow("done", opened_s=1.29, closed_s=1.47)
    python = ObservedProcess(1, {}, "cpu", (), None, None, {}, window, {})
    run = replace(run, ranks=(replace(run.ranks[0], steps=steps, processes=(python,)),))
    text = flat(plain_text(explain_document(explain(accumulated()), run=run)))
    assert "130.0 ms median" in text
    assert "30.00 ms by the run's own count, too" in text
    assert "no step markers in the profile" not in text
    other = flat(plain_text(explain_document(explain(accumulated()), run=a_run(0.130))))
    assert "no step markers in the profile" in other


def test_a_line_for_every_fifth_step_tells_of_five_steps() -> None:
    """One interval inside the profile is five steps; six before it are thirty."""
    run = a_run(0.130)
    starts = [0.625 * n for n in range(7)] + [3.75 + 0.150 * n for n in (1, 2, 3)]
    steps = tuple(StepStart(5 * n, start, "log") for n, start in enumerate(starts))
    window = ProfileWindow("done", opened_s=3.75, closed_s=4.25)
    python = ObservedProcess(1, {}, "cpu", (), None, None, {}, window, {})
    run = replace(run, ranks=(replace(run.ranks[0], steps=steps, processes=(python,)),))
    text = flat(plain_text(explain_document(explain(accumulated()), run=run)))
    assert "125.0 ms median 30 steps, by the run's own count" in text
    assert "30.00 ms by the run's own count, too" in text
    assert " 46 " in plain_text(runs_document([run], [], "here"))


def test_a_run_that_agrees_with_its_profile_leaves_the_step_to_the_profile() -> None:
    assert step_of(explain(accumulated()), a_run(0.033)) == pytest.approx(30)


def test_a_log_has_the_step_times_of_the_profile_and_of_the_run_and_says_which_is_which() -> None:
    run = a_run(0.033)
    summary = summarize_explanation(explain(accumulated()), "run", run)
    assert summary.numbers["step_ms"] == pytest.approx(30)
    assert summary.numbers["run_step_ms"] == pytest.approx(33)
    assert summary.numbers["run_steps"] == 19
    assert "tokens_per_s" not in summary.numbers  # no trainer's options tell them
    meanings = {figure.name: figure.meaning for figure in summary.figures}
    assert meanings["step_ms"].endswith("from the profile")
    own = summarize_explanation(explain(accumulated()), "run", a_run(0.130))
    meanings = {figure.name: figure.meaning for figure in own.figures}
    assert meanings["step_ms"].endswith("the Run's own count")
    assert summary.numbers["step_min_ms"] <= 30 <= summary.numbers["step_max_ms"]
    assert not {"step_min_ms", "step_max_ms"} & own.numbers.keys()  # of another duration


@pytest.mark.parametrize("has_profile", [True, False])
def test_a_log_has_the_tokens_that_the_trainers_options_tell(has_profile: bool) -> None:
    run = a_run(0.033)
    process = ObservedProcess(1, {}, "gpu", ("a", "b"), 0, 1, {}, None, {})
    words = "python -m maxtext.trainers.pre_train.train per_device_batch_size=4"
    run = replace(
        run,
        command=(*words.split(), "max_target_length=1000"),
        ranks=(replace(run.ranks[0], processes=(process,)),),
    )
    explained = summarize_explanation(explain(accumulated()), "run", run)
    numbers = (explained if has_profile else summarize_run(run)).numbers
    assert numbers["tokens_per_s"] == pytest.approx(2 * 4 * 1000 / 0.033)
    assert numbers["tokens_per_s_device"] == pytest.approx(4 * 1000 / 0.033)
    compiling = replace(compiled_run(0, 1, steps=3), command=run.command)
    assert "run_step_ms" not in summarize_run(compiling).numbers


@pytest.mark.parametrize(
    ("chosen", "which"),
    [
        ({"step": 2}, "step 2"),
        ({"steps": "2:3"}, "step 2"),
        ({"steps": "1:4"}, "the median of steps 1 to 3"),
        ({"last": 1}, "step 22"),
    ],
)
def test_of_chosen_steps_the_time_is_theirs_and_not_that_which_the_run_counted(
    chosen: dict[str, Any], which: str
) -> None:
    explained, run = explain(accumulated(), **chosen), a_run(0.200)
    text = flat(plain_text(explain_document(explained, run=run)))
    assert "Step time 30.00 ms" in text
    assert "200.0 ms" in text
    assert f"Where {which} goes" in text
    lines = explain_digest(explained, run).text(4000).splitlines()
    assert lines[1].startswith("step [measured]: 30.00 ms, ")
    assert "[measured]: 200.0 ms, " in lines[2]
    assert any(line.startswith(f"parts of {which} [measured]: ") for line in lines)
    figures = summarize_explanation(explained, "run", run).numbers
    assert figures["step_ms"] == pytest.approx(30)


def test_in_a_short_digest_the_largest_loss_comes_before_the_run_s_own_count() -> None:
    explained, run = explain(accumulated(), step=2), a_run(0.200)
    title = f"devices wait 9.00 ms per step for {'all-reduce' * 9}"
    loss = Finding(
        code="STEP101",
        title=title,
        detail="",
        saves_ms=Range(0, 9),
        basis=Basis.MEASURED,
        evidence=(),
        remedy=Remedy("overlap them"),
    )
    lines = explain_digest(replace(explained, findings=(loss,)), run).text(LEAST).splitlines()
    assert any(line.startswith("STEP101 [measured]") for line in lines)
    assert not any("200.0 ms" in line for line in lines)


def compiled_run(*within: int, steps: int) -> Run:
    """Steps of 33 ms; what is compiled within one takes 200 ms more."""
    run, now_s, starts, compiles = a_run(0.033), 100.0, list[StepStart](), list[Compile]()
    for number in range(steps):
        starts.append(StepStart(number, now_s, "annotation"))
        if number in within:
            compiles.append(Compile("jit_step", 0.2, "backend", at_s=now_s + 0.21))
            now_s += 0.2
        now_s += 0.033
    rank = replace(run.ranks[0], steps=tuple(starts), compiles=tuple(compiles))
    return replace(run, ranks=(rank,))


@pytest.mark.parametrize(
    ("run", "line"),
    [
        (compiled_run(0, 1, steps=4), "4 seen, median 33.00 ms of the 1 without comp"),
        (compiled_run(0, 1, 2, steps=5), "5 seen, median 33.00 ms of the 1 without compilation"),
        (compiled_run(0, 1, steps=3), "3 seen, median 233.0 ms of 1 (it includes a comp"),
        (compiled_run(0, 1, 2, 3, steps=5), "5 seen, median 233.0 ms of 3 (each includes a comp"),
        (compiled_run(0, steps=3), "3 seen, median 33.00 ms, "),
        (
            compiled_run(0, 1, steps=9),
            "9 seen, median 33.00 ms of the 6 without compilation or prof",
        ),
    ],
)
def test_a_step_in_which_something_was_compiled_is_no_step_time(run: Run, line: str) -> None:
    assert steps_line(run).startswith(line)


def test_steps_of_which_every_fifth_is_printed_are_counted_all() -> None:
    run = a_run(0.033)
    starts = tuple(StepStart(5 * turn, 100 + 0.165 * turn, "log") for turn in range(12))
    printed = replace(run, ranks=(replace(run.ranks[0], steps=starts),))
    assert steps_line(printed).startswith("56 seen, 12 of them printed, median 33.00 ms")


def profiled_run(path: Path) -> Run:
    """A run whose profile covers all its steps."""
    (path / "made.xplane.pb").touch()
    window = ProfileWindow("done", opened_s=100.05, closed_s=200.0, files=("made.xplane.pb",))
    python = ObservedProcess(1, {}, "cpu", (), None, None, {}, window, {})
    run = a_run(0.033)
    return replace(run, ranks=(replace(run.ranks[0], path=path, processes=(python,)),))


def test_steps_that_were_profiled_are_not_said_to_be_outside_the_profile(tmp_path: Path) -> None:
    run = profiled_run(tmp_path)
    text = flat(plain_text(explain_document(explain(accumulated()), run=run)))
    assert "33.00 ms, median of the 18 steps" in text
    assert "does not cover" not in text
    assert "18" in steps_line(run)


def test_markers_of_a_profile_stand_over_the_count_of_the_run() -> None:
    assert step_of(explain(few_steps(4)), a_run(0.300)) == pytest.approx(100)


def test_a_run_tells_the_step_time_where_its_profile_has_no_whole_step() -> None:
    assert step_of(explain(few_steps(1)), a_run(0.125)) == pytest.approx(125)


@pytest.mark.parametrize(("update_ms", "is_shown"), [(10, True), (2, False)])
def test_the_guess_stands_under_the_headline_where_other_programs_take_much(
    update_ms: int, is_shown: bool
) -> None:
    text = flat(plain_text(explain_document(explain(accumulated(update_ms)))))
    guess = "the program with most device time"
    headline = text.partition("Where a median step goes")[0]
    assert (guess in headline) is is_shown
    assert "jit_grad runs 4 times" in headline


def test_a_step_is_asked_for_by_the_number_of_its_marker() -> None:
    timeline = few_steps(4)
    assert "Where step 6 goes" in plain_text(explain_document(explain(timeline, step=6)))
    cut = explain(timeline, step=8)
    assert cut.steps.median_ms is None
    with pytest.raises(UsageError, match="step 0") as refused:
        explain(timeline, step=0)
    assert "5 to 8" in str(refused.value.why)
