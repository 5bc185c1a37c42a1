"""The environment a running process was started with, as Linux keeps it."""

from __future__ import annotations

from pathlib import Path

from counterpoint.core.errors import InputError, UsageError


def process_environment(pid: int) -> dict[str, str]:
    """All its variables; what the process itself has changed since is not in it."""
    path = Path(f"/proc/{pid}/environ")
    try:
        data = path.read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        raise UsageError(
            f"pid:{pid}: no such process",
            why="a process is named by its number on this machine",
            next="pgrep -af python",
        ) from None
    except PermissionError:
        raise InputError(
            f"pid:{pid}: its environment may not be read",
            why="only its owner and root may",
            next=f"ask as its owner, e.g. sudo cat {path}",
        ) from None
    except OSError as failure:
        raise InputError(f"pid:{pid}: can't be read: {failure.strerror or failure}") from None
    entries = data.decode(errors="replace").split("\0")
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def process_directory(pid: int) -> Path | None:
    """Where it runs, to which a flag file's name is relative."""
    try:
        return Path(f"/proc/{pid}/cwd").readlink()
    except OSError:
        return None
