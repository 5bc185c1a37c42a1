"""MLIR bytecode, which only JAX can read: a child process writes it as text."""

from __future__ import annotations

import functools
import subprocess
import sys
from typing import Final

from counterpoint.core import InputError, UsageError
from counterpoint.core.scratch import scratch_directory

BYTECODE: Final = b"ML\xefR"
_TIMEOUT_S: Final = 300
_CHILD: Final = """
import sys
from pathlib import Path
try:
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo
except ModuleNotFoundError as missing:
    sys.exit(f"{missing}\\n\\n")
given, out = map(Path, sys.argv[1:])
data = given.read_bytes()
with mlir.make_ir_context() as context:
    try:
        module = ir.Module.parse(data)
        portable = any("vhlo" in it.operation.name for it in module.body.operations)
    except Exception as error:
        portable, first = True, error
    if portable:
        module = stablehlo.deserialize_portable_artifact(context, data)
    out.write_text(module.operation.get_asm(enable_debug_info=True))
"""


@functools.lru_cache(maxsize=4)
def as_text(data: bytes, place: str) -> bytes:
    """Return the module as text; data that is not bytecode is returned unchanged.

    Only the jaxlib that wrote bytecode, or a later one, can read it, so a child process with JAX
    does. Portable artifacts (`mlir_module_serialized` of `jax.export`) are read, too.
    """
    if not data.startswith(BYTECODE):
        return data
    with scratch_directory("bytecode") as scratch:
        source, out = scratch / "module.mlirbc", scratch / "module.mlir"
        source.write_bytes(data)
        done = subprocess.run(  # noqa: S603  our own words in our own interpreter
            [sys.executable, "-P", "-c", _CHILD, str(source), str(out)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        if done.returncode == 0:
            return out.read_bytes()
    lines = [line for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
    last = lines[-1] if lines else f"its reader died ({done.returncode})"
    if "No module named" in last:
        raise UsageError(
            f"{place} is bytecode, which only JAX can read, and JAX is not installed",
            why=last,
            next=f"{sys.executable} -m pip install 'counterpoint[compiler]'",
        )
    raise InputError(
        f"{place}: bytecode that this jaxlib can't read",
        why=last[:300],
        next="pass StableHLO that this or an older jaxlib wrote, or its text",
    )
