"""Trip counts that the compiler does not know: told by the user, or measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpoint.core.errors import InputError, UsageError
from counterpoint.hlo.model.program import Program
from counterpoint.simulate.simulation import simulate
from counterpoint.timeline.hosts.assemble import assemble
from counterpoint.timeline.model import EmbeddedProgram
from counterpoint.timeline.storage.parquet import write_parquet
from counterpoint.workflow.forecast.loop_trips import read_trips
from hand_made import Told, compute, entry, loop, program, run_loop
from recordings import Span, recording

WHERE = ', metadata={op_name="jit(f)/while" source_file="train.py" source_line=12}'
TEXT = loop(compute("a", "q")) + entry(run_loop(None) + WHERE)


def made(text: str = TEXT) -> Program:
    return program(text)


def seconds(of: Program) -> float:
    return simulate(of, Told({"a": 2, "result": 0, "body.loop": 0, "goes_on": 0})).step_s


@pytest.mark.parametrize("name", ["body.loop", "train.py:12"])
def test_a_loop_turns_as_often_as_told(name: str) -> None:
    trips = read_trips([f"{name}=30"], None)
    told, notes = trips.applied(made())
    assert seconds(told) == pytest.approx(60)
    assert not simulate(told, Told()).uncounted
    assert notes == ("body.loop turns 30 times, as told",)
    trips.check([made()])


def test_a_count_that_the_compiler_knows_stays() -> None:
    known = made(loop(compute("a", "q")) + entry(run_loop(4)))
    assert seconds(read_trips(["body.loop=30"], None).applied(known)[0]) == pytest.approx(8)


def test_a_name_of_no_loop_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(UsageError, match=r"while\.9.*no such loop") as caught:
        read_trips(["while.9=3"], None).check([made()])
    assert "body.loop (train.py:12)" in str(caught.value)


@pytest.mark.parametrize("text", ["while.5", "while.5=", "=4", "while.5=-1", "while.5=many"])
def test_what_is_not_a_count_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="trip count"):
        read_trips([text], None)


def profile(path: Path, turns: list[int]) -> Path:
    """Runs of the program in which the loop turned this often."""
    spans: list[Span] = []
    for run, count in enumerate(turns):
        spans += [
            Span("a", 1000 * run + 10 * turn, 5, run=run, module="made") for turn in range(count)
        ]
        spans.append(Span("result", 1000 * run + 900, 5, run=run, module="made"))
    text = f"HloModule made, is_scheduled=true, num_partitions=2\n{TEXT}".encode()
    programs = {"made": EmbeddedProgram("made", lambda: text)}
    write_parquet(assemble([recording(spans, programs=programs)], ["made"]), path)
    return path


def test_a_profile_tells_how_often_a_loop_turned(tmp_path: Path) -> None:
    trips = read_trips([], profile(tmp_path / "made", [20, 22, 21]))
    told, (note,) = trips.applied(made())
    assert seconds(told) == pytest.approx(42)
    assert note.startswith("body.loop turns 21 times (20 to 22), measured by")


def test_what_is_told_precedes_what_was_measured(tmp_path: Path) -> None:
    trips = read_trips(["body.loop=3"], profile(tmp_path / "made", [20, 22, 21]))
    assert seconds(trips.applied(made())[0]) == pytest.approx(6)


def elsewhere(source: str) -> Program:
    return made(TEXT.replace("train.py", source))


def test_a_file_may_lie_in_another_directory_than_when_it_was_measured(tmp_path: Path) -> None:
    trips = read_trips([], profile(tmp_path / "made", [20]))
    told, (note,) = trips.applied(elsewhere("/home/me/train.py"))
    assert seconds(told) == pytest.approx(40)
    assert note.endswith("as the loop of its train.py:12")
    assert trips.without_counts([told]) == ()


def test_a_profile_that_counts_other_loops_says_so(tmp_path: Path) -> None:
    trips = read_trips([], profile(tmp_path / "made", [20]))
    told, notes = trips.applied(elsewhere("/home/me/other.py"))
    assert notes == ()
    (warning,) = trips.without_counts([told])
    assert "no count for body.loop (/home/me/other.py:12)" in warning
    assert warning.endswith("those of the loops at train.py:12")
    (warning,) = trips.without_counts([made(entry(compute("a", "p")))])
    assert warning.endswith("the step has no loop of unknown trip count")


def test_a_profile_without_such_a_loop_is_refused(tmp_path: Path) -> None:
    spans = [Span("fusion", 100 * k, 50, run=k) for k in range(3)]
    write_parquet(assemble([recording(spans)], ["made"]), tmp_path / "made")
    with pytest.raises(InputError, match="no loop of unknown trip count"):
        read_trips([], tmp_path / "made")
