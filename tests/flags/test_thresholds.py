"""Combine thresholds: the model of XLA's combiner, held to the compiler, and the layer rule."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from counterpoint.cli.app import main
from counterpoint.core.errors import UsageError
from counterpoint.flags.combiner import (
    DEFAULT,
    KINDS,
    CombinerInput,
    CombinerState,
    MergeResult,
    UnmergedCollective,
    combiner_inputs,
    merge_by_default,
    part_bytes,
)
from counterpoint.flags.thresholds import flag_of, layer_rule, parse_count, thresholds
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.reader import read_program
from xla_compiler import Compiler


def merge(place: CombinerInput, threshold: int, most: int = 2048) -> MergeResult:
    """Merge all collectives of a computation."""
    return CombinerState(place).run(threshold, range(len(place.parts)), most)


def observed(program: Program, kind: str) -> Counter[int]:
    """Bytes of each collective that is there, merged or not."""
    found: Counter[int] = Counter()
    for place in combiner_inputs(program, kind):
        sizes: Counter[str] = Counter()
        for part in place.parts:
            sizes[part.instruction] += part.bytes
        found.update(sizes.values())
    return found


def predicted(where: tuple[CombinerInput, ...], merged: list[MergeResult]) -> Counter[int]:
    pairs = zip(where, merged, strict=True)
    return Counter(part_bytes(place.parts, it) for place, one in pairs for it in one.sets)


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ("step", "all-gather"),
        ("step", "reduce-scatter"),
        ("small", "all-reduce"),
    ],
)
def test_the_compiler_merges_as_predicted_at_each_break_point_and_just_below(
    compiler: Compiler, model: str, kind: str
) -> None:
    where = combiner_inputs(compiler.compile(model).program, kind)
    steps = thresholds(compiler.compile(model).program).kinds
    (found,) = [it for it in steps if it.kind == kind]
    for step in found.steps:
        for threshold in (step.threshold - 1, step.threshold):
            if threshold < 0:
                continue
            compiled = compiler.compile(model, **{flag_of(kind): threshold})
            told = predicted(where, [merge(place, threshold) for place in where])
            assert observed(compiled.program, kind) == told, threshold
            assert sum(told.values()) == found.at(threshold).collectives


def test_many_sizes_merge_as_predicted(compiler: Compiler) -> None:
    """Layers one after the other: which of them merge depends on the order XLA walks them in."""
    program = compiler.compile("unrolled").program
    (found,) = [it for it in thresholds(program).kinds if it.kind == "all-gather"]
    where = combiner_inputs(program, "all-gather")
    assert len(found.steps) > 10
    for step in found.steps[3::8]:
        for threshold in (step.threshold - 1, step.threshold):
            compiled = compiler.compile("unrolled", **{found.flag: threshold})
            told = predicted(where, [merge(place, threshold) for place in where])
            assert observed(compiled.program, "all-gather") == told, threshold


def test_beyond_the_largest_break_point_nothing_changes(compiler: Compiler) -> None:
    kinds = thresholds(compiler.compile("step").program).kinds
    compiled = compiler.compile("step", **{kind.flag: 1 << 40 for kind in kinds})
    for kind in kinds:
        last = kind.steps[-1].collectives
        assert sum(observed(compiled.program, kind.kind).values()) == last


@pytest.mark.parametrize(
    "options",
    [{}, {"xla_gpu_enable_while_loop_double_buffering": True}],
    ids=["plain", "double-buffered"],
)
def test_what_is_there_by_default_is_what_the_default_gives(
    compiler: Compiler, options: dict[str, bool]
) -> None:
    program = compiler.compile("step", **options).program
    for kind in KINDS:
        where = combiner_inputs(program, kind)
        told = predicted(where, [merge_by_default(place) for place in where])
        assert observed(program, kind) == told
    assert thresholds(program).unrolled == bool(options)


def test_pipelined_collectives_merge_apart_from_the_others(compiler: Compiler) -> None:
    names = ("xla_gpu_enable_pipelined_all_gather", "xla_gpu_enable_pipelined_all_reduce")
    if compiler.version >= (0, 12):
        pytest.skip("as compile options they have other names")
    program = compiler.compile("step", **dict.fromkeys(names, True)).program
    where = combiner_inputs(program, "all-gather")
    assert any(part.pipelined for place in where for part in place.parts)
    told = predicted(where, [merge_by_default(it) for it in where])
    assert observed(program, "all-gather") == told


def test_a_reduce_scatter_counts_what_one_device_keeps(compiler: Compiler) -> None:
    (place,) = combiner_inputs(compiler.compile("step").program, "reduce-scatter")
    assert {part.bytes for part in place.parts} == {1024 * 2048 * 2 // 4}
    assert place.in_loop
    assert place.times == 4


def test_the_parts_of_a_concatenated_all_reduce_are_told_apart(compiler: Compiler) -> None:
    merged = combiner_inputs(compiler.compile("small").program, "all-reduce")
    alone = combiner_inputs(
        compiler.compile("small", **{flag_of("all-reduce"): 1}).program, "all-reduce"
    )
    sizes = [Counter(part.bytes for part in place.parts) for place in (*merged, *alone)]
    assert sizes[0] == sizes[1] == Counter({2097152: 2})


def place(
    sizes: list[int], before: dict[int, tuple[int, ...]], roots: tuple[int, ...]
) -> CombinerInput:
    parts = tuple(
        UnmergedCollective(
            kind="all-gather", bytes=size, key="k", before=before.get(at, ()), instruction=str(at)
        )
        for at, size in enumerate(sizes)
    )
    return CombinerInput(computation="main", times=1, in_loop=False, parts=parts, roots=roots)


def test_what_waits_for_another_does_not_merge_with_it() -> None:
    chain = place([1, 1, 1], {1: (0,), 2: (1,)}, (2,))
    assert merge(chain, 100) == MergeResult(((0,), (1,), (2,)), None)


def test_a_set_ends_at_the_first_that_is_too_much() -> None:
    assert merge(place([3, 3, 1], {}, (0, 1, 2)), 5) == MergeResult(((0,), (1, 2)), 6)
    assert merge(place([3, 9, 2], {}, (0, 1, 2)), 5).sets == ((1,), (0, 2))


def test_merging_may_close_a_way_for_others() -> None:
    """a+c merged, d waits for a; so b, for which c waits, can't go with d any more."""
    made = place([4, 1, 4, 1], {2: (1,), 3: (0,)}, (0, 2, 3))
    assert sorted(map(sorted, merge(made, 8).sets)) == [[0, 1], [2, 3]]


def test_no_more_than_so_many_go_into_one() -> None:
    assert len(merge(place([1] * 5, {}, (0, 1, 2, 3, 4)), 100, most=2).sets) == 3


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("218e6", 218_000_000),
        ("218M", 218_000_000),
        ("0.218B", 218_000_000),
        ("7B", 7_000_000_000),
        ("218_000_000", 218_000_000),
        ("1.5e9", 1_500_000_000),
    ],
)
def test_numbers_of_weights_as_people_write_them(text: str, count: int) -> None:
    assert parse_count(text) == count


@pytest.mark.parametrize("text", ["", "0", "-1", "many", "7 billion", "1e99", "nan", "inf"])
def test_what_is_no_number_of_weights_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="a number of"):
        parse_count(text)


def test_the_layer_rule_for_llama_2_7b() -> None:
    rule = layer_rule("218e6", "bf16", 32, devices=8)
    assert rule.layer_bytes == 436_000_000
    assert rule.gradient_bytes == 13_952_000_000
    assert rule.shard_bytes == 54_500_000
    assert rule.candidates == tuple(1 << power for power in range(24, 34))
    assert layer_rule("6976M", "bfloat16", 32, whole=True) == layer_rule("218M", "bfloat16", 32)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--program"),
        (["--params", "218e6", "--dtype", "int3"], "--dtype int3: unknown type"),
        (["--params", "218e6", "--total-params", "7B"], "all layers"),
        (["--total-params", "7B"], "layers is missing"),
        (["--params", "218e6", "--layers", "0"], "--layers 0: "),
        (["--program", "/nowhere"], "no such file"),
    ],
)
def test_what_it_can_do_nothing_with_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["flags", "thresholds", *arguments]) in (2, 3)
    assert message in capsys.readouterr().err


def test_a_layer_that_the_default_holds_needs_no_flag(capsys: pytest.CaptureFixture[str]) -> None:
    rule = layer_rule("5e6", layers=4)
    assert (rule.gather_threshold, rule.scatter_threshold) == (None, None)
    assert main(["flags", "thresholds", "--params", "5e6", "--layers", "4"]) == 0
    told = capsys.readouterr().out
    assert "all_gather_combine" not in told
    assert "=16777216  # below the default, 31457287" in told
    assert "=33554432\n" in told


def test_reduce_scatters_are_counted_as_a_device_keeps_them() -> None:
    assert layer_rule("218e6", devices=512).scatter_threshold is None
    assert layer_rule("218e6", devices=8).scatter_threshold == 54_500_000
    assert layer_rule("218e6", devices=512).gather_threshold == 436_000_000


def test_half_bytes_are_bytes_too() -> None:
    assert layer_rule("218e6", "int4").layer_bytes == 109_000_000
    assert layer_rule("3", "fp4").layer_bytes == 2


def test_the_command_prints_the_rule_and_ready_flags(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["flags", "thresholds", "--params", "218e6", "--dtype", "bf16", "--layers", "32"]) == 0
    )
    told = capsys.readouterr().out
    assert "rule of thumb" in told
    assert "--xla_gpu_all_gather_combine_threshold_bytes=436000000" in told
    assert "--xla_gpu_all_reduce_combine_threshold_bytes=8589934592" in told
    assert "--xla_gpu_all_reduce_combine_threshold_bytes=17179869184" not in told


def test_the_command_on_a_program(capsys: pytest.CaptureFixture[str], compiler: Compiler) -> None:
    small = compiler.compile("step", **{flag_of("all-gather"): 1})
    assert main(["flags", "thresholds", "--program", str(small.hlo), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    gather = next(it for it in told["kinds"] if it["kind"] == "all-gather")
    assert told["schema"] == "counterpoint.flags.thresholds/1"
    assert told["basis"] == "predicted"
    assert gather["observed"] == 5
    assert gather["default"]["collectives"] == 2
    assert gather["default"]["threshold_bytes"] == DEFAULT
    assert [it["threshold_bytes"] for it in gather["steps"]] == [0, 8388608, 12582912]
    assert main(["flags", "thresholds", "--program", str(small.hlo)]) == 0
    assert "across loop iterations" in capsys.readouterr().out


def test_a_program_without_collectives_is_told_so(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = "HloModule m, is_scheduled=true\n\nENTRY e {\n  ROOT p = f32[2] parameter(0)\n}\n"
    (tmp_path / "m.hlo").write_text(text)
    assert thresholds(read_program(text)).kinds == ()
    assert main(["flags", "thresholds", "--program", str(tmp_path / "m.hlo")]) == 0
    assert "no effect" in " ".join(capsys.readouterr().out.split())
