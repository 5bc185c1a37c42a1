"""Loads a package into every Python that a command starts, before the command's own code.

`injected` returns the variables. PYTHONPATH then contains `site`, whose `sitecustomize.py` Python
imports when it starts; that loads `import_hook.py`, then the package by its path, and calls its
`enter(when_loaded, keep_variables)`, of which the second makes a `KeptVariables`. The interpreter
may be older than ours and without Counterpoint, so all injected code uses only the standard
library, runs on Python 3.9, and imports relatively.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from counterpoint.core.injection.import_hook import when_loaded as when_loaded
from counterpoint.core.injection.variables import FLAG_VARIABLES as FLAG_VARIABLES
from counterpoint.core.injection.variables import NOTED as NOTED
from counterpoint.core.injection.variables import PROGRAM as PROGRAM
from counterpoint.core.injection.variables import KeptVariables as KeptVariables
from counterpoint.core.injection.variables import flag_pairs as flag_pairs
from counterpoint.core.injection.variables import flags_in as flags_in
from counterpoint.core.injection.variables import is_noted as is_noted

NAME: Final = "_counterpoint_agent"
"""The name of the package in a process that it was injected into."""

SITE: Final = Path(__file__).parent / "site"
_PACKAGE: Final = "COUNTERPOINT_AGENT"


def injected(environ: Mapping[str, str], package: Path) -> dict[str, str]:
    """Return the variables by which each Python of a process and its children loads a package."""
    search = environ.get("PYTHONPATH")
    return {
        "PYTHONPATH": os.pathsep.join([str(SITE), *([search] if search else [])]),
        _PACKAGE: str(package),
    }
