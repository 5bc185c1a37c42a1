"""Arguments in texts, and the advice to make a call again with others."""

from __future__ import annotations

from counterpoint.cli.next_command import with_whole_command
from counterpoint.cli.wording import word_error
from counterpoint.core import ArgumentError, UsageError
from counterpoint.core.arguments import (
    Retry,
    arguments_in,
    option_words,
    rename_arguments,
    reword_arguments,
)


def test_a_text_names_arguments_with_and_without_a_value() -> None:
    text = "raise `candidates=`, or set `budget=2 h`; `step N` and `NAME=value` are none"
    assert arguments_in(text) == {"candidates": "", "budget": "2 h"}
    assert reword_arguments(text, lambda name, value: f"<{name}|{value}>") == (
        "raise <candidates|>, or set <budget|2 h>; `step N` and `NAME=value` are none"
    )


def test_arguments_are_renamed_for_a_caller_that_calls_them_otherwise() -> None:
    assert rename_arguments("`timeout=5` and `out=`", {"timeout": "compile_timeout"}) == (
        "`compile_timeout=5` and `out=`"
    )
    error = UsageError("`module=x`: no such module", why="see `module=`", next=Retry({"module": 1}))
    error.rename({"module": "program"})
    assert str(error) == ("`program=x`: no such module\n  why: see `program=`\n  next: `program=1`")


def test_an_argument_error_says_what_to_pass_instead() -> None:
    error = ArgumentError("params", "x", "not a number", instead="1e9", beside={"layers": 32})
    assert error.what == "`params=x`: not a number"
    assert error.next == Retry({"params": "1e9", "layers": 32})
    assert ArgumentError("layers", 0, "not positive").next is None


def test_a_retry_reads_as_arguments() -> None:
    assert str(Retry({"force": True, "step": 3}, remark="the first")) == (
        "`force=` `step=3`   # the first"
    )
    assert str(Retry(without=("ranks",))) == "omit `ranks=`"


def test_options_of_a_program_are_words() -> None:
    given = {"no_profile": True, "ranks": 2, "timeout": None, "env": ("A=1", "-B=2")}
    assert option_words(given) == ["--no-profile", "--ranks", "2", "--env", "A=1", "--env=-B=2"]


def test_a_retry_becomes_the_command_with_its_mistake_mended() -> None:
    error = UsageError("both", next=Retry({"top": 5}, without=("step",), remark="enough"))
    words = ("explain", "a.pb", "--step", "9", "--top", "0")
    whole = with_whole_command(word_error(error), words, lambda line: "9" not in line)
    assert whole.next == "counterpoint explain a.pb --top 5   # enough"


def test_a_retry_that_fits_no_command_is_worded_as_options() -> None:
    error = UsageError("no GPU", next=Retry({"ranks": "N"}))
    worded = with_whole_command(error, ("run",), lambda _: False).next
    assert str(worded).endswith(" --ranks N")
