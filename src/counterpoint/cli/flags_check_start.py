"""Starts `counterpoint flags check`: the compiler is loaded while everything else still is.

Asking XLA takes longer than all the rest of the command, and loading it is most of that. A source
whose flags were asked for before has its answer kept, and nothing is loaded for it.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from zlib import crc32

from counterpoint.core.documents import cache_directory

_MOST: Final = 1 << 20
"""Bytes of a source to look at; no script has more."""

_ELSEWHERE: Final = ("python", "jaxlib", "command", "env", "no_probe")
"""Options by which another interpreter is asked, or none, or flags that are no source's."""


def run(source: str | None = None, **options: object) -> int:
    """Run the command, and have the compiler loaded by the time it is asked."""
    mark = None if any(options.get(name) for name in _ELSEWHERE) else _mark(source)
    if mark is None or mark.exists():
        return _run(source, options)
    from counterpoint.flags.flag_parser import dismiss_loaded, load_ahead

    load_ahead(Path(sys.executable))
    try:
        code = _run(source, options)
    finally:
        dismiss_loaded()
    with suppress(OSError):
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()
    return code


def _run(source: str | None, options: dict[str, Any]) -> int:
    from counterpoint.cli.flags_check_run import run  # loads all that the command needs

    return run(source, **options)


def _mark(source: str | None) -> Path | None:
    """Return the file that says that this source was asked for; None if nothing will be asked."""
    directory = cache_directory("probe")
    if source is None or directory is None:
        return None
    from counterpoint.flags.jaxlib import find_interpreter

    text = source.encode(errors="surrogateescape")
    with suppress(OSError, ValueError):
        path = Path(source)
        if path.is_file() and path.stat().st_size <= _MOST:
            text = path.read_bytes()
    own = find_interpreter(None)
    if b"xla_" not in text or own is None or own.jaxlib is None:
        return None
    if str(own.python) != sys.executable:
        return None
    asked = b"\0".join([text, own.jaxlib.encode(), sys.executable.encode()])
    return directory / f"{crc32(asked):08x}.asked"
