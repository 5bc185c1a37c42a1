"""A target that can't be the profile's machine is refused; an odd one is noted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made_step import A100, H100, Work, hlo, made, negate, reduce

from counterpoint.core.errors import UsageError
from counterpoint.diagnose.network.analysis import check_target
from counterpoint.diagnose.step_data import Context
from counterpoint.hardware.targets import parse_target
from golden_sections import Said

HLO = hlo(reduce("reduce", "p"), root=negate("work", "reduce"))
STEP: list[Work] = [("reduce", 0, 4), ("work", 4, 4)]


def notes(target: str | None, chip: str = H100) -> tuple[str, ...]:
    case = made(HLO, STEP, 8, chip=chip)
    context = Context(target=None if target is None else parse_target(target))
    return check_target(replace(case, context=context))


@pytest.mark.parametrize(
    ("target", "chip"),
    [(None, H100), ("2xH100", H100), ("8xH100", H100), ("2xA100", A100), ("2xA100", A100[:-4])],
)
def test_the_machine_itself_and_larger_ones_pass(target: str | None, chip: str) -> None:
    assert notes(target, chip) == ()


def test_a_hundred_of_40_gb_has_the_same_links() -> None:
    assert notes("2xA100", "NVIDIA A100-SXM4-40GB") == ()


@pytest.mark.parametrize("chip", [A100, "AMD, compute 9.4, 304 cores, 192 GiB"])
def test_another_chip_is_refused(chip: str) -> None:
    with pytest.raises(UsageError, match=r"profile is of (A100|MI300X)"):
        notes("8xH100", chip)


@pytest.mark.parametrize("chip", ["NVIDIA H100 PCIe", "NVIDIA H100 NVL"])
def test_a_card_of_the_same_name_has_other_links(chip: str) -> None:
    with pytest.raises(UsageError, match="profile is of H100"):
        notes("8xH100", chip)


def test_what_is_not_known_contradicts_nothing() -> None:
    assert notes("8xH100", "H900") == ()


def test_too_few_devices_are_refused() -> None:
    with pytest.raises(UsageError, match=r"1 devices.* 2"):
        notes("1xH100")


def test_hosts_of_fewer_devices_are_noted(said: Said) -> None:
    (note,) = notes("2x1xH100:400G")
    said(note)
