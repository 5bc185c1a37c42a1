"""Compiles native/ into the package if a Rust compiler is found; without one, Python decodes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = Path("native/xplane_events.rs")
LIBRARY = Path("src/counterpoint/timeline/xplane/_events.so")
OPTIONS = (
    "--edition=2021",
    "--crate-type=cdylib",
    "-Copt-level=3",
    "-Ccodegen-units=1",
    "-Clto=fat",
    "-Cstrip=symbols",
    "-Cpanic=abort",
)


class CompileHook(BuildHookInterface[Any]):
    """Builds a wheel for this platform and any Python, or a pure one."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before the files of the wheel are collected."""
        del version
        root = Path(self.root)
        (root / LIBRARY).unlink(missing_ok=True)
        if not _compile(root / SOURCE, root / LIBRARY):
            return
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
        build_data["artifacts"].append(f"/{LIBRARY}")


def _compile(source: Path, library: Path) -> bool:
    compiler = os.environ.get("RUSTC") or shutil.which("rustc")
    if compiler is None:
        _say("no Rust compiler found")
        return False
    made = library.with_suffix(f".{os.getpid()}.so")
    done = subprocess.run(  # noqa: S603  the compiler the user has
        [compiler, *OPTIONS, "-o", str(made), str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        made.unlink(missing_ok=True)
        _say(f"{compiler} failed:\n{done.stderr}")
        return False
    made.replace(library)
    return True


def _say(why: str) -> None:
    print(f"counterpoint: profiles will be decoded in Python: {why}", file=sys.stderr)  # noqa: T201
