"""What `make test-system` will skip on this machine, and why: printed before it begins.

python tests/prerequisites.py [PYTHON_OF_THE_NEWEST_JAX]
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from chromium import why_no_browser
from slurm_cluster import why_no_slurm
from xla_compiler import why_none as why_no_compiler

CHECKOUT = Path(__file__).parent.parent


def skipped(newer_python: str | None) -> Iterator[tuple[str, str]]:
    """Each kind of test that has to be skipped here, with the reason."""
    if reason := why_no_compiler():
        yield "XLA's compiler for GPUs", reason
    if reason := why_no_slurm():
        yield "Slurm", reason
    for module, what in (("ray", "Ray"), ("kubernetes", "Kubernetes")):
        if find_spec(module) is None:
            yield what, f"the package {module} is not installed"
    if reason := why_no_browser():
        yield "pages in a browser", reason
    if not (shutil.which("node") and shutil.which("npm")):
        yield "whether the committed page is what web/ builds", "Node.js with npm is not installed"
    if newer_python is None and sys.version_info < (3, 12):
        reason = "they need Python 3.12 or later, and none is on PATH or in pyenv"
        yield "the newest JAX, libtpu, MaxText, Tunix and frameworks", reason
    shared = Path(os.environ.get("COUNTERPOINT_SHARED", CHECKOUT.parent / "shared"))
    if not (shared / "data").is_dir():
        yield "real profiles", f"they are not in {shared}; COUNTERPOINT_SHARED can name them"


def main(arguments: list[str]) -> None:
    rows = [*skipped(arguments[0] if arguments else None)]
    for what, reason in rows:
        print(f"will be skipped: {what}: {reason}")
    if not rows:
        print("nothing will be skipped: all that the tests need is here")


if __name__ == "__main__":
    main(sys.argv[1:])
