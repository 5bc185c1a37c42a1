"""The local app, served from a thread of this process: what a browser can be pointed at."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager

from counterpoint.view import App, LivePage, PageContent, ShownPage, listen, serve


@contextmanager
def viewing(content: PageContent, *, complete: bool = True) -> Generator[str]:
    """Serve a page; yields its address."""
    page = LivePage(content)
    if complete:
        page.compute()
    shown = ShownPage(page, content.title)
    shown.say("", complete=complete)
    with serving(shown) as address:
        yield address


@contextmanager
def serving(shown: ShownPage) -> Generator[str]:
    """Serve what is shown; yields its address."""
    app, ready, ended = App(shown), threading.Event(), threading.Event()
    with listen(0) as listener:
        port = listener.getsockname()[1]
        thread = threading.Thread(
            target=serve,
            args=(_EndingApp(app, ended), listener),
            kwargs={"idle_s": 60, "ready": ready.set},
        )
        thread.start()
        try:
            assert ready.wait(10)
            yield f"http://127.0.0.1:{port}/{app.token}/"
        finally:
            ended.set()
            thread.join(10)


class _EndingApp(App):
    """Seems unused for long once the test has ended."""

    def __init__(self, app: App, ended: threading.Event) -> None:
        self.__dict__.update(app.__dict__)
        self._ended = ended

    @property
    def unused_s(self) -> float:
        return 1e9 if self._ended.is_set() else super().unused_s
