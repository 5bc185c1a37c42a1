"""Golden pictures of pages: what they show, how they are made anew, and how two are compared.

    make golden    # after a change of what a page looks like

Pictures are compared coarsely, since fonts differ a little between releases of a browser. A
picture in which nothing differs clearly is kept: only changed pictures are to be looked at.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from compare_pairs import program, sine, timeline

import counterpoint
import timelines
import tune_conclusions
from chromium import Theme, Visit, Windows, chromium, why_no_browser
from counterpoint.report.explain.compare_document import compare_document
from counterpoint.report.explain.compare_json import compare_json
from counterpoint.report.explain.explain_document import explain_document
from counterpoint.report.explain.explain_json import explain_json
from counterpoint.report.markup import document_markup
from counterpoint.report.tune.tune_document import tune_document
from counterpoint.report.tune.tune_json import tune_json
from counterpoint.timeline.model import Timeline
from counterpoint.view.page import PageContent, one_file

GOLDEN: Final = Path(__file__).parent / "view/golden"
TOLERANCE: Final = 0.02
"""Share of a picture's cells that may differ."""


def _page(command: str, report: str, text: str, *shown: Timeline) -> PageContent:
    return PageContent(
        title=f"golden {command}",
        command=f"counterpoint {command} steps --html page.html",
        version="1",
        reports=((command, report),),
        results={"tune" if command == "tune show" else command: text},
        timelines=shown,
    )


def explained() -> PageContent:
    made = replace(timelines.two_devices(), inputs=("steps.xplane.pb",))
    found = counterpoint.explain(made)
    report = document_markup(explain_document(found, 10))
    return _page("explain", report, explain_json(found), made)


def compared() -> PageContent:
    hlo = program(sine("first", "mlp/sin"), sine("second", "head/sin"))
    a, b = (
        replace(
            timeline(hlo, [("first", 0, 4 * by, 0), ("second", 6, 2, 0)], step_ms=[10.0 * by] * 7),
            inputs=(f"{name}.xplane.pb",),
        )
        for name, by in (("before", 1.0), ("after", 1.1))
    )
    found = counterpoint.compare(a, b)
    report = document_markup(compare_document(found, 10))
    return _page("compare", report, compare_json(found), a, b)


def studied() -> PageContent:
    found = tune_conclusions.found()
    report = document_markup(tune_document(found, Path("study"), 20, ""))
    return _page("tune show", report, tune_json(found, Path("study")))


PAGES: Final[Mapping[str, Callable[[], PageContent]]] = {
    "explain": explained,
    "compare": compared,
    "study": studied,
}


@dataclass(frozen=True, slots=True)
class Picture:
    """A view of a page in a theme."""

    page: str
    view: str
    theme: Theme

    @property
    def path(self) -> Path:
        return GOLDEN / f"{self.page}-{self.view}-{self.theme}.png"


PICTURES: Final = (
    Picture("explain", "overview", "light"),
    Picture("explain", "overview", "dark"),
    Picture("explain", "timeline", "light"),
    Picture("explain", "timeline", "dark"),
    Picture("explain", "report", "light"),
    Picture("compare", "compare", "light"),
    Picture("study", "study", "dark"),
)


def taken(windows: Windows, picture: Picture, directory: Path, script: str | None = None) -> bytes:
    """The picture of a page as it is now (PNG); `script` runs before the page does."""
    file = directory / f"{picture.page}.html"
    if not file.exists():
        file.write_text(one_file(PAGES[picture.page]()), encoding="utf-8")
    visited = Visit(windows, theme=picture.theme, script=script).open(file.as_uri())
    visited.show(picture.view)
    visited.page.mouse.move(0, 0)
    visited.page.wait_for_timeout(300)
    made = visited.page.screenshot(animations="disabled", caret="hide")
    visited.close()
    return made


def difference(windows: Windows, one: bytes, other: bytes) -> float:
    """The share of cells, of 8 by 8 pixels, that differ clearly."""
    pictures = [f"data:image/png;base64,{base64.b64encode(it).decode()}" for it in (one, other)]
    window = windows.take()
    share: float = window.evaluate(_DIFFERENCE, pictures)
    windows.give_back(window)
    return share


_DIFFERENCE: Final = """async (pictures) => {
  const cells = [];
  for (const source of pictures) {
    const image = new Image();
    image.src = source;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = Math.round(image.width / 8);
    canvas.height = Math.round(image.height / 8);
    const context = canvas.getContext("2d");
    context.imageSmoothingQuality = "high";
    context.drawImage(image, 0, 0, canvas.width, canvas.height);
    cells.push(context.getImageData(0, 0, canvas.width, canvas.height).data);
  }
  const [a, b] = cells;
  if (a.length !== b.length) return 1;
  let differ = 0;
  for (let at = 0; at < a.length; at += 4) {
    const apart = [0, 1, 2].map((channel) => Math.abs(a[at + channel] - b[at + channel]));
    if (Math.max(...apart) > 28) differ++;
  }
  return differ / (a.length / 4);
}"""


def main() -> None:
    """Take all pictures anew, and write those that differ."""
    if reason := why_no_browser():
        print(f"the pictures were not taken anew: {reason}")
        return
    GOLDEN.mkdir(exist_ok=True)
    with chromium() as browser, TemporaryDirectory() as directory:
        windows = Windows(browser)
        for picture in PICTURES:
            now = taken(windows, picture, Path(directory))
            file = picture.path
            if file.exists() and difference(windows, file.read_bytes(), now) == 0:
                continue
            file.write_bytes(now)
            print(f"wrote {file.relative_to(GOLDEN.parents[2])}")


if __name__ == "__main__":
    main()
