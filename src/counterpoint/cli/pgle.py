"""`counterpoint pgle make`, `merge`, `diff`, `show`, `check` and `apply`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from counterpoint.cli.explain_fleet import each_product
from counterpoint.cli.options import (
    CompileTimeout,
    FleetOptions,
    Force,
    Json,
    OutputPath,
    Report,
    Top,
)
from counterpoint.cli.output import check_page
from counterpoint.cli.printing import (
    print_report,
    say_error,
    say_result,
    say_wrote,
    write_result,
)
from counterpoint.cli.profiles import (
    check_libtpu_output,
    manual,
    next_on_tpus,
    of_tpus,
    read_recordings,
    recorded_versions,
    refuse_over_input,
    require_libtpu,
    translation,
)
from counterpoint.cli.program_option import refuse_function
from counterpoint.cli.progress import Progress
from counterpoint.compile.inputs.workload import Workload, load_workload, own_target
from counterpoint.compile.task import TIMEOUT_S
from counterpoint.core import CounterpointError, InputError, UsageError
from counterpoint.core.bounds import check_number
from counterpoint.flags.lines.line import parse_settings
from counterpoint.flags.versions import PROFILE
from counterpoint.hardware.target import Target
from counterpoint.hardware.targets import parse_target, target_name
from counterpoint.pgle.applying.apply import AppliedProfile, apply_profile
from counterpoint.pgle.applying.subject import LocatedProgram, is_lowered, locate_program
from counterpoint.pgle.checking.check import check_profile
from counterpoint.pgle.checking.difference import diff_profiles
from counterpoint.pgle.checking.verdict import COVERAGE, judge
from counterpoint.pgle.making.make import make_profile
from counterpoint.pgle.making.merge import describe_merge, merge_profiles
from counterpoint.pgle.making.origin import count
from counterpoint.pgle.profiles.files import check_place, read_profile, write_profile
from counterpoint.pgle.profiles.profile import MEDIAN, Profile, check_percentile
from counterpoint.report.pgle.apply_document import pgle_apply_document
from counterpoint.report.pgle.check_document import diff_document, pgle_check_document
from counterpoint.report.pgle.pgle_json import (
    diff_json,
    made_json,
    pgle_apply_json,
    pgle_check_json,
    profile_json,
)
from counterpoint.report.pgle.profile_document import made_document, profile_document
from counterpoint.runs.timeline import profile_paths
from counterpoint.workflow.forecast.options import check_timeout


def make(  # noqa: PLR0913 - the options of the command
    *recordings: Annotated[str, Parameter(name="PROFILE...")],
    out: Annotated[str, Parameter(name=["--out", "-o"])],
    percentile: float = MEDIAN,
    module: str | None = None,
    bare: bool = False,
    keep_warmup: bool = False,
    fleet: FleetOptions = FleetOptions(),
    force: Force = False,
    json: bool = False,
) -> None:
    """Make a profile for XLA's scheduler from recordings of GPUs or TPUs.

    Args:
        recordings: A Run, or any input of `explain`; several are the hosts of one run.
        out: The output: .pbtxt, .pb, or a directory of one file per module.
        percentile: The percentile of an instruction's times that is its cost; 50 is the median.
        module: Only this module: its name, the first digits of its fingerprint, or '#' and its
            number.
        bare: Omit fingerprints from names, for a compile whose flags change the fingerprint.
        keep_warmup: Include the first runs.
        json: Print the result as JSON.
    """
    check_percentile(percentile)
    if not recordings:
        raise UsageError(
            "no recording was given", next="counterpoint pgle make PROFILE -o step.pbtxt"
        )
    check_place(out, overwrite=force)
    options: dict[str, Any] = {
        "percentile": percentile,
        "keep_warmup": keep_warmup,
        "module": module,
        "bare": bare,
        "about": recorded_versions(recordings),
    }
    executor = fleet.chosen()
    if executor is None:
        timeline = read_recordings(recordings, "making the profile")
        sources = (host.source for host in timeline.hosts)
        refuse_over_input(out, (*timeline.inputs, *sources))
        built = make_profile(timeline, **options)
    else:
        from counterpoint.fleet.products import merge_costs
        from counterpoint.fleet.tasks import Order

        order = Order(kind="costs", options=options)
        paths = [*map(str, profile_paths(recordings))]
        made, told = each_product(paths, executor, order, strict=fleet.strict)
        refuse_over_input(out, made)
        built = merge_costs(made, (*told.left_out, *told.notes), strict=fleet.strict)
    write_profile(built.profile, out, overwrite=force)
    next_line = _next_of_make(built.profile, out, recordings[0])
    if json:
        write_result(made_json(built, out, next_line))
    else:
        print_report(made_document(built, out, next_line))


def _next_of_make(profile: Profile, out: str, recording: str) -> str:
    """Return the check; libtpu's names are known only where it compiles the program."""
    if of_tpus(profile):
        return translation(out, profile, Path(recording))
    return shlex.join(["counterpoint", "pgle", "check", out, "--program", recording])


def merge(
    *profiles: Annotated[Path, Parameter(name="FILE...")],
    out: Annotated[str, Parameter(name=["--out", "-o"])],
    percentile: float = MEDIAN,
    force: Force = False,
) -> None:
    """Merge profiles of several hosts, runs or modules into one.

    Args:
        profiles: .pbtxt or .pb files, or directories of <fingerprint>.pbtxt.
        out: The output: .pbtxt, .pb, or a directory of one file per module.
        percentile: The percentile of the costs of one key; 50 is the median.
    """
    check_percentile(percentile)
    if not profiles:
        raise UsageError("no profile was given", next="counterpoint pgle merge A B -o OUT.pbtxt")
    refuse_over_input(out, map(str, profiles))
    check_place(out, overwrite=force)
    read = [read_profile(path) for path in profiles]
    merged = merge_profiles(read, percentile, [*map(str, profiles)])
    write_profile(merged, out, overwrite=force)
    say_result(
        f"{out}: {merged.origin['statistic']}; {_size(len(merged.costs), merged.fingerprints)}"
    )
    say_result(describe_merge(read))
    say_result(f"next: {shlex.join(['counterpoint', 'pgle', 'show', out])}")


def _size(costs: int, fingerprints: tuple[str, ...]) -> str:
    scope = f"of {count(len(fingerprints), 'module')}" if fingerprints else "with bare names"
    return f"{count(costs, 'cost')} {scope}"


def diff(
    a: Path,
    b: Path,
    *,
    top: Top = 10,
    json: Json = False,
) -> None:
    """Compare two profiles, the largest change first.

    Args:
        a: The first profile.
        b: The second.
    """
    check_number("--top", top, 1)
    found = diff_profiles(read_profile(a), read_profile(b))
    if json:
        write_result(diff_json(found, str(a), str(b)))
    else:
        print_report(diff_document(found, str(a), str(b), top))


def show(
    profile: Path,
    *,
    top: Top = 10,
    json: Json = False,
) -> None:
    """Show the contents of a profile: modules, the largest costs, duplicates.

    Args:
        profile: A .pbtxt or .pb file, or a directory of <fingerprint>.pbtxt.
    """
    check_number("--top", top, 1)
    found = read_profile(profile)
    if json:
        write_result(profile_json(found, str(profile)))
    else:
        print_report(profile_document(found, str(profile), top))


def check(  # noqa: PLR0913 - the options of the command
    profile: Path | None = None,
    *,
    program: Path | None = None,
    log: Annotated[Path | None, Parameter(allow_leading_hyphen=True)] = None,
    module: str | None = None,
    min_coverage: float = COVERAGE,
    min_time: float | None = None,
    top: Top = 10,
    json: Json = False,
) -> int:
    """Check how much of a program a profile covers, and whether it was made from it.

    Exit code 1 if it covers too little or belongs to another program. With `--log` alone: what a
    log proves of a profile; exit code 1 unless it proves that XLA used one.

    Args:
        profile: The profile: .pbtxt, .pb, or a directory of <fingerprint>.pbtxt.
        program: An HLO file after optimization, a directory of XLA dumps, a Run (or one of its
            ranks), or a profile that embeds its HLO (the last two have times).
        log: The output of a run whose compiler was given a profile (`-` reads stdin), or a Run.
        module: Check against this module; by default the step's, or the one with the most FLOPs.
        min_coverage: Minimum share of instructions, and of collectives, with a cost.
        min_time: Minimum share of measured device time with a cost; 0.9 if times are known.
    """
    if log is not None:
        if profile is not None or program is not None:
            raise UsageError(
                "--log is checked alone, without a profile or a program",
                next=shlex.join(["counterpoint", "pgle", "check", "--log", str(log)]),
            )
        if str(log).startswith("--"):
            raise UsageError("--log needs a value", next="counterpoint pgle check --help")
        from counterpoint.cli.pgle_log import check_log

        return check_log(log, as_json=json)
    if profile is None or program is None:
        given = "--program" if profile is not None else "PROFILE"
        raise UsageError(
            f"no {given} was given",
            why="a profile is checked against a program; `--log` checks a log instead",
            next="counterpoint pgle check step.pbtxt --program xla_dump",
        )
    _check_share("--min-coverage", min_coverage)
    _check_share("--min-time", min_time)
    check_number("--top", top, 1)
    refuse_function(program, scheduled=True)
    costs = read_profile(profile)
    _require_scheduled(profile, program)
    with Progress("reading") as progress:
        progress.say(f"reading {program.name}")
        subject = locate_program(program, module)
    _require_gpu(profile, costs, program, subject)
    coverage = check_profile(costs, subject.program, subject.measured, subject.circumstances)
    judgment = judge(
        coverage, min_coverage, min_time, recording=str(program) if subject.recorded else None
    )
    next_step = judgment.next or _use(profile, program, subject)
    if json:
        text = pgle_check_json(
            coverage, judgment, str(profile), subject.where, next_step, subject.others
        )
        write_result(text)
    else:
        document = pgle_check_document(
            coverage, judgment, str(profile), subject.where, top, next_step, subject.others
        )
        print_report(document)
    return 0 if judgment.passed else 1


def _check_share(option: str, share: float | None) -> None:
    if share is not None and not 0 <= share <= 1:
        raise UsageError(
            f"{option} takes a share from 0 to 1, not {share:g}",
            next=f"use {option} 0.9",
        )


def _require_scheduled(profile: Path, program: Path) -> None:
    if program.exists() and is_lowered(program):
        raise InputError(
            f"{program} is StableHLO, which is not scheduled yet, so its instructions have no"
            " final names",
            why="check needs XLA's output: HLO after optimization (.hlo.pb or text), a"
            " directory of XLA's dumps, a Run, or a profile that embeds its HLO",
            next=_apply(profile, program, None),
        )


def _require_gpu(profile: Path, costs: Profile, program: Path, subject: LocatedProgram) -> None:
    """Refuse programs for other platforms: their names do not match those of a GPU program."""
    if subject.platform == "tpu":
        raise InputError(
            f"{subject.where}: {subject.program.name} was compiled for TPUs, whose compiler looks"
            " up names that its program no longer has",
            why="libtpu fuses collectives and numbers them anew after it has scheduled them",
            next=translation(str(profile), costs, program),
        )
    if subject.platform != "cpu":
        return
    raise InputError(
        f"{subject.where}: {subject.program.name} was compiled for CPU, whose compiler uses"
        " no costs",
        why="its instruction names differ from those of a program compiled for GPUs",
        next=_apply(profile, program, subject) or "pass a dump, a Run or a profile of GPUs",
    )


def _use(profile: Path, program: Path, subject: LocatedProgram) -> str:
    """Return the next command: show what the profile moves if it can be compiled, else run."""
    return _apply(profile, program, subject) or manual(str(profile), program)


def _apply(profile: Path, program: Path, subject: LocatedProgram | None) -> str | None:
    """Return the command that compiles the program with the profile, or None without its input."""
    if subject is not None and program.is_file() and program.suffix != ".zip":
        return None
    words = ["counterpoint", "pgle", "apply", str(profile), "--program", str(program)]
    module = subject.program.name if subject is not None and subject.module_named else None
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


_EXAMPLE = "use --target 8xH100"


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class ApplyOptions:
    """The devices a program is compiled for, flags, and what is written.

    Args:
        target: The devices: 8xH100, 8x8xH100 for 8 hosts, v5e-256; by default those of the dump.
        module: The step's module; by default the one with the most FLOPs.
        set_: A flag for both compiles: xla_gpu_...=value.
        env: A variable of both: NAME=value.
        out: For TPUs: write the profile in the names that libtpu looks up (.pb).
    """

    target: str | None = None
    module: str | None = None
    set_: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    timeout_s: CompileTimeout = TIMEOUT_S
    out: OutputPath = None


def apply(
    profile: Path,
    *,
    program: Path,
    chosen: ApplyOptions = ApplyOptions(),
    top: int = 10,
    json: Json = False,
    html: Report = None,
    force: Force = False,
) -> int:
    """Compile a program without and with a profile, and prove that XLA used it.

    Needs no GPU or TPU: XLA and libtpu compile for absent devices. Exit code 1
    if use of the profile is not proved, or if it belongs to another program.

    Args:
        profile: The profile: .pbtxt, .pb, or a directory of <fingerprint>.pbtxt.
        program: The program: StableHLO (.mlir, .mlir.gz), a directory of JAX_DUMP_IR_TO or
            --xla_dump_to, a Run, or an nsys-jax bundle.
        top: Rows in the table of moved collectives.
    """
    check_number("--top", top, 1)
    check_page(html, force=force)
    out = chosen.out
    check_libtpu_output(out, profile, force=force)
    check_timeout(chosen.timeout_s)
    devices = parse_target(chosen.target, tpus=True).devices if chosen.target else 8
    refuse_function(program, scheduled=False, devices=devices)
    settings = parse_settings(chosen.set_, chosen.env)
    _refuse_profile(settings.flags)
    with Progress("reading the program") as progress:
        workload = load_workload(program, chosen.module)
        target = _target(workload, chosen.target)
        require_libtpu(target, out)
        given = (settings.flags, settings.variables, progress.say, chosen.timeout_s)
        applied = apply_profile(workload, target, profile, *given)
    if out is not None and applied.for_libtpu is not None:
        if applied.fits:
            say_wrote(write_profile(applied.for_libtpu, out, overwrite=force))
        else:
            say_error(f"{out} was not written, because the profile does not serve this program")
    next_line = _next_of_apply(applied, program, chosen)
    if html is not None:
        _write_page(applied, top, next_line, html)
    if html is None or json:
        _print_apply(applied, top, as_json=json, next=next_line)
    return 0 if applied.fits else 1


def _refuse_profile(flags: Mapping[str, str]) -> None:
    if PROFILE in flags:
        raise UsageError(
            f"--set {PROFILE}: pass the profile as the argument instead",
            next=f"counterpoint pgle apply {shlex.quote(flags[PROFILE])} --program PROGRAM",
        )


def _target(workload: Workload, text: str | None) -> Target:
    if text is not None:
        return parse_target(text, tpus=True)
    found = own_target(workload)
    if found is None:
        raise UsageError(
            f"--target is missing, and {workload.origin} does not state its devices",
            why="8xH100 are eight GPUs, v5e-8 eight TPUs",
            next=_EXAMPLE,
        )
    return found


def _next_of_apply(applied: AppliedProfile, program: Path, chosen: ApplyOptions) -> str:
    profile = str(applied.path)
    if applied.target.tpu is not None and applied.fits:
        return next_on_tpus(applied, program, chosen.out, chosen.env)
    if applied.fits:
        return manual(profile, program)
    return shlex.join(["counterpoint", "pgle", "show", profile]) + "   # what it was made from"


def _print_apply(applied: AppliedProfile, top: int, *, as_json: bool, next: str) -> None:
    if as_json:
        write_result(pgle_apply_json(applied, next))
    else:
        print_report(pgle_apply_document(applied, top, next))


def _write_page(applied: AppliedProfile, top: int, next: str, path: Path) -> None:
    from counterpoint.cli.pages import page_of, write_page

    documents = {"pgle apply": pgle_apply_document(applied, top, next)}
    results = {"pgle apply": pgle_apply_json(applied, next)}
    write_page(page_of(applied.path.name, documents, results), path)
