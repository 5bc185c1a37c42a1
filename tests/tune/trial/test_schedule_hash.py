"""Programs that run the same have one hash; those that don't have another."""

from __future__ import annotations

import lzma
import re
from itertools import pairwise
from pathlib import Path

import pytest

from counterpoint.hlo.model.program import Program
from counterpoint.hlo.reader import read_program
from counterpoint.tune.schedule_hash import schedule_hash
from counterpoint.workflow.forecast.ranking import same_schedule
from lowered import Lowered
from timelines import HLO

DATA = Path(__file__).parents[2] / "hlo" / "data"


def program(text: str) -> Program:
    return read_program(text.encode())


PLAIN = schedule_hash(program(HLO))


@pytest.mark.parametrize("name", ["gpu_step", "gpu_zoo", "gpu_pipelined", "cpu_step", "cpu_zoo"])
def test_text_and_proto_of_a_module_are_the_same_program(name: str) -> None:
    found = {
        schedule_hash(read_program(lzma.decompress((DATA / f"{name}.{end}.xz").read_bytes())))
        for end in ("hlo.pb", "txt")
    }
    assert len(found) == 1


@pytest.mark.parametrize(
    ("what", "becomes"),
    [
        ("jit_train_step, ", "jit_other, "),
        ("%fusion.2", "%fusion.22"),
        ("%multiply", "%multiply.clone"),
        ("channel_id=1", "channel_id=7"),
        (r'source_file="[^"]*"', 'source_file="elsewhere.py"'),
        ("source_line=12", "source_line=13"),
        (r'op_name="[^"]*"', 'op_name="jit(other)/dot"'),
    ],
)
def test_names_and_where_it_comes_from_make_no_difference(what: str, becomes: str) -> None:
    changed = re.sub(what, becomes, HLO)
    assert changed != HLO
    assert schedule_hash(program(changed)) == PLAIN


@pytest.mark.parametrize(
    ("what", "becomes"),
    [
        ("%fusion.1, %a.1", "%a.1, %fusion.1"),
        (r"\{0,1\} copy", "{1,0} copy"),
        ("num_partitions=2", "num_partitions=4"),
        (r"replica_groups=\{\{0,1\}\}", "replica_groups={{0},{1}}"),
        ("kind=kOutput, calls=%multiply, metadata", "kind=kLoop, calls=%multiply, metadata"),
        ("use_global_device_ids=true, ", 'frontend_attributes={a="b"}, '),
        ("rhs_contracting_dims={0}", "rhs_contracting_dims={1}"),
    ],
)
def test_what_runs_makes_one(what: str, becomes: str) -> None:
    changed = re.sub(what, becomes, HLO)
    assert changed != HLO
    assert schedule_hash(program(changed)) != PLAIN


def test_so_does_the_order() -> None:
    lines = HLO.splitlines()
    done = next(at for at, line in enumerate(lines) if "= f32[52428800]{0} all-gather-done" in line)
    lines[done], lines[done - 1] = lines[done - 1], lines[done]
    assert schedule_hash(program("\n".join(lines))) != PLAIN


def with_config(config: str) -> str:
    start = "%all-gather-start = "
    before, after = HLO.split(start, 1)
    line, rest = after.split("\n", 1)
    return schedule_hash(program(f"{before}{start}{line}, backend_config={config}\n{rest}"))


def test_of_a_backend_config_counts_what_changes_the_run() -> None:
    plain = with_config('{"collective_backend_config":{"is_sync":false,"is_pipelined":false}}')
    order = with_config('{"collective_backend_config":{"is_pipelined":false,"is_sync":false}}')
    sync = with_config('{"collective_backend_config":{"is_sync":true,"is_pipelined":false}}')
    priced = with_config(
        '{"collective_backend_config":{"is_sync":false,"is_pipelined":false},'
        '"reification_cost":[{"end_to_end_cycles":12.5}],"force_earliest_schedule":true}'
    )
    assert plain == order == priced
    assert sync != plain


@pytest.mark.system
def test_real_compiles_agree_with_the_prediction_s_own_comparison(lowered: Lowered) -> None:
    combine = "xla_gpu_all_gather_combine_threshold_bytes"
    options = [
        {},
        {combine: "1073741824"},
        {combine: "1073741825"},
        {combine: "0"},
        {"xla_gpu_enable_latency_hiding_scheduler": "true"},
        {"xla_gpu_nccl_termination_timeout_seconds": "77"},
    ]
    made = [lowered.compile(it).program for it in options]
    hashes = [schedule_hash(it) for it in made]
    for (one, a), (other, b) in pairwise([*enumerate(hashes), (0, hashes[0])]):
        assert same_schedule(made[one], made[other]) == (a == b), (options[one], options[other])
    assert hashes[1] == hashes[2]
    assert hashes[0] == hashes[5]
    assert hashes[3] != hashes[0]
