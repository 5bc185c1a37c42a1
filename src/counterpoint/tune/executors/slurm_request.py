"""What is to be asked of Slurm, checked before: contradictions, and what it takes from nobody."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from itertools import zip_longest
from typing import Final

from counterpoint.core.errors import UsageError
from counterpoint.tune.executors.executor import Shape
from counterpoint.tune.executors.slurm_control import asked, refuse_silence
from counterpoint.tune.executors.slurm_grant import read_grant

_TEST_S: Final = 15.0
_OURS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("--job-name", "-J"), "by its name a job is found again"),
    **dict.fromkeys(("--array", "-a"), "each trial is one job"),
    **dict.fromkeys(("--wait", "-W"), "the tuner waits itself"),
    **dict.fromkeys(("--wrap", "--test-only"), "the trials are what is run"),
}
_NODES: Final = re.compile(r"(?:--nodes(?:=|$)|-N)(.*)")
_REFUSED: Final = re.compile(
    r"^.*\b[Ii]nvalid (?:partition|account|qos|feature|generic|-|.* specification).*$"
    r"|^.*\b(?:unrecognized|ambiguous|invalid) option.*$|^.* requires an argument.*$",
    re.MULTILINE,
)
"""What is wrong for ever. That nodes are not available is said of those that are down, too."""


def refuse_options(words: tuple[str, ...], shape: Shape) -> None:
    """Options that contradict the tuner's own."""
    for word, after in zip_longest(words, words[1:], fillvalue=""):
        name = word.partition("=")[0] if word.startswith("--") else word[:2]
        if name in _OURS:
            raise UsageError(f"--slurm {word}: {_OURS[name]}", next="leave it out")
        if found := _NODES.fullmatch(word):
            _refuse_other(found.group(1).removeprefix("=") or after, shape.nodes)


def _refuse_other(said: str, nodes: int) -> None:
    if said == str(nodes):
        return
    raise UsageError(
        f"--slurm asks for {said} nodes, but trials take {nodes}",
        why="how many they take is said by --nodes",
        next="say it to tune alone, and nothing of it to Slurm",
    )


def refuse_refused(words: tuple[str, ...], shape: Shape, environ: Mapping[str, str]) -> None:
    """A partition or account that isn't there, as sbatch tells without taking a job."""
    refuse_silence(environ)
    if shutil.which("sbatch", path=environ.get("PATH")) is None:
        return  # salloc will tell
    command = ("sbatch", "--test-only", f"--nodes={shape.nodes}", *words, "--wrap=true")
    _, _, said = asked(*command, limit_s=_TEST_S, environ=environ)
    if found := _REFUSED.search(said):
        raise UsageError(
            f"Slurm takes no job with {' '.join(words) or 'its usual options'}",
            why=re.sub(r"^(?:sbatch: (?:error: )?|allocation failure: )", "", found.group()),
            next="--slurm '--partition=NAME --account=NAME'",
        )


def refuse_job(job: str, shape: Shape, environ: Mapping[str, str]) -> None:
    """The job around us, if it is over or too small."""
    refuse_silence(environ)
    read_grant(job, environ).refuse_more(shape.nodes)
