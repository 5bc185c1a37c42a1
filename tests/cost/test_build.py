"""The chain of sources, and what-if."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.core.errors import ArgumentError, UsageError
from counterpoint.cost.build import build_model
from counterpoint.cost.measured import MeasuredCosts
from counterpoint.cost.model import FREE, Price, PriceFamily, PriceSource
from counterpoint.cost.scalars import default_scalars
from counterpoint.cost.what_if import parse_what_if
from counterpoint.hardware.targets import parse_target
from counterpoint.hlo.model.program import Program, launched
from counterpoint.hlo.text_reader import program_from_text
from prices import Build, known_scalars

TARGET = parse_target("8xH100")
NEGATE = "ROOT %it = f32[8192,8192]{1,0} negate(%x)"
DOT = (
    "ROOT %it = bf16[4096,4096]{1,0} dot(%a, %b), "
    "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
)


def seconds(program: Program, question: str = "", measured: MeasuredCosts | None = None) -> float:
    what_if = parse_what_if(question) if question else None
    model = build_model(TARGET, scalars=known_scalars(), what_if=what_if, measured=measured)
    found = program.instruction("it")
    assert found
    return model.price(program, found).seconds


def test_a_measured_cost_goes_before_everything(build: Build) -> None:
    program = build(NEGATE)
    model = build_model(TARGET, measured=MeasuredCosts(program, {"it": 0.5}, "run 3"))
    found = program.instruction("it")
    assert found
    price = model.price(program, found)
    assert (price.seconds, price.source) == (0.5, PriceSource.MEASURED)
    assert "run 3" in price.how


def test_every_instruction_of_a_real_step_is_priced_and_asked_once(gpu_step: Program) -> None:
    model = build_model(TARGET)
    for computation in launched(gpu_step):
        for it in computation.instructions:
            price = model.price(gpu_step, it)
            assert price is model.price(gpu_step, it)
            assert price.low <= price.seconds <= price.high
            if it.opcode in ("parameter", "bitcast", "get-tuple-element") or "-done" in it.opcode:
                assert price is FREE


def test_faster_memory_shortens_what_it_bounds(build: Build) -> None:
    program = build(NEGATE)
    ratio = seconds(program) / seconds(program, "hbm=2x")
    assert ratio == pytest.approx(2, rel=0.05)
    assert seconds(program, "matmul=2x") == seconds(program)


def test_a_faster_matrix_unit_shortens_gemms(build: Build) -> None:
    program = build(DOT)
    assert seconds(program) / seconds(program, "matmul=2") == pytest.approx(2, rel=0.1)


CARDS = (
    "%s (a: f32[], b: f32[]) -> f32[] {\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n"
    "  ROOT %c = f32[] add(%a, %b)\n}\n"
)


@pytest.mark.parametrize(
    ("question", "factor"), [("host=2x", 0.5), ("nvlink=2x", 0.5), ("nic=2x", 1.0)]
)
def test_what_joins_cards_of_one_host_is_its_bus(question: str, factor: float) -> None:
    text = (
        f"HloModule m, is_scheduled=true, num_partitions=8\n{CARDS}\n"
        "ENTRY %main (x: f32[16777216]) -> f32[16777216] {\n  %x = f32[16777216] parameter(0)\n"
        "  ROOT %it = f32[16777216] all-reduce(%x), channel_id=1, replica_groups=[1,8]<=[8],"
        " use_global_device_ids=true, to_apply=%s\n}\n"
    )
    program = program_from_text(text)
    (it,) = [one for one in program.instructions if one.name == "it"]
    target = parse_target("8xL40S")
    usual = build_model(target).price(program, it)
    faster = build_model(target, what_if=parse_what_if(question)).price(program, it)
    assert faster.seconds == pytest.approx(factor * usual.seconds, rel=0.05)


def ring(size: int) -> Program:
    """An all-reduce of as many bytes among 16 devices."""
    return program_from_text(
        f"HloModule m, is_scheduled=true, num_partitions=16\n{CARDS}\n"
        f"ENTRY %main (x: f32[{size // 4}]) -> f32[{size // 4}] {{\n"
        f"  %x = f32[{size // 4}] parameter(0)\n  ROOT %it = f32[{size // 4}] all-reduce(%x),"
        " channel_id=1, replica_groups=[1,16]<=[16], use_global_device_ids=true, to_apply=%s\n}\n"
    )


def asked(
    program: Program, target: str, question: str = "", measured: MeasuredCosts | None = None
) -> Price:
    what_if = parse_what_if(question) if question else None
    model = build_model(parse_target(target), what_if=what_if, measured=measured)
    found = program.instruction("it")
    assert found
    return model.price(program, found)


# On 2x8 H100 at 400 Gb/s a ring waits for NVLink, at 100 Gb/s for the NICs.
CROSSING = ("2x8xH100:400G", "2x8xH100:100G", "4x4xA100", "2x8xL40S", "16xGB200", "2x8xB200")


@given(
    target=st.sampled_from(CROSSING),
    faster=st.floats(min_value=1 / 8, max_value=8.0),
)
def test_links_faster_by_a_factor_shorten_what_they_bound_by_it(target: str, faster: float) -> None:
    program = ring(4 << 30)
    links = f"nic={faster:.6f},nvlink={faster:.6f}"
    links += f",host={faster:.6f}" if "L40S" not in target else ""
    ratio = asked(program, target).seconds / asked(program, target, links).seconds
    assert ratio == pytest.approx(faster, rel=0.1)


@given(
    target=st.sampled_from(CROSSING),
    size=st.integers(min_value=10, max_value=32),
    link=st.sampled_from(["nic", "nvlink", "host"]),
    slower=st.floats(min_value=1 / 16, max_value=1.0),
    measured=st.booleans(),
)
def test_slower_links_never_make_a_collective_faster(
    target: str, size: int, link: str, slower: float, measured: bool
) -> None:
    program = ring(1 << size)
    known = MeasuredCosts(program, {"it": 1.0}, "run") if measured else None
    usual = asked(program, target, measured=known)
    assert asked(program, target, f"{link}={slower:.6f}", known).seconds >= usual.seconds


@pytest.mark.parametrize("measured", [False, True])
@pytest.mark.parametrize(
    ("target", "binds", "idle"),
    [("2x8xH100:400G", "nvlink", "nic"), ("2x8xH100:100G", "nic", "nvlink")],
)
def test_only_the_link_that_binds_shortens_a_collective_across_hosts(
    target: str, binds: str, idle: str, measured: bool
) -> None:
    program = ring(1 << 30)
    known = MeasuredCosts(program, {"it": 1.0}, "run") if measured else None
    usual = asked(program, target, measured=known).seconds
    assert asked(program, target, f"{binds}=0.5x", known).seconds > 1.8 * usual
    assert asked(program, target, f"{idle}=2x", known).seconds == pytest.approx(usual)
    assert asked(program, target, f"{binds}=2x", known).seconds < 0.9 * usual


def test_a_price_across_hosts_names_the_link_that_binds() -> None:
    program = ring(1 << 30)
    assert "bound by NVLink 4 at 360 GB/s" in asked(program, "2x8xH100:400G").how
    assert "bound by" not in asked(program, "2x8xH100:100G").how


def test_measured_costs_are_scaled(build: Build) -> None:
    program = build(NEGATE)
    measured = MeasuredCosts(program, {"it": 1.0}, "run")
    assert seconds(program, "hbm=2x", measured) == pytest.approx(0.5)


def test_one_instruction_can_be_free(build: Build) -> None:
    program = build(NEGATE)
    assert seconds(program, "op:it=0") == 0
    assert seconds(program, "op:other=0") == seconds(program)
    assert seconds(program, "op:%it=0.5") == pytest.approx(seconds(program) / 2)


@pytest.mark.parametrize(
    ("text", "tpus", "instead"),
    [
        ("hbm=2x,nvlink=2x", True, "ici=2x"),
        ("nic=3", True, "dcn=3"),
        ("ici=2x", False, "nvlink=2x"),
    ],
)
def test_a_link_of_other_devices_is_refused(text: str, tpus: bool, instead: str) -> None:
    with pytest.raises(ArgumentError, match="in its place") as caught:
        parse_what_if(text, tpus=tpus)
    assert caught.value.instead == instead
    assert parse_what_if(text)  # of a target that is not known yet


def test_names_of_parts_and_factors() -> None:
    found = parse_what_if(" NIC=2x, hbm=1.5 ,collective:all-gather-start.3=0")
    assert found.speed == {PriceFamily.NETWORK: 2.0, PriceFamily.MEMORY: 1.5}
    assert found.instructions == {"all-gather-start.3": 0.0}


@pytest.mark.parametrize(
    "text", ["", ",", "nic", "nic=", "nic=fast", "nic=0", "nic=-1", "nik=2x", "thing:a=1", "=2",
             "nic=1e400", "op:a=nan", "nic=2x,nic=0.5x", "nic=2x,network=3x",
             "op:a=0,op:%a=1"]
)  # fmt: skip
def test_a_question_that_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_what_if(text)


@pytest.mark.parametrize("chip", ["H100", "A100", "B200", "MI300X", "SomethingElse"])
def test_every_chip_has_scalars_with_their_source(chip: str) -> None:
    scalars = default_scalars(chip)
    for scalar in (scalars.matmul, scalars.memory, scalars.attention, scalars.network):
        assert 0.5 < scalar.value <= 1.1
        assert scalar.source
    assert 0 <= scalars.slowdown.value < 0.3
