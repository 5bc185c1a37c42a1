"""The outcome of several ranks as one, and exit codes."""

from __future__ import annotations

import pytest

from counterpoint.runs.outcomes import Outcome, OutcomeKind, outcome_of_ranks

OK = Outcome(OutcomeKind.OK, 0)
ERROR = Outcome(OutcomeKind.ERROR, 7, detail="ValueError")
ABORTED = Outcome(OutcomeKind.SIGNAL, None, "SIGABRT", "coordination service")
MEMORY = Outcome(OutcomeKind.OUT_OF_MEMORY, 1, detail="RESOURCE_EXHAUSTED")
TAKEN_ALONG = Outcome(OutcomeKind.INTERRUPTED, None, "SIGTERM", "ended because rank 1 had")
RUNNING = Outcome(OutcomeKind.RUNNING)


def of_ranks(*outcomes: Outcome) -> Outcome:
    return outcome_of_ranks([(at, outcome, float(at)) for at, outcome in enumerate(outcomes)])


def test_all_well() -> None:
    assert of_ranks(OK, OK) == OK


def test_the_first_death_is_the_run_s() -> None:
    assert of_ranks(OK, ERROR, ABORTED).kind is OutcomeKind.ERROR
    assert of_ranks(TAKEN_ALONG, ERROR) == Outcome(
        OutcomeKind.ERROR, 7, detail="rank 1: ValueError"
    )


def test_a_cause_with_a_name_counts_before_an_earlier_death() -> None:
    assert of_ranks(ABORTED, MEMORY).kind is OutcomeKind.OUT_OF_MEMORY


def test_one_rank_s_outcome_is_left_as_it_is() -> None:
    assert of_ranks(ERROR) == ERROR


def test_a_run_goes_on_while_a_rank_does() -> None:
    assert of_ranks(RUNNING, OK) == RUNNING
    going_on = of_ranks(RUNNING, ERROR)
    assert going_on.kind is OutcomeKind.RUNNING
    assert "error, rank 1: ValueError" in going_on.detail


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (OK, 0),
        (ERROR, 7),
        (ABORTED, 134),
        (Outcome(OutcomeKind.NAN, 0), 0),
        (Outcome(OutcomeKind.TIMEOUT, None, "SIGKILL"), 124),
        (Outcome(OutcomeKind.HANG, None, "SIGABRT"), 124),
        (Outcome(OutcomeKind.INTERRUPTED, 0, "SIGINT"), 130),
        (Outcome(OutcomeKind.INTERRUPTED, 1, "SIGTERM"), 143),
        (Outcome(OutcomeKind.DISK_FULL, None, "SIGTERM"), 3),
        (Outcome(OutcomeKind.DISK_FULL, 1), 1),
        (Outcome(OutcomeKind.LOST), 1),
    ],
)
def test_the_code_a_shell_sees(outcome: Outcome, status: int) -> None:
    assert outcome.status == status


def test_in_words() -> None:
    assert str(ERROR) == "error, exit code 7: ValueError"
    assert str(ABORTED) == f"signal, SIGABRT: {ABORTED.detail}"
    assert str(OK) == "ok"
