"""`launch`: runs a workload once, and keeps all its output in a Run directory."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from counterpoint import __version__
from counterpoint.capture.environment import (
    ChildEnvironment,
    child_environment,
    prune_dump,
    with_hints,
)
from counterpoint.capture.flag_check import refuse_unknown_flags
from counterpoint.capture.output import (
    Output,
    PrintedSteps,
    RunGaps,
    UnwrittenRecord,
    end_line,
    is_full,
    sink,
    with_run_gaps,
)
from counterpoint.capture.processes import ProcessGroup, interrupts
from counterpoint.capture.ranks import (
    KUBERNETES,
    LocalRank,
    World,
    count_gpus,
    find_world,
    launcher_within,
    local_world,
)
from counterpoint.capture.request import ProfileSchedule, RunRequest, refuse_missing
from counterpoint.capture.steps import StepGoal
from counterpoint.capture.supervisor import RankProcess, RankSupervisor, RunLimits
from counterpoint.core import ArgumentError, CounterpointError, UsageError
from counterpoint.runs import layout
from counterpoint.runs.outcomes import (
    KINDS_WITH_CAUSE,
    Outcome,
    OutcomeKind,
    classify,
    last_loss_is_nan,
)
from counterpoint.runs.reader import read_run
from counterpoint.runs.run import Run, RunSettings
from counterpoint.runs.writer import RankStart, RunStart, RunWriter
from counterpoint.trainers import find_trainer, own_profile_option

Say = Callable[[str], None]

RUNS_DIRECTORY: Final = Path("counterpoint-runs")
_OTHERS_FAILURE_S: Final = 3.0  # seconds
_OTHERS_SUCCESS_S: Final = 60.0
_TAIL: Final = 1 << 18
"""Number of bytes at the end of each stream that are searched for the outcome."""


def _silent(what: str) -> None:
    del what


def without_errors(say: Say) -> Say:
    """Return a `say` that never raises: a job's log may lie on the disk that is full."""

    def say_if_possible(what: str) -> None:
        with suppress(OSError, ValueError):  # ValueError: the stream is closed
            say(what)

    return say_if_possible


def launch(request: RunRequest, say: Say = _silent) -> Run:
    """Run the workload, and wait for it.

    Raises a UsageError or InputError before anything is started; after that, the Run records what
    happened, including failures.
    """
    say = without_errors(say)
    inherited = _inherited(request)
    world, request = _checked(request, inherited, say)
    with interrupts() as noted:
        writer = _claim(request, world)
        say(f"recording this run in {_shown(writer.path)}")
        if not world.launched and (warning := launcher_within(request.command)):
            say(warning)
        children = _start_ranks(request, world, inherited, writer, say)
        noted.children_started()
        try:
            RankSupervisor(children, _limits(request, world, writer.path, children), noted).run()
        finally:
            at_end = _finish(children, writer)
            if len(children) == 1:  # with several ranks, only whole lines are shown
                end_line(children[0].outputs, request.echo)
    if world.launched and world.seats[0].rank == 0:
        _wait_for_others(
            writer.path, _OTHERS_FAILURE_S if children[0].failed else _OTHERS_SUCCESS_S
        )
    return with_run_gaps(read_run(writer.path), at_end)


def refuse_unstartable(request: RunRequest) -> None:
    """Raise the error of a request that `launch` would not start."""
    _checked(request, _inherited(request), _silent)


def _inherited(request: RunRequest) -> dict[str, str]:
    return dict(os.environ if request.environment is None else request.environment)


def _checked(
    request: RunRequest, inherited: Mapping[str, str], say: Say
) -> tuple[World, RunRequest]:
    """Return the ranks, and the request as it is started, or raise an error."""
    world = _world(request, inherited)
    refuse_missing(request.command, {**inherited, **request.settings.variables})
    _refuse_unknown_ranks(request.window, world.size)
    _refuse_truncated_profile(request)
    request = _with_own_profile(request, say)
    refuse_unknown_flags(request, inherited, say)
    return world, request


def _limits(
    request: RunRequest, world: World, run: Path, children: Sequence[RankProcess]
) -> RunLimits:
    limits = RunLimits(request.timeout_s, request.hang_after_s)
    if request.stop_after_steps is None:
        return limits
    agents = [child.directory / layout.AGENT for child in children]
    others = world.size > len(children)
    return replace(limits, goal=StepGoal(request.stop_after_steps, run, agents, others=others))


def _wait_for_others(path: Path, seconds: float) -> None:
    """Wait for a launcher's other ranks to end, so that the first can report on all.

    Only briefly if it failed: launchers then end the others.
    """
    until = time.monotonic() + seconds
    while read_run(path).outcome.kind is OutcomeKind.RUNNING and time.monotonic() < until:
        time.sleep(0.1)


def _world(request: RunRequest, inherited: Mapping[str, str]) -> World:
    launched = find_world(inherited)
    if launched is not None:
        if request.ranks is not None:
            raise UsageError(
                f"--ranks {request.ranks}: {launched.launcher} already starts the ranks",
                why=f"this process is rank {launched.seats[0].rank} of {launched.size}",
                next="omit --ranks",
            )
        return launched
    ranks = request.ranks
    if ranks is not None and ranks < 1:
        raise ArgumentError("ranks", ranks, "not a positive number of processes", instead="1")
    if ranks is None and request.per == "gpu":
        ranks = count_gpus(inherited)
        if not ranks:
            raise UsageError(
                "--per gpu: no GPU was found",
                why="nvidia-smi lists none",
                next="use --ranks N",
            )
    devices = count_gpus(inherited) if request.per == "node" and (ranks or 1) > 1 else 0
    return local_world(ranks or 1, devices)


def _refuse_unknown_ranks(window: ProfileSchedule | None, size: int) -> None:
    """Reject unknown ranks early."""
    if window is None or window.processes == "all":
        return
    unknown = [rank for rank in window.processes if rank >= size]
    if unknown:
        raise UsageError(
            f"--processes {','.join(map(str, unknown))}: no such rank",
            why=f"the ranks of this run are 0{f' to {size - 1}' if size > 1 else ''}",
        )


def _refuse_truncated_profile(request: RunRequest) -> None:
    """Refuse to stop before the steps to profile have come."""
    steps, window = request.stop_after_steps, request.window
    if steps is not None and steps < 1:
        raise ArgumentError("stop_after_steps", steps, "not a positive number of steps")
    if steps is None or window is None or window.start_step is None:
        return
    needed = window.start_step + window.steps
    if steps < needed:
        raise UsageError(
            f"--stop-after-steps {steps} ends the run before the profile is complete",
            why=f"the profile takes {window.steps} steps from step {window.start_step} on",
            next=f"use --stop-after-steps {needed + 1}",
        )


def _with_own_profile(request: RunRequest, say: Say) -> RunRequest:
    """Leave the profile to a trainer that is told to record one itself; refuse a second one."""
    trainer = find_trainer(request.command)
    if request.window is None or trainer is None:
        return request
    own = own_profile_option(trainer, request.command, Path.cwd())
    if own is None:
        return request
    if asked := request.window.requested:
        raise UsageError(
            f"{trainer.name} records a profile itself ({own}), and `{asked[0]}=` requests another",
            why="JAX allows one profiler per process",
            next=f"run it without {own}, or without `{asked[0]}=`: then {trainer.name}'s own"
            " profile is explained",
        )
    say(f"{trainer.name} records a profile itself ({own}); it is used, and no other is recorded")
    instead = f"{trainer.name} was to record one itself ({own})"
    return replace(request, window=replace(request.window, instead=instead))


def _claim(request: RunRequest, world: World) -> RunWriter:
    """Create the requested directory, or an unused one."""
    start = RunStart(
        name=_name(request),
        command=request.command,
        cwd=str(Path.cwd()),
        settings=RunSettings(request.settings.xla, request.settings.env),
        launcher=world.launcher,
        world_size=world.size,
        version=__version__,
        job=world.job,
    )
    asked = request.directory
    if world.launched:
        path = (_of_job(world) if asked is None else asked).absolute()
        if world.launcher == KUBERNETES:  # its pods are restarted under the same name
            rank = world.seats[0].rank
            path = next((path for path in _numbered(path) if start.has_room(path, rank)), path)
        return RunWriter.claim(path, start)
    if asked is not None:
        return RunWriter.claim(asked.absolute(), start)
    stem = RUNS_DIRECTORY / f"{time.strftime('%Y%m%d-%H%M%S')}-{start.name}"
    path = next(path for path in _numbered(stem) if not path.exists())
    return RunWriter.claim(path.absolute(), start)


def _numbered(path: Path) -> Iterator[Path]:
    yield path
    yield from (path.with_name(f"{path.name}-{number}") for number in range(2, 100))


def _of_job(world: World) -> Path:
    """Return the directory that all ranks of a job compute alike."""
    if world.job is None:
        raise UsageError(
            f"{world.launcher} does not name its job, so its ranks can't agree on a directory",
            next=f"use -o {RUNS_DIRECTORY / world.launcher}",
        )
    return RUNS_DIRECTORY / f"{world.launcher}-{_plain(world.job)}"


def _name(request: RunRequest) -> str:
    """Return the requested name, or one from the script or module that is run."""
    if request.name is not None:
        return _plain(request.name)
    words = [word for word in request.command if not word.startswith("-")]
    script = next((word for word in words if word.endswith((".py", ".sh"))), None)
    if script is None and "-m" in request.command[:-1]:
        script = request.command[request.command.index("-m") + 1].rpartition(".")[2]
    return _plain(Path(script or words[0] if words else request.command[0]).stem)


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")[:80] or "run"


def _start_ranks(
    request: RunRequest, world: World, inherited: Mapping[str, str], writer: RunWriter, say: Say
) -> list[RankProcess]:
    """Start all ranks that belong here, or none."""
    children: list[RankProcess] = []
    begun: list[int] = []
    try:
        for seat in world.seats:
            directory = writer.add_rank(seat.rank)
            begun.append(seat.rank)
            environment = child_environment(request, inherited, seat, directory)
            gang = len(world.seats) > 1
            child = _start(request, seat, directory, environment, say, gang=gang)
            children.append(child)
            writer.start_rank(_described(request, seat, environment), child.group.pid)
    except (OSError, CounterpointError) as failure:
        for child in children:
            child.group.reap()
        writer.withdraw(begun)
        if isinstance(failure, CounterpointError):
            raise
        raise UsageError(
            f"{request.command[0]} can't be started: {failure.strerror or failure}"
        ) from None
    return children


def _start(
    request: RunRequest,
    seat: LocalRank,
    directory: Path,
    environment: ChildEnvironment,
    say: Say,
    *,
    gang: bool,
) -> RankProcess:
    group = ProcessGroup(request.command, environment.variables)
    steps = PrintedSteps(directory / layout.AGENT)
    prefix = f"[{seat.rank}] ".encode() if gang else b""
    try:
        out, err = (
            Output(
                pipe, log, sink(request.echo, is_stderr=is_stderr, prefix=prefix), steps.see, say
            )
            for pipe, log, is_stderr in (
                (group.pipes[0], directory / layout.STDOUT, False),
                (group.pipes[1], directory / layout.STDERR, True),
            )
        )
    except OSError:
        group.reap()
        raise
    return RankProcess(seat.rank, directory, group, (out, err))


def _described(request: RunRequest, seat: LocalRank, environment: ChildEnvironment) -> RankStart:
    return RankStart(
        seat.rank,
        seat.local_rank,
        environment.difference,
        environment.xla_dump_to,
        environment.jax_dump_ir_to,
        profile=request.profiles(seat.rank),
    )


def _finish(children: Sequence[RankProcess], writer: RunWriter) -> RunGaps:
    """Record in the Run how each rank ended; return what can't be written."""
    was_full = is_full(writer.path)
    unwritten: list[UnwrittenRecord] = []
    for child in children:
        status = child.status or child.group.reap()
        outcome = _outcome(child, status)
        try:
            prune_dump(child.directory / layout.XLA)
            writer.end_rank(child.rank, outcome)
        except (OSError, CounterpointError) as failure:
            unwritten.append(UnwrittenRecord(failure, child.rank, outcome))
    try:
        writer.end()
    except (OSError, CounterpointError) as failure:
        unwritten.append(UnwrittenRecord(failure))
    outputs = (output for child in children for output in child.outputs)
    unkept = tuple(output.unkept for output in outputs if output.unkept)
    return RunGaps(tuple(unwritten), was_full=was_full, unkept=unkept)


def _outcome(child: RankProcess, status: tuple[int | None, int | None]) -> Outcome:
    code, number = status
    output = _tail(child)
    own_outcome = with_hints(classify(code, number, "\n".join(output), output[1]))
    stop = child.stopped
    if stop is None:
        return own_outcome
    if stop.because_of is not None and own_outcome.kind in KINDS_WITH_CAUSE:
        return own_outcome  # it had already died of the same cause
    if stop.is_requested:
        if last_loss_is_nan("\n".join(output)):
            return classify(0, None, "\n".join(output))
        return Outcome(OutcomeKind.OK, 0, detail=stop.detail)
    if stop.is_patient and code == 0:
        return own_outcome  # it was asked to end, and did so itself
    return Outcome(stop.kind, code, stop.signal or own_outcome.signal, stop.detail)


def _tail(child: RankProcess) -> tuple[str, str]:
    """Return the end of a rank's stdout and stderr."""
    out, err = (output.tail.decode("utf-8", errors="replace") for output in child.outputs)
    place = child.directory
    return _end_of(place / layout.STDOUT) + out, _end_of(place / layout.STDERR) + err


def _end_of(path: Path) -> str:
    with suppress(OSError), path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
        return file.read().decode("utf-8", errors="replace")
    return ""


def _shown(path: Path) -> Path:
    directory = Path.cwd()
    return path.relative_to(directory) if path.is_relative_to(directory) else path
