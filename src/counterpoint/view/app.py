"""The local app: one page, for whoever has its secret address.

Pages of other sites, which a browser may be made to call this app from, are refused by their Host
(a name that was bound to 127.0.0.1) and their Origin; other users of the machine by the address.
No path is taken from a request: the app serves one page with its blocks, and its own files.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from time import monotonic
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from counterpoint.view.page import ASSETS, LivePage, asset, whole_html
from counterpoint.view.prepared import PreparedPage

_NAMES: Final = frozenset({"127.0.0.1", "localhost"})
_MOST_BLOCKS: Final = 256
_ABSENT: Final = 0xFFFFFFFF
_TYPES: Final = {"app.js": "text/javascript", "app.css": "text/css"}
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline';"
        " connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none';"
        " frame-ancestors 'none'"
    ),
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True, slots=True)
class PageProgress:
    """The progress of a page: `revision` counts its changes, and `complete` is the last one."""

    message: str
    complete: bool = False
    revision: int = 0


class ShownPage:
    """The page that the app shows, while another thread completes it."""

    def __init__(self, page: LivePage | PreparedPage, title: str) -> None:
        self.page = page
        self.title = title
        self._lock = threading.Lock()
        self._progress = PageProgress("", complete=page.complete)

    @property
    def progress(self) -> PageProgress:
        """The progress of the page."""
        with self._lock:
            return self._progress

    def say(self, message: str, *, complete: bool = False) -> None:
        """Tell browsers that the page has changed, and what is done next."""
        with self._lock:
            self._progress = PageProgress(message, complete, self._progress.revision + 1)

    def tell(self, message: str) -> None:
        """Tell browsers how far the work is; the page has not changed."""
        with self._lock:
            self._progress = replace(self._progress, message=message, complete=False)


class App:
    """Answers requests (ASGI)."""

    def __init__(self, shown: ShownPage, clock: Callable[[], float] = monotonic) -> None:
        self.token = secrets.token_urlsafe(24)
        self._clock = clock
        self._used = clock()
        self._shown = shown
        self._tickets: set[str] = set()

    @property
    def unused_s(self) -> float:
        """Seconds since the last request that was not refused."""
        return self._clock() - self._used

    def ticket(self) -> str:
        """Return a path that leads to the page once.

        The command line of the browser that is started shows it to other users of the machine.
        """
        ticket = secrets.token_urlsafe(24)
        self._tickets.add(ticket)
        return f"open/{ticket}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope)
        response = _refusal(request) or await self._answer(request)
        response.headers.update(_HEADERS)
        if response.status_code >= 400:
            response.headers["Connection"] = "close"  # strangers hold no connection open
        else:
            self._used = self._clock()
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        path = str(request.scope["path"])
        first, _, rest = path.removeprefix("/").partition("/")
        if first == "open" and rest in self._tickets:
            self._tickets.discard(rest)
            return RedirectResponse(f"/{self.token}/", 303)
        if not secrets.compare_digest(first.encode(), self.token.encode()):
            return _error(404, "nothing is here: open the address that `counterpoint view` printed")
        if path == f"/{self.token}":
            return RedirectResponse(f"/{self.token}/", 307)
        if rest.startswith(("block/", "blocks/")):
            return await run_in_threadpool(self._blocks, *rest.split("/", 1))
        if rest in ASSETS:
            return Response(asset(rest), media_type=_TYPES[rest])
        return await self._own_page(rest)

    def _blocks(self, kind: str, names: str) -> Response:
        """Return a block, or several after their lengths; a length of _ABSENT: there is none."""
        if kind == "block":
            block = self._shown.page.block(names)
            return _error(404, "no such block") if block is None else _data(block)
        if names.count(",") >= _MOST_BLOCKS:
            return _error(404, f"at most {_MOST_BLOCKS} blocks at once")
        parts: list[bytes] = []
        for name in names.split(","):
            block = self._shown.page.block(name)
            parts.append((_ABSENT if block is None else len(block)).to_bytes(4, "little"))
            parts.append(block or b"")
        return _data(b"".join(parts))

    async def _own_page(self, name: str) -> Response:
        match name:
            case "":
                return Response(whole_html(self._shown.title, _HEAD, ""), media_type="text/html")
            case "page.json":
                text = await run_in_threadpool(self._shown.page.page_json)
                return Response(text, media_type="application/json")
            case "state.json":
                at = self._shown.progress
                values = {"complete": at.complete, "message": at.message, "revision": at.revision}
                return JSONResponse(values)
            case _:
                return _error(404, "no such page")


def _refusal(request: Request) -> Response | None:
    """Return the answer to a request that no browser on this machine makes for its user."""
    host = request.headers.get("host", "")
    name, _, port = host.rpartition(":")
    if (name or host) not in _NAMES or (name and not port.isdecimal()):
        return _error(403, "the name of this host is 127.0.0.1 or localhost")
    origin = request.headers.get("origin")
    if origin is not None and origin != f"http://{host}":
        return _error(403, "no other site may ask")
    if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        is_link = request.headers.get("sec-fetch-mode") == "navigate"
        if not is_link or request.headers.get("sec-fetch-dest") != "document":
            return _error(403, "no other site may ask")
    if request.method not in ("GET", "HEAD"):
        return _error(405, "only reading is possible")
    return None


def _error(status: int, text: str) -> Response:
    return Response(f"{text}\n", status, media_type="text/plain")


def _data(block: bytes) -> Response:
    return Response(block, media_type="application/octet-stream")


_HEAD: Final = """<link rel="icon" href="data:,">
<link rel="stylesheet" href="app.css">
<script src="app.js" defer></script>"""
