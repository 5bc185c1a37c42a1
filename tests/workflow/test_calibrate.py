"""Calibrate: known scalars are found again, and what was not seen is told."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from counterpoint.cli.app import main
from counterpoint.core.errors import InputError
from counterpoint.cost.model import FREE, Contention, Price, PriceFamily, PriceSource, price_around
from counterpoint.cost.scalars import Scalar, Scalars, default_scalars, read_scalars, scalars_toml
from counterpoint.hardware.targets import parse_target
from counterpoint.hlo.category import Category, category
from counterpoint.hlo.collectives import collective
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program, launches
from counterpoint.hlo.schedule import is_done
from counterpoint.hlo.text_reader import program_from_text
from counterpoint.hlo.work import bytes_accessed, flops
from counterpoint.simulate.simulation import simulate
from counterpoint.timeline.model import Timeline
from counterpoint.timeline.storage.parquet import write_parquet
from counterpoint.workflow.calibration.calibrate import calibrate
from counterpoint.workflow.calibration.calibration import (
    CalibrationStep,
    ScalarFit,
    StepFit,
    reject_worse,
    rejection_reason,
)
from counterpoint.workflow.calibration.step_fit import MeasuredStep, calibrate_steps
from real_profiles import opened

TARGET = parse_target("2x8xH100")
GATHERED = "channel_id=1, replica_groups=[1,16]<=[16], dimensions={0}, use_global_device_ids=true"
WIDTHS = (1024, 2048, 3072, 4096)


def scalars(**values: float) -> Scalars:
    """What a test says, and for the rest what ships."""
    usual = default_scalars(TARGET.gpu)
    return replace(usual, **{name: Scalar(it, 0.1, "test") for name, it in values.items()})


class Simple:
    """A machine of 100 TFLOP/s, 1 TB/s and 50 GB/s, of which scalars say what is reached."""

    def __init__(self, known: Scalars) -> None:
        self.known = known

    @property
    def contention(self) -> Contention:
        return Contention(compute=self.known.slowdown.value)

    @property
    def launch_s(self) -> float:
        return 0.0

    def price(self, program: Program, instruction: Instruction) -> Price:
        if is_done(instruction) or not launches(instruction):
            return FREE
        talk = collective(program, instruction)
        if talk is not None:
            seconds = (talk.bytes or 0) / (50e9 * self.known.network.value)
            return price_around(seconds, 0.1, PriceSource.ANALYTIC, PriceFamily.NETWORK)
        if category(program, instruction) is Category.MATMUL:
            seconds = (flops(program, instruction) or 0) / (100e12 * self.known.matmul.value)
            return price_around(seconds + 2e-6, 0.1, PriceSource.ANALYTIC, PriceFamily.MATMUL)
        seconds = (bytes_accessed(program, instruction) or 0) / (1e12 * self.known.memory.value)
        return price_around(seconds, 0.1, PriceSource.ANALYTIC, PriceFamily.MEMORY)


def text(rounds: int = 2) -> str:
    """Products and sums of several sizes, each alone and beside a collective."""
    lines: list[str] = []
    for width in WIDTHS:
        shape = f"f32[{width},{width}]"
        lines.append(f"  x{width} = {shape} parameter({len(lines)})")
    for width in WIDTHS:
        shape, part = f"f32[{width},{width}]", f"f32[{width // 16},{width}]"
        x = f"x{width}"
        for turn in range(rounds):
            at = f"{width}.{turn}"
            dot = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
            lines += [
                f"  a{at} = {shape} dot({x}, {x}), {dot}",
                f"  b{at} = {shape} add(a{at}, {x})",
                f"  p{at} = {part} slice(b{at}), slice={{[0:{width // 16}], [0:{width}]}}",
                f"  s{at} = ({part}, {shape}) all-gather-start(p{at}), {GATHERED}",
                f"  c{at} = {shape} dot(b{at}, {x}), {dot}",
                f"  d{at} = {shape} add(c{at}, {x})",
                f"  e{at} = {shape} all-gather-done(s{at})",
                f"  f{at} = {shape} add(d{at}, e{at})",
            ]
            x = f"f{at}"
    lines[-1] = lines[-1].replace("  f", "  ROOT f", 1)
    body = "\n".join(lines)
    return f"HloModule step, is_scheduled=true, num_partitions=16\n\nENTRY main {{\n{body}\n}}\n"


def recording(known: Scalars, rounds: int = 2) -> Timeline:
    """What a machine with these scalars would have recorded."""
    written = text(rounds)
    program = program_from_text(written)
    return simulate(program, Simple(known), target=TARGET, hlo=written.encode()).timeline


def test_known_scalars_are_found_again() -> None:
    true = scalars(matmul=0.71, memory=0.55, network=0.83, slowdown=0.25)
    found = calibrate([recording(true)], TARGET, start=scalars(), model_of=Simple)
    assert found.scalars.matmul.value == pytest.approx(0.71, rel=0.02)
    assert found.scalars.memory.value == pytest.approx(0.55, rel=0.02)
    assert found.scalars.network.value == pytest.approx(0.83, rel=0.02)
    assert found.scalars.slowdown.value == pytest.approx(0.25, abs=0.05)


def test_a_scalar_that_nothing_measured_decides_stays_and_is_told() -> None:
    found = calibrate([recording(scalars())], TARGET, start=scalars(), model_of=Simple)
    assert found.scalars.attention == default_scalars(TARGET.gpu).attention
    assert "attention" not in found.fitted
    assert any(note.startswith("attention keeps") for note in found.notes)


def test_errors_on_kinds_of_work_left_out_are_told() -> None:
    found = calibrate([recording(scalars(matmul=0.5))], TARGET, start=scalars(), model_of=Simple)
    of_matmul = next(fit for fit in found.fits if fit.name == "matmul")
    assert of_matmul.error_before > 0.3
    assert of_matmul.unseen is not None
    assert of_matmul.unseen < 0.05


def test_a_step_is_told_by_the_other_recordings_alone() -> None:
    true = scalars(matmul=0.6, memory=0.5, network=0.9)
    both = [recording(true, 1), recording(true, 3)]
    found = calibrate(both, TARGET, start=scalars(), model_of=Simple)
    for step in found.steps:
        assert step.unseen_s == pytest.approx(step.measured_s, rel=0.03)
        assert abs(step.before_s - step.measured_s) > abs(step.after_s - step.measured_s)


def test_predicted_times_are_told_to_be_no_measurement() -> None:
    found = calibrate([recording(scalars())], TARGET, start=scalars(), model_of=Simple)
    assert any("predicted, not measured" in note for note in found.notes)


@pytest.mark.parametrize(
    ("device", "said", "then"),
    [
        ({"chip": "NVIDIA A100-SXM4-40GB"}, "on A100 40GB, but the target 2x8xH100", "1xA100-40GB"),
        ({"chip": "NVIDIA H100 PCIe"}, "recorded on H100 PCIe", "--target 1xH100-PCIe"),
        ({"chip": "a chip of next year"}, "recorded on a chip of next year", "in a file"),
        ({"chip": None, "kind": "cpu"}, "recorded on CPUs", "counterpoint run"),
        ({"chip": "TPU v5e", "kind": "tpu"}, "recorded on TPU v5e", "counterpoint run"),
    ],
    ids=lambda it: it["chip"] or it["kind"] if isinstance(it, dict) else "",
)
def test_a_recording_of_another_machine_is_refused(
    device: dict[str, str], said: str, then: str
) -> None:
    told = recording(scalars())
    other = replace(told, devices=(replace(told.devices[0], **device),))
    with pytest.raises(InputError) as refused:
        calibrate([told, other], TARGET, start=scalars(), model_of=Simple)
    assert said in refused.value.what
    assert then in str(refused.value.next)


@pytest.mark.parametrize(("target", "proposed"), [("8xH100", "2x8xH100"), ("2x4xH100", "4x4xH100")])
def test_a_recording_of_more_devices_than_the_target_has_is_refused(
    target: str, proposed: str
) -> None:
    with pytest.raises(InputError, match="runs on 16 devices") as refused:
        calibrate([recording(scalars())], parse_target(target), start=scalars(), model_of=Simple)
    assert refused.value.next == f"use --target {proposed}"


def test_a_recording_of_more_hosts_than_the_target_has_is_refused() -> None:
    told = recording(scalars())
    hosts = tuple(replace(told.hosts[0], name=name) for name in ("one", "two", "three"))
    devices = tuple(replace(told.devices[0], host=at) for at in range(3))
    with pytest.raises(InputError, match="recorded on 3 hosts"):
        calibrate(
            [replace(told, hosts=hosts, devices=devices)],
            TARGET,
            start=scalars(),
            model_of=Simple,
        )


def test_a_recording_of_larger_hosts_than_the_target_has_is_warned_of() -> None:
    told = recording(scalars())
    larger = replace(told, devices=tuple(replace(told.devices[0], ordinal=at) for at in range(9)))
    found = calibrate([larger], TARGET, start=scalars(), model_of=Simple)
    assert any("9 devices" in it and "2x8xH100 has 8" in it for it in found.notes)


def test_of_a_recording_that_names_no_chip_the_target_is_believed_and_that_is_said() -> None:
    told = recording(scalars())
    nameless = replace(told, devices=(replace(told.devices[0], chip=None),))
    found = calibrate([nameless], TARGET, start=scalars(), model_of=Simple)
    assert any("no chip" in it and "H100" in it for it in found.notes)
    assert not any(
        "taken to be" in it
        for it in calibrate([told], TARGET, start=scalars(), model_of=Simple).notes
    )


def test_a_file_of_another_chip_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a100.toml"
    file.write_text(scalars_toml("A100-40GB", {"matmul": Scalar(0.9, 0.1, "test")}))
    with pytest.raises(InputError, match=r"A100-40GB.*H100"):
        read_scalars(file).over(scalars(), "H100")


def test_a_recording_without_its_program_is_refused() -> None:
    program = program_from_text(text())
    bare = simulate(program, Simple(scalars()), target=TARGET).timeline
    bare = replace(bare, programs=tuple(replace(it, variants={}) for it in bare.programs))
    with pytest.raises(InputError, match="nothing to calibrate"):
        calibrate([bare], TARGET, start=scalars(), model_of=Simple)


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    found = calibrate([recording(scalars())], TARGET, start=scalars(), model_of=Simple)
    file = tmp_path / "h100.toml"
    file.write_text(found.toml())
    read = read_scalars(file)
    assert read.chip == "H100"
    assert set(read.scalars) == {"matmul", "memory", "network", "slowdown"}
    over = read.over(scalars(attention=0.5), "H100")
    assert over.matmul.value == pytest.approx(found.scalars.matmul.value, rel=1e-5)
    assert over.attention.value == 0.5


def test_a_source_may_be_any_text(tmp_path: Path) -> None:
    file = tmp_path / "quoted.toml"
    said = 'a "run"\\of µ\n# no comment'
    file.write_text(scalars_toml("A100", {"matmul": Scalar(0.9, 0.1, said)}), encoding="utf-8")
    assert read_scalars(file).scalars["matmul"].source == said
    assert tomllib.loads(file.read_text(encoding="utf-8"))["chip"] == "A100"


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("matmul = 3", "matmul"),
        ("[matmul]\nvalue = 0", "value = 0"),
        ("[matmul]\nvalue = nan", "value = nan"),
        ("[matmul]\nvalue = '1'", "value = 1"),
        ("[matmul]\nvalue = 0.9\nreach = -1", "reach = -1"),
        ("[slowdown]\nvalue = 7", "value = 7"),
        ("[speed]\nvalue = 1", "speed"),
        ("chip = 3", "chip"),
        ("no toml", "can't be read as a calibration file"),
    ],
    ids=["no section", "zero", "nan", "text", "reach", "slowdown", "unknown", "chip", "no toml"],
)
def test_a_file_that_makes_no_sense_is_refused(tmp_path: Path, written: str, said: str) -> None:
    file = tmp_path / "odd.toml"
    file.write_text(written)
    with pytest.raises(InputError, match=said):
        read_scalars(file)


def steps(true: Scalars) -> list[MeasuredStep]:
    """Steps of several lengths, as a machine with these scalars takes them."""
    made: list[MeasuredStep] = []
    for rounds in (1, 2, 4):
        program = program_from_text(text(rounds))
        seconds = simulate(program, Simple(true), target=TARGET).step_s
        made.append(MeasuredStep(name=f"{rounds}", program=program, target=TARGET, seconds=seconds))
    return made


def step_of(step: MeasuredStep, known: Scalars) -> float:
    return simulate(step.program, Simple(known), target=step.target).step_s


def test_step_times_alone_move_scalars_no_further_than_they_must() -> None:
    start = scalars(matmul=0.8, memory=0.8, network=0.8)
    found = calibrate_steps(steps(scalars(matmul=0.7, memory=0.7)), start, step_of=step_of)
    for step in found.steps:
        assert step.after_s == pytest.approx(step.measured_s, rel=0.02)
        assert step.unseen_s == pytest.approx(step.measured_s, rel=0.03)
        assert abs(step.before_s / step.measured_s - 1) > 0.05
    assert 0.6 < found.scalars.matmul.value < 0.8
    assert found.scalars.attention.value == pytest.approx(start.attention.value)
    assert "attention" not in found.fitted


def test_step_times_that_fit_already_move_nothing() -> None:
    start = scalars(matmul=0.8)
    found = calibrate_steps(steps(start), start, step_of=step_of)
    assert found.scalars.matmul.value == pytest.approx(0.8, rel=1e-3)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("pax_fsdp4_4proc_proc0.zip", marks=pytest.mark.system, id="pax"),
        pytest.param("jax_gemm_mi300x.xplane.pb", id="gemm"),
    ],
)
def test_real_recordings_fit_better_than_before(shared: Path, name: str) -> None:
    timeline = opened(shared / "data" / "traces" / name)
    target = parse_target("4xA100_40GB" if "pax" in name else "1xMI300X")
    found = calibrate([timeline], target)
    of_matmul = next(fit for fit in found.fits if fit.name == "matmul")
    assert of_matmul.samples > 3
    assert of_matmul.error_after < of_matmul.error_before
    assert 0.5 < found.scalars.matmul.value < 1.5
    assert found.steps[0].measured_s > 0


def fitted(name: str, before: float, after: float, unseen: float | None = 0.02) -> ScalarFit:
    return ScalarFit(
        name=name,
        before=Scalar(before, 0.1, "test"),
        after=Scalar(after, 0.1, "test"),
        samples=9,
        measured_s=1.0,
        error_before=0.1,
        error_after=0.01,
        unseen=unseen,
        how="9 instructions",
    )


@pytest.mark.parametrize(
    ("fit", "kinds", "said"),
    [
        pytest.param(fitted("matmul", 0.8, 0.7), 3, "", id="believed"),
        pytest.param(
            fitted("slowdown", 0.12, 0.86), 8, "outside the plausible range", id="too-much"
        ),
        pytest.param(fitted("memory", 0.8, 0.1), 8, "outside the plausible range", id="too-little"),
        pytest.param(fitted("matmul", 0.8, 0.7, None), 1, "one kind of work", id="one-kind"),
        pytest.param(fitted("matmul", 0.8, 0.7, 0.2), 5, "predicted no better", id="no-better"),
    ],
)
def test_a_fit_is_believed_on_evidence(fit: ScalarFit, kinds: int, said: str) -> None:
    found = rejection_reason(fit, kinds)
    assert said in found
    assert bool(said) == bool(found)


def test_a_fit_that_tells_the_measured_step_worse_is_not_taken() -> None:
    program = program_from_text(text())
    before = scalars(matmul=0.8, memory=0.8, network=0.8)

    def step_of(one: CalibrationStep, known: Scalars) -> float:
        return simulate(one.program, Simple(known), target=TARGET).step_s

    usual = CalibrationStep(name="a", program=program, seconds=1.0)
    step = replace(usual, seconds=step_of(usual, before))
    fits = [fitted("matmul", 0.8, 1.2), fitted("memory", 0.8, 0.801)]
    kept = reject_worse(before, fits, [step], step_of)
    assert [fit.fitted for fit in kept] == [False, True]
    assert kept[0].after == kept[0].before
    assert "worse" in kept[0].how
    right = replace(usual, seconds=step_of(usual, replace(before, matmul=fits[0].after)))
    assert all(fit.fitted for fit in reject_worse(before, fits, [right], step_of))


def test_a_step_that_a_calibration_tells_worse_is_called_so() -> None:
    worse = StepFit(name="a", measured_s=1.0, before_s=1.004, after_s=0.932, unseen_s=None)
    assert worse.worse
    assert not replace(worse, after_s=0.997).worse


def test_a_step_that_is_mostly_idle_does_not_judge() -> None:
    recorded = recording(scalars(matmul=0.5, memory=0.7, network=0.6))
    busy = calibrate([recorded], TARGET, start=scalars(matmul=0.8), model_of=Simple)
    end = pl.col("end_ps") + 9 * (pl.col("end_ps") - pl.col("start_ps"))
    idle = replace(recorded, steps=recorded.steps.with_columns(end_ps=end))
    found = calibrate([idle], TARGET, start=scalars(matmul=0.8), model_of=Simple)
    assert found.steps[0].idle > 0.8
    assert any("idle for 9" in note and "is not used" in note for note in found.notes)
    assert not found.steps[0].worse
    assert {it.name for it in found.fits if it.fitted} >= {it.name for it in busy.fits if it.fitted}


def test_where_nothing_is_fitted_no_file_is_written(
    tmp_path: Path, shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = str(shared / "data" / "traces" / "jax_conv_mi300x_8gpu.xplane.pb")
    kept = tmp_path / "mi300x.toml"
    assert main(("calibrate", recording, "--target", "8xMI300X", "-o", str(kept))) == 3
    told = capsys.readouterr()
    assert not kept.exists()
    assert "0 of 5 fitted" in told.out
    assert "5 scalars" in told.err
    assert (told.out + told.err).count("next: ") == 1
    assert "wrote" not in told.err
    assert main(("calibrate", recording, "--target", "8xMI300X", "-o", str(kept), "--json")) == 3
    assert json.loads(capsys.readouterr().out)["file"] is None


def test_a_calibration_that_fitted_something_is_not_refused() -> None:
    known = scalars(matmul=0.5, memory=0.7)
    found = calibrate([recording(known)], TARGET, start=scalars(), model_of=Simple)
    found.refuse_nothing("a.xplane.pb")
    with pytest.raises(InputError, match="0 scalars"):
        replace(found, fits=()).refuse_nothing("a.xplane.pb")


def test_recordings_stay_apart_in_the_command_that_is_named_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As one pattern they would be the hosts of one run."""
    monkeypatch.chdir(tmp_path)
    for name in ("step-1", "step-2"):
        write_parquet(recording(scalars(matmul=0.5, memory=0.7)), name)
    (tmp_path / "begun.toml").write_text("[matmul]\nvalue = 0.8\n")
    given = [
        "calibrate",
        "step-1",
        "step-2",
        "--target",
        str(TARGET),
        "--calibration",
        "begun.toml",
    ]
    assert main(given) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"next: counterpoint {' '.join(given)} -o calibration.toml"
