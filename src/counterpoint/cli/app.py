"""The command `counterpoint`: the list of commands, and the one place where errors become text.

A command is named by its import path and loaded when it runs, so `--help` loads none of them. It
prints its result to stdout and returns None (exit code 0) or an exit code. What the user can mend
it raises as a `CounterpointError`; every other exception keeps its traceback.
"""

from __future__ import annotations

import errno
import importlib
import os
import select
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TextIO

from counterpoint import __version__
from counterpoint.cli.ending import Ended, ends_tidily
from counterpoint.cli.quick import quick
from counterpoint.core.errors import CounterpointError, UsageError

if TYPE_CHECKING:
    from cyclopts import App

INTERRUPTED = 128 + 2  # what a shell reports for a process that SIGINT ended
READER_GONE = 128 + 13  # and for SIGPIPE: `counterpoint ... | head`
_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of a stdout that is a file; without a file name, as opened files have one."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command that can be called without being loaded to be listed.

    A name of two words is a command within a group: `pgle make`. Where the first word alone is a
    command, too, that is what the group does by itself: `tune`, beside `tune show`.
    """

    name: str
    function: str
    summary: str
    examples: tuple[str, ...] = ()


GROUPS = {
    "flags": "Check, explain, compare and recommend settings of XLA, JAX and NCCL.",
    "pgle": "Make, check and apply profiles that tell XLA's scheduler what instructions cost.",
}
"""What the commands whose names begin with this word are for."""

COMMANDS: tuple[Command, ...] = (
    Command(
        "explain",
        "counterpoint.cli.explain:explain",
        "Say where a training step goes: how far to trust the profile, what waits, what to change.",
        examples=(
            "counterpoint explain logdir",
            "counterpoint explain rank*.zip --top 20",
            "counterpoint explain trace.xplane.pb --step 7 --device 0,1",
            "counterpoint explain trace.xplane.pb --json | jq .breakdown",
            "counterpoint explain trace.xplane.pb -o explain.json",
        ),
    ),
    Command(
        "network",
        "counterpoint.cli.network:network",
        "Say what a step asks of the network: slack, bandwidth, demand, bursts, what binds each.",
        examples=(
            "counterpoint network logdir --target 4x8xH100:400G",
            "counterpoint network rank*.zip --top 20",
            "counterpoint network predicted.parquet --json | jq .collectives",
        ),
    ),
    Command(
        "compare",
        "counterpoint.cli.compare:compare",
        "Say what made one run slower than another: by op, phase, collective, schedule, settings.",
        examples=(
            "counterpoint compare runs/before runs/after",
            "counterpoint compare before.xplane.pb after.xplane.pb --top 20",
            "counterpoint compare runs/a1 runs/a2 runs/a3 --with runs/b1 runs/b2 runs/b3",
            "counterpoint compare main.parquet change.parquet --fail-above 2%",
            "counterpoint compare runs/before runs/after --json | jq .step",
        ),
    ),
    Command(
        "convert",
        "counterpoint.cli.convert:convert",
        "Keep profiles as Parquet tables, or as a trace for ui.perfetto.dev.",
        examples=(
            "counterpoint convert logdir step.parquet",
            "counterpoint convert rank*.zip run.pftrace",
        ),
    ),
    Command(
        "run",
        "counterpoint.cli.run:run",
        "Run a workload under Settings, profile some steps, and keep all that it leaves.",
        examples=(
            "counterpoint run -- python train.py",
            "counterpoint run --profile-start-step 5 --profile-steps 10 -- python train.py",
            "counterpoint run --set xla_gpu_autotune_level=4 --env NCCL_DEBUG=INFO -- ./train.sh",
            "counterpoint run --ranks 2 -o both -- python train.py",
            "srun --ntasks-per-node=8 counterpoint run -- python train.py",
        ),
    ),
    Command(
        "runs",
        "counterpoint.cli.runs:runs",
        "List runs: how they ended, what a step took, whether there is a profile.",
        examples=("counterpoint runs", "counterpoint runs experiments --json"),
    ),
    Command(
        "predict",
        "counterpoint.cli.predict:predict",
        "Say what a step takes on hardware that is not here: real compiler, simulated devices.",
        examples=(
            "counterpoint predict --target 64x8xH100:400G -- python train.py",
            "counterpoint predict ir --target 8xH100 --candidate pgle-recommended",
            "counterpoint predict step.py:make_step --target 512x8xB200 --json",
            "counterpoint predict runs/train --target 8xH100 --against runs/train",
            "counterpoint predict ir --target 8x8xH100 --what-if nic=2x,hbm=1.5x --pgle",
        ),
    ),
    Command(
        "tune",
        "counterpoint.cli.tune:tune",
        "Find settings that are really faster: predicted first, then measured, never noise.",
        examples=(
            "counterpoint tune --target 8xH100 --confirm 4 --budget 2h -- python train.py",
            "counterpoint tune --predict step.py:make_step --target 64x8xH100:400G -o studies/64",
            "counterpoint tune --arm fsdp --arm 'NCCL_NVLS_ENABLE=0' -- python train.py",
            "counterpoint tune --target 8xH100 --dry-run -- python train.py",
            "counterpoint tune show counterpoint-studies/20261122-101500-train",
        ),
    ),
    Command(
        "tune show",
        "counterpoint.cli.tune_show:show",
        "Say what a study found, write its settings for your launcher, bundle its evidence.",
        examples=(
            "counterpoint tune show studies/64",
            "counterpoint tune show studies/64 --as slurm -o job.sbatch",
            "counterpoint tune show studies/64 --bundle evidence.tar.gz",
            "counterpoint tune show studies/64 --json | jq .sentence",
        ),
    ),
    Command(
        "doctor",
        "counterpoint.cli.doctor:doctor",
        "Check before a run: versions, flags, profiler, cache, network, clocks, limits, GPUs.",
        examples=(
            "counterpoint doctor",
            "counterpoint doctor --only nccl-interfaces,DOC5",
            "srun --ntasks-per-node=1 counterpoint doctor --cluster",
            "mpirun --map-by ppr:1:node counterpoint doctor --cluster --json",
        ),
    ),
    Command(
        "calibrate",
        "counterpoint.cli.calibrate:calibrate",
        "Fit the few numbers of the cost model to what was measured on your GPUs.",
        examples=(
            "counterpoint calibrate runs/train --target 8xH100 -o h100.toml",
            "counterpoint predict ir --target 64x8xH100 --calibration h100.toml",
        ),
    ),
    Command(
        "flags check",
        "counterpoint.cli.flags_check:check",
        "Check settings: what XLA would end at, what does nothing, what to write instead.",
        examples=(
            "counterpoint flags check job.sh",
            "counterpoint flags check '--xla_gpu_graph_level=0' --jaxlib 0.12.0.1 --target 8xH100",
            "counterpoint flags check --env",
            "counterpoint flags check -- XLA_FLAGS=--xla_... python train.py",
            "counterpoint flags check job.sh --fix -o job.fixed.sh",
        ),
    ),
    Command(
        "explain-code",
        "counterpoint.cli.explain_code:explain_code",
        "Say what a code of a finding stands for, and how to mend it.",
        examples=(
            "counterpoint explain-code STEP101",
            "counterpoint explain-code FLAG102",
            "counterpoint explain-code",
        ),
    ),
    Command(
        "pgle make",
        "counterpoint.cli.pgle_make:make",
        "Make a profile for XLA's scheduler from what was recorded on GPUs.",
        examples=(
            "counterpoint pgle make runs/tuned -o step.pbtxt",
            "counterpoint pgle make rank*.zip -o profiles/",
            "counterpoint pgle make trace.xplane.pb -o step.pb --module jit_train_step",
        ),
    ),
    Command(
        "pgle show",
        "counterpoint.cli.pgle_show:show",
        "Show what a profile holds: modules, the largest costs, duplicates.",
        examples=("counterpoint pgle show step.pbtxt", "counterpoint pgle show profiles/ --top 30"),
    ),
    Command(
        "pgle merge",
        "counterpoint.cli.pgle_merge:merge",
        "Merge profiles of several hosts, runs or modules into one.",
        examples=(
            "counterpoint pgle merge run1.pbtxt run2.pbtxt run3.pbtxt -o step.pbtxt",
            "counterpoint pgle merge train.pbtxt eval.pbtxt -o profiles/",
        ),
    ),
    Command(
        "pgle diff",
        "counterpoint.cli.pgle_diff:diff",
        "Compare two profiles, the largest change first.",
        examples=("counterpoint pgle diff before.pbtxt after.pbtxt",),
    ),
    Command(
        "pgle check",
        "counterpoint.cli.pgle_check:check",
        "Say how much of a program a profile covers, and whether it was made of it.",
        examples=(
            "counterpoint pgle check step.pbtxt --program xla_dump",
            "counterpoint pgle check step.pbtxt --program runs/train --min-time 0.95",
            "counterpoint pgle check profiles --program trace.xplane.pb --module jit_step --json",
        ),
    ),
    Command(
        "pgle apply",
        "counterpoint.cli.pgle_apply:apply",
        "Compile with a profile, without a GPU: proof that XLA used it, and what it moved.",
        examples=(
            "counterpoint pgle apply step.pbtxt --program ir --target 8xH100",
            "counterpoint pgle apply step.pbtxt --program runs/train --target 8x8xH100",
            "counterpoint pgle apply step.pb --program step.mlir --target 8xH100 --json",
        ),
    ),
    Command(
        "pgle auto",
        "counterpoint.cli.pgle_auto:auto",
        "Let JAX measure the first calls, and compile anew with that (AutoPGLE).",
        examples=(
            "counterpoint pgle auto -- python train.py",
            "counterpoint pgle auto --nsys -o tuned -- python train.py",
            "counterpoint pgle auto --print-only -- python train.py",
        ),
    ),
    Command(
        "pgle manual",
        "counterpoint.cli.pgle_manual:manual",
        "Profile a run, give the compiler what it cost, prove that it was used, and compare.",
        examples=(
            "counterpoint pgle manual --profile-start-step 5 -- python train.py",
            "counterpoint pgle manual --repeats 3 -o tuned -- python train.py",
            "counterpoint pgle manual --profile step.pbtxt -- python train.py",
            "counterpoint pgle manual --print-only -- python train.py",
        ),
    ),
    Command(
        "pgle nsys",
        "counterpoint.cli.pgle_nsys:nsys",
        "The same, measured by Nsight Systems or from an export of it.",
        examples=(
            "counterpoint pgle nsys -- python train.py",
            "counterpoint pgle nsys --from rank*.zip -- python train.py",
        ),
    ),
    Command(
        "flags show",
        "counterpoint.cli.flags_show:show",
        "Say what one setting does, what it trades, who takes it, and what became of it.",
        examples=(
            "counterpoint flags show xla_gpu_enable_latency_hiding_scheduler",
            "counterpoint flags show --xla_gpu_all_gather_combine_threshold_bytes=256",
            "counterpoint flags show NCCL_NVLS_ENABLE --jaxlib 0.6.2 --json",
        ),
    ),
    Command(
        "flags list",
        "counterpoint.cli.flags_list:list_flags",
        "List the flags of a jaxlib with their types, defaults and what changed.",
        examples=(
            "counterpoint flags list --grep combine",
            "counterpoint flags list --changed-since 0.8.3",
            "counterpoint flags list --jaxlib 0.6.2 --all --json",
        ),
    ),
    Command(
        "flags diff",
        "counterpoint.cli.flags_diff:diff",
        "Say what changed from one jaxlib to another.",
        examples=("counterpoint flags diff 0.6.2 0.10.2", "counterpoint flags diff 0.8.3 --json"),
    ),
    Command(
        "flags effective",
        "counterpoint.cli.flags_effective:effective",
        "Say what the compiler really used, against what was asked.",
        examples=(
            "counterpoint flags effective runs/train",
            "counterpoint flags effective xla_dump --asked job.sh --module jit_train_step",
            "counterpoint flags effective runs/train --json",
        ),
    ),
    Command(
        "flags render",
        "counterpoint.cli.flags_render:render_flags",
        "Write settings as env file, shell, Python, Slurm job, manifest or compiler options.",
        examples=(
            "counterpoint flags render job.sh --as k8s",
            "counterpoint flags render pgle-recommended mine.sh --as python -o settings.py",
            "counterpoint flags render job.sh --as compiler_options --jaxlib 0.10.2",
            "counterpoint flags render old.sh --diff new.yaml",
        ),
    ),
    Command(
        "flags recommend",
        "counterpoint.cli.flags_recommend:recommend",
        "Recommend settings: those that exist in the release, aren't its default, and can matter.",
        examples=(
            "counterpoint flags recommend --for fsdp --target 8xH100",
            "counterpoint flags recommend --for fsdp,tp --target 4x8xH100 --program xla_dump",
            "counterpoint flags recommend --for pp --target 8xB200 --jaxlib 0.12.0 --as bash",
            "counterpoint flags recommend --for dp --goal memory --json",
        ),
    ),
    Command(
        "flags thresholds",
        "counterpoint.cli.flags_thresholds:thresholds",
        "Say at which thresholds XLA merges which collectives, and which are worth a try.",
        examples=(
            "counterpoint flags thresholds --program xla_dump",
            "counterpoint flags thresholds --program runs/train --json",
            "counterpoint flags thresholds --params 218e6 --dtype bf16 --layers 32",
        ),
    ),
    Command(
        "flags refresh",
        "counterpoint.cli.flags_refresh:refresh",
        "Learn the flags of an installed jaxlib from itself.",
        examples=(
            "counterpoint flags refresh",
            "counterpoint flags refresh --python .venv/bin/python",
            "counterpoint flags refresh --plugin xla_cuda_plugin.so",
        ),
    ),
)


def main(arguments: Sequence[str] | None = None, commands: Iterable[Command] = COMMANDS) -> int:
    """Run one command line and return its exit code."""
    with ends_tidily():
        return _run(arguments, commands)


def _run(arguments: Sequence[str] | None, commands: Iterable[Command]) -> int:
    try:
        words = sys.argv[1:] if arguments is None else arguments
        command = quick(words) or _parse(words, commands)
        if "polars" in sys.modules:
            _let_interrupts_through()
        code = command()
        sys.stdout.flush()  # here a reader that has gone is noticed, not at exit
    except CounterpointError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except Ended as order:
        print(f"ended by {order.name}", file=sys.stderr)
        return order.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        if not _reader_has_gone():
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE
    except OSError as failure:
        if failure.filename is not None or failure.errno not in _UNWRITABLE:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing to flush at exit
        print(f"error: can't write the result: {failure.strerror}", file=sys.stderr)
        return CounterpointError.exit_code
    return code or 0


def _reader_has_gone() -> bool:
    """Whether nobody reads stdout or stderr any more; another pipe may have broken."""
    return any(_is_broken(stream) for stream in (sys.stdout, sys.stderr))


def _is_broken(stream: TextIO) -> bool:
    poll = select.poll()
    poll.register(stream.fileno(), 0)  # errors and hang-ups are told unasked
    return bool(poll.poll(0))


def _let_interrupts_through() -> None:
    """Let Ctrl-C end a call that waits, for a pipe say.

    polars, which is loaded by now, has such calls taken up again after a signal.
    """
    import signal
    import threading

    if threading.current_thread() is threading.main_thread():
        signal.siginterrupt(signal.SIGINT, True)


def _app(commands: Iterable[Command], called: str = "") -> App:
    """All commands; of those that are a group, too, only the called one is loaded."""
    from cyclopts import App, Parameter

    app = App(
        name="counterpoint",
        version=__version__,
        help="Find the communication a JAX training step waits for, and hide it.",
        help_format="plaintext",
        default_parameter=Parameter(negative=()),  # no --no-json beside --json
    )
    commands = tuple(commands)
    groups: dict[str, App] = {}
    for group in dict.fromkeys(it.name.partition(" ")[0] for it in commands if " " in it.name):
        itself = next((it for it in commands if it.name == group), None)
        groups[group] = App(
            name=group,
            help=itself.summary if itself else GROUPS[group],
            help_epilogue=_examples(itself) if itself else None,
            help_format="plaintext",
        )
        if itself is not None and group == called:
            groups[group].default(_load(itself))
    added: set[str] = set()
    for command in commands:
        group, _, name = command.name.rpartition(" ")
        first = group or name
        if first in groups and first not in added:
            app.command(groups[first])
            added.add(first)
        if group or name not in groups:
            (groups[group] if group else app).command(
                command.function, name=name, help=command.summary, help_epilogue=_examples(command)
            )
    return app


def _examples(command: Command) -> str | None:
    return "\n  ".join(("Examples:", *command.examples)) if command.examples else None


def _load(command: Command) -> Callable[..., int | None]:
    module, _, name = command.function.partition(":")
    function: Callable[..., int | None] = getattr(importlib.import_module(module), name)
    return function


def _parse(arguments: Sequence[str], commands: Iterable[Command]) -> Callable[[], int | None]:
    from cyclopts import CycloptsError

    try:
        command, bound, _ = _app(commands, next(iter(arguments), "")).parse_args(
            list(arguments), print_error=False, exit_on_error=False
        )
    except CycloptsError as error:
        place = " ".join(["counterpoint", *(error.command_chain or ())])
        raise UsageError(str(error), next=f"{place} --help") from error
    return partial(command, *bound.args, **bound.kwargs)
