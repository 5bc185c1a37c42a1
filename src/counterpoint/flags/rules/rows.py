"""ROWS: the rules that are one row each, by code; the page of each is pages/CODE.md.

The table is at the end. Before it, by groups of codes: conditions and words that are more than fits
in a row. FLAG505 is a good model of a row that needs none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from counterpoint.flags.catalogue.about import documentation_of
from counterpoint.flags.catalogue.lookup import releases
from counterpoint.flags.catalogue.variable import variables
from counterpoint.flags.history import history
from counterpoint.flags.lifecycle import LifecycleStatus, is_default_now, replacement_of
from counterpoint.flags.lint import (
    Fix,
    LintContext,
    Severity,
    advice_of,
    chip_is,
    flag_off,
    flag_on,
    has_profile,
    is_no,
    is_yes,
    lost_flags_text,
    may_be_amd,
    quoted_for_jax,
    since,
    threshold,
)
from counterpoint.flags.parsed import IssueKind, Occurrence, SyntaxIssue
from counterpoint.flags.rules.row import (
    Row,
    compiler_options,
    compiler_settings,
    issues,
    last_of,
    variables_named,
    xla_flags,
)
from counterpoint.flags.settings import Channel, is_list
from counterpoint.flags.versions import LHS, SOL, ChipFamily, chip_family, lhs_flag_needed

# FLAG1xx: names


def _status(kind: LifecycleStatus) -> Callable[[LintContext, Occurrence], bool]:
    return lambda case, one: case.lifecycle(one).kind is kind


def _write_replacement(case: LintContext, one: Occurrence, otherwise: str) -> str:
    heirs = replacement_of(one, case.release)
    return advice_of(heirs, one.channel) if heirs else otherwise


def _replaced(case: LintContext, one: Occurrence) -> Fix | None:
    heirs = replacement_of(one, case.release)
    return Fix(heirs) if heirs else None


def _gone(case: LintContext, one: Occurrence) -> str:
    lifecycle = case.lifecycle(one)
    # Not "never existed": releases before the first table also had names.
    nobody = f"unknown to all releases of jaxlib since {releases()[0]}"
    gone = f"removed: {lifecycle.when}" if lifecycle.when else nobody
    what = lifecycle.what.rstrip(".").removesuffix(": remove it")
    return ". ".join(part for part in (f"{gone}; {case.consequence(one)}", what) if part)


def _without_removed(case: LintContext, one: Occurrence) -> str:
    same = is_default_now(one.name, one.meant)
    otherwise = "remove it: the default does the same" if same else "remove it"
    return _write_replacement(case, one, otherwise)


def _replaced_or_removed(case: LintContext, one: Occurrence) -> Fix:
    """Return the fix; it is not safe where the settings say something else of a replacement."""
    heirs = replacement_of(one, case.release)
    others = [given for given in case.written.given if given is not one]
    contested = any(
        (given.channel, given.name) == (one.channel, name) and given.meant != value
        for given in others
        for name, value in heirs
        if not is_list(name)
    )
    return Fix(heirs, safe=not contested)


def _ignored(case: LintContext, one: Occurrence) -> bool:
    flag = case.known(one)
    return flag is not None and flag.no_op


def _only_a_flag(case: LintContext, one: Occurrence) -> bool:
    flag = case.release.flags.get(one.name)
    return flag is not None and flag.xla_flags and not flag.compile_option


def _of_the_process(case: LintContext, one: Occurrence) -> bool:
    text = documentation_of(one.name) if case.known(one) else None
    return text is not None and text.process_only


def _only_an_option(case: LintContext, one: Occurrence) -> bool:
    lifecycle = case.lifecycle(one)
    foreign = lifecycle.kind is LifecycleStatus.FOREIGN
    return foreign and lifecycle.home is Channel.COMPILER_OPTIONS


def _set_as_option(case: LintContext, one: Occurrence) -> str:
    jax = f"JAX_{one.name.upper()}"
    also = f", or set {jax} in the environment" if jax in case.release.jax else ""
    return f"set it in compiler_options{also}"


# FLAG2xx: texts

_WORD_FOR_LIBTPU: Final = (
    "it does not start with `--`; libtpu, not XLA, reads this variable, and its handling of such a"
    " word is unknown"
)


def _for_libtpu(issue: SyntaxIssue) -> bool:
    return issue.channel is Channel.LIBTPU_INIT_ARGS


def _write(issue: SyntaxIssue, otherwise: str) -> str:
    return f"write {issue.suggestion}" if issue.suggestion else otherwise


def _without_word(_: LintContext, issue: SyntaxIssue) -> str:
    if _for_libtpu(issue):
        return "set it separately if it is a variable, or write it as --name=value"
    if issue.text[0] in "'\"`":
        return "remove the quotes, or put them around the value only"
    return _write(issue, "remove it, or write it as --name=value")


def _with_dashes(case: LintContext, issue: SyntaxIssue) -> str:
    """Return the advice; adding dashes does not turn a non-flag into a flag."""
    name = (issue.suggestion or "").removeprefix("--").partition("=")[0]
    known = name in case.release.flags or history(name) is not None or name.startswith("xla_")
    if issue.channel is Channel.XLA_FLAGS and not known:
        return "remove it"
    return _write(issue, "write two dashes")


def _accepts_any_text(case: LintContext, issue: SyntaxIssue) -> bool:
    """Return whether any value is accepted, as for the name of a directory."""
    name = issue.text.removeprefix("--").partition("=")[0]
    if issue.channel is Channel.ENVIRONMENT:
        variable = variables().get(name)
        return variable is not None and variable.type in ("string", "path")
    flag = case.release.flags.get(name)
    return flag is not None and flag.type == "string"


def _set_by_config(case: LintContext, issue: SyntaxIssue) -> bool:
    """Return whether the program sets one of JAX's options with `jax.config`, too."""
    name = issue.text.partition("=")[0].lower()
    return any(one.name == name for one in case.written.through(Channel.JAX_CONFIG))


# FLAG3xx: effect


def _given_once(case: LintContext) -> Iterable[Occurrence]:
    given = [*xla_flags(case), *compiler_options(case)]
    times = Counter(one.name for one in given)
    return [one for one in given if times[one.name] == 1]


def _is_default(case: LintContext, one: Occurrence) -> bool:
    if case.inherits(one.channel) or one.name == LHS:
        return False
    flag = case.known(one)  # not of one that is refused: that has its own remark
    return flag is not None and not flag.no_op and flag.is_default(one.meant)


# FLAG4xx: settings that affect each other

_P2P: Final = "xla_gpu_enable_pipelined_p2p"
_DECOMPOSER: Final = "xla_gpu_collective_permute_decomposer_threshold"
_PIPELINES: Final = "xla_gpu_experimental_pipeline_parallelism_opt_level"
_PIPELINES_ON: Final = "PIPELINE_PARALLELISM_OPT_LEVEL_ENABLE"
_NEVER: Final = 2**63 - 1


def _first_ragged(case: LintContext) -> Iterable[Occurrence]:
    ragged = (one for one in case.xla if "ragged_all_to_all" in one.name)
    return [one for one in ragged if flag_on(case, one.name)][:1]


def _schedules_by_default(case: LintContext, _: Occurrence) -> bool:
    """Return whether the scheduler runs on a known chip only since that is the default there."""
    if chip_family(case.chip) is None or lhs_flag_needed(case.release.asked, case.chip):
        return False
    return LHS not in case.flags and not flag_off(case, SOL) and not has_profile(case)


def _decomposes_pipelined(case: LintContext, _: Occurrence) -> bool:
    decomposes = (threshold(case, _DECOMPOSER) or _NEVER) < _NEVER
    return decomposes and flag_on(case, _P2P) and since(case, "0.10.2")


# FLAG5xx: variables

_OLD_SHARE: Final = "XLA_PYTHON_CLIENT_MEM_FRACTION"
_SHARE: Final = "XLA_CLIENT_MEM_FRACTION"
_SHARE_SINCE: Final = "0.4.33"
_OF_RCCL: Final = ("NCCL_PXN_DISABLE", "NCCL_P2P_NET_CHUNKSIZE")
"""Variables with another default in RCCL."""


def _is_share(value: str) -> bool:
    try:
        return float(value) > 0
    except ValueError:
        return False


def _variables_given_once(case: LintContext) -> Iterable[Occurrence]:
    places = (Channel.ENVIRONMENT, Channel.JAX_CONFIG)
    given = [one for one in case.written.given if one.channel in places]
    times = Counter(one.name.upper() for one in given)
    return [one for one in given if times[one.name.upper()] == 1]


def _is_default_variable(case: LintContext, one: Occurrence) -> bool:
    if not one.meant:
        return False
    default = case.release.jax.get(one.name.upper())
    if default is not None:
        return _is_default_of_jax(one, default)
    if one.name.startswith("NCCL_") and (
        chip_is(case, ChipFamily.AMD) or (one.name in _OF_RCCL and may_be_amd(case))
    ):
        return False
    known = variables().get(one.name)
    return known is not None and known.type != "none" and known.is_default(one.meant)


def _is_default_of_jax(one: Occurrence, default: str) -> bool:
    if quoted_for_jax(one) and (default in ("true", "false") or default.isdecimal()):
        return False
    if default in ("true", "false"):
        return is_yes(one.meant) if default == "true" else is_no(one.meant)
    return default == one.meant


ROWS: Final[tuple[Row[Occurrence] | Row[SyntaxIssue], ...]] = (
    Row(
        "FLAG102",
        "removed-flag",
        looks_at=compiler_settings,
        when=_status(LifecycleStatus.REMOVED),
        severity=Severity.ERROR,
        message=_gone,
        advice=_without_removed,
        fix=_replaced_or_removed,
    ),
    Row(
        "FLAG103",
        "renamed-flag",
        looks_at=compiler_settings,
        when=_status(LifecycleStatus.RENAMED),
        severity=Severity.ERROR,
        message=lambda case, one: f"renamed: {case.lifecycle(one).when}; {case.consequence(one)}",
        advice=lambda case, one: _write_replacement(
            case, one, otherwise=case.lifecycle(one).what.lower().rstrip(".")
        ),
        fix=_replaced,
    ),
    Row(
        "FLAG104",
        "newer-flag",
        looks_at=compiler_settings,
        when=_status(LifecycleStatus.NEWER),
        severity=Severity.ERROR,
        message=lambda case, one: (
            f"too new: {case.lifecycle(one).when}, this is {case.release.asked};"
            f" {case.consequence(one)}"
        ),
        advice=lambda case, one: _write_replacement(
            case, one, otherwise="remove it, or install that jaxlib"
        ),
        fix=lambda case, one: Fix(replacement_of(one, case.release)),
    ),
    Row(
        "FLAG106",
        "no-op-flag",
        looks_at=xla_flags,  # a compiler option sets the field, bypassing the parser
        when=_ignored,
        severity=Severity.WARNING,
        message=lambda case, _: f"jaxlib {case.release.version} accepts and ignores it",
        advice=lambda case, one: (
            "remove it; it works as a compiler option"
            if case.release.flags[one.name].compile_option
            else "remove it"
        ),
        fix=Fix(),
    ),
    Row(
        "FLAG108",
        "not-a-compile-option",
        looks_at=compiler_options,
        when=_only_a_flag,
        severity=Severity.ERROR,
        message=lambda case, one: (
            f"XLA_FLAGS accepts it, compiler_options do not; {case.consequence(one)}"
        ),
        advice=lambda case, one: _write_replacement(case, one, otherwise="set it in XLA_FLAGS"),
        fix=_replaced,
    ),
    Row(
        "FLAG109",
        "process-option",
        looks_at=compiler_options,
        when=_of_the_process,
        severity=Severity.WARNING,
        message="no effect here: XLA reads it only from the flags of the process",
        advice="set it in XLA_FLAGS",
    ),
    Row(
        "FLAG110",
        "compile-option-as-flag",
        looks_at=xla_flags,
        when=_only_an_option,
        severity=Severity.ERROR,
        message=lambda case, one: f"a compiler option, not a flag; {case.consequence(one)}",
        advice=_set_as_option,
        fix=Fix(),
    ),
    Row(
        "FLAG111",
        "statistics-option",
        looks_at=compiler_options,
        when=lambda _, one: "compile_xla_flags" in one.via,
        severity=Severity.WARNING,
        message="MaxText uses it only to print memory statistics, not for the training step",
        advice="set it in XLA_FLAGS",
    ),
    Row(
        "FLAG206",
        "stray-word",
        looks_at=issues(IssueKind.STRAY),
        severity=lambda _, issue: Severity.WARNING if _for_libtpu(issue) else Severity.ERROR,
        message=lambda _, issue: _WORD_FOR_LIBTPU if _for_libtpu(issue) else lost_flags_text(issue),
        advice=_without_word,
    ),
    Row(
        "FLAG207",
        "wrong-dash",
        looks_at=issues(IssueKind.DASH, IssueKind.SINGLE_DASH),
        severity=Severity.ERROR,
        message=lambda _, issue: lost_flags_text(issue),
        advice=_with_dashes,
    ),
    Row(
        "FLAG208",
        "needs-shell",
        looks_at=issues(IssueKind.UNKNOWABLE),
        severity=lambda case, issue: (
            Severity.NOTE if _accepts_any_text(case, issue) else Severity.WARNING
        ),
        message=lambda _, issue: issue.why,
        advice="check it where it is known: `counterpoint flags check --env`, or `pid:N`",
    ),
    Row(
        "FLAG210",
        "overwritten",
        looks_at=issues(IssueKind.OVERWRITTEN),
        severity=Severity.WARNING,
        message=lambda _, issue: issue.why,
        advice=lambda _, issue: _write(issue, "append to it, or remove the earlier one"),
    ),
    Row(
        "FLAG211",
        "too-late",
        looks_at=issues(IssueKind.TOO_LATE),
        when=lambda case, issue: not _set_by_config(case, issue),
        severity=Severity.WARNING,
        message=lambda _, issue: issue.why,
        advice=lambda _, issue: _write(issue, "set it before JAX starts"),
    ),
    Row(
        "FLAG301",
        "default-anyway",
        looks_at=_given_once,
        when=_is_default,
        severity=Severity.NOTE,
        message=lambda case, one: f"`{one.meant}` is the default of jaxlib {case.release.version}",
        advice="remove it",
        fix=Fix(),
    ),
    Row(
        "FLAG404",
        "unmodeled-collectives",
        looks_at=_first_ragged,
        when=_schedules_by_default,
        severity=Severity.NOTE,
        message=(
            "if the program has a ragged-all-to-all, the scheduler does not run by default for"
            " any of the module's collectives"
        ),
        advice=f"add --{LHS}=true",
        fix=Fix(safe=False),
    ),
    Row(
        "FLAG405",
        "pipelined-p2p-decomposed",
        looks_at=last_of(_P2P),
        when=_decomposes_pipelined,
        severity=Severity.WARNING,
        message=f"with {_DECOMPOSER} the compiler fails on pipelines",
        advice=f"remove it; --{_PIPELINES}={_PIPELINES_ON} replaces it",
        fix=Fix(((_PIPELINES, _PIPELINES_ON),), safe=False),
    ),
    Row(
        "FLAG502",
        "deprecated-variable",
        looks_at=variables_named(_OLD_SHARE),
        when=lambda case, _: since(case, _SHARE_SINCE) and _SHARE not in case.variables,
        severity=Severity.NOTE,
        message=f"deprecated: {_SHARE} replaces it since jaxlib {_SHARE_SINCE}",
        advice=lambda _, one: (
            f"write {_SHARE}={one.meant}" if _is_share(one.meant) else f"rename it to {_SHARE}"
        ),
        fix=lambda _, one: Fix(((_SHARE, one.meant),)),
    ),
    Row(
        "FLAG504",
        "default-variable",
        looks_at=_variables_given_once,
        when=_is_default_variable,
        severity=Severity.NOTE,
        message=lambda _, one: f"`{one.meant}` is the default",
        advice="remove it",
        fix=Fix(),
    ),
    Row(
        "FLAG505",
        "max-connections",
        looks_at=last_of("CUDA_DEVICE_MAX_CONNECTIONS"),
        when=lambda case, one: (
            case.variables.get(one.name) == "1" and chip_is(case, ChipFamily.BLACKWELL)
        ),
        severity=Severity.WARNING,
        message=lambda case, _: f"one queue is for Hopper; on {case.chip} it is slower",
        advice="remove it",
        fix=Fix(safe=False),
    ),
)
"""All rows."""
