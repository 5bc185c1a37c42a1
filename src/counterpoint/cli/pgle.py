"""`counterpoint pgle make`, `merge`, `diff`, `show` and `check`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from counterpoint.cli.output import WholeNumber
from counterpoint.cli.profiles import manual, read_recordings, recorded_versions, refuse_over_input
from counterpoint.cli.program_option import refuse_function
from counterpoint.cli.progress import Progress
from counterpoint.compile.inputs import load_workload, own_target
from counterpoint.core import CounterpointError, InputError, UsageError
from counterpoint.hardware.targets import target_name
from counterpoint.pgle.applying import LocatedProgram, is_lowered, locate_program
from counterpoint.pgle.checking import (
    COVERAGE,
    Coverage,
    CoverageVerdict,
    check_profile,
    diff_profiles,
    judge,
)
from counterpoint.pgle.making import count, describe_merge, make_profile, merge_profiles
from counterpoint.pgle.profiles import (
    MEDIAN,
    check_percentile,
    check_place,
    read_profile,
    write_profile,
)
from counterpoint.report import print_document, printable
from counterpoint.report.pgle import (
    diff_document,
    diff_json,
    made_document,
    made_json,
    pgle_check_document,
    pgle_check_json,
    profile_document,
    profile_json,
)

Switch = Annotated[bool, Parameter(show_default=False)]


def make(
    *recordings: Annotated[str, Parameter(name="PROFILE...")],
    out: Annotated[str, Parameter(name=["--out", "-o"])],
    percentile: float = MEDIAN,
    module: str | None = None,
    bare: Switch = False,
    keep_warmup: Switch = False,
    force: Switch = False,
    json: Switch = False,
) -> None:
    """Make a profile for XLA's scheduler from what was recorded on GPUs.

    Args:
        recordings: A Run, or what `explain` takes; several are the hosts of one run.
        out: Where to write: .pbtxt, .pb, or a directory of one file per module.
        percentile: Which of an instruction's times is its cost; 50 is the median.
        module: This module alone: its name, the first digits of its fingerprint, or '#' and its
            number.
        bare: Leave the fingerprint out of the names: for a compile whose flags change it.
        keep_warmup: Count the first runs, too.
        force: Overwrite what is there.
        json: Print what was made as JSON.
    """
    check_percentile(percentile)
    if not recordings:
        raise UsageError(
            "no recording was named", next="counterpoint pgle make PROFILE -o step.pbtxt"
        )
    check_place(out, overwrite=force)
    timeline = read_recordings(recordings, "making the profile")
    refuse_over_input(out, timeline)
    built = make_profile(
        timeline,
        percentile,
        keep_warmup=keep_warmup,
        module=module,
        bare=bare,
        about=recorded_versions(recordings),
    )
    write_profile(built.profile, out, overwrite=force)
    check = ["counterpoint", "pgle", "check", out, "--program", recordings[0]]
    if json:
        sys.stdout.write(made_json(built, out, shlex.join(check)))
    else:
        print_document(made_document(built, out, shlex.join(check)), sys.stdout)


def merge(
    *profiles: Annotated[Path, Parameter(name="FILE...")],
    out: Annotated[str, Parameter(name=["--out", "-o"])],
    percentile: float = MEDIAN,
    force: Annotated[bool, Parameter(show_default=False)] = False,
) -> None:
    """Merge profiles of several hosts, runs or modules into one.

    Args:
        profiles: .pbtxt or .pb files, or directories of <fingerprint>.pbtxt.
        out: Where to write: .pbtxt, .pb, or a directory of one file per module.
        percentile: Which of the costs that profiles give one key is taken; 50 is the median.
        force: Overwrite what is there.
    """
    check_percentile(percentile)
    if not profiles:
        raise UsageError("no profile was named", next="counterpoint pgle merge A B -o OUT.pbtxt")
    check_place(out, overwrite=force)
    read = [read_profile(path) for path in profiles]
    merged = merge_profiles(read, percentile, [*map(str, profiles)])
    write_profile(merged, out, overwrite=force)
    print(f"{out}: {merged.origin['statistic']}; {_size(len(merged.costs), merged.fingerprints)}")
    print(printable(describe_merge(read)))
    print(f"next: {shlex.join(['counterpoint', 'pgle', 'show', out])}")


def _size(costs: int, fingerprints: tuple[str, ...]) -> str:
    scope = f"of {count(len(fingerprints), 'module')}" if fingerprints else "with bare names"
    return f"{count(costs, 'cost')} {scope}"


def diff(
    a: Path,
    b: Path,
    *,
    top: WholeNumber = 10,
    json: Annotated[bool, Parameter(show_default=False)] = False,
) -> None:
    """Compare two profiles, the largest change first.

    Args:
        a: The first profile.
        b: The second.
        top: Rows in each table.
        json: Print everything as JSON, uncut.
    """
    if top < 1:
        raise UsageError(f"--top takes a number from 1 on, not {top}")
    found = diff_profiles(read_profile(a), read_profile(b))
    if json:
        sys.stdout.write(diff_json(found, str(a), str(b)))
    else:
        print_document(diff_document(found, str(a), str(b), top), sys.stdout)


def show(
    profile: Path,
    *,
    top: WholeNumber = 10,
    json: Annotated[bool, Parameter(show_default=False)] = False,
) -> None:
    """Show what a profile holds: modules, the largest costs, duplicates.

    Args:
        profile: A .pbtxt or .pb file, or a directory of <fingerprint>.pbtxt.
        top: Rows in each table.
        json: Print everything as JSON, uncut.
    """
    if top < 1:
        raise UsageError(f"--top takes a number from 1 on, not {top}")
    found = read_profile(profile)
    if json:
        sys.stdout.write(profile_json(found, str(profile)))
    else:
        print_document(profile_document(found, str(profile), top), sys.stdout)


def check(
    profile: Path,
    *,
    program: Path,
    module: str | None = None,
    min_coverage: float = COVERAGE,
    min_time: float | None = None,
    top: WholeNumber = 10,
    json: Annotated[bool, Parameter(show_default=False)] = False,
) -> int:
    """Say how much of a program a profile covers, and whether it was made of it.

    Exit code 1 where it covers too little, or is of another program.

    Args:
        profile: The profile: .pbtxt, .pb, or a directory of <fingerprint>.pbtxt.
        program: An HLO file after optimisation, a directory of XLA dumps, a Run (or one of its
            ranks), or a profile that embeds its HLO (the last two tell times).
        module: Check against this module; else the step's, or the one with the most FLOPs.
        min_coverage: Least share of instructions, and of collectives, with a cost.
        min_time: Least share of measured device time with a cost; 0.9 where times are known.
        top: Rows in each table.
        json: Print everything as JSON, uncut.
    """
    _check_share("--min-coverage", min_coverage)
    _check_share("--min-time", min_time)
    if top < 1:
        raise UsageError(f"--top takes a number from 1 on, not {top}")
    refuse_function(program, scheduled=True)
    costs = read_profile(profile)
    _require_scheduled(profile, program)
    with Progress("reading") as progress:
        progress.say(f"reading {program.name}")
        subject = locate_program(program, module)
    _require_gpu(profile, program, subject)
    coverage = check_profile(costs, subject.program, subject.measured, subject.circumstances)
    judgement = judge(
        coverage, min_coverage, min_time, recording=str(program) if subject.recorded else None
    )
    _print(profile, subject, coverage, judgement, (program, top, json))
    return 0 if judgement.passed else 1


def _check_share(option: str, share: float | None) -> None:
    if share is not None and not 0 <= share <= 1:
        raise UsageError(f"{option} takes a share from 0 to 1, not {share:g}", next=f"{option} 0.9")


def _require_scheduled(profile: Path, program: Path) -> None:
    if program.exists() and is_lowered(program):
        raise InputError(
            f"{program} is StableHLO, which is not scheduled yet: its instructions have no names",
            why="check takes what XLA made of it: HLO after optimisation (.hlo.pb or text), a"
            " directory of XLA's dumps, a Run, or a profile that embeds its HLO",
            next=_apply(profile, program, None),
        )


def _require_gpu(profile: Path, program: Path, subject: LocatedProgram) -> None:
    """Refuse programs for other platforms: their names do not match those of a GPU program."""
    if subject.platform not in ("cpu", "tpu"):
        return
    where = subject.platform.upper()
    raise InputError(
        f"{subject.where}: {subject.program.name} was compiled for {where}, whose compiler takes"
        " no costs",
        why="its instructions have other names than those of a program compiled for GPUs",
        next=_apply(profile, program, subject) or "pass a dump, a Run or a profile of GPUs",
    )


def _print(
    profile: Path,
    subject: LocatedProgram,
    coverage: Coverage,
    judgement: CoverageVerdict,
    shown: tuple[Path, int, bool],
) -> None:
    program, top, as_json = shown
    next_step = judgement.next or _use(profile, program, subject)
    if as_json:
        text = pgle_check_json(
            coverage, judgement, str(profile), subject.where, next_step, subject.others
        )
        sys.stdout.write(text)
        return
    print_document(
        pgle_check_document(
            coverage, judgement, str(profile), subject.where, top, next_step, subject.others
        ),
        sys.stdout,
    )


def _use(profile: Path, program: Path, subject: LocatedProgram) -> str:
    """Return the next command: show what the profile moves if it can be compiled, else run."""
    return _apply(profile, program, subject) or manual(str(profile), program)


def _apply(profile: Path, program: Path, subject: LocatedProgram | None) -> str | None:
    """Return the command that compiles the program with the profile, or None without its input."""
    if subject is not None and program.is_file() and program.suffix != ".zip":
        return None
    words = ["counterpoint", "pgle", "apply", str(profile), "--program", str(program)]
    module = subject.program.name if subject is not None and subject.asked else None
    words += ["--module", module] if module else []
    try:
        workload = load_workload(program, module)
    except CounterpointError:
        return None
    try:
        if own_target(workload) is not None:
            return shlex.join(words)
    except UsageError:
        pass  # described, but not as a GPU that XLA's CUDA compiler supports
    compiled = subject.program if subject is not None else None
    devices = compiled.num_partitions * compiled.num_replicas if compiled else workload.devices
    return shlex.join([*words, "--target", target_name("H100", devices)])
