"""Pages in the system's Chromium: what they show, what they complain about, what they ask for."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Dialog, Locator, Page

NAMES = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    "--no-sandbox",
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


class Visit:
    """A page in the browser: `errors` are what its console says, `requests` what it asked for."""

    def __init__(
        self,
        browser: Browser,
        size: tuple[int, int] = SIZE,
        theme: Theme = "light",
        script: str | None = None,
    ) -> None:
        width, height = size
        self.context = browser.new_context(
            viewport={"width": width, "height": height},
            reduced_motion="reduce",
            color_scheme=theme,
        )
        if script is not None:  # what runs before the page does
            self.context.add_init_script(script)
        self.page: Page = self.context.new_page()
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("dialog", self._asked)
        self.context.on("request", lambda request: self.requests.append(request.url))

    def _asked(self, dialog: Dialog) -> None:
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
        self.page.wait_for_load_state("networkidle")
        self.page.evaluate(
            "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )
        self.page.wait_for_timeout(150)

    def close(self) -> None:
        self.context.close()
