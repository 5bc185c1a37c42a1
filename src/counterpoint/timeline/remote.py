"""Files and directories behind URLs, through fsspec: what a store lists, and what it refuses.

A store that does not answer in time, cuts an answer off or is busy is asked again after a pause.
Credentials come from the environment of each provider, as its own client finds them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from importlib import import_module
from os import environ
from pathlib import Path
from typing import Any, Final, TypeVar, cast
from urllib.parse import urlsplit, urlunsplit

from counterpoint.core import InputError, UsageError

__all__ = ["RemotePath", "open_url"]

TIMEOUT_VARIABLE: Final = "COUNTERPOINT_STORE_TIMEOUT"
"""Seconds that a store may take for one answer, which has at most `BLOCK` bytes."""

BLOCK: Final = 8 << 20
PAUSES_S: Final = (0.5, 2.0, 6.0)
"""Seconds before each further attempt."""

_TIMEOUT_S: Final = 60.0
_BUSY: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_REFUSED: Final = frozenset({401, 403})
_FINAL: Final = (
    FileNotFoundError,
    PermissionError,
    IsADirectoryError,
    NotADirectoryError,
    ImportError,
    ValueError,
    TypeError,
    NotImplementedError,  # by a driver of fsspec, which will not do it on another try either
)
_CREDENTIALS: Final = {
    "s3": ("AWS_PROFILE, AWS_ACCESS_KEY_ID, or this machine's role", "aws sts get-caller-identity"),
    "gs": ("gcloud's default credentials", "gcloud auth application-default login"),
    "az": ("AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, for example", "az login"),
}
_SCHEMES: Final = {"s3a": "s3", "gcs": "gs", "abfs": "az", "abfss": "az", "adl": "az"}
_DRIVERS: Final = {
    "s3": "s3fs",
    "gs": "gcsfs",
    "az": "adlfs",
    "http": "aiohttp",
    "https": "aiohttp",
}
_WEB: Final = ("http", "https")
_MAGIC: Final = re.compile(r"[*?\[]")
_VERSIONS: Final = ("ETag", "etag", "generation", "md5Hash", "content_md5", "LastModified", "mtime")
_WRITTEN: Final = ("LastModified", "last_modified", "updated", "mtime", "created")

Answer = TypeVar("Answer")


def shown_url(url: str) -> str:
    """Return a URL without what may be secret: a password, the signature in its query."""
    if url.partition("://")[0] not in _WEB:
        return url
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def is_pattern(url: str) -> bool:
    """Return whether a URL names several files; in a web page's, a question mark is none."""
    return bool(_MAGIC.search(shown_url(url)))


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFile:
    """A file or directory, as its store describes it.

    `version` changes with the content: an ETag, a checksum, or the time of the last change. None:
    the store tells nothing of the kind, so the content can't be recognized.
    """

    path: str
    is_directory: bool
    size: int | None
    version: str | None
    written: float


class RemoteStore:
    """A file system of fsspec, which holds what a URL names at `root`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._is_web = url.partition("://")[0] in _WEB
        try:
            fsspec: Any = import_module("fsspec")
            self._system, self.root = fsspec.core.url_to_fs(url)
        except Exception as failure:  # noqa: BLE001 - every driver raises its own kinds
            raise _refusal(url, failure) from None

    def url_of(self, path: str) -> str:
        """Return the URL of a path of this store."""
        return self._url if path == self.root else str(self._system.unstrip_protocol(path))

    def describe(self, path: str) -> RemoteFile:
        """Return what the store tells of a file or directory."""
        if self._is_web and path.endswith("/"):  # a page that lists files
            return _described({"name": path, "type": "directory"})
        info = self._ask(path, lambda: self._call("info", path))
        if self._is_web and info.get("url") == f"{path}/":  # where a server sends one who asks for
            return _described({"name": info["url"], "type": "directory"})  # a directory without it
        return _described(info)

    def entries(self, path: str) -> list[RemoteFile]:
        """Return what is directly in a directory."""
        self._system.invalidate_cache()
        listed = self._ask(path, lambda: self._call("ls", path, detail=True))
        # S3 lists a directory that was made as an object of its own among its entries.
        here = path.rstrip("/")
        within = f"{here}/"
        entries = [_described(each) for each in listed if each["name"].rstrip("/") != here]
        return [each for each in entries if not self._is_web or each.path.startswith(within)]

    def block(self, path: str, first: int, end: int) -> bytes | None:
        """Return some bytes of a file; None if the store sends whole files only."""

        def fetch() -> bytes | None:
            if not self._is_web:
                data: bytes | None = self._call("cat_file", path, start=first, end=end)
            else:
                data = self._wait(_web_block, self._system, path, first, end)
            return data if data is None else _complete(data, len(data), end - first)

        return self._ask(path, fetch)

    def copy(self, path: str, into: Path, size: int | None) -> None:
        """Write a whole file of a store that has no ranges."""

        def fetch() -> None:
            self._call("get_file", path, str(into))
            _complete(None, into.stat().st_size, size)

        self._ask(path, fetch)

    def _call(self, method: str, *arguments: object, **options: object) -> Any:  # noqa: ANN401
        if not self._system.async_impl:
            return getattr(self._system, method)(*arguments, **options)
        return self._wait(getattr(self._system, f"_{method}"), *arguments, **options)

    def _wait(self, call: Any, *arguments: object, **options: object) -> Any:  # noqa: ANN401
        asyn: Any = import_module("fsspec.asyn")
        return asyn.sync(self._system.loop, call, *arguments, timeout=_timeout_s(), **options)

    def _ask(self, path: str, call: Callable[[], Answer]) -> Answer:
        for pause_s in PAUSES_S:
            try:
                return call()
            except Exception as failure:  # noqa: BLE001 - every driver raises its own kinds
                if not _is_passing(failure):
                    raise _refusal(self.url_of(path), failure) from None
            time.sleep(pause_s)
        try:
            return call()
        except Exception as failure:  # noqa: BLE001
            raise _refusal(self.url_of(path), failure) from None


async def _web_block(system: Any, url: str, first: int, end: int) -> bytes | None:  # noqa: ANN401
    """Ask a web server for some bytes; if it begins to send all of them, hang up."""
    session = await system.set_session()
    headers = {"Range": f"bytes={first}-{end - 1}"}
    async with session.get(system.encode_url(url), headers=headers) as response:
        response.raise_for_status()
        return await response.read() if response.status == 206 else None


def _complete(data: Answer, came: int, size: int | None) -> Answer:
    if size is not None and came != size:
        raise ConnectionError(f"it sent {came:,} of {size:,} bytes")
    return data


def _timeout_s() -> float:
    text = environ.get(TIMEOUT_VARIABLE, "")
    try:
        seconds = float(text or _TIMEOUT_S)
    except ValueError:
        seconds = 0.0
    if seconds <= 0:
        raise UsageError(
            f"{TIMEOUT_VARIABLE}={text}: not a positive number of seconds",
            next=f"export {TIMEOUT_VARIABLE}={_TIMEOUT_S:g}",
        )
    return seconds


def _described(info: dict[str, Any]) -> RemoteFile:
    version = next((info[key] for key in _VERSIONS if info.get(key) is not None), None)
    written = next((info[key] for key in _WRITTEN if info.get(key) is not None), None)
    size = info.get("size")
    return RemoteFile(
        path=info["name"],
        is_directory=info["type"] == "directory",
        size=size if isinstance(size, int) else None,
        version=None if version is None else str(version),
        written=_seconds(written),
    )


def _seconds(written: object) -> float:
    """Return a time as seconds since 1970; 0 if the store does not tell one."""
    if isinstance(written, str):
        try:
            written = datetime.fromisoformat(written)
        except ValueError:
            return 0.0
    if isinstance(written, datetime):
        return written.timestamp()
    return float(written) if isinstance(written, int | float) else 0.0


class RemotePath:
    """A path in a store, with what `pathlib.Path` has for finding profiles in directories."""

    def __init__(
        self, store: RemoteStore, entry: RemoteFile, parents: tuple[RemotePath, ...] = ()
    ) -> None:
        self.store = store
        self.entry = entry
        self.parents = parents
        self._entries: list[RemotePath] | None = None

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.entry.path.rstrip("/").rpartition("/")[2]

    @property
    def shown(self) -> str:
        """Its URL without what may be secret."""
        return shown_url(str(self))

    @property
    def written(self) -> float:
        """When it was written last, in seconds since 1970; of a directory: what is in it."""
        if self.is_dir() and not self.entry.written:
            return max((path.entry.written for path in self.iterdir()), default=0.0)
        return self.entry.written

    def __str__(self) -> str:
        return self.store.url_of(self.entry.path)

    def __hash__(self) -> int:
        return hash(str(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemotePath) and str(self) == str(other)

    def iterdir(self) -> Iterator[RemotePath]:
        """Yield what is in a directory; the store is asked once."""
        if self._entries is None:
            entries = self.store.entries(self.entry.path)
            above = (self, *self.parents)
            self._entries = [RemotePath(self.store, entry, above) for entry in entries]
        return iter(self._entries)

    def is_dir(self) -> bool:
        """Return whether it is a directory."""
        return self.entry.is_directory

    def glob(self, pattern: str) -> Iterator[RemotePath]:
        """Yield what matches a pattern, whose parts match one level each."""
        part, _, rest = pattern.partition("/")
        for path in self.iterdir():
            if fnmatchcase(path.name, part):
                if not rest:
                    yield path
                elif path.is_dir():
                    yield from path.glob(rest)


def open_url(url: str) -> RemotePath:
    """Return what a URL names, which exists."""
    store = RemoteStore(url)
    return RemotePath(store, store.describe(store.root))


def match_url(pattern: str) -> list[RemotePath]:
    """Return what matches the pattern of a URL, in order of the URL."""
    fixed = pattern[: cast("re.Match[str]", _MAGIC.search(pattern)).start()].rpartition("/")[0]
    store = RemoteStore(f"{fixed}/")
    top = RemotePath(store, _described({"name": store.root, "type": "directory"}))
    return sorted(top.glob(pattern.removeprefix(f"{fixed}/").rstrip("/")), key=str)


def _roots(failure: BaseException) -> Iterator[BaseException]:
    """Yield a failure and what caused it, the cause first: drivers word it as something else."""
    if failure.__cause__ is not None:
        yield from _roots(failure.__cause__)
    yield failure


def _status(failure: BaseException) -> int | None:
    """Return the HTTP status of a failure, wherever its driver keeps it."""
    for each in _roots(failure):
        response: Any = getattr(each, "response", None)
        if type(each).__module__.startswith("aiohttp.http_exc"):
            continue  # a bad answer, which aiohttp numbers like a bad request
        if isinstance(response, dict):
            told = cast("dict[str, Any]", response).get("ResponseMetadata", {})
            status = told.get("HTTPStatusCode")
        else:
            names = ("status", "status_code", "code")
            status = next(
                (getattr(each, name, None) for name in names if hasattr(each, name)), None
            )
        if isinstance(status, int | str) and str(status).isdecimal() and int(status) >= 400:
            return int(status)
    if isinstance(failure, FileNotFoundError) and failure.__cause__ is None:
        return 404
    if isinstance(failure, PermissionError) or "Credential" in type(failure).__name__:
        return 403
    return None


def _is_passing(failure: Exception) -> bool:
    """Return whether another attempt may succeed."""
    if isinstance(failure, InputError | UsageError):
        return False
    status = _status(failure)
    if status is not None:
        return status in _BUSY
    return not isinstance(next(_roots(failure)), _FINAL)


def _refusal(url: str, failure: Exception) -> InputError | UsageError:
    """Return the error that tells a user why a URL can't be read."""
    if isinstance(failure, InputError | UsageError):
        return failure
    name, status = shown_url(url), _status(failure)
    scheme = url.partition("://")[0]
    if status in _REFUSED:
        return _refused(name, _SCHEMES.get(scheme, scheme), failure)
    if status == 404:
        where, what = ("server", "address") if scheme in _WEB else ("store", "bucket and the path")
        return InputError(
            f"{name}: not found",
            why=f"the {where} has nothing of this name, or hides it from these credentials",
            next=f"check the {what}",
        )
    if not _is_passing(failure):
        return _unfit(name, _SCHEMES.get(scheme, scheme), failure)
    return InputError(
        f"{name}: the store did not answer, or cut its answer off",
        why=f"it was asked {len(PAUSES_S) + 1} times, at last: {_reason(failure, status)}",
        next=f"check the connection; {TIMEOUT_VARIABLE} gives it more than {_timeout_s():g} s",
    )


def _unfit(name: str, scheme: str, failure: Exception) -> InputError:
    """Return the error for what no further attempt mends, and no credentials."""
    if isinstance(failure, ImportError):
        driver = _driver(scheme, str(failure))
        return InputError(f"{name} can't be opened: {_first_line(failure)}", next=driver)
    if isinstance(failure, ValueError):
        return InputError(
            f"{name} can't be opened: {_first_line(failure)}",
            next="check the scheme of the URL: https, gs, s3 and az are supported, for example",
        )
    return InputError(f"{name} can't be read: {_first_line(failure)}")


def _refused(name: str, scheme: str, failure: Exception) -> InputError:
    kind, check = _CREDENTIALS.get(scheme, ("the URL itself", None))
    return InputError(
        f"{name}: the store refuses access: {_first_line(failure)}",
        why=f"credentials are taken from the provider's own environment: {kind}"
        if check
        else "a web server gets no credentials but those in the URL; a signed one may be over",
        next=check or "sign the URL anew, or copy the file here",
    )


def _reason(failure: Exception, status: int | None) -> str:
    root = next(_roots(failure))
    text = _first_line(root)
    if "Timeout" in type(failure).__name__:
        return f"no answer within {_timeout_s():g} s"
    return text if status is None else f"HTTP {status}: {text}"


def _driver(scheme: str, message: str) -> str:
    """Return the package to install: of known schemes, else from fsspec's message."""
    if scheme in _DRIVERS:
        return f"pip install {_DRIVERS[scheme]}"
    named = re.search(r"[Ii]nstall[: ]+[\"'`]?([a-z][\w-]*)", message) or re.search(
        r"[\"'`]([a-z][\w-]*)[\"'`]", message
    )
    return f"pip install {named.group(1)}" if named else "install fsspec's driver for such URLs"


_QUERY: Final = re.compile(r"(https?://[^\s'\"?]*)\?[^\s'\")]*")


def _first_line(failure: BaseException) -> str:
    """Return the first line of a message, without the queries of URLs: they may hold secrets."""
    first, colon, rest = str(failure).strip().partition(":\n")  # aiohttp's have their text below
    lines = f"{first}{colon and ': '}{rest.strip()}".splitlines()
    return _QUERY.sub(r"\1", lines[0]) if lines else type(failure).__name__
