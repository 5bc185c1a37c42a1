"""How long people wait for `counterpoint view`, in a real browser without a GPU.

    python benchmarks/view.py [CAPTURE] [--cache DIRECTORY] [--runs 3] [--xprof] [--json]

Without a capture, one of 400 MB is recorded (7 million events). Times begin with the command for a
profile that was never opened, and with the navigation for a prepared one; the browser runs before.
Windows are random, from the whole recording to a microsecond. A frame is the time between two
frames of the screen while the view pans. `--xprof` also takes the time in which xprof converts the
capture for its trace viewer, before a browser shows anything: compare the two only from one run.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import polars as pl

import captures
import fresh_process
import machine
from chromium import chromium, why_no_browser
from counterpoint.timeline.hosts.assemble import assemble
from counterpoint.view.page import PageContent
from recordings import Span, recording
from viewed import viewing

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

HERE = Path(__file__).parent
SIZE = {"width": 1600, "height": 900}
MEGABYTES = 400
WINDOWS = 40
FRAMES = 60
MINUTES_MS = 120_000
_DENSE, _DEVICES, _STREAMS = 20_000, 4, 8
"""Spans of a row, devices, and streams of each: all are open, and most are on the screen."""
_WANTED = 200_000
_EVERY = 180
"""Nanoseconds from span to span: 2.8 in a bucket of 512 ns, which is no level with fewer than 3."""
STEPS = '[data-steps]:not([data-steps="0"])'
COMPLETE = '[data-ready="true"]'
XPROF = """
import sys
from xprof.convert import raw_to_tool_data
options = {"trace_viewer_options": {"resolution": "8000"}, "use_saved_result": False}
data, _ = raw_to_tool_data.xspace_to_tool_data([sys.argv[1]], "trace_viewer@", options)
print(len(data or b""))
"""
PAN = """
async (frames) => {
  const plot = document.querySelector('[data-ready]');
  const times = [];
  let before = 0;
  for (let at = 0; at < frames; at++) {
    const key = at % 20 < 10 ? 'd' : 'a';
    document.body.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));
    const now = await new Promise(requestAnimationFrame);
    if (before) times.push(now - before);
    before = now;
  }
  return [times, Number(plot.dataset.rectangles ?? 0)];
}
"""
END = "fetch('page.json').then((answer) => answer.json()).then((page) => page.timelines[0].end)"
ZOOM = """
async ([from, to]) => {
  const plot = document.querySelector('[data-ready]');
  const began = performance.now();
  const hash = new URLSearchParams(location.hash.slice(1));
  hash.set('from', String(from));
  hash.set('to', String(to));
  location.hash = hash.toString();
  await new Promise(requestAnimationFrame);
  await new Promise(requestAnimationFrame);
  while (plot.dataset.ready !== 'true') {
    if (performance.now() - began > 10000) throw new Error(`${from} to ${to} is not drawn`);
    await new Promise(requestAnimationFrame);
  }
  return performance.now() - began;
}
"""


@dataclass(frozen=True, kw_only=True)
class Opened:
    """One opening: seconds until steps are on the screen, and until every level is."""

    steps_s: float
    levels_s: float


@dataclass(frozen=True, kw_only=True)
class Looked:
    """What using the view costs."""

    zoom_ms: list[float]
    frame_ms: list[float]
    rectangles: int
    renderer_mb: float


class Served:
    """`counterpoint view` in a process of its own."""

    def __init__(self, capture: Path, cache: Path) -> None:
        self.began = time.perf_counter()
        command = [sys.executable, "-m", "counterpoint", "view", str(capture), "--no-browser"]
        environment = os.environ | {"COUNTERPOINT_CACHE": str(cache)}
        self._process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        if self._process.stdout is None:
            raise fresh_process.Failed("the app has no output", "it was not started with a pipe")
        self.address = self._process.stdout.readline().strip()
        self.ready_s = time.perf_counter() - self.began

    def end(self) -> None:
        """Ctrl-C, and wait."""
        self._process.send_signal(signal.SIGINT)
        self._process.communicate(timeout=60)


@contextmanager
def page_of(browser: Browser) -> Generator[Page]:
    context = browser.new_context(viewport=SIZE)
    page = context.new_page()
    page.set_default_timeout(MINUTES_MS)
    try:
        yield page
    finally:
        context.close()


def open_cold(browser: Browser, capture: Path, cache: Path) -> Opened:
    """Open a profile that was never opened."""
    shutil.rmtree(cache, ignore_errors=True)
    served = Served(capture, cache)
    try:
        with page_of(browser) as page:
            page.goto(f"{served.address}#view=timeline")
            page.wait_for_selector(STEPS)
            steps_s = time.perf_counter() - served.began
            page.wait_for_selector(COMPLETE)
            levels_s = time.perf_counter() - served.began
        _wait_for_page(cache)
        return Opened(steps_s=steps_s, levels_s=levels_s)
    finally:
        served.end()


def _wait_for_page(cache: Path) -> None:
    """Wait until the page is kept, which the server does after it is shown."""
    while not [each for each in cache.glob("view/*") if not each.name.startswith(".")]:
        time.sleep(0.1)


def open_prepared(browser: Browser, served: Served) -> Opened:
    """Open a prepared page: first its overview, then the levels of its timeline."""
    with page_of(browser) as page:
        began = time.perf_counter()
        page.goto(f"{served.address}#view=overview")
        page.wait_for_selector("text=Step time")
        overview_s = time.perf_counter() - began
        began = time.perf_counter()
        page.goto("about:blank")
        page.goto(f"{served.address}#view=timeline")
        page.wait_for_selector(COMPLETE)
        return Opened(steps_s=overview_s, levels_s=time.perf_counter() - began)


def use(browser: Browser, served: Served) -> Looked:
    """Zoom to random windows, and pan over as many rectangles as the view draws at once."""
    chance = random.Random(1)  # noqa: S311 - windows to look at
    with page_of(browser) as page:
        page.goto(f"{served.address}#view=timeline")
        page.wait_for_selector(COMPLETE)
        end = page.evaluate(END)
        zooms: list[float] = []
        for _ in range(WINDOWS):
            width = end * 10 ** -chance.uniform(0, 6)
            start = chance.uniform(0, end - width)
            zooms.append(page.evaluate(ZOOM, [round(start), round(start + width)]))
        densest: tuple[list[float], int] = ([], 0)
        for part in (1, 0.3, 0.1, 0.03):
            page.evaluate(ZOOM, [round(end * 0.4), round(end * (0.4 + 0.5 * part))])
            times, rectangles = page.evaluate(PAN, FRAMES)
            if rectangles >= densest[1]:
                densest = (times, rectangles)
        return Looked(
            zoom_ms=zooms,
            frame_ms=densest[0],
            rectangles=densest[1],
            renderer_mb=_renderer_mb(),
        )


def dense_content() -> PageContent:
    """A made-up recording with more spans on one screen than any profile so far: see `dense`."""
    spans = [Span("fusion", _EVERY * at, _EVERY - 10) for at in range(_DENSE)]
    made = recording(spans, devices=_DEVICES, markers=[(0, 0, 0, _EVERY * _DENSE)])
    lines = [
        made.spans.with_columns(device=pl.lit(device, pl.UInt16), line=pl.lit(line, pl.UInt32))
        for device in range(_DEVICES)
        for line in range(device * _STREAMS, (device + 1) * _STREAMS)
    ]
    names = tuple(f"line {number}" for number in range(_DEVICES * _STREAMS))
    whole = assemble([replace(made, spans=pl.concat(lines), lines=names)], ["dense"])
    return PageContent(title="dense", command="", version="1", results={}, timelines=(whole,))


def dense(browser: Browser) -> dict[str, Any]:
    """Pan where 200,000 rectangles are on the screen, if any window shows so many; CPU per frame.

    Levels keep buckets of two pixels, so a real profile shows fewer; here each row has spans just
    too few for the next level.
    """
    with viewing(dense_content()) as address, page_of(browser) as page:
        page.goto(f"{address}#view=timeline")
        page.wait_for_selector(COMPLETE)
        end = page.evaluate(END)
        found: dict[str, Any] = {"rectangles": 0}
        share = 1.0
        while found["rectangles"] < _WANTED and share > 0.01:
            page.evaluate(ZOOM, [0, round(end * share)])
            before = _renderer_cpu_s()
            times, rectangles = page.evaluate(PAN, FRAMES)
            cpu_ms = (_renderer_cpu_s() - before) / FRAMES * 1000
            if rectangles > found["rectangles"]:
                found = {"rectangles": rectangles, "frame_ms": median(times), "cpu_ms": cpu_ms}
            share *= 0.8
        return found


def _renderer_cpu_s() -> float:
    """Return the CPU seconds of the processes that render pages."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if b"--type=renderer" in stat.with_name("cmdline").read_bytes():
                ticks += sum(map(int, stat.read_text().rpartition(")")[2].split()[11:13]))
        except OSError:
            continue
    return ticks / os.sysconf("SC_CLK_TCK")


def _renderer_mb() -> float:
    """Return the largest resident set of a process that renders a page."""
    largest = 0
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            command = status.with_name("cmdline").read_bytes()
            if b"--type=renderer" in command:
                line = next(it for it in status.read_text().splitlines() if it.startswith("VmHWM"))
                largest = max(largest, int(line.split()[1]))
        except (OSError, StopIteration):
            continue
    return largest / 1024


def write_file(capture: Path, directory: Path) -> tuple[Path, float]:
    """Write the page as one file; return it, and how long that took."""
    out = directory / "page.html"
    command = [sys.executable, "-m", "counterpoint", "explain", str(capture), "--html", str(out)]
    return out, fresh_process.run(command, directory).seconds


def open_file(browser: Browser, file: Path) -> float:
    """Return the seconds until the overview of a file is on the screen."""
    with page_of(browser) as page:
        began = time.perf_counter()
        page.goto(file.as_uri())
        page.wait_for_selector("text=Step time")
        return time.perf_counter() - began


def measure(capture: Path, runs: int, *, with_xprof: bool) -> dict[str, Any]:
    """Take all figures, each `runs` times."""
    found: dict[str, Any] = {"capture": capture.name, "machine": asdict(machine.describe())}
    with tempfile.TemporaryDirectory() as name, chromium() as browser:
        directory = Path(name)
        cache = directory / "cache"
        found["cold"] = [asdict(open_cold(browser, capture, cache)) for _ in range(runs)]
        served = Served(capture, cache)
        try:
            found["prepared_command_s"] = served.ready_s
            found["prepared"] = [asdict(open_prepared(browser, served)) for _ in range(runs)]
            found["used"] = asdict(use(browser, served))
            found["dense"] = dense(browser)
        finally:
            served.end()
        file, seconds = write_file(capture, directory)
        found["file"] = {
            "megabytes": file.stat().st_size / 1e6,
            "written_s": seconds,
            "opened_s": [open_file(browser, file) for _ in range(runs)],
        }
        if with_xprof:
            trial = fresh_process.run([sys.executable, "-c", XPROF, str(capture)], directory)
            found["xprof"] = {"seconds": trial.seconds, "peak_mb": trial.peak_bytes / 1e6}
    return found


def lines(found: dict[str, Any]) -> Generator[str]:
    """The table of the README."""

    def middle(of: str, key: str) -> float:
        return median(each[key] for each in found[of])

    used = found["used"]
    worst = sorted(used["zoom_ms"])[int(len(used["zoom_ms"]) * 0.95)]
    yield "| what | measured |"
    yield "|---|---|"
    yield f"| never opened: steps on the screen | {middle('cold', 'steps_s'):.2f} s |"
    yield f"| never opened: all levels | {middle('cold', 'levels_s'):.2f} s |"
    yield f"| prepared: address printed | {found['prepared_command_s']:.2f} s |"
    yield f"| prepared: overview, from the navigation | {middle('prepared', 'steps_s'):.2f} s |"
    yield f"| prepared: timeline, from the navigation | {middle('prepared', 'levels_s'):.2f} s |"
    yield f"| zoom to any window: median, 95% | {median(used['zoom_ms']):.0f}, {worst:.0f} ms |"
    frame = median(used["frame_ms"])
    yield f"| frame while panning {used['rectangles']:,} rectangles | {frame:.0f} ms |"
    many = found["dense"]
    yield (
        f"| the same, {many['rectangles']:,} rectangles of a made-up recording |"
        f" {many['frame_ms']:.0f} ms, {many['cpu_ms']:.0f} ms of CPU |"
    )
    yield f"| memory of the browser's page | {used['renderer_mb']:.0f} MB |"
    file = found["file"]
    yield f"| one file | {file['megabytes']:.1f} MB, written in {file['written_s']:.1f} s |"
    yield f"| one file: overview on the screen | {median(file['opened_s']):.2f} s |"
    if "xprof" in found:
        other = found["xprof"]
        yield (
            f"| xprof's trace viewer: conversion alone | {other['seconds']:.1f} s,"
            f" {other['peak_mb']:,.0f} MB |"
        )


def main(say: Callable[[str], None] = print) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("capture", nargs="?", type=Path)
    parser.add_argument("--cache", type=Path, default=HERE / ".cache")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--xprof", action="store_true")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if reason := why_no_browser():
        sys.exit(f"error: {reason}")
    capture = given.capture or captures.record(given.cache, MEGABYTES, say).path
    found = measure(capture, given.runs, with_xprof=given.xprof)
    say(json.dumps(found, indent=2) if given.json else "\n".join(lines(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
