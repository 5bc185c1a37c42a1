"""Pages in one file and in the app hold the same; names in them are data."""

from __future__ import annotations

import base64
import json
import os
import re
import zlib
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import counterpoint
import timelines
from counterpoint.core import Basis, Range
from counterpoint.report.explain.explain_json import explain_json
from counterpoint.timeline.hosts.assemble import assemble
from counterpoint.timeline.model import MEMORY, Timeline
from counterpoint.view import prepared
from counterpoint.view.page import LivePage, PageContent, one_file
from counterpoint.view.prepared import find_page, keep_page, key_of
from counterpoint.view.timeline_page import TimelinePage
from recordings import Span, recording

HOSTILE = "</script><img src=x onerror=alert(1)>\"'&\x1b]0;x\x07\u202e"


def timeline(spans: int = 60, name: str = "fusion") -> Timeline:
    """Steps of 200 ns with some overlap on two devices."""
    made = [
        Span(op, 10 * at + offset, 8, device=at % 2, line=line)
        for at in range(spans)
        for op, offset, line in ((name, 0, 0), ("all-gather", 4, 1))
    ]
    markers = [(device, step, 200 * step, 200) for device in (0, 1) for step in range(spans // 20)]
    return assemble([recording(made, devices=2, markers=markers)], ["made"])


def content(*timelines: Timeline, title: str = "made") -> PageContent:
    return PageContent(
        title=title,
        command="counterpoint explain made",
        version=counterpoint.__version__,
        results={"explain": explain_json(counterpoint.explain(timelines[0]))},
        timelines=timelines,
    )


def page_in(html: str) -> dict[str, Any]:
    (text,) = re.findall(r'id="counterpoint-page">(.*?)</script>', html, re.DOTALL)
    return json.loads(text)


def blocks_in(html: str) -> dict[str, bytes]:
    found = re.findall(r'<script type="text/plain" id="block-([^"]+)">([^<]*)</script>', html)
    return {name: zlib.decompress(base64.b64decode(text)) for name, text in found}


def tiles(page: dict[str, Any]) -> dict[str, bool]:
    return {
        f"{number}.{at}.{level_at}.{tile}": has
        for number, of in enumerate(page["timelines"])
        for at, track in enumerate(of["tracks"])
        for level_at, level in enumerate(track["levels"])
        for tile, has in enumerate(level["has"])
    }


def test_a_file_has_what_its_page_says_and_what_the_app_serves() -> None:
    made = content(timeline(), timeline(name="fusion.7"))
    html = one_file(made)
    blocks = blocks_in(html)
    assert {name for name, has in tiles(page_in(html)).items() if has} == {
        name for name in blocks if not name.endswith("ops")
    }
    live = LivePage(made)
    live.compute()
    assert json.loads(live.page_json()) == page_in(html)
    assert {name: live.block(name) for name in live.block_names()} == blocks


def test_a_page_is_shown_before_its_levels_are_computed() -> None:
    live = LivePage(content(timeline()))
    before = json.loads(live.page_json())["timelines"][0]
    assert not live.complete
    assert before["complete"] is False
    assert before["tracks"] == []
    assert before["steps"]["step"] == [0, 1, 2]
    live.compute()
    after = json.loads(live.page_json())["timelines"][0]
    assert live.complete
    assert after["complete"]
    assert after["steps"] == before["steps"]


@pytest.mark.parametrize(
    "name", ["", "0", "1.ops", "0.0.0.99", "0.99.0.0", "0.-1.0.0", "..", "0.0.0.0.0", "0.x.0.0"]
)
def test_a_block_that_does_not_exist_is_none(name: str) -> None:
    live = LivePage(content(timeline()))
    live.compute()
    assert live.block(name) is None


@pytest.mark.system
def test_a_file_keeps_to_its_limit_and_drops_other_steps_first() -> None:
    random = np.random.default_rng(1)
    at = np.cumsum(random.integers(2, 60, 60_000))
    spans = [
        Span("fusion", int(start), int(dur))
        for start, dur in zip(at, random.integers(1, 50, len(at)), strict=True)
    ]
    end = int(at[-1])
    markers = [(0, step, step * end // 50, end // 50) for step in range(50)]
    made = content(assemble([recording(spans, devices=1, markers=markers)], ["made"]))
    whole = one_file(made, full=True)
    limited = one_file(made, limit=len(whole) - 100_000)
    assert len(limited) <= len(whole) - 100_000
    assert all(tiles(page_in(whole)).values())
    has = tiles(page_in(limited))
    assert any(has.values())
    assert not all(has.values())
    page = page_in(limited)["timelines"][0]
    middle = page["steps"]["step"].index(page["typical"])
    start = page["steps"]["start"][middle]
    for track in page["tracks"]:
        finest = track["levels"][0]
        first = next(tile for tile, value in enumerate(finest["has"]) if value)
        assert finest["start"][first] <= start + 100_000


def test_names_do_not_end_the_elements_they_are_in() -> None:
    html = one_file(content(timeline(name=HOSTILE), title=HOSTILE))
    assert "<img src=x" not in html
    page = page_in(html)
    assert page["title"] == HOSTILE
    ops = json.loads(blocks_in(html)["0.ops"])
    assert any("onerror" in name for name in ops["name"])
    assert not re.search("[\x00-\x08\x0b-\x1f\u202e]", html)


def test_a_prediction_has_its_range_and_a_measurement_none() -> None:
    of = replace(timeline(), basis=Basis.PREDICTED, predicted_range=Range(0.009, 0.0125))
    (described,) = json.loads(LivePage(content(of)).page_json())["timelines"]
    assert described["range_ms"] == pytest.approx([9.0, 12.5])
    (measured,) = json.loads(LivePage(content(timeline())).page_json())["timelines"]
    assert measured["range_ms"] is None


def test_memory_is_thinned_out_and_keeps_what_was_most() -> None:
    of = timeline()
    count, most = 60_000, 9_000_000_000
    used = [*range(count)]
    used[count // 3] = most
    memory = pl.DataFrame(
        {
            "device": [0] * count,
            "start_ps": [*range(-5, count - 5)],
            "used_bytes": used,
            "limit_bytes": [10 * most] * count,
            "peak_bytes": [None] * count,
        },
        schema={**MEMORY},
    )
    (described,) = json.loads(LivePage(content(replace(of, memory=memory))).page_json())[
        "timelines"
    ]
    (curve,) = described["memory"]
    assert len(curve["at"]) == len(curve["used"]) <= 16_001
    assert max(curve["used"]) == curve["most"] == most
    assert min(curve["at"]) == 0
    assert (curve["limit"], curve["peak"]) == (10 * most, None)
    (none,) = json.loads(LivePage(content(of)).page_json())["timelines"]
    assert none["memory"] == []


def test_a_finding_about_idle_time_leads_to_its_longest_gap() -> None:
    page = page_in(one_file(content(timelines.two_devices())))
    (made,) = page["timelines"]
    (waits,) = (it for it in made["findings"] if it["code"] == "STEP301")
    first = waits["places"][0]
    assert (first["op"], first["start"], first["dur"]) == (None, 29_500_000_000, 1_500_000_000)
    track = made["tracks"][first["track"]]
    assert (track["kind"], track["device"]) == ("summary", 0)


def test_phases_are_stretches_of_kernels() -> None:
    (made,) = page_in(one_file(content(timelines.two_devices())))["timelines"]
    ms = 1_000_000_000
    assert made["phases"]["phase"] == ["forward", "backward"] * 3
    assert made["phases"]["start"] == [at * ms for at in (10, 16, 20, 26, 31, 37)]
    assert made["phases"]["end"] == [at * ms for at in (14, 19, 24, 29, 35, 40)]


def test_one_phase_alone_is_not_worth_a_row() -> None:
    made = timelines.two_devices()
    ops = made.ops.with_columns(phase=pl.lit("forward"))
    (shown,) = page_in(one_file(content(replace(made, ops=ops))))["timelines"]
    assert shown["phases"] == {"phase": [], "start": [], "end": []}


@pytest.mark.parametrize("longer", [80, 0], ids=["some are longer", "all are alike"])
def test_of_very_many_phases_the_longest_stay(longer: int) -> None:
    made = timelines.two_devices()
    count = 20_000
    start = np.arange(count) * 100
    spans = made.spans[np.tile([1, 2], count // 2)].with_columns(
        device=pl.lit(0, made.spans["device"].dtype),
        start_ps=pl.Series(start, dtype=pl.Int64),
        dur_ps=pl.Series(10 + longer * (np.arange(count) % 5 == 0), dtype=pl.Int64),
    )
    page = TimelinePage(number=0, timeline=replace(made, spans=spans))
    found = page.describe()["phases"]
    assert 1000 < len(found["phase"]) <= 8000
    assert all(one != other for one, other in pairwise(found["phase"]))


def test_a_timeline_without_steps_or_spans_makes_a_page() -> None:
    for made in (
        assemble([recording([Span("fusion", 0, 10)], devices=1)], ["made"]),
        timeline(20),
    ):
        page = page_in(one_file(content(made)))
        assert page["timelines"][0]["complete"]
        assert page["timelines"][0]["tracks"]


def test_a_page_is_kept_and_found_until_its_input_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTERPOINT_CACHE", str(tmp_path / "cache"))
    profile = tmp_path / "a.xplane.pb"
    profile.write_bytes(b"1")
    live = LivePage(content(timeline()))
    live.compute()
    key = key_of([str(profile)], {"step": "7"})
    assert find_page(key) is None
    keep_page(key, live)
    kept = find_page(key)
    assert kept is not None
    assert kept.page_json() == live.page_json()
    assert {name: kept.block(name) for name in live.block_names()} == {
        name: live.block(name) for name in live.block_names()
    }
    assert kept.block("0.ops/../..") is None
    assert key_of([str(profile)], {"step": "8"}) != key
    os.utime(profile, (1, 1))
    assert find_page(key_of([str(profile)], {"step": "7"})) is None


def test_a_damaged_page_is_computed_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTERPOINT_CACHE", str(tmp_path))
    live = LivePage(content(timeline()))
    live.compute()
    place = tmp_path / "view" / "key"
    for name, damage in (
        ("index.json", b""),
        ("index.json", b"{"),
        ("index.json", b"[1]"),
        ("index.json", b'{"title": "", "blocks": {"0.ops": [0, 5]}}'),
        ("index.json", b'{"title": 7, "blocks": 7}'),
        ("page.json", b""),
        ("page.json", live.page_json().replace(b"1", b"2", 1)),
        ("blocks", b""),
        ("blocks", None),
    ):
        keep_page("key", live)
        assert find_page("key") is not None
        content_now = bytearray((place / name).read_bytes())
        content_now[len(content_now) // 2] ^= 1
        (place / name).write_bytes(content_now if damage is None else damage)
        assert find_page("key") is None, name
    monkeypatch.setenv("COUNTERPOINT_CACHE", "off")
    assert find_page("key") is None
    assert key_of([str(tmp_path / "absent")], {}) is None


def test_the_typical_step_is_one_nearest_to_the_median() -> None:
    spans = [Span("fusion", start, 8) for start in range(0, 1400, 10)]
    lengths = [200, 200, 203, 210, 204, 202]
    starts = [sum(lengths[:step]) for step in range(len(lengths))]
    markers = [(0, step, start, lengths[step]) for step, start in enumerate(starts)]
    made = assemble([recording(spans, devices=1, markers=markers)], ["made"])
    explanation = counterpoint.explain(made)
    page = page_in(one_file(content(made)))["timelines"][0]
    assert explanation.steps.median_ms is not None
    from_median = [abs(ms - explanation.steps.median_ms) for ms in page["steps"]["ms"]]
    typical = from_median[page["steps"]["step"].index(page["typical"])]
    assert typical == pytest.approx(min(from_median))
    assert typical < max(from_median)


def test_what_python_writes_beside_its_code_is_no_other_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepared, "_PACKAGE", tmp_path)
    (tmp_path / "profile").write_bytes(b"1")
    (tmp_path / "a.py").write_text("1")
    keys = [key_of([str(tmp_path / "profile")], {})]
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.pyc").write_bytes(b"1")
    keys.append(key_of([str(tmp_path / "profile")], {}))
    (tmp_path / "a.py").write_text("12")
    keys.append(key_of([str(tmp_path / "profile")], {}))
    assert keys[0] == keys[1] != keys[2]


def test_what_an_ended_process_left_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTERPOINT_CACHE", str(tmp_path))
    left, now = tmp_path / "view" / ".part-old", tmp_path / "view" / ".part-now"
    for part in (left, now):
        part.mkdir(parents=True)
    os.utime(left, (1, 1))
    live = LivePage(content(timeline()))
    live.compute()
    keep_page("key", live)
    assert not left.exists()
    assert now.exists()
    assert find_page("key") is not None


def test_the_step_that_was_to_be_explained_is_the_one_in_the_file() -> None:
    page = page_in(one_file(replace(content(timeline()), step=1)))["timelines"][0]
    assert (page["typical"], page["chosen"]) == (1, True)
    assert not page_in(one_file(content(timeline())))["timelines"][0]["chosen"]


def test_a_cache_that_cannot_be_read_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTERPOINT_CACHE", str(tmp_path))
    made = LivePage(content(timeline()))
    made.compute()
    unreadable = "0" * 300  # no file system has such a name: looking for it is an error
    assert find_page(unreadable) is None
    keep_page(unreadable, made)
    assert list(tmp_path.rglob("*.json")) == []
