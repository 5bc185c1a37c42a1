"""The timeline in a real browser: by keys and pointer, to the op that waits, and by its address."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from compare_pairs import program, sine
from compare_pairs import timeline as made

from chromium import Visit, expect
from command_line import in_process
from counterpoint.timeline.hosts.assemble import assemble
from counterpoint.timeline.storage.parquet import write_parquet
from counterpoint.view.page import PageContent, one_file
from made_fleet import write_profiles
from recordings import Span, recording

if TYPE_CHECKING:
    from playwright.sync_api import Locator

pytestmark = pytest.mark.system

Visitor = Callable[..., Visit]


@pytest.fixture(scope="module")
def page(stored: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("page") / "page.html"
    assert in_process("explain", stored, "--html", out).returncode == 0
    return out


@pytest.fixture
def timeline(page: Path, visit: Visitor) -> Visit:
    visited = visit(page)
    visited.show("timeline")
    return visited


def window(visited: Visit) -> tuple[float, float]:
    """What part of the run the address says is shown."""
    where = visited.rest()
    numbers = [re.search(rf"\b{name}=([\d.]+)", where) for name in ("from", "to")]
    assert all(numbers), where
    first, last = (float(found[1]) for found in numbers if found)
    return first, last


def press(visited: Visit, key: str, times: int = 1) -> None:
    for _ in range(times):
        visited.page.keyboard.press(key)
        visited.page.wait_for_timeout(60)


def details_of(visited: Visit) -> Locator:
    return visited.page.get_by_role("complementary", name="Details of the selection")


def look_for(visited: Visit, text: str) -> None:
    """Go to the first op of a name by keys."""
    visited.page.locator("canvas.tl-top").focus()
    visited.page.keyboard.press("/")
    visited.page.keyboard.type(text)
    visited.page.keyboard.press("Enter")
    expect(details_of(visited)).to_contain_text(text)


def test_keys_zoom_and_move(timeline: Visit) -> None:
    timeline.page.locator("canvas.tl-top").focus()
    press(timeline, "w", 3)
    near = window(timeline)
    press(timeline, "d", 3)
    right = window(timeline)
    assert right[0] > near[0]
    assert right[1] - right[0] == pytest.approx(near[1] - near[0], rel=0.05)
    press(timeline, "s", 3)
    wide = window(timeline)
    assert wide[1] - wide[0] > near[1] - near[0]
    press(timeline, "a", 2)
    assert window(timeline)[0] < wide[0]


def wheeled(visited: Visit) -> tuple[float, float]:
    before = visited.address
    for _ in range(3):
        visited.page.mouse.wheel(0, -200)
        visited.page.wait_for_timeout(60)
    visited.page.wait_for_function("before => location.href !== before", arg=before)
    return window(visited)


def test_the_wheel_zooms_where_the_pointer_is(timeline: Visit) -> None:
    box = timeline.page.locator("canvas.tl-top").bounding_box()
    assert box
    timeline.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60)
    first, second = (wheeled(timeline) for _ in range(2))
    assert first[0] <= second[0] < second[1] <= first[1]
    assert second[1] - second[0] < first[1] - first[0]


def test_a_search_leads_to_the_op_and_its_details(timeline: Visit) -> None:
    look_for(timeline, "all-gather")
    expect(details_of(timeline)).to_contain_text("measured")
    assert "op=" in timeline.rest()


def test_a_finding_opens_where_it_is_worst(timeline: Visit) -> None:
    chosen = timeline.page.get_by_label("Go to a finding")
    values = [option.get_attribute("value") or "" for option in chosen.locator("option").all()]
    chosen.select_option(next(value for value in values if "STEP101" in value))
    expect(details_of(timeline)).to_contain_text("all-gather")


def test_a_finding_about_idle_time_opens_at_the_gap(timeline: Visit, visit: Visitor) -> None:
    timeline.page.get_by_label("Go to a finding").select_option("STEP301")
    details = details_of(timeline)
    expect(details).to_contain_text("Idle time")
    expect(details).to_contain_text("STEP301")
    text = " ".join(details.inner_text().split())
    assert "GPU 0 measured" in text
    assert "Duration 1.500 ms measured" in text
    start, end = window(timeline)
    assert start < 29_500_000_000
    assert end > 31_000_000_000
    again = visit(timeline.address)
    again.page.get_by_text("Idle time").wait_for()


def test_an_address_leads_to_the_same_place_and_op(timeline: Visit, visit: Visitor) -> None:
    timeline.page.locator("canvas.tl-top").focus()
    press(timeline, "w", 4)
    look_for(timeline, "fusion.2")
    again = visit(timeline.rest())
    expect(details_of(again)).to_contain_text("fusion.2")
    assert window(again) == pytest.approx(window(timeline))


@pytest.mark.parametrize(
    ("named", "notice"),
    [("step=999", "no step 999 here"), ("finding=STEP999", "no place of a finding STEP999 here")],
)
def test_an_address_of_what_is_not_there_says_so(
    page: Path, visit: Visitor, named: str, notice: str
) -> None:
    visited = visit(f"{page.as_uri()}#view=timeline&{named}")
    visited.page.locator(".tl-notice").filter(has_text=notice).wait_for()


def test_many_devices_are_folded_into_one_and_unfold(tmp_path: Path, visit: Visitor) -> None:
    write_profiles(tmp_path / "hosts", hosts=9, steps=3)
    out = tmp_path / "page.html"
    assert in_process("explain", tmp_path / "hosts", "--html", out).returncode == 0
    visited = visit(out)
    visited.show("timeline")
    devices = visited.page.locator(".tl-gutter .tl-group", has_text=re.compile(r"^.?GPU "))
    fold = visited.page.get_by_role("button", name="18 devices")

    def expect_devices(count: int) -> None:
        """Wait for the frame in which they are drawn."""
        expect(devices).to_have_count(count)
        expect(fold).to_have_attribute("aria-expanded", str(count > 1).lower())

    expect_devices(1)
    fold.click()
    expect_devices(18)
    fold.click()
    expect_devices(1)
    codes = visited.page.get_by_label("Go to a finding").locator("option").all_inner_texts()
    late = next(text.split()[0] for text in codes if "last device to arrive" in text)
    visited.page.get_by_label("Go to a finding").select_option(late)
    details_of(visited).wait_for()
    expect_devices(18)


def test_without_webgl_it_is_drawn_too(page: Path, visit: Visitor) -> None:
    hidden = "HTMLCanvasElement.prototype.getContext = ((get) => function (kind, ...rest) {"
    hidden += " return kind.startsWith('webgl') ? null : get.call(this, kind, ...rest);"
    hidden += "})(HTMLCanvasElement.prototype.getContext);"
    visited = visit(page, script=hidden)
    panel = visited.show("timeline")
    assert panel.locator(".failure, .notice").count() == 0
    colors = visited.page.evaluate(_COLORS)
    assert colors > 3


_COLORS = """() => {
  const canvas = document.querySelector("canvas.tl-canvas");
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const seen = new Set();
  for (let at = 0; at < data.length; at += 4 * 97) seen.add(data.slice(at, at + 3).join());
  return seen.size;
}"""


def test_an_op_of_one_side_has_its_own_color_in_a_comparison(
    tmp_path: Path, visit: Visitor
) -> None:
    hlo = program(sine("first", "mlp/sin"), sine("second", "head/sin"))
    sides = [("first", 0, 4, 0)], [("first", 0, 4, 0), ("second", 4, 5, 0)]
    a, b = (
        write_parquet(made(hlo, list(spans), step_ms=[10.0] * 7), tmp_path / name)
        for name, spans in zip("ab", sides, strict=True)
    )
    out = tmp_path / "page.html"
    assert in_process("compare", a, b, "--html", out).returncode == 0
    visited = visit(out)
    visited.show("timeline")
    visited.page.get_by_text("only on one side").wait_for()
    red, blue = visited.page.evaluate(_RED_AND_BLUE)
    assert (red, blue > 1000) == (0, True)


_RED_AND_BLUE = """() => {
  const canvas = document.querySelector("canvas.tl-canvas");
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  let [red, blue] = [0, 0];
  for (let at = 0; at < data.length; at += 4) {
    if (data[at] > data[at + 2] + 60) red++;
    if (data[at + 2] > data[at] + 60) blue++;
  }
  return [red, blue];
}"""


def test_no_key_breaks_it(timeline: Visit) -> None:
    for key in ("?", "Escape", "Tab", "ArrowRight", "ArrowDown", "f", "0", "["):
        timeline.page.locator("canvas.tl-top").focus()
        press(timeline, key, 3)
        timeline.settle()
        assert timeline.page.locator(".failure").count() == 0, key


def test_a_thread_is_named_by_its_pool_not_only_by_a_number(tmp_path: Path, visit: Visitor) -> None:
    thread = replace(
        recording([Span("fusion", 0, 5)]), lines=("/host:CPU/tf_XLAEigen/-5830860246742660828",)
    )
    content = PageContent(
        title="made",
        command="",
        version="1",
        results={},
        timelines=(assemble([thread], ["made"]),),
    )
    out = tmp_path / "page.html"
    out.write_text(one_file(content), encoding="utf-8")
    gutter = visit(out).show("timeline").locator(".tl-gutter")
    expect(gutter).to_contain_text("Eigen \u20260828")
