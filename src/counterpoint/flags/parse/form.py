"""The form of a text: by the name of its file, or else by what is written in it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from counterpoint.flags.settings import is_setting

FORMS: Final = (
    *("flags", "shell", "slurm", "python", "notebook", "yaml", "env", "toml", "docker"),
    *("markdown", "text"),
)
"""The forms that a source can be declared to have."""
ALIASES: Final = {"bash": "shell", "k8s": "yaml", "compiler_options": "python"}
"""Alternative names of forms."""

SUFFIXES: Final = {
    **dict.fromkeys((".sh", ".bash", ".zsh", ".ksh"), "shell"),
    **dict.fromkeys((".sbatch", ".slurm", ".sub", ".job"), "shell"),
    **dict.fromkeys((".yaml", ".yml", ".tpl", ".json"), "yaml"),
    **dict.fromkeys((".md", ".rst", ".mdx", ".adoc"), "markdown"),
    **dict.fromkeys((".log", ".html"), "text"),
    ".py": "python",
    ".ipynb": "notebook",
    ".toml": "toml",
}
_OF_TEMPLATE: Final = re.compile(r"\.(?:j2|jinja2?|tmpl|template|in)$")
_DOCKER_FILE: Final = re.compile(r"(?:docker|container)file(?:[.-][\w.-]+)?$", re.IGNORECASE)
_DOCKER: Final = re.compile(r"\A(?:[ \t\r]*+(?:#[^\n]*+)?\n|ARG [^\n]*+\n)*+FROM[ \t]+[\w.${/-]")
_SOURCED: Final = re.compile(
    r"^[ \t]*(?:export|set|unset|source|\.|echo|if|declare)\s|\\[ \t]*$"
    r"|^[ \t]*\w+=(?:\"[^\"\n]*|'[^'\n]*)$",
    re.MULTILINE,
)
"""Lines that a shell accepts, but not a docker env file."""
_COMMENTS: Final = re.compile(r"\A(?:[ \t]*+(?:#[^\n]*+)?\n)*+")
_ALL_FLAGS: Final = re.compile(
    r"\s*(?!---\s)(?:[-\N{HYPHEN}-\N{EM DASH}\N{MINUS SIGN}]+\w|['\"]\s*--|(?:xla|tf)_\w+)"
)
_ASSIGNED: Final = re.compile(r"^[ \t]*(?:#|export |[A-Z_]+=)", re.MULTILINE)
_PROGRAM: Final = re.compile(
    r"^[ \t]*(?:import \w|from [\w.]+ import |os\.environ|jax\.config|@|def \w+\(|class \w"
    r"|(?=\w*compiler_options)\w++[ \t]*(?::[^=\n]+)?=|\w+[ \t]*=\s*\{\s*(['\"])[\w.-]+\1\s*:)",
    re.MULTILINE,
)
_YAML: Final = re.compile(r"^(?:---|apiVersion:|kind:|[\w.-]+:(?:[ \t].*)?$)", re.MULTILINE)
_TOML: Final = re.compile(r"^\[(?:xla_flags|env)\]\s*$", re.MULTILINE)
_SCRIPT: Final = re.compile(
    r"^[ \t]*(?:#!.*sh\b|#SBATCH|export |unset |set -"
    r"|(?:\w++=\S*+[ \t]++)*+(?:srun|mpirun|mpiexec|python[\d.]*|env|uvx?|poetry|torchrun|nsys)\s)",
    re.MULTILINE,
)
_BY_CONTENT: Final = (
    *(("docker", _DOCKER), ("toml", _TOML)),
    *(("shell", _SCRIPT), ("python", _PROGRAM)),
)
_SET_LINE: Final = re.compile(r"(?:export[ \t]+)?[A-Za-z_]\w*=")
_SET_QUOTED: Final = re.compile(r"[A-Za-z_]\w*\+?=(?:['\"$(]|\S*$)")


def sniff(text: str, where: str) -> str:
    """Recognize the form, one of FORMS."""
    name = _OF_TEMPLATE.sub("", Path(where).name)
    suffix = Path(name).suffix.lower()
    if name == "pyproject.toml":  # no recipe
        return "text"
    if name == ".env" or suffix == ".env":
        return "shell" if _SOURCED.search(text) else "env"
    if suffix == ".dockerfile" or (suffix not in SUFFIXES and _DOCKER_FILE.search(name)):
        return "docker"
    if known := SUFFIXES.get(suffix):
        return known
    return by_content(text)


def by_content(text: str) -> str:
    """Recognize the form of a text by its lines."""
    bare = _COMMENTS.sub("", text)
    if _ALL_FLAGS.match(bare):
        return "flags" if bare == text and not _ASSIGNED.search(text) else "shell"
    if re.match(r"#!.*python", text):
        return "python"
    for form, pattern in _BY_CONTENT:
        if pattern.search(text):
            return form
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    if lines and all(_SET_LINE.match(line) for line in lines):
        return _assignments(lines)
    if lines and _SET_LINE.match(lines[0]):
        return "shell"
    return "yaml" if _YAML.search(text) else "text"


def _names_several(line: str) -> bool:
    """Return whether a line sets several variables, as only a shell does: `A=1 B=2`."""
    matches = [match for match in map(_SET_LINE.match, line.split()) if match]
    names = [match[0].removesuffix("=") for match in matches]
    return len(names) > 1 and len(names) == len(line.split()) and all(map(is_setting, names))


def _assignments(lines: list[str]) -> str:
    """Return the form of NAME=value lines: one XLA_FLAGS line is `flags`, more are an env file."""
    if all(_SET_QUOTED.match(line) for line in lines) or any(map(_names_several, lines)):
        return "shell"
    return "flags" if len(lines) == 1 and "FLAGS=" in lines[0] else "env"
