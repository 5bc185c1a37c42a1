"""Serve the app on 127.0.0.1 until a signal, or until nobody has used it for long enough.

Every user of the machine can open connections, so those that say nothing are dropped soon, the
oldest first, and never keep others out.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import ClassVar, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from counterpoint.core import UsageError
from counterpoint.view.app import App

ADDRESS: Final = "127.0.0.1"
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_LARGEST_PORT: Final = 65535
_BACKLOG: Final = 2048


def listen(port: int) -> socket.socket:
    """Return a socket on this port of 127.0.0.1; 0: any that is free."""
    if not 0 <= port <= _LARGEST_PORT:
        raise UsageError(
            f"--port {port} is not a port",
            why="ports are 1 to 65535; 0 takes any that is free",
            next="use --port 8080",
        )
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((ADDRESS, port))
        listener.listen(_BACKLOG)
    except OSError as failure:
        listener.close()
        taken = failure.errno == errno.EADDRINUSE
        raise UsageError(
            f"port {port} is taken" if taken else f"can't use port {port}: {failure.strerror}",
            why="without --port, a free one is chosen" if taken else None,
            next=f"use --port {port + 1 if port < _LARGEST_PORT else 8080}" if taken else None,
        ) from None
    return listener


def serve(
    app: App, listener: socket.socket, *, idle_s: float, ready: Callable[[], None]
) -> int | None:
    """Serve until a signal, which is returned, or until no request has come for so long (None).

    `ready` is called when browsers can connect.
    """
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # bad requests are not news
    config = uvicorn.Config(
        app,
        http=_BriefConnection,
        loop="asyncio",
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        backlog=_BACKLOG,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=60,
        timeout_graceful_shutdown=1,
    )
    server = _Server(config, app, idle_s, ready)
    asyncio.run(server.serve(sockets=[listener]))
    return server.signal


class _Server(uvicorn.Server):
    """Ends by itself when unused; signals end it without an exception."""

    def __init__(
        self, config: uvicorn.Config, app: App, idle_s: float, ready: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self.signal: int | None = None
        self._app = app
        self._idle_s = idle_s
        self._ready = ready

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        previous = {number: signal.getsignal(number) for number in _SIGNALS}
        for number in _SIGNALS:
            if previous[number] is not signal.SIG_IGN:  # nohup
                loop.add_signal_handler(number, self._end, number)
        try:
            yield
        finally:
            for number, handler in previous.items():
                loop.remove_signal_handler(number)
                signal.signal(number, handler)

    def _end(self, number: int) -> None:
        self.signal = number
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    async def on_tick(self, counter: int) -> bool:
        return await super().on_tick(counter) or self._app.unused_s >= self._idle_s


_PATIENCE_S: Final = 10.0
_MOST_WAITING: Final = 256


class _BriefConnection(H11Protocol):
    """A connection that is closed if its request does not arrive in time.

    Of more than a few hundred that wait, the one that has waited the longest is closed: descriptors
    do not run out, and a browser, which asks at once, always gets in.
    """

    waiting: ClassVar[dict[_BriefConnection, asyncio.TimerHandle]] = {}

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle and not self.cycle.response_complete:  # a whole request has come
            self._stop_waiting()
        elif self not in self.waiting:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self.waiting[self] = self.loop.call_later(_PATIENCE_S, self.give_up)
        if len(self.waiting) > _MOST_WAITING:
            next(iter(self.waiting)).give_up()

    def _stop_waiting(self) -> None:
        deadline = self.waiting.pop(self, None)
        if deadline is not None:
            deadline.cancel()

    def give_up(self) -> None:
        """Close it at once."""
        self._stop_waiting()
        self.transport.abort()
