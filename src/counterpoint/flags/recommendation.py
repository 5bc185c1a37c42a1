"""Recommendations: lines of recipes relevant to one release, chip, cluster and program.

Most single flags change little or make a good run slower, so a recommended line is only a
candidate: gains measured elsewhere are quoted with it, but only a measurement here confirms it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from counterpoint.core import ArgumentError
from counterpoint.core.arguments import option_of
from counterpoint.flags.catalogue.flag import Release
from counterpoint.flags.observed import has
from counterpoint.flags.recipe import (
    Recipe,
    RecipeLine,
    chip_generation,
    recipes,
    settings_of,
)
from counterpoint.flags.settings import Channel, Layout, Settings, add_to_list
from counterpoint.flags.thresholds import Thresholds, thresholds
from counterpoint.flags.tried import TriedFlag, largest_cost, tried_flags
from counterpoint.flags.values import refusal
from counterpoint.flags.versions import chip_family
from counterpoint.hlo.collectives import collective
from counterpoint.hlo.model.program import Program, launched
from counterpoint.hlo.schedule import in_loop

__all__ = [
    "NO_CHANGE",
    "DroppedLine",
    "LineEffect",
    "ProgramFacts",
    "Recommendation",
    "RecommendationRequest",
    "RecommendedLine",
    "change_text",
    "program_facts",
    "recommend",
]

BEYOND_MODEL: Final = frozenset({"ragged-all-to-all", "collective-broadcast"})
"""Collectives that XLA's transfer-time model lacks; it also lacks computation on the host.

One of them keeps the scheduler from running by default, for the whole module, and so does a
collective-permute in older releases (catalogue/observed.tsv); send and recv don't. See
HasOnlySupportedCollectives in xla/service/gpu/model/sol_latency_estimator.cc.
"""
_ON_HOST: Final = "DEVICE_TYPE_HOST"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramFacts:
    """Kinds of collectives, those in loops, and how thresholds merge them."""

    name: str
    kinds: frozenset[str]
    in_loops: frozenset[str]
    has_loop: bool
    beyond_model: bool  # the scheduler then runs only if a flag enables it
    thresholds: Thresholds

    @property
    def choices(self) -> Mapping[str, int | None]:
        """For each flag, the threshold that merges a loop's collectives; None if none is needed."""
        return {kind.flag: kind.choice for kind in self.thresholds.kinds}


def _beyond_model(version: str | None) -> frozenset[str]:
    permute = version is not None and has("permute-stops-scheduler", version)
    return BEYOND_MODEL | {"collective-permute"} if permute else BEYOND_MODEL


def program_facts(program: Program, version: str | None = None) -> ProgramFacts:
    """Collect the facts about all that a program launches."""
    kinds: set[str] = set()
    looped: set[str] = set()
    has_loop = on_host = False
    for computation in launched(program):
        inside = in_loop(program, computation.name)
        for instruction in computation.instructions:
            has_loop |= instruction.opcode == "while"
            communication = collective(program, instruction)
            on_host |= _ON_HOST in instruction.backend_config
            if communication is not None:
                kinds.add(communication.kind)
                looped |= {communication.kind} if inside else set()
    return ProgramFacts(
        name=program.name,
        kinds=frozenset(kinds),
        in_loops=frozenset(looped),
        has_loop=has_loop,
        beyond_model=on_host or bool(kinds & _beyond_model(version)),
        thresholds=thresholds(program, version),
    )


WORKLOADS: Final = {
    "fsdp": "weights sharded, gathered layer by layer (ZeRO)",
    "tp": "matrix products split over devices",
    "pp": "layers split into stages",
    "dp": "whole copies of the weights",
    "ep": "experts on different devices",
    "multislice": "TPU slices over the data center's network",
}
GOALS: Final = ("speed", "memory", "debug", "pgle")
_OF_TPUS: Final = "multislice"
_ONE_SLICE: Final = (
    "this target is one slice, and these settings are for the network between slices: name several"
    " as in 2xv5e-256"
)
_ANYWHERE: Final = ("xla_dump_", "JAX_", "TF_CPP_")
"""Prefixes of settings that are also read on TPUs."""
_DUMP: Final = f"{option_of('program')} DUMP"
_LOST: Final = "set to"
_LOST_COMPILE: Final = "it ended the compile of"
NO_CHANGE: Final = 0.0005
"""Change of a step time, as a share, below which none is told."""
_CLEAR: Final = 0.015
"""Change of a predicted step time that tells something: INDIFFERENCE of the forecast's ranking."""
_MEASURED: Final = 1.0  # more than any predicted change
_PASSES: Final = "xla_disable_hlo_passes"
_LHS: Final = "xla_gpu_enable_latency_hiding_scheduler"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendationRequest:
    """The input of a recommendation. `chip` is as `hardware` names it; None means unknown.

    `where` is the location of the program, as a command takes it. `slices` and `chips_per_host` are
    None of GPUs.
    """

    workloads: tuple[str, ...]
    goal: str
    release: Release
    chip: str | None = None
    hosts: int | None = None
    slices: int | None = None
    chips_per_host: int | None = None
    devices: int | None = None
    program: ProgramFacts | None = None
    where: str | None = None
    compiled: bool = False  # the program is going to be compiled with each line
    given: Mapping[str, str] = field(default_factory=dict[str, str])  # what its run has set already

    @property
    def on_tpu(self) -> bool:
        return chip_generation(self.chip) == "tpu"


@dataclass(frozen=True, slots=True)
class LineEffect:
    """The predicted step of a program without and with a line."""

    before_s: float
    after_s: float

    @property
    def change(self) -> float:
        """The change of the step time as a share; negative: faster."""
        return self.after_s / self.before_s - 1 if self.before_s > 0 else 0.0

    def __str__(self) -> str:
        before, after = self.before_s * 1e3, self.after_s * 1e3
        return f"{change_text(self.change)} ({before:,.4g} to {after:,.4g} ms)"


def change_text(change: float) -> str:
    """Return a change of the step time in words."""
    if abs(change) < NO_CHANGE:
        return "no change of the step time"
    return f"{abs(change):.1%} {'slower' if change > 0 else 'faster'}"


@dataclass(frozen=True, slots=True)
class RecommendedLine:
    """A line that is recommended, and the recipes it is from.

    `effect` is that on the program, if it was compiled with the line; `tried` are trials of the
    line on common steps of the workloads; `cost` is the largest loss on them in any release.
    """

    line: RecipeLine
    recipes: tuple[str, ...]
    effect: LineEffect | None = None
    tried: tuple[TriedFlag, ...] = ()
    cost: float = 0.0

    @property
    def source(self) -> str:
        return self.line.source or recipes()[self.recipes[0]].source

    @property
    def depends_on(self) -> str:
        """Return what the line needs to have an effect, in words."""
        place = " in a loop over layers (a scan)" if self.line.where == "loop" else ""
        if self.line.kinds:
            return f"{' or '.join(self.line.kinds)}{place}"
        return place.removeprefix(" in ")

    @property
    def promise(self) -> float:
        """The order without a program: negative is what is known to help, positive what cost time.

        It is a clear gain on a common step, or else the largest loss: a small gain in one release
        is none. What a measurement found slower comes last.
        """
        changes = [trial.change for trial in self.tried if trial.change is not None]
        change = max(changes, key=abs, default=0.0)
        if self.line.effect != "slower" and change <= -_CLEAR:
            return change
        cost = self.cost if self.cost >= NO_CHANGE else 0.0
        return cost + (_MEASURED if self.line.effect == "slower" else 0.0)


@dataclass(frozen=True, slots=True)
class DroppedLine:
    """A line that is not recommended, and why."""

    name: str
    value: str
    recipe: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """Lines in the order of their recipes; `advice` holds advice that is not a setting."""

    situation: RecommendationRequest
    lines: tuple[RecommendedLine, ...]
    dropped: tuple[DroppedLine, ...]
    advice: tuple[tuple[str, str], ...]
    layout: Layout | None
    together: LineEffect | None = None  # of all flags, on the program

    @property
    def settings(self) -> Settings:
        return settings_of(tuple(advised.line for advised in self.lines), self.layout)


def recommend(situation: RecommendationRequest) -> Recommendation:
    """Recommend settings for a situation."""
    _require(situation.workloads, situation.goal)
    situation = _with_chip(situation)
    advised: dict[str, RecommendedLine] = {}
    dropped: list[DroppedLine] = []
    chosen = list(_chosen(situation))
    for recipe in chosen:
        for line in recipe.lines:
            fitted, why = _fitted(line, recipe, situation)
            if fitted is not None and line.name in advised:
                advised[line.name], why = _together(advised[line.name], fitted, recipe.name)
            elif fitted is not None:
                advised[line.name] = RecommendedLine(fitted, (recipe.name,))
            if why is not None:
                dropped.append(DroppedLine(line.name, line.value, recipe.name, why))
    if not situation.compiled:
        dropped += _harmful(advised, situation)
        advised = _by_promise(advised)
    # A name may occur in several recipes; report only those whose value was overridden.
    dropped = [drop for drop in dropped if drop.name not in advised or drop.why.startswith(_LOST)]
    about = [recipe for recipe in chosen if _about(recipe, situation)]
    dropped += _left_out(about, set(advised) | {drop.name for drop in dropped})
    return Recommendation(
        situation=situation,
        lines=tuple(advised.values()),
        dropped=tuple(dropped),
        advice=tuple(_advice(about, situation)),
        layout=_layout(situation, next((recipe.layout for recipe in about if recipe.layout), None)),
    )


def _harmful(
    advised: dict[str, RecommendedLine], situation: RecommendationRequest
) -> Iterator[DroppedLine]:
    """Add its trials to each flag, and take out those that did harm."""
    for name, recommended in [*advised.items()]:
        if recommended.line.channel is not Channel.XLA_FLAGS or situation.on_tpu:
            continue
        version = situation.release.version
        trials = tried_flags(name, recommended.line.value, version, situation.workloads)
        if _same_vendor(situation.chip):  # XLA predicts nothing of another vendor's chips
            cost = largest_cost(name, recommended.line.value, situation.workloads)
            advised[name] = replace(recommended, tried=trials, cost=cost)
        why = _why_not(advised[name], trials, situation)
        if why is not None:
            del advised[name]
            yield DroppedLine(name, recommended.line.value, recommended.recipes[0], why)


def _why_not(
    recommended: RecommendedLine, trials: Sequence[TriedFlag], situation: RecommendationRequest
) -> str | None:
    """Return why a flag is not recommended, by what became of a common step with it.

    A value that was chosen for a program is not the one that was measured or tried.
    """
    for trial in trials:
        step = f"a common {trial.step} step (jaxlib {trial.version}, {trial.target})"
        if trial.crash:
            return f"{_LOST_COMPILE} {step}: {trial.crash}"
        if (trial.change or 0.0) >= _CLEAR and recommended.tried and situation.program is None:
            return f"predicted {change_text(trial.change or 0.0)} on {step}"
    slower = recommended.line.effect == "slower" and situation.program is None
    return f"measured elsewhere: {recommended.line.known}" if slower else None


def _same_vendor(chip: str | None) -> bool:
    """Return whether the trials, on NVIDIA's GPUs, tell something about a chip."""
    family = chip_family(chip)
    return family is None or family.is_nvidia


def _by_promise(advised: dict[str, RecommendedLine]) -> dict[str, RecommendedLine]:
    """Sort lines: first what is known to help, last what is known to have cost time."""
    return dict(sorted(advised.items(), key=lambda item: item[1].promise))


def _layout(situation: RecommendationRequest, advised: Layout | None) -> Layout | None:
    """Return the process layout that a recipe recommends, adapted to the number of hosts."""
    if advised is None or situation.hosts is None or situation.devices is None:
        return advised
    gpus_per_host, per_process = situation.devices // situation.hosts, advised.gpus_per_process
    return replace(
        advised,
        hosts=situation.hosts,
        processes_per_host=gpus_per_host // per_process
        if per_process and gpus_per_host % per_process == 0
        else None,
    )


def _require(workloads: Sequence[str], goal: str) -> None:
    unknown = [name for name in workloads if name not in WORKLOADS]
    if unknown or not workloads:
        problem = "unknown kind of parallelism" if unknown else "no kind of parallelism"
        known = "; ".join(f"{name}: {what}" for name, what in WORKLOADS.items())
        raise ArgumentError("for", ",".join(unknown), problem, why=known, instead="fsdp,tp")
    if goal not in GOALS:
        why = f"goals: {', '.join(GOALS)}"
        raise ArgumentError("goal", goal, "unknown goal", why=why, instead="speed")


def _with_chip(situation: RecommendationRequest) -> RecommendationRequest:
    """Set the chip to TPU for multislice workloads, since only TPUs have slices."""
    if _OF_TPUS not in situation.workloads or situation.on_tpu:
        return situation
    if situation.chip is not None:
        raise ArgumentError(
            "for",
            _OF_TPUS,
            f"{situation.chip} is not a TPU",
            why=f"it means {WORKLOADS[_OF_TPUS]}; for several hosts of GPUs no kind is needed",
            instead="fsdp",
        )
    return replace(situation, chip="TPU")


def _chosen(situation: RecommendationRequest) -> Iterator[Recipe]:
    """Yield the recipes of the workloads as named, then those for any; earlier ones win."""
    fitting = [
        recipe
        for recipe in recipes().values()
        if situation.goal in recipe.goals
        # What only libtpu reads is no setting that a GPU lacks.
        and (situation.on_tpu or recipe.lines != recipe.libtpu or not recipe.libtpu)
    ]
    seen: set[str] = set()
    for workload in (*situation.workloads, "any"):
        for recipe in fitting:
            if workload in recipe.workloads and recipe.name not in seen:
                seen.add(recipe.name)
                yield recipe


def _fitted(
    line: RecipeLine, recipe: Recipe, situation: RecommendationRequest
) -> tuple[RecipeLine | None, str | None]:
    """Return the line as needed here, or the reason why it is not needed."""
    why = _beside_the_point(line, recipe, situation) or _set_already(line, situation)
    if why is not None:
        return None, why
    if line.name == _LHS and situation.program is not None and situation.program.beyond_model:
        reason = "without the flag it does not run where it is on by default: the program has"
        reason += " collectives that XLA has no model of, or computation on the host"
        return replace(line, reason=reason, basis="predicted"), None
    why = _already(line, situation.release)
    why = why or line.condition.why_not(situation.release.version, situation.chip, situation.hosts)
    why = why or _superfluous(line, situation.release) or _unsettled(line, situation)
    if why is None and situation.program is not None:
        return _for_program(line, situation.program)
    return (None, why) if why else (line, None)


def _beside_the_point(
    line: RecipeLine, recipe: Recipe, situation: RecommendationRequest
) -> str | None:
    """Return the reason if the line is about what these devices lack: collectives, or a GPU."""
    if situation.devices == 1 and (line.kinds or "any" not in recipe.workloads):
        return "one device has no collectives"
    if situation.on_tpu and line.channel is not Channel.LIBTPU_INIT_ARGS:
        return None if line.name.startswith(_ANYWHERE) else "for GPUs only"
    return None


def _set_already(line: RecipeLine, situation: RecommendationRequest) -> str | None:
    """Return the reason if the program's own run had the same value."""
    given = situation.given.get(line.name)
    same = given is not None and given.casefold() == line.value.casefold()
    return "the run of this program has set it already" if same else None


def _about(recipe: Recipe, situation: RecommendationRequest) -> bool:
    """Return whether a recipe's advice, beyond its settings, is for these devices."""
    if situation.on_tpu:
        return bool(recipe.libtpu)
    alone = situation.devices == 1
    return not (alone and (recipe.layout is not None or "any" not in recipe.workloads))


def _unsettled(line: RecipeLine, situation: RecommendationRequest) -> str | None:
    only = line.condition.unsettled(situation.chip)
    return f"{only}, and the target is not given" if only else None


def _already(line: RecipeLine, release: Release) -> str | None:
    """Return the reason if the line is the release's default, or an old name there."""
    if line.channel is Channel.ENVIRONMENT:
        same = release.jax.get(line.name, "").casefold() == line.value.casefold()
        return f"the default in jaxlib {release.version}" if same else None
    flag = release.flags.get(line.name) if line.channel is Channel.XLA_FLAGS else None
    if flag is None or not flag.xla_flags or flag.no_op:
        return None
    if flag.is_default(line.value):
        since = line.condition.before
        return f"the default since {since}" if since else f"the default in jaxlib {release.version}"
    past = line.condition.why_not(release.version, None)
    return f"an old name of {flag.alias_of}" if flag.alias_of and past else None


def _superfluous(line: RecipeLine, release: Release) -> str | None:
    """Return the reason if the release does not take the line, or ignores it."""
    if line.channel is not Channel.XLA_FLAGS:
        return None
    flag = release.flags.get(line.name)
    if flag is None or not flag.xla_flags:
        return f"unknown to jaxlib {release.version}"
    if refusal(flag, line.value, line.channel) is not None:
        return f"jaxlib {release.version} rejects this value"
    return f"no effect in jaxlib {release.version}" if flag.no_op else None


def _for_program(line: RecipeLine, program: ProgramFacts) -> tuple[RecipeLine | None, str | None]:
    """Return the line with the program's threshold, or why the program has no use for it."""
    if line.kinds and not program.kinds & set(line.kinds):
        return None, f"{program.name} has no {' or '.join(line.kinds)}"
    if line.where == "loop":
        if not program.has_loop:
            return None, f"{program.name} has no loop"
        if line.kinds and not program.in_loops & set(line.kinds):
            return None, f"{program.name} has no {' or '.join(line.kinds)} in a loop"
    if not line.name.endswith("_combine_threshold_bytes"):
        return line, None
    choice = program.choices.get(line.name)
    if choice is None:
        return None, _no_threshold(line, program)
    reason = "smallest value that combines everything in a loop body; more has no effect there"
    return replace(line, value=str(choice), reason=reason, basis="predicted"), None


def _no_threshold(line: RecipeLine, program: ProgramFacts) -> str:
    kind = next(combining for combining in program.thresholds.kinds if combining.flag == line.name)
    if kind.layer is not None:
        return "in loops the default combines everything that can be combined"
    tries = ", ".join(str(step.threshold) for step in kind.candidates)
    if not tries:
        return "no threshold combines more than the default"
    return f"no loop determines it; see `flags thresholds` for these values: {tries}"


def _together(
    kept: RecommendedLine, line: RecipeLine, recipe: str
) -> tuple[RecommendedLine, str | None]:
    """Combine two lines with one name: if equal or a list, keep both; otherwise the first wins."""
    if kept.line.value == line.value:
        return RecommendedLine(kept.line, (*kept.recipes, recipe)), None
    if line.name == _PASSES:
        value = add_to_list(kept.line.value, line.value)
        reason = f"{kept.line.reason}; {line.reason}"
        combined = replace(kept.line, value=value, reason=reason)
        return RecommendedLine(combined, (*kept.recipes, recipe)), None
    shown = kept.line.value or "empty"
    return kept, f"{_LOST} {shown} by {kept.recipes[0]}"


def _left_out(chosen: Iterable[Recipe], yielded: set[str]) -> Iterator[DroppedLine]:
    """Yield settings that guides recommend and recipes leave out, once each."""
    for recipe in chosen:
        for name, why in recipe.left_out:
            if name not in yielded:
                yielded.add(name)
                yield DroppedLine(name, "", recipe.name, why)


def _advice(
    chosen: Iterable[Recipe], situation: RecommendationRequest
) -> Iterator[tuple[str, str]]:
    version, chip = situation.release.version, situation.chip
    if _OF_TPUS in situation.workloads and situation.slices == 1:
        yield "slices", _ONE_SLICE
    for recipe in chosen:
        for line in recipe.advice:
            if line.condition.why_not(version, chip, situation.hosts) is None:
                yield line.name, _placed(line.value, situation)
        for line in recipe.kernel:
            described = f"{line.reason} ({line.basis}, {line.source or recipe.source})"
            yield f"sysctl {line.name}={line.value}", described


def _placed(text: str, situation: RecommendationRequest) -> str:
    """Substitute the given program into a piece of advice."""
    return (
        text
        if situation.where is None
        else text.replace(_DUMP, f"{option_of('program')} {situation.where}")
    )
