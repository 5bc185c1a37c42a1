"""Results as a notebook shows them: short in text, and as HTML in which nothing runs."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from compare_pairs import program, sine, timeline

import counterpoint
import timelines
import tune_conclusions
import tune_studies
from counterpoint.core.basis import shorten_names
from counterpoint.diagnose.explanation import Explanation
from counterpoint.diagnose.network.analysis import analyze_network
from counterpoint.pgle.checking.difference import diff_profiles
from counterpoint.pgle.profiles.profile import InstructionCost, Profile
from counterpoint.report.document import Chart, Document, Log, Prose, Section, Series
from counterpoint.report.html import document_html, html_of
from counterpoint.timeline.storage.parquet import write_parquet
from counterpoint.tune.study.study import Study
from tune_studies import change

ELEMENTS = {
    *("div", "section", "h2", "h3", "p", "span", "pre", "code", "ol", "li"),
    *("table", "caption", "thead", "tbody", "tfoot", "tr", "td", "th"),
}
ATTRIBUTES = {"style", "role", "scope", "tabindex", "aria-label", "value"}
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&"


class Page(HTMLParser):
    """Every tag with its attributes, and the text between."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def page(value: object) -> Page:
    html = html_of(value)
    found = Page(html)
    assert not found.open
    assert {tag for tag, _ in found.tags} <= ELEMENTS
    assert {name for _, attributes in found.tags for name in attributes} <= ATTRIBUTES
    assert "url(" not in html
    return found


@pytest.fixture(scope="module")
def explained() -> Explanation:
    return counterpoint.explain(timelines.two_devices())


def compared() -> counterpoint.Comparison:
    hlo = program(sine("first", "mlp/sin"), sine("second", "head/sin"))
    spans = [("first", 0, 4, 0), ("second", 6, 2, 0)]
    a, b = (timeline(hlo, spans, step_ms=[10.0 * by] * 7) for by in (1.0, 1.1))
    return counterpoint.compare(a, b)


def study() -> Study:
    return tune_studies.Made(tune_studies.arm("fused", change("fused"))).study


@pytest.fixture(scope="module")
def predicted(tmp_path_factory: pytest.TempPathFactory) -> counterpoint.Prediction:
    path = tmp_path_factory.mktemp("program") / "step.hlo.txt"
    path.write_text(timelines.HLO)
    return counterpoint.predict(path, target="2xH100")


def test_an_explanation_is_drawn_with_its_bar_tables_and_findings(explained: Explanation) -> None:
    shown = page(explained)
    assert "a median step" in shown.text
    assert explained.findings[0].title in shown.text
    bar = [it["style"] or "" for tag, it in shown.tags if tag == "span" and "%" in str(it)]
    widths = [float(it.partition("width:")[2].partition("%")[0]) for it in bar]
    assert sum(widths) == pytest.approx(100, abs=0.5)
    phases = re.search(r'<td style="([^"]*)">forward [^<]+   backward ', html_of(explained))
    assert phases is not None
    assert "white-space:pre-wrap" in phases[1]  # they stay apart


def test_a_comparison_and_a_prediction_are_drawn(predicted: counterpoint.Prediction) -> None:
    assert "B is slower" in page(compared()).text
    shown = page(predicted).text
    assert "Predicted step" in shown
    assert "on 2xH100, not measured" in shown


def test_a_study_and_its_verdict_are_drawn() -> None:
    assert "Verdict" in page(tune_conclusions.found()).text
    assert "Verdict" in page(study()).text


def test_a_timeline_is_told_in_a_line() -> None:
    assert "spans on 2 devices" in page(timelines.two_devices()).text


def test_names_from_a_file_never_become_elements(explained: Explanation) -> None:
    ops = explained.ops.with_columns(op=explained.ops["op"].replace("fusion.1", HOSTILE))
    finding = replace(explained.findings[0], title=HOSTILE, detail=HOSTILE)
    hostile = replace(explained, ops=ops, notes=(HOSTILE,), inputs=(HOSTILE,), findings=(finding,))
    assert page(hostile).text.count(HOSTILE) >= 4


def test_every_block_is_escaped() -> None:
    wrapped = "<i>&</i>"  # short: a chart wraps its remarks
    series = Series(label=HOSTILE, levels=(0.0, 1.0), remark=wrapped)
    chart = Chart(series=(series,), first=HOSTILE, last=HOSTILE)
    blocks = (chart, Log((HOSTILE,)), Prose(HOSTILE))
    section = Section(HOSTILE, HOSTILE, blocks)
    document = Document(sections=(section,), legend=HOSTILE, next=HOSTILE)
    shown = Page(document_html(document))
    assert {tag for tag, _ in shown.tags} <= ELEMENTS
    assert shown.text.count(HOSTILE) == 9
    assert wrapped in shown.text


def test_what_is_printed_of_a_result_is_short_and_has_the_answer(
    explained: Explanation, predicted: counterpoint.Prediction
) -> None:
    made = timelines.two_devices()
    said = {
        repr(made): "spans on 2 devices",
        repr(explained): f"first {explained.findings[0].code}",
        repr(compared()): "(+10.0%)",
        repr(predicted): "on 2xH100: step ",
        repr(predicted.base): "step ",
        repr(tune_conclusions.found()): tune_conclusions.found().sentence,
        repr(study()): "arms",
        repr(analyze_network(made)): "collectives",
    }
    for text, answer in said.items():
        assert answer in text
        assert len(text) < 500
        assert "\n" not in text


def test_profiles_of_many_costs_are_short_in_print() -> None:
    many = Profile(tuple(InstructionCost(f"fusion.{at}", float(at)) for at in range(5000)))
    assert repr(many) == "<Profile of 5,000 costs of 0 modules>"
    assert len(repr(diff_profiles(many, many))) < 100


def test_many_long_inputs_are_told_by_their_ends() -> None:
    names = [f"/{'d' * 300}/host{at}.xplane.pb" for at in range(64)]
    text = shorten_names(names)
    assert text.endswith("host1.xplane.pb' and 62 more")
    assert len(text) < 160


def test_what_has_no_report_is_refused() -> None:
    with pytest.raises(TypeError, match="int "):
        html_of(3)


@pytest.mark.smoke
def test_results_are_drawn_however_the_package_was_imported(tmp_path: Path) -> None:
    """Also where a room was imported by its own name, and no report before."""
    (tmp_path / "try.py").write_text(
        "import sys, timelines\n"
        "from counterpoint.diagnose.explanation import explain\n"
        "made = explain(timelines.two_devices())\n"
        "assert 'counterpoint.report.html' not in sys.modules\n"
        "assert 'Where a median step goes' in made._repr_html_()\n"
    )
    tests = str(Path(__file__).parents[1])
    done = subprocess.run(
        [sys.executable, str(tmp_path / "try.py")],
        env={"PYTHONPATH": tests, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_path_is_explained_as_what_it_holds(tmp_path: Path) -> None:
    kept = write_parquet(timelines.two_devices(), tmp_path / "kept")
    for path in (kept, str(kept)):
        assert (
            counterpoint.explain(path).steps == counterpoint.explain(counterpoint.read(path)).steps
        )
