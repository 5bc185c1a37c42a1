"""Real traces and real profiles: what was made of a program covers it, what was not does not."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from counterpoint.core.basis import Unknown
from counterpoint.hlo.reader import read_program
from counterpoint.pgle.applying.subject import LocatedProgram, locate_program
from counterpoint.pgle.checking.check import check_profile
from counterpoint.pgle.checking.verdict import judge
from counterpoint.pgle.lookups import xla_lookups
from counterpoint.pgle.making.make import make_profile
from counterpoint.pgle.profiles.files import read_profile
from counterpoint.pgle.profiles.profile import Profile
from counterpoint.pgle.staleness import ProfileFit
from real_profiles import opened

pytestmark = pytest.mark.system

STEP = Path(__file__).parent.parent / "hlo" / "data" / "gpu_step.hlo.pb.xz"


@pytest.fixture(scope="module")
def pax(shared: Path) -> tuple[LocatedProgram, Profile]:
    """A step of 2,513 lookups, and the profile made of the same rank's trace."""
    path = shared / "data" / "traces" / "pax_fsdp4_4proc_proc0.zip"
    return locate_program(path), make_profile(opened(path)).profile


def test_the_profile_of_a_trace_covers_its_step(pax: tuple[LocatedProgram, Profile]) -> None:
    subject, profile = pax
    coverage = check_profile(profile, subject.program, subject.measured)
    assert coverage.staleness.fit is ProfileFit.FITS
    assert coverage.instructions.whole == len(xla_lookups(subject.program)) > 2_000
    assert coverage.instructions.share > 0.99
    assert coverage.collectives.share == 1.0
    assert not isinstance(coverage.time, Unknown)
    assert coverage.time.share > 0.999
    assert judge(coverage, min_time=0.99).passed


def test_a_pattern_names_the_program_as_pgle_make_suggests(shared: Path) -> None:
    pattern = shared / "data" / "traces" / "pax_fsdp4_4proc_proc[0].zip"
    assert locate_program(pattern).program.fingerprint is not None


def test_without_its_collectives_the_same_profile_is_not_good_enough(
    pax: tuple[LocatedProgram, Profile],
) -> None:
    subject, profile = pax
    talks = {name for it in xla_lookups(subject.program) if it.collective for name in it.names}
    silent = Profile(tuple(cost for cost in profile.costs if cost.name not in talks))
    coverage = check_profile(silent, subject.program, subject.measured)
    assert coverage.instructions.share > 0.9
    assert coverage.collectives.found == 0
    judgment = judge(coverage)
    assert not judgment.passed
    assert any("collectives" in reason for reason in judgment.reasons)
    # Longest first: what is missing most is told first, and it is a collective.
    assert coverage.missing[0].lookup.collective


def test_measured_time_of_all_lookups_is_the_devices_time_in_named_ops(
    pax: tuple[LocatedProgram, Profile],
) -> None:
    subject, profile = pax
    assert not isinstance(subject.measured, Unknown)
    coverage = check_profile(profile, subject.program, subject.measured)
    assert not isinstance(coverage.time, Unknown)
    asked = sum(it.measured_us or 0.0 for it in coverage.answers)
    assert coverage.time.whole == pytest.approx(asked)
    assert asked <= sum(subject.measured.us.values()) + 1e-3


@pytest.mark.parametrize("name", ["bf16_16vm", "bf16_64vm", "fp8_128vm"])
def test_published_profiles_of_another_model_are_no_good_and_their_duplicates_told(
    shared: Path, name: str
) -> None:
    path = shared / "data" / "pgle" / f"{name}.pbtxt"
    counts = Counter(re.findall(r'name: "([^"]+)"', path.read_text()))
    coverage = check_profile(read_profile(path), read_program(STEP))
    assert set(coverage.duplicates) == {it for it, count in counts.items() if count > 1} != set()
    assert coverage.staleness.fit is ProfileFit.UNTOLD
    assert not judge(coverage).passed
