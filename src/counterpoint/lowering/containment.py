"""Runs a command on a temporary layer over the file system, which is discarded with its writes.

Started as a separate program: `python containment.py JOURNAL COMMAND...`. In its own mount
namespace (and user namespace, unless it is privileged) it mounts an overlay over each directory,
and executes the command. All that the command and its children write goes next to the journal, in
the directory `overlay`, whatever language they are written in. The journal's directory itself and
the user's caches are not overlaid.

A directory can't be overlaid as a whole if others are mounted below it, so its children are, one by
one. Files directly in it are not contained, nor is anything if the kernel refuses. Those are left
to the emulator's guard, which reads in the journal what is contained.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

LAYER: Final = "overlay"
_LIVE: Final = ("/dev", "/proc", "/run", "/sys", "/var/run")  # not files, or state of the machine
_CACHES: Final = ("XDG_CACHE_HOME", "HF_HOME")
_MOST: Final = 256
_NEW_MOUNTS, _NEW_USER = 0x20000, 0x10000000
_BIND, _PRIVATE, _ALL_BENEATH = 0x1000, 0x40000, 0x4000
_libc = ctypes.CDLL(None, use_errno=True)


def overlay_command(command: Sequence[str], journal: Path) -> list[str]:
    """Return the command that runs another one on a temporary layer, reporting to the journal."""
    return [sys.executable, "-I", "-S", __file__, str(journal.absolute()), *command]


def discard_layer(directory: Path, places: Mapping[str, str]) -> list[str]:
    """Delete the layer; return the files that were written to it, except compiled Python."""
    layer = directory / LAYER
    written = [
        f"{place}/{path.relative_to(layer / name / 'new')}"
        for name, place in places.items()
        for path in (layer / name / "new").rglob("*")
        if path.parent.name != "__pycache__" and path.is_file() and not path.is_symlink()
    ]
    for kept in layer.glob("*/scratch/*"):
        kept.chmod(0o700)  # the kernel leaves it unreadable
    shutil.rmtree(layer, ignore_errors=True)
    return sorted(written)


def main(words: Sequence[str]) -> int:
    """Contain this process, and execute the command."""
    journal, command = Path(words[0]), words[1:]
    try:
        places, refused = _contain(journal.parent)
    except OSError as error:  # perhaps half contained: the caller starts again without the layer
        _write(journal, {"event": "uncontained", "name": f"{error.filename}: {error.strerror}"})
        return 126
    _write(journal, {"event": "contained", "places": places, "refused": refused})
    try:
        os.execvp(command[0], [*command])  # noqa: S606  the user's own command
    except OSError as error:
        _write(journal, {"event": "unstartable", "name": error.strerror or str(error)})
    return 127


def _write(journal: Path, line: dict[str, object]) -> None:
    with journal.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def _contain(directory: Path) -> tuple[dict[str, str], list[str]]:
    """Overlay all possible directories; return them by layer name, and those that failed."""
    current = str(Path.cwd())
    layer = directory / LAYER
    layer.mkdir()
    _unshare()
    _mount("none", "/", flags=_ALL_BENEATH | _PRIVATE)
    os.chdir(layer)
    own = os.open(layer, os.O_PATH)
    spared = [(os.open(path, os.O_PATH), path) for path in (directory, *_caches())]
    places: dict[str, str] = {}
    refused: dict[str, OSError] = {}
    for name, place in enumerate(_overlaid("/", _mounts(), current)):
        try:
            _overlay(str(name), place)
        except OSError as error:
            refused |= {place: error} if os.access(place, os.W_OK) else {}
        else:
            places[str(name)] = place
        os.fchdir(own)
    if not any(_is_within(current, place) for place in places.values()):
        why = next((refused[place] for place in refused if _is_within(current, place)), None)
        raise why or OSError(0, "other directories are mounted beneath it", current)
    for handle, path in spared:
        if any(_is_within(str(path), place) for place in places.values()):
            _mount(f"/proc/self/fd/{handle}", str(path), flags=_BIND)
        os.close(handle)
    os.close(own)
    os.chdir(current)
    return places, [*refused]


def _unshare() -> None:
    """Create a mount namespace; if that needs a privilege, in a user namespace of the same user."""
    if _libc.unshare(_NEW_MOUNTS) == 0:
        return
    user, group = os.geteuid(), os.getegid()
    _checked(_libc.unshare(_NEW_MOUNTS | _NEW_USER), "unshare")
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")


def _mounts() -> list[str]:
    """Return the mount points of file systems."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    paths = (line.split(" ")[4] for line in lines)
    return [path.encode().decode("unicode_escape") if "\\" in path else path for path in paths]


def _overlaid(place: str, mounts: Sequence[str], here: str) -> Iterator[str]:
    """Yield directories to overlay: the highest ones without mounts below, up to a limit."""
    if not any(_is_within(mount, place) and mount != place for mount in mounts):
        yield place
        return
    try:
        children = [
            entry.path for entry in os.scandir(place) if entry.is_dir(follow_symlinks=False)
        ]
    except OSError:
        return
    children.sort(key=lambda child: (not _is_within(here, child), child))
    for child in children[:_MOST]:
        if child not in _LIVE:
            yield from _overlaid(child, mounts, here)


def _overlay(name: str, place: str) -> None:
    if "," in place or ":" in place or "\\" in place:
        raise OSError(0, "its name can't be given to an overlay", place)
    for part in ("new", "scratch"):
        Path(name, part).mkdir(parents=True)
    options = f"lowerdir={place},upperdir={name}/new,workdir={name}/scratch"
    try:
        _mount("overlay", place, kind="overlay", options=f"{options},userxattr")
    except OSError:
        _mount("overlay", place, kind="overlay", options=options)


def _caches() -> Iterator[Path]:
    """Yield the user's caches: downloads are not results of the program."""
    given = [os.environ[name] for name in _CACHES if os.environ.get(name)]
    for text in given if "XDG_CACHE_HOME" in os.environ else [*given, "~/.cache"]:
        path = Path(text).expanduser()
        if path.is_dir():
            yield path.resolve()


def _is_within(path: str, place: str) -> bool:
    return path == place or path.startswith(place.rstrip("/") + "/")


def _mount(source: str, target: str, *, kind: str = "", flags: int = 0, options: str = "") -> None:
    done = _libc.mount(
        source.encode(), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), options.encode()
    )
    _checked(done, f"mount {target}")


def _checked(done: int, what: str) -> None:
    if done != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
