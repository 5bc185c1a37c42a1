"""The digest of a run: its step time and its largest loss, two lines for the log of a job.

`python -P -m counterpoint.cli.digest RUN` reads the profile in a process of its own: what goes
wrong in it, and how long it takes, can't touch the end of the run that it is about.
"""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from counterpoint.core import CounterpointError
from counterpoint.report import units
from counterpoint.runs import Run

_LARGEST: Final = 64 << 20
"""Bytes of profiles that are read: a larger one may need more memory than a job has left."""
_LONGEST: Final = 60
"""Seconds. Launchers end the ranks that stay long after the others."""


def digest_lines(run: Run, seconds: int = _LONGEST) -> Iterator[str]:
    """What its profile tells of a run that ended well; nothing for another, never an error."""
    if not run.outcome.ok or not run.profiles:
        return
    try:
        size = sum(path.stat().st_size for path in run.profiles)
        if size <= _LARGEST:
            yield from _asked(run.path, seconds)
        else:
            yield f"digest   none: {units.size(size)} of profile are not read at a run's end"
    except (Exception, KeyboardInterrupt):  # noqa: BLE001 - the run is over, and ended well
        yield "digest   none: reading its profile was broken off"


def digest_of_compared(step_times: str, runs: Iterable[Run]) -> Iterator[str]:
    """The same two lines of runs that were compared; the loss is of the first that has a profile.

    `runs` are in the order in which they are asked: what is left with a change comes first.
    """
    yield f"step time     {step_times}"
    profiled = next((run for run in runs if run.profiles), None)
    if profiled is None:
        return
    said = [line for line in digest_lines(profiled) if not line.startswith("step time")]
    yield from (f"{line}; in {shlex.quote(profiled.path.name)}" for line in said)


def _asked(path: Path, seconds: int) -> list[str]:
    words = [sys.executable, "-P", "-m", __name__, str(path), str(seconds)]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(  # noqa: S603 - ourselves
        words, stdin=quiet, stdout=subprocess.PIPE, stderr=quiet, start_new_session=True
    ) as child:
        try:
            said, _ = child.communicate(timeout=2 * seconds)
        finally:
            child.kill()
            child.wait()  # also after Ctrl-C, of which `with` thinks that the child had it, too
    if child.returncode == -signal.SIGALRM:
        return [f"digest   none: its profile was not read within {seconds} s"]
    if child.returncode:
        return ["digest   none: its profile could not be read"]
    return said.decode("utf-8", errors="replace").splitlines()


def _told(path: str) -> list[str]:
    from counterpoint.cli.explained_run import find_run
    from counterpoint.diagnose import explain as explain_timeline
    from counterpoint.report.explain import digest
    from counterpoint.runs.timeline import read

    run = find_run([path])
    return digest(explain_timeline(read(path), run=run), run)


def main() -> None:
    """Print the digest of the Run that is named, within so many seconds."""
    path, seconds = sys.argv[1:]
    signal.alarm(int(seconds))
    try:
        lines = _told(path)
    except CounterpointError as error:
        lines = [f"digest   none: {error.what}"]
    print("\n".join(lines))


if __name__ == "__main__":
    main()
