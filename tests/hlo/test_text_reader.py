"""HLO text as TPU, GPU and older dumps write it, and text that is not HLO."""

# ruff: noqa: E501 (HLO has long lines)

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from counterpoint.core.errors import InputError
from counterpoint.hlo.model.groups import Mesh
from counterpoint.hlo.model.stack import Frame
from counterpoint.hlo.text_reader import Shapes, instruction, program_from_text

TPU = r"""HloModule jit_step, is_scheduled=true, entry_computation_layout={(bf16[8,128]{1,0:T(8,128)(2,1)})->bf16[8,128]{1,0}}, replica_count=2, num_partitions=4, frontend_attributes={fingerprint_before_lhs="abc", note="a \"quoted\" {brace"}

FileNames
1 "/home/me/model.py"
2 "/usr/lib/python3.11/site-packages/jax/_src/ad.py"

FunctionNames
1 "Block.__call__"
2 "backward_pass"

FileLocations
1 {file_name_id=1 function_name_id=1 line=88 end_line=88 column=2 end_column=9}
2 {file_name_id=2 function_name_id=2 line=7 end_line=7 column=0 end_column=1}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}

%region_0 (Arg_0: f32[], Arg_1: f32[]) -> f32[] {
  %Arg_0 = f32[] parameter(0), metadata={op_name="add"}
  %Arg_1 = f32[] parameter(1)
  ROOT %add = f32[]{:T(128)} add(f32[] %Arg_0, f32[] %Arg_1)
}, execution_thread="main"

branch_a {
  a = f32[2]{0} parameter(0)
  ROOT n = f32[2]{0} negate(a)
}

branch_b {
  b = f32[2]{0} parameter(0)
  ROOT c = f32[2]{0} copy(b)
}

ENTRY %main.1 (p.0: bf16[8,128], p.1: (s32[], /*index=1*/f32[2])) -> bf16[8,128] {
  %p.0 = bf16[8,128]{1,0:T(8,128)(2,1)S(1)} parameter(0), sharding={devices=[2,1]<=[2]}, metadata={op_name="params[\'w\']"}
  %p.1 = (s32[]{:S(2)}, /*index=1*/f32[2]{0}) parameter(1)
  %gte = s32[] get-tuple-element((s32[], /*index=1*/f32[2]) %p.1), index=0
  %gte.1 = f32[2]{0} get-tuple-element(%p.1), index=1, control-predecessors={%gte}
  %table = f32[2,2]{1,0} constant({
    { 1, 2 },
    { 3, -4 }
  })
  %text = u8[3]{0} constant({"a{b"})
  %branch = f32[2]{0} conditional(%gte, %gte.1, %gte.1), branch_computations={%branch_a, branch_b}
  %all-gather-start.1 = (bf16[8,128]{1,0}, bf16[16,128]{1,0}, u32[]{:S(2)}) all-gather-start(bf16[8,128]{1,0:T(8,128)(2,1)S(1)} %p.0), channel_id=7, replica_groups=mesh['x'=2,'y'=4], device_ids=(7,6,5,4,3,2,1,0) {'x'}, dimensions={0}, use_global_device_ids=true, frontend_attributes={a="x,y",b={"k": 1}}, metadata={op_type="all_gather" op_name="jit(step)/transpose(jvp(Model))/block_1/dot_general" source_file="/home/me/model.py" source_line=88 stack_frame_id=2}, backend_config="{\"collective_backend_config\":{\"is_sync\":true}}"
  %all-gather-done.1 = bf16[16,128]{1,0} all-gather-done(%all-gather-start.1)
  %window = f32[1,4,4,8]{3,2,1,0} convolution(%p.0, %all-gather-done.1), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=2
  ROOT %dot.1 = bf16[8,8]{1,0} dot(%p.0, %p.0), lhs_batch_dims={}, lhs_contracting_dims={1}, rhs_contracting_dims={1}, operand_precision={highest,highest}
}
"""


def test_a_tpu_dump_with_everything() -> None:
    program = program_from_text(TPU)
    assert (program.num_replicas, program.num_partitions) == (2, 4)
    assert program.fingerprint == "abc"
    assert program.entry == "main.1"
    assert set(program.computations) == {"region_0", "branch_a", "branch_b", "main.1"}
    names = [it.name for it in program.computations["main.1"].instructions]
    assert names[4:7] == ["table", "text", "branch"]

    start = program.instruction("%all-gather-start.1")
    assert start
    assert start.operands == ("p.0",)
    assert isinstance(start.groups, Mesh)
    assert start.groups.devices == (7, 6, 5, 4, 3, 2, 1, 0)
    assert start.frontend_attributes == (("a", "x,y"), ("b", '{"k": 1}'))
    assert start.op_name == "jit(step)/transpose(jvp(Model))/block_1/dot_general"
    assert (start.source_file, start.source_line) == ("/home/me/model.py", 88)
    assert start.is_sync
    assert start.channel_id == 7

    conditional = program.instruction("branch")
    assert conditional
    assert conditional.calls == ("branch_a", "branch_b")
    window = program.instruction("window")
    assert window
    assert window.convolution
    dimensions = [(it.size, it.padding_low) for it in window.convolution.window]
    assert (dimensions, window.convolution.feature_groups) == ([(3, 1), (3, 1)], 2)
    assert window.convolution.kernel_output_feature == 3
    root = program.root("main.1")
    assert root
    assert root.dot
    assert root.dot.lhs_contracting == (1,)
    first = program.instruction("p.0")
    assert first
    assert first.op_name == "params['w']"
    assert first.shape.memory_space == 1


def test_elements_of_tuples_need_no_line_of_their_own() -> None:
    program = program_from_text(
        """HloModule short, is_scheduled=true

ENTRY %e (p: (f32[4], (s32[], f32[8]))) -> f32[8] {
  %p = (f32[4], (s32[], f32[8])) parameter(0)
  %sum = f32[8] add(%p#1#1, %p#1#1)
  ROOT %out = f32[8] multiply(%sum, %p#1#1)
}
"""
    )
    total = program.instruction("sum")
    assert total is not None
    element = program.operands(total)[0]
    assert (element.opcode, element.tuple_index, str(element.shape)) == (
        "get-tuple-element",
        1,
        "f32[8]",
    )
    whole = program.operands(element)[0]
    assert (whole.tuple_index, whole.operands) == (1, ("p",))
    assert [it.index for it in program.computations["e"].instructions] == list(range(5))


def test_stacks_are_innermost_first() -> None:
    program = program_from_text(TPU)
    start = program.instruction("all-gather-start.1")
    assert start
    assert program.stack(start) == (
        Frame("/usr/lib/python3.11/site-packages/jax/_src/ad.py", 7, "backward_pass"),
        Frame("/home/me/model.py", 88, "Block.__call__"),
    )


def test_older_text_counts_parents_from_zero() -> None:
    older = TPU.replace("parent_frame_id=1}", "parent_frame_id=0}").replace(
        "parent_frame_id=2}", "parent_frame_id=1}"
    )
    assert program_from_text(older).stacks == program_from_text(TPU).stacks


def test_a_source_line_without_a_table_is_a_stack_of_one() -> None:
    tables = TPU[TPU.index("FileNames") : TPU.index("%region_0 (")]
    program = program_from_text(TPU.replace(tables, ""))
    start = program.instruction("all-gather-start.1")
    assert start
    assert program.stack(start) == (Frame("/home/me/model.py", 88, ""),)


def test_escapes_are_bytes_of_utf8() -> None:
    line = r'  %p = f32[] add(%a, %b), metadata={op_name="\303\274ber/a\"b\\c"}'
    assert instruction(line, "main", 0, Shapes()).op_name == 'über/a"b\\c'


def test_instructions_of_a_real_tpu_trace_are_read(shared: Path) -> None:
    packed = (shared / "data/traces/vllm_qwen3_2tpu.trace.json.gz").read_bytes()
    events = json.loads(gzip.decompress(packed))["traceEvents"]
    lines = {event["args"]["long_name"] for event in events if "long_name" in event.get("args", {})}
    shapes = Shapes()
    read = [instruction(line, "main", 0, shapes) for line in lines]
    assert len(read) == 3454
    gathers = [it for it in read if it.opcode == "all-gather"]
    assert gathers
    assert {str(it.shape) for it in gathers} == {"s32[2,1,8]", "bf16[2,1,8]"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not HLO text"),
        ("<html><body>404</body></html>", "not HLO text"),
        ("HloModule x", "no ENTRY"),
        ("HloModule x\n%a (p: f32[]) -> f32[] {\n  ROOT %p = f32[] parameter(0)\n}\n", "no ENTRY"),
        ("HloModule x\nENTRY %a {\n  ROOT %p = f32[] parameter(0)\n", "cut off"),
        ("HloModule x\nENTRY %a {\n  ROOT %p = f32[] parameter(0\n}\n", "cut off"),
        ("HloModule x\nENTRY %a {\n  ROOT %p = f32[] parameter(zero)\n}\n", "damaged"),
        ("HloModule x\nENTRY %a {\n  ROOT %p = q99q[] parameter(0)\n}\n", "element type"),
        (
            f"HloModule x\nENTRY %a {{\n  ROOT %p = {'(' * 40}f32[]{')' * 40} parameter(0)\n}}\n",
            "can't be read",
        ),
        ("HloModule x\nENTRY %a {\n}\n", "no instructions"),
        ("HloModule x\nENTRY %a {\n  ROOT %n = f32[] negate(%lost)\n}\n", "damaged"),
        ("HloModule x\nENTRY %a {\n  ROOT %n = f32[] call(), to_apply=%a\n}\n", "damaged"),
        ("HloModule x\nENTRY %a {\n  ROOT %n = f32[] call(), to_apply=%b\n}\n", "damaged"),
    ],
)
def test_what_is_no_hlo_is_refused(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        program_from_text(text)


def test_calls_that_double_at_each_level_are_refused() -> None:
    levels = "".join(
        f"c{level} {{\n  q = f32[] parameter(0)\n  a = f32[] call(q), to_apply=c{level - 1}\n"
        f"  ROOT r = f32[] call(a), to_apply=c{level - 1}\n}}\n"
        for level in range(1, 40)
    )
    text = (
        "HloModule m\nc0 {\n  ROOT q = f32[] parameter(0)\n}\n" + levels + "ENTRY main {\n"
        "  p = f32[] parameter(0)\n  ROOT w = f32[] call(p), to_apply=c39\n}\n"
    )
    with pytest.raises(InputError) as refused:
        program_from_text(text)
    assert refused.value.why is not None
    assert "instructions" in refused.value.why


@pytest.mark.parametrize("counts", ["num_partitions=2147483647", "num_partitions=0"])
def test_a_number_of_devices_that_no_job_has_is_refused(counts: str) -> None:
    text = f"HloModule m, {counts}, replica_count=3\nENTRY e {{\n ROOT p = f32[] parameter(0)\n}}"
    with pytest.raises(InputError, match="damaged"):
        program_from_text(text)
