"""Names of arms, as the tables of a study show them, typed again."""

from __future__ import annotations

import pytest

from counterpoint.core.errors import UsageError
from counterpoint.tune.arm import Arm, ArmOrigin
from counterpoint.tune.executors.executor import ProcessShape
from counterpoint.tune.space.space import Space, arm_of, arm_with, single_points, why_not
from tune_spaces import gathers, space_of


def typed(label: str) -> Arm:
    """The arm that `--arm LABEL` makes."""
    space = space_of(program=gathers(), shape=ProcessShape(), asked="only = []", arms=(label,))
    return next(it for it in space.seeds if it.origin is ArmOrigin.HAND)


def arms_of(space: Space) -> list[Arm]:
    """Each choice alone, the recipes, and pairs and triples of choices that go together."""
    singles = list(single_points(space))
    found = [arm_of(space, it, ArmOrigin.SPACE) for it in singles]
    for several in zip(singles, singles[5:], singles[11:], strict=False):
        point = {name: choice for it in several for name, choice in it.items()}
        if why_not(space, point) is None:
            found.append(arm_of(space, point, ArmOrigin.SEARCH))
    found += [it for it in space.seeds if it.settings.layout is None]
    fsdp = next(it for it in space.seeds if it.name == "fsdp")
    mine = next(it for it in space.seeds if it.name == "env:MINE='a b' --xla_gpu_autotune_level=2")
    return [*found, arm_with(space, (*fsdp.changes, *mine.changes[:1]), ArmOrigin.SEARCH)]


def test_every_arm_is_typed_again_by_its_name() -> None:
    mine = "env:MINE='a b' --xla_gpu_autotune_level=2"
    space = space_of(program=gathers(), shape=ProcessShape(), arms=(mine,))
    arms = arms_of(space)
    assert len({it.name for it in arms}) == len(arms) > 40
    for arm in arms:
        again = typed(arm.name)
        assert again.settings.flags == arm.settings.flags, arm.name
        assert again.settings.variables == arm.settings.variables, arm.name
        assert (again.profile, again.per) == (arm.profile, arm.per), arm.name


def test_a_name_that_was_shortened_is_refused_with_what_to_do() -> None:
    with pytest.raises(UsageError, match="shortened name") as refused:
        typed("all-gather thr\N{HORIZONTAL ELLIPSIS}")
    assert "tune show STUDY --arm" in str(refused.value.next)


def test_a_choice_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="no choice sometimes"):
        typed("pipelined sends sometimes")
