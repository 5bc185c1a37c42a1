"""JAX's own options that an environment variable sets, obtained from an interpreter's jax.

JAX reads its variables during import. So the child records which are read, and an option counts if
its variable was read then: some options have none, whatever their name.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from counterpoint.flags.catalogue.table import FlagFacts

_CHILD: Final = """
import json, os, sys
read = set()
real = os.getenv
def getenv(name, default=None):
    read.add(name)
    return real(name, default)
os.getenv = getenv
try:
    import jax
    from jax._src import config
except Exception as missing:
    print(json.dumps({"missing": f"{type(missing).__name__}: {missing}"}))
    sys.exit(0)
found = {}
for name, value in jax.config.values.items():
    if name.upper() in read:
        kind, arguments, _ = jax.config.meta.get(name, (type(value), (), {}))
        values = [str(one) for one in arguments[0]] if kind == "enum" and arguments else []
        kind = kind if isinstance(kind, str) else getattr(kind, "__name__", "str")
        found[name.upper()] = [kind, value if isinstance(value, (bool, int, float)) or value is None
                               else str(value), values]
print(json.dumps({"version": jax.__version__, "options": found}))
"""
_TYPES: Final = {"bool": "bool", "int": "int64", "float": "float", "enum": "enum"}


def jax_options(
    python: Path, environment: Mapping[str, str] | None = None, timeout_s: float = 120
) -> tuple[str, dict[str, FlagFacts]] | None:
    """Return the version of jax, and its options by variable; None if jax can't be queried."""
    inherited = os.environ if environment is None else environment
    child = {
        k: v for k, v in inherited.items() if not k.startswith(("COUNTERPOINT_", "JAX", "XLA"))
    }
    try:
        done = subprocess.run(  # noqa: S603 - the user's own interpreter
            [python.absolute(), "-c", _CHILD],
            env=child,
            cwd="/",  # keeps a user's file from shadowing a module
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
        answer = json.loads(done.stdout.strip().rpartition("\n")[2] or "{}")
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    if "options" not in answer:
        return None
    facts = {name: _facts(*option) for name, option in answer["options"].items()}
    return answer["version"], facts


def _facts(kind: str, default: Any, values: list[str]) -> FlagFacts:  # noqa: ANN401 - from JSON
    text = "" if default is None else str(default)
    facts: dict[str, Any] = {
        "type": _TYPES.get(kind, "string"),
        "default": text.lower() if isinstance(default, bool) else text,
    }
    facts |= {"xla_flags": False, "compile_option": False}
    return {**facts, "values": values} if values else facts
