"""Installation: one release of JAX with its compiler, in an environment of its own.

Environments are in $XDG_CACHE_HOME/counterpoint/environments (else ~/.cache), or where
COUNTERPOINT_CACHE says. One appears under its name complete or not at all, and is made once: a
second process waits for the first. Where uv makes them, they share their files with its own cache
if the file system can. The least recently used ones go when there are too many.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final, Self

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from counterpoint.compile.interpreter import Interpreter
from counterpoint.core import ArgumentError, CounterpointError, InputError
from counterpoint.core.cache import cache_directory
from counterpoint.core.outputs import whole_directory
from counterpoint.core.scratch import ScratchDirectory
from counterpoint.workflow.upgrade.installer import REQUIREMENTS, BasePython, Installer, Unresolved
from counterpoint.workflow.upgrade.packages import FOR_FUNCTIONS, NO_PACKAGES, CarriedPackages
from counterpoint.workflow.upgrade.pip import Pip
from counterpoint.workflow.upgrade.uv import Uv, find_uv

Say = Callable[[str], None]

NEWEST: Final = "newest"
OLDEST: Final = "0.8.0"
"""The oldest release whose compiler the workers know how to use."""

FORMAT: Final = 1
_MOST: Final = 24
_SHOWN: Final = 6
_LOCK: Final = ".lock"
_CHANGED: Final = "other-versions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """A release of JAX in its environment. `packages` are all that it has, with versions.

    Their names are normalized: uv writes `ml-dtypes` where pip writes `ml_dtypes`.
    """

    jax: str
    jaxlib: str
    python: str  # its minor version
    interpreter: Interpreter = field(repr=False)
    notes: tuple[str, ...] = ()

    @property
    def packages(self) -> dict[str, str]:
        return {
            str(canonicalize_name(name)): version
            for name, version in self.interpreter.versions.items()
        }


class Installations:
    """Makes and finds environments, and keeps them from being removed until its block ends."""

    def __init__(self, packages: CarriedPackages = NO_PACKAGES, *, tpus: bool = False) -> None:
        uv = find_uv()
        self._installer: Installer = Pip() if uv is None else Uv(uv)
        self._packages = packages
        self._extra = "tpu" if tpus else "cuda13-local"
        self._held: list[int] = []
        self._resolved: dict[tuple[str, str], tuple[tuple[str, ...], bool]] = {}

    def __enter__(self) -> Self:
        self._scratch = ScratchDirectory("upgrade")
        cached = cache_directory("environments")
        self._home = self._scratch.path / "environments" if cached is None else cached
        self._home = self._home / f"v{FORMAT}"
        self._source = self._scratch.path / "source"
        self._source.mkdir()
        # Our package alone: its own directory's neighbors would come before those of the release.
        (self._source / "counterpoint").symlink_to(Path(__file__).parents[2])
        return self

    def __exit__(self, *exception: object) -> None:
        for held in self._held:
            os.close(held)
        self._scratch.close()

    def exact(self, text: str, argument: str) -> str:
        """Return the version that the text names; `newest` is asked of the index."""
        if text == NEWEST:
            newest = [self._installer.release(python) for python in self._installer.pythons()]
            known = [version for version in newest if version is not None]
            if not known:
                raise InputError("the package index has no JAX for the installed Pythons")
            return max(known, key=Version)
        instead = NEWEST if argument == "to" else OLDEST
        try:
            version = Version(text)
        except InvalidVersion:
            raise ArgumentError(
                argument,
                text,
                "not a version of JAX",
                why=f"such as 0.10.2, or {NEWEST}",
                instead=instead,
            ) from None
        if version < Version(OLDEST):
            raise ArgumentError(
                argument,
                text,
                f"Counterpoint can't compile with releases before {OLDEST}",
                why="their compilers are told of devices that are not there in other ways",
                instead=instead,
            )
        # As the index has it: 0.10 is 0.10.0, and v0.10.2 is 0.10.2.
        return str(version) if version.release[2:] else f"{version}.0"

    def between(self, first: str, last: str) -> tuple[str, ...]:
        """Return the releases from the first to the last, both included."""
        versions = {first, last}
        for python in {self.python_for(first), self.python_for(last)}:
            versions.update(self._installer.releases(python, first, last))
        return tuple(sorted(versions, key=Version))

    def of(self, versions: Sequence[str], say: Say) -> tuple[Installation, ...]:
        """Return the installations of these releases, all of one Python if there is one."""
        pythons = self._installer.pythons()
        made = (it for it in pythons if all(self._place(one, it).is_dir() for one in versions))
        home = next(made, None)
        if home is None:
            say("asking the package index")
            fit = (it for it in pythons if not any(self._refusal(one, it) for one in versions))
            home = next(fit, None)
        homes = [home or self.python_for(one) for one in versions]  # or an error, before all else
        return tuple(self._made(one, it, say) for one, it in zip(versions, homes, strict=True))

    def python_for(self, version: str) -> BasePython:
        """Return a Python that this release has packages for; raise an error if there is none."""
        refusals = dict[str, Unresolved]()
        for python in self._installer.pythons():
            refusal = self._refusal(version, python)
            if refusal is None:
                return python
            refusals[python.version] = refusal
        raise self._error(version, refusals)

    def _error(self, version: str, refusals: Mapping[str, Unresolved]) -> CounterpointError:
        """Return the error for a release that no installed Python can have."""
        if any(refusal.is_missing_release for refusal in refusals.values()):
            known = set[str]()
            for python in self._installer.pythons():
                known.update(islice(self._installer.releases(python, OLDEST), _SHOWN))
            newest = sorted(known, key=Version, reverse=True)[:_SHOWN]
            return InputError(
                f"the package index has no JAX {version}",
                why=f"the newest releases there: {', '.join(newest)}",
                next="name one of them, or `newest`",
            )
        pythons = ", ".join(refusals)
        if all(refusal.wants_other_python for refusal in refusals.values()):
            return InputError(
                f"JAX {version} has no packages for the Pythons installed here: {pythons}",
                why=next(iter(refusals.values())).shown,
                next=self._installer.get_python,
            )
        told = next(it for it in refusals.values() if not it.wants_other_python)
        needed = ", ".join(it for it in self._packages.requirements if it not in FOR_FUNCTIONS)
        return InputError(
            f"JAX {version} and the packages of the workload do not go together"
            + (f": {needed}" if needed else ""),
            why=told.shown,
            next="use --with PACKAGE, which takes another version of it on both sides",
        )

    def _refusal(self, version: str, python: BasePython) -> Unresolved | None:
        try:
            self._pins(version, python)
        except Unresolved as refusal:
            return refusal
        return None

    def _pins(self, version: str, python: BasePython) -> tuple[tuple[str, ...], bool]:
        """Return all packages of an environment, and whether what they need is of other versions.

        The versions installed now are kept where they resolve.
        """
        known = self._resolved.get((version, python.version))
        if known is None:
            known = self._resolved[version, python.version] = self._resolve(version, python)
        return known

    def _resolve(self, version: str, python: BasePython) -> tuple[tuple[str, ...], bool]:
        wanted = [f"jax[{self._extra}]=={version}", *self._packages.requirements]
        limits = self._packages.limits
        if limits:
            with suppress(Unresolved):
                return self._installer.resolve(wanted, python, limits), False
        return self._installer.resolve(wanted, python), bool(limits)

    def _place(self, version: str, python: BasePython) -> Path:
        packages = self._packages
        parts = [str(python.path), self._extra, *packages.requirements, *packages.limits]
        name = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
        return self._home / f"jax-{version}-py{python.version}-{name}"

    def _made(self, version: str, python: BasePython, say: Say) -> Installation:
        """Return the installation, made now if it is not there; nobody removes it meanwhile."""
        place = self._place(version, python)
        place.parent.mkdir(parents=True, exist_ok=True)
        held = os.open(f"{place}{_LOCK}", os.O_RDWR | os.O_CREAT, 0o600)
        self._held.append(held)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not place.is_dir():
                say(f"waiting for another process that installs jax {version}")
                fcntl.flock(held, fcntl.LOCK_EX)
        if not place.is_dir():
            say(f"installing jax {version} for Python {python.version}, apart from yours")
            self._make(place, version, python)
        fcntl.flock(held, fcntl.LOCK_SH)
        os.utime(place)
        _tidy(self._home)
        return self._installation(place, version, python)

    def _make(self, place: Path, version: str, python: BasePython) -> None:
        pins, changed = self._pins(version, python)
        try:
            with whole_directory(place, overwrite=True) as part:
                self._installer.make(part, python, pins)
                if changed:
                    (part / _CHANGED).touch()
        except Unresolved as refusal:
            raise InputError(
                f"jax {version} could not be installed for Python {python.version}",
                why=refusal.shown,
                next="run the same command again; if it fails again, the message of"
                f" {self._installer.name} says why",
            ) from None

    def _installation(self, place: Path, version: str, python: BasePython) -> Installation:
        lines = (place / REQUIREMENTS).read_text(encoding="utf-8").splitlines()
        pairs = [line.partition("==") for line in lines if "==" in line]
        versions = {name.partition("[")[0]: pinned.split()[0] for name, _, pinned in pairs}
        notes: tuple[str, ...] = ()
        if (place / _CHANGED).exists():
            notes = (f"with jax {version}, packages below those that it imports differ from now's",)
        return Installation(
            jax=version,
            jaxlib=versions.get("jaxlib", version),
            python=python.version,
            interpreter=Interpreter(
                python=place / "bin" / "python", versions=versions, source=self._source
            ),
            notes=notes,
        )


def _tidy(home: Path) -> None:
    """Remove the environments that were not used for longest, if there are too many."""
    kept = [path for path in home.iterdir() if path.is_dir() and not path.name.startswith(".")]
    for place in sorted(kept, key=lambda path: path.stat().st_mtime, reverse=True)[_MOST:]:
        with suppress(OSError):
            held = os.open(f"{place}{_LOCK}", os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)  # an OSError: it is in use
                gone = place.with_name(f".{place.name}.{os.getpid()}.gone")
                place.rename(gone)  # in one step: nobody finds half of it
                shutil.rmtree(gone, ignore_errors=True)
            finally:
                os.close(held)
