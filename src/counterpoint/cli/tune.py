"""`counterpoint tune`: find settings that are really faster, predicted first, then measured."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from counterpoint.cli.numbers import WholeNumber
from counterpoint.cli.tune_options import (
    PlaceOptions,
    RaceOptions,
    SearchOptions,
    Switch,
    TriedOptions,
)

if TYPE_CHECKING:
    from counterpoint.tune.asked import Asked
    from counterpoint.tune.conclusion.conclusion import Conclusion
    from counterpoint.tune.study.study import Study

NOTHING_MEASURED: Final = 1


def tune(  # noqa: PLR0913 - the options of the command
    *command: Annotated[str, Parameter(name="COMMAND...", show=False, negative=())],
    tried: Annotated[TriedOptions | None, Parameter(name="*")] = None,
    search: Annotated[SearchOptions | None, Parameter(name="*")] = None,
    race: Annotated[RaceOptions | None, Parameter(name="*")] = None,
    place: Annotated[PlaceOptions | None, Parameter(name="*")] = None,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    dry_run: Switch = False,
    top: WholeNumber = 20,
    json: Switch = False,
) -> int:
    """Find settings that are really faster: predicted first, then measured, never noise.

    With a --target, settings are compiled and simulated for it; with a command behind `--`, they
    are run in turns. With both, which is the usual way, what is predicted to be fastest is run.
    Exit code 0 also where nothing is faster; 1 where not even the base could be measured.

    Args:
        command: What to run, behind `--`.
        tried: The base, and what is tried.
        search: What is predicted.
        race: How it is measured.
        place: Where it runs.
        out: The directory of the study; the same command with the same -o goes on.
        dry_run: Print what would be tried and what that costs, and run nothing.
        top: Rows of the table of arms.
        json: Print everything as JSON, uncut.
    """
    from counterpoint.cli.tune_asked import Given, make_asked
    from counterpoint.cli.tune_next import words_again
    from counterpoint.cli.tune_numbers import refuse_low

    refuse_low("--top", top, 1)
    given = Given(
        tried or TriedOptions(),
        search or SearchOptions(),
        race or RaceOptions(),
        place or PlaceOptions(),
    )
    asked = make_asked(command, given, out)
    asked = replace(asked, words=words_again(sys.argv[1:], asked.directory))
    if dry_run:
        from counterpoint.cli.tune_dry_run import print_dry_run

        print_dry_run(asked, top, _without_dry_run(sys.argv[1:]), as_json=json)
        return 0
    conclusion, ended = _work(asked)
    _deliver(asked, conclusion, top, as_json=json)
    return ended or _exit_code(conclusion)


def _without_dry_run(words: list[str]) -> str:
    """The command line that does what was planned."""
    at = words.index("--") if "--" in words else len(words)
    own = [it for it in words[:at] if it != "--dry-run"]
    return shlex.join(["counterpoint", *own, *words[at:]])


def _work(asked: Asked) -> tuple[Conclusion, int]:
    """The conclusion, and the exit code where it was asked to stop."""
    from counterpoint.cli.tune_beginning import beginning
    from counterpoint.cli.tune_progress import StudyProgress
    from counterpoint.cli.tune_stop import asked_to_stop
    from counterpoint.tune.sitting import grounded
    from counterpoint.tune.sitting import tune as carry_out

    with StudyProgress(asked.directory) as progress, asked_to_stop(progress.note) as stop:
        on_ground = grounded(asked, progress.note)

        def announce(study: Study) -> None:
            for line in beginning(on_ground, study):
                progress.note(line)

        conclusion = carry_out(on_ground, progress.say, stop, announce)
    return conclusion, stop.exit_code if stop() and conclusion.state != "done" else 0


def _deliver(asked: Asked, conclusion: Conclusion, top: int, *, as_json: bool) -> None:
    from counterpoint.cli.tune_files import keep_report
    from counterpoint.cli.tune_next import next_command
    from counterpoint.report.terminal import print_document
    from counterpoint.report.tune_document import tune_document
    from counterpoint.report.tune_json import tune_json
    from counterpoint.tune.study.directory import read_study

    study = asked.directory
    then = next_command(conclusion, read_study(study), study, asked.command)
    document = tune_document(conclusion, study, top, then)
    keep_report(conclusion, study, document)
    if as_json:
        sys.stdout.write(tune_json(conclusion, study))
        return
    print_document(document, sys.stdout)
    kept = shlex.quote(str(study / "report.txt"))
    print(f"counterpoint: the same in {kept} and report.json", file=sys.stderr)


def _exit_code(conclusion: Conclusion) -> int:
    """1 where a study that is done has not one figure of its base."""
    if conclusion.basis == "predicted":
        known = any(it.arm.is_base and it.arm.predicted is not None for it in conclusion.rows)
    else:
        known = any(it.arm.is_base and it.median_s is not None for it in conclusion.rows)
    return 0 if known else NOTHING_MEASURED
