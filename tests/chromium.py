"""Pages in the system's Chromium: what they show, what they complain about, what they ask for."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from playwright.sync_api import (
        Browser,
        ConsoleMessage,
        Dialog,
        Error,
        Locator,
        Page,
        Request,
    )
    from playwright.sync_api._generated import LocatorAssertions

NAMES = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    "--no-sandbox",
    "--disable-gpu-compositing",  # in software it costs more than half of a page's CPU time
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--force-color-profile=srgb",
    "--font-render-hinting=none",
    "--disable-lcd-text",
)
SIZE = (1280, 800)
Theme = Literal["light", "dark"]


def executable() -> str | None:
    """The path of the browser, if there is one."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def why_no_browser() -> str | None:
    """Why pages can't be opened here; None: they can."""
    if find_spec("playwright") is None:
        return "playwright is not installed"
    return None if executable() else "Chromium is not installed (make tools)"


@contextmanager
def chromium() -> Generator[Browser]:
    """A browser that draws without a GPU."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable(), args=[*OPTIONS])
        try:
            yield browser
        finally:
            browser.close()


def expect(locator: Locator) -> LocatorAssertions:
    """State what an element becomes: it is looked at again until it is so, or half a minute."""
    from playwright.sync_api import expect

    expect.set_options(timeout=30_000)
    return expect(locator)


class Windows:
    """Windows of one browser, each used again once its visit ends: a new one costs a second."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._free: dict[str | None, list[Page]] = {}

    def take(self, script: str | None = None) -> Page:
        """An empty window; `script` runs before each page in it."""
        if free := self._free.get(script):
            return free.pop()
        context = self._browser.new_context()
        if script is not None:
            context.add_init_script(script)
        return context.new_page()

    def give_back(self, page: Page, script: str | None = None) -> None:
        page.evaluate(_FORGET)
        page.goto("about:blank")
        self._free.setdefault(script, []).append(page)


_FORGET = "() => { try { localStorage.clear(); sessionStorage.clear(); } catch {} }"


_TWO_FRAMES = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
_DRAWN = """() => {
  const timeline = document.querySelector(".tl");
  return !timeline || timeline.dataset.ready === "true";
}"""


class Visit:
    """A page in the browser: `errors` are what its console says, `requests` what it asked for."""

    def __init__(
        self,
        windows: Windows,
        size: tuple[int, int] = SIZE,
        theme: Theme = "light",
        script: str | None = None,
    ) -> None:
        width, height = size
        self._windows, self._script = windows, script
        self.page: Page = windows.take(script)
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", self._heard)
        self.page.on("pageerror", self._failed)
        self.page.on("dialog", self._refuse)
        self.page.on("request", self._requested)

    def _failed(self, error: Error) -> None:
        self.errors.append(str(error))

    def _requested(self, request: Request) -> None:
        self.requests.append(request.url)

    def _refuse(self, dialog: Dialog) -> None:
        self.errors.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(message.text)

    def open(self, address: str) -> Visit:
        self.page.goto(address)
        self.tabs.first.wait_for()
        return self

    @property
    def tabs(self) -> Locator:
        return self.page.get_by_role("tab")

    @property
    def views(self) -> list[str]:
        return [name.removeprefix("tab-") for name in self._ids()]

    def _ids(self) -> list[str]:
        return [tab.get_attribute("id") or "" for tab in self.tabs.all()]

    def show(self, view: str) -> Locator:
        """Click on the tab of a view, and wait until the view is there."""
        self.page.click(f"#tab-{view}")
        panel = self.page.locator(f"#panel[data-view={view}]")
        panel.wait_for()
        self.settle()
        return panel

    def settle(self) -> None:
        """Wait for what the page still fetches and draws."""
        if not self.page.url.startswith("file:"):  # a file fetches nothing, and this takes 0.5 s
            self.page.wait_for_load_state("networkidle")
        self.page.evaluate(_TWO_FRAMES)
        self.page.wait_for_function(_DRAWN)
        self.page.evaluate(_TWO_FRAMES)
        self.page.wait_for_timeout(150)

    @property
    def address(self) -> str:
        """The address as the page has it: Playwright hears of a change late."""
        where: str = self.page.evaluate("location.href")
        return where

    def rest(self) -> str:
        """Wait until the address says what the timeline shows; return it.

        The page writes it 250 ms after the last change, and its clocks ring in their order.
        """
        self.page.evaluate("() => new Promise(done => setTimeout(done, 300))")
        return self.address

    def close(self) -> None:
        """Leave the window to the next visit; what this one saw is kept."""
        self.page.remove_listener("console", self._heard)
        self.page.remove_listener("pageerror", self._failed)
        self.page.remove_listener("dialog", self._refuse)
        self.page.remove_listener("request", self._requested)
        self._windows.give_back(self.page, self._script)
