"""Ops summed up by layer, source line and kind: nothing is lost, and few rows are most of it."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterpoint
import timelines
from counterpoint.core.errors import UsageError
from counterpoint.diagnose.attribution import PHASES
from counterpoint.diagnose.ops import GROUPINGS, finest, grouped, merged_layers

MODEL = [f"Model/layers_{layer}/{part}" for layer in range(32) for part in ("mlp", "attention")]


def test_layers_of_one_kind_are_one_name() -> None:
    assert {*merged_layers(MODEL).values()} == {"Model/layers_*/mlp", "Model/layers_*/attention"}


@pytest.mark.parametrize(
    ("scopes", "names"),
    [
        (["block3", "block4", "block5"], {"block*"}),
        (["layers[0]/mlp", "layers[1]/mlp", "layers[2]/mlp"], {"layers[*]/mlp"}),
        (["h/0/mlp", "h/1/mlp", "h/2/mlp"], {"h/*/mlp"}),
        (["encoder/Dense_0", "encoder/Dense_1"], {"encoder/Dense_0", "encoder/Dense_1"}),
        (
            [f"stage_{one}/block_{two}" for one in range(3) for two in range(3)],
            {"stage_*/block_*"},
        ),
        (["layer_0/q", "layer_1/k", "embed_2"], {"layer_0/q", "layer_1/k", "embed_2"}),
    ],
)
def test_three_numbers_make_layers(scopes: list[str], names: set[str]) -> None:
    assert {*merged_layers(scopes).values()} == names


OPS = st.lists(
    st.fixed_dictionaries(
        {
            "op": st.integers(0, 99).map("fusion.{}".format),
            "scope": st.sampled_from([None, "loss", "layers_0/mlp", "layers_1/mlp", "layers_2/x"]),
            "source": st.sampled_from([None, "a.py:1", "b.py:2"]),
            "category": st.sampled_from(["matmul", "copy"]),
            "phase": st.sampled_from([None, *PHASES]),
            "self_ms": st.floats(0, 100),
            "count": st.integers(1, 4).map(float),
        }
    ),
    min_size=1,
    unique_by=lambda row: str(row["op"]),
)


@given(OPS)
@settings(deadline=None)
def test_rows_add_up_to_the_time_in_ops(rows: list[dict[str, object]]) -> None:
    schema = {"scope": pl.String, "source": pl.String, "phase": pl.String, "self_ms": pl.Float64}
    ops = pl.DataFrame(rows, schema_overrides=schema).with_columns(
        program=pl.lit(0), share=pl.col("self_ms") / 100
    )
    for by in GROUPINGS:
        table = grouped(ops, by)
        assert table["self_ms"].sum() == pytest.approx(ops["self_ms"].sum())
        assert table["ops"].sum() == len(ops)
        phases = table.select(pl.sum_horizontal(f"{phase}_ms" for phase in PHASES)).to_series()
        assert phases.to_list() == pytest.approx(table["self_ms"].to_list())


def test_a_model_of_many_layers_is_shown_by_layer_and_a_small_one_by_op() -> None:
    names = {"op": [f"fusion.{number}" for number in range(64)], "scope": MODEL}
    ops = pl.DataFrame(names).with_columns(
        program=pl.lit(0),
        source=pl.lit(None, pl.String),
        category=pl.lit("matmul"),
        phase=pl.lit("forward"),
        self_ms=pl.lit(1.0),
        share=pl.lit(1 / 64),
        count=pl.lit(1.0),
    )
    assert finest(ops, 10) == "scope"
    assert finest(ops.with_columns(scope=pl.lit(None, pl.String)), 10) == "category"
    assert finest(ops.head(8), 10) == "op"


def test_a_notebook_asks_the_explanation() -> None:
    explanation = counterpoint.explain(timelines.two_devices())
    by_scope = explanation.ops_by("scope")
    assert by_scope["name"].to_list() == ["mlp"]
    assert by_scope["self_ms"].sum() == pytest.approx(explanation.ops["self_ms"].sum())
    with pytest.raises(UsageError, match=f"'layer'; allowed: {', '.join(GROUPINGS)}"):
        explanation.ops_by("layer")  # type: ignore[arg-type]
