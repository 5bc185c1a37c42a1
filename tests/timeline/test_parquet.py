"""A stored Timeline opens as the one that was written, and never half of one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import polars as pl
import pytest

from counterpoint.core import Basis, Range
from counterpoint.core.errors import InputError, UsageError
from counterpoint.timeline.hosts.assemble import assemble
from counterpoint.timeline.model import Timeline
from counterpoint.timeline.reading import read
from counterpoint.timeline.storage.parquet import MANIFEST, read_parquet, write_parquet
from real_profiles import opened
from recordings import Span, recording


@pytest.fixture
def made() -> Timeline:
    spans = [Span("fusion", 10 * k, 5, run=k) for k in range(6)]
    return assemble([recording(spans)], ["made"])


def test_what_is_read_back_equals_what_was_written(made: Timeline, tmp_path: Path) -> None:
    opened = read_parquet(write_parquet(made, tmp_path / "t.parquet"))
    for field in fields(Timeline):
        before, after = getattr(made, field.name), getattr(opened, field.name)
        if isinstance(before, pl.DataFrame):
            assert before.equals(after), field.name
            assert before.schema == after.schema, field.name
        elif field.name != "programs":
            assert before == after, field.name
    assert [entry.name for entry in opened.programs] == ["jit_step"]


def test_a_prediction_keeps_its_target_and_range(made: Timeline, tmp_path: Path) -> None:
    predicted = replace(
        made, basis=Basis.PREDICTED, target="2x8xH100", predicted_range=Range(0.009, 0.012)
    )
    opened = read_parquet(write_parquet(predicted, tmp_path / "step"))
    assert (opened.target, opened.predicted_range) == ("2x8xH100", Range(0.009, 0.012))


def test_a_prediction_of_an_earlier_version_has_target_and_range(
    made: Timeline, tmp_path: Path
) -> None:
    path = write_parquet(replace(made, basis=Basis.PREDICTED), tmp_path / "step")
    manifest = json.loads((path / MANIFEST).read_text())
    del manifest["target"], manifest["predicted_range_s"]
    manifest["hosts"][0]["name"] = "one device stands for 16 of 2x8xH100:8x400G"
    manifest["environment"]["prediction_range_s"] = "0.009 0.012"
    (path / MANIFEST).write_text(json.dumps(manifest))
    opened = read_parquet(path)
    assert (opened.target, opened.predicted_range) == ("2x8xH100:8x400G", Range(0.009, 0.012))


def test_read_opens_it(made: Timeline, tmp_path: Path) -> None:
    path = write_parquet(made, tmp_path / "t.parquet")
    assert read(path).spans.equals(made.spans)


def test_nothing_is_overwritten_unless_told(made: Timeline, tmp_path: Path) -> None:
    path = write_parquet(made, tmp_path / "t.parquet")
    with pytest.raises(UsageError, match="exists"):
        write_parquet(made, path)
    write_parquet(made, path, overwrite=True)


def test_what_is_no_timeline_is_never_replaced(made: Timeline, tmp_path: Path) -> None:
    precious = tmp_path / "t.parquet"
    precious.mkdir()
    (precious / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match="exists"):
        write_parquet(made, precious, overwrite=True)
    assert (precious / "thesis.tex").read_text() == "years of work"


def test_an_interruption_leaves_nothing(
    made: Timeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pl.DataFrame, "write_parquet", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_parquet(made, tmp_path / "t.parquet")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damage", ["timeline.json", "spans.parquet"])
def test_a_damaged_one_is_refused(made: Timeline, tmp_path: Path, damage: str) -> None:
    path = write_parquet(made, tmp_path / "t.parquet")
    (path / damage).write_bytes(b"{")
    with pytest.raises(InputError, match="complete stored Timeline"):
        read(path)


def test_a_table_of_another_timeline_is_refused(made: Timeline, tmp_path: Path) -> None:
    path = write_parquet(made, tmp_path / "t.parquet")
    other = [Span(f"fusion.{k}", 10 * k, 5, run=k) for k in range(6)]
    larger = write_parquet(assemble([recording(other)], ["other"]), tmp_path / "o.parquet")
    shutil.copy(larger / "spans.parquet", path / "spans.parquet")
    with pytest.raises(InputError, match=r"spans\.parquet .*row 5 of ops, .* 1"):
        read(path)


def test_the_hlo_travels_along(shared: Path, tmp_path: Path) -> None:
    made = opened(shared / "data/traces/jax_gemm_mi300x.xplane.pb")
    again = read_parquet(write_parquet(made, tmp_path / "t.parquet"))
    names = [(entry.name, len(entry.variants)) for entry in made.programs]
    assert [(entry.name, len(entry.variants)) for entry in again.programs] == names
    program = next(entry.hlo() for entry in again.programs if entry.variants)
    assert program is not None
    assert program.is_scheduled


OTHER_TABLES: dict[str, Callable[[pl.DataFrame], pl.DataFrame]] = {
    "a column missing": lambda table: table.drop("device"),
    "a column of another type": lambda table: table.cast({"device": pl.String}),
}


@pytest.mark.parametrize("table", ["spans", "runs", "steps"])
@pytest.mark.parametrize("change", OTHER_TABLES)
def test_other_columns_are_refused(made: Timeline, tmp_path: Path, table: str, change: str) -> None:
    path = write_parquet(made, tmp_path / "t.parquet")
    file = path / f"{table}.parquet"
    OTHER_TABLES[change](pl.read_parquet(file)).write_parquet(file)
    with pytest.raises(InputError, match=rf"{table}\.parquet.* column device"):
        read(path)


def test_damaged_hlo_is_refused_in_one_line(made: Timeline, tmp_path: Path) -> None:
    path = write_parquet(made, tmp_path / "t.parquet")
    (path / "hlo.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(InputError, match=r"hlo\.parquet") as refused:
        read(path)
    assert "\n" not in refused.value.what


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        ("{}", "timeline.json is not a Timeline"),
        ("[]", "timeline.json is not a Timeline"),
        ('{"format": "other/1"}', "its format is 'other/1'"),
        ('{"format": "counterpoint.timeline/1"}', "timeline.json: .*lacks `basis`|field `basis`"),
    ],
)
def test_another_manifest_is_refused(
    made: Timeline, tmp_path: Path, manifest: str, said: str
) -> None:
    path = write_parquet(made, tmp_path / "t.parquet")
    (path / "timeline.json").write_text(manifest)
    with pytest.raises(InputError, match=said):
        read(path)


def test_a_table_that_can_not_be_written_is_one_clear_error(
    made: Timeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(*_: object, **__: object) -> None:
        raise pl.exceptions.ComputeError("No space left on device (os error 28)\n\nPLAN")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", fill)
    with pytest.raises(UsageError, match=r"No space left[^\n]*$"):
        write_parquet(made, tmp_path / "t.parquet")
    assert list(tmp_path.iterdir()) == []


def test_a_url_is_not_written(made: Timeline) -> None:
    with pytest.raises(UsageError, match="not written"):
        write_parquet(made, "memory://out.parquet")


WRONG: dict[str, object] = {
    "basis": "guessed",
    "inputs": [1],
    "hosts": [],
    "devices": [{"ordinal": 0, "kind": "gpu", "host": 7}],
    "lines": {"0": "a"},
    "programs": [{"name": 3, "fingerprints": []}],
    "step_rule": None,
    "step_program": "jit_step",
    "host_names": "abc",
    "environment": {"jax": 1},
    "notes": [None],
    "truncated": "no",
    "target": 5,
    "predicted_range_s": [2.0, 1.0],
    "chosen": {"first": "a"},
}


@pytest.mark.parametrize("field", WRONG)
def test_a_field_of_a_wrong_type_or_value_is_named(
    made: Timeline, tmp_path: Path, field: str
) -> None:
    path = write_parquet(made, tmp_path / "t.parquet")
    manifest = json.loads((path / MANIFEST).read_text())
    assert field in manifest
    manifest[field] = WRONG[field]
    (path / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(InputError, match=f"{field}|low to high") as refused:
        read(path)
    assert refused.value.what.startswith(str(path))


def test_deep_json_is_an_error_of_the_file(made: Timeline, tmp_path: Path) -> None:
    path = write_parquet(made, tmp_path / "t.parquet")
    (path / MANIFEST).write_text("[" * 100_000)
    with pytest.raises(InputError, match="nested too deep"):
        read(path)


@pytest.mark.parametrize(
    ("table", "column", "value", "said"),
    [
        ("spans", "dur_ps", -1, "dur_ps has -1"),
        ("spans", "start_ps", 1 << 62, "start_ps has"),
        ("spans", "start_ps", None, "start_ps has nulls"),
        ("spans", "op", None, "op has nulls"),
        ("ops", "lane", "elsewhere", "lane has 'elsewhere'"),
        ("ops", "name", None, "name has nulls"),
        ("ops", "flops", float("nan"), "flops has numbers that are not finite"),
        ("ops", "bytes", -5, "bytes has -5"),
        ("runs", "end_ps", -5, "end_ps is before start_ps"),
        ("steps", "step", None, "step has nulls"),
    ],
)
def test_a_value_that_no_timeline_has_is_named(
    made: Timeline, tmp_path: Path, table: str, column: str, value: object, said: str
) -> None:
    path = write_parquet(made, tmp_path / "t.parquet")
    file = path / f"{table}.parquet"
    rows = pl.read_parquet(file)
    values = pl.Series(column, [value, *rows[column].to_list()[1:]], rows.schema[column])
    rows.with_columns(values).write_parquet(file)
    with pytest.raises(InputError, match=rf"{table}\.parquet: .*{said}|{table}\.parquet: {said}"):
        read(path)
