"""dimensions.toml, held to the catalogue of several releases and to the recipes."""

from __future__ import annotations

import pytest

from counterpoint.flags.catalogue.libtpu import libtpu_flag
from counterpoint.flags.catalogue.lookup import release, releases
from counterpoint.flags.catalogue.variable import variables
from counterpoint.flags.check.examination import check
from counterpoint.flags.forms import SettingsForm, render
from counterpoint.flags.lint import Severity
from counterpoint.flags.parse.source import read_text
from counterpoint.flags.recipe import CHIP_GENERATIONS, recipes
from counterpoint.tune.arm import Acts
from counterpoint.tune.executors.executor import ProcessShape
from counterpoint.tune.space.dimensions import Draft, builtin_dimensions, names_of
from counterpoint.tune.space.space import Space
from tune_spaces import space_of, why_out

VERSIONS = ("0.8.3", "0.10.2", "0.12.0")
OF_TPUS = {it.name for it in builtin_dimensions().drafts.values() if it.condition.chips == ("tpu",)}
TARGETS = ("8xH100", "8xB200", "2x8xA100-80GB", "4x8xB200", "1xH100")
DRAFTS = list(builtin_dimensions().drafts.values())


def spaces() -> list[Space]:
    return [
        space_of(target=target, version=version, shape=ProcessShape())
        for target in TARGETS
        for version in VERSIONS
    ]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("version", VERSIONS)
def test_no_choice_is_refused_by_the_release_that_it_is_offered_for(
    version: str, target: str
) -> None:
    space = space_of(target=target, version=version, shape=ProcessShape())
    found = release(version)
    assert space.dimensions
    for dimension in space.dimensions:
        for change in dimension.choices:
            for name, value in change.settings.xla:
                flag = found.flags[name]
                assert flag.xla_flags, name
                assert not flag.no_op, name
                assert not flag.fatal, name
                assert not flag.deprecated, name
                assert not flag.is_default(value), (name, value)
            for name, value in change.settings.env:
                assert variables()[name].takes(value), (name, value)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_linter_has_nothing_against_any_choice(version: str) -> None:
    space = space_of(target="4x8xB200", version=version)
    for dimension in space.dimensions:
        for change in dimension.choices:
            text = render(change.settings, SettingsForm.BASH)
            remarks = check(read_text(text, "choice"), version=version, chip="B200")
            errors = [it for it in remarks if it.severity is Severity.ERROR]
            assert not errors, (change, errors)


def test_nothing_is_left_out_for_a_release_that_says_it_exists() -> None:
    """A flag that the releases lack for which it is written down is a mistake in the table."""
    for space in spaces():
        for it in space.left_out:
            if it.name not in recipes():
                assert "does not know" not in it.why, (space.version, it)
                assert "does not accept" not in it.why, (space.version, it)
                assert "does nothing" not in it.why, (space.version, it)


def test_all_flags_of_the_table_are_known_to_some_release() -> None:
    every = {name for it in releases() for name in release(it).flags}
    for draft in DRAFTS:
        for name in names_of(draft):
            known = name in every or name in variables() or libtpu_flag(name) is not None
            assert known, (draft.name, name)


@pytest.mark.parametrize("draft", DRAFTS, ids=[it.name for it in DRAFTS])
def test_each_dimension_says_why_who_and_where(draft: Draft) -> None:
    assert draft.why
    assert draft.source
    assert draft.acts in (Acts.SCHEDULE, Acts.RUNTIME)
    assert set(draft.needs) | set(draft.excludes) <= set(builtin_dimensions().drafts)
    assert set(draft.condition.chips) <= set(CHIP_GENERATIONS)
    for recipe in (it for it in draft.source.split("; ") if it.startswith("recipe ")):
        assert recipe.removeprefix("recipe ") in recipes(), draft.name


def test_what_runs_is_never_called_the_schedule() -> None:
    for name in ("NVLS", "NCCL channels", "command buffers", "memory fraction", "processes"):
        assert builtin_dimensions().drafts[name].acts is Acts.RUNTIME
    acts = builtin_dimensions().acts
    assert all(acts[name] is Acts.RUNTIME for name in acts if not name.startswith("xla"))


def test_each_dimension_exists_somewhere() -> None:
    """An entry that no release and no target ever has is dead."""
    found = {it.name for one in spaces() for it in one.dimensions}
    assert found == set(builtin_dimensions().drafts) - OF_TPUS
    tpus = {it.name for it in space_of(target=None, platform="tpu").dimensions}
    assert tpus == OF_TPUS


def test_recipes_that_are_no_arms_are_recipes_and_say_why() -> None:
    assert set(builtin_dimensions().no_arms) <= set(recipes())
    space = space_of()
    for name, why in builtin_dimensions().no_arms.items():
        assert why_out(space, name) == why
