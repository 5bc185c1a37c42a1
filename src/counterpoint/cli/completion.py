"""`counterpoint completion`: scripts that complete commands, options and files in a shell."""

from __future__ import annotations

import sys
from typing import Final, Literal

_FILES_TOO: Final = "complete -o bashdefault -o default -F"
"""For words other than options, such as profiles, bash completes file names itself."""


def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print a shell's completion script: every command, its options and their choices.

    Args:
        shell: The shell that reads it.
    """
    from counterpoint.cli.app import app_of
    from counterpoint.cli.commands import COMMANDS

    script = app_of(COMMANDS, "tune").generate_completion(prog_name="counterpoint", shell=shell)
    sys.stdout.write(script.replace("complete -F", _FILES_TOO) if shell == "bash" else script)
