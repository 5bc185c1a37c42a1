"""URLs that fsspec knows: files on other machines, read whole and never written."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

from counterpoint.core.errors import InputError, UsageError


def refuse_url(path: str | Path) -> None:
    """Refuse a URL where something is to be written; as a Path it has but one slash left."""
    scheme = re.match(r"[A-Za-z][A-Za-z0-9+.-]+:(?=/)", str(path))
    if scheme and not Path(scheme.group()).is_dir():
        raise UsageError(
            f"can't write {path}: URLs can be read, not written",
            next="write to a local path, and copy it from there",
        )


def fetch(url: str) -> bytes:
    """All bytes behind a URL that fsspec knows."""
    if "*" in url:
        raise _not_one_file(url, "it is a pattern")
    fsspec = import_module("fsspec")
    try:
        with fsspec.open(url, "rb") as file:
            return bytes(file.read())
    except IsADirectoryError:
        raise _not_one_file(url, "it is a directory") from None
    except FileNotFoundError:
        if _is_directory(url, fsspec):
            raise _not_one_file(url, "it is a directory") from None
        raise InputError(f"{url}: nothing is there, or it can't be reached") from None
    except ImportError as failure:
        raise InputError(
            f"{url} can't be opened: {_first_line(failure)}", next=_driver(url, str(failure))
        ) from None
    except ValueError as failure:
        raise InputError(
            f"{url} can't be opened: {_first_line(failure)}",
            next="check how the URL begins: https://, gs:// and s3:// are known, for example",
        ) from None
    except Exception as failure:  # noqa: BLE001 - every driver raises its own kinds
        raise InputError(f"{url} can't be read: {_first_line(failure)}") from None


def _not_one_file(url: str, why: str) -> InputError:
    return InputError(
        f"{url}: a URL must name one file", why=why, next="name each profile by its own URL"
    )


def _is_directory(url: str, fsspec: ModuleType) -> bool:
    try:
        filesystem, path = fsspec.core.url_to_fs(url)
        return bool(filesystem.isdir(path))
    except Exception:  # noqa: BLE001 - every driver raises its own kinds
        return False


def _driver(url: str, told: str) -> str:
    """The package to install, as fsspec names it."""
    if url.startswith(("http://", "https://")):
        return "pip install aiohttp requests"
    named = re.search(r"[Ii]nstall[: ]+[\"'`]?([a-z][\w-]*)", told) or re.search(
        r"[\"'`]([a-z][\w-]*)[\"'`]", told
    )
    return f"pip install {named.group(1)}" if named else "install fsspec's driver for such URLs"


def _first_line(failure: Exception) -> str:
    return next(iter(str(failure).strip().splitlines()), type(failure).__name__)
