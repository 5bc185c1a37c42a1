"""What `explain` names against the losses of the base's step is tried first."""

from __future__ import annotations

from counterpoint.core.basis import Basis, Range
from counterpoint.diagnose.finding import Finding, Remedy
from counterpoint.flags.settings import Settings
from counterpoint.tune.arm import Arm, ArmOrigin
from counterpoint.tune.search.grid import Grid
from counterpoint.tune.search.stages import remedies
from tune_search_spaces import dimension, space

PIPELINED = ("xla_gpu_enable_pipelined_all_gather", "true")
UNLISTED = ("xla_gpu_all_gather_combine_threshold_bytes", "777")
MEMORY = ("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.92")
OWN = ("xla_some_flag", "1")


def finding(*flags: tuple[str, str], variables: tuple[tuple[str, str], ...] = ()) -> Finding:
    return Finding(
        code="STEP101",
        title="",
        detail="",
        saves_ms=Range(0, 1),
        basis=Basis.PREDICTED,
        evidence=(),
        remedy=Remedy("do it", flags, variables),
    )


def test_each_remedy_is_an_arm_in_the_order_of_the_findings() -> None:
    found = list(
        remedies(
            [finding(OWN), finding(), finding(OWN), finding(variables=(MEMORY,))], Grid(space())
        )
    )
    assert [it.name for it in found] == ["--xla_some_flag=1", "XLA_PYTHON_CLIENT_MEM_FRACTION=0.92"]
    assert {it.origin for it in found} == {ArmOrigin.REMEDY}
    assert [it.settings for it in found] == [Settings((OWN,)), Settings((), (MEMORY,))]


def test_what_the_space_offers_already_stays_the_arm_that_it_is() -> None:
    mine = Arm(name="mine", settings=Settings((OWN,)), origin=ArmOrigin.HAND)
    here = space(dimension("pipelined", "true", flag=PIPELINED[0]), seeds=(mine,))
    found = list(remedies([finding(PIPELINED), finding(OWN)], Grid(here)))
    assert [(it.name, it.origin) for it in found] == [
        ("pipelined true", ArmOrigin.SPACE),
        ("mine", ArmOrigin.HAND),
    ]


def test_a_remedy_of_a_dimension_that_was_dropped_is_not_tried() -> None:
    assert not list(remedies([finding(UNLISTED)], Grid(space())))
    here = space(dimension("all-gather threshold", "0", flag=UNLISTED[0]))
    assert [it.origin for it in remedies([finding(UNLISTED)], Grid(here))] == [ArmOrigin.REMEDY]


def test_what_the_base_has_already_is_no_remedy() -> None:
    found = space()
    base = Settings((OWN,))
    assert not list(remedies([finding(OWN)], Grid(type(found)(base=base))))
