"""What a study's directory holds beside its journal and runs: the report, and the best settings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from counterpoint.cli.output import write_output
from counterpoint.report.document import Document
from counterpoint.report.terminal import plain_text
from counterpoint.report.tune_json import tune_json

if TYPE_CHECKING:
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
    from counterpoint.flags.rendering import render

    write_output(study / "report.json", tune_json(conclusion, study))
    write_output(study / "report.txt", plain_text(document))
    for name, form in BEST.items():
        if conclusion.winner is None:
            (study / name).unlink(missing_ok=True)
        else:
            write_output(study / name, render(conclusion.winner.settings, form))
