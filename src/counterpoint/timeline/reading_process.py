"""`python -m counterpoint.timeline.reading_process DIRECTORY`: reads profiles for another process.

Each line of stdin names a source and a number: `{"name": ..., "number": 3}`. Answers go to stdout,
a line of JSON each: progress (`at`, `of`), and finally either the number of Recordings written to
the directory (`made`), or the error. The process ends when stdin does, so it does not outlive its
parent; interrupts are left to the parent.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path
from typing import Any, Final

from counterpoint.core import InputError
from counterpoint.timeline.reading import read_source
from counterpoint.timeline.source import ProfileSource
from counterpoint.timeline.storage.parquet import write_parcel

_PAUSE: Final = 0.2
"""Minimum seconds between two progress reports on a source."""


def main() -> None:
    """Read the requested sources until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    directory = Path(sys.argv[1])
    for line in sys.stdin:
        _say(_read(json.loads(line), directory))


def _read(task: dict[str, Any], directory: Path) -> dict[str, Any]:
    spoken = 0.0

    def progress(what: str, done: int, total: int) -> None:
        nonlocal spoken
        del what
        if time.monotonic() - spoken > _PAUSE:
            spoken = time.monotonic()
            _say({"at": done, "of": total})

    try:
        recordings = read_source(ProfileSource(task["name"]), progress)
        for part, recording in enumerate(recordings):
            place = directory / f"{task['number']}-{part}"
            write_parcel(recording, place, directory / "hlo")
    except InputError as failure:
        return {"failed": [failure.what, failure.why, failure.next]}
    except OSError as failure:
        return {"lost": f"{failure.strerror or failure}"}
    return {"made": len(recordings)}


def _say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
