"""Without markers, a step is one cycle of the programs that run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from counterpoint.cli.printing import document_text
from counterpoint.diagnose.compare.comparison import StepDifference, compare
from counterpoint.diagnose.compare.experiment import DifferenceKind
from counterpoint.diagnose.explanation import explain
from counterpoint.report.explain.explain_document import explain_document
from counterpoint.timeline.hosts.assemble import assemble
from counterpoint.timeline.model import EmbeddedProgram, Timeline
from recordings import NS, Span, recording

W = "f32[64,64]{1,0}"
X = "f32[8,64]{1,0}"


def hlo(name: str, takes: Sequence[str], returns: Mapping[str, str], donated: int = 0) -> bytes:
    """A program with an instruction for each result, whose op_name is given."""
    aliases = ", ".join(f"{{{n}}}: ({n}, {{}}, may-alias)" for n in range(donated))
    reuse = f", input_output_alias={{ {aliases} }}" if donated else ""
    lines = [f"  %p.{n} = {shape} parameter({n})" for n, shape in enumerate(takes)]
    lines.append(
        f"  %back.{name} = {W} dot(%p.0, %p.0), lhs_contracting_dims={{1}},"
        f' rhs_contracting_dims={{0}}, metadata={{op_name="{BACK if returns else FORWARD}"}}'
    )
    results: list[str] = []
    for number, (shape, scope) in enumerate(returns.items()):
        results.append(f"%r.{number}")
        kind = shape.partition("#")[0]
        operand = f"%back.{name}" if kind == W else f"%p.{number}"
        lines.append(f'  %r.{number} = {kind} negate({operand}), metadata={{op_name="{scope}"}}')
    shapes = ", ".join(shape.partition("#")[0] for shape in returns)
    lines.append(f"  ROOT %out = ({shapes}) tuple({', '.join(results)})")
    head = f"HloModule {name}, is_scheduled=true{reuse}\n\nENTRY %main () -> ({shapes}) {{\n"
    return (head + "\n".join(lines) + "\n}\n").encode()


BACK = "jit(f)/transpose(jvp(M))/dot_general"
FORWARD = "jit(f)/M/dot_general"
PLAIN = "jit(f)/sub"

PROGRAMS = {
    "grad": hlo("jit_grad", [W, X], {W: BACK}),
    "accum": hlo("jit_accum", [W, W], {W: PLAIN}).replace(BACK.encode(), PLAIN.encode()),
    "apply": hlo("jit_apply", [W, W], {W: PLAIN}).replace(BACK.encode(), PLAIN.encode()),
    "train": hlo("jit_train", [W, X], {W: PLAIN}, donated=1),
    "critic": hlo("jit_critic", [W, X], {W: PLAIN}),
    "ema": hlo("jit_ema", [W, W], {W: PLAIN}).replace(BACK.encode(), PLAIN.encode()),
    "evaluate": hlo("jit_evaluate", [W, X], {"f32[]": PLAIN}).replace(
        BACK.encode(), FORWARD.encode()
    ),
    "split": b"HloModule jit_split, is_scheduled=true\n\nENTRY %main () -> u32[2] {\n"
    b"  %p.0 = u32[2]{0} parameter(0)\n  ROOT %r.0 = u32[2]{0} negate(%p.0)\n}\n",
}
LENGTHS = {"grad": 40, "accum": 4, "apply": 9, "train": 70, "evaluate": 30, "critic": 50, "ema": 4}


def ran(order: Sequence[str], devices: int = 1, gap: int = 5) -> Timeline:
    """Programs that run in this order, with a pause after each."""
    spans: list[Span] = []
    for device in range(devices):
        at = device
        for turn, name in enumerate(order):
            op = (
                "r.0"
                if name in ("accum", "apply", "evaluate", "ema", "split")
                else f"back.jit_{name}"
            )
            length = LENGTHS.get(name, 1)
            spans.append(Span(op, at, length, device, device, run=turn, module=f"jit_{name}"))
            at += length + gap
    programs = {
        f"jit_{name}": EmbeddedProgram(f"jit_{name}", lambda name=name: PROGRAMS[name])
        for name in {*order}
    }
    return assemble([recording(spans, programs=programs)], ["made"])


def period(order: Sequence[str], gap: int = 5) -> int:
    return sum(LENGTHS.get(name, 1) + gap for name in order)


ACCUMULATION = ["grad", "grad", "accum", "grad", "accum", "grad", "accum", "apply"]
CYCLES: dict[str, list[str]] = {
    "accumulation": ACCUMULATION,
    "accumulation within the gradient": ["grad"] * 16 + ["apply"],
    "gradient and update": ["grad", "apply"],
    "two networks": ["critic", "train"],
    "five critics": ["critic"] * 5 + ["train"],
    "plain": ["train"],
    "helpers": ["split", "split", "train"],
    "evaluation in every step": ["train", "evaluate"],
}


@pytest.mark.parametrize("cycle", CYCLES.values(), ids=CYCLES)
@pytest.mark.parametrize("steps", [3, 12])
@pytest.mark.parametrize("devices", [1, 2])
def test_a_step_lasts_as_long_as_its_cycle(cycle: list[str], steps: int, devices: int) -> None:
    found = explain(ran(cycle * steps, devices))
    assert found.steps.median_ms == pytest.approx(period(cycle) * NS / 1e9)
    runs = {program.name: program.runs_per_step for program in found.programs}
    assert runs == {f"jit_{name}": cycle.count(name) for name in {*cycle}}


@pytest.mark.parametrize("first", [1, 4, 7])
def test_a_profile_may_begin_and_end_within_a_cycle(first: int) -> None:
    found = explain(ran((ACCUMULATION * 6)[first:-3]))
    assert found.steps.median_ms == pytest.approx(period(ACCUMULATION) * NS / 1e9)


SELDOM: dict[str, tuple[list[str], list[str], int]] = {
    "evaluation": (["train"], ["evaluate"] * 3, 4),
    "evaluation as often as training": (["train"], ["evaluate"] * 10, 10),
    "moving average": (["train"], ["ema"], 5),
    "evaluation of accumulated steps": (ACCUMULATION, ["evaluate"] * 2, 4),
    "a log line": (["train"], ["split"], 5),
}


@pytest.mark.parametrize(("cycle", "seldom", "every"), SELDOM.values(), ids=SELDOM)
def test_what_runs_now_and_then_is_no_part_of_a_step(
    cycle: list[str], seldom: list[str], every: int
) -> None:
    found = explain(ran((cycle * every + seldom) * 3))
    assert found.steps.median_ms == pytest.approx(period(cycle) * NS / 1e9)
    assert found.steps.max_ms is not None
    assert found.steps.max_ms <= (period(cycle) + 6) * NS / 1e9
    own = {program.name for program in found.programs if program.runs_per_step}
    assert own == {f"jit_{name}" for name in {*cycle}}


def test_a_single_step_shows_no_cycle() -> None:
    made = ran(ACCUMULATION)
    assert "one run of jit_grad" in made.step_rule


def test_without_a_whole_step_the_figures_are_those_of_a_run() -> None:
    """The last step of a profile has no end."""
    found = explain(ran(ACCUMULATION * 3), step=2)
    told = document_text(explain_document(found))
    assert "figures per step below describe one run of jit_grad in step 2." in " ".join(
        told.split()
    )


def test_programs_in_no_order_leave_the_heaviest() -> None:
    order = [
        "train",
        "critic",
        "train",
        "train",
        "critic",
        "critic",
        "train",
        "critic",
        "critic",
        "critic",
        "train",
    ]
    made = ran(order)
    assert "one run of jit_" in made.step_rule


def test_shapes_of_one_function_are_one_program() -> None:
    order = ["train"] * 4 + ["last"] + ["train"] * 4 + ["last"] + ["train"] * 4
    spans: list[Span] = []
    at = 0
    for turn, name in enumerate(order):
        length = 70 if name == "train" else 20
        spans.append(Span("back.jit_train", at, length, run=turn, module=name))
        at += 100
    made = recording(spans)
    ops = made.ops.with_columns(program_key=made.ops["module"]).with_columns(
        module=made.ops["module"].replace({"train": "jit_train", "last": "jit_train"})
    )
    programs = {
        key: EmbeddedProgram("jit_train", lambda: PROGRAMS["train"]) for key in ("train", "last")
    }
    built = assemble([replace(made, ops=ops, programs=programs)], ["made"])
    assert any("2 programs named jit_train ran" in note for note in built.notes)
    assert built.steps.filter("whole")["step"].n_unique() == 13
    assert explain(built).steps.median_ms == pytest.approx(100 * NS / 1e9)


def test_compared_cycles_are_compared_program_by_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """The heaviest program of either side is another one."""
    a = ran(["critic", "train"] * 6)
    monkeypatch.setitem(LENGTHS, "critic", 90)
    b = ran(["critic", "train"] * 6)
    found = compare(a, b)
    assert isinstance(found.work, StepDifference)
    changed = {row.shown.op: row.difference_ms for row in found.work.ops}
    assert changed == pytest.approx({"back.jit_critic": 40e-6, "back.jit_train": 0.0}, abs=1e-9)
    assert not any(it.about is DifferenceKind.PROGRAM for it in found.differs)
    assert found.same_experiment


def test_cycles_of_other_programs_are_named_in_whole() -> None:
    found = compare(ran(ACCUMULATION * 4), ran(["grad", "apply"] * 8))
    (differs,) = (it for it in found.differs if it.what == "programs of a step")
    assert differs.a == "4 x jit_grad, 3 x jit_accum, jit_apply"
    assert differs.b == "jit_grad, jit_apply"
