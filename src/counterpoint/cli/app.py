"""The command `counterpoint`, and the only place where errors become text.

A command is named by its import path and loaded when it runs, so `--help` loads none of them. It
prints its result to stdout and returns None (exit code 0) or an exit code. Errors that the user can
fix are raised as a `CounterpointError`; every other exception keeps its traceback.
"""

from __future__ import annotations

import errno
import importlib
import io
import os
import re
import select
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final, Literal, NoReturn, TextIO, get_args, get_origin

from counterpoint import __version__
from counterpoint.cli.commands import COMMANDS, GROUPS, SECTIONS, Command
from counterpoint.core import CounterpointError, UsageError, WriteError
from counterpoint.core.arguments import option_of

if TYPE_CHECKING:
    from cyclopts import App, ArgumentCollection, CoercionError, CycloptsError
    from cyclopts.help import HelpPanel
    from rich.console import Console, ConsoleOptions


_ASKED: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_FILES_TOO: Final = "complete -o bashdefault -o default -F"
"""For words other than options, such as profiles, bash completes file names itself."""


class EndedBySignal(KeyboardInterrupt):
    """Raised when a signal asks the process to end; keeps the exit code of the default handler."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.name = signal.Signals(number).name
        self.exit_code = 128 + number


@contextmanager
def raise_at_signals() -> Generator[None]:
    """Raise `EndedBySignal` where a batch system or a terminal asks this process to end.

    By default they would end this process at once and leave its scratch directories behind. Signals
    that are ignored (nohup) or handled are left alone: `counterpoint run` handles both itself while
    its program runs.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handled = [number for number in _ASKED if signal.getsignal(number) is signal.SIG_DFL]

    def end(number: int, frame: FrameType | None) -> None:
        del frame
        for each in handled:  # schedulers signal twice; do not interrupt the cleanup
            signal.signal(each, signal.SIG_IGN)
        raise EndedBySignal(number)

    for number in handled:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)


INTERRUPTED = 128 + 2  # what a shell reports for a process that SIGINT ended
READER_GONE = 128 + 13  # and for SIGPIPE: `counterpoint ... | head`
_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of writing to a redirected stdout; they lack the file name that opened files have."""


def program() -> NoReturn:
    """Run this process's command line and end the process."""
    sys.exit(main())


def main(arguments: Sequence[str] | None = None, commands: Iterable[Command] = COMMANDS) -> int:
    """Run one command line and return its exit code."""
    _stand_in_for_closed_streams()
    _show_any_name()
    with raise_at_signals():
        return _run(arguments, commands)


def _stand_in_for_closed_streams() -> None:
    """Open /dev/null for closed streams (`>&-`), so that no file takes their descriptors."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115


def _show_any_name() -> None:
    """Let stdout and stderr show as escapes what their encoding does not have."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def _run(arguments: Sequence[str] | None, commands: Iterable[Command]) -> int:
    words = sys.argv[1:] if arguments is None else arguments
    try:
        command = parse(words, commands)
        if "polars" in sys.modules:
            _let_interrupts_through()
        code = command()
        sys.stdout.flush()  # detect a closed pipe here, not at exit
    except CounterpointError as error:
        _say(f"error: {error}")
        return error.exit_code
    except EndedBySignal as end:
        _say(f"ended by {end.name}")
        return end.exit_code
    except KeyboardInterrupt:
        _say("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        if not any(map(_is_broken, (sys.stdout, sys.stderr))):  # another pipe may have broken
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE
    except OSError as failure:
        if failure.filename is not None or failure.errno not in _UNWRITABLE:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing to flush at exit
        _say(f"error: can't write the result: {failure.strerror}")
        return WriteError.exit_code
    return code or 0


def _say(text: str) -> None:
    from counterpoint.cli.printing import say_error

    say_error(text)


def _is_broken(stream: TextIO) -> bool:
    poll = select.poll()
    poll.register(stream.fileno(), 0)  # errors and hang-ups are always reported
    return bool(poll.poll(0))


def _let_interrupts_through() -> None:
    """Let Ctrl-C end a blocking call, for example on a pipe.

    polars, which is loaded by now, has such calls restarted after a signal.
    """
    if threading.current_thread() is threading.main_thread():
        signal.siginterrupt(signal.SIGINT, True)


def app_of(commands: Iterable[Command], called: str = "") -> App:
    """Return all commands; of groups that are also commands, only the called one is loaded."""
    from cyclopts import App, Group, Parameter

    app = App(
        name="counterpoint",
        version=__version__,
        help="Find the communication a JAX training step waits for, and hide it.",
        help_format="plaintext",
        help_formatter=_FilledHelp(),
        default_parameter=Parameter(
            negative=(),  # no --no-json beside --json
            name_transform=_option_name,
            show_default=_shown_default,
        ),
        config=_refuse_fractions,
        group_commands=Group("Commands", sort_key=len(SECTIONS)),
    )
    panels = [Group(title, sort_key=place) for place, title in enumerate(SECTIONS)]
    sections = {
        name: panel
        for panel, names in zip(panels, SECTIONS.values(), strict=True)
        for name in names
    }
    commands = tuple(commands)
    groups: dict[str, App] = {}
    for group in dict.fromkeys(
        command.name.partition(" ")[0] for command in commands if " " in command.name
    ):
        own_command = next((command for command in commands if command.name == group), None)
        groups[group] = App(
            name=group,
            group=sections.get(group),
            help=own_command.summary if own_command else GROUPS[group],
            help_epilogue=_examples(own_command) if own_command else None,
            help_format="plaintext",
        )
        if own_command is not None and group == called:
            groups[group].default(_load(own_command))
    added: set[str] = set()
    for command in commands:
        group, _, name = command.name.rpartition(" ")
        first = group or name
        if first in groups and first not in added:
            app.command(groups[first])
            added.add(first)
        if group or name not in groups:
            (groups[group] if group else app).command(
                command.function,
                name=name,
                help=command.summary,
                help_epilogue=_examples(command),
                group=None if group else sections.get(name),
            )
    return app


class _FilledHelp:
    """The format of the help, with lines that end at its width and not as in the source."""

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        from cyclopts.help import DefaultFormatter
        from rich.text import Text

        for entry in panel.entries:
            text = getattr(entry.description, "primary_renderable", None)
            if isinstance(text, Text):
                text.plain = " ".join(text.plain.split())
        DefaultFormatter()(console, options, panel)

    def render_usage(self, console: Console, options: ConsoleOptions, usage: object) -> None:
        from cyclopts.help import DefaultFormatter

        DefaultFormatter().render_usage(console, options, usage)

    def render_description(self, console: Console, options: ConsoleOptions, text: object) -> None:
        from cyclopts.help import DefaultFormatter

        DefaultFormatter().render_description(console, options, text)


def _option_name(argument: str) -> str:
    return option_of(argument).removeprefix("--")


def _refuse_fractions(app: App, command: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Refuse values of whole numbers that cyclopts would round, or read in another base."""
    from cyclopts import CoercionError

    del app, command
    for argument in arguments:
        if argument.hint is not int and int not in get_args(argument.hint):
            continue
        for token in argument.tokens:
            if not re.fullmatch(r"[+-]?[0-9]{1,18}", token.value.strip()):
                raise CoercionError(token=token, argument=argument, target_type=int)


def _shown_default(value: object) -> str | None:
    """Return a default as the help shows it; None if it only says that nothing was given."""
    says_nothing = value is None or value is False or value in ((), "")
    return None if says_nothing else str(value)


def _examples(command: Command) -> str | None:
    return "\n  ".join(("Examples:", *command.examples)) if command.examples else None


def _load(command: Command) -> Callable[..., int | None]:
    module, _, name = command.function.partition(":")
    function: Callable[..., int | None] = getattr(importlib.import_module(module), name)
    return function


def parse(
    arguments: Sequence[str], commands: Iterable[Command] = COMMANDS
) -> Callable[[], int | None]:
    """Return the call that a command line asks for, or raise a UsageError."""
    from cyclopts import CycloptsError

    _refuse_empty_names(arguments)
    try:
        command, bound, _ = app_of(commands, next(iter(arguments), "")).parse_args(
            list(arguments), print_error=False, exit_on_error=False
        )
    except CycloptsError as error:
        place = " ".join(["counterpoint", *(error.command_chain or ())])
        next_line = _same_of_another(error, arguments, commands) or f"{place} --help"
        raise UsageError(_wrong(error, place), next=next_line) from error
    return partial(command, *bound.args, **bound.kwargs)


_OTHERS_OPTIONS: Final = "run"
"""The command that takes any option: as one of the program that it starts."""


def _same_of_another(
    error: CycloptsError, words: Sequence[str], commands: Iterable[Command]
) -> str | None:
    """Return the command line of a related command that has the option which this one lacks."""
    from cyclopts import UnknownOptionError

    chain = error.command_chain or ()
    if not isinstance(error, UnknownOptionError) or len(chain) != 1 or words[0] != chain[0]:
        return None
    if "Did you mean" in str(error):
        return None
    related = next((names for names in SECTIONS.values() if chain[0] in names), ())
    for name in related:
        if name in (chain[0], _OTHERS_OPTIONS):
            continue
        if line := _taken_by(name, words[1:], commands):
            return line
    return None


def _taken_by(name: str, words: Sequence[str], commands: Iterable[Command]) -> str | None:
    from cyclopts import CycloptsError

    line = [name, *words]
    try:
        app_of(commands, name).parse_args(line, print_error=False, exit_on_error=False)
    except CycloptsError:
        return None
    return shlex.join(["counterpoint", *line])


def _wrong(error: CycloptsError, place: str) -> str:
    """Describe an invalid command line, rephrasing the parser jargon of cyclopts."""
    from cyclopts import CoercionError, MissingArgumentError, UnusedCliTokensError

    if isinstance(error, CoercionError) and error.token is not None and error.msg is None:
        return _not_accepted(error, error.token.value)
    if isinstance(error, UnusedCliTokensError):
        return f"{place}: unexpected argument {' '.join(error.unused_tokens or ())}"
    if isinstance(error, MissingArgumentError) and error.argument is not None:
        keyword = error.keyword or next((token.keyword for token in error.argument.tokens), None)
        name = keyword or error.argument.name
        if error.argument.field_info.is_positional:
            name = name.removeprefix("--").upper()
        return f"{name} needs a value" if keyword else f"{place} needs {name}"
    return str(error)


def _not_accepted(error: CoercionError, given: str) -> str:
    """Describe a value of the wrong type, without the type's Python name."""
    name = error.token.keyword if error.token else None
    if name is None:
        name = error.argument.name.lstrip("-").upper() if error.argument else "the argument"
    if error.target_type is bool:
        return f"{name} is a switch and takes no value, but {given!r} was given"
    choices = [str(choice) for choice in _choices(error.target_type)]
    if choices:
        *others, last = choices
        wanted = f"{', '.join(others)} or {last}" if others else last
    else:
        wanted = _PLAIN_TYPES.get(error.target_type, "another kind of value")
    return f"{name} takes {wanted}, not {given!r}"


_PLAIN_TYPES: Final[dict[object, str]] = {
    int: "a whole number",
    float: "a number",
    Path: "a path",
}


def _choices(accepted: object) -> list[object]:
    """Return the literal values that a type accepts; a union accepts those of all its parts."""
    if get_origin(accepted) is Literal:
        return [*get_args(accepted)]
    return [choice for part in get_args(accepted) for choice in _choices(part)]


def _refuse_empty_names(words: Sequence[str]) -> None:
    """Refuse an empty word where a path or a name is expected: it would mean this directory."""
    own = words[: words.index("--")] if "--" in words else words
    for before, word in pairwise(("", *own)):
        if not word and not before.startswith("-"):
            raise UsageError(
                "an argument is empty",
                why="it stands where a path or a name is expected; is a shell variable unset?",
                next="name what the command takes, such as a file or a directory",
            )


def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print a shell's completion script: every command, its options and their choices.

    Args:
        shell: The shell that reads it.
    """
    from counterpoint.cli.printing import write_file

    script = app_of(COMMANDS, "tune").generate_completion(prog_name="counterpoint", shell=shell)
    write_file(script.replace("complete -F", _FILES_TOO) if shell == "bash" else script)
