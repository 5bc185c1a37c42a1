"""Settings in a job's own file: the environment of its processes, and nothing else, is changed.

manifest.py edits YAML (Kubernetes, SkyPilot), script.py shell scripts (Slurm, launchers, xpk),
whose statements statements.py tells apart.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from counterpoint.core import UsageError
from counterpoint.flags.patch.manifest import patch_manifest
from counterpoint.flags.patch.script import patch_script
from counterpoint.flags.settings import Settings

_YAML: Final = (".yaml", ".yml", ".json")
_SCRIPTS: Final = (".sh", ".bash", ".sbatch", ".slurm", ".job")
_SHEBANG: Final = re.compile(r"#!.*\b(?:ba|z|k|da)?sh\b")


@dataclass(frozen=True, slots=True)
class PatchedFile:
    """The new text, and what it can't do."""

    text: str
    notes: tuple[str, ...] = ()


def patch_text(text: str, name: str, settings: Settings) -> PatchedFile:
    """Return the text of the file `name` with these settings in the environment of its processes.

    A flag or variable that the file sets already gets the new value; others stay. To patch the
    result again changes nothing. Numbers of lines in notes are those of the text given.
    """
    suffix = name[name.rfind(".") :] if "." in name else ""
    if suffix in _YAML:
        return PatchedFile(*patch_manifest(text, name, settings))
    shell = _SHEBANG.match(text) if text.startswith("#!") else suffix in _SCRIPTS
    if shell:
        return PatchedFile(*patch_script(text, name, settings))
    raise UsageError(
        f"{name}: not a job file that can be patched",
        why=f"its name must end with {', '.join((*_YAML, *_SCRIPTS))}, or it must begin with"
        " `#!/bin/bash`; a script for another program than a shell with `export` is none",
    )
