"""The packages that a workload needs beside JAX: carried from the environment that it runs in.

What the workload imports is read from its source, and from the source of its own modules, without
running it. Each package that provides such a module is required at the version installed now, and
what those need is held to the versions installed now. JAX's own packages are not carried: they come
with each release.
"""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from counterpoint.core import ArgumentError, InputError

FOR_FUNCTIONS: Final = ("msgspec", "numpy", "polars", "protobuf")
"""What Counterpoint imports where it lowers a function."""

_OF_JAX: Final = frozenset({"jax", "jaxlib", "libtpu", "ml-dtypes", "numpy", "opt-einsum", "scipy"})
_APART: Final = ("jax-cuda", "nvidia-", "jax-rocm")
_OWN: Final = frozenset({"counterpoint", "pip", "setuptools", "wheel", "uv"})
_WITH_VALUE: Final = ("-W", "-X")  # options of Python whose value is the next word
_MOST_FILES: Final = 400

_LISTING: Final = """\
import json, sys
from importlib import metadata
listed = []
for it in metadata.distributions():
    name = it.metadata["Name"]
    if name:
        direct = it.read_text("direct_url.json")
        listed.append([name, it.version, json.loads(direct) if direct else None, it.requires or []])
print(json.dumps([listed, metadata.packages_distributions(), list(sys.stdlib_module_names)]))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedPackages:
    """Requirements of a workload; `limits` hold what those need to the versions installed now."""

    requirements: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    origin: str = ""  # the Python that they are carried from

    def installed_from(self, place: Path) -> str | None:
        """Return a requirement that Python imports from below this directory, if there is one."""
        inside = (
            text
            for text in self.requirements
            if text.startswith(_EDITABLE)
            and Path(text.removeprefix(_EDITABLE)).is_relative_to(place)
        )
        return next(inside, None)

    def having(self, more: Sequence[str]) -> CarriedPackages:
        """Return these with other requirements, which take the place of those of the same name."""
        given = {_name_of(text): text for text in more}
        kept = {_name_of(text): text for text in self.requirements}
        return replace(
            self,
            requirements=tuple({**kept, **given}.values()),
            limits=tuple(text for text in self.limits if _name_of(text) not in given),
        )


_EDITABLE: Final = "-e file://"

NO_PACKAGES: Final = CarriedPackages()


def _name_of(text: str) -> str:
    if text.startswith("-e "):
        return text
    try:
        return canonicalize_name(Requirement(text).name)
    except InvalidRequirement as error:
        raise ArgumentError(
            "with", text, "not a requirement", why=str(error).partition("\n")[0], instead="optax"
        ) from None


def packages_of_function(text: str, cwd: Path) -> CarriedPackages:
    """Return what `file.py:function` or `package.module:function` needs."""
    home = text.rpartition(":")[0]
    here = _listed(Path(sys.executable))
    if home.endswith(".py"):
        start, place = [cwd / home], (cwd / home).parent
        return here.needed(_imported(start, place), FOR_FUNCTIONS)
    return here.needed({home.partition(".")[0], *_of_local(home, cwd)}, FOR_FUNCTIONS)


def packages_of_command(command: Sequence[str], cwd: Path) -> CarriedPackages:
    """Return what a command needs that starts Python: `python train.py`, `python -m pkg`, a script.

    Nothing is carried for another program: its packages can't be known.
    """
    executable = shutil.which(command[0])
    if executable is None:
        return NO_PACKAGES
    if Path(command[0]).name.startswith("python"):
        python, words = Path(executable), list(command[1:])
        while words and words[0].startswith("-") and words[0] != "-m":
            del words[: 2 if words[0] in _WITH_VALUE else 1]
    else:
        first = Path(executable).read_bytes()[:256].partition(b"\n")[0].decode(errors="replace")
        if not (first.startswith("#!") and "python" in first):
            return NO_PACKAGES
        program = first[2:].split()[0]
        python = Path(program) if Path(program).is_file() else Path(sys.executable)
        words = [executable]
    here = _listed(python)
    if words[:1] == ["-m"]:
        module = words[1] if words[1:] else ""
        return here.needed({module.partition(".")[0], *_of_local(module, cwd)})
    script = cwd / words[0] if words else cwd
    return here.needed(_imported([script], script.parent)) if script.is_file() else NO_PACKAGES


def _of_local(module: str, cwd: Path) -> set[str]:
    """Return the imports of a module, if it is below `cwd`."""
    file = cwd.joinpath(*module.split("."))
    return _imported([file.with_suffix(".py"), file / "__init__.py", file / "__main__.py"], cwd)


def _imported(files: Iterable[Path], place: Path) -> set[str]:
    """Return the names of the modules that these files import, and those beside them in turn."""
    waiting, seen, names = deque(files), set[Path](), set[str]()
    while waiting and len(seen) < _MOST_FILES:
        file = waiting.popleft()
        if file in seen or not file.is_file():
            continue
        seen.add(file)
        for module in _imports_in(file, place):
            names.add(module.partition(".")[0])
            parts = module.split(".")
            for depth in range(1, len(parts) + 1):
                local = place.joinpath(*parts[:depth])
                waiting.extend((local.with_suffix(".py"), local / "__init__.py"))
    return names


def _imports_in(file: Path, place: Path) -> Iterator[str]:
    """Yield the modules that a file imports, wherever in it; none if it can't be parsed."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, OSError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                try:
                    parent = file.parents[node.level - 1].relative_to(place).parts
                except (ValueError, IndexError):
                    continue
                base = ".".join([*parent, *([base] if base else [])])
            yield from ([base] if base else [])
            yield from (f"{base}.{alias.name}".lstrip(".") for alias in node.names)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listing:
    """What an environment has: its packages by normalized name, and who provides which module."""

    python: str
    versions: Mapping[str, str]
    direct: Mapping[str, dict[str, Any]]
    needs: Mapping[str, tuple[str, ...]]
    providers: Mapping[str, tuple[str, ...]]

    def needed(self, modules: Iterable[str], also: Sequence[str] = ()) -> CarriedPackages:
        """Return the packages that provide these modules; others are the workload's own files."""
        direct = {name for module in modules for name in self.providers.get(module, ())}
        wanted = {name for name in direct if not _comes_with_jax(name) and name not in _OWN}
        below = self._below(wanted) - wanted
        required = [*also, *(self._requirement(name) for name in sorted(wanted))]
        return CarriedPackages(
            requirements=tuple(required),
            limits=tuple(
                f"{name}=={self.versions[name]}"
                for name in sorted(below)
                if not _comes_with_jax(name) and name not in _OWN and name not in self.direct
            ),
            origin=self.python,
        )

    def _requirement(self, name: str) -> str:
        origin = self.direct.get(name)
        if origin is None:
            return f"{name}=={self.versions[name]}"
        url: str = origin["url"]
        if origin.get("dir_info", {}).get("editable"):
            return f"-e {url}"
        vcs = origin.get("vcs_info")
        return f"{name} @ {vcs['vcs']}+{url}@{vcs['commit_id']}" if vcs else f"{name} @ {url}"

    def _below(self, names: Iterable[str]) -> set[str]:
        """Return the installed packages that these need, and what those need."""
        waiting, seen = deque(names), set[str]()
        while waiting:
            for name in self.needs.get(waiting.popleft(), ()):
                if name in self.versions and name not in seen:
                    seen.add(name)
                    waiting.append(name)
        return seen


def _comes_with_jax(name: str) -> bool:
    return name in _OF_JAX or name.startswith(_APART)


def _listed(python: Path) -> _Listing:
    done = subprocess.run(  # noqa: S603  the workload's own Python
        [str(python), "-c", _LISTING], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise InputError(
            f"{python} can't list its packages, which the workload needs",
            why=(done.stderr.strip().splitlines() or ["it printed nothing"])[-1],
            next="start the workload with a Python of 3.10 or later",
        )
    packages, providers, standard = json.loads(done.stdout)
    versions = {str(canonicalize_name(name)): str(version) for name, version, _, _ in packages}
    return _Listing(
        python=str(python),
        versions=versions,
        direct={canonicalize_name(name): origin for name, _, origin, _ in packages if origin},
        needs={
            canonicalize_name(name): tuple(_names_in(requires)) for name, _, _, requires in packages
        },
        providers={
            module: tuple(canonicalize_name(name) for name in names)
            for module, names in providers.items()
            if module not in standard
        },
    )


def _names_in(requirements: Iterable[str]) -> Iterator[str]:
    for text in requirements:
        try:
            required = Requirement(text)
        except InvalidRequirement:
            continue
        if required.marker is None or required.marker.evaluate({"extra": ""}):
            yield canonicalize_name(required.name)
