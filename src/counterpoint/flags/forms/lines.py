"""What all forms of an environment have in common: its variables, and what none of them can say."""

from __future__ import annotations

from collections.abc import Iterator

from counterpoint.flags.layout import Layout
from counterpoint.flags.settings import Settings
from counterpoint.flags.xla_flags import join_xla_flags, split_xla_flags

FLAGS = "XLA_FLAGS"
TPU = "LIBTPU_INIT_ARGS"


def flag_words(settings: Settings) -> tuple[str, ...]:
    """XLA's flags, each as a text that XLA reads as this flag."""
    return tuple(join_xla_flags([f"--{name}={value}"]) for name, value in settings.xla)


def variables(settings: Settings) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each variable once, with its value in the parts that stand on lines of their own."""
    if settings.xla:
        yield FLAGS, flag_words(settings)
    for name, value in settings.variables.items():
        if name == TPU:
            yield name, tuple(join_xla_flags([word]) for word in split_xla_flags(value, where=TPU))
        else:
            yield name, (value,)


def remarks(settings: Settings, *, layout: bool = False) -> Iterator[str]:
    """What an environment can't hold; `layout` where the form itself says it."""
    if not settings.xla and not settings.env:
        yield "No settings."
    if settings.options:
        yield "Compiler options, given to jax.jit or compile in the program:"
        yield from (f"  {name}={one_line(value)}" for name, value in settings.options)
    if settings.layout and not layout and (said := said_of(settings.layout)):
        yield f"Meant for {said}."


def said_of(layout: Layout) -> str:
    """A layout in words."""
    parts = (
        (layout.hosts, "host", "hosts", ""),
        (layout.processes_per_host, "process", "processes", " on each host"),
        (layout.gpus_per_process, "GPU", "GPUs", " to each process"),
        (layout.cpus_per_process, "CPU", "CPUs", " to each process"),
    )
    said = [
        f"{count} {one if count == 1 else many}{where}"
        for count, one, many, where in parts
        if count is not None
    ]
    return ", ".join(said)


def one_line(text: str) -> str:
    """For a comment: spaces for white space, and what can't be printed escaped."""
    return "".join(map(_printable, " ".join(text.split())))


def double_quoted(text: str) -> str:
    """A text in double quotes, as both Python and YAML read it."""
    return f'"{"".join(_escaped(character) for character in text)}"'


def _escaped(character: str) -> str:
    return "\\" + character if character in '\\"' else _printable(character)


def _printable(character: str) -> str:
    return character if character.isprintable() else f"\\U{ord(character):08x}"
