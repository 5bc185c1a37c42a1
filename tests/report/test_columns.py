"""A table's columns are what the fields of its rows say: heading, unit, order and rank."""

from __future__ import annotations

from typing import Annotated, ClassVar

import pytest

from counterpoint.core.field import Field, Form
from counterpoint.report.columns import field_column, field_columns
from counterpoint.report.json import Result


class Copy(Result):
    """A copy between devices."""

    COLUMNS: ClassVar = ("place", "took_ms")

    took_ms: Annotated[float | None, Field("its time", "took ms", Form.MS, rank=1)]
    place: Annotated[str, Field("where", "where", Form.PLACE)]
    hidden: Annotated[bool, Field("whether anything computes meanwhile")]


class Found:
    """What a copy is filled from; times are stored in seconds."""

    took_s = 0.0123
    place = "/home/me/model/blocks/mlp.py:12"
    hidden = True


@pytest.mark.parametrize(
    ("form", "shown"),
    [
        (Form.MS, ["12.50", "0.12", "?"]),
        (Form.US, ["12.500", "0.125", "?"]),
        (Form.DIFFERENCE, ["+12.50", "+0.12", "?"]),
        (Form.SHARE, ["1,250.0%", "12.5%", "?"]),
        (Form.GBPS, ["12.5", "0.1", "?"]),
        (Form.COUNT, ["12.50", "0.12", "?"]),
    ],
)
def test_figures_have_the_unit_and_the_digits_of_their_form(form: Form, shown: list[str]) -> None:
    column = field_column(Field("a figure", "figure", form, digits=1), [12.5, 0.125, None])
    assert column.cells == shown


@pytest.mark.parametrize("form", Form)
def test_every_form_shows_what_is_unknown(form: Form) -> None:
    assert field_column(Field("a value", "value", form), [None]).cells == ["?"]


def test_rows_are_objects_or_plain_data() -> None:
    plain = {"took_ms": 12.3, "place": "/home/me/model/blocks/mlp.py:12", "hidden": True}
    for row in (Found(), plain):
        columns = field_columns(Copy, [row])
        assert [it.title for it in columns] == ["where", "took ms"]
        assert [[*it.cells] for it in columns] == [["model/blocks/mlp.py:12"], ["12.30"]]
        assert [it.rank for it in columns] == [0, 1]


def test_a_table_may_choose_its_fields() -> None:
    (column,) = field_columns(Copy, [Found()], ["took_ms"], {"took_ms": "all of it"})
    assert column.title == "took ms"
    assert column.total == "all of it"
