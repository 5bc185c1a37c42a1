"""A Document in a page of the view: marked by classes, read by screen readers, and nothing runs."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

import counterpoint
import timelines
from counterpoint.report.document import (
    BreakdownBar,
    Chart,
    Document,
    Fact,
    FactList,
    Log,
    NumberedItem,
    Prose,
    Section,
    Series,
    Slice,
    StepPart,
    Tone,
    names,
    numbers,
    table,
)
from counterpoint.report.explain.explain_document import explain_document
from counterpoint.report.markup import document_markup
from counterpoint.view.page import asset

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&\x1b\u202e"
SHOWN = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&\\x1b\\u202e"


class Markup(HTMLParser):
    """Every element with its attributes, and the text between."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def of_blocks(*blocks: object) -> Markup:
    section = Section(HOSTILE, HOSTILE, blocks)  # type: ignore[arg-type]
    return Markup(document_markup(Document(sections=(section,), legend=HOSTILE, next=HOSTILE)))


def every_block() -> Markup:
    item = NumberedItem(
        number=7, title=HOSTILE, price=HOSTILE, text=HOSTILE, rows=(Fact(HOSTILE, HOSTILE),)
    )
    part = Slice(
        part=StepPart.COLLECTIVE, label=HOSTILE, ms="1", share="100%", fraction=1, remark=HOSTILE
    )
    series = Series(label=HOSTILE, levels=(0.0, 1.0), remark="short")
    return of_blocks(
        FactList((Fact(HOSTILE, HOSTILE, Tone.WARNING),)),
        BreakdownBar((part,)),
        table(names("name", [HOSTILE]), numbers("ms", ["1.0"], total="1.0")),
        Chart(series=(series,), first=HOSTILE, last=HOSTILE),
        Prose(HOSTILE),
        Log((HOSTILE,)),
        item,
    )


def test_names_from_a_file_never_become_elements() -> None:
    shown = every_block()
    assert {name for name, _ in shown.elements}.isdisjoint({"script", "img"})
    assert shown.text.count(SHOWN) >= 14
    assert "\x1b" not in shown.text
    assert "\u202e" not in shown.text


def test_only_widths_are_inline_and_colors_are_left_to_the_style_sheet() -> None:
    styles = [found["style"] for _, found in every_block().elements if "style" in found]
    assert styles
    assert all(re.fullmatch(r"width:[\d.]+%", style or "") for style in styles)
    assert not [name for _, found in every_block().elements for name in found if name[:2] == "on"]


def test_a_heat_map_has_a_figure_and_a_shade_in_each_cell() -> None:
    figures = table(names("host", ["a", "b"]), numbers("1", ["?", "7"]), numbers("2", ["8", "9"]))
    shown = of_blocks(replace(figures, shades=((0, 5), (1, 9))))
    kinds = [it.get("class") for name, it in shown.elements if name == "td"]
    shades = [kind for kind in kinds if kind != "name-column"]
    assert shades == ["heat heat-0", "heat heat-5", "heat heat-1", "heat heat-9"]
    assert shown.text.index("?") < shown.text.index("8") < shown.text.index("7")
    style = asset("app.css").decode()
    assert all(f".heat-{number}{{background:" in style for number in range(10))


def test_what_screen_readers_need_is_there() -> None:
    elements = every_block().elements
    scopes = {found.get("scope") for name, found in elements if name == "th"}
    assert scopes == {"row", "col"}
    assert all(found.get("aria-label") for _, found in elements if found.get("role"))
    assert ("li", {"class": "finding", "value": "7"}) in elements


@pytest.mark.parametrize("rows", [1, 10])
def test_the_report_of_explain_is_whole(rows: int) -> None:
    explained = counterpoint.explain(timelines.two_devices())
    document = explain_document(explained, rows)
    shown = Markup(document_markup(document))
    kinds = {found.get("class") for _, found in shown.elements}
    assert {"report-section", "facts", "data", "breakdown", "findings"} <= kinds
    assert all(section.title in shown.text for section in document.sections)
