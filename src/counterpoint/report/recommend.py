"""The report of `flags recommend`: settings with reasons, omissions, and a script."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from counterpoint.core.field import Field
from counterpoint.core.printable import counted_noun
from counterpoint.flags.forms import render
from counterpoint.flags.recommendation import (
    NO_CHANGE,
    LineEffect,
    Recommendation,
    RecommendedLine,
    change_text,
)
from counterpoint.flags.settings import Channel
from counterpoint.report.document import (
    Document,
    Fact,
    FactList,
    NumberedItem,
    Prose,
    Section,
    Tone,
    printable,
    table,
    words,
)
from counterpoint.report.json import At, Result, TextOrNull, fill, json_text

__all__ = ["recommendation_document", "recommendation_json", "recommendation_text"]

_LEGEND: Final = (
    "These are candidates; confirm them by measuring. On a well-tuned run, most single flags have"
    " no effect or cost time (in published sweeps, between 4% slower and 1% faster; repeated runs"
    " were 1.3% apart). Compare several whole runs of each."
)

_PREDICTED_LEGEND: Final = (
    "Each flag was compiled with this program, and its step predicted; a difference below 1.5% is"
    " within the error of a prediction. Variables are read when the program runs, and have none."
    " Confirm by measuring several whole runs of each."
)

_NONE: Final = "None: the recommendations of the guides are defaults here, or have no effect."
_NONE_ON_TPU: Final = (
    "None: the recipes are for GPUs. For TPUs, only settings for several slices are known:"
    " --for multislice."
)


def recommendation_text(recommendation: Recommendation, form: str) -> str:
    """Return the settings in a form that can be run, followed by the reasons as comments."""
    text = render(recommendation.settings, form, recommendation.situation.release)
    return text + "\n" + "\n".join(_comments(recommendation)) + "\n"


def _comments(recommendation: Recommendation) -> list[str]:
    lines = [f"# {_situation(recommendation)}", "# Candidates; confirm by measuring:"]
    lines += [
        f"# {advised.line.name}: {advised.line.reason} ({_ground(advised)})"
        for advised in recommendation.lines
    ]
    lines += [f"# {name}: {text}" for name, text in recommendation.advice]
    return [printable(line) for line in lines]


def _ground(one: RecommendedLine) -> str:
    return f"predicted {one.effect}" if one.effect is not None else one.line.basis


def recommendation_document(recommendation: Recommendation, top: int, next: str) -> Document:
    """Return the report; `next` is the command that checks its claims."""
    entries = [_entry(at, advised) for at, advised in enumerate(recommendation.lines, 1)]
    none = Prose(_NONE_ON_TPU if recommendation.situation.on_tpu else _NONE)
    sections = [
        Section("Settings", _situation(recommendation), tuple(entries) or (none,)),
    ]
    if recommendation.together is not None:
        together = f"{recommendation.together}, predicted, without the device"
        sections.append(Section("All flags together", together))
    if recommendation.advice or recommendation.layout is not None:
        rows = [Fact(name, text) for name, text in recommendation.advice]
        if recommendation.layout is not None and recommendation.layout.gpus_per_process is not None:
            rows.append(Fact("GPUs per process", str(recommendation.layout.gpus_per_process)))
        sections.append(Section("Other advice", "", (FactList(tuple(rows)),)))
    if recommendation.dropped:
        sections.append(_left_out(recommendation, top))
    return Document(
        sections=tuple(sections),
        legend=_LEGEND if recommendation.together is None else _PREDICTED_LEGEND,
        next=next,
    )


def _situation(recommendation: Recommendation) -> str:
    situation = recommendation.situation
    parts = [
        f"for {','.join(situation.workloads)}",
        f"goal {situation.goal}",
        f"jaxlib {situation.release.asked}",
    ]
    if not situation.release.exact:
        parts.append(f"(as {situation.release.version})")
    if situation.chip is not None:
        parts.append(f"on {situation.chip}")
    if situation.slices is not None:
        parts.append(counted_noun(situation.slices, "slice"))
    if situation.hosts is not None:
        chips = situation.chips_per_host  # some TPUs have machines of 4 and of 8 chips
        of = f" of {counted_noun(chips, 'chip')}" if chips is not None else ""
        parts.append(counted_noun(situation.hosts, "host") + of)
    if situation.devices == 1:
        parts.append("one device")
    if situation.program is not None:
        parts.append(f"program {situation.program.name}")
    return ", ".join(parts)


def _entry(number: int, one: RecommendedLine) -> NumberedItem:
    line = one.line
    rows: list[Fact] = []
    if one.depends_on:
        rows.append(Fact("depends on", one.depends_on))
    if one.effect is None and one.tried:
        rows.append(Fact("predicted on common steps", _tried(one)))
    if line.known:
        rows.append(Fact("measured elsewhere", line.known))
    rows.append(Fact("source", f"{one.source} (recipe {', '.join(one.recipes)})", Tone.QUIET))
    return NumberedItem(
        number=number,
        title=_written(one),
        price=_ground(one),
        text=line.reason or "",
        rows=tuple(rows),
    )


def _tried(one: RecommendedLine) -> str:
    """Return what the flag did to common steps of the workloads, and where that was tried."""
    first = one.tried[0]
    changes = ", ".join(
        f"{trial.step} {change_text(trial.change)}"
        for trial in one.tried
        if trial.change is not None
    )
    here = max(trial.change or 0.0 for trial in one.tried)
    worse = f"; {change_text(one.cost)} in another release" if one.cost > here + NO_CHANGE else ""
    return f"{changes} ({first.target}, jaxlib {first.version}){worse}"


def _written(one: RecommendedLine) -> str:
    flag = one.line.channel in (Channel.XLA_FLAGS, Channel.LIBTPU_INIT_ARGS)
    return f"{'--' if flag else ''}{one.line.name}={one.line.value}"


def _left_out(recommendation: Recommendation, top: int) -> Section:
    shown = recommendation.dropped[:top]
    omitted = table(
        words("setting", [f"{it.name}={it.value}" if it.value else it.name for it in shown]),
        words("reason", [dropped.why for dropped in shown]),
    )
    more = len(recommendation.dropped) - top
    summary = f"{len(recommendation.dropped)}" + (f", {top} shown" if more > 0 else "")
    return Section("Omitted", summary, (omitted,))


class LineEffectJson(Result):
    """The predicted step of the program without and with a setting."""

    before_ms: Annotated[float, Field("the step without")]
    after_ms: Annotated[float, Field("the step with")]
    change: Annotated[float, Field("of the step time, as a share; negative: faster")]


class TriedFlagJson(Result):
    """The predicted effect of a flag on a common step."""

    step: Annotated[str, Field("the common step")]
    target: Annotated[str, Field("the hardware that it was compiled for")]
    jaxlib: Annotated[str, At("version"), Field("the release that compiled it")]
    change: Annotated[
        float | None,
        Field(
            "of the predicted step time, as a share; negative: faster; null: the compile crashed"
        ),
    ]


class RecommendedJson(Result):
    """A setting with its reason."""

    name: Annotated[str, At("line.name"), Field("the setting")]
    value: Annotated[str, At("line.value"), Field("its value")]
    channel: Annotated[
        str,
        At("line.channel"),
        Field("where to give it: `XLA_FLAGS`, `environment`, `LIBTPU_INIT_ARGS` and others"),
    ]
    reason: Annotated[str | None, At("line.reason"), Field("why; null: the recipe gives no reason")]
    basis: Annotated[str, At("line.basis"), Field("`documented`, `measured` or `rule of thumb`")]
    known: Annotated[TextOrNull, At("line.known"), Field("what somebody measured; null: nothing")]
    depends_on: Annotated[
        TextOrNull,
        Field("what it needs to have an effect: kinds of collectives, a loop; null: nothing"),
    ]
    predicted: Annotated[
        LineEffectJson | None,
        Field("its effect on the program; null: no program was compiled with it"),
    ]
    tried: Annotated[
        tuple[TriedFlagJson, ...], Field("its effect on common steps of these workloads")
    ]
    recipes: Annotated[tuple[str, ...], Field("the recipes that set it")]
    source: Annotated[str, Field("where the recommendation is from")]


class NotRecommended(Result):
    """A line of a recipe that was left out, and why."""

    name: Annotated[str, Field("the setting")]
    value: Annotated[TextOrNull, Field("its value; null: it has none")]
    recipe: Annotated[str, Field("the recipe that sets it")]
    why: Annotated[str, Field("why it is left out")]


class AdviceJson(Result):
    """Advice that is not a setting."""

    about: Annotated[str, Field("what it is about")]
    text: Annotated[str, Field("what to do")]


class FlagsRecommend(Result, tag_field="schema", tag="counterpoint.flags.recommend/1"):
    """Settings for a situation: `counterpoint flags recommend --json`."""

    workloads: Annotated[
        tuple[str, ...],
        At("situation.workloads"),
        Field("the kinds of parallelism, as given with `--for`"),
    ] = msgspec.field(name="for")
    goal: Annotated[str, At("situation.goal"), Field("`speed`, `memory`, `debug` or `pgle`")]
    jaxlib: Annotated[str, At("situation.release.asked"), Field("the release that was asked for")]
    catalogue: Annotated[
        str, At("situation.release.version"), Field("the known release whose tables were used")
    ]
    chip: Annotated[str | None, At("situation.chip"), Field("the chip; null: unknown")]
    hosts: Annotated[int | None, At("situation.hosts"), Field("the number of hosts; null: unknown")]
    slices: Annotated[
        int | None,
        At("situation.slices"),
        Field("the number of TPU slices; null: unknown, or GPUs"),
    ]
    devices: Annotated[
        int | None, At("situation.devices"), Field("the number of devices; null: unknown")
    ]
    program: Annotated[
        str | None,
        At("situation.program.name"),
        Field("the program's module; null: none was given"),
    ]
    lines: Annotated[tuple[RecommendedJson, ...], Field("the settings")]
    left_out: Annotated[
        tuple[NotRecommended, ...],
        At("dropped"),
        Field("lines of these recipes that do not apply or would not help"),
    ]
    advice: Annotated[tuple[AdviceJson, ...], Field("advice that is not a setting")]
    gpus_per_process: Annotated[
        int | None,
        At("layout.gpus_per_process"),
        Field("the GPUs that each process should have; null: no advice"),
    ]
    together: Annotated[
        LineEffectJson | None,
        Field("the effect of all flags at once on the program; null: none was compiled"),
    ]
    xla_flags: Annotated[
        dict[str, str], At("settings.flags"), Field("the recommended flags, by name")
    ]
    environment: Annotated[
        dict[str, str], At("settings.variables"), Field("the recommended variables, by name")
    ]


def recommendation_json(recommendation: Recommendation) -> str:
    """Return `flags recommend` as text."""
    lines = [
        fill(RecommendedJson, line, predicted=_effect(line.effect)) for line in recommendation.lines
    ]
    return json_text(
        fill(FlagsRecommend, recommendation, lines=lines, together=_effect(recommendation.together))
    )


def _effect(effect: LineEffect | None) -> LineEffectJson | None:
    if effect is None:
        return None
    return LineEffectJson(
        before_ms=effect.before_s * 1e3, after_ms=effect.after_s * 1e3, change=effect.change
    )
