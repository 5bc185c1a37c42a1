"""StableHLO in bytecode, as text: what else reads it needs names, counts and FLOPs.

Only the jaxlib that wrote it, or a later one, reads bytecode; so a child process with jax does it.
Portable artifacts (jax.export's `mlir_module_serialized`) are read, too.
"""

from __future__ import annotations

import functools
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from counterpoint.core.errors import InputError, UsageError

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
    """The module as text; what is no bytecode comes back as it is."""
    if not data.startswith(BYTECODE):
        return data
    with tempfile.TemporaryDirectory(prefix="counterpoint-bytecode-") as scratch:
        given, out = Path(scratch) / "module.mlirbc", Path(scratch) / "module.mlir"
        given.write_bytes(data)
        done = subprocess.run(  # noqa: S603  our own words in our own interpreter
            [sys.executable, "-P", "-c", _CHILD, str(given), str(out)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        if done.returncode == 0:
            return out.read_bytes()
    lines = [it for it in done.stderr.decode(errors="replace").splitlines() if it.strip()]
    last = lines[-1] if lines else f"its reader died ({done.returncode})"
    if "No module named" in last:
        raise UsageError(
            f"{place} is bytecode, and only JAX reads it, which is not installed",
            why=last,
            next=f"{sys.executable} -m pip install 'counterpoint[compiler]'",
        )
    raise InputError(
        f"{place}: bytecode that this jaxlib can't read",
        why=last[:300],
        next="give StableHLO that this or an older jaxlib wrote, or its text",
    )
