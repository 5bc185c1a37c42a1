"""docs/recipes-of-others.md, made of the published recipes and the rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from counterpoint.flags.lint.remark import Remark
from counterpoint.flags.others.published import Published, published
from counterpoint.flags.others.verdict import Effect, Verdict, judge_published, remains_of

VERSIONS: Final = ("0.6.2", "0.8.3", "0.10.2", "0.12.0")

_INTRODUCTION: Final = """\
# Recipes of others

What others publish as flags for JAX on GPUs, held to four releases of jaxlib: which flags end the
process, which do nothing, and what remains. The recipes are facts of public repositories, as they
stood at the commits that are linked; whether they make *your* program faster is not said here.

| word | what it means |
|---|---|
| **unknown** | XLA ends the process at the flag |
| no-op | XLA takes the flag and does nothing with it |
| default | the release does it anyway |
| no effect | nothing reads it on this chip, or without another flag |
| unasked | XLA does it by itself on this chip, for nearly all programs |
| works | it changes what the compiler does |
| old name | the same, and the flag has a new name |
| - | the page names it without a value, and the release has it |

Made by `make docs`; a test holds it to the catalogue.
"""
_ALTERNATIVES: Final = (
    "The page gives alternatives: each flag is judged by itself, without the others of the page."
)
_CODES: Final = ("FLAG105", "FLAG209", "FLAG301", "FLAG302", "FLAG504")
"""What the tables say already, or what costs nothing."""


def recipes_of_others() -> str:
    """The whole page."""
    recipes = published()
    verdicts = {
        recipe.name: [judge_published(recipe, version) for version in VERSIONS]
        for recipe in recipes
    }
    parts = [_INTRODUCTION, _overview(recipes, verdicts)]
    parts += [_section(recipe, verdicts[recipe.name]) for recipe in recipes]
    return "\n".join(parts)


def _overview(recipes: Sequence[Published], verdicts: dict[str, list[Verdict]]) -> str:
    head = [
        "## At a glance",
        "",
        "How many flags of each do not work: **unknown**, or in vain (no-op, default, no effect).",
        "",
        f"| recipe | for | flags | {' | '.join(VERSIONS)} |",
        f"|---|---|---|{'---|' * len(VERSIONS)}",
    ]
    return "\n".join([*head, *(_row(recipe, verdicts[recipe.name]) for recipe in recipes), ""])


def _row(recipe: Published, verdicts: Sequence[Verdict]) -> str:
    cells = [_counted(verdict) for verdict in verdicts]
    link = f"[{recipe.name}](#{_anchor(recipe.name)})"
    return f"| {link} | {recipe.chip} | {len(verdicts[0].effects)} | {' | '.join(cells)} |"


def _counted(verdict: Verdict) -> str:
    unknown = len(verdict.those(Effect.UNKNOWN))
    vain = sum(len(verdict.those(it)) for it in (Effect.NO_OP, Effect.DEFAULT, Effect.IDLE))
    words = [f"**{unknown} unknown**"] if unknown else []
    words += [f"{vain} in vain"] if vain else []
    return ", ".join(words) or "all work"


def _anchor(name: str) -> str:
    kept = (letter for letter in name.lower() if letter.isalnum() or letter in " -")
    return "".join(kept).replace(" ", "-")


def _section(recipe: Published, verdicts: Sequence[Verdict]) -> str:
    links = [f"[{path}]({url})" for path, url in zip(recipe.paths, recipe.urls, strict=True)]
    lines = [f"## {recipe.name}", "", f"For {recipe.chip}. From {', '.join(links)}.", ""]
    if not recipe.together:
        lines += [_ALTERNATIVES, ""]
    lines += _table(recipe, verdicts)
    remarks = _remarks(verdicts)
    lines += ["", *remarks, ""] if remarks else [""]
    lines += _remains(recipe)
    return "\n".join(lines)


def _table(recipe: Published, verdicts: Sequence[Verdict]) -> list[str]:
    given = {one.name: one.value for one in recipe.written.given}
    rows = [f"| flag | {' | '.join(VERSIONS)} |", f"|---|{'---|' * len(VERSIONS)}"]
    for name in verdicts[0].effects:
        value = given.get(name)
        shown = name if value is None else f"{name}={value}"
        cells = (_cell(verdict.effects[name]) for verdict in verdicts)
        rows.append(f"| `{shown}` | {' | '.join(cells)} |")
    return rows


def _cell(effect: Effect) -> str:
    return "**unknown**" if effect is Effect.UNKNOWN else str(effect)


def _remarks(verdicts: Sequence[Verdict]) -> list[str]:
    """What else the rules say, each with the releases for which they do."""
    found: dict[tuple[str, str], _Said] = {}
    for verdict in verdicts:
        for one in verdict.remarks:
            if one.code not in _CODES:
                said = found.setdefault((one.code, _timeless(one, verdict.version)), _Said())
                said.versions[verdict.version] = None
                said.names[one.name] = None
                said.advice[one.advice] = None
    return [
        f"- {_versions([*said.versions])}`{'`, `'.join(said.names)}`: {message};"
        f" {_joined([*said.advice])} ({code})"
        for (code, message), said in found.items()
    ]


@dataclass(frozen=True, slots=True)
class _Said:
    """For which releases, of which settings, and what to do; as sets in order."""

    versions: dict[str, None] = field(default_factory=dict[str, None])
    names: dict[str, None] = field(default_factory=dict[str, None])
    advice: dict[str, None] = field(default_factory=dict[str, None])


def _timeless(one: Remark, version: str) -> str:
    """The message without the release that it was checked for."""
    return one.message.replace(f", this is {version}", "").replace(f"jaxlib {version} ", "jaxlib ")


def _joined(advice: Sequence[str]) -> str:
    """`write --a` and `write --b` as one."""
    verb = "write "
    if len(advice) > 1 and all(text.startswith(verb) for text in advice):
        return verb + " ".join(text.removeprefix(verb) for text in advice)
    return ", or ".join(advice)


def _versions(versions: Sequence[str]) -> str:
    return "" if len(versions) == len(VERSIONS) else f"jaxlib {', '.join(versions)}: "


def _remains(recipe: Published) -> list[str]:
    """One line for releases that agree, the newest first."""
    lines: list[str] = []
    newest_first = [(version, remains_of(recipe, version)) for version in reversed(VERSIONS)]
    for text, agreeing in groupby(newest_first, key=lambda pair: pair[1]):
        versions = ", ".join(version for version, _ in agreeing)
        if text == "":
            lines += [f"What remains with {versions}: nothing.", ""]
        elif text is not None:
            lines += [f"What remains with {versions}:", "", "```sh"]
            lines += [f"export XLA_FLAGS={_quoted(text)}", "```", ""]
    return lines


def _quoted(text: str) -> str:
    words = text.replace(" --", " \\\n  --")
    return f'"{words}"'
