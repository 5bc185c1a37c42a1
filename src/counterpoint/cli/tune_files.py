"""What a study's directory holds beside its journal and runs: the report, and the best settings."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from counterpoint.cli.output import write_output
from counterpoint.core.errors import UsageError
from counterpoint.report.document import Document
from counterpoint.report.terminal import plain_text
from counterpoint.report.tune_json import tune_json
from counterpoint.tune.conclusion.beside import beside

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
_SHEBANG: Final = "#!"


def keep_report(conclusion: Conclusion, study: Path, document: Document) -> None:
    """Write report and best settings; what an earlier sitting called the best goes."""
    write_output(study / "report.json", tune_json(conclusion, study))
    write_output(study / "report.txt", plain_text(document))
    for name, form in BEST.items():
        text = None if conclusion.winner is None else _best(conclusion.winner, form)
        if text is None:
            (study / name).unlink(missing_ok=True)
        else:
            write_output(study / name, text)


def _best(winner: Arm, form: str) -> str | None:
    """None where a value can't be written in this form."""
    from counterpoint.flags.rendering import render

    try:
        return with_comment(render(winner.settings, form), beside(winner))
    except UsageError:
        return None


def with_comment(text: str, lines: Iterable[str]) -> str:
    """The text behind a comment, which all forms begin with `#`."""
    comment = "".join(f"# {' '.join(line.split())}\n" for line in lines)
    first, end, rest = text.partition("\n")
    return f"{first}{end}{comment}{rest}" if first.startswith(_SHEBANG) else f"{comment}{text}"
