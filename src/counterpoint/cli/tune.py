"""`counterpoint tune`: find settings that are really faster, predicted first, then measured."""

from __future__ import annotations

import shlex
import sys
from contextlib import redirect_stdout
from dataclasses import replace
from typing import Annotated, Final

from cyclopts import Parameter

from counterpoint.cli.notebooks import with_notebook
from counterpoint.cli.options import CompileTimeout, OutputPath, Words
from counterpoint.cli.printing import print_report, say_line, write_result
from counterpoint.cli.progress import Progress
from counterpoint.cli.stop_request import stop_on_signals
from counterpoint.cli.study_progress import StudyProgress
from counterpoint.cli.tune_options import (
    EXECUTOR_HELP,
    MEASURED,
    PLACE,
    PREDICTED,
    ExecutorName,
    in_search,
)
from counterpoint.cli.tune_show import keep_report
from counterpoint.compile.task import TIMEOUT_S
from counterpoint.core.bounds import check_number
from counterpoint.report.tune.dry_run import dry_run_document
from counterpoint.report.tune.next_command import next_command, resume_command
from counterpoint.report.tune.progress import beginning
from counterpoint.report.tune.tune_document import tune_document
from counterpoint.report.tune.tune_json import dry_run_json, tune_json
from counterpoint.tune.command_line import read_request
from counterpoint.tune.conclusion import Conclusion
from counterpoint.tune.options import (
    PlaceOptions,
    RaceOptions,
    SearchOptions,
    TriedOptions,
    TuneOptions,
)
from counterpoint.tune.request import TuneRequest
from counterpoint.tune.study import Study, read_study
from counterpoint.workflow.forecast.options import ForecastOptions, Where

NOTHING_MEASURED: Final = 1


def tune(  # noqa: PLR0913 - the options of the command
    *command: Words,
    tried: TriedOptions = TriedOptions(),
    predict: Annotated[
        tuple[str, ...] | None, Parameter(consume_multiple=True, group=PREDICTED)
    ] = None,
    where: Annotated[Where, in_search] = Where(),
    search: Annotated[SearchOptions, in_search] = SearchOptions(),
    forecast: Annotated[ForecastOptions, in_search] = ForecastOptions(),
    compile_timeout_s: Annotated[CompileTimeout, Parameter(group=PREDICTED)] = TIMEOUT_S,
    race: RaceOptions = RaceOptions(),
    indifferent: Annotated[
        str, Parameter(group=MEASURED, allow_leading_hyphen=True)
    ] = TuneOptions.indifferent,
    executor: Annotated[ExecutorName | None, Parameter(group=PLACE, help=EXECUTOR_HELP)] = None,
    place: PlaceOptions = PlaceOptions(),
    out: OutputPath = None,
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
        predict: Predict from this workload: a file, a dump, a Run, or file.py:function, which runs
            that file. Without a value, the command after `--` is lowered, not trained. With both,
            the search uses the workload, and the command is measured.
        indifferent: Gains and losses within this share of the step do not count.
        out: The directory of the study; the same command with the same -o continues it.
        dry_run: Print what would be tried and its cost, and run nothing.
        top: Number of rows in the table of arms.
        json: Print the full result as JSON.
    """
    check_number("--top", top, 1)
    options = TuneOptions(
        tried=tried,
        where=where,
        search=search,
        forecast=forecast,
        compile_timeout_s=compile_timeout_s,
        race=race,
        indifferent=indifferent,
        executor=executor,
        place=place,
    )
    request = read_request(with_notebook(command), options, out, predict)
    request = replace(request, words=resume_command(sys.argv[1:], request.directory))
    if dry_run:
        _print_dry_run(request, top, json=json)
        return 0
    conclusion, ended = _work(request)
    directory = request.directory
    following = next_command(conclusion, read_study(directory), directory, request.command)
    document = tune_document(conclusion, directory, top, following)
    keep_report(conclusion, directory, document)
    if json:
        write_result(tune_json(conclusion, directory))
    else:
        print_report(document)
        saved = shlex.quote(str(directory / "report.txt"))
        say_line(f"counterpoint: the same in {saved} and report.json")
    return ended or (0 if conclusion.knows_base else NOTHING_MEASURED)


def _print_dry_run(request: TuneRequest, top: int, *, json: bool) -> None:
    from counterpoint.tune.session import dry_run

    with Progress("examining the space") as progress:
        plan = dry_run(request, progress.say)
    if json:
        write_result(dry_run_json(plan, request.plan.budget))
        return
    words = sys.argv[1:]
    at = words.index("--") if "--" in words else len(words)
    own = [word for word in words[:at] if word != "--dry-run"]
    line = shlex.join(["counterpoint", *own, *words[at:]])
    print_report(dry_run_document(plan, top, line, request.plan.budget))


def _work(request: TuneRequest) -> tuple[Conclusion, int]:
    """Return the conclusion, and the exit code if it was asked to stop."""
    from counterpoint.tune.session import tune as carry_out

    # Ray writes of dead workers to stdout, where the report belongs.
    with (
        redirect_stdout(sys.stderr),
        StudyProgress(request.directory) as progress,
        stop_on_signals(progress.note) as stop,
    ):

        def announce(resolved: TuneRequest, study: Study) -> None:
            for line in beginning(resolved, study):
                progress.note(line)

        conclusion = carry_out(request, progress.say, stop, announce)
    return conclusion, stop.exit_code if stop() and conclusion.state != "done" else 0
