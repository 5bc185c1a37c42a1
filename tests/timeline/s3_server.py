"""A server of S3's protocol on this machine, which can refuse and cut its answers off."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import pytest

_CODES: dict[int | str, str] = {403: "AccessDenied", 404: "NoSuchKey", 503: "SlowDown"}


class S3Server:
    """Buckets in memory, and what goes wrong.

    `faults` are a method, a part of the path, and a status or "cut" (half of the answer); each
    happens as often as it is listed. `refused` happen each time.
    """

    def __init__(self, application: WSGIApplication) -> None:
        self._application = application
        self.faults: list[tuple[str, str, int | str]] = []
        self.refused: list[tuple[str, str, int]] = []
        self.url = ""

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        met = [each for each in (*self.faults, *self.refused) if each[0] == method]
        what = next((each for each in met if each[1] in path), None)
        if what in self.faults:
            self.faults.remove(what)
        if what is None:
            return self._application(environ, start_response)
        if what[2] == "cut":
            whole = b"".join(self._application(environ, start_response))
            return [whole[: len(whole) // 2]]
        text = f"<Error><Code>{_CODES[what[2]]}</Code><Message>as asked</Message></Error>"
        start_response(f"{what[2]} no", [("Content-Length", str(len(text)))])
        return [text.encode()]


@contextmanager
def s3_server() -> Generator[S3Server]:
    """Run for as long as the context is; tests are skipped without moto and s3fs."""
    moto = pytest.importorskip("moto.server")
    pytest.importorskip("s3fs")
    from werkzeug.serving import make_server

    made = S3Server(moto.DomainDispatcherApplication(moto.create_backend_app))
    running = make_server("127.0.0.1", 0, made, threaded=True)
    made.url = f"http://127.0.0.1:{running.server_port}"
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    yield made
    running.shutdown()
    thread.join()
    running.server_close()


@contextmanager
def s3_bucket(server: S3Server, name: str, monkeypatch: pytest.MonkeyPatch) -> Generator[Any]:
    """The client's file system, with an empty bucket, and the variables that lead to the server."""
    import s3fs

    for variable, value in (
        ("AWS_ENDPOINT_URL", server.url),
        ("AWS_ACCESS_KEY_ID", "a"),
        ("AWS_SECRET_ACCESS_KEY", "b"),
        ("AWS_DEFAULT_REGION", "us-east-1"),
    ):
        monkeypatch.setenv(variable, value)
    s3fs.S3FileSystem.clear_instance_cache()
    system = s3fs.S3FileSystem()
    system.mkdir(name)
    yield system
    server.faults.clear()
    server.refused.clear()
    system.rm(name, recursive=True)
    s3fs.S3FileSystem.clear_instance_cache()
