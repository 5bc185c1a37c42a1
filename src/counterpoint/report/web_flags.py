"""docs/flags-from-the-web.md: what became of each setting that five published pages recommend.

All of it is computed, from the pages as they are (`flags/others`), the catalogue and the recipes.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Final

from counterpoint.flags.catalogue import Release, release
from counterpoint.flags.catalogue.about import Reader, about
from counterpoint.flags.channel import Channel
from counterpoint.flags.gone import gone
from counterpoint.flags.lint.spelling import refusal
from counterpoint.flags.lint.succession import is_default_now
from counterpoint.flags.others.page import Advice, Page, pages
from counterpoint.flags.others.standing import State, default_of, is_default, standing
from counterpoint.flags.showing import related_recipes

RELEASES: Final = ("0.6.2", "0.8.3", "0.10.2", "0.12.0")

_HEAD: Final = """# Flags from the web, and what became of them

Made by `make docs`; a test holds it to that. One table per page,
one row per setting that the page recommends or explains, with the value as the page gives it.

- **0.6.2 ... 0.12**: whether that jaxlib takes it in `XLA_FLAGS`, or JAX reads it. At `no` and `not
  yet` XLA ends the process; `ignored` is taken and does nothing; `old name` sets another flag;
  `option` is taken by `compiler_options` only. Where a program is named (NCCL, libtpu), that one
  reads it, whatever the jaxlib.
- **instead**: what does it today, where it is gone, renamed, or not the best way any more.
- **default today**: of jaxlib {newest}; of variables and options of others as they document it.
- **default already?**: whether the page's value is what holds anyhow, so that it can be left out;
  `ends the process`: the flag is there, and does not take this value.
- **recipe**: recipes of Counterpoint that set it (`counterpoint flags recommend`), or leave it out
  and say why. `counterpoint flags show NAME` tells more of each.
"""
_COLUMNS: Final = ("setting", "the page", *("0.6.2", "0.8.3", "0.10.2", "0.12"))
_LAST_COLUMNS: Final = ("instead", "default today", "default already?", "recipe")
_SHORT: Final = {State.OPTION: "option", State.UNREAD: "nobody"}
_OTHERS: Final = {
    Reader.NCCL: "NCCL",
    Reader.CUDA: "CUDA",
    Reader.LIBTPU: "libtpu",
    Reader.LEVANTER: "Levanter",
    Reader.KERNEL: "Linux",
}
_LONGEST: Final = 48
_SOME: Final = 3


def web_flags_markdown() -> str:
    """The whole document."""
    known = [release(version) for version in RELEASES]
    parts = [_HEAD.format(newest=known[-1].version)]
    parts += ["\n".join(_page(page, known)) for page in pages()]
    parts.append("\n".join(_traps(known[-1].version)))
    return "\n".join(parts) + "\n"


def _traps(version: str) -> Iterator[str]:
    """What surprises about the settings of all pages, in today's release."""
    yield "## What surprises about them"
    yield ""
    yield f"What holds for jaxlib {version}, for all pages."
    for name in dict.fromkeys(advice.name for page in pages() for advice in page.settings):
        text = about(name)
        notes = text.told(version) if text else ()
        if notes:
            yield ""
            yield f"`{name}`"
            yield ""
            yield from (_wrapped(note) for note in notes)


def _wrapped(note: str) -> str:
    return textwrap.fill(
        note,
        100,
        initial_indent="- ",
        subsequent_indent="  ",
        break_on_hyphens=False,
        break_long_words=False,
    )


def _page(page: Page, known: list[Release]) -> Iterator[str]:
    yield f"## {page.title}"
    yield ""
    yield f"<{page.url}>"
    yield ""
    yield _row((*_COLUMNS, *_LAST_COLUMNS))
    yield _row(("---",) * (len(_COLUMNS) + len(_LAST_COLUMNS)))
    for advice in page.settings:
        yield _row(cells(advice, known))
    yield ""


def cells(advice: Advice, known: list[Release]) -> tuple[str, ...]:
    """One row: the last release is today's."""
    states = [standing(advice.name, one) for one in known]
    return (
        f"`{advice.name}`",
        _given(advice),
        *(_word(advice.name, state) for state in states),
        _instead(advice, states[-1], known[-1]),
        _default(advice, known[-1]),
        " / ".join(dict.fromkeys(filter(None, _judged(advice, known[-1])))),
        ", ".join(_recipe(name, what) for name, what in related_recipes(advice.name)),
    )


def _word(name: str, state: State) -> str:
    text = about(name)
    if state is State.TAKEN and text is not None and text.kind in _OTHERS:
        return _OTHERS[text.kind]
    return _SHORT.get(state, str(state))


def _given(advice: Advice) -> str:
    if not advice.named:
        whose = advice.source.split("/")[4]
        return f"TCP parameters, unnamed; this one is from [{whose}]({advice.source})"
    values = " or ".join(_code(value) for value in advice.values)
    says = f"default {_code(advice.says)}" if advice.says is not None else ""
    return "; ".join(part for part in (values, says) if part) or "named"


def _instead(advice: Advice, state: State, today: Release) -> str:
    name = advice.name
    text, removed = about(name), gone(name)
    use = (text.use if text else ()) or (removed.use if removed else ())
    if use and _by_default(use, advice, today):
        return f"drop it: {', '.join(_code(one) for one in use)} does it by default"
    if use:
        return ", ".join(f"`{one}`" for one in use)
    if state in (State.GONE, State.UNREAD, State.NO_OP):
        return "drop it"
    if text and text.kind is Reader.LIBTPU:
        return "`LIBTPU_INIT_ARGS`"
    return _other_values(advice, today)


def _by_default(use: tuple[str, ...], advice: Advice, today: Release) -> bool:
    """Whether what took a flag's place does by itself what the page asks for."""
    heirs = [today.flags.get(one) for one in use if one != advice.name]
    return bool(heirs and advice.values) and all(
        heir is not None and heir.type == "bool" and heir.is_default(value)
        for heir in heirs
        for value in advice.values
    )


def _other_values(advice: Advice, today: Release) -> str:
    """What a flag takes whose value on the page ends the process."""
    flag = today.flags.get(advice.name)
    refused = [refusal(flag, value, Channel.XLA_FLAGS) for value in advice.values] if flag else []
    if flag is None or not any(refused):
        return ""
    if flag.type == "enums":
        real = [one for one in flag.values if one != "INVALID"]
        some = ", ".join(_code(one) for one in real[:_SOME])
        return f"names, as {some}; or empty"
    takes = next(one.takes for one in refused if one)
    return f"a value that it takes: {takes}"


def _default(advice: Advice, today: Release) -> str:
    default = default_of(advice.name, today)
    if default is None:
        return _heirs_default(advice.name, today)
    if advice.says is not None and not is_default(advice.name, advice.says, today):
        return f"{_code(default)}, not {_code(advice.says)}"
    return _code(default)


def _heirs_default(name: str, today: Release) -> str:
    """Of an old name: what the flag that it sets has by itself."""
    flag = today.flags.get(name)
    heir = today.flags.get(flag.alias_of) if flag and flag.alias_of else None
    return f"{_code(heir.default)} of `{heir.name}`" if heir else ""


def _judged(advice: Advice, today: Release) -> Iterator[str]:
    if standing(advice.name, today) is not State.NO_OP:
        yield from (_already(advice, value, today) for value in advice.values)


def _already(advice: Advice, value: str, today: Release) -> str:
    """Whether a value of the page says what holds anyhow."""
    if is_default(advice.name, value, today) or is_default_now(advice.name, value):
        return "yes"
    flag = today.flags.get(advice.name)
    if flag is not None and refusal(flag, value, Channel.XLA_FLAGS) is not None:
        return "ends the process"
    return "no" if default_of(advice.name, today) is not None or flag is not None else ""


def _recipe(name: str, what: str) -> str:
    return f"{name} (left out)" if what.startswith("left out") else name


def _code(text: str) -> str:
    """As code that a table can hold."""
    short = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    return f"`{short}`" if short else "empty"


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
