"""Names from a file are shown, never run: in a page, in the app and in a notebook."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import counterpoint
import timelines
import tune_conclusions
from chromium import Visit
from counterpoint.cli.pages import page_of, study_page
from counterpoint.fleet.summary import summarize
from counterpoint.fleet.tasks import Gathering
from counterpoint.fleet.topology import HostPlace
from counterpoint.report.explain.explain_document import explain_document
from counterpoint.report.explain.explain_json import explain_json
from counterpoint.report.explain.fleet_document import fleet_document
from counterpoint.report.explain.fleet_json import fleet_json
from counterpoint.report.markup import document_markup
from counterpoint.timeline.model import Timeline
from counterpoint.timeline.storage.parquet import write_parquet
from counterpoint.tune.conclusion import Conclusion
from counterpoint.view.page import PageContent, one_file
from made_fleet import fleet_of
from viewed import viewing

pytestmark = pytest.mark.system

Visitor = Callable[..., Visit]
ATTACK = (
    "</script><script>alert(1)</script><img src=x onerror=alert(2)><svg onload=alert(3)>"
    "\"'`${alert(4)}<!--<script>]]>&lt;b&gt;\x1b[31m\u202egnp.exe\u2066"
)
SHOWN = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
MARK = "f" * 8


def hostile() -> Timeline:
    """Every name that comes from a file is an attack."""
    made = timelines.two_devices()
    texts = [name for name in ("op", "scope", "source") if name in made.ops.columns]
    own = made.ops.with_columns(
        pl.when(pl.col(name).is_not_null())
        .then(pl.lit(ATTACK) + pl.int_range(pl.len()).cast(pl.String))
        .alias(name)
        for name in texts
    )
    return replace(
        made,
        inputs=(f"/logs/{ATTACK}/rank0.xplane.pb",),
        ops=own,
        lines=tuple(f"{ATTACK}{line}" for line in made.lines),
        hosts=tuple(replace(host, name=ATTACK, source=ATTACK) for host in made.hosts),
        environment={"XLA_FLAGS": f"--xla_x={ATTACK}", ATTACK: ATTACK},
        notes=(*made.notes, ATTACK),
        host_names=tuple(f"{ATTACK}{name}" for name in made.host_names),
    )


@pytest.fixture(scope="module")
def content() -> PageContent:
    made = hostile()
    explained = counterpoint.explain(made)
    return PageContent(
        title=ATTACK,
        command=f"counterpoint explain '{ATTACK}'",
        version="1",
        reports=((ATTACK, document_markup(explain_document(explained, 10, paths=[ATTACK]))),),
        results={"explain": explain_json(explained)},
        timelines=(made,),
    )


def studied(directory: Path) -> Conclusion:
    """A study in which every name and every text is an attack; its steps are, too."""
    found = tune_conclusions.found()
    rows = [
        replace(row, why=ATTACK)
        if row.arm.is_base
        else replace(row, why=ATTACK, arm=replace(row.arm, name=f"{ATTACK}{at}"))
        for at, row in enumerate(found.rows)
    ]
    tune_conclusions.keep_steps(found, directory, hostile())
    return replace(
        found, sentence=ATTACK, notes=(ATTACK,), rows=tuple(rows), winner=rows[0].arm, state=ATTACK
    )


def study_content(directory: Path) -> PageContent:
    return study_page(studied(directory), directory, 20, f"counterpoint tune show '{ATTACK}'")


def fleet_content(directory: Path) -> PageContent:
    del directory
    waits = np.random.default_rng(1).normal(20.0, 0.2, (32, 10))
    waits[19] -= 8.0
    made = fleet_of(waits, racks=2)
    place = HostPlace(rack=ATTACK, pod=ATTACK)
    hosts = tuple(
        replace(it, name=f"{ATTACK}{at}", source=ATTACK, place=place, program=ATTACK, chip=ATTACK)
        for at, it in enumerate(made.hosts)
    )
    read = Gathering(profiles=4, failures=(), read_bytes=1, retried=0, notes=(ATTACK,))
    summary = summarize(replace(made, hosts=hosts), read)
    document = fleet_document(summary, (ATTACK,), 64)
    return page_of(ATTACK, {"explain": document}, {"fleet": fleet_json(summary, (ATTACK,))})


@pytest.mark.parametrize("made", [study_content, fleet_content])
def test_a_study_and_the_page_of_extracts_show_them(
    made: Callable[[Path], PageContent], tmp_path: Path, visit: Visitor
) -> None:
    out = tmp_path / "page.html"
    content = made(tmp_path / "study")
    out.write_text(one_file(content), encoding="utf-8")
    visited = visit(out)
    expected = {"study", "compare", "timeline"} if made is study_content else set[str]()
    assert set(visited.views) == {"report", *expected}
    nothing_ran(visited)
    assert visited.page.locator("header.shell .badge").all_inner_texts() == ["measured"]
    assert SHOWN in visited.show("report").inner_text()
    with viewing(content) as address:
        visited = visit(address)
        nothing_ran(visited)
        assert all(it.startswith(address) for it in visited.requests)


def nothing_ran(visited: Visit) -> None:
    """No element of an attack exists, in any view, and no dialog was opened."""
    for view in visited.views:
        visited.show(view)
        found = visited.page.locator("img, svg[onload], script:not([id]):not([src])")
        own = [it for it in found.all() if "alert(" in (it.evaluate("it => it.outerHTML"))[:200]]
        assert own == [], view
        text = visited.page.locator("body").inner_text()
        assert {"\x1b", "\u202e"}.isdisjoint(text)
    assert visited.errors == []


def test_a_file_shows_them(content: PageContent, tmp_path: Path, visit: Visitor) -> None:
    out = tmp_path / "page.html"
    out.write_text(one_file(content), encoding="utf-8")
    visited = visit(out)
    assert SHOWN in visited.page.locator("header.shell").inner_text()
    nothing_ran(visited)
    assert SHOWN in visited.show("report").inner_text()
    assert visited.requests == [out.as_uri()]


def test_the_app_shows_them(content: PageContent, visit: Visitor) -> None:
    with viewing(content) as address:
        visited = visit(address)
        nothing_ran(visited)
        assert SHOWN in visited.show("report").inner_text()
        assert all(it.startswith(address) for it in visited.requests)


@pytest.mark.parametrize("study", [False, True])
def test_a_notebook_shows_them(study: bool, tmp_path: Path, visit: Visitor) -> None:
    value = studied(tmp_path / "study") if study else counterpoint.explain(hostile())
    html = value._repr_html_()
    assert html
    out = tmp_path / "notebook.html"
    tab = '<div role="tab">cell</div>'
    out.write_text(f"<!doctype html><meta charset=utf-8>{tab}{html}", encoding="utf-8")
    visited = visit(out)
    frame = visited.page.frame_locator("iframe")
    frame.get_by_role("tab").first.wait_for()
    for tab_ in frame.get_by_role("tab").all():
        tab_.click()
        visited.settle()
    assert visited.page.locator("img").count() == 0
    assert frame.locator("img").count() == 0
    assert [it for it in visited.requests if not it.startswith(("file:", "about:"))] == []


def test_a_stored_timeline_with_such_a_path_is_explained(tmp_path: Path, visit: Visitor) -> None:
    from command_line import in_process

    name = "</script><script>alert(1)</script>\"'\u202e".replace("/", "_")
    stored = write_parquet(hostile(), tmp_path / name)
    out = tmp_path / "page.html"
    done = in_process("explain", stored, "--html", out)
    assert done.returncode == 0, done.stderr
    nothing_ran(visit(out))
