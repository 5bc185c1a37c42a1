"""Questions: how an interpreter's XLA is asked about flags and compiler options, and its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from counterpoint.core.errors import CounterpointError
from counterpoint.flags.channel import Channel
from counterpoint.flags.live.interpreter import Interpreter
from counterpoint.flags.live.option_probe import Value, ask_options
from counterpoint.flags.live.probe import Answer, ask
from counterpoint.flags.written import Given
from counterpoint.flags.xla_flags import render_xla_flags


def ask_compiler(interpreter: Interpreter, asked: Mapping[Channel, tuple[Given, ...]]) -> Answer:
    """What its XLA refuses; a note where it can't be asked."""
    flags, options = asked[Channel.XLA_FLAGS], asked[Channel.COMPILER_OPTIONS]
    answers: list[Answer] = []
    try:
        if flags:
            answers.append(ask(interpreter.python, _as_text(flags)))
        if options:
            answers.append(_ask_options(interpreter, options))
    except CounterpointError as failure:
        return Answer(note=failure.what)
    rejected = tuple(one for answer in answers for one in answer.rejected)
    note = next((answer.note for answer in answers if answer.note), None)
    version = next((answer.version for answer in answers if answer.version), None)
    return Answer(rejected, version, note)


def _ask_options(interpreter: Interpreter, options: tuple[Given, ...]) -> Answer:
    """Asked by values of Python, answered by the text that was written."""
    written = {(one.name, str(_python(one))): one.value for one in options}
    answer = ask_options(interpreter.python, [(one.name, _python(one)) for one in options])
    rejected = (
        replace(one, value=written.get((one.name, one.value or ""), one.value))
        for one in answer.rejected
    )
    return replace(answer, rejected=tuple(rejected))


def _python(one: Given) -> Value:
    """What Python would most likely hold, of which only the text is known."""
    text = one.meant
    if text in ("True", "False"):
        return text == "True"
    if text.isascii() and text.removeprefix("-").isdecimal():
        return int(text)
    try:
        return float(text) if one.name.endswith("_effort") else text
    except ValueError:
        return text


def _as_text(given: tuple[Given, ...]) -> str:
    """Flags as the text of XLA_FLAGS."""
    return " ".join(
        f"--{one.name}" if one.value is None else render_xla_flags([(one.name, one.meant)])
        for one in given
    )
