"""A web server with ranges that can refuse, answer late, and cut its answers off."""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit


class WebStore:
    """Files by path, and what goes wrong: `faults` are taken one by one, per answer with content.

    A fault is a status, or "cut" (half of the answer), or "late" (it comes after `late_s`).
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.faults: list[int | str] = []
        self.status: dict[str, int] = {}
        self.late_s = 1.0
        self.has_ranges = True
        self.has_tags = True
        self.asked: Counter[str] = Counter()
        self.sent = 0
        self.base = ""

    def page(self, path: str) -> bytes | None:
        """A page of links, as web servers list a directory; None if it is none."""
        inside = {name[len(path) :].partition("/") for name in self.files if name.startswith(path)}
        links = {f"{first}{slash}" for first, slash, _ in inside}
        if not path.endswith("/") or not links:
            return None
        return "".join(f'<a href="{link}">{link}</a>\n' for link in sorted(links)).encode()


class Handler(BaseHTTPRequestHandler):
    """Answers from the store of its server."""

    protocol_version = "HTTP/1.1"
    store: WebStore

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self._answer(content=False)

    def do_GET(self) -> None:
        self._answer(content=True)

    def _answer(self, *, content: bool) -> None:
        store, path = self.store, unquote(urlsplit(self.path).path)
        store.asked[f"{self.command} {path}"] += 1
        data = store.files.get(path, store.page(path))
        if data is None and path not in store.status and store.page(f"{path}/"):
            self._end(301, Location=f"{path}/")
            return
        if path in store.status or data is None:
            self._end(store.status.get(path, 404))
            return
        fault = store.faults.pop(0) if content and path in store.files and store.faults else None
        if isinstance(fault, int):
            self._end(fault)
            return
        if fault == "late":
            time.sleep(store.late_s)
        self._send(data, content=content, cut=fault == "cut")

    def _send(self, data: bytes, *, content: bool, cut: bool) -> None:
        store = self.store
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        part = data
        if asked is None or not store.has_ranges:
            self.send_response(200)
        else:
            part = data[int(asked[1]) : int(asked[2]) + 1]
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {asked[1]}-{asked[2]}/{len(data)}")
        if store.has_tags:
            self.send_header("ETag", md5(data, usedforsecurity=False).hexdigest())
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        if content:
            self.close_connection = cut
            part = part[: len(part) // 2] if cut else part
            store.sent += len(part)
            self.wfile.write(part)

    def _end(self, status: int, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()


class Server(ThreadingHTTPServer):
    """A server to which a client that hangs up is no news."""

    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing."""


@contextmanager
def web_store() -> Generator[WebStore]:
    """Serve on a free port."""
    store = WebStore()
    handler = type("StoreHandler", (Handler,), {"store": store})
    server = Server(("127.0.0.1", 0), handler)
    store.base = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield store
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
