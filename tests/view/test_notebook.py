"""Results in a notebook: the report as before, and below it a page in a frame of its own."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from compare_pairs import program, sine, timeline

import counterpoint
import timelines
import tune_conclusions
import tune_studies
from counterpoint.report.html import html_of
from counterpoint.view import notebook

HOSTILE = "</script><script>alert(1)</script>'\"<img src=x onerror=alert(1)>"


class Frames(HTMLParser):
    """The frames of a text, and every other element."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.frames: list[dict[str, str | None]] = []
        self.others: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "iframe":
            self.frames.append(dict(attrs))
        else:
            self.others.append(tag)


def shown(value: object) -> str:
    html = value._repr_html_()  # type: ignore[attr-defined]
    assert isinstance(html, str)
    return html


def compared() -> counterpoint.Comparison:
    hlo = program(sine("first", "mlp/sin"), sine("second", "head/sin"))
    spans = [("first", 0, 4, 0), ("second", 6, 2, 0)]
    a, b = (timeline(hlo, spans, step_ms=[10.0 * by] * 7) for by in (1.0, 1.1))
    return counterpoint.compare(a, b)


def test_a_timeline_and_what_was_made_from_it_have_a_frame_below_the_report() -> None:
    made = timelines.two_devices()
    for value in (made, counterpoint.explain(made), compared()):
        html = shown(value)
        assert html.startswith(html_of(value))
        (frame,) = Frames(html).frames
        assert frame["sandbox"] == "allow-scripts"  # without an origin: nothing of the notebook
        assert (frame["srcdoc"] or "").startswith("<!doctype html>")
        assert len(html) < 1_000_000


def test_a_study_and_its_conclusion_have_a_frame_with_the_arms() -> None:
    for value in (
        tune_conclusions.found(),
        tune_studies.Made(tune_studies.arm("fused", tune_studies.change("fused"))).study,
    ):
        html = shown(value)
        assert html.startswith(html_of(value))
        (frame,) = Frames(html).frames
        assert '"arms":[{"name":' in (frame["srcdoc"] or "")


def test_what_is_too_large_is_a_report_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    made = timelines.two_devices()
    with monkeypatch.context() as patch:
        patch.setattr(notebook, "_SPANS", len(made.spans) - 1)
        assert not Frames(shown(made)).frames
    monkeypatch.setattr(notebook, "_MOST", 1000)
    assert shown(made) == html_of(made)


def test_large_results_leave_room_for_the_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "explain_json", lambda _: f'{{"notes": ["{"x" * 3_000_000}"]}}')
    (frame,) = Frames(shown(counterpoint.explain(timelines.two_devices()))).frames
    assert 'id="block-0.0.' in (frame["srcdoc"] or "")


def test_no_name_ends_the_frame() -> None:
    spans = [(HOSTILE, 0, 4, 0)]
    made = timeline(None, spans, step_ms=[10.0] * 3)
    found = Frames(shown(made))
    assert len(found.frames) == 1
    assert found.others == ["p"]


def test_one_device_is_not_devices() -> None:
    one = timeline(program(sine("first", "mlp/sin")), [("first", 0, 4, 0)])
    assert f" on 1 device, {one.steps['step'].n_unique()} step" in repr(one)
    assert " on 2 devices, " in repr(timelines.two_devices())
