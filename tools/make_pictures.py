"""Take the pictures of the documentation: real pages of a published profile, in Chromium.

    python tools/make_pictures.py PAX_BUNDLE... docs/pictures

The bundles are the four processes of the Pax run in docs/cases, as nsys-jax wrote them. Its step is
also predicted, from the module in the first bundle, and shown beside the measurement.
"""

from __future__ import annotations

import lzma
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from chromium import chromium, why_no_browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

TARGET = "4xA100-40GB"
STEP = "after_optimizations.hlo.pb.xz"
MODULE = "pjit__wrapped_step_fn"
COMPLETE = '[data-ready="true"]'
SIZE = (1280, 720)


@dataclass(frozen=True)
class Picture:
    """A picture: the file it is taken of, the address in it, and what is clicked first."""

    name: str
    page: str
    address: str
    size: tuple[int, int] = SIZE
    clicks: tuple[str, ...] = ()


PICTURES = (
    Picture("overview", "measured", "view=overview"),
    Picture("timeline", "measured", "view=timeline"),
    Picture("collective", "measured", "view=timeline&finding=STEP101"),
    Picture("collectives", "measured", "view=collectives"),
    Picture("ops", "measured", "view=ops"),
    Picture(
        "measured-and-predicted",
        "compared",
        "view=timeline",
        (1280, 480),
        ("button:has-text('Color by change')",),
    ),
    Picture("compare", "compared", "view=compare"),
)


def pages(bundles: Sequence[Path], directory: Path) -> dict[str, Path]:
    """Write the pages with the commands that a reader would type: pictures show them."""
    for bundle in bundles:
        (directory / bundle.name).symlink_to(bundle.resolve())
    names = [bundle.name for bundle in bundles]
    step = step_of(bundles[0], directory).name
    counterpoint(directory, "explain", *names, "--html", "measured.html")
    counterpoint(directory, "predict", step, "--target", TARGET, "-o", "predicted")
    counterpoint(directory, "compare", names[0], "predicted", "--html", "compared.html")
    return {name: directory / f"{name}.html" for name in ("measured", "compared")}


def counterpoint(directory: Path, *words: str) -> None:
    """Run a command without its output."""
    command = [sys.executable, "-m", "counterpoint", *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=directory)


def step_of(bundle: Path, directory: Path) -> Path:
    """Unpack the compiled step."""
    with zipfile.ZipFile(bundle) as packed:
        (name,) = (it for it in packed.namelist() if MODULE in it and it.endswith(STEP))
        module = directory / f"{MODULE}.hlo.pb"
        module.write_bytes(lzma.decompress(packed.read(name)))
    return module


def take(browser: Browser, picture: Picture, page: Path, out: Path) -> None:
    width, height = picture.size
    context = browser.new_context(
        viewport={"width": width, "height": height}, reduced_motion="reduce"
    )
    opened: Page = context.new_page()
    opened.goto(f"{page.as_uri()}#{picture.address}")
    if "timeline" in picture.address:
        opened.wait_for_selector(COMPLETE)
    for selector in picture.clicks:
        opened.click(selector)
    opened.mouse.move(0, 0)
    opened.wait_for_timeout(1000)
    opened.screenshot(path=out / f"{picture.name}.png")
    context.close()


def main(*words: str) -> None:
    if len(words) < 2:
        sys.exit(__doc__)
    if reason := why_no_browser():
        sys.exit(f"error: {reason}")
    *bundles, out = map(Path, words)
    out.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name, chromium() as browser:
        found = pages(bundles, Path(name))
        for picture in PICTURES:
            take(browser, picture, found[picture.page], out)
            print(out / f"{picture.name}.png")


if __name__ == "__main__":
    main(*sys.argv[1:])
