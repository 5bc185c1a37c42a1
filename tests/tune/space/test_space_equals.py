"""Whatever the base has, no two single choices come to the same settings, nor one to the base's."""

from __future__ import annotations

from collections.abc import Hashable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.flags.catalogue.lookup import release
from counterpoint.flags.catalogue.variable import variables
from counterpoint.flags.settings import Settings
from counterpoint.hlo.model.program import Program
from counterpoint.tune.arm import Arm, ArmOrigin
from counterpoint.tune.executors.executor import ProcessShape
from counterpoint.tune.space.dimensions import builtin_dimensions
from counterpoint.tune.space.space import Space, arm_of, distinct, single_points
from tune_spaces import alone, gathers, space_of

PROGRAMS = (None, gathers(), alone())
PAIRS = sorted(
    {
        (way, name, value)
        for draft in builtin_dimensions().drafts.values()
        for several in draft.choices.values()
        for pick in several
        for way, pairs in (("xla", pick.settings.xla), ("env", pick.settings.env))
        for name, value in pairs
        if "{" not in value
    }
)


@st.composite
def bases(draw: st.DrawFn) -> Settings:
    """Any of what the choices of all dimensions set."""
    chosen = draw(st.lists(st.sampled_from(PAIRS), max_size=8, unique_by=lambda it: it[1]))
    return Settings(
        xla=tuple((name, value) for way, name, value in chosen if way == "xla"),
        env=tuple((name, value) for way, name, value in chosen if way == "env"),
    )


def meant(arm: Arm, space: Space) -> Hashable:
    """What an arm's settings mean, without what is so by default."""
    flags = release(space.version).flags
    renamed = {flags[name].alias_of for name in arm.settings.flags if name in flags}
    found: set[Hashable] = set()
    for name, value in arm.settings.flags.items():
        flag = flags.get(name)
        said = flag.meaning(value) if flag is not None else None
        is_default = flag is not None and said is not None and said == flag.meaning(flag.default)
        if not is_default or name in renamed:  # an old name set it to something else
            found.add((name, str(value if said is None else said)))
    for name, value in arm.settings.variables.items():
        variable = variables().get(name)
        if variable is None or not variable.is_default(value):
            found.add((name, value))
    return frozenset(found), arm.per, arm.profile


@pytest.mark.system
@given(
    base=bases(),
    version=st.sampled_from(["0.8.3", "0.10.2", "0.12.0"]),
    target=st.sampled_from(["8xH100", "4x8xB200", "8xA100-80GB"]),
    program=st.sampled_from(PROGRAMS),
)
def test_each_choice_alone_is_another_than_all_others(
    base: Settings, version: str, target: str, program: Program | None
) -> None:
    space = space_of(base, version=version, target=target, program=program, shape=ProcessShape())
    first = Arm(name="base", settings=space.base, origin=ArmOrigin.BASE)
    found: dict[Hashable, str] = {meant(first, space): "base"}
    for point in single_points(space):
        arm = arm_of(space, point, ArmOrigin.SPACE)
        same = found.setdefault(meant(arm, space), arm.name)
        assert same == arm.name


def test_what_a_recipe_and_a_choice_have_in_common_is_tried_once() -> None:
    space = space_of()
    singles = [arm_of(space, it, ArmOrigin.SPACE) for it in single_points(space)]
    names = [it.name for it in distinct(space.base, (*space.seeds, *singles))]
    assert {"latency-hiding", "nccl-user-buffers", "cublas-gemm", "cudnn-fusions"} <= set(names)
    gone = {"CUDA queues 1", "NCCL user buffers", "Triton GEMMs off", "cuDNN GEMMs"}
    assert gone <= {it.name for it in singles}
    assert not gone & set(names)
