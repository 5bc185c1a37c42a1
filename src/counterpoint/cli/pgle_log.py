"""`counterpoint pgle check --log`: what a log proves of a profile, without profile or program."""

from __future__ import annotations

import shlex
from pathlib import Path

from counterpoint.cli.printing import print_report, write_result
from counterpoint.pgle.compiler_log import VERBOSE_LOG, ProfileUse
from counterpoint.report.pgle.log_document import pgle_log_document
from counterpoint.report.pgle.log_json import pgle_log_json
from counterpoint.runs.layout import is_run
from counterpoint.workflow.feedback import LogProof, proof_in


def check_log(log: Path, *, as_json: bool) -> int:
    """Print what the log proves; return 0 if a profile was used, else 1."""
    proof = proof_in(log)
    then = _next(proof, log)
    if as_json:
        write_result(pgle_log_json(proof, then))
    else:
        print_report(pgle_log_document(proof, then))
    return 0 if proof.use is ProfileUse.USED else 1


def _next(proof: LogProof, log: Path) -> str:
    """Return the run whose log is conclusive, or what the first complaint asks for."""
    if proof.use is ProfileUse.UNKNOWN:
        variables = [word for pair in VERBOSE_LOG.items() for word in ("--env", "=".join(pair))]
        return shlex.join(["counterpoint", "run", *variables, "--", "python", "train.py"])
    complaints = proof.evidence.complaints
    if proof.use is not ProfileUse.USED and complaints:
        return complaints[0].next
    if log.is_dir() and is_run(log):
        return shlex.join(["counterpoint", "explain", str(log)])
    files = [source for source in proof.evidence.sources if Path(source).exists()]
    profile = files[0] if files else "step.pbtxt"
    return shlex.join(["counterpoint", "pgle", "check", profile, "--program", "xla_dump"])
