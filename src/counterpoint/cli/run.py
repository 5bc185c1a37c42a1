"""`counterpoint run` and `runs`: execute a workload and keep all of its output; list such runs."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Final, TextIO

from cyclopts import Parameter

from counterpoint.capture import RunRequest, launch, without_errors
from counterpoint.capture.ranks import find_world
from counterpoint.cli.digest import digest_lines
from counterpoint.cli.notebooks import with_notebook
from counterpoint.cli.options import Json
from counterpoint.cli.output import check_page
from counterpoint.cli.printing import add_step_summary, print_report, say_line, write_result
from counterpoint.cli.repeated_runs import run_repeated
from counterpoint.cli.workload import ProfileOptions, WorkloadOptions, make_request
from counterpoint.core import InputError, UsageError
from counterpoint.core.bounds import check_number
from counterpoint.report.digest import lines_markdown
from counterpoint.report.runs import run_lines, runs_document, runs_json
from counterpoint.runs.layout import find_runs
from counterpoint.runs.reader import read_run
from counterpoint.runs.run import Run
from counterpoint.trackers import TrackerName, require_client

NO_PROFILE: Final = 3
"""Exit code, the same as for a missing file."""


def run(  # noqa: PLR0913 - the options of the command
    *command: Annotated[str, Parameter(name="COMMAND...", negative=())],
    workload: WorkloadOptions = WorkloadOptions(),
    profile: ProfileOptions = ProfileOptions(),
    repeat: int | None = None,
    against: Path | None = None,
    json: bool = False,
    html: Path | None = None,
    log: TrackerName | None = None,
    force: bool = False,
) -> int:
    """Run a workload, and keep everything that it leaves.

    The exit code is that of the workload: 128 + number for a signal, 124 for --timeout and
    --hang-after. It is 3 if an option requested a profile, and the workload succeeded without one.

    Args:
        command: Command to run, after `--`.
        repeat: Make this many runs, one after the other, in directories below --out.
        against: Repeat this Run (A), too, in the order A B B A, in which a drift of the machine
            cancels: --repeat runs of each, by default 3. Then compare them with `compare`.
        json: Print the run as JSON to stdout, and the workload's output to stderr.
        html: Explain the run when it has ended, as one page in this file (.html).
        log: Log the run to this tracker when it has ended, as `counterpoint log` does.
        force: Overwrite the page of --html; a Run is never overwritten.
    """
    check_page(html, force=force)
    echo = "stderr" if json else True
    request = make_request(with_notebook(command), workload, profile, echo=echo)
    if repeat is not None or against is not None:
        if html is not None or log is not None:
            raise UsageError(
                "--repeat and --against make several runs; --html and --log are of one",
                next="omit --html and --log",
            )
        return _run_repeated(request, repeat, against, json=json)
    world = find_world(os.environ)
    own_rank = world.seats[0].rank if world else None
    if log is not None and not own_rank:
        require_client(log)
    finished = launch(request, say=_say if not own_rank else _keep_quiet)
    missing = profile.is_explicit and finished.outcome.ok and not finished.profiles
    if not own_rank:
        if json:
            write_result(runs_json([finished]))
        if missing or not json:
            _close(finished, needs_profile=missing, digest=() if json else digest_lines(finished))
        if html is not None:
            _write_page(finished, html)
        if log is not None:
            _log(finished, log, request.settings.variables)
    _drop_unwritten(sys.stderr)
    if not json:
        _drop_unwritten(sys.stdout)
    status = (finished.outcome if own_rank is None else finished.rank(own_rank).outcome).status
    return NO_PROFILE if missing and not own_rank else status


def _run_repeated(
    request: RunRequest, repeat: int | None, against: Path | None, *, json: bool
) -> int:
    check_number("--repeat", repeat, 1)
    made, status = run_repeated(request, repeat, against, _say)
    if json:
        write_result(runs_json(made))
    return status


def _close(run: Run, *, needs_profile: bool, digest: Iterable[str]) -> None:
    """Say how the run ended, and add it to the step summary."""
    say, said = without_errors(_say), list[str]()
    for line in run_lines(run, _shown(run), needs_profile=needs_profile, digest=digest):
        say(line)
        said.append(line)
    add_step_summary(lines_markdown(f"counterpoint run {run.name}", said))


def _write_page(run: Run, path: Path) -> None:
    """Explain the run in a process of its own: whatever happens there, the run has ended so."""
    if not run.profiles:
        _say(f"{path} was not written: the run has no profile")
        return
    words = ["counterpoint", "explain", str(_shown(run)), "--html", str(path), "--force"]
    done = subprocess.run(  # noqa: S603 - this program
        [sys.executable, "-P", "-m", *words], stdin=subprocess.DEVNULL, check=False
    )
    if done.returncode:
        _say(f"{path} was not written")


_LOGGING_S: Final = 300
"""Time limit in seconds: a tracker that does not answer must not keep the job's nodes."""
_OF_TRACKERS: Final = ("WANDB_", "MLFLOW_", "TRACKIO_")


def _log(run: Run, tracker: str, variables: Mapping[str, str]) -> None:
    """Log the run in a process of its own: whatever happens there, the run has ended so."""
    words = ["counterpoint", "log", str(_shown(run)), "--to", tracker]
    given = {name: text for name, text in variables.items() if name.startswith(_OF_TRACKERS)}
    try:
        done = subprocess.run(  # noqa: S603 - this program
            [sys.executable, "-P", "-m", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env={**os.environ, **given},
            timeout=_LOGGING_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        _say(f"not logged: {tracker} did not answer within {_LOGGING_S} s")
    except (OSError, KeyboardInterrupt) as failure:
        _say(f"not logged to {tracker}: {failure or 'interrupted'}")
    else:
        if done.returncode == 0:
            return
        _say(f"not logged to {tracker} (above)")
    _say(f"next: {shlex.join(words)}")


def _say(line: str) -> None:
    say_line(f"counterpoint: {line}")


def _drop_unwritten(stream: TextIO) -> None:
    """Discard output that a full disk rejects: the exit code is that of the program."""
    try:
        stream.flush()
    except BrokenPipeError:
        pass  # a closed pipe, which all commands handle alike
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _keep_quiet(line: str) -> None:
    """Print nothing: only one of many ranks reports."""
    del line


def _shown(run: Run) -> Path:
    cwd = Path.cwd()
    return run.path.relative_to(cwd) if run.path.is_relative_to(cwd) else run.path


def runs(
    directory: Path = Path("counterpoint-runs"),
    *,
    json: Json = False,
) -> None:
    """List runs, oldest first.

    Args:
        directory: Directory of runs, or one run.
    """
    readable: list[Run] = []
    broken: list[tuple[Path, str]] = []
    for path in find_runs(directory):
        try:
            readable.append(read_run(path))
        except InputError as damage:
            broken.append((path, damage.what))
    readable.sort(key=lambda run: run.started)
    if json:
        write_result(runs_json(readable, broken))
    else:
        print_report(runs_document(readable, broken, str(directory)))
