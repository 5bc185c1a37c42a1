"""`counterpoint flags recommend`, `thresholds` and `render`."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import Parameter

from counterpoint.cli.options import Force, Jaxlib, Json, OutputPath, flat
from counterpoint.cli.output import check_output, write_output
from counterpoint.cli.printing import print_report, say_line, say_wrote, write_file, write_result
from counterpoint.cli.progress import Progress
from counterpoint.cli.settings_source import SettingsContext, check_version, read_source
from counterpoint.core import InputError, UsageError
from counterpoint.core.arguments import given_words
from counterpoint.core.bounds import check_number
from counterpoint.flags.forms import SettingsForm, render
from counterpoint.flags.jaxlib import chosen_release
from counterpoint.flags.parsed import ParsedSource
from counterpoint.flags.settings import Channel, Settings, difference
from counterpoint.report.flags.settings_document import (
    difference_document,
    unread_lines,
    unwritten_lines,
)
from counterpoint.report.flags.settings_json import difference_json, render_json

if TYPE_CHECKING:
    from counterpoint.compile.inputs.workload import Workload
    from counterpoint.flags.recommendation import Recommendation, RecommendationRequest
    from counterpoint.hardware.target import Target


_LINE: Final = 120
"""Maximum characters of a command shown in full; longer settings go through a file."""
_NOT_COMPILED: Final = (
    "none: the flags were not compiled with this program. That needs the program before XLA's"
    " passes (a Run, or a dump with StableHLO), the target it is made for, and XLA's GPU compiler"
)
_KEPT: Final = "recommended.env"
FormName = Literal["env", "bash", "python", "slurm", "k8s", "compiler_options"]
_EXAMPLE: Final = "counterpoint flags render fsdp --as bash"


@flat
@dataclass(frozen=True)
class RecommendFor:
    """What settings are recommended for.

    Args:
        for_: The parallelism: fsdp, tp, pp, dp, ep, multislice (of TPUs); separate with commas.
        target: The devices: 8xH100, or 4x8xH100 for four hosts of eight; any chip by its name.
        program: The program: an HLO file, a directory of XLA dumps, a Run, a profile that embeds
            its HLO, or StableHLO. Settings that cannot affect it are omitted, and if it can be
            compiled for the target, each flag is compiled with it and the step predicted first.
        module: The module to use, if there are several.
        goal: speed, memory, debug or pgle.
    """

    for_: tuple[str, ...]
    target: str | None = None
    jaxlib: Jaxlib = None
    program: Path | None = None
    module: str | None = None
    goal: str = "speed"

    @property
    def workloads(self) -> tuple[str, ...]:
        words = (word.strip().lower() for text in self.for_ for word in text.split(","))
        return tuple(dict.fromkeys(word for word in words if word))


def recommend(
    *,
    asked: RecommendFor,
    no_predict: bool = False,
    as_: FormName | None = None,
    top: int = 12,
    json: Json = False,
) -> None:
    """Recommend settings: those that exist in the release, are not its default, and can matter.

    Args:
        no_predict: Don't compile the program with the settings.
        as_: Print only the settings in this form, with the reasons as comments.
        top: Maximum number of omitted settings to show.
    """
    from counterpoint.flags.recommendation import recommend as find_settings
    from counterpoint.report.recommend import (
        recommendation_document,
        recommendation_json,
        recommendation_text,
    )

    check_number("--top", top, 1)
    check_version(asked.jaxlib)
    if json and as_ is not None:
        raise UsageError("--json and --as cannot be combined")
    subject = None if no_predict else _compilable(asked)
    with Progress("recommending") as progress:
        situation = _situation(asked, subject, progress.say)
        found = find_settings(situation)
        if subject is not None:
            from counterpoint.workflow.recommended import with_predictions

            found = with_predictions(found, *subject, progress.say)
        elif asked.program is not None and not no_predict and not situation.on_tpu:
            found = replace(found, advice=(("prediction", _NOT_COMPILED), *found.advice))
    if as_ is not None:
        write_file(recommendation_text(found, as_))
    elif json:
        write_result(recommendation_json(found))
    else:
        same = given_words(replace(asked, for_=(",".join(asked.workloads),)))
        next_command = _next(found, ["counterpoint", "flags", "recommend", *same], asked)
        print_report(recommendation_document(found, top, next_command))


def _next(
    found: Recommendation,
    same: Sequence[str],
    asked: RecommendFor,
) -> str:
    """Return the command that predicts the effect of the settings, or prints them."""
    prediction = _check(found, asked)
    if prediction is None:
        return shlex.join([*same, "--as", "bash"])
    if len(prediction) <= _LINE:
        return prediction
    saved = f"{shlex.join([*same, '--as', 'env'])} > {_KEPT}"
    return f"{saved} && {_check(found, asked, candidate=_KEPT)}"


def _check(
    found: Recommendation,
    asked: RecommendFor,
    candidate: str | None = None,
) -> str | None:
    """Return the prediction that checks the settings, or None if it could show nothing.

    `candidate` is a file that holds them.
    """
    from counterpoint.flags.lines.line import write_line
    from counterpoint.flags.settings import Settings

    settings = Settings(found.settings.xla, found.settings.env)
    no_tpu_named = found.situation.on_tpu and asked.target is None
    if settings == Settings() or no_tpu_named or not _predicts(asked.target or "8xH100"):
        return None
    words = ["--target", asked.target or "8xH100", "--candidate", candidate or write_line(settings)]
    if asked.program is not None and _compiles(asked.program, asked.module):
        chosen = [] if asked.module is None else ["--program", asked.module]
        return shlex.join(["counterpoint", "predict", str(asked.program), *chosen, *words])
    return shlex.join(["counterpoint", "predict", *words, "--", "python", "train.py"])


def _predicts(target: str) -> bool:
    """Return whether `predict` knows this target."""
    from counterpoint.core import CounterpointError
    from counterpoint.hardware.targets import parse_target

    try:
        parse_target(target, tpus=True)
    except CounterpointError:
        return False
    return True


def _compiles(program: Path, module: str | None) -> bool:
    """Return whether the program is available in its form before XLA's passes."""
    from counterpoint.compile.inputs.workload import load_workload
    from counterpoint.core import CounterpointError

    try:
        load_workload(program, module)
    except CounterpointError:
        return False
    return True


def _compilable(asked: RecommendFor) -> tuple[Workload, Target] | None:
    """Return the program and the target if they can be compiled here, by that release."""
    from counterpoint.compile.inputs.workload import load_workload, own_target
    from counterpoint.compile.interpreter import require_compiler
    from counterpoint.core import CounterpointError
    from counterpoint.flags.jaxlib import installed_version
    from counterpoint.hardware.targets import parse_target

    if asked.program is None or (asked.jaxlib is not None and asked.jaxlib != installed_version()):
        return None
    try:
        workload = load_workload(asked.program, asked.module)
        where = parse_target(asked.target) if asked.target is not None else own_target(workload)
        require_compiler()
    except CounterpointError:
        return None
    if where is None or where.devices != workload.devices:
        return None
    return workload, where


def _situation(
    asked: RecommendFor,
    compiled: tuple[Workload, Target] | None,
    say: Callable[[str], None],
) -> RecommendationRequest:
    """Return the situation to recommend for, with facts from the program and this machine."""
    from counterpoint.cli.program_option import finished_program
    from counterpoint.flags.catalogue.lookup import release
    from counterpoint.flags.jaxlib import installed_version
    from counterpoint.flags.recommendation import RecommendationRequest, program_facts
    from counterpoint.hardware.targets import parse_devices
    from counterpoint.pgle.applying.subject import is_lowered

    where = parse_devices(asked.target) if asked.target is not None else None
    program = asked.program
    scheduled, recorded = None, None
    if program is not None and compiled is not None and is_lowered(program):
        from counterpoint.workflow.recommended import compiled_program

        scheduled = compiled_program(*compiled, say)
    elif program is not None:
        subject = finished_program(program, asked.module)
        scheduled, recorded = subject.program, subject.circumstances.get("jaxlib")
    if compiled is not None:
        recorded = installed_version()
    known = release(asked.jaxlib or recorded or installed_version())
    return RecommendationRequest(
        workloads=asked.workloads,
        goal=asked.goal,
        release=known,
        chip=where.chip if where is not None else None,
        hosts=where.hosts if where is not None else None,
        slices=where.slices if where is not None else None,
        chips_per_host=where.chips_per_host if where is not None else None,
        devices=where.count if where is not None else None,
        program=program_facts(scheduled, known.version) if scheduled is not None else None,
        where=shlex.quote(str(program)) if program is not None else None,
        compiled=compiled is not None,
        given=_given_in(program),
    )


def _given_in(program: Path | None) -> Mapping[str, str]:
    """Return the flags and variables of a Run; of other programs nothing is known."""
    from counterpoint.runs.layout import is_run
    from counterpoint.runs.reader import read_run
    from counterpoint.runs.reports import variables_of
    from counterpoint.workflow.feedback import flags_of

    if program is None or not program.is_dir() or not is_run(program):
        return {}
    run = read_run(program)
    return {**dict(run.settings.env), **variables_of(run), **flags_of(run)}


def thresholds(  # noqa: PLR0913 - the options of the command
    *,
    program: Path | None = None,
    module: str | None = None,
    params: str | None = None,
    total_params: str | None = None,
    dtype: str = "bf16",
    layers: int | None = None,
    target: str | None = None,
    jaxlib: str | None = None,
    top: int = 12,
    json: Json = False,
) -> None:
    """Show the combine thresholds at which the program changes, and which to try.

    Args:
        program: An HLO file after optimization, a directory of XLA dumps, a Run, or a profile
            that embeds its HLO.
        module: The module to use. Default: the step's, otherwise the one with the most FLOPs.
        params: Without a program: the number of weights of one layer, as 218e6, 218M or 0.218B.
        total_params: Instead of --params: the weights of all layers; requires --layers.
        dtype: The type in which weights and gradients are transferred.
        layers: The number of layers; determines the size of all gradients.
        target: The devices, as 8xH100; determines the part of a layer that a device keeps.
        jaxlib: The release that compiles it. Default: the program's, the installed one, the newest.
        top: Maximum number of rows in each table.
    """
    if (program is None) == (params is None and total_params is None):
        raise UsageError(
            "flags thresholds requires either --program or the size of a model",
            next="use --params 218e6 --dtype bf16 --layers 32",
        )
    if params is not None and total_params is not None:
        raise UsageError("--params and --total-params cannot be combined: one layer or all layers")
    if program is not None:
        _of_program(program, module, jaxlib, top, json)
        return
    _of_size(params or total_params or "", params is None, dtype, layers, target, json)


def _of_program(
    path: Path, module: str | None, jaxlib: str | None, top: int, as_json: bool
) -> None:
    from counterpoint.cli.program_option import finished_program
    from counterpoint.flags.jaxlib import installed_version
    from counterpoint.flags.thresholds import thresholds as find_thresholds
    from counterpoint.report.thresholds import thresholds_document, thresholds_json

    check_number("--top", top, 1)
    subject = finished_program(path, module)
    version = jaxlib or subject.circumstances.get("jaxlib") or installed_version()
    found = find_thresholds(subject.program, version)
    if as_json:
        write_result(thresholds_json(found, subject.where))
    else:
        print_report(thresholds_document(found, subject.where, top))


def _of_size(
    params: str, whole: bool, dtype: str, layers: int | None, target: str | None, as_json: bool
) -> None:
    from counterpoint.flags.thresholds import layer_rule
    from counterpoint.hardware.targets import parse_devices
    from counterpoint.report.thresholds import rule_document, rule_json

    devices = parse_devices(target).count if target is not None else None
    rule = layer_rule(params, dtype, layers, devices, whole=whole)
    if as_json:
        write_result(rule_json(rule))
    else:
        print_report(rule_document(rule))


BY_SUFFIX: Final = {
    ".env": SettingsForm.ENV,
    ".py": SettingsForm.PYTHON,
    ".yaml": SettingsForm.K8S,
    ".yml": SettingsForm.K8S,
    ".sbatch": SettingsForm.SLURM,
    ".slurm": SettingsForm.SLURM,
}


def render_flags(  # noqa: PLR0913 - the options of the command
    *source: Annotated[str, Parameter(allow_leading_hyphen=True)],
    as_: FormName | None = None,
    jaxlib: str | None = None,
    diff: str | None = None,
    form: str | None = None,
    allow: tuple[Path, ...] = (),
    out: OutputPath = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write settings as env file, shell, Python, Slurm job, manifest or compiler options.

    Args:
        source: Files, Runs, recipes, `pid:NUMBER`, `-`, or flags in quotes; later ones win.
        as_: The form; by default that of the suffix of --out, or else bash.
        jaxlib: The release for recipes and compiler options; by default the installed one.
        diff: Print the changes from the sources to this one, instead of the settings.
        form: The form of the sources; by default recognized.
        allow: A directory whose files a source may name; by default only its own directory.
        out: Write to this file instead of stdout.
    """
    if not source:
        raise UsageError("no source given", next="counterpoint flags render job.sh --as k8s")
    for word in source:  # all flags of XLA have an underscore, and no option has
        if word.startswith("-") and word != "-" and "_" not in word:
            raise UsageError(f"unknown option: {word}", next="counterpoint flags render --help")
    release = chosen_release(jaxlib)
    written = [_read(name, form, release.version, allow) for name in source]
    settings = reduce(Settings.merged, (parsed.settings for parsed in written))
    if diff is not None:
        other = _read(diff, form, release.version, allow)
        changes = difference(settings, other.settings)
        if json:
            write_result(difference_json(changes, source, diff))
        else:
            print_report(difference_document(changes, source, diff))
        return
    options = [option for parsed in written for option in parsed.through(Channel.TRAINER)]
    if options and settings == Settings():
        words = (word for option in options for word in (f"--{option.name}", option.meant))
        _write(shlex.join(words) + "\n", out, source, force=force)
        return
    kind = SettingsForm(as_) if as_ else BY_SUFFIX.get(out.suffix if out else "", SettingsForm.BASH)
    text = render(settings, kind, release)
    for line in (*unwritten_lines(settings, kind), *_crashes(written, release.asked)):
        say_line(line)
    if json:
        text = render_json(settings, kind, text, written)
    _write(text, out, source, force=force)


def _crashes(written: Sequence[ParsedSource], version: str) -> Iterator[str]:
    """Yield a warning about each flag with which compiles are known to end."""
    from counterpoint.flags.check.examination import CheckRequest, examine

    for source in written:
        for found in examine(source, CheckRequest(version=version, select=("FLAG203",))).remarks:
            yield f"warning: --{found.name}: {found.message}; {found.advice}"


def _read(source: str, form: str | None, version: str, allow: tuple[Path, ...]) -> ParsedSource:
    wanted = SettingsContext(version)
    written = read_source(source, (), env=False, form=form, wanted=wanted, allowed=allow).written
    if not written.given and not written.issues:
        raise InputError(
            f"{written.where}: no settings found",
            why=f"it was read as {written.form}",
            next=_EXAMPLE if written.form == "text" else "use --form text",
        )
    for line in unread_lines(written):
        say_line(line)
    return written


def _write(text: str, out: Path | None, source: tuple[str, ...], *, force: bool) -> None:
    if out is None:
        write_file(text)
        return
    if any(Path(name).exists() and out.exists() and out.samefile(name) for name in source):
        raise UsageError(f"{out} is a source", next="name another file")
    check_output(out, force=force, endings=(out.suffix,))
    write_output(out, text)
    say_wrote(out)
