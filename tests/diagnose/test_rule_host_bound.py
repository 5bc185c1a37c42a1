"""STEP301: devices wait for the host to launch."""

from __future__ import annotations

from dataclasses import replace

import pytest
from host_side import Event, Run, case, loop, made, most, recorded

from counterpoint.core.basis import Basis
from counterpoint.diagnose.finding import Finding
from counterpoint.diagnose.rules import host_bound
from counterpoint.timeline.hosts.assemble import assemble
from counterpoint.timeline.model import Timeline
from golden_sections import Said

LOG = Event("$train.py:88 log_metrics", 0, 40)


def found(timeline: Timeline) -> list[Finding]:
    return list(host_bound.check(case(timeline)))


def test_python_between_steps(said: Said) -> None:
    (finding,) = found(loop([LOG]))
    assert "the host runs Python for 0.04 ms" in finding.detail
    assert most(finding) == pytest.approx(0.060)
    assert {gap.dur_ps for gap in finding.evidence[0].gaps} == {60_000_000}
    assert any(it.what == "$train.py:88 log_metrics" for it in finding.evidence)
    assert finding.doubt is not None
    assert "Python tracer" in finding.doubt
    said(finding)


def test_waiting_for_a_thread_is_no_python_to_be_moved_to_one(said: Said) -> None:
    (finding,) = found(
        loop([Event("$mine.py:7 main", 0, 50), Event("$threading.py:611 wait", 1, 48)])
    )
    assert "waits 0.048 ms for a lock or an event of another thread" in finding.detail
    assert "input pipeline is too slow" in finding.remedy.text
    assert finding.doubt is None
    said(finding)


def test_what_the_python_tracer_did_not_show_is_not_to_be_recorded_with_it() -> None:
    (finding,) = found(loop([Event("$mine.py:7 main", 0, 5)]))
    assert "profile_python" not in finding.remedy.text
    assert "TraceAnnotation" in finding.remedy.text


def test_many_calls() -> None:
    runs = [
        Run(n * 150 + at, 45, program=it)
        for n in range(5)
        for at, it in ((0, "jit_norm"), (45, "jit_step"))
    ]
    calls = [
        Event(f"PjitFunction({it})", n * 150 + at, 30)
        for n in range(5)
        for at, it in ((-60, "norm"), (-30, "step"))
    ]
    (finding,) = found(made(runs, calls, [(n * 150, 150) for n in range(5)]))
    assert "calls jitted functions for 0.06 ms" in finding.detail
    assert "fewer and larger" in finding.remedy.text
    assert finding.doubt is None


def test_one_call_per_step_is_not_advised_where_it_is_made(said: Said) -> None:
    (finding,) = found(loop([Event("ParseArguments", 5, 40)], call=60))
    assert "calls jitted functions for 0.06 ms" in finding.detail
    assert "one call already" in finding.remedy.text
    said(finding)


def test_calls_of_steps_that_compile_are_long_because_of_that() -> None:
    compiles = [Event("backend_compile", 3_000, 4_000)]
    (finding,) = found(loop(compiles, busy=10_000, gap=8_200, call=8_000))
    assert "STEP303" in finding.remedy.text


def test_nothing_recorded_is_said(said: Said) -> None:
    (finding,) = found(made([Run(n * 150, 90) for n in range(5)]))
    assert "--profile-python" in finding.remedy.text
    said(finding)


def test_nsight_systems_has_other_options() -> None:
    timeline = made([Run(n * 150, 90) for n in range(5)])
    (finding,) = found(replace(timeline, inputs=("made.nsys-rep",)))
    assert "TraceAnnotation" in finding.remedy.text
    (finding,) = found(replace(timeline, environment={"NvDriverVersion": "580.95"}))
    assert "tracer_level" not in finding.remedy.text


def test_a_steps_marker_is_no_python(said: Said) -> None:
    """Under it the host may sleep or wait for the step; only `log` has a name of its own."""
    marker = Event("train", -100, 150)
    (finding,) = found(loop([marker, Event("log", 30, 10)]))
    assert "for 0.04 ms the profile does not show" in finding.detail
    assert "runs Python for 0.01 ms" in finding.detail
    assert ("train", pytest.approx(0.040)) in [(it.what, it.ms) for it in finding.evidence]
    said(finding)


def test_where_no_thread_launches_all_are_shown() -> None:
    timeline = made([Run(n * 150, 90) for n in range(5)], [Event("train", 0, 600)])
    (finding,) = found(timeline)
    assert ("train", pytest.approx(0.060)) in [(it.what, it.ms) for it in finding.evidence]


def test_a_device_that_waits_for_a_slower_host_is_not_its_hosts_fault() -> None:
    """Both begin together; host 1 computes 40 us longer, and the other waits for the next step."""
    one = recorded([Run(n * 150, 90) for n in range(5)], host="host0")
    two = recorded([Run(n * 150, 130) for n in range(5)], host="host1")
    (finding,) = found(assemble([one, two], ["a", "b"]))
    assert most(finding) == pytest.approx((20 + 0) / 2 / 1e3)  # 20 us are a launch


def test_kernels_that_are_launched_one_by_one(said: Said) -> None:
    runs = [Run(n * 100, 100, busy=((0, 20), (50, 20), (80, 20))) for n in range(4)]
    launches = [Event("GpuExecutable::ExecuteThunks", n * 100 - 5, 90) for n in range(4)]
    (finding,) = found(made(runs, launches, [(n * 100, 100) for n in range(4)]))
    assert "command buffers" in finding.remedy.text
    said(finding)


def test_the_garbage_collector_has_a_remedy_of_its_own() -> None:
    (finding,) = found(loop([Event("$gc collect", 2, 46)]))
    assert "gc.freeze()" in finding.remedy.text
    assert "to a thread" not in finding.remedy.text


def test_garbage_that_python_collects_on_its_own_is_told_by_jaxs_calls_around_it() -> None:
    """JAX has itself called where a collection begins and ends; what takes long is in between."""
    around = [
        Event(name, at, length)
        for at in (3, 48)
        for name, length in (
            ("$__init__.py:132 _xla_gc_callback", 2),
            ("PythonRefManager::CollectGarbage", 1),
        )
    ]
    (finding,) = found(loop([Event("$train.py:3 log", 1, 49), *around]))
    assert "gc.freeze()" in finding.remedy.text
    assert finding.evidence[1].what == "$__init__.py:132 _xla_gc_callback in $train.py:3 log"
    assert finding.evidence[1].ms == pytest.approx(0.047)


def locked(sleeps: int) -> Timeline:
    """The loop is silent for 8 ms between steps; another thread sleeps and begins something."""
    beside = [
        Event("$time sleep", -3_000, sleeps, thread="metrics"),
        Event("$<unknown> __exit__", sleeps - 2_998, 2, thread="metrics"),
    ]
    return loop(beside, busy=10_000, gap=8_000, call=10)


def test_a_lock_without_an_event_is_told_by_the_thread_that_releases_it() -> None:
    (finding,) = found(locked(10_980))
    assert "another thread, which runs $time sleep" in finding.detail
    assert any("$time sleep on the thread that it waits for" in it.what for it in finding.evidence)


def test_another_thread_that_sleeps_for_itself_is_not_waited_for() -> None:
    (finding,) = found(locked(9_000))
    assert "another thread" not in finding.detail


def test_a_full_queue_is_no_late_launch() -> None:
    """The launching goes on all the time, since the queue is full: 2 us of 100 are idle."""
    runs = [Run(n * 100, 100, busy=((0, 48), (50, 48), (98, 2))) for n in range(4)]
    launches = [Event("GpuExecutable::ExecuteThunks", n * 100 - 5, 100) for n in range(4)]
    assert not found(made(runs, launches, [(n * 100, 100) for n in range(4)]))


def test_a_host_that_is_ahead_is_not_to_blame() -> None:
    runs = [Run(n * 150, 90) for n in range(5)]
    calls = [Event("PjitFunction(step)", n * 150 - 100, 10) for n in range(5)]
    steps = [(n * 150, 150) for n in range(5)]
    assert not found(made(runs, [*calls, Event("$log.py:1 f", 0, 700)], steps))


def test_a_gap_no_longer_than_a_launch() -> None:
    assert not found(loop([Event("$train.py:88 log", 0, 15)], gap=20, call=5))


def test_what_a_wait_for_a_result_explains_is_left_to_its_rule() -> None:
    assert not found(loop([Event("np.asarray(jax.Array)", -80, 130)]))


def test_python_after_a_wait_is_pythons_and_could_overlap_the_step() -> None:
    """Without the wait it would be hidden, but it is what takes the time."""
    (finding,) = found(loop([Event("np.asarray(jax.Array)", -80, 90), Event("$a.py:1 f", 10, 40)]))
    assert most(finding) == pytest.approx(0.040)
    assert "call the next step before" in finding.remedy.text


def test_a_prediction_has_no_host() -> None:
    assert not found(replace(loop([LOG]), basis=Basis.PREDICTED))
