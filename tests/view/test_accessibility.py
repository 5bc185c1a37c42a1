"""Pages for everybody: what axe-core finds, and a walk through all views by keyboard alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chromium import Theme, Visit
from command_line import in_process
from counterpoint.cli.pages import study_page
from counterpoint.view.page import one_file
from predicted_candidates import candidates_page
from tune_conclusions import found, keep_steps

pytestmark = pytest.mark.system

Visitor = Callable[..., Visit]
AXE = Path(__file__).parents[2] / "web/node_modules/axe-core/axe.min.js"
SEVERE = ("serious", "critical")
NAMES = ("explain", "compare", "study", "predict", "doctor")


@pytest.fixture(scope="session")
def axe() -> str:
    if not AXE.is_file():
        pytest.skip("axe-core is not installed (make web)")
    return AXE.read_text("utf-8")


def severe(visited: Visit, axe: str) -> list[str]:
    """What axe-core finds severe in what is shown, with the elements."""
    visited.page.evaluate(axe)
    result: dict[str, Any] = visited.page.evaluate("axe.run(document, {iframes: false})")
    return [
        f"{it['id']}: {node['html'][:160]} {node['failureSummary'][:200]}"
        for it in result["violations"]
        if it["impact"] in SEVERE
        for node in it["nodes"][:3]
    ]


@pytest.fixture(scope="module")
def pages(
    stored: Path, pair: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    directory = tmp_path_factory.mktemp("pages")
    files = {name: directory / f"{name}.html" for name in NAMES}
    assert in_process("explain", stored, "--html", files["explain"]).returncode == 0
    assert in_process("compare", *pair, "--html", files["compare"]).returncode == 0
    done = in_process("doctor", "--no-probe", "--html", files["doctor"])
    assert done.returncode in (0, 1)
    files["predict"] = candidates_page(directory, is_other_program=True)
    keep_steps(found(), directory)
    content = study_page(found(), directory, 20, "counterpoint tune show study")
    files["study"].write_text(one_file(content), encoding="utf-8")
    return files


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", NAMES)
def test_no_view_has_a_severe_finding(
    pages: dict[str, Path], name: str, theme: Theme, visit: Visitor, axe: str
) -> None:
    visited = visit(pages[name], theme=theme)
    found: dict[str, list[str]] = {}
    for view in visited.views:
        visited.show(view)
        found[view] = severe(visited, axe)
    assert {view: findings for view, findings in found.items() if findings} == {}


def test_a_real_trace_has_no_severe_finding(
    shared: Path, tmp_path: Path, visit: Visitor, axe: str
) -> None:
    out = tmp_path / "page.html"
    trace = shared / "data/traces/pax_fsdp4_4proc_proc0.zip"
    assert in_process("explain", trace, "--html", out).returncode == 0
    visited = visit(out)
    for view in visited.views:
        visited.show(view)
        assert severe(visited, axe) == [], view


@pytest.mark.parametrize("name", ["explain", "predict"])
def test_every_view_is_reached_and_left_by_keyboard(
    pages: dict[str, Path], name: str, visit: Visitor
) -> None:
    visited = visit(pages[name])
    page, views = visited.page, visited.views
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the view"
    page.locator("[role=tab][aria-selected=true]").focus()
    for view in [*views[1:], views[0]]:
        page.keyboard.press("ArrowRight")
        page.locator(f"#panel[data-view={view}]").wait_for()
        visited.settle()
        assert page.evaluate("document.activeElement.id") == f"tab-{view}"
        stops = walk(visited)
        assert view in ("timeline", "report") or any(it.startswith("panel:") for it in stops), view
        page.locator(f"#tab-{view}").focus()


def walk(visited: Visit) -> list[str]:
    """Tab through the page from where the focus is; everything that gets it must show it."""
    stops: list[str] = []
    for _ in range(200):
        visited.page.keyboard.press("Tab")
        stop: dict[str, Any] = visited.page.evaluate(_FOCUS)
        if stop["where"] == "end":
            return stops
        assert stop["seen"], stop["html"]
        stops.append(f"{stop['where']}:{stop['html']}")
    return stops


_FOCUS = """() => {
  const at = document.activeElement;
  if (!at || at === document.body) return { where: "end", html: "", seen: true };
  const style = getComputedStyle(at);
  const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
  const where = at.closest("#panel") ? "panel" : "frame";
  return { where, html: at.outerHTML.slice(0, 120), seen: outlined || style.boxShadow !== "none" };
}"""


def test_the_theme_is_toggled_by_keyboard(pages: dict[str, Path], visit: Visitor) -> None:
    visited = visit(pages["explain"])
    dark = "getComputedStyle(document.body).backgroundColor"
    before = visited.page.evaluate(dark)
    visited.page.get_by_role("button", name="Switch to dark colors").focus()
    visited.page.keyboard.press("Enter")
    visited.page.wait_for_function(f"before => {dark} !== before", arg=before)
