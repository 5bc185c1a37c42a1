"""The digest of a run: its step time and its largest loss, two lines for the log of a job.

`python -P -m counterpoint.cli.digest RUN` reads the profile in a separate process, so that neither
an error nor a long read can affect how the run ends.
"""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final

from counterpoint.cli.printing import say_result
from counterpoint.core import CounterpointError
from counterpoint.report.units import size
from counterpoint.runs.run import Run

_LARGEST: Final = 64 << 20
"""Maximum bytes of profiles to read: larger ones may need more memory than a job has left."""
_LONGEST: Final = 60
"""Time limit in seconds: launchers kill ranks that stay long after the others."""
_LINES: Final = {
    "step_time": "step time     {}",
    "largest_loss": "largest loss  {}",
    "none": "digest   none: {}",
}


def digest_lines(run: Run, seconds: int = _LONGEST) -> Iterator[str]:
    """Yield the digest of a successful run's profile; nothing for other runs, and never raise."""
    if not run.outcome.ok or not run.profiles:
        return
    yield from _lines(_digest(run, seconds))


def digest_of_compared(step_times: str, runs: Iterable[Run]) -> Iterator[str]:
    """Yield the digest of compared runs; the loss is that of the first run with a profile.

    `runs` are in order of preference: the loss that remains after a change comes first.
    """
    yield _LINES["step_time"].format(step_times)
    profiled = next((run for run in runs if run.profiles), None)
    if profiled is None:
        return
    if not profiled.outcome.ok:
        return
    digest = _digest(profiled, _LONGEST)
    digest.pop("step_time", None)  # `step_times` has those of all runs
    yield from (f"{line}; in {shlex.quote(profiled.path.name)}" for line in _lines(digest))


def _lines(digest: Mapping[str, str]) -> list[str]:
    return [_LINES[name].format(text) for name, text in digest.items()]


def _digest(run: Run, seconds: int) -> dict[str, str]:
    """Return the fields of the digest, or `none` with the reason."""
    try:
        total = sum(path.stat().st_size for path in run.profiles)
        if total <= _LARGEST:
            return _read_in_process(run.path, seconds)
    except (Exception, KeyboardInterrupt):  # noqa: BLE001 - the run itself has succeeded
        return {"none": "reading its profile was interrupted"}
    return {"none": f"{size(total)} of profiles are too much to read after a run"}


def _read_in_process(path: Path, seconds: int) -> dict[str, str]:
    words = [sys.executable, "-P", "-m", __name__, str(path), str(seconds)]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(  # noqa: S603 - this program
        words, stdin=quiet, stdout=subprocess.PIPE, stderr=quiet, start_new_session=True
    ) as child:
        try:
            # The alarm ends it; on a busy machine it takes a while until that is set.
            output, _ = child.communicate(timeout=seconds + 30)
        finally:
            child.kill()
            child.wait()  # also after Ctrl-C, which `with` expects the child to get too
    if child.returncode == -signal.SIGALRM:
        return {"none": f"its profile was not read within {seconds} s"}
    if child.returncode:
        return {"none": "its profile could not be read"}
    found: dict[str, str] = json.loads(output)
    return found


def _digest_of(path: str) -> dict[str, str]:
    from counterpoint.cli.profiles import find_run
    from counterpoint.diagnose.explanation import explain as explain_timeline
    from counterpoint.report.explain.explain_document import run_digest
    from counterpoint.runs.timeline import read

    run = find_run([path])
    return asdict(run_digest(explain_timeline(read(path), run=run), run))


def main() -> None:
    """Print the digest of the named Run within a time limit."""
    path, seconds = sys.argv[1:]
    signal.alarm(int(seconds))
    try:
        found = _digest_of(path)
    except CounterpointError as error:
        found = {"none": error.what}
    say_result(json.dumps(found))


if __name__ == "__main__":
    main()
