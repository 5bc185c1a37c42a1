"""The local app in a real browser: what it asks for, and a page that is completed meanwhile."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import counterpoint
import timelines
from chromium import Visit, Windows
from counterpoint.report.explain.explain_json import explain_json
from counterpoint.timeline.marked import HOST_MARKS
from counterpoint.view.app import App, ShownPage
from counterpoint.view.page import LivePage, PageContent
from viewed import serving, viewing

pytestmark = pytest.mark.system

Visitor = Callable[..., Visit]
TITLE = "two devices"
NOTHING = re.compile(r"^$")
_MORE_ROWS = "least => document.querySelectorAll('.tl-gutter .tl-row').length > least"


def content(*, explained: bool) -> PageContent:
    made = timelines.two_devices()
    return PageContent(
        title=TITLE,
        command="counterpoint view kept",
        version="1",
        results={"explain": explain_json(counterpoint.explain(made))} if explained else {},
        timelines=(made,),
    )


def test_no_view_asks_any_other_machine(visit: Visitor) -> None:
    with viewing(content(explained=True)) as address:
        visited = visit(address)
        assert set(visited.views) >= {"overview", "timeline", "ops"}
        for view in visited.views:
            assert visited.show(view).locator(".failure").count() == 0
        own = ("http://127.0.0.1:", "data:", "blob:")
        assert [it for it in visited.requests if not it.startswith(own)] == []
        assert {urlsplit(it).netloc for it in visited.requests if it.startswith("http")} == {
            urlsplit(address).netloc
        }


def test_a_page_fills_while_it_is_open_and_then_asks_no_more(visit: Visitor) -> None:
    page = LivePage(content(explained=False))
    shown = ShownPage(page, TITLE)
    shown.say("explaining the step")
    with serving(App(shown)) as address:
        visited = visit(address)
        status = visited.page.get_by_role("status").filter(has_text="explaining the step")
        status.wait_for()
        page.add((), content(explained=True).results)
        shown.say("drawing the timeline")
        visited.page.locator("#tab-ops").wait_for()
        visited.page.get_by_role("status").filter(has_text="drawing the timeline").wait_for()
        page.compute()
        shown.say("", complete=True)
        visited.page.locator("header [role=status]").filter(has_text=NOTHING).wait_for(
            state="attached"
        )
        visited.settle()
        requests = len(visited.requests)
        visited.page.wait_for_timeout(1500)
        assert len(visited.requests) == requests


def test_steps_are_shown_while_the_profile_is_read_and_lanes_while_they_are_drawn(
    windows: Windows,
) -> None:
    whole = content(explained=False)
    marked = replace(
        whole.timelines[0],
        devices=(),
        step_rule=HOST_MARKS,
        **{name: getattr(whole.timelines[0], name).clear() for name in ("spans", "runs", "ops")},
    )
    page = LivePage(replace(whole, timelines=()))
    shown = ShownPage(page, TITLE)
    shown.tell("reading kept, 10%")
    visited = Visit(windows)
    plot = visited.page.locator("[data-ready]")
    with serving(App(shown)) as address:
        visited.page.goto(f"{address}#view=timeline")
        visited.page.get_by_role("status").filter(has_text="reading kept, 10% …").wait_for()
        assert visited.page.get_by_text("Steps appear here").count() == 1
        assert visited.page.get_by_role("alert").count() == 0
        page.preview([marked])
        shown.say("reading kept, 40%")
        visited.page.get_by_text("steps are shown as they were marked").wait_for()
        assert plot.get_attribute("data-steps") == str(marked.steps["step"].n_unique())
        assert "0.ops" not in " ".join(visited.requests)
        page.show(whole)
        shown.say("drawing the timeline")
        visited.page.get_by_text("drawing lanes").wait_for()
        grown: list[int] = []
        titles = visited.page.locator(".tl-gutter .tl-row")

        def grew() -> None:
            shown.say("drawing the timeline")
            if len(grown) < len(whole.timelines[0].devices):
                visited.page.wait_for_function(_MORE_ROWS, arg=grown[-1] if grown else 0)
            grown.append(titles.count())

        page.compute(grew)
        shown.say("", complete=True)
        visited.page.locator('[data-ready="true"]').wait_for()
        assert len(grown) == 3
        assert 0 < grown[0] < grown[1] <= grown[2]
        assert visited.errors == []
    visited.close()


def test_of_several_hosts_the_page_says_which_marked_the_steps(visit: Visitor) -> None:
    whole = content(explained=False)
    one = whole.timelines[0]
    hosts = tuple(replace(one.hosts[0], name=f"node-{number}") for number in (1, 0, 2))
    tables = {name: getattr(one, name).clear() for name in ("spans", "runs", "ops")}
    page = LivePage(replace(whole, timelines=()))
    page.preview([replace(one, hosts=hosts, devices=(), **tables)] * 2)
    shown = ShownPage(page, TITLE)
    shown.tell("reading node-0 (host 1 of 3), 10%")
    with serving(App(shown)) as address:
        visited = visit(f"{address}#view=timeline")
        visited.page.get_by_text("steps are shown as node-1 marked them").wait_for()
        shown.say("", complete=True)


def test_what_could_not_be_explained_is_said_and_the_rest_is_shown(visit: Visitor) -> None:
    page = LivePage(content(explained=False))
    page.compute()
    shown = ShownPage(page, TITLE)
    shown.say("no step was recorded whole", complete=True)
    with serving(App(shown)) as address:
        visited = visit(address)
        visited.page.get_by_text("no step was recorded whole").wait_for()
        visited.show("timeline")


def test_an_app_that_has_ended_is_told(visit: Visitor) -> None:
    shown = ShownPage(LivePage(content(explained=False)), TITLE)
    shown.say("drawing the timeline")
    with serving(App(shown)) as address:
        visited = visit(address)
    visited.page.get_by_text("The app has ended").wait_for(timeout=20_000)
    # The end may come in the middle of an answer.
    refused = [it for it in visited.errors if re.search("ERR_(CONNECTION_|EMPTY_)", it)]
    assert refused == visited.errors
    visited.errors.clear()


def test_another_site_cannot_frame_it_or_read_it(visit: Visitor, tmp_path: Path) -> None:
    with viewing(content(explained=True)) as address:
        thief = tmp_path / "thief.html"
        thief.write_text(
            f"""<!doctype html><meta charset=utf-8><div role=tab>thief</div>
<iframe src="{address}"></iframe><script src="{address}app.js"></script>
<script>fetch("{address}page.json").then(r => r.text(), () => "").then(t => window.stolen = t)
</script>""",
            encoding="utf-8",
        )
        visited = visit(thief)
        visited.page.wait_for_function("window.stolen !== undefined")
        assert visited.page.evaluate("window.stolen") == ""
        framed = [frame for frame in visited.page.frames if frame != visited.page.main_frame]
        assert all(TITLE not in (frame.content() or "") for frame in framed)
        visited.errors.clear()  # the browser reports each refusal
