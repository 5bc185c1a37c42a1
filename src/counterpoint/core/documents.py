"""Parses TOML and JSON from any source, and says where to write: unused paths, the cache.

Text that can't be parsed raises one kind of error. Both parsers recurse for each level, and tomllib
takes time quadratic in the dots of a key. So depth is an error of the text (a ValueError), never
one of the interpreter.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any, Final

from counterpoint.core.errors import UsageError

__all__ = [
    "cache_directory",
    "parse_json",
    "parse_toml",
    "refuse_url",
    "unused_path",
]

_LARGEST: Final = 1 << 22
"""Maximum number of characters, beyond any handwritten file; tomllib takes seconds for them."""
_DEEPEST: Final = 64
_DEEP_KEY: Final = re.compile(
    r"""(?<![^\s.=\[\],{"'])"""
    r"""(?:(?:"[^"\n]*+"|'[^'\n]*+'|[^\s.=\[\],{"']++)[ \t]*+\.[ \t]*+){"""
    f"{_DEEPEST + 1}}}"
)


class TooDeepError(ValueError):
    """Raised for more levels, or more text, than the parsers can handle."""


def parse_toml(text: str) -> dict[str, Any]:
    """Parse a TOML text; raise a ValueError if it is invalid."""
    if len(text) > _LARGEST:
        raise TooDeepError(f"it has more than {_LARGEST >> 20} MiB")
    if deep := _DEEP_KEY.search(text):
        line = text.count("\n", 0, deep.start()) + 1
        raise TooDeepError(f"a key with more than {_DEEPEST} dots (at line {line})")

    import tomllib

    try:
        return tomllib.loads(text)
    except RecursionError:
        raise TooDeepError("tables or lists are nested too deep") from None


def parse_json(
    text: str | bytes,
    *,
    pairs: Callable[[list[tuple[str, Any]]], Any] | None = None,
    strict: bool = True,
) -> Any:  # noqa: ANN401 - whatever the text holds
    """Parse a JSON text; raise a ValueError if it is invalid.

    `pairs` builds an object from its pairs.
    """
    try:
        return json.loads(text, object_pairs_hook=pairs, strict=strict)
    except RecursionError:
        raise TooDeepError("tables or lists are nested too deep") from None


_LONGEST: Final = 4  # digits of a number appended to a name; a date has more


def unused_path(path: Path) -> Path:
    """Return a path that does not exist: `before-2` for `before`, then `before-3`.

    For `.` and `/`, which name nothing that has others beside it, one in the working directory.
    """
    path = path if path.name else Path("counterpoint")
    stem, _, last = path.name.rpartition("-")
    again = bool(stem) and last.isdecimal() and len(last) < _LONGEST
    stem, first = (stem, int(last) + 1) if again else (path.name, 2)
    names = (path.with_name(f"{stem}-{number}") for number in count(first))
    return next(name for name in names if not name.exists())


def refuse_url(path: str | Path) -> None:
    """Refuse a URL as an output path; a Path has only one slash left of it."""
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]+:)/+", str(path))
    if scheme and not Path(scheme[1]).is_dir():
        url = f"{scheme[1]}//{str(path)[scheme.end() :]}"
        raise UsageError(
            f"can't write {url}: URLs can be read, not written",
            next="write to a local path, and copy it from there",
        )


CACHE_VARIABLE: Final = "COUNTERPOINT_CACHE"


def cache_directory(name: str, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the directory of a cache; None if caching is disabled, or there is no home."""
    setting = environment.get(CACHE_VARIABLE, "")
    if setting.lower() in ("off", "0", "no", "false"):
        return None
    if setting:
        return Path(setting).expanduser() / name
    home = environment.get("XDG_CACHE_HOME", "")
    if Path(home).is_absolute():
        return Path(home) / "counterpoint" / name
    with contextlib.suppress(RuntimeError):  # nobody knows the home directory
        if Path.home().is_dir():  # a service may name one that is not there: do not make it
            return Path.home() / ".cache" / "counterpoint" / name
    return None
