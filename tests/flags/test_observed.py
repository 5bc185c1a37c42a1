"""What was observed of each release, as data: complete, and what texts and rules make of it."""

from __future__ import annotations

import pytest

from counterpoint.core.rules import page_text
from counterpoint.flags.catalogue.lookup import release, releases
from counterpoint.flags.lint import LintContext
from counterpoint.flags.observed import (
    OBSERVED,
    Observation,
    boundary,
    has,
    observations_text,
    observed_of,
    observed_releases,
    release_of,
    with_releases,
)
from counterpoint.flags.parse.source import read_text
from counterpoint.flags.release_number import version_number
from counterpoint.flags.rules import RULES
from observe_releases import PROBES


def test_the_file_is_what_the_script_writes_of_it() -> None:
    seen = {one: observed_of(one) for one in observed_releases()}
    whats = {name: probe.what for name, probe in PROBES.items()}

    assert observations_text(seen, whats) == OBSERVED.read_text("utf-8")


def test_every_release_that_the_catalogue_knows_was_tried_since_the_first() -> None:
    first = version_number(observed_releases()[0])

    assert observed_releases() == tuple(one for one in releases() if version_number(one) >= first)
    assert first <= (0, 7, 0)


def test_the_scheduler_can_be_asked_for_in_each_release() -> None:
    """The control: it shows that a log says whether the scheduler ran."""
    assert all(has("scheduler-on-request", one) for one in observed_releases())


@pytest.mark.parametrize(
    ("asked", "holds"),
    [("0.1", False), ("0.7", False), ("0.7.1", False), ("0.7.2", True), ("0.8", True),
     ("0.11.1.dev3", True), ("0.11.2", False), ("99", False), (None, False)],
)  # fmt: skip
def test_a_release_between_two_is_like_the_older(asked: str | None, holds: bool) -> None:
    one = Observation("it", "...", {"0.7.0": False, "0.7.2": True, "0.11.2": False})

    assert one.holds(asked) is holds


def test_a_boundary_is_the_last_change() -> None:
    one = Observation("it", "...", {"0.7.0": True, "0.7.1": False, "0.11.1": True})

    assert one.first(having=True) == "0.11.1"
    with pytest.raises(LookupError):
        one.first(having=False)
    with pytest.raises(LookupError):
        Observation("it", "...", {"0.7.0": True}).first(having=True)


def test_texts_name_releases_by_what_was_observed() -> None:
    begins, ends = boundary("+scheduler-by-default"), boundary("-scheduler-despite-false")

    text = with_releases("{+scheduler-by-default}, {-scheduler-despite-false}, {value}")

    assert text == f"{begins}, {ends}, {{value}}"
    assert (release_of("+scheduler-by-default"), release_of("0.9")) == (begins, "0.9")


def test_a_flag_that_a_compile_accepts_is_in_the_catalogue_from_then_on() -> None:
    known = [one for one in releases() if "xla_gpu_pipeline_all_gather" in release(one).flags]

    assert known[0] == boundary("+pipelining-levels")


def test_no_text_of_a_rule_keeps_a_mark() -> None:
    assert not [rule.CODE for rule in RULES if "{+" in page_text(rule)]


@pytest.mark.parametrize("version", observed_releases())
def test_rules_speak_of_the_scheduler_as_the_compilers_do(version: str) -> None:
    """`false` is worth a remark where the scheduler runs nevertheless, or would not run anyway."""
    flag = "--xla_gpu_enable_latency_hiding_scheduler=false"
    case = LintContext(written=read_text(flag, "one.flags"), release=release(version), chip="H100")
    told = {remark.code for rule in RULES for remark in rule.check(case)} & {"FLAG302"}

    obeyed = has("scheduler-by-default", version) and not has("scheduler-despite-false", version)

    assert told == (set() if obeyed else {"FLAG302"})
