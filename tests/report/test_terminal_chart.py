"""Charts: levels as bars, the highest of each part, nothing above zero lost."""

from __future__ import annotations

from counterpoint.report.chart import chart_lines
from counterpoint.report.document import Chart, Series


def drawn(*levels: float, width: int = 30, ascii_only: bool = False, means: bool = False) -> str:
    series = Series(label="domain", levels=levels, remark="scale to 450 GB/s")
    chart = Chart(series=(series,), first="0", last="10 ms", means=means)
    return next(chart_lines(chart, width, ascii_only=ascii_only))


def test_each_level_has_its_bar() -> None:
    assert drawn(*(at / 8 for at in range(9)), 0.0) == "domain  │  ▁▁▂▂▃▃▄▄▅▅▆▆▇▇██  │"


def test_a_peak_within_a_part_is_not_lost() -> None:
    levels = [0.0] * 2000
    levels[700] = 1.0
    assert drawn(*levels).count("█") == 1


def test_the_least_demand_shows() -> None:
    assert drawn(*[1e-9] * 20) == f"domain  │{'▁' * 20}│"


def test_terminals_without_blocks_get_letters() -> None:
    assert drawn(*[1.0] * 20, ascii_only=True) == f"domain  |{'@' * 20}|"


def test_what_exceeds_its_scale_fills_the_bar() -> None:
    assert drawn(*[1.7] * 20) == f"domain  │{'█' * 20}│"


def test_the_axis_ends_below_the_last_bar() -> None:
    series = Series(label="ICI", levels=(0.5,) * 20, remark="")
    chart = Chart(series=(series,), first="0", last="10 ms")
    bars, axis = chart_lines(chart, 27, ascii_only=False)
    assert len(axis) == len(bars) - 1


def test_means_add_up_to_what_flows() -> None:
    levels = [1.0, 0.0, 0.0, 0.0] * 20
    assert drawn(*levels, means=True) == f"domain  │{'▂' * 20}│"
    assert drawn(*levels) == f"domain  │{'█' * 20}│"
