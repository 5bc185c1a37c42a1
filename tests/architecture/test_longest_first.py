"""Of the tests of a run, each worker's part begins with slow ones and ends with quick ones."""

from __future__ import annotations

from longest_first import longest_first

TESTS = [
    *(("a", False) for _ in range(5)),
    *(("b", at == 1) for at in range(3)),
    *(("c", False) for _ in range(4)),
    *(("d", True) for _ in range(2)),
    ("e", True),
]


def test_slow_modules_are_dealt_and_quick_ones_fill_up() -> None:
    order = longest_first(TESTS, 2)
    assert sorted(order) == list(range(len(TESTS)))
    modules = "".join(TESTS[at][0] for at in order)
    assert modules == "ddaaaaa" + "bbbecccc"


def test_a_part_of_slow_tests_alone_may_be_longer() -> None:
    tests = [("a", True)] * 5 + [("b", False)]
    assert longest_first(tests, 3) == [0, 1, 2, 3, 4, 5]


def test_without_slow_tests_the_order_stays() -> None:
    tests = [("a", False), ("b", False), ("a", False)]
    assert longest_first(tests, 2) == [0, 1, 2]
