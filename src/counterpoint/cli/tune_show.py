"""`counterpoint tune show`: a study's conclusion, its winner's settings, its files in a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal

from cyclopts import Parameter

from counterpoint.cli.flags_advice import BY_SUFFIX, FormName
from counterpoint.cli.options import Force, OutputPath, Report
from counterpoint.cli.output import check_digest, check_output, check_page, write_output
from counterpoint.cli.printing import (
    document_text,
    print_report,
    say_line,
    say_wrote,
    write_file,
    write_result,
)
from counterpoint.cli.profiles import write_digest
from counterpoint.core import UsageError
from counterpoint.core.bounds import check_number
from counterpoint.flags.forms import SettingsForm
from counterpoint.report.document import Document
from counterpoint.report.flags.settings_document import unwritten_lines
from counterpoint.report.tune.next_command import next_command
from counterpoint.report.tune.settings_text import chosen_arm, settings_text, warnings
from counterpoint.report.tune.study_bundle import write_bundle
from counterpoint.report.tune.tune_digest import tune_digest
from counterpoint.report.tune.tune_document import tune_document
from counterpoint.report.tune.tune_json import tune_json
from counterpoint.tune.arm import Arm
from counterpoint.tune.conclusion import Conclusion, conclude
from counterpoint.tune.study import Study, plan_of, read_study

_ENDINGS: Final = (".tar.gz", ".tgz")

BEST: Final = {
    "best.env": SettingsForm.ENV,
    "best.sh": SettingsForm.BASH,
    "best.py": SettingsForm.PYTHON,
    "best.sbatch": SettingsForm.SLURM,
    "best.yaml": SettingsForm.K8S,
}
"""Files of the winner's settings, with the form of `flags render` for each."""


def show(  # noqa: PLR0913 - the options of the command
    study: Path,
    *,
    as_: FormName | Literal["digest"] | None = None,
    arm: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,  # --xla_a=1
    out: OutputPath = None,
    bundle: Path | None = None,
    force: Force = False,
    top: int = 20,
    budget: int | None = None,
    json: bool = False,
    html: Report = None,
) -> None:
    """Show the result of a study, also while it runs or after an interruption.

    Args:
        study: The directory of the study.
        as_: Print the winner's settings in this form, instead of the report; `digest`: its most
            important lines, for a program that reads text.
        arm: Use the settings of this arm instead of the winner's.
        out: Write the settings to this file; without --as its suffix selects the form.
        bundle: Write journal, report, Runs and settings into one .tar.gz that can be shared.
        top: Number of rows in the table of arms.
        budget: Characters of the digest; by default 1,500.
        json: Print the full result as JSON.
    """
    check_number("--top", top, 1)
    size = check_digest(as_, budget, json=json)
    form = None if as_ is None or as_ == "digest" else SettingsForm(as_)
    settings = bool(form or arm or out)
    if json + settings + (bundle is not None) + (size is not None) > 1:
        raise UsageError(
            "--json, --bundle, --as digest and settings (--as, --arm, -o) exclude each other: use"
            " one",
            next="counterpoint tune show STUDY --json > report.json",
        )
    check_page(html, force=force)
    if bundle is not None:
        _bundle(study, bundle, force=force)
        return
    loaded = read_study(study)
    conclusion = conclude(loaded, plan_of(loaded))
    following = next_command(conclusion, loaded, study)
    if html is not None:
        from counterpoint.cli.pages import study_page, write_page

        chosen = None if arm is None else chosen_arm(conclusion, study, arm)
        write_page(study_page(conclusion, study, top, following, chosen), html)
    if settings:
        _settings(loaded, conclusion, study, chosen_arm(conclusion, study, arm), form, out, force)
    elif size is not None:
        digest = tune_digest(conclusion, study.resolve().name, following)
        write_digest(digest.text(size), None)
    elif json:
        write_result(tune_json(conclusion, study))
    elif html is None:
        print_report(tune_document(conclusion, study, top, following))


def _bundle(directory: Path, path: Path, *, force: bool) -> None:
    if path.name and not path.name.endswith(_ENDINGS):
        raise UsageError(
            f"can't write {path}: a bundle is a .tar.gz",
            next=f"use --bundle {path.with_suffix('.tar.gz')}",
        )
    check_output(path, force=force, endings=(".tgz", ".gz"), argument="bundle")
    hidden = write_bundle(directory, path)
    say_wrote(path)
    if hidden:
        say_line(f"redacted: the values of {', '.join(hidden)}")
    say_line("It contains the program's output and command line: review them before you share it.")


def _settings(
    study: Study,
    conclusion: Conclusion,
    directory: Path,
    arm: Arm,
    form: SettingsForm | None,
    out: Path | None,
    force: bool,
) -> None:
    if out is not None:
        check_output(out, force=force, endings=(out.suffix,))
        form = form or BY_SUFFIX.get(out.suffix)
    form = form or SettingsForm.BASH
    settings, text = settings_text(study, conclusion, directory, arm, form)
    for line in (*unwritten_lines(settings, form), *warnings(conclusion, arm)):
        say_line(line)
    if out is None:
        write_file(text)
        return
    write_output(out, text)
    say_wrote(out)


def keep_report(conclusion: Conclusion, directory: Path, document: Document) -> None:
    """Write the report and the best settings; remove those of an earlier winner."""
    write_output(directory / "report.json", tune_json(conclusion, directory))
    write_output(directory / "report.txt", document_text(document))
    winner, study = conclusion.winner, read_study(directory)
    for name, form in BEST.items():
        try:
            if winner is not None:
                _, text = settings_text(study, conclusion, directory, winner, form)
                write_output(directory / name, text)
                continue
        except UsageError:
            pass  # a value can't be written in this form
        (directory / name).unlink(missing_ok=True)
