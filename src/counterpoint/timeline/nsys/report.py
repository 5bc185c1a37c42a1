"""`.nsys-rep` reports, through `nsys export`.

The format is Nsight Systems' own, so it takes the tool itself. The export goes into a temporary
directory, which is removed whatever happens, and the tool is stopped when its reader is.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Final

from counterpoint.core.errors import InputError
from counterpoint.timeline.nsys.sqlite import read_sqlite
from counterpoint.timeline.recording import Recording

_TOLD: Final = 500
"""Characters passed on of what the tool said last."""


def read_nsys_rep(path: str | Path) -> Recording:
    """Export a report with the `nsys` on PATH and read the export."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    nsys = shutil.which("nsys")
    if nsys is None:
        raise InputError(
            f"{path}: a .nsys-rep report can only be read by Nsight Systems, and there is no"
            " `nsys` on PATH",
            why="on a machine that has it, `nsys export` writes it as .sqlite, which is read here",
            next=shlex.join(
                ["nsys", "export", "--type", "sqlite", "-o", f"{path.stem}.sqlite", path.name]
            ),
        )
    with tempfile.TemporaryDirectory(prefix="counterpoint-nsys-") as directory:
        export = Path(directory) / "export.sqlite"
        _export(nsys, path, export)
        return replace(read_sqlite(export), source=str(path))


def _export(nsys: str, report: Path, export: Path) -> None:
    command = [nsys, "export", "--type", "sqlite", "--output", str(export), str(report.resolve())]
    try:
        code, said = _run(command)
    except OSError as failure:
        raise InputError(f"{report}: {nsys} can't be run: {failure}") from None
    if code or not export.is_file():
        raise InputError(
            f"{report}: `nsys export` failed with exit code {code}",
            why=said[-_TOLD:] or None,
            next=shlex.join([*command[:4], str(report)]),
        )


def _run(command: list[str]) -> tuple[int, str]:
    """Exit code, and what the tool said; it doesn't outlive an interrupt."""
    with subprocess.Popen(  # noqa: S603 - the user's own profiler
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"
    ) as tool:
        try:
            said, complained = tool.communicate()
        finally:
            tool.kill()
            tool.wait()
    return tool.returncode, complained.strip() or said.strip()
