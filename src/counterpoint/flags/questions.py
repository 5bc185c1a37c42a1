"""Questions: how an interpreter's XLA is asked about flags and compiler options, and its answer."""

from __future__ import annotations

from collections.abc import Mapping

from counterpoint.core.errors import CounterpointError
from counterpoint.flags.channel import Channel
from counterpoint.flags.confirm import as_text
from counterpoint.flags.interpreter import Interpreter
from counterpoint.flags.probe import Answer, ask
from counterpoint.flags.written import Given


def ask_compiler(interpreter: Interpreter, asked: Mapping[Channel, tuple[Given, ...]]) -> Answer:
    """What its XLA refuses; a note where it can't be asked."""
    try:
        return ask(interpreter.python, as_text(asked[Channel.XLA_FLAGS]))
    except CounterpointError as failure:
        return Answer(note=failure.what)
