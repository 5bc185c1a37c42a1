"""Every table that a command prints, at 60, 80 and 200 columns: the answer stays, names stay apart.

The commands run here, in this process, on small inputs and (where they are) on real profiles; a
test holds the functions that make tables against those that were met.
"""

from __future__ import annotations

import ast
import io
import re
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from compare_pairs import program, sine, timeline
from hypothesis import given
from hypothesis import strategies as st
from megascale_fixture import Scene
from slices import timeline_of

import counterpoint
import counterpoint.report
import timelines
import tune_conclusions
from counterpoint.cli.app import main
from counterpoint.core.basis import Range, Unknown
from counterpoint.core.unpacking import unpack
from counterpoint.cost.scalars import Scalar, default_scalars
from counterpoint.diagnose.collectives.requirement import Bound
from counterpoint.diagnose.compare.schedule_changes import RegroupedCollectives, ScheduleChanges
from counterpoint.diagnose.network.calls import remote_calls
from counterpoint.flags.effective import EffectiveFlag, FlagOutcome, differences
from counterpoint.flags.settings import Settings
from counterpoint.fleet.fleet import STAYS
from counterpoint.fleet.summary import FleetSummary, summarize
from counterpoint.fleet.tasks import Gathering
from counterpoint.hardware.targets import parse_target
from counterpoint.hlo.memory.plan import plan_from_proto
from counterpoint.hlo.reader import read_program
from counterpoint.pgle.applying.movement import CollectiveMove, Movement, SchedulePosition
from counterpoint.pgle.profiles.files import write_profile
from counterpoint.pgle.profiles.profile import InstructionCost, Profile
from counterpoint.report import units
from counterpoint.report.document import ColumnKind, Document, TextTable
from counterpoint.report.explain.compare_tables import schedule_section
from counterpoint.report.explain.fleet_document import fleet_document
from counterpoint.report.explain.network_document import calls_section
from counterpoint.report.fit import GAP, fit, widths
from counterpoint.report.flags.settings_document import EffectiveFlags, effective_document
from counterpoint.report.memory.memory_document import memory_document
from counterpoint.report.pgle.feedback_document import times_section
from counterpoint.report.pgle.movement import movement_section
from counterpoint.report.places import distinct
from counterpoint.report.predict.calibration_document import calibration_document
from counterpoint.report.predict.predict_document import predict_document
from counterpoint.report.predict.upgrade_document import upgrade_document
from counterpoint.report.terminal import print_document
from counterpoint.report.tune.dry_run import dry_run_document
from counterpoint.report.tune.tune_document import tune_document
from counterpoint.runs.reader import read_run
from counterpoint.runs.setting_history import SettingHistory, SettingWrite
from counterpoint.simulate.simulation import UnpricedInstruction
from counterpoint.timeline.storage.parquet import write_parquet
from counterpoint.workflow.calibration.calibration import Calibration, ScalarFit, StepFit
from counterpoint.workflow.forecast import PricingContext
from counterpoint.workflow.forecast.iteration import forecast_in_turn
from counterpoint.workflow.forecast.ranking import RankedCandidate
from counterpoint.workflow.memory.fit import FitTry
from counterpoint.workflow.memory.report import MemoryReport, memory_report
from made_fleet import fleet_of
from made_upgrade import slower_upgrade
from tune_plans import PLAN

HERE = Path(counterpoint.report.__file__).parent
WIDTHS = (60, 80, 200)
HLO_DATA = Path(__file__).parents[1] / "hlo" / "data"
FINGERPRINTS = ("0123456789abcdef" * 2, "fedcba9876543210" * 2)


class Screen(io.StringIO):
    """A stream that calls itself a terminal."""

    def isatty(self) -> bool:
        return True


@dataclass
class Met:
    """Tables that were made, and the functions that made them."""

    tables: dict[str, TextTable] = field(default_factory=dict)
    makers: set[str] = field(default_factory=set)


@contextmanager
def noting(found: Met) -> Generator[None]:
    """Whatever table is made meanwhile, and by which function."""
    TextTable(columns=(), rows=())  # frozen data gets its __init__ with the first instance
    made = TextTable.__init__

    def noted(self: TextTable, **given: object) -> None:
        made(self, **given)  # type: ignore[arg-type]
        frame = sys._getframe(1)
        if frame.f_code.co_name == "table" and frame.f_back is not None:
            frame = frame.f_back
        code = frame.f_code
        where = Path(code.co_filename)
        if where.is_relative_to(HERE) and where.stem != "fit":
            maker = f"{where.stem}.{code.co_name}"
            found.makers.add(maker)
            found.tables[f"{maker} {self.columns} {self.rows[:1]}"] = self

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TextTable, "__init__", noted)
        yield


def run(*words: object) -> None:
    said = io.StringIO()
    with redirect_stdout(io.StringIO()), redirect_stderr(said):
        code = main([*map(str, words)])
    assert code in (0, 1), (words, said.getvalue())


@pytest.fixture(scope="module")
def met(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Met]:
    found = Met()
    with noting(found), pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("tables"))
        patch.setenv("JAX_PLATFORMS", "cpu")
        for words in commands():
            run(*words)
        assert [*documents()]
        yield found


def commands() -> Iterator[tuple[object, ...]]:
    """What a user types, on files that are made here."""
    two = write_parquet(timelines.two_devices(), "two")
    hlo = program(sine("first", "mlp/sin"), sine("second", "head/sin"))
    for name, by in (("a", 1.0), ("b", 1.2)):
        steps = [by * it for it in (10.0, 10.01, 9.99, 10.0, 10.02, 9.98, 10.0)]
        spans = [("first", 0, 4 + 10 * (by - 1), 0), ("second", 6, 2, 0)]
        write_parquet(timeline(hlo, spans, step_ms=steps), name)
    Path("step.hlo.txt").write_text(timelines.HLO)
    predict = ("predict", "step.hlo.txt", "--target", "2x1xH100:400G")
    yield (*predict, "-o", "predicted")
    yield (*predict, "--explain", "--what-if", "nic=2x", "--against", two)
    yield from (("explain", two, "--timings"), ("network", two), ("network", "predicted"))
    yield from (("compare", "a", "b"), ("compare", two, "predicted"), ("compare", "b", two))
    yield from profiles_of_costs()
    yield ("flags", "list", "--grep", "NCCL_P2P")
    log = Path(__file__).parent.parent / "pgle" / "data" / "half.loud.log"
    yield ("pgle", "check", "--log", str(log))
    yield from (("flags", "list", "--jaxlib", "0.7.2"), ("flags", "diff", "0.4.35", "0.8.3"))
    yield ("flags", "list", "--changed-since", "0.7.2")
    Path("train.sh").write_text("export XLA_FLAGS=--xla_gpu_enable_triton_gemm=true\npython x.py\n")
    yield ("flags", "check", "train.sh")
    yield ("flags", "render", "train.sh", "--diff", "fsdp")
    yield ("flags", "recommend", "--for", "fsdp", "--target", "16x8xH100")
    yield ("flags", "thresholds", "--program", HLO_DATA / "gpu_step.hlo.pb.xz")
    yield ("memory", HLO_DATA / "llama_step.hlo.pb.xz", "--target", "8xH100")
    yield ("run", "-o", "counterpoint-runs/first", "--", "true")
    yield ("runs",)


def profiles_of_costs() -> Iterator[tuple[object, ...]]:
    """Profiles for XLA's scheduler, one with duplicates and two builds of a module."""
    a, b = FINGERPRINTS
    names = [f"loop_convert_reduce_fusion.{number}.clone.1" for number in range(12)]
    costs = [InstructionCost(name, 10.0 * at, it) for it in (a, b) for at, name in enumerate(names)]
    write_profile(Profile((*costs, InstructionCost(names[1], 3.0, a))), "one.pbtxt")
    doubled = [replace(it, us=2 * it.us) for it in costs[:-1]]
    write_profile(Profile((*doubled, InstructionCost("all-gather-start.999", 1e9, b))), "two.pbtxt")
    yield from (("pgle", "show", "one.pbtxt"), ("pgle", "diff", "one.pbtxt", "two.pbtxt"))
    bare = [
        InstructionCost(names[0], 1.0),
        InstructionCost("fusion.1", 0.0),
        InstructionCost("all-reduce.7", 1.0),
    ]
    write_profile(Profile((*bare, InstructionCost("all-gather-start", 1e9))), "bare.pbtxt")
    yield ("pgle", "check", "bare.pbtxt", "--program", "step.hlo.txt")
    yield ("pgle", "make", "two", "-o", "made.pbtxt")


def fitted_memory() -> MemoryReport:
    """A step that was compiled with other settings, too."""
    data = unpack((HLO_DATA / "llama_step.hlo.pb.xz").read_bytes(), "llama_step.hlo.pb.xz")
    plan = plan_from_proto(data)
    assert plan is not None
    report = memory_report(read_program(data), plan, parse_target("8xH100"))
    tries = [
        FitTry(
            settings=settings,
            needs=2**34,
            available=2**34 * share // 10,
            fits=share >= 10,
            step_ms=1000.0 + share,
            change=-0.05,
            error=None,
        )
        for settings, share in (
            ("XLA_PYTHON_CLIENT_MEM_FRACTION=0.85", 11),
            ("--xla_gpu_enable_latency_hiding_scheduler=false", 9),
        )
    ]
    return replace(report, tries=tuple(tries))


def documents() -> Iterator[Document]:
    """Of what needs a compiler or a cluster, the Documents alone."""
    for kind in (tune_conclusions.found, tune_conclusions.foreseen):
        yield tune_document(kind(), Path("studies/llama"), 20, "counterpoint tune show")
    yield from predictions()
    calls = remote_calls(timeline_of(Scene(registered=lambda _: 20)))
    yield Document(sections=(calls_section(calls, 10),), legend="", next="")
    yield dry_run_document(PLAN, 20, "counterpoint tune")
    yield memory_document(fitted_memory(), 12, "counterpoint memory")
    outcome = EffectiveFlag(
        name="xla_gpu_autotune_level",
        outcome=FlagOutcome.ALTERED,
        asked="4",
        used="0",
        note="it did",
    )
    elsewhere = replace(outcome, outcome=FlagOutcome.ELSEWHERE)
    twice = (SettingWrite("1", "requested"), SettingWrite("0", "train.py:3"))
    yield effective_document(
        EffectiveFlags(
            where="run",
            module="jit_step",
            modules=("jit_step", "jit_eval"),
            jaxlib="0.10.2",
            asked="XLA_FLAGS",
            used=(outcome, elsewhere),
            differences=differences({"jit_step": {"a": "0"}, "jit_eval": {"a": "1"}}),
            histories=(SettingHistory("xla_a", "XLA_FLAGS", twice),),
        )
    )
    scalar = Scalar(1.0, 0.1, "test")
    fitted = ScalarFit(
        name="bandwidth",
        before=scalar,
        after=scalar,
        samples=9,
        measured_s=0.1,
        error_before=0.2,
        error_after=0.01,
        unseen=None,
        how="collectives of three recordings",
    )
    calibrated = Calibration(
        chip="H100 SXM",
        scalars=default_scalars(parse_target("8xH100").gpu),
        fits=(fitted,),
        steps=(
            StepFit(name="a.xplane.pb", measured_s=0.1, before_s=0.2, after_s=0.11, unseen_s=None),
        ),
        notes=(),
    )
    yield calibration_document(
        calibrated, "counterpoint predict step.mlir --target 8xH100", "8xH100"
    )
    place = SchedulePosition("main", 3, 100.0, 45.0, 2, 900.0, sync=False)
    move = CollectiveMove(
        "all-reduce-start.1",
        "all-reduce-start",
        "all-reduce",
        1 << 21,
        "model/mlp.py:12",
        1,
        place,
        replace(place, before_us=340.0, within_us=240.0),
    )
    names = tuple(f"all-gather-start.{at}" for at in range(3))
    regrouped = (RegroupedCollectives(names, names[:1], "all-gather", 1 << 20),)
    schedule = schedule_section(ScheduleChanges(moves=(move,), regrouped=regrouped, compared=1), 10)
    section = movement_section(Movement((move,), (), (), reordered=True), 10)
    unknown = Unknown("one run each")
    arms = [("AutoPGLE", read_run(Path("counterpoint-runs/first")), unknown)]
    times = times_section(arms, unknown)
    yield Document(sections=(schedule, section, times), legend="", next="x")
    yield upgrade_document(slower_upgrade())
    yield fleet_document(two_builds(), ("hosts",))


def two_builds() -> FleetSummary:
    """Four hosts of two racks with two builds of one module; a device of one makes all wait."""
    waits = np.random.default_rng(1).normal(20.0, 0.2, (32, 10))
    waits[19] -= 8.0
    fleet = fleet_of(waits, racks=2)
    builds = [
        replace(it, build="ab"[at // 2], clock_ahead_ms=-98.7 * at, clock_spread_ms=0.02)
        for at, it in enumerate(fleet.hosts)
    ]
    profiles = Gathering(
        extracts=pl.DataFrame(), profiles=4, failures=(), read_bytes=1, retried=0, notes=()
    )
    stays = [
        {"op": "all-reduce.1", "group_size": 8, "stride": 1, "members": len(waits)}
        | {"bytes": 1 << 20, "count": 2, "row": row, "column": column}
        | {"total_ps": 5_000_000_000 + (10**9 if row < 8 else 0)}
        for row in range(len(waits))
        for column in range(waits.shape[1])
    ]
    frame = pl.DataFrame(stays, schema=STAYS)
    return summarize(replace(fleet, hosts=tuple(builds), collectives=frame), profiles)


def predictions() -> Iterator[Document]:
    """With candidates, which would be compiled, of a program that nothing prices, and of two."""
    known = counterpoint.predict("step.hlo.txt", target="2xH100")
    standing = [
        RankedCandidate(
            name=f"--xla_gpu_all_gather_combine_threshold_bytes={1 << at}",
            settings=Settings(),
            forecast=known.base,
            behind=at / 1e3,
            reach=Range(0.0, at / 1e2),
            exposed_ms=1.0,
        )
        for at in (20, 30)
    ]
    own = UnpricedInstruction(
        instruction="custom-call.1", how="my_kernel", times=3, low_s=1e-6, high_s=1e-3, share=0.1
    )
    base = replace(known.base, simulation=replace(known.base.simulation, unpriced=(own,)))
    yield predict_document(replace(known, base=base, candidates=tuple(standing)), 10, "next")
    pricing = PricingContext(target=known.target)
    turns = forecast_in_turn(pricing, [known.base, known.base], [0, 0, 1], 0, [None, 1 << 20])
    yield predict_document(replace(known, base=turns), 10, "next")


def makers() -> set[str]:
    """Functions of the room that make a table; `document.table` makes them for the others."""
    found: set[str] = set()
    for path in HERE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and any(
                isinstance(it, ast.Call)
                and isinstance(it.func, ast.Name)
                and it.func.id in ("TextTable", "table")
                for it in ast.walk(node)
            ):
                found.add(f"{path.stem}.{node.name}")
    return found - {"document.table"}


def test_every_table_was_met(met: Met) -> None:
    assert len(makers()) > 20
    assert makers() - met.makers == set()


def checked(table: TextTable, width: int) -> TextTable:
    """The table as it fits, with what must hold of it."""
    fitted = fit(table, width)
    titles = [" ".join(column.title.split()) for column in fitted.columns]
    assert [it.title for it in table.columns if it.rank == 0 and it.title not in titles] == []
    before = {it: cells for it, *cells in zip(table.columns, *table.rows, strict=True)}
    for column, *cells in zip(fitted.columns, *fitted.rows, strict=True):
        title = " ".join(column.title.split())
        whole = next(
            was for it, was in before.items() if (it.title, it.kind) == (title, column.kind)
        )
        if column.kind is ColumnKind.WORD:
            assert ["".join(it.split()) for it in cells] == ["".join(it.split()) for it in whole]
        if column.kind is ColumnKind.NUMBER:
            assert cells in [was for it, was in before.items() if it.title == title]
        else:
            assert len(set(cells)) == len(set(whole)), (title, cells)
    return fitted


def check_all(met: Met, width: int) -> None:
    for where, table in met.tables.items():
        fitted = checked(table, width - 2)
        taken = sum(widths(fitted)) + GAP * (len(fitted.columns) - 1)
        assert taken <= width - 2 or width < 80, where


@pytest.mark.parametrize("width", WIDTHS)
def test_answers_stay_names_stay_apart_and_numbers_stay_whole(met: Met, width: int) -> None:
    check_all(met, width)


@pytest.mark.system
@pytest.mark.parametrize(
    "name",
    [
        "jax_gemm_mi300x.xplane.pb",
        "vllm_qwen3_2tpu.trace.json.gz",
        "pax_fsdp4_4proc_proc0.zip",
    ],
)
def test_real_profiles_fit_as_well(shared: Path, name: str) -> None:
    found = Met()
    with noting(found):
        for command in ("explain", "network"):
            run(command, shared / "data" / "traces" / name)
    assert found.tables
    for width in WIDTHS:
        check_all(found, width)


def test_a_published_profile_of_costs_fits_as_well(shared: Path) -> None:
    found = Met()
    with noting(found):
        run("pgle", "show", shared / "data" / "pgle" / "fp8_128vm.pbtxt", "--top", 100)
    check_all(found, 80)


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("flags", "diff", "0.4.35", "0.8.3"), "xla_gpu_enable_dynamic_slice_fusion"),
        (("flags", "diff", "0.4.35", "0.8.3"), r"^ *name +property +before +after$"),
        (("flags", "diff", "0.4.35", "0.8.3"), r"^  [a-z_]+_ .*\n    [a-z_]+"),
        (
            ("flags", "recommend", "--for", "fsdp", "--target", "8xH100"),
            r"^  xla_gpu_pipeline_all_gather=on +requires",
        ),
        (("network", "two"), "full scale"),
        (("runs",), r"^ *name .* profile\b.*\n *true .* no\b"),
        (("compare", "a", "b"), r"exposed A|B-A"),
    ],
)
def test_the_screen_of_80_columns_has_the_answer(
    met: Met, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], shown: str
) -> None:
    assert met.tables  # its directory is the current one
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "80")
    screen = Screen()
    with redirect_stdout(screen):
        assert main([*words]) == 0
    *lines, last = screen.getvalue().splitlines()
    assert last.startswith("next: ")
    assert max(len(line) for line in lines if "://" not in line) <= 80
    assert re.search(shown, screen.getvalue(), re.MULTILINE)
    assert "no room for: ," not in screen.getvalue()


def test_candidates_are_shown_whole_and_counted_by_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = (
        "--xla_gpu_all_gather_combine_threshold_bytes=1",
        "--xla_gpu_enable_pipelined_reduce_scatter=true",
        "--xla_gpu_experimental_parallel_collective_overlap_limit=4",
    )
    path = tmp_path / "step.hlo.txt"
    path.write_text(timelines.HLO)
    known = counterpoint.predict(path, target="2xH100")
    base = RankedCandidate(
        name="base",
        settings=Settings(),
        forecast=known.base,
        behind=0.0,
        reach=Range(0.0, 0.0),
        exposed_ms=1.0,
        tied=True,
        is_base=True,
    )
    same = replace(base, name="--xla_gpu_enable_while_loop_unrolling=1", same_as="base")
    other = replace(base, name=" ".join(flags), behind=0.001, reach=Range(0.0, 0.002))
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "80")

    def shown(*candidates: RankedCandidate) -> str:
        screen = Screen()
        print_document(predict_document(replace(known, candidates=candidates), 10, "x"), screen)
        return screen.getvalue()

    text = shown(base, same, same, other)
    table = text.partition("\nCandidates")[2].partition("Differences count")[0]
    first = re.search(r"^ *settings", table, re.MULTILINE)
    assert first
    start = len(first[0]) - len("settings")
    # What stands in the column of settings; a flag may be folded between its parts.
    column = [re.split(" {2,}", line[start:].strip())[0] for line in table.splitlines()]
    assert "".join(flags) in "".join(column).replace(" ", "")
    heading = " ".join(text.partition("\nCandidates")[2].partition("settings")[0].split())
    assert "4 in 2 rows" in heading
    assert "both are tied" in heading
    heading = " ".join(shown(base, same).partition("\nCandidates")[2].split("settings")[0].split())
    assert heading.startswith("2 in 1 row (")
    assert "tied" not in heading


def test_of_many_programs_the_longest_are_listed_and_all_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of an optimizer that runs operation by operation."""
    path = tmp_path / "step.hlo.txt"
    path.write_text(timelines.HLO)
    known = counterpoint.predict(path, target="2xH100")
    pricing = PricingContext(target=known.target)
    many = 23
    base = forecast_in_turn(pricing, [known.base] * many, [*range(many)], 0, [None] * many)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "100")
    screen = Screen()
    print_document(predict_document(replace(known, base=base), 10, "x"), screen)
    text = " ".join(screen.getvalue().split())
    table = text.partition("Programs of a step ")[2].partition("Where the")[0]
    rest = known.base.step_s * 1e3 * 3
    assert f"3 more programs take {units.milliseconds(rest)} together" in table
    assert f"{many} x {known.base.program.name}" in text


@pytest.mark.parametrize("columns", ["100", "250"])
def test_what_is_not_priced_is_told_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    how = (
        "66.6 MB at 2234 GB/s; 65,536 windows of 512 B, bf16 added in hardware; 112 ms if all"
        " meet and this XLA compares and swaps"
    )
    path = tmp_path / "step.hlo.txt"
    path.write_text(timelines.HLO)
    known = counterpoint.predict(path, target="2xH100")
    bound = UnpricedInstruction(
        instruction="input_scatter_fusion", how=how, times=1, low_s=1e-6, high_s=1e-3, share=0.1
    )
    base = replace(known.base, simulation=replace(known.base.simulation, unpriced=(bound,)))
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", columns)
    screen = Screen()
    print_document(predict_document(replace(known, base=base), 10, "x"), screen)
    table = screen.getvalue().partition("\nNot priced")[2].partition("\n\n")[0]
    start = next(line.index("what it is") for line in table.splitlines() if "what it is" in line)
    told = [line[start:] for line in table.splitlines()[2:]]
    assert " ".join(" ".join(told).split()) == how


@pytest.mark.parametrize("bound", [*Bound])
def test_the_bound_of_a_collective_is_not_cut(met: Met, bound: Bound) -> None:
    """Beside long names, and with every figure that such a table has."""
    found = [it for it in met.tables.values() if any(c.title == "bound" for c in it.columns)]
    assert len(found) >= 2
    for table in found:
        at = next(at for at, it in enumerate(table.columns) if it.title == "bound")
        said = {"bound": str(bound), "link": "network", "op": "reduce-scatter-start.1772"}
        row = tuple(said.get(it.title, "10,000.0") for it in table.columns)
        fitted = fit(replace(table, rows=(row,)), 78)
        titles = [" ".join(it.title.split()) for it in fitted.columns]
        (cells,) = fitted.rows
        assert cells[titles.index("bound")].split() == row[at].split()
        assert all("…" not in it or len(it) >= 16 for it in cells)


def test_every_table_has_a_column_that_answers(met: Met) -> None:
    silent = [
        where
        for where, table in met.tables.items()
        if not any(column.rank == 0 for column in table.columns[1:])
    ]
    assert silent == []


def test_wide_screens_show_whole_tables(met: Met) -> None:
    for table in met.tables.values():
        if sum(widths(table)) + GAP * len(table.columns) < 198:
            assert fit(table, 198) == table


@given(st.lists(st.text("ab./", min_size=1, max_size=30), max_size=8), st.integers(8, 30))
def test_different_names_made_short_stay_different(names: list[str], width: int) -> None:
    short = distinct(names, width)
    assert len(set(zip(names, short, strict=True))) == len(set(names)) == len(set(short))
    assert all(was == it for was, it in zip(names, short, strict=True) if len(was) <= width)


def test_names_that_differ_in_several_places_are_cut_in_each() -> None:
    start, middle = "void Eigen::MetaKernel<" + "Tensor, " * 9, "long, " * 9
    names = [f"{start}{a}, {middle}{b}>(Args)" for a in ("half", "bool") for b in ("add", "mul")]
    short = distinct(names, 30)
    assert len(set(short)) == len(names)
    assert max(map(len, short)) == 30


def test_what_differs_in_the_middle_is_what_is_shown() -> None:
    names = [f"void cutlass::Kernel2<tensorop_gemm_{it}_32x3_nn_align8>(Params)" for it in "abc"]
    assert distinct(names, 24) == [
        "void cut…_a_32x3_nn_ali…",
        "void cut…_b_32x3_nn_ali…",
        "void cut…_c_32x3_nn_ali…",
    ]
