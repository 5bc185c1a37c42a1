"""What the local app answers, and to whom."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Generator, Mapping
from urllib.parse import urlsplit

import pytest

import counterpoint
import timelines
from counterpoint.report.explain.explain_json import explain_json
from counterpoint.view import serving
from counterpoint.view.app import App, ShownPage
from counterpoint.view.page import LivePage, PageContent
from viewed import serving as serving_app
from viewed import viewing


def content(**results: str) -> PageContent:
    return PageContent(
        title="two devices",
        command="counterpoint view kept",
        version="1",
        results=results,
        timelines=(timelines.two_devices(),),
    )


@pytest.fixture(scope="module")
def address() -> Generator[str]:
    with viewing(content()) as served:
        yield served


def answer(
    address: str, path: str = "", method: str = "GET", headers: Mapping[str, str] | None = None
) -> tuple[int, Mapping[str, str], bytes]:
    """Ask for a path below the address (or from the root, with a slash), exactly as written."""
    parts = urlsplit(address)
    assert parts.hostname
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=10)
    given = dict(headers or {})
    connection.putrequest(
        method, path if path.startswith("/") else f"{parts.path}{path}", skip_host="Host" in given
    )
    for name, value in given.items():
        connection.putheader(name, value)
    connection.endheaders()
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response.status, dict(response.getheaders()), body


@pytest.mark.parametrize(
    "path", ["", "page.json", "state.json", "app.js", "app.css", "block/0.ops"]
)
def test_whoever_has_the_address_gets_the_page_and_what_belongs_to_it(
    address: str, path: str
) -> None:
    status, headers, body = answer(address, path)
    assert (status, len(body) > 10) == (200, True)
    assert "unsafe-inline" not in headers["content-security-policy"].partition("style-src")[0]
    assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';")
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["cache-control"] == "no-store"
    assert not [name for name in headers if name.startswith("access-control")]


def test_an_address_without_its_last_slash_leads_to_the_page(address: str) -> None:
    path = urlsplit(address).path
    status, headers, _ = answer(address, path.rstrip("/"))
    assert (status, headers["location"]) == (307, path)


@pytest.mark.parametrize(
    "name",
    [
        "evil.example",
        "evil.example:80",
        "127.0.0.1.evil.example:1",
        "127.0.0.1:",
        "localhost:x",
        "[::1]:80",
        "0.0.0.0:80",
        "",
    ],
)
def test_another_host_is_refused(address: str, name: str) -> None:
    assert answer(address, headers={"Host": name})[0] in (400, 403)


@pytest.mark.parametrize("name", ["localhost", "localhost:8080", "127.0.0.1:9"])
def test_a_tunnel_to_another_port_is_not_another_host(address: str, name: str) -> None:
    assert answer(address, headers={"Host": name})[0] == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1"}, 403),  # another port is another origin
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403),
        ({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"}, 403),
        (
            {
                "Sec-Fetch-Site": "cross-site",
                "Sec-Fetch-Mode": "navigate",
                "Sec-Fetch-Dest": "iframe",
            },
            403,
        ),
        (
            {
                "Sec-Fetch-Site": "cross-site",
                "Sec-Fetch-Mode": "navigate",
                "Sec-Fetch-Dest": "document",
            },
            200,
        ),  # a link
        ({"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
    ],
)
def test_another_site_is_refused(address: str, headers: dict[str, str], status: int) -> None:
    assert answer(address, headers=headers)[0] == status


def test_its_own_origin_is_taken(address: str) -> None:
    origin = f"http://{urlsplit(address).netloc}"
    assert answer(address, "page.json", headers={"Origin": origin})[0] == 200


@pytest.mark.parametrize(
    "path", ["/", "/page.json", "/wrong/", "/wrong/page.json", "/open/wrong", "//", "/favicon.ico"]
)
def test_without_the_token_there_is_nothing(address: str, path: str) -> None:
    status, headers, body = answer(address, path)
    assert status == 404
    assert headers["connection"] == "close"
    assert b"two devices" not in body


def test_a_part_of_the_token_is_none(address: str) -> None:
    token = urlsplit(address).path.strip("/")
    assert len(token) >= 32
    for wrong in (token[:-1], f"{token}x", token.swapcase()):
        assert answer(address, f"/{wrong}/page.json")[0] == 404


@pytest.mark.parametrize(
    "path",
    ["../../etc/passwd", "block/../../../etc/passwd", "block/..%2f..%2fetc%2fpasswd", "%2e%2e/x",
     "block//etc/passwd", "block/0.0.0.99999", "block/-1.0.0.0", "block/9.ops", "block/0.ops/x",
     "app.js/../../page.py", "page.py", "block/%00", "block/%D9%A3.0.0.0"],
)  # fmt: skip
def test_no_path_is_taken_from_the_browser(address: str, path: str) -> None:
    status, _, body = answer(address, path)
    assert status in (400, 404)
    assert len(body) < 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
def test_nothing_can_be_changed(address: str, method: str) -> None:
    assert answer(address, "page.json", method)[0] == 405


def test_the_browser_that_is_started_gets_an_address_that_works_once() -> None:
    page = LivePage(content())
    app = App(ShownPage(page, "two devices"))
    with serving_app(app) as address:
        ticket = f"/{app.ticket()}"
        status, headers, _ = answer(address, ticket)
        assert (status, headers["location"]) == (303, urlsplit(address).path)
        assert answer(address, ticket)[0] == 404


def test_only_an_answer_counts_as_use() -> None:
    now = [0.0]
    page = LivePage(content())
    app = App(ShownPage(page, "two devices"), clock=lambda: now[0])
    with serving_app(app) as address:
        now[0] = 50.0
        answer(address, "/wrong/")
        assert app.unused_s == 50.0
        answer(address, "state.json")
        assert app.unused_s == 0.0


def test_a_page_is_shown_before_it_is_complete_and_tells_each_change() -> None:
    page = LivePage(content())
    shown = ShownPage(page, "two devices")
    shown.say("explaining the step")

    def fetched(name: str) -> dict[str, object]:
        return json.loads(answer(address, name)[2])

    with serving_app(App(shown)) as address:
        first = fetched("state.json")
        assert first == {"complete": False, "message": "explaining the step", "revision": 1}
        (drawn,) = fetched("page.json")["timelines"]  # type: ignore[misc]
        assert drawn["steps"]["step"]
        assert not drawn["complete"]
        assert answer(address, "block/0.0.0.0")[0] == 404
        page.add((), {"explain": explain_json(counterpoint.explain(timelines.two_devices()))})
        shown.say("drawing the timeline")
        assert set(fetched("page.json")["results"]) == {"explain"}  # type: ignore[call-overload]
        page.compute()
        shown.say("", complete=True)
        assert fetched("state.json") == {"complete": True, "message": "", "revision": 3}
        assert answer(address, "block/0.0.0.0")[0] == 200


def test_several_blocks_follow_their_lengths(address: str) -> None:
    one, other = (answer(address, f"block/0.{name}")[2] for name in ("ops", "0.0.0"))
    lengths = [len(one).to_bytes(4, "little"), b"\xff" * 4, len(other).to_bytes(4, "little")]
    status, _, body = answer(address, "blocks/0.ops,0.99.0.0,0.0.0.0")
    assert status == 200
    assert body == lengths[0] + one + lengths[1] + lengths[2] + other
    assert answer(address, "blocks/" + ",".join(["0.ops"] * 257))[0] == 404


def opened(address: str, sent: bytes = b"") -> socket.socket:
    parts = urlsplit(address)
    connection = socket.create_connection((parts.hostname, parts.port), timeout=10)
    connection.sendall(sent)
    return connection


def test_a_request_that_never_ends_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "_PATIENCE_S", 0.3)
    with viewing(content()) as address:
        silent, slow = opened(address), opened(address, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        begun = time.monotonic()
        for connection in (silent, slow):
            with connection:
                assert closed(connection)
        assert 0.2 < time.monotonic() - begun < 5


def closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_those_who_wait_keep_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "_MOST_WAITING", 20)
    with viewing(content()) as address:
        waiting = [opened(address, b"GET / HT") for _ in range(100)]
        assert answer(address, "state.json")[0] == 200
        dropped = waiting[:70]
        assert all(closed(connection) for connection in dropped)
        for connection in waiting:
            connection.close()


def test_readers_who_do_not_read_keep_nobody_waiting(address: str) -> None:
    path = urlsplit(address).path
    ask = f"GET {path}app.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
    slow = [opened(address, ask * 20) for _ in range(40)]
    begun = time.monotonic()
    assert answer(address, "page.json")[0] == 200
    assert time.monotonic() - begun < 5
    for connection in slow:
        connection.close()


def test_many_ask_at_once(address: str) -> None:
    statuses: list[int] = []

    def ask() -> None:
        statuses.extend(answer(address, "state.json")[0] for _ in range(5))

    threads = [threading.Thread(target=ask) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 100
