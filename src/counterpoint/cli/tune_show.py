"""`counterpoint tune show`: what a study says, its winner's settings, all of it in one archive."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from counterpoint.cli.flags_render import BY_SUFFIX, FormName
from counterpoint.cli.numbers import WholeNumber
from counterpoint.cli.tune_settings import headed, laid_out, release_of, warnings
from counterpoint.core.errors import InputError, UsageError

if TYPE_CHECKING:
    from counterpoint.tune.arm import Arm
    from counterpoint.tune.conclusion.conclusion import Conclusion
    from counterpoint.tune.study.study import Study

Switch = Annotated[bool, Parameter(show_default=False)]


def show(  # noqa: PLR0913 - the options of the command
    study: Path,
    *,
    as_: Annotated[FormName | None, Parameter(name="--as")] = None,
    arm: str | None = None,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    bundle: Path | None = None,
    force: Switch = False,
    top: WholeNumber = 20,
    json: Switch = False,
) -> None:
    """Say what a study found, also while it runs or where it was interrupted.

    Args:
        study: Its directory.
        as_: Write the winner's settings in this form, instead of the report.
        arm: The settings of this arm, not of the winner.
        out: Write them there; the ending tells the form where --as does not.
        bundle: Write journal, report, Runs and settings into one .tar.gz, to be passed on.
        force: Overwrite what is there.
        top: Rows of the table of arms.
        json: Print everything as JSON, uncut.
    """
    from counterpoint.cli.tune_numbers import refuse_low
    from counterpoint.tune.study.directory import read_study

    refuse_low("--top", top, 1)
    _refuse_two(json=json, settings=bool(as_ or arm or out), bundle=bundle is not None)
    if bundle is not None:
        _bundle(study, bundle, force=force)
        return
    told = read_study(study)
    conclusion = _conclusion(told)
    if as_ or arm or out:
        _settings(told, conclusion, study, (as_, arm, out), force=force)
    else:
        _report(told, conclusion, study, top, as_json=json)


def _conclusion(told: Study) -> Conclusion:
    from counterpoint.tune.conclusion.conclude import conclude
    from counterpoint.tune.study.plan_text import plan_of

    return conclude(told, plan_of(told))


def _refuse_two(*, json: bool, settings: bool, bundle: bool) -> None:
    if json + settings + bundle > 1:
        raise UsageError(
            "--json, --bundle and settings (--as, --arm, -o) are three things: ask for one",
            next="counterpoint tune show STUDY --json > report.json",
        )


def _bundle(study: Path, path: Path, *, force: bool) -> None:
    from counterpoint.cli.tune_bundle import check_bundle, write_bundle

    check_bundle(path, force=force)
    hidden = write_bundle(study, path)
    print(f"wrote {path}", file=sys.stderr)
    if hidden:
        print(f"left out: the values of {', '.join(hidden)}", file=sys.stderr)
    print(
        "what the program printed and its command line are in it: look through them before you"
        " pass it on",
        file=sys.stderr,
    )


def _report(told: Study, conclusion: Conclusion, study: Path, top: int, *, as_json: bool) -> None:
    from counterpoint.cli.tune_next import next_command
    from counterpoint.report.terminal import print_document
    from counterpoint.report.tune_document import tune_document
    from counterpoint.report.tune_json import tune_json

    if as_json:
        sys.stdout.write(tune_json(conclusion, study))
        return
    then = next_command(conclusion, told, study)
    print_document(tune_document(conclusion, study, top, then), sys.stdout)


def _settings(
    told: Study,
    conclusion: Conclusion,
    study: Path,
    wanted: tuple[FormName | None, str | None, Path | None],
    *,
    force: bool,
) -> None:
    from counterpoint.cli.output import check_output, write_output
    from counterpoint.flags.rendering import Form, render
    from counterpoint.report.flags_render_document import unwritten

    name, arm, out = wanted
    if out is not None:
        check_output(out, force=force, endings=(out.suffix,))
    form = Form(name) if name else BY_SUFFIX.get(out.suffix if out else "", Form.BASH)
    chosen = _arm(conclusion, study, arm)
    settings = laid_out(told, chosen.settings, form)
    text = headed(render(settings, form, release_of(told)), conclusion, study, chosen)
    for line in (*unwritten(settings, form), *warnings(conclusion, chosen)):
        print(line, file=sys.stderr)
    if out is None:
        sys.stdout.write(text)
        return
    write_output(out, text)
    print(f"wrote {out}", file=sys.stderr)


def _arm(conclusion: Conclusion, study: Path, name: str | None) -> Arm:
    if name is None:
        if conclusion.winner is not None:
            return conclusion.winner
        raise InputError(
            f"{study} has no winner{'' if conclusion.state == 'done' else ' yet'}",
            why=conclusion.sentence,
            next=f"counterpoint tune show {shlex.quote(str(study))}",
        )
    arms = {it.arm.name: it.arm for it in conclusion.rows}
    found = [name] if name in arms else [it for it in arms if _shortened(name).fullmatch(it)]
    if len(found) != 1:
        what = "stands for several arms of the study" if found else "the study has no such arm"
        raise UsageError(
            f"--arm {name}: {what}", why=f"its arms are {', '.join(found or arms) or 'none yet'}"
        )
    return arms[found[0]]


def _shortened(name: str) -> re.Pattern[str]:
    """A name as a narrow table shows it, without its middle; and the mark of a long one alone."""
    if re.fullmatch(r"#[0-9a-f]{6}", name):
        return re.compile(f".* {name}")
    parts = name.split("\N{HORIZONTAL ELLIPSIS}")
    return re.compile(".+".join(re.escape(it) for it in parts))
