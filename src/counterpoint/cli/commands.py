"""Every command of `counterpoint`, from commands.toml, and their groups and order in the help."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

from counterpoint.core.frozen import frozen


@frozen
class Command:
    """A command that can be listed without being loaded."""

    name: str
    function: str
    summary: str
    examples: tuple[str, ...] = ()


GROUPS = {
    "flags": "Check, explain, compare and recommend settings of XLA, JAX and NCCL.",
    "pgle": "Make, check and apply profiles that tell XLA's scheduler what instructions cost.",
}
"""The purpose of the commands whose names begin with this word."""

SECTIONS = {
    "Measure": ("run", "runs", "convert", "log", "doctor"),
    "Explain": ("explain", "view", "network", "compare", "store", "history", "explain-code"),
    "Settings": ("flags", "pgle"),
    "Predict": ("predict", "upgrade", "calibrate"),
    "Tune": ("tune",),
    "Shell": ("completion", "skill", "mcp"),
}
"""The sections of `--help`, by purpose."""

COMMANDS: Final = tuple(
    Command(row["name"], row["function"], row["summary"], tuple(row.get("examples", ())))
    for row in tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))["command"]
)
