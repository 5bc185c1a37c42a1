"""The offline search with the real compiler: a small sharded step for eight H100s."""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from counterpoint.compile.inputs.workload import load_workload
from counterpoint.core.errors import UsageError
from counterpoint.diagnose.explanation import explain
from counterpoint.flags.settings import Settings
from counterpoint.timeline.reading import read
from counterpoint.tune.arm import BASE, Acts, Arm, ArmChange, ArmOrigin, Predicted
from counterpoint.tune.plan import StudyPlan
from counterpoint.tune.request import TuneRequest
from counterpoint.tune.search.grid import Grid
from counterpoint.tune.search.search import search
from counterpoint.tune.search.stages import remedies
from counterpoint.tune.session import dry_run
from counterpoint.tune.space.space import Space
from counterpoint.tune.study.directory import step_path
from counterpoint.tune.study.ledger import Ledger
from counterpoint.tune.study.records import CandidateSeen
from counterpoint.tune.study.study import Study
from counterpoint.workflow.forecast.batch import PredictionInputs, forecasts
from counterpoint.workflow.forecast.forecast import PricingContext
from counterpoint.workflow.forecast.options import PredictionOptions
from counterpoint.workflow.subject import find_subject
from lowered import H100, Lowered
from tune_search_spaces import dimension, ledger, space, variable

pytest.importorskip("optuna")
pytestmark = pytest.mark.system

PLAN = StudyPlan(candidates=15, shortlist=4, jobs=2)
UNKNOWN = Arm(
    name="unknown", settings=Settings(xla=(("xla_gpu_no_such", "1"),)), origin=ArmOrigin.HAND
)
BOTH = ArmChange(
    dimension="autotuning",
    choice="2",
    settings=Settings(xla=(("xla_gpu_autotune_level", "2"),)),
    acts=Acts.RUNTIME,
)
FLAGS = Arm(name="flags", settings=BOTH.settings, changes=(BOTH,), origin=ArmOrigin.HAND)
AT_RUN = Settings(env=(("NCCL_PROTO", "Simple"),))
SPACE = space(
    dimension("pipelined", "true", flag="xla_gpu_enable_pipelined_all_gather"),
    dimension("gather", "0", "31457281", flag="xla_gpu_all_gather_combine_threshold_bytes"),
    dimension("scatter", "0", flag="xla_gpu_reduce_scatter_combine_threshold_bytes"),
    variable("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.0001", dimension="memory", acts=Acts.SCHEDULE),
    variable("NCCL_ALGO", "Ring", dimension="algorithm"),
    dimension("PGLE", profile=True),
    seeds=(UNKNOWN, FLAGS, Arm(name="mine", settings=AT_RUN, origin=ArmOrigin.HAND)),
)


@pytest.fixture(scope="module")
def work(lowered: Lowered) -> PredictionInputs:
    subject = find_subject(load_workload(lowered.ir))
    return PredictionInputs(
        subject, PricingContext(target=H100), PredictionOptions(), lambda _: None
    )


@pytest.fixture(scope="module")
def progress() -> list[str]:
    return []


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("study")


@pytest.fixture(scope="module")
def study(work: PredictionInputs, progress: list[str], kept: Path) -> Study:
    one = ledger()
    search(work, SPACE, PLAN, one, progress.append, keep=kept)
    return one.study


def by_name(study: Study) -> dict[str, CandidateSeen]:
    return {it.arm.name: it for it in study.candidates}


def predictions(study: Study) -> dict[str, Predicted]:
    return {it.arm.name: it.arm.predicted for it in study.candidates if it.arm.predicted}


def not_tied(seen: CandidateSeen) -> CandidateSeen:
    """As it was before the search had come to its end."""
    figures = seen.arm.predicted
    predicted = replace(figures, tied=False) if figures is not None else None
    return replace(seen, arm=replace(seen.arm, predicted=predicted))


def without_times(study: Study) -> list[CandidateSeen]:
    return [replace(not_tied(it), at="") for it in study.candidates]


def test_a_dry_run_lists_all_that_the_search_tries(lowered: Lowered, tmp_path: Path) -> None:
    """A recipe's settings are tried one by one, too, even those that no dimension has."""
    request = TuneRequest(
        workload=str(lowered.ir), target=H100, directory=tmp_path / "study", measure=False
    )
    space = dry_run(request).space
    changes = [change for arm in space.seeds for change in arm.changes]
    of_seeds = {change.dimension for change in changes if change.acts is Acts.SCHEDULE}
    assert of_seeds  # a recipe for this step changes the schedule
    assert of_seeds <= {dimension.name for dimension in space.dimensions}


def test_the_base_comes_first_and_each_candidate_once(study: Study) -> None:
    names = [it.arm.name for it in study.candidates]
    assert names[0] == BASE
    assert len(names) == len(set(names))
    assert predictions(study)[BASE].gain == 0


def test_what_explain_names_is_tried_before_anything_else(
    study: Study, work: PredictionInputs
) -> None:
    base = forecasts(work).base
    found = explain(base.simulation.timeline, target=H100, settings=base.settings).findings
    first = [it.name for it in remedies(found, Grid(SPACE))]
    assert first  # the step of this test has a loss against which settings help
    assert [it.arm.name for it in study.candidates][1 : 1 + len(first)] == first


def test_equal_programs_are_named_and_not_listed(study: Study) -> None:
    idle = by_name(study)["gather 31457281"]
    assert idle.same_as == BASE
    assert study.search is not None
    listed = [
        predictions(study)[it].program for it in study.search.shortlist if it in predictions(study)
    ]
    others = [it for it in listed if it != predictions(study)[BASE].program]
    assert len(others) == len(set(others))


def test_a_failure_and_what_is_too_large_end_nothing(study: Study) -> None:
    failed = by_name(study)["unknown"]
    assert "xla_gpu_no_such" in (failed.failure or "")
    large = predictions(study)["memory 0.0001"]
    assert large.fits is False
    assert large.peak_bytes is not None
    assert large.limit_bytes is not None
    assert large.peak_bytes > large.limit_bytes
    assert study.search is not None
    assert not {"unknown", "memory 0.0001"} & set(study.search.shortlist)


def test_the_best_is_listed_first_and_each_of_its_changes_brings_something(study: Study) -> None:
    ended = study.search
    assert ended is not None
    made = predictions(study)
    best = max(it.gain for it in made.values() if it.fits)
    assert best > 0.005
    assert made[ended.shortlist[0]].gain == pytest.approx(best, abs=0.004)
    assert made[ended.shortlist[0]].tied
    assert {it.arm for it in study.ablation} == {ended.shortlist[0]}
    assert all(it.loses > 0.001 or (it.high and it.high > 0.001) for it in study.ablation)
    assert "predicted to save" in ended.why


def test_what_acts_at_run_time_comes_behind_what_is_predicted(study: Study) -> None:
    assert study.search is not None
    names = study.search.shortlist
    at_run = [it for it in names if it in ("mine", "flags", "algorithm Ring")]
    assert at_run == list(names[len(names) - len(at_run) :])
    assert by_name(study)["algorithm Ring"].arm.predicted is None
    assert by_name(study)["mine"].same_as == BASE
    # Flags by hand are compiled: what they change in the schedule is known then, and no more.
    assert by_name(study)["flags"].arm.predicted is not None
    assert "can't be predicted" in study.search.why


def test_so_many_are_confirmed_beside_those_by_hand(work: PredictionInputs) -> None:
    one = ledger()
    search(work, SPACE, replace(PLAN, candidates=5), one, confirm=1)
    assert one.study.search is not None
    listed = set(one.study.search.shortlist)
    assert {"mine", "flags"} < listed
    assert len(listed) == 3
    assert predictions(one.study)[one.study.search.shortlist[0]].gain > 0


def test_a_profile_is_tried_on_the_best(study: Study) -> None:
    profiled = [it for it in study.candidates if it.arm.profile]
    assert profiled
    assert all(it.arm.predicted is not None for it in profiled)
    assert all(not it.arm.settings.flags.get("xla_gpu_pgle_profile_file") for it in profiled)


def test_the_steps_of_the_base_and_of_the_fastest_arms_that_fit_can_be_looked_at(
    study: Study, kept: Path
) -> None:
    made = {step_path(kept, it): it for it in predictions(study).values()}
    base = step_path(kept, predictions(study)["base"])
    others = [path for path, it in made.items() if it.fits and path != base]
    fastest = sorted(others, key=lambda path: made[path].step_s)[:8]
    assert set((kept / "steps").iterdir()) == {base, *fastest}
    for path in (base, *fastest):
        step = read(path).steps.row(0, named=True)
        assert (step["end_ps"] - step["start_ps"]) / 1e12 == pytest.approx(made[path].step_s)


def test_progress_is_told(study: Study, progress: list[str]) -> None:
    assert study.search is not None
    assert progress[-1] == study.search.why
    assert any("failed" in it and "too large" in it for it in progress)


def test_a_search_that_was_ended_goes_on_to_the_same(work: PredictionInputs, study: Study) -> None:
    begun = ledger().study
    known = tuple(map(not_tied, study.candidates[:6]))
    again = Ledger(replace(begun, space=study.space, candidates=known), lambda _: None)
    search(work, SPACE, PLAN, again)
    assert without_times(again.study) == without_times(study)
    assert again.study.search is not None
    assert study.search is not None
    assert again.study.search.shortlist == study.search.shortlist


def test_arms_that_an_earlier_version_named_are_not_tried_again(
    work: PredictionInputs, study: Study
) -> None:
    def old(name: str) -> str:
        return f"{name.partition(' + ')[0]} + 1 more #{zlib.crc32(name.encode()):08x}"[:-2]

    names = {
        seen.arm.name: old(seen.arm.name)
        for seen in study.candidates
        if seen.arm.origin is ArmOrigin.SEARCH and " + " in seen.arm.name
    }
    assert names
    known = tuple(
        replace(
            seen,
            arm=replace(seen.arm, name=names.get(seen.arm.name, seen.arm.name)),
            same_as=names.get(seen.same_as or "", seen.same_as),
        )
        for seen in study.candidates[:-1]
    )
    part = replace(ledger().study, space=study.space, candidates=known)
    again = Ledger(part, lambda _: None)
    search(work, SPACE, PLAN, again)
    assert again.study.search is not None
    assert study.search is not None
    assert len(again.study.candidates) == len(study.candidates)
    assert again.study.search.shortlist == tuple(
        names.get(name, name) for name in study.search.shortlist
    )


@pytest.mark.smoke
def test_one_that_is_stopped_has_no_end(work: PredictionInputs) -> None:
    one = ledger()
    search(work, SPACE, replace(PLAN, jobs=1), one, stopped=lambda: len(one.study.candidates) > 2)
    assert one.study.search is None
    assert len(one.study.candidates) >= 3


def test_a_base_that_fails_is_everybodys_error(work: PredictionInputs) -> None:
    base = Settings(xla=(("xla_gpu_no_such", "1"),))
    with pytest.raises(UsageError, match="xla_gpu_no_such"):
        search(work, Space(base=base), PLAN, ledger())
