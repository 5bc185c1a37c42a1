"""The local app, served from a thread of this process: what a browser can be pointed at."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager

from starlette.types import Receive, Scope, Send

from counterpoint.view.app import App, ShownPage
from counterpoint.view.page import LivePage, PageContent
from counterpoint.view.serving import listen, serve


@contextmanager
def viewing(content: PageContent) -> Generator[str]:
    """Serve a page; yields its address."""
    page = LivePage(content)
    page.compute()
    shown = ShownPage(page, content.title)
    shown.say("", complete=True)
    with serving(App(shown)) as address:
        yield address


@contextmanager
def serving(app: App) -> Generator[str]:
    """Serve the app; yields its address."""
    ready, ended = threading.Event(), threading.Event()
    with listen(0) as listener:
        port = listener.getsockname()[1]
        thread = threading.Thread(
            target=serve,
            args=(_UntilEnded(app, ended), listener),
            kwargs={"idle_s": 1e6, "ready": ready.set},
        )
        thread.start()
        try:
            assert ready.wait(10)
            yield f"http://127.0.0.1:{port}/{app.token}/"
        finally:
            ended.set()
            thread.join(10)


class _UntilEnded(App):
    """The app, which seems unused for long once the test has ended."""

    def __init__(self, app: App, ended: threading.Event) -> None:
        self._app = app
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    @property
    def unused_s(self) -> float:
        return 1e9 if self._ended.is_set() else self._app.unused_s
