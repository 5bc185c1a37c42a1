"""Every view of every kind of page, in a real browser: it shows something, and nothing fails."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import timelines
from chromium import Visit, expect
from command_line import in_process
from counterpoint.cli.pages import study_page
from counterpoint.view.page import one_file
from predicted_candidates import candidates_page, ranked
from tune_conclusions import BOTH, found, keep_steps

if TYPE_CHECKING:
    from playwright.sync_api import Locator

pytestmark = pytest.mark.system

Visitor = Callable[..., Visit]
TRACES = (
    "jax_conv_mi300x_8gpu.xplane.pb",
    "jax_gemm_mi300x.xplane.pb",
    "jax_inference_v6e_4tpu.xplane.pb",
    "pax_fsdp4_4proc_proc*.zip",
    "pytorch_h100_2gpu.nsys.sqlite",
    "vllm_qwen3_2tpu.trace.json.gz",
)
LEAST = {"overview", "timeline", "ops", "report"}


GAP = """(title) => {
  const text = document.createRange();
  text.selectNodeContents(title);
  return title.offsetWidth - text.getBoundingClientRect().width;
}"""
"""How much wider a title is than its text: its badge stands behind it."""


def walk(visited: Visit) -> set[str]:
    """Show each view of a page; return their names."""
    views = visited.views
    for view in views:
        panel = visited.show(view)
        assert panel.locator(".failure").count() == 0, panel.inner_text()
        canvas = panel.locator("canvas").count()
        assert canvas or len(panel.inner_text()) > 20, view
    return set(views)


@pytest.mark.parametrize("trace", TRACES)
def test_each_view_of_a_real_trace(
    shared: Path, tmp_path: Path, visit: Visitor, trace: str
) -> None:
    paths = sorted((shared / "data/traces").glob(trace))
    if not paths:
        pytest.skip(f"{trace} is not among the shared traces")
    out = tmp_path / "page.html"
    done = in_process("explain", *paths, "--html", out)
    assert done.returncode == 0, done.stderr
    assert out.stat().st_size < 20_000_000
    # What a theme changes is the same for all traces.
    for theme in ("light", "dark") if trace == TRACES[0] else ("light",):
        visited = visit(out, theme=theme)
        assert walk(visited) >= LEAST
        assert visited.requests == [out.as_uri()]


def test_each_view_of_a_small_trace_at_two_sizes(
    stored: Path, tmp_path: Path, visit: Visitor
) -> None:
    out = tmp_path / "page.html"
    assert in_process("explain", stored, "--html", out).returncode == 0
    for size in ((800, 600), (3840, 1600)):
        visited = visit(out, size=size)
        assert walk(visited) >= LEAST | {"collectives"}
        end = visited.show("report").locator(".report-body > :last-child").first.bounding_box()
        assert end is not None
        assert (end["x"] > size[0] / 2) == (size[0] == 3840)  # a wide page is not half empty
        assert is_inside(visited.show("ops").locator(".chart .guide-text").first)
        assert visited.page.locator("h1.title").evaluate(GAP) < 1


def is_inside(text: Locator) -> bool:
    """Whether all of a text is within its drawing, which cuts it."""
    here, drawing = (
        text.bounding_box(),
        text.locator("xpath=ancestor::*[name()='svg']").bounding_box(),
    )
    return here is not None and drawing is not None and here["y"] >= drawing["y"]


def test_shares_of_a_step_are_those_of_the_text_report(
    stored: Path, tmp_path: Path, visit: Visitor
) -> None:
    out = tmp_path / "page.html"
    assert in_process("explain", stored, "--html", out).returncode == 0
    visited = visit(out)
    said = visited.show("report").locator("table.parts td:nth-child(4)").all_inner_texts()
    shown = visited.show("overview").locator("table.parts tbody tr").all_inner_texts()
    # Two of compute; their sum is the first of the report. Together they are 99.9%.
    assert [row.split()[-1] for row in shown[2:-1]] == said[2:] == ["18.2%", "4.5%", "13.6%"]


def test_each_view_of_a_comparison(pair: tuple[Path, Path], tmp_path: Path, visit: Visitor) -> None:
    out = tmp_path / "page.html"
    assert in_process("compare", *pair, "--html", out).returncode == 0
    remainder = r'\g<1>0.000031,"part":"compute"'
    text, count = re.subn(r'("difference_ms":)[^,]+,"part":"compute"', remainder, out.read_text())
    assert count == 1
    for op, difference in (("first", "0.4"), ("second", "0.000031")):
        changed = rf'\g<1>{difference},"a":["{op}"]'
        text, count = re.subn(rf'("difference_ms":)[^,]+,"a":\["{op}"\]', changed, text)
        assert count == 1
    out.write_text(text)
    visited = visit(out)
    assert walk(visited) >= {"compare", "timeline", "report"}
    panel = visited.show("compare")
    compute = panel.get_by_role("row", name="compute").first
    assert compute.get_by_role("cell").last.inner_text() == "0"  # as in the text report
    assert panel.get_by_role("button", name="first").count() == 1
    assert panel.get_by_role("button", name="second").count() == 0
    assert "1 op left out: " in panel.inner_text()
    visited.show("timeline").locator("canvas.tl-top").focus()
    visited.page.keyboard.press("d")  # the address says where, once that has changed
    first, last = map(float, re.findall(r"(?:from|to)=([\d.]+)", visited.rest()))
    assert last - first > 11e9  # picoseconds of B's steps, which take longer than A's
    unknown = re.sub(r'("step":{"a_ms":)[^,]+(,"b_ms":)[^,]+', r"\g<1>null\g<2>null", text)
    out.write_text(unknown.replace('"median_step_ms":10.0', '"median_step_ms":null'))
    times = visit(out).show("compare").locator(".headline .big").all_inner_texts()
    assert times[:2] == ["?", "11.00"]  # of one side it is known all the same


def test_each_view_of_a_prediction(tmp_path: Path, visit: Visitor) -> None:
    hlo, out = tmp_path / "step.hlo.txt", tmp_path / "page.html"
    hlo.write_text(timelines.HLO)
    done = in_process("predict", hlo, "--target", "2xH100", "--html", out)
    assert done.returncode == 0, done.stderr
    visited = visit(out)
    assert walk(visited) >= LEAST
    assert "predicted" in visited.page.locator("header.shell").inner_text()


def test_each_view_of_a_prediction_with_candidates(tmp_path: Path, visit: Visitor) -> None:
    out = candidates_page(tmp_path, is_other_program=True)
    for theme in ("light", "dark"):
        visited = visit(out, theme=theme)
        assert visited.views[0] == "overview"
        assert walk(visited) >= LEAST | {"candidates", "compare"}
    assert "the best" in visited.show("candidates").inner_text()
    text = visited.show("compare").inner_text()
    assert "\u22121.0%" in text
    assert "\u22121.0% to 0%" in text
    assert "the prediction ranks" in text
    assert "1 step on one " in text
    visited.show("candidates").get_by_role("button", name="one above the other").click()
    visited.page.locator("#panel[data-view=timeline]").wait_for()
    visited.settle()
    names = visited.page.locator(".tl-gutter").inner_text().splitlines()
    assert [it for it in names if it[:2] in ("A ", "B ")] == ["A base", "B --xla_x=a\u2215b"]


def test_a_notebook_shows_the_best_candidate_as_the_page_does(
    tmp_path: Path, visit: Visitor
) -> None:
    out = tmp_path / "notebook.html"
    found = ranked(tmp_path, is_other_program=True)
    out.write_text(f"<button role=tab></button>{found._repr_html_()}", encoding="utf-8")
    frame = visit(out).page.frame_locator("iframe")
    frame.get_by_role("tab", name="Compare").click()
    expect(frame.locator("#panel[data-view=compare]")).to_contain_text("\u22121.0% to 0%")
    expect(frame.locator(".verdict")).to_have_text("tied")
    frame.get_by_role("button", name="one above the other").click()
    expect(frame.locator(".tl-gutter")).to_contain_text("B --xla_x=a\u2215b")


def test_a_candidate_of_the_same_program_is_not_shown_below(tmp_path: Path, visit: Visitor) -> None:
    visited = visit(candidates_page(tmp_path, is_other_program=False))
    assert "compare" not in visited.views
    names = visited.show("timeline").locator(".tl-gutter").inner_text().splitlines()
    assert [it for it in names if it[:2] in ("A ", "B ")] == []


def test_each_view_of_a_study(tmp_path: Path, visit: Visitor) -> None:
    out = tmp_path / "page.html"
    out.write_text(one_file(study_page(found(), tmp_path, 20, "counterpoint tune show study")))
    visited = visit(out)
    assert walk(visited) >= {"study", "report"}
    assert len(set(ticks := marks(visited))) == len(ticks) > 1
    small = re.sub(r'("gain":-?0\.0)', r"\g<1>00", out.read_text())
    small = re.sub(r'("(?:gain_)?range":\[-?0\.0)([^,]*,-?0\.0)', r"\g<1>00\g<2>00", small)
    out.write_text(small)
    assert len(set(ticks := marks(visit(out)))) == len(ticks) > 1


def marks(visited: Visit) -> list[str]:
    """The marks on the axis of the arms' gains."""
    return visited.show("study").locator(".intervals .tick").all_text_contents()


def test_a_study_shows_the_predicted_steps_that_it_kept(tmp_path: Path, visit: Visitor) -> None:
    out = tmp_path / "page.html"
    keep_steps(found(), tmp_path)
    out.write_text(one_file(study_page(found(), tmp_path, 20, "counterpoint tune show study")))
    visited = visit(out)
    assert visited.views[0] == "study"
    assert walk(visited) == {"study", "compare", "timeline", "report"}
    assert visited.page.locator("header.shell .badge").all_inner_texts() == ["measured"]
    visited.show("study").get_by_role("button", name="one above the other").click()
    visited.page.locator("#panel[data-view=timeline]").wait_for()
    visited.settle()
    names = visited.page.locator(".tl-gutter").inner_text().splitlines()
    assert [it for it in names if it[:2] in ("A ", "B ")] == ["A base", f"B {BOTH}"]
    text = visited.show("compare").inner_text()
    assert "\u22123.4%" in text
    assert "the study predicts" in text


def test_each_view_of_a_report_without_timeline(tmp_path: Path, visit: Visitor) -> None:
    out = tmp_path / "page.html"
    assert in_process("doctor", "--only", "DOC5", "--no-probe", "--html", out).returncode in (0, 1)
    visited = visit(out)
    assert walk(visited) == {"report"}
    assert visited.page.locator("header.shell .badge").count() == 0  # nothing says what it is


def test_an_address_leads_to_the_same_view(stored: Path, tmp_path: Path, visit: Visitor) -> None:
    out = tmp_path / "page.html"
    assert in_process("explain", stored, "--html", out).returncode == 0
    visited = visit(f"{out.as_uri()}#view=ops")
    assert visited.page.locator("#panel").get_attribute("data-view") == "ops"
    visited.show("timeline")
    assert re.search(r"#.*view=timeline", visited.address)
    assert visit(f"{out.as_uri()}#step=2").page.locator("#panel[data-view=timeline]").count() == 1
    visited.page.go_back()
    visited.page.locator("#panel[data-view=ops]").wait_for()
