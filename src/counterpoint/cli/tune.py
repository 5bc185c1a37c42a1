"""`counterpoint tune`: find settings that are really faster, predicted first, then measured."""

from __future__ import annotations

import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from shutil import get_terminal_size
from threading import Event, Lock, Thread
from types import FrameType
from typing import Annotated, Final, Self, TextIO

from cyclopts import Parameter

from counterpoint.cli.printing import print_report, say_line, write_result
from counterpoint.cli.progress import Progress
from counterpoint.cli.tune_options import (
    PlaceOptions,
    RaceOptions,
    SearchOptions,
    TriedOptions,
)
from counterpoint.core import CounterpointError
from counterpoint.core.printable import counted_noun, printable
from counterpoint.report.tune.figures import budget_text, end_text
from counterpoint.report.tune.progress import StudyStatus, event_lines, study_status
from counterpoint.tune.conclusion import Conclusion
from counterpoint.tune.request import TuneRequest
from counterpoint.tune.study import Study
from counterpoint.tune.trial import TrialFailure

NOTHING_MEASURED: Final = 1


def tune(  # noqa: PLR0913 - the options of the command
    *command: Annotated[str, Parameter(name="COMMAND...", show=False, negative=())],
    tried: Annotated[TriedOptions | None, Parameter(name="*")] = None,
    search: Annotated[SearchOptions | None, Parameter(name="*")] = None,
    race: Annotated[RaceOptions | None, Parameter(name="*")] = None,
    place: Annotated[PlaceOptions | None, Parameter(name="*")] = None,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    dry_run: bool = False,
    top: int = 20,
    json: bool = False,
) -> int:
    """Find settings that are really faster: predicted first, then measured, never noise.

    With --target, settings are compiled and simulated for it; with a command after `--`, they are
    run in turns. With both, the usual mode, the settings predicted to be fastest are run. The exit
    code is 0 even if nothing is faster, and 1 if not even the base could be measured.

    Args:
        command: The command to run, after `--`.
        tried: The base, and the settings to try.
        search: The prediction.
        race: The measurement.
        place: The place where trials run.
        out: The directory of the study; the same command with the same -o continues it.
        dry_run: Print what would be tried and its cost, and run nothing.
        top: Number of rows in the table of arms.
        json: Print the full result as JSON.
    """
    from counterpoint.cli.notebooks import with_notebook
    from counterpoint.cli.output import check_number
    from counterpoint.cli.tune_request import TuneOptions, read_request
    from counterpoint.cli.tune_show import resume_command

    check_number("--top", top, 1)
    given = TuneOptions(
        tried or TriedOptions(),
        search or SearchOptions(),
        race or RaceOptions(),
        place or PlaceOptions(),
    )
    request = read_request(with_notebook(command), given, out)
    request = replace(request, words=resume_command(sys.argv[1:], request.directory))
    if dry_run:
        print_dry_run(request, top, _without_dry_run(sys.argv[1:]), as_json=json)
        return 0
    conclusion, ended = _work(request)
    _deliver(request, conclusion, top, as_json=json)
    return ended or _exit_code(conclusion)


def _without_dry_run(words: list[str]) -> str:
    """Return the command line that executes the plan."""
    at = words.index("--") if "--" in words else len(words)
    own = [word for word in words[:at] if word != "--dry-run"]
    return shlex.join(["counterpoint", *own, *words[at:]])


def _work(asked: TuneRequest) -> tuple[Conclusion, int]:
    """Return the conclusion, and the exit code if it was asked to stop."""
    from counterpoint.tune.session import tune as carry_out

    # Ray writes of dead workers to stdout, where the report belongs.
    with (
        redirect_stdout(sys.stderr),
        StudyProgress(asked.directory) as progress,
        stop_on_signals(progress.note) as stop,
    ):

        def announce(resolved: TuneRequest, study: Study) -> None:
            for line in beginning(resolved, study):
                progress.note(line)

        conclusion = carry_out(asked, progress.say, stop, announce)
    return conclusion, stop.exit_code if stop() and conclusion.state != "done" else 0


def _deliver(asked: TuneRequest, conclusion: Conclusion, top: int, *, as_json: bool) -> None:
    from counterpoint.cli.tune_show import keep_report, next_command
    from counterpoint.report.tune.tune_document import tune_document
    from counterpoint.report.tune.tune_json import tune_json
    from counterpoint.tune.study import read_study

    study = asked.directory
    next_line = next_command(conclusion, read_study(study), study, asked.command)
    document = tune_document(conclusion, study, top, next_line)
    keep_report(conclusion, study, document)
    if as_json:
        write_result(tune_json(conclusion, study))
        return
    print_report(document)
    saved = shlex.quote(str(study / "report.txt"))
    say_line(f"counterpoint: the same in {saved} and report.json")


def _exit_code(conclusion: Conclusion) -> int:
    """Return 1 if a completed study has no figure for its base."""
    if conclusion.basis == "predicted":
        known = any(row.arm.is_base and row.arm.predicted is not None for row in conclusion.rows)
    else:
        known = any(row.arm.is_base and row.median_s is not None for row in conclusion.rows)
    return 0 if known else NOTHING_MEASURED


def beginning(asked: TuneRequest, study: Study) -> Iterator[str]:
    """Yield the study's path and the plan; `study` is what was found there, or just begun."""
    place = shlex.quote(str(asked.directory))
    if study.ended is not None:
        yield f"{place} is done ({end_text(study.ended.why)}): nothing to run"
        return
    is_new = study == Study(began=study.began)
    yield f"study {place}" if is_new else f"continuing {place}: {_done(asked, study)}"
    if asked.predicts:
        afterwards = (
            "; then the best ones are run in turns" if asked.measure else "; nothing is run"
        )
        yield (
            f"at most {counted_noun(asked.plan.candidates, 'candidate')} are compiled for"
            f" {asked.target} and simulated, then the best without each of its changes{afterwards}"
        )
    else:
        yield "no --target: the base and your arms are run in turns, without a prediction"
    if asked.measure and (budget := budget_text(asked.plan.budget)):
        yield f"budget: {budget}"


def _done(asked: TuneRequest, study: Study) -> str:
    """Describe how far the study has come."""
    if asked.measure and (study.search is not None or study.trials):
        cut_off = sum(
            trial.failure is TrialFailure.INTERRUPTED or trial.report is None
            for trial in study.trials
        )
        more = f", {cut_off} interrupted" if cut_off else ""
        return f"{counted_noun(len(study.trials) - cut_off, 'trial')} done{more}"
    return f"{counted_noun(len(study.candidates), 'candidate')} predicted"


_ASKED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class StopRequest:
    """The signal by which the user requested a stop, if any."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._number = 0

    def __call__(self) -> bool:
        return self._number != 0

    @property
    def exit_code(self) -> int:
        """The exit code that a shell reports for a process ended by the signal."""
        return 128 + self._number

    def ask(self, number: int) -> None:
        """Record the signal; raise KeyboardInterrupt at the second one."""
        if self._number:
            raise KeyboardInterrupt
        self._number = number
        name = "interrupted" if number == signal.SIGINT else signal.Signals(number).name
        # In a thread: the signal may arrive while the drawing thread holds its lock.
        text = f"{name}: ending the running trial; once more stops at once"
        threading.Thread(target=self._note, args=(text,), daemon=True).start()


@contextmanager
def stop_on_signals(note: Callable[[str], None]) -> Generator[StopRequest]:
    """Turn signals into stop requests during the block; ignored ones (nohup) stay ignored.

    At the first signal the tuner ends the running trial, records that and reports what it knows;
    the second one interrupts it at once. Neither loses anything: all results are in the journal.
    """
    stop = StopRequest(note)
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def ask(number: int, frame: FrameType | None) -> None:
        del frame
        stop.ask(number)

    before = {number: signal.getsignal(number) for number in _ASKED}
    handled = {
        number: handler for number, handler in before.items() if handler is not signal.SIG_IGN
    }
    for number in handled:
        signal.signal(number, ask)
    try:
        yield stop
    finally:
        for number, handler in handled.items():
            signal.signal(number, handler)


def print_dry_run(asked: TuneRequest, top: int, words: str, *, as_json: bool) -> None:
    """Examine the request and print the plan; `words` is the command that executes it."""
    from counterpoint.report.tune.dry_run import dry_run_document
    from counterpoint.report.tune.tune_json import dry_run_json
    from counterpoint.tune.session import dry_run

    with Progress("examining the space") as progress:
        plan = dry_run(asked, progress.say)
    if as_json:
        write_result(dry_run_json(plan, asked.plan.budget))
    else:
        print_report(dry_run_document(plan, top, words, asked.plan.budget))


_WIPE: Final = "\r\x1b[K"
_UP: Final = "\x1b[1A"
_SPARE: Final = 3
"""Columns for the ^C that a terminal echoes after a line: a wrapped row could not be erased."""
_PREFIX: Final = "counterpoint: "


@dataclass(frozen=True, slots=True)
class RefreshIntervals:
    """Seconds between reads of the journal, and between lines written to a pipe."""

    look: float
    again: float


ON_TERMINAL: Final = RefreshIntervals(look=0.5, again=0.0)
IN_FILE: Final = RefreshIntervals(look=1.0, again=60.0)


class StudyProgress:
    """Reports the progress of a study while a block runs, from its journal.

    Events are printed once and stay, a line each. Below them, a terminal shows status lines that
    are redrawn; a file or a pipe gets a status line now and then.
    """

    def __init__(
        self, directory: Path, stream: TextIO | None = None, pace: RefreshIntervals | None = None
    ) -> None:
        self._directory = directory
        self._stream = sys.stderr if stream is None else stream
        self._on_terminal = self._stream.isatty()
        self._pace = pace or (ON_TERMINAL if self._on_terminal else IN_FILE)
        self._finished = Event()
        self._lock = Lock()
        self._doing = ""
        self._told: Study | None = None
        self._conclusion: Conclusion | None = None
        self._size = -1
        self._drawn = 0
        self._said_at = time.monotonic()
        self._said = ""
        self._thread = Thread(target=self._follow, name="study progress", daemon=True)

    def say(self, what: str) -> None:
        """Set what is being done."""
        self._doing = what

    def note(self, line: str) -> None:
        """Print a permanent line."""
        with self._lock, suppress(OSError, ValueError):
            self._stay([line])

    def __enter__(self) -> Self:
        self._told = _read(self._directory)  # earlier events are not reported again
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._finished.set()
        self._thread.join()

    def _follow(self) -> None:
        with suppress(OSError, ValueError):  # a closed stderr ends the output, not the work
            while not self._finished.wait(self._pace.look):
                self._look()
            self._look(last=True)

    def _look(self, *, last: bool = False) -> None:
        study = self._news()
        with self._lock:
            if study is not None:
                self._stay(event_lines(self._told, study))
                self._told = study
            if self._on_terminal:
                self._draw([] if last else self._status())
            elif not last:
                self._say_again()

    def _news(self) -> Study | None:
        """Return the study if its journal has grown."""
        with suppress(OSError):
            size = (self._directory / "journal.jsonl").stat().st_size
            if size != self._size:
                study = _read(self._directory)
                self._conclusion = None if study is None else _conclude(study)
                self._size = size
                return study
        return None

    def _status(self) -> list[str]:
        found = self._standing()
        lines = [] if found is None else [*found.lines]
        return [*lines, self._doing] if self._doing and not (found and found.running) else lines

    def _standing(self) -> StudyStatus | None:
        if self._told is None or self._conclusion is None:
            return None
        return study_status(self._told, self._conclusion, datetime.now(UTC))

    def _stay(self, lines: list[str]) -> None:
        if not lines:
            return
        self._draw([])
        for line in lines:
            self._stream.write(f"{_PREFIX}{printable(line)}\n")
        self._stream.flush()
        self._said_at = time.monotonic()

    def _draw(self, lines: list[str]) -> None:
        if not self._on_terminal:
            return
        width = get_terminal_size().columns - _SPARE
        back = (_WIPE + _UP) * max(self._drawn - 1, 0) + (_WIPE if self._drawn else "")
        self._stream.write(back + "\n".join(printable(line)[:width] for line in lines))
        self._stream.flush()
        self._drawn = len(lines)

    def _say_again(self) -> None:
        """Print the standing if it has changed and nothing was printed for a while."""
        if time.monotonic() - self._said_at < self._pace.again:
            return
        text = "; ".join(self._status())
        if text and text != self._said:
            self._stay([text])
            self._said = text
        self._said_at = time.monotonic()


def _read(directory: Path) -> Study | None:
    from counterpoint.tune.study import is_study, read_study

    if not is_study(directory):
        return None
    try:
        return read_study(directory)
    except CounterpointError:  # reported by the code that uses the study
        return None


def _conclude(study: Study) -> Conclusion | None:
    from counterpoint.tune.conclusion import conclude
    from counterpoint.tune.study import plan_of

    try:
        return conclude(study, plan_of(study))
    except CounterpointError:
        return None
