"""Which form a text has: by the name of its file, else by what stands in it."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Final

FORMS: Final = (
    "flags",
    "shell",
    "slurm",
    "python",
    "yaml",
    "env",
    "toml",
    "docker",
    "notebook",
    "text",
)
"""What a source can be told to be."""
ALIASES: Final = {"bash": "shell", "k8s": "yaml", "compiler_options": "python"}
"""Forms that are written under another name than the one under which they are read."""

_SUFFIXES: Final = {
    **dict.fromkeys((".sh", ".bash", ".zsh", ".ksh"), "shell"),
    **dict.fromkeys((".sbatch", ".slurm", ".sub", ".job"), "shell"),
    **dict.fromkeys((".yaml", ".yml", ".tpl"), "yaml"),
    **dict.fromkeys((".md", ".rst", ".log", ".html", ".adoc"), "text"),
    ".py": "python",
    ".ipynb": "notebook",
    ".toml": "toml",
}
_DOCKER_FILE: Final = re.compile(r"(?:docker|container)file(?:[.-][\w.-]+)?$", re.IGNORECASE)
_DOCKER: Final = re.compile(r"\A(?:[ \t\r]*+(?:#[^\n]*+)?\n|ARG [^\n]*+\n)*+FROM[ \t]+[\w.${/-]")
_SOURCED: Final = re.compile(
    r"^[ \t]*(?:export|set|unset|source|\.|echo|if|declare)\s|\\[ \t]*$"
    r"|^[ \t]*\w+=(?:\"[^\"\n]*|'[^'\n]*)$",
    re.MULTILINE,
)
"""What a shell understands and an env file of docker's does not."""
_COMMENTS: Final = re.compile(r"\A(?:[ \t]*+(?:#[^\n]*+)?\n)*+")
_FLAGS: Final = re.compile(
    r"\s*(?!---\s)(?:[-\N{HYPHEN}-\N{EM DASH}\N{MINUS SIGN}]+\w|['\"]\s*--|(?:xla|tf)_\w+)"
)
_ASSIGNED: Final = re.compile(r"^[ \t]*(?:#|export |[A-Z_]+=)", re.MULTILINE)
_PYTHON: Final = re.compile(
    r"^[ \t]*(?:import \w|from [\w.]+ import |os\.environ|jax\.config|@|def \w+\(|class \w"
    r"|\w*compiler_options\w*[ \t]*(?::[^=\n]+)?=|\w+[ \t]*=\s*\{\s*(['\"])[\w.-]+\1\s*:)",
    re.MULTILINE,
)
_YAML: Final = re.compile(r"^(?:---|apiVersion:|kind:|[\w.-]+:(?:[ \t].*)?$)", re.MULTILINE)
_TOML: Final = re.compile(r"^\[(?:xla_flags|env)\]\s*$", re.MULTILINE)
_SHELL: Final = re.compile(
    r"^[ \t]*(?:#!.*sh\b|#SBATCH|export |unset |set -"
    r"|(?:\w++=\S*+[ \t]++)*+(?:srun|mpirun|python3?|env)\s)",
    re.MULTILINE,
)
_BY_CONTENT: Final = (
    *(("docker", _DOCKER), ("toml", _TOML)),
    *(("shell", _SHELL), ("python", _PYTHON)),
)
_LINE: Final = re.compile(r"(?:export[ \t]+)?[A-Za-z_]\w*=")
_QUOTED: Final = re.compile(r"[A-Za-z_]\w*\+?=(?:['\"$(]|\S*$)")


def sniff(text: str, where: str) -> str:
    """One of FORMS."""
    name = PurePath(where).name
    suffix = PurePath(where).suffix.lower()
    if name == ".env" or suffix == ".env":
        return "shell" if _SOURCED.search(text) else "env"
    if suffix == ".dockerfile" or (suffix not in _SUFFIXES and _DOCKER_FILE.search(name)):
        return "docker"
    if known := _SUFFIXES.get(suffix):
        return known
    return _by_content(text)


def _by_content(text: str) -> str:
    bare = _COMMENTS.sub("", text)
    if _FLAGS.match(bare):
        return "flags" if bare == text and not _ASSIGNED.search(text) else "shell"
    if re.match(r"#!.*python", text):
        return "python"
    for form, pattern in _BY_CONTENT:
        if pattern.search(text):
            return form
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    if lines and all(_LINE.match(line) for line in lines):
        return "shell" if all(_QUOTED.match(line) for line in lines) else _assignments(lines)
    if lines and _LINE.match(lines[0]):
        return "shell"
    return "yaml" if _YAML.search(text) else "text"


def _assignments(lines: list[str]) -> str:
    """One line of XLA_FLAGS without quotes is a value as it was pasted, more are an env file."""
    return "flags" if len(lines) == 1 and "FLAGS=" in lines[0] else "env"
