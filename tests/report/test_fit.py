"""A table in a width: the least important columns go, then names lose their middle."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.report.document import Column, ColumnKind, TextTable
from counterpoint.report.fit import GAP, fit, widths
from counterpoint.report.places import distinct_paths, short_path, without_beginning, without_middle

NAME = "input_convert_reduce_scatter_fusion.1772"
PLACE = "praxis/layers/attentions.py:777"
TABLE = TextTable(
    columns=(
        Column("op", ColumnKind.NAME),
        Column("category", ColumnKind.WORD, rank=2),
        Column("self ms", ColumnKind.NUMBER),
        Column("count", ColumnKind.NUMBER, rank=1),
        Column("source", ColumnKind.PLACE),
    ),
    rows=((NAME, "reduction", "131.3", "1", PLACE),),
    total=("all 1", "", "131.3", "", ""),
)


def width(table: TextTable) -> int:
    return sum(widths(table)) + GAP * (len(table.columns) - 1)


def test_without_a_width_everything_stays() -> None:
    assert fit(TABLE, None) is TABLE


def test_a_wide_page_needs_no_change() -> None:
    assert fit(TABLE, width(TABLE)) == TABLE


@pytest.mark.parametrize(
    ("room", "titles"),
    [
        (80, ["op", "category", "self ms", "count", "source"]),
        (70, ["op", "self ms", "count", "source"]),
        (60, ["op", "self ms", "source"]),
        (30, ["op", "self ms", "source"]),
    ],
)
def test_columns_go_by_rank(room: int, titles: list[str]) -> None:
    fitted = fit(TABLE, room)
    assert [column.title for column in fitted.columns] == titles
    assert fitted.total is not None
    assert {len(row) for row in (*fitted.rows, fitted.total)} == {len(titles)}


@given(st.integers(min_value=27, max_value=150))
def test_it_fits(room: int) -> None:
    assert width(fit(TABLE, room)) <= room


def test_names_lose_their_middle_and_places_their_beginning() -> None:
    name, _, place = fit(TABLE, 60).rows[0]
    assert name.startswith("input_con")
    assert name.endswith("sion.1772")
    assert "…" in name
    assert place == "layers/attentions.py:777"


def test_a_path_is_cut_between_its_parts_where_that_fits() -> None:
    assert without_beginning(PLACE, 24) == "layers/attentions.py:777"
    assert without_beginning(PLACE, 20) == "attentions.py:777"
    assert without_beginning(PLACE, 10) == "…ns.py:777"
    assert without_beginning(PLACE, 31) == PLACE


@given(st.text(), st.integers(min_value=2, max_value=40))
def test_a_shortened_name_is_as_long_as_asked(text: str, room: int) -> None:
    short = without_middle(text, room)
    assert short == text if len(text) <= room else len(short) == room


@pytest.mark.parametrize(
    ("path", "short"),
    [
        ("/opt/praxis/praxis/layers/attentions.py:777", "praxis/layers/attentions.py:777"),
        ("train.py:1", "train.py:1"),
        ("", ""),
    ],
)
def test_short_paths(path: str, short: str) -> None:
    assert short_path(path) == short


def test_paths_that_end_alike_show_where_they_differ() -> None:
    alike = ["a/w/x/y/z", "b/w/x/y/z", "v/x/y/z", "x/y/z", "s/t/u"]
    assert distinct_paths(alike) == ["a/w/x/y/z", "b/w/x/y/z", "v/x/y/z", "x/y/z", "s/t/u"]
    assert distinct_paths(["p/q/a/x/y/z", "p/q/b/x/y/z"]) == ["a/x/y/z", "b/x/y/z"]


def test_thousands_of_paths_that_end_alike_take_no_minutes() -> None:
    many = [f"model/layers/{number}/attention/query/dot/general" for number in range(20_000)]
    assert distinct_paths(many) == [path.removeprefix("model/layers/") for path in many]


LOSS = TextTable(
    columns=(
        Column("loss", ColumnKind.SENTENCE),
        Column("could save", ColumnKind.WORD),
        Column("share", ColumnKind.NUMBER, rank=1),
        Column("basis", ColumnKind.WORD, rank=2),
    ),
    rows=(("devices wait 0.39 ms for the gradients", "0 to 0.39 ms", "3.9%", "rule of thumb"),),
)


@pytest.mark.parametrize(
    ("room", "cells"),
    [
        (74, ("devices wait 0.39 ms for the gradients", "0 to 0.39 ms", "3.9%", "rule of thumb")),
        (60, ("devices wait 0.39 ms for the gradients", "0 to 0.39 ms", "3.9%")),
        (54, ("devices wait 0.39 ms for the gradients", "0 to 0.39 ms")),
        (40, ("devices wait 0.39 ms for…", "0 to 0.39 ms")),
    ],
)
def test_a_sentence_loses_its_end_after_the_other_columns(
    room: int, cells: tuple[str, ...]
) -> None:
    assert fit(LOSS, room).rows == (cells,)


def test_a_folded_name_does_not_look_like_two() -> None:
    name = "xla_gpu_experimental_enable_triton_warp_specialization"
    table = TextTable(
        columns=(Column("name", ColumnKind.WORD), Column("is", ColumnKind.WORD)),
        rows=((name, "false"),),
    )
    first, *others = fit(table, 40).rows[0][0].split("\n")
    assert others
    assert all(line.startswith("  ") for line in others)
    assert "".join([first, *(line.removeprefix("  ") for line in others)]) == name
