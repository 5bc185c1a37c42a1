"""Settings rendered for a shell, Slurm, Kubernetes, Python or an env file.

Every form of an environment can be read back: `read_text(render(settings, form))` has the same
settings. Only `slurm` writes a layout, and only `compiler_options` compiler options; the other
forms mention them in comments.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from counterpoint.core import UsageError
from counterpoint.flags import settings
from counterpoint.flags.catalogue.about import documentation_of
from counterpoint.flags.catalogue.flag import Flag, Release
from counterpoint.flags.lifecycle import successors
from counterpoint.flags.settings import Channel, Layout, Settings
from counterpoint.flags.text import join_xla_flags, split_xla_flags
from counterpoint.flags.values import as_option, refusal

__all__ = ["SettingsForm", "one_line", "quoted", "render"]


class SettingsForm(StrEnum):
    """A form to write settings in."""

    ENV = "env"  # lines of an env file: NAME=value
    BASH = "bash"  # export NAME="value"
    PYTHON = "python"  # os.environ before jax starts
    SLURM = "slurm"  # a job script: #SBATCH for the layout, exports
    K8S = "k8s"  # the `env:` list of a container
    COMPILER_OPTIONS = "compiler_options"  # the dict that jax.jit accepts, for one compile


def render(settings: Settings, form: SettingsForm | str, release: Release | None = None) -> str:
    """Return the text, with a final newline.

    Compiler options are written for one release (by default that of the jaxlib installed here, else
    the newest): their values have their own syntax, and whatever no compile accepts is left out
    with a comment.
    """
    match _form(form):
        case SettingsForm.ENV:
            return render_env(settings)
        case SettingsForm.BASH:
            return render_bash(settings)
        case SettingsForm.PYTHON:
            return render_python(settings)
        case SettingsForm.SLURM:
            return render_slurm(settings)
        case SettingsForm.K8S:
            return render_k8s(settings)
        case SettingsForm.COMPILER_OPTIONS:
            return _compiler_options(settings, release)


def _compiler_options(settings: Settings, release: Release | None) -> str:
    from counterpoint.flags.jaxlib import chosen_release

    return render_compiler_options(settings, release or chosen_release())


def _form(form: SettingsForm | str) -> SettingsForm:
    try:
        return SettingsForm(form)
    except ValueError:
        raise UsageError(
            f"{form}: no such form",
            why=f"the forms are {', '.join(SettingsForm)}",
            next="use --as bash",
        ) from None


FLAGS = "XLA_FLAGS"
TPU = "LIBTPU_INIT_ARGS"


def flag_words(settings: Settings) -> tuple[str, ...]:
    """Return XLA's flags, each quoted so that XLA reads it as this flag."""
    return tuple(join_xla_flags([f"--{name}={value}"]) for name, value in settings.xla)


def variables(settings: Settings) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each variable once, with its value in parts that go on lines of their own."""
    if settings.xla:
        yield FLAGS, flag_words(settings)
    for name, value in settings.variables.items():
        if name == TPU:
            yield name, tuple(join_xla_flags([word]) for word in split_xla_flags(value, where=TPU))
        else:
            yield name, (value,)


def remarks(settings: Settings, *, layout: bool = False) -> Iterator[str]:
    """Yield what an environment can't hold; `layout`: the form itself expresses the layout."""
    if not settings.xla and not settings.env:
        yield "No settings."
    if settings.options:
        yield "Compiler options, given to jax.jit or compile in the program:"
        yield from (f"  {name}={one_line(value)}" for name, value in settings.options)
    if settings.layout and not layout and (words := layout_words(settings.layout)):
        yield f"Intended for {words}."


def layout_words(layout: Layout) -> str:
    """Return a layout in words."""
    parts = (
        (layout.hosts, "host", "hosts", ""),
        (layout.processes_per_host, "process", "processes", " on each host"),
        (layout.gpus_per_process, "GPU", "GPUs", " to each process"),
        (layout.cpus_per_process, "CPU", "CPUs", " to each process"),
    )
    words = [
        f"{count} {singular if count == 1 else plural}{where}"
        for count, singular, plural, where in parts
        if count is not None
    ]
    return ", ".join(words)


def one_line(text: str) -> str:
    """Return a text fit for a comment: white space as spaces, unprintable characters escaped."""
    return "".join(map(_printable, " ".join(text.split())))


def double_quoted(text: str) -> str:
    """Quote a text with double quotes, as both Python and YAML read it."""
    return f'"{"".join(_escaped(character) for character in text)}"'


def _escaped(character: str) -> str:
    return "\\" + character if character in '\\"' else _printable(character)


def _printable(character: str) -> str:
    return character if character.isprintable() else f"\\U{ord(character):08x}"


def render_env(settings: Settings) -> str:
    """Return one line for each variable."""
    lines = [f"# {remark}" for remark in remarks(settings)]
    lines += [f"{name}={_value(name, ' '.join(parts))}" for name, parts in variables(settings)]
    return "\n".join([*lines, ""])


def _value(name: str, value: str) -> str:
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    if quoted or any(end in value for end in "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029\0"):
        raise UsageError(
            f"{name}: this value can't be written to an env file: {value!r}",
            why="a value must fit on one line, and some readers keep quotes",
            next="use --as bash",
        )
    return value


_WORDS = ("y", "n", "yes", "no", "on", "off", "true", "false", "null")
"""Words that YAML does not read as text."""


def render_k8s(settings: Settings) -> str:
    """Return the list that goes under a container."""
    lines = [f"# {remark}" for remark in remarks(settings)]
    entries = [line for entry in variables(settings) for line in _entry(*entry)]
    return "\n".join([*lines, "env:" if entries else "env: []", *entries, ""])


def _entry(name: str, parts: tuple[str, ...]) -> Iterator[str]:
    parts = tuple(_without_references(part) for part in parts)
    yield f"- name: {double_quoted(name) if name.lower() in _WORDS else name}"
    plain = all(part.isprintable() and not part.endswith(" ") for part in parts)
    if name in (FLAGS, TPU) and len(parts) > 1 and plain:
        yield "  value: >-"
        yield from (f"    {part}" for part in parts)
    else:
        yield f"  value: {double_quoted(' '.join(parts))}"


def _without_references(text: str) -> str:
    """Double each dollar that Kubernetes would read as the start of a reference, `$(NAME)`."""
    pairs = zip(text, text[1:] + " ", strict=False)
    return "".join(a * 2 if a == "$" and b in "$(" else a for a, b in pairs)


def render_python(settings: Settings) -> str:
    """Return statements for the top of a program."""
    lines = [f"# {remark}" for remark in remarks(settings)]
    lines += ["# Before `import jax`.", "import os", "", *_statements(settings)]
    return "\n".join([*lines, ""])


def _statements(settings: Settings) -> Iterator[str]:
    for name, parts in variables(settings):
        if name in (FLAGS, TPU) and len(parts) > 1:
            yield f'os.environ["{name}"] = ('
            spaced = [*(f"{part} " for part in parts[:-1]), parts[-1]]
            yield from (f"    {double_quoted(part)}" for part in spaced)
            yield ")"
        else:
            yield f'os.environ["{name}"] = {double_quoted(" ".join(parts))}'


Option = bool | int | float | str


@dataclass(frozen=True, slots=True)
class Options:
    """Options with Python values, and those left out, each with its reason."""

    taken: dict[str, Option]
    left_out: tuple[tuple[str, str], ...]


def compiler_options(settings: Settings, release: Release) -> Options:
    """Return the settings that can be given to one compile, as jax.jit and `compile` accept them.

    The values have another syntax than in XLA_FLAGS: bools are True, enum names are written in
    full, and a list replaces the default.
    """
    taken: dict[str, Option] = {}
    left_out: list[tuple[str, str]] = []
    for name, value in settings.flags.items():
        reason = _why_not(name, release)
        if reason is None:
            taken[name] = _option(release.flags[name], _whole(release.flags[name], value))
        elif heirs := _heirs(name, value, release):
            taken |= heirs
        else:
            left_out.append((f"{name}={value}", reason))
    for name, value in settings.options:
        flag = release.flags.get(name)
        taken[name] = _option(flag, value) if flag else _bare(value)
    left_out += [
        (f"{name}={value}", "an environment variable: set it before the program starts")
        for name, value in settings.variables.items()
    ]
    return Options(taken, tuple(left_out))


def render_compiler_options(settings: Settings, release: Release) -> str:
    """Return the dict as a statement, with what is left out in comments."""
    options = compiler_options(settings, release)
    known = "" if release.exact else f" (by the tables of {release.version})"
    call = "jax.jit(step, compiler_options=compiler_options)"
    lines = [f"# For jaxlib {release.asked}{known}: {call}"]
    if settings.layout and (words := layout_words(settings.layout)):
        lines.append(f"# Intended for {words}.")
    lines += _dict(options.taken)
    if options.left_out:
        lines.append("# Left out:")
        lines += [f"#   {one_line(what)}: {why}" for what, why in options.left_out]
    return "\n".join([*lines, ""])


def _dict(taken: dict[str, Option]) -> Iterator[str]:
    if not taken:
        yield "compiler_options = {}"
        return
    yield "compiler_options = {"
    for name, value in taken.items():
        text = double_quoted(value) if isinstance(value, str) else repr(value)
        yield f"    {double_quoted(name)}: {text},"
    yield "}"


def _why_not(name: str, release: Release) -> str | None:
    """Return why a compile does not accept a flag; None if it does."""
    flag = release.flags.get(name)
    if flag is None:
        return f"jaxlib {release.version} does not know it"
    if flag.no_op:
        return f"it has no effect in jaxlib {release.version}"
    if not flag.compile_option:
        return "only XLA_FLAGS accepts it"
    known = documentation_of(name)
    if known and known.process_only:
        return "XLA reads it once per process: set it in XLA_FLAGS"
    return None


def _heirs(name: str, value: str, release: Release) -> dict[str, Option]:
    """Return the options that replace an alias that only XLA_FLAGS accepts."""
    heirs = successors(name, value)
    if not heirs or any(_why_not(heir, release) for heir, _ in heirs):
        return {}
    return {heir: _option(release.flags[heir], text) for heir, text in heirs}


def _whole(flag: Flag, value: str) -> str:
    """Apply changes to the default list, since options do not accept `+NAME`."""
    if flag.type != "enums" or value[:1] not in ("+", "-"):
        return value
    return settings.combine(flag.name, flag.default, value)


def _option(flag: Flag | None, value: str) -> Option:
    if flag is None or refusal(flag, value, Channel.COMPILER_OPTIONS) is not None:
        spelled = as_option(flag, value) if flag else value
    else:
        spelled = value
    return _typed(flag.type if flag else "", spelled)


def _typed(kind: str, value: str) -> Option:
    """Return the Python value if JAX passes it on; text otherwise, as for floats not above 0."""
    if kind == "bool" and value in ("True", "False"):
        return value == "True"
    if kind in ("int32", "int64"):
        try:
            return int(value)
        except ValueError:
            return value
    if kind == "float":
        try:
            number = float(value)
        except ValueError:
            return value
        return number if number > 0 and math.isfinite(number) else value
    return value


def _bare(value: str) -> Option:
    """Parse an option that is not a flag: `optimization_level` must be a number."""
    if value in ("True", "False"):
        return value == "True"
    try:
        return int(value)
    except ValueError:
        return value


_NEXT_LINE = " \\\n"  # between double quotes, bash removes a backslash and the newline after it
_SPECIAL = str.maketrans({character: "\\" + character for character in '\\"$`'})


def render_bash(settings: Settings) -> str:
    """Return exports, to be run or sourced."""
    lines = [f"# {remark}" for remark in remarks(settings)]
    return "\n".join([*lines, *exports(settings), ""])


def exports(settings: Settings) -> Iterator[str]:
    """Yield one export for each variable."""
    for name, parts in variables(settings):
        if name in (FLAGS, TPU) and len(parts) > 1:
            yield f'export {name}="{_NEXT_LINE.join(quoted(part) for part in parts)}"'
        else:
            yield f'export {name}="{quoted(" ".join(parts))}"'


def quoted(value: str) -> str:
    """Escape a value for use between double quotes, in a script or typed into interactive bash.

    Interactive bash expands `!` even between double quotes, so it is written outside of them, as
    octal in `$'...'`. So are unprintable characters.
    """
    return "".join(map(_quoted, value))


def _quoted(character: str) -> str:
    if character != "!" and character.isprintable():
        return character.translate(_SPECIAL)
    octal = "".join(f"\\{byte:03o}" for byte in character.encode())
    return f"\"$'{octal}'\""


def render_slurm(settings: Settings) -> str:
    """Return the job script: `sbatch job.sh python train.py`."""
    lines = ["#!/bin/bash", *_options(settings.layout or Layout()), ""]
    lines += [f"# {remark}" for remark in remarks(settings, layout=True)]
    return "\n".join([*lines, *exports(settings), "", 'srun "$@"', ""])


def _options(layout: Layout) -> Iterator[str]:
    # GPUs are requested per node. If requested per task, Slurm shows each process only its own, and
    # NCCL can't use NVLink to those it does not see.
    tasks, gpus = layout.processes_per_host, layout.gpus_per_process
    if layout.hosts is not None:
        yield f"#SBATCH --nodes={layout.hosts}"
    if tasks is not None:
        yield f"#SBATCH --ntasks-per-node={tasks}"
    if gpus is not None and tasks is not None:
        yield f"#SBATCH --gpus-per-node={gpus * tasks}"
    elif gpus is not None:
        yield f"#SBATCH --gpus-per-task={gpus}"
    if layout.cpus_per_process is not None:
        yield f"#SBATCH --cpus-per-task={layout.cpus_per_process}"
