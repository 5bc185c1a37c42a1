"""`counterpoint view`: look at a profile, a Run, a prediction or a study in the browser."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import sys
import threading
import time
import webbrowser
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from counterpoint.cli.printing import flush_result, say_line, say_result
from counterpoint.cli.view_inputs import ViewOptions
from counterpoint.core import CounterpointError, UsageError

if TYPE_CHECKING:
    from counterpoint.cli.view_inputs import Opened, Read
    from counterpoint.view.app import App, ShownPage
    from counterpoint.view.page import LivePage

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_OFTEN_S: Final = 0.4
"""Least seconds between two states of a page that grows: each is fetched as a whole."""
_SAID_S: Final = 1.0
"""Seconds in which browsers learn why a page is not shown, before the app ends."""
_LITTLE: Final = 300_000
"""Spans that are explained and drawn within a second or so, before the page is opened."""


def view(
    *paths: str,
    with_: str | None = None,
    options: ViewOptions = ViewOptions(),
    port: int = 0,
    idle: str = "1h",
    no_browser: bool = False,
) -> int:
    """Look at a step in the browser: timeline, findings, ops, collectives, network.

    Serves one page on this machine, to whoever has its address, until Ctrl-C. Nothing is uploaded.

    Args:
        paths: A Run, profile, stored or predicted Timeline, or study. Several profiles are the
            hosts of one run; two Runs, or a prediction and another input, are compared. Of many
            hosts, the extracts that `explain --executor local --extracts` keeps (.extract.parquet),
            or directories of them.
        with_: Compare with this Run, profile or stored prediction.
        port: Port on 127.0.0.1; by default any free one.
        idle: Stop when the page has not been used for this time, e.g. 30m, 1h or 2h30m.
        no_browser: Print the address only.
    """
    from counterpoint.cli.view_inputs import open_input
    from counterpoint.view.app import App, ShownPage
    from counterpoint.view.serving import listen

    idle_s = _seconds(idle)
    with listen(port) as listener:
        opened = open_input(paths, with_, options)
        shown = ShownPage(opened.page, opened.title)
        work = _Completion(shown, opened)
        number = _serve(App(shown), listener, idle_s, work.serves, browser=not no_browser)
        return work.end(number)


def _seconds(text: str) -> float:
    if not re.fullmatch(r"(\d{1,6}[smhd])+", text.strip()):
        raise UsageError(
            f"--idle takes a time, not {text!r}",
            why="a time is a number with its unit: s, m, h or d",
            next="use --idle 2h30m",
        )
    parts = re.findall(r"(\d+)([smhd])", text)
    return max(sum(int(number) * _UNITS[unit] for number, unit in parts), 1)


def _serve(
    app: App, listener: socket.socket, idle_s: float, serves: threading.Event, *, browser: bool
) -> int | None:
    from counterpoint.view.serving import serve

    port = listener.getsockname()[1]
    base = f"http://127.0.0.1:{port}"

    def ready() -> None:
        serves.set()
        say_result(f"{base}/{app.token}/")
        flush_result()
        for line in _hints(port):
            say_line(line)
        if browser and _has_browser():
            threading.Thread(
                target=webbrowser.open, args=(f"{base}/{app.ticket()}",), daemon=True
            ).start()

    return serve(app, listener, idle_s=idle_s, ready=ready)


def _hints(port: int) -> tuple[str, ...]:
    """Return how to end it, and how to reach it from another machine."""
    ending = "Ctrl-C ends it"
    if "SSH_CONNECTION" not in os.environ:
        return (ending,)
    host = shlex.quote(socket.gethostname())
    return (f"from your own machine first: ssh -L {port}:127.0.0.1:{port} {host}", ending)


def _has_browser() -> bool:
    """Return whether a browser has a screen: one that runs in the terminal would take it over."""
    screens = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    return sys.platform == "darwin" or any(os.environ.get(name) for name in screens)


class _Completion:
    """Completes the page: at once if that is quick, else while it is already shown."""

    def __init__(self, shown: ShownPage, opened: Opened) -> None:
        self._shown = shown
        self._opened = opened
        self._failure: BaseException | None = None
        self.serves = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        if opened.read is None and (opened.found is None or opened.found.spans <= _LITTLE):
            self._steps()
        else:
            shown.tell("reading")
            self._thread.start()

    def _work(self) -> None:
        try:
            self._steps()
        except BaseException as failure:
            self._failure = failure
            if not isinstance(failure, CounterpointError):
                self._end_server()
                raise
            self._shown.say(failure.what, complete=True)
            if self._shown.page.is_empty:
                time.sleep(_SAID_S)
                self._end_server()

    def _end_server(self) -> None:
        """End it, so that `end` raises the failure: after it began to take signals."""
        self.serves.wait()
        os.kill(os.getpid(), signal.SIGINT)

    def _steps(self) -> None:
        from counterpoint.view.page import LivePage
        from counterpoint.view.prepared import keep_page

        page = self._shown.page
        if isinstance(page, LivePage):
            self._fill(page, self._read(page))
        self._shown.say("", complete=True)
        if isinstance(page, LivePage):
            keep_page(self._opened.key, page)

    def _read(self, page: LivePage) -> Read | None:
        """Read what was not read yet; its steps are shown before if the profile marks them."""
        opened = self._opened
        if opened.read is None:
            return opened.found
        if marked := opened.preview and opened.preview():
            page.preview(marked)
            self._shown.say("reading")
        found = opened.read(self._shown.tell)
        page.show(found.content)
        return found

    def _fill(self, page: LivePage, found: Read | None) -> None:
        """Explain the step and draw its Timeline, side by side; the page grows meanwhile."""
        explain = found and found.explain
        message = "drawing the timeline" if explain is None else "explaining the step"
        self._shown.say(message)
        told = time.monotonic()

        def grown() -> None:
            nonlocal told
            if time.monotonic() - told > _OFTEN_S:
                told = time.monotonic()
                self._shown.say(message)

        with ThreadPoolExecutor(1) as pool:
            explained = pool.submit(explain or (lambda _: None), page)
            explained.add_done_callback(lambda _: self._shown.say("drawing the timeline"))
            page.compute(grown)
            explained.result()

    def end(self, number: int | None) -> int:
        """Return the exit code, or raise what went wrong while the page was shown."""
        if self._failure is not None:
            raise self._failure
        code = 0 if number in (None, signal.SIGINT) else 128 + number
        if self._thread.is_alive():
            flush_result()
            os._exit(code)  # the interpreter must not end under a thread that runs native code
        return code
