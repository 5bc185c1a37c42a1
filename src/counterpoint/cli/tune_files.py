"""What a study's directory holds beside its journal and runs: the report, and the best settings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from counterpoint.cli.output import write_output
from counterpoint.cli.tune_settings import headed, laid_out, release_of
from counterpoint.core.errors import UsageError
from counterpoint.report.document import Document
from counterpoint.report.terminal import plain_text
from counterpoint.report.tune_json import tune_json

if TYPE_CHECKING:
    from counterpoint.tune.arm import Arm
    from counterpoint.tune.conclusion.conclusion import Conclusion

BEST: Final = {
    "best.env": "env",
    "best.sh": "bash",
    "best.py": "python",
    "best.sbatch": "slurm",
    "best.yaml": "k8s",
}
"""The winner's settings, by the forms of `flags render`."""


def keep_report(conclusion: Conclusion, study: Path, document: Document) -> None:
    """Write report and best settings; what an earlier sitting called the best goes."""
    write_output(study / "report.json", tune_json(conclusion, study))
    write_output(study / "report.txt", plain_text(document))
    winner = conclusion.winner
    for name, form in BEST.items():
        text = None if winner is None else _best(winner, form, conclusion, study)
        if text is None:
            (study / name).unlink(missing_ok=True)
        else:
            write_output(study / name, text)


def _best(winner: Arm, form: str, conclusion: Conclusion, study: Path) -> str | None:
    """As `tune show --as` writes it; None where a value can't be written in this form."""
    from counterpoint.flags.rendering import Form, render
    from counterpoint.tune.study.directory import read_study

    told = read_study(study)
    settings = laid_out(told, winner.settings, Form(form))
    try:
        return headed(render(settings, form, release_of(told)), conclusion, study, winner)
    except UsageError:
        return None
