"""Which work overlaps with which, by XLA's rules for streams."""

from __future__ import annotations

import polars as pl
import pytest

from counterpoint.cost.model import Contention, PriceSource
from counterpoint.simulate.simulation import simulate
from hand_made import S, Told, compute, done, entry, program, start, straight


def test_work_between_start_and_done_hides_a_collective() -> None:
    made = straight(start("gather"), compute("a"), compute("b"), done("gather"))
    simulation = simulate(made, Told({"gather": 1.5, "result": 0}))
    assert simulation.step_s == pytest.approx(2)
    assert simulation.exposed_s == 0


def test_the_device_waits_for_what_is_not_hidden() -> None:
    made = straight(start("gather"), compute("a"), done("gather"), compute("b"))
    simulation = simulate(made, Told({"gather": 3, "result": 0}))
    assert simulation.step_s == pytest.approx(4)
    assert simulation.exposed_s == pytest.approx(2)


def test_a_start_waits_for_all_work_before_it() -> None:
    made = straight(compute("a"), start("gather"), done("gather"))
    assert simulate(made, Told({"result": 0})).step_s == pytest.approx(2)


def test_collectives_share_one_stream_in_the_order_of_the_schedule() -> None:
    made = straight(start("one"), start("two"), compute("a"), done("one"), done("two"))
    model = Told({"one": 2, "two": 3, "a": 4, "result": 0})
    assert simulate(made, model).step_s == pytest.approx(5)
    assert simulate(made, model, communication_streams=2).step_s == pytest.approx(4)


def test_a_domain_of_collectives_has_a_stream_of_its_own() -> None:
    def within(domain: str) -> str:
        said = f'"communication_domain":"COLLECTIVE_COMMUNICATION_DOMAIN_{domain}"'
        return f', backend_config={{"collective_backend_config":{{{said}}}}}'

    fast = start("fast", extra=within("SCALE_UP_FABRIC"))
    made = straight(start("slow", extra=within("UNSPECIFIED")), fast, done("slow"), done("fast"))
    simulation = simulate(made, Told({"result": 0}))
    assert simulation.step_s == pytest.approx(1)
    assert simulation.timeline.lines[:2] == ("main", "communication")


def test_a_collective_that_nothing_hides_runs_on_the_main_stream() -> None:
    made = straight(start("slow"), start("sync", sync=True), done("sync"), done("slow"))
    model = Told({"slow": 2, "sync": 2, "result": 0})
    assert simulate(made, model).step_s == pytest.approx(2)
    plain = straight("  plain = f32[16] all-gather(p), replica_groups={{0,1}}, dimensions={0}")
    simulation = simulate(plain, Told({"result": 0}))
    assert simulation.exposed_s == simulation.step_s == pytest.approx(1)


def test_copies_to_and_from_the_host_have_streams_of_their_own() -> None:
    out = "  out = (f32[8]{0:S(5)}, f32[8]{0}, u32[]) copy-start(p)"
    back = "  back = (f32[8]{0}, f32[8]{0:S(5)}, u32[]) copy-start(h)"
    made = program(
        f"""
ENTRY main {{
  p = f32[8]{{0}} parameter(0)
  h = f32[8]{{0:S(5)}} parameter(1)
{out}
{back}
  gather = (f32[8], f32[16]) all-gather-start(p), replica_groups={{{{0,1}}}}, dimensions={{0}}
  a = {S} sine(p)
  out.done = f32[8]{{0:S(5)}} copy-done(out)
  back.done = f32[8]{{0}} copy-done(back)
  ROOT gather.done = f32[16] all-gather-done(gather)
}}
"""
    )
    model = Told({"out": 3, "back": 3, "gather": 3, "a": 3}, Contention(compute=0.0))
    simulation = simulate(made, model)
    assert simulation.step_s == pytest.approx(3)
    assert {"copies to host", "copies from host"} < set(simulation.timeline.lines)


def test_computations_side_by_side_share_the_device() -> None:
    made = program(
        """
inner {
  x = f32[8] parameter(0)
  one = f32[8] sine(x)
  ROOT two = f32[8] cosine(one)
}
"""
        + entry(
            "  beside = ((f32[8]), f32[8]) async-start(p), calls=inner",
            compute("a"),
            "  beside.done = f32[8] async-done(beside)",
        )
    )
    simulation = simulate(made, Told({"result": 0}))
    assert simulation.step_s == pytest.approx(3)
    assert simulation.busiest_lane_s == pytest.approx(2)


def test_a_group_of_collectives_is_one_launch() -> None:
    made = program(
        """
group {
  x = f32[8] parameter(0)
  g = f32[16] all-gather(x), replica_groups={{0,1}}, dimensions={0}
  h = f32[8] collective-permute(x), source_target_pairs={{0,1}}
  ROOT both = (f32[16], f32[8]) tuple(g, h)
}
"""
        + entry(
            "  grouped = ((f32[8]), (f32[16], f32[8])) async-start(p), calls=group",
            compute("a"),
            "  grouped.done = (f32[16], f32[8]) async-done(grouped)",
        )
    )
    simulation = simulate(made, Told({"grouped": 5, "result": 0}))
    assert simulation.step_s == pytest.approx(5)
    assert simulation.timeline.ops.filter(op="grouped")["collective"].to_list() == ["all-gather"]


def test_what_is_never_waited_for_still_belongs_to_the_step() -> None:
    made = straight(start("gather"), compute("a"))
    assert simulate(made, Told({"gather": 9})).step_s == pytest.approx(9)


def test_thousands_of_launches_may_wait_for_one() -> None:
    names = [f"g{k}" for k in range(3000)]
    made = straight(start("slow"), *map(start, names), done("slow"), *map(done, names))
    simulation = simulate(made, Told({**dict.fromkeys(names, 0.0), "slow": 2, "result": 0}))
    assert simulation.step_s == pytest.approx(2)


def test_of_branches_the_longest_counts_and_that_is_said() -> None:
    made = program(
        """
short {
  x = f32[8] parameter(0)
  ROOT s = f32[8] sine(x)
}

long {
  y = f32[8] parameter(0)
  t = f32[8] sine(y)
  ROOT u = f32[8] sine(t)
}
"""
        + entry(
            "  which = pred[] parameter(1)",
            "  choice = f32[8] conditional(which, p, p), true_computation=short,"
            " false_computation=long",
        )
    )
    simulation = simulate(made, Told({"result": 0}))
    assert simulation.step_s == pytest.approx(2)
    assert any("choice" in note and "longest" in note for note in simulation.notes)


def test_compute_beside_a_collective_is_slower_and_so_is_the_collective() -> None:
    made = straight(start("gather"), compute("a"), compute("b"), done("gather"))
    model = Told({"gather": 1, "a": 1, "b": 1, "result": 0}, Contention(compute=0.25))
    # One second of collective, in which 0.8 of the compute is done; then 1.2 more.
    assert simulate(made, model).step_s == pytest.approx(2.2)
    measured = Told(model.seconds, model.contention, source=PriceSource.MEASURED)
    assert simulate(made, measured).step_s == pytest.approx(2)  # it was slower already
    both = Told({"gather": 1, "result": 0}, Contention(compute=0.25, collective=0.5))
    assert simulate(made, both).step_s == pytest.approx(1.5 + (2 - 1.5 / 1.25))


@pytest.mark.parametrize("target", ["xla_ffi_python_gpu_callback", "xla_python_gpu_callback"])
def test_a_callback_is_work_of_the_main_stream_and_no_copy(target: str) -> None:
    call = f'  call = {S} custom-call(p), custom_call_target="{target}"'
    simulation = simulate(straight(compute("a"), call), Told({"call": 3, "result": 0}))
    assert simulation.step_s == simulation.critical_path_s == pytest.approx(4)
    ops = simulation.timeline.ops
    assert ops.filter(pl.col("op") == "call")["lane"].to_list() == ["compute"]
