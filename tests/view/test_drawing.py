"""What drawing costs, counted, and that both ways to draw show the same picture.

Without a GPU the CPU draws; the browser of these tests has none, so the other way is told of one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from chromium import Theme, Visit, Windows
from counterpoint.timeline.hosts.assemble import assemble
from counterpoint.view.page import PageContent
from golden_pages import PICTURES, TOLERANCE, difference, taken
from recordings import NS, Span, recording
from viewed import viewing

pytestmark = pytest.mark.system

Visitor = Callable[..., Visit]

GPU = """
const get = HTMLCanvasElement.prototype.getContext;
HTMLCanvasElement.prototype.getContext = function (kind, options) {
  const of = kind === "webgl2" ? {...options, failIfMajorPerformanceCaveat: false} : options;
  return get.call(this, kind, of);
};
const parameter = WebGL2RenderingContext.prototype.getParameter;
WebGL2RenderingContext.prototype.getParameter = function (name) {
  return [0x9246, this.RENDERER].includes(name) ? "a GPU" : parameter.call(this, name);
};
"""
COUNTED = """
window.uploaded = 0;
for (const name of ["bufferData", "bufferSubData", "texImage2D", "texSubImage2D"]) {
  const own = WebGL2RenderingContext.prototype[name];
  WebGL2RenderingContext.prototype[name] = function (...given) {
    window.uploaded += given.find((it) => ArrayBuffer.isView(it))?.byteLength ?? 0;
    return own.apply(this, given);
  };
}
"""
PANNED = """
async (frames) => {
  const frame = () => new Promise(requestAnimationFrame);
  for (let at = 0; at < 3; at++) await frame();
  const changes = [];
  new MutationObserver((found) => changes.push(...found.map((it) => it.target.className)))
    .observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
  window.uploaded = 0;
  const asked = performance.getEntriesByType("resource").length;
  const plot = document.querySelector("canvas.tl-top");
  const box = plot.getBoundingClientRect();
  const at = (x) => ({
    bubbles: true, pointerId: 1, button: 0, clientX: box.left + x, clientY: box.top + 9,
  });
  plot.setPointerCapture = () => {};
  plot.dispatchEvent(new PointerEvent("pointerdown", at(300)));
  for (let moved = 1; moved <= frames; moved++) {
    plot.dispatchEvent(new PointerEvent("pointermove", at(300 + 6 * (moved % 2 ? moved : -moved))));
    if (moved === 1) { await frame(); await frame(); changes.length = 0; }
    await frame();
  }
  const requests = performance.getEntriesByType("resource").length - asked;
  const drawn = Number(plot.closest(".tl").dataset.rectangles);
  return {changes, requests, uploaded: window.uploaded, drawn};
}
"""
ZOOMED = """
async ([from, to]) => {
  const plot = document.querySelector("[data-ready]");
  const before = performance.getEntriesByType("resource").length;
  const hash = new URLSearchParams(location.hash.slice(1));
  hash.set("from", from);
  hash.set("to", to);
  location.hash = hash.toString();
  const frame = () => new Promise(requestAnimationFrame);
  await frame();
  await frame();
  while (plot.dataset.ready !== "true") await frame();
  const answers = performance.getEntriesByType("resource").slice(before);
  return [answers.length, answers.reduce((sum, it) => sum + it.decodedBodySize, 0)];
}
"""
LATE = """
async (windows) => {
  const zoom = ZOOMED;
  let asked = 0;
  for (const window of windows) asked += (await zoom(window))[0];
  const before = performance.getEntriesByType("resource").length;
  await new Promise((done) => setTimeout(done, 500));
  return [asked, performance.getEntriesByType("resource").length - before];
}
""".replace("ZOOMED", ZOOMED)
SPANS = 60_000


@pytest.fixture(scope="module")
def busy() -> Generator[str]:
    """A page of 60,000 short spans: collectives that kernels hide in part."""
    spans = [
        Span(op, 100 * at + by, length, line=line)
        for at in range(SPANS // 3)
        for op, by, length, line in (
            ("fusion", 0, 40, 0),
            ("all-gather", 20, 50, 1),
            ("copy", 75, 10, 2),
        )
    ]
    markers = [(0, step, step * 100_000, 100_000) for step in range(SPANS // 3000)]
    made = assemble([recording(spans, devices=1, markers=markers)], ["busy"])
    content = PageContent(title="busy", command="", version="1", results={}, timelines=(made,))
    with viewing(content) as address:
        yield address


def window_of(width: float) -> tuple[int, int]:
    """From the middle of the timeline on; `width`: share of the rest."""
    end = 100 * SPANS / 3 * NS
    return round(end / 2), round(end * (0.5 + width / 2))


def opened(visit: Visitor, address: str, script: str, width: float = 1) -> Visit:
    start, end = window_of(width)
    visited = visit(f"{address}#view=timeline&from={start}&to={end}", script=script)
    visited.page.wait_for_selector("[data-ready=true]")
    return visited


def painter(visited: Visit) -> str:
    return visited.page.locator("[data-painter]").get_attribute("data-painter") or ""


@pytest.mark.parametrize("has_gpu", [False, True])
def test_a_frame_while_panning_uploads_fetches_and_rebuilds_nothing(
    visit: Visitor, busy: str, has_gpu: bool
) -> None:
    visited = opened(visit, busy, COUNTED + (GPU if has_gpu else ""), 0.5)
    assert painter(visited) == ("WebGL2" if has_gpu else "Canvas 2D")
    found = visited.page.evaluate(PANNED, 8)
    assert found["drawn"] > 1000
    assert [it for it in found["changes"] if "tl-corner" not in it and it != "tl"] == []
    assert found["requests"] == 0
    assert found["uploaded"] == 0


def test_a_zoom_is_one_request_for_what_the_screen_can_show(visit: Visitor, busy: str) -> None:
    visited = opened(visit, busy, "")
    end = 100 * SPANS / 3 * NS
    for share in (1, 0.3, 0.1, 0.03, 0.01, 0.001):
        for start in (0.11, 0.47, 0.83):
            window = [round(end * start), round(end * min(start + share, 1))]
            requests, size = visited.page.evaluate(ZOOMED, window)
            assert requests <= 1, (share, start)
            assert size < 1_000_000, (share, start)


def test_a_page_is_not_ready_before_it_has_asked_for_what_it_lacks(
    visit: Visitor, busy: str
) -> None:
    visited = opened(visit, busy, "")
    end = 100 * SPANS / 3 * NS
    zooms = [[round(end * 0.1 * at), round(end * (0.1 * at + 0.001))] for at in range(8)]
    asked, late = visited.page.evaluate(LATE, zooms)
    assert asked > 0
    assert late == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_cpu_draws_what_a_gpu_does(windows: Windows, tmp_path: Path, theme: Theme) -> None:
    picture = next(it for it in PICTURES if (it.view, it.theme) == ("timeline", theme))
    one, other = (taken(windows, picture, tmp_path, script) for script in (None, GPU))
    assert one != other  # they are drawn differently
    assert difference(windows, one, other) <= TOLERANCE / 4


def test_where_many_spans_share_a_pixel_both_show_as_much_of_each(
    visit: Visitor, busy: str
) -> None:
    both = [opened(visit, busy, script) for script in ("", GPU)]
    for width in (1, 0.3, 0.02, 0.0005):
        shares: list[list[float]] = []
        for visited in both:
            visited.page.evaluate(ZOOMED, [*window_of(width)])
            visited.settle()
            shares.append(mean_colors(visited))
        for ours, theirs in zip(*shares, strict=True):
            assert ours == pytest.approx(theirs, abs=3), width


def mean_colors(visited: Visit) -> list[float]:
    """The mean red, green and blue of each quarter of the tracks."""
    shot = visited.page.locator(".tl-plot").screenshot()
    colors: list[float] = visited.page.evaluate(
        """async (bytes) => {
          const image = await createImageBitmap(new Blob([new Uint8Array(bytes)]));
          const canvas = new OffscreenCanvas(image.width, image.height);
          const context = canvas.getContext("2d");
          context.drawImage(image, 0, 0);
          const found = [];
          const tall = 60;
          for (let part = 0; part < 4; part++) {
            const {data} = context.getImageData(0, part * tall, image.width, tall);
            const sums = [0, 0, 0];
            for (let at = 0; at < data.length; at++) if (at % 4 < 3) sums[at % 4] += data[at];
            found.push(...sums.map((sum) => sum / (data.length / 4)));
          }
          return found;
        }""",
        list(shot),
    )
    return colors
