"""The report of a study as a user meets it: the text itself, widths, hostile names, the JSON."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import tune_conclusions
from counterpoint.core import Unknown
from counterpoint.report.document import TextTable
from counterpoint.report.fit import fit
from counterpoint.report.terminal import plain_text, print_document
from counterpoint.report.tune.figures import clock, duration, gain_text
from counterpoint.report.tune.tune_document import tune_document
from counterpoint.report.tune.tune_json import tune_json
from counterpoint.tune.conclusion.conclusion import ArmRow, Conclusion
from golden_files import Golden, cases

STUDY = Path("studies/llama")
KINDS: tuple[Callable[[], Conclusion], ...] = (
    tune_conclusions.found,
    tune_conclusions.nothing,
    tune_conclusions.foreseen,
    tune_conclusions.unfinished,
)


class Screen(io.StringIO):
    """A stream that calls itself a terminal."""

    def isatty(self) -> bool:
        return True


def text_of(conclusion: Conclusion, top: int = 20) -> str:
    return plain_text(tune_document(conclusion, STUDY, top, "counterpoint tune show"))


@pytest.mark.parametrize("kind", KINDS, ids=lambda it: it.__name__)
def test_the_text(kind: Callable[[], Conclusion], golden: Golden) -> None:
    golden(f"tune_{kind.__name__}.txt", text_of(kind()))


@pytest.mark.parametrize("kind", KINDS, ids=lambda it: it.__name__)
def test_the_verdict_comes_first(kind: Callable[[], Conclusion]) -> None:
    said = " ".join(text_of(kind()).split())
    assert said.startswith(f"Verdict {' '.join(kind().sentence.split())}")


@pytest.mark.parametrize("width", [60, 80, 120])
def test_tables_fit_the_screen_and_settings_stay_whole(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", str(width))
    screen = Screen()
    print_document(tune_document(tune_conclusions.found(), STUDY, 20, "next"), screen)
    text = re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue())
    assert "--xla_gpu_all_gather_combine_threshold_bytes=536870912" in text
    *lines, _ = text.splitlines()
    assert any(it.startswith("gain: ") for it in lines)
    assert max(len(it) for it in lines if "--xla_" not in it) <= width


def test_what_is_not_done_says_so() -> None:
    assert "INTERRUPTED  it was interrupted" in text_of(tune_conclusions.unfinished())
    running = replace(tune_conclusions.found(), state="running")
    assert "RUNNING" in text_of(running)
    assert "RUNNING" not in text_of(tune_conclusions.found())


def out(name: str, why: str) -> ArmRow:
    return ArmRow(arm=tune_conclusions.arm(name), status="no budget", why=why)


MADE = tune_conclusions.found()
MANY = tuple(out(f"arm{it}", f"its peak of {it}.5 GiB is too large") for it in range(70, 90))
ALIKE = replace(MADE.rows[-1], arm=replace(MADE.rows[-1].arm, name="all-gather threshold 65 MiB"))


def test_parts_that_differ(golden: Golden) -> None:
    def verdict(text: str) -> str:
        return text.partition("\nArms")[0]

    def reasons(*rows: ArmRow) -> str:
        """What stands below the table of arms."""
        text = text_of(replace(MADE, rows=(*MADE.rows, *rows)))
        return text[text.index("\n  slower ") : text.index("\nWhat each change")].lstrip("\n")

    def changes(text: str) -> str:
        return text.partition("\nWhat each change")[2].partition("\nNoise")[0]

    only_predicted = text_of(replace(MADE, ablation=MADE.ablation[1:]))
    golden(
        "tune_parts.txt",
        cases(
            {
                "a gain that was not confirmed": verdict(text_of(replace(MADE, confirmed=False))),
                "interrupted": verdict(text_of(tune_conclusions.unfinished())),
                "the first rows of a table": text_of(MADE, top=2).partition("\nWhat each")[0],
                "two arms of one reason": reasons(ALIKE),
                "many arms of one kind": reasons(*MANY),
                "changes that were only predicted": changes(only_predicted),
            }
        ),
    )


def test_top_cuts_the_table_and_says_of_how_many() -> None:
    text = text_of(tune_conclusions.found(), top=2)
    assert "2 rows of 5" in text
    assert "--top 5" in text
    assert "\n  NVLS off" not in text
    assert "out of memory  memory fraction 0.95: RESOURCE_EXHAUSTED" in text  # what failed shows


def test_arms_of_one_reason_are_told_together() -> None:
    text = " ".join(text_of(replace(MADE, rows=(*MADE.rows, ALIKE))).split())
    assert f"{MADE.rows[-1].arm.name}, {ALIKE.arm.name}: {ALIKE.why}" in text


def test_no_arm_is_told_with_the_figures_of_another() -> None:
    made = tune_conclusions.found()
    rows = (out("a", "-0.1% after 2 rows"), out("b", "-2.8% after 2 rows"))
    text = text_of(replace(made, rows=(*made.rows, *rows)))
    assert "a: -0.1% after 2 rows\n" in text
    assert "b: -2.8% after 2 rows\n" in text


def test_many_of_one_kind_are_told_by_their_first() -> None:
    text = " ".join(text_of(replace(MADE, rows=(*MADE.rows, *MANY))).split())
    assert f"arm70: {MANY[0].why}" in text
    assert "13 more" in text
    assert "71.5" not in text


def test_what_a_compiler_said_is_one_line_of_plain_text() -> None:
    made = tune_conclusions.found()
    said = "refused:\n\tfirst,\n second"
    rows = (*made.rows, out("a", said))
    text = text_of(replace(made, rows=rows, sentence=f"it fails: {said}", notes=(said,)))
    assert text.count("refused: first, second") == 3
    assert "\\n" not in text


def test_where_no_step_is_compared_with_a_prediction_no_column_says_so() -> None:
    made = tune_conclusions.found()
    assert "step error" in text_of(made)
    text = text_of(replace(made, rows=tuple(replace(it, prediction_off=None) for it in made.rows)))
    assert "step error" not in text
    assert "predicted" in text


def test_an_interrupted_trial_is_no_failure_of_its_arm() -> None:
    made = tune_conclusions.found()
    base = replace(made.rows[0], trials=7, failures=3, interrupted=2)
    assert "7 (1 failed, 2 interrupted)" in text_of(replace(made, rows=(base, *made.rows[1:])))
    base = replace(base, failures=2)
    assert "7 (2 interrupted)" in text_of(replace(made, rows=(base, *made.rows[1:])))


def test_changes_that_were_only_predicted_are_said_to_be() -> None:
    made = tune_conclusions.found()
    assert "as predicted" not in text_of(made)
    only = replace(made, ablation=made.ablation[1:])
    assert "as predicted" in " ".join(text_of(only).split())


def test_names_never_reach_the_terminal_as_commands() -> None:
    evil = "x\x1b]0;owned\x07"
    made = tune_conclusions.found()
    arm = replace(tune_conclusions.WINNER, name=evil)
    rows = (replace(made.rows[0], arm=arm, why=evil, status=evil),)
    text = text_of(replace(made, winner=arm, rows=rows, notes=(evil,), sentence=evil))
    assert "\x1b" not in text
    assert "\\x1b]0;owned\\x07" in text


def test_the_json_has_all_of_it_and_null_for_what_is_not_known() -> None:
    data = json.loads(tune_json(tune_conclusions.found(), STUDY))
    assert data["schema"] == "counterpoint.tune/1"
    assert (data["gain"], data["range"], data["confirmed"]) == (0.031, [0.023, 0.039], True)
    assert [it["name"] for it in data["arms"]] == [
        it.arm.name for it in tune_conclusions.found().rows
    ]
    first = data["arms"][0]
    assert first["raced"]["gain"] == 0.033
    assert first["confirmed"]["gain"] == 0.031
    assert first["predicted"]["gain_range"] == [0.011, 0.058]
    assert first["changes"][0]["dimension"] == "pipelined all-gather"
    assert ["xla_gpu_enable_pipelined_all_gather", "true"] in data["settings"]["xla_flags"]
    assert data["ablation"][1]["range"] is None

    open_ = json.loads(tune_json(tune_conclusions.unfinished(), STUDY))
    assert open_["arms"][0]["raced"]["range"] is None
    raced = tune_conclusions.unfinished().rows[0].raced
    assert raced is not None
    assert isinstance(raced.range, Unknown)
    assert open_["arms"][0]["raced"]["why_no_range"] == raced.range.reason
    assert (open_["winner"], open_["settings"], open_["gain"]) == (None, None, None)
    assert (open_["noise"]["sigma"], open_["noise"]["floor"]) == (None, 0.005)


def test_every_key_of_the_json_is_told_in_the_reference() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/tune-json.md").read_text()
    named = set(re.findall(r"`(\w+)`", page))

    def keys(value: object) -> set[str]:
        if isinstance(value, list):
            return {key for it in value for key in keys(it)}
        if isinstance(value, dict):
            inner = (keys(it) for name, it in value.items() if name != "environment")
            return set(value).union(*inner)
        return set()

    for kind in KINDS:
        missing = keys(json.loads(tune_json(kind(), STUDY))) - named
        assert missing == set()


def test_figures_as_text() -> None:
    assert [gain_text(it) for it in (0.031, -0.0004, -0.012, None, float("nan"))] == [
        "+3.1%", "0.0%", "-1.2%", "?", "?",
    ]  # fmt: skip
    assert [duration(it) for it in (0, 119.4, 120, 4980, None)] == [
        "0 s", "119 s", "2 min", "1 h 23 min", "?",
    ]  # fmt: skip
    assert [clock(it) for it in (7, 127.9, 3727)] == ["0:07", "2:07", "1:02:07"]


@pytest.mark.parametrize("width", [48, 60, 80])
def test_names_of_arms_stay_whole_so_that_they_can_be_given_to_arm(width: int) -> None:
    name = " + ".join(f"all-gather threshold {size} MiB" for size in (64, 128, 256))
    found = tune_conclusions.found()
    rows = [replace(it, arm=replace(it.arm, name=f"{name} {n}")) for n, it in enumerate(found.rows)]
    document = tune_document(replace(found, rows=tuple(rows)), STUDY, 20, "next")
    tables = [it for one in document.sections for it in one.blocks if isinstance(it, TextTable)]
    arms = next(it for it in tables if it.columns[0].title == "arm")
    shown = [" ".join(row[0].split()) for row in fit(arms, width).rows]
    assert set(shown) == {row[0] for row in arms.rows} <= {it.arm.name for it in rows}
