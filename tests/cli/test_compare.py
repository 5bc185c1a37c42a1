"""`counterpoint compare` as a user meets it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from compare_pairs import program, reduce_done, reduce_start, sine, timeline

from counterpoint.cli.app import Command, main, parse
from counterpoint.timeline.storage.parquet import write_parquet
from golden_files import Golden
from made_runs import LOST_NUMBERS, OK, made_run
from transcripts import Transcript

COMPARE = Command("compare", "counterpoint.cli.compare:compare", "Compare.")

Run = Callable[..., tuple[int, str, str]]

HLO = program(sine("first", "mlp/sin"), sine("second", "head/sin"))
LENGTHS = (10.0, 10.01, 9.99, 10.0, 10.02, 9.98, 10.0)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `counterpoint compare`: exit code, stdout, stderr."""

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        code = main(["compare", *map(str, arguments)], [COMPARE])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def stored(directory: Path, name: str, by: float = 1.0) -> Path:
    """A Timeline whose steps and whose first op take so much longer."""
    made = timeline(
        HLO,
        [("first", 0, 4 + 10 * (by - 1), 0), ("second", 6, 2, 0)],
        step_ms=[by * it for it in LENGTHS],
    )
    return write_parquet(made, directory / f"{name}.parquet")


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """B is 5% slower."""
    return stored(tmp_path, "a"), stored(tmp_path, "b", 1.05)


def test_the_report_says_first_whether_b_is_slower_and_then_why(
    run: Run, pair: tuple[Path, Path]
) -> None:
    code, out, err = run(*pair)
    assert (code, err) == (0, "")
    assert "B is slower: 5.0%" in out
    assert out.index("\nWhere") < out.index("\nOps ")
    assert "\nOps   1 of 2 " in out


@pytest.mark.parametrize(("limit", "code"), [("2%", 1), ("4.9%", 1), ("5.1%", 0), ("0%", 1)])
def test_a_gate_fails_where_b_is_slower_by_more_and_surely(
    run: Run, pair: tuple[Path, Path], limit: str, code: int
) -> None:
    assert run(*pair, "--fail-above", limit)[0] == code
    assert run(*reversed(pair), "--fail-above", limit)[0] == 0


def test_a_gate_is_not_tripped_by_noise(run: Run, tmp_path: Path) -> None:
    noisy = stored(tmp_path, "a"), stored(tmp_path, "b", 1.01)
    assert run(*noisy, "--fail-above", "0.5%")[0] == 0


def test_a_gate_that_cannot_tell_is_an_error_after_the_report(run: Run, tmp_path: Path) -> None:
    few = write_parquet(timeline(HLO, [("first", 0, 4, 0)], steps=2), tmp_path / "few.parquet")
    code, out, err = run(stored(tmp_path, "a"), few, "--fail-above", "2%")
    assert code == 3
    assert "\nOps " in out
    assert err.startswith("error: ")
    assert "--with" in err


@pytest.mark.parametrize("limit", ["2", "0.02", "much", "-1%", "nan%", "%"])
def test_a_limit_is_a_percentage(run: Run, pair: tuple[Path, Path], limit: str) -> None:
    code, _, err = run(*pair, f"--fail-above={limit}")
    assert code == 2
    assert "--fail-above 2%" in err


def test_json_holds_every_row_and_they_add_up(run: Run, pair: tuple[Path, Path]) -> None:
    code, out, _ = run(*pair, "--json")
    data = json.loads(out)
    assert code == 0
    assert data["schema"] == "counterpoint.compare/1"
    assert data["step"]["verdict"] == "slower"
    assert data["step"]["change"] == pytest.approx(0.05)
    assert [row["a"] for row in data["ops"]] == [["first"], ["second"]]
    assert sum(row["difference_ms"] for row in data["ops"]) == pytest.approx(
        data["work"]["busy"]["difference_ms"], abs=1e-5
    )
    assert sum(it["difference_ms"] for it in data["parts"]) == pytest.approx(
        data["work"]["step"]["difference_ms"], abs=1e-5
    )


def test_several_runs_of_each_side(run: Run, tmp_path: Path) -> None:
    a = [stored(tmp_path, f"a{k}", 1 + k / 1000) for k in range(3)]
    b = [stored(tmp_path, f"b{k}", 1.02 + k / 1000) for k in range(3)]
    code, out, _ = run(*a, "--with", *b, "--fail-above", "1%")
    assert code == 1
    assert "medians of 3 and 3 runs" in out
    told = " ".join(out.split())
    assert f"of {a[1]} (its step: 10.01 ms) and {b[1]} (its step: 10.21 ms) alone" in told


@pytest.mark.parametrize("end", [".json", ".txt", ".md"])
def test_the_report_goes_into_a_file(
    run: Run, pair: tuple[Path, Path], tmp_path: Path, end: str
) -> None:
    file = tmp_path / f"report{end}"
    code, out, err = run(*pair, "-o", file)
    assert (code, out) == (0, "")
    assert str(file) in err
    assert "slower" in file.read_text(encoding="utf-8")
    assert run(*pair, "-o", file)[0] == 2  # nothing is overwritten unasked


def test_a_collective_that_one_side_lacks_is_no_unknown_there(run: Run, tmp_path: Path) -> None:
    one = reduce_start("reduce", "grads/psum", 1024), reduce_done("reduced", "reduce", 1024)
    work = sine("first", "mlp/sin")
    first = ("first", 0, 2, 0)
    both = timeline(program(work, *one), [first, ("reduce", 2, 4, 1)], step_ms=LENGTHS)
    paths = write_parquet(both, tmp_path / "a"), timeline(HLO, [first], step_ms=LENGTHS)
    code, out, _ = run(paths[0], write_parquet(paths[1], tmp_path / "b"))
    assert code == 0
    listed = out.partition("\nCollectives")[2].splitlines()
    row = next(line for line in listed if line.lstrip().startswith("reduce "))
    assert row.split()[-7:-5] == ["4.000", "-"]
    assert row.split()[-1] == "-"


def test_what_is_missing_is_named(run: Run, pair: tuple[Path, Path], tmp_path: Path) -> None:
    code, _, err = run(tmp_path / "gone.xplane.pb", pair[1])
    assert code == 3
    assert "gone.xplane.pb" in err


@pytest.mark.parametrize("count", [0, 1, 3])
def test_two_things_are_compared(run: Run, pair: tuple[Path, Path], count: int) -> None:
    code, _, err = run(*[pair[0]] * count)
    assert code == 2
    assert "--with" in err
    assert f", not {count}" in err


def test_the_report_of_another_command_is_not_read(
    run: Run, pair: tuple[Path, Path], tmp_path: Path
) -> None:
    file = tmp_path / "prediction.json"
    file.write_text('{\n"schema": "counterpoint.predict/1",\n"inputs": []\n}\n', encoding="utf-8")
    code, _, err = run(pair[0], file)
    assert code == 3
    assert "-o prediction" in err


def test_a_gate_that_fails_says_that_the_experiments_differ(
    run: Run, tmp_path: Path, pair: tuple[Path, Path]
) -> None:
    wide = HLO.replace("p = f32[256]{0} parameter", "p = f32[512]{0} parameter")
    other = timeline(wide, [("first", 0, 4, 0)], step_ms=[2 * it for it in LENGTHS])
    code, _, err = run(pair[0], write_parquet(other, tmp_path / "o.parquet"), "--fail-above", "2%")
    assert code == 1
    assert "1 x f32[256] in A" in err


def test_where_one_step_was_seen_nothing_is_called_noise(run: Run, tmp_path: Path) -> None:
    one = write_parquet(timeline(HLO, [("first", 0, 4, 0)], steps=1), tmp_path / "one.parquet")
    out = run(stored(tmp_path, "a"), one)[1]
    assert "noise is unknown" in out
    assert "none differs" not in out


def test_where_one_run_each_cannot_tell_it_is_said_once_and_not_none_differs(
    run: Run, tmp_path: Path, golden: Golden
) -> None:
    scattered = [10, 40, 12, 60, 11, 35, 90, 14]
    a, b = (
        write_parquet(
            timeline(
                HLO,
                [("first", 0, ms, 0), ("second", 9, 0.5, 0)],
                step_ms=[by * it for it in scattered],
            ),
            tmp_path / f"{ms}.parquet",
        )
        for ms, by in ((1, 1.0), (9, 1.5))
    )
    told = Transcript(tmp_path)
    told.run("compare", a.name, b.name)
    golden("compare_one_run_each.txt", told.text)
    out = " ".join(run(a, b)[1].split())
    assert "unknown for 1 of 2" in out
    assert "none differs" not in out
    assert "--with" in out
    assert "can't tell" not in run(a, a)[1]


def test_what_it_says(golden: Golden, tmp_path: Path) -> None:
    for name, by in (("a", 1.0), ("b", 1.05), ("a1", 1.001), ("b1", 1.051)):
        stored(tmp_path, name, by)
    for name, steps in (("one", 1), ("few", 2)):
        made = timeline(HLO, [("first", 0, 4, 0)], steps=steps)
        write_parquet(made, tmp_path / f"{name}.parquet")
    wide = HLO.replace("p = f32[256]{0} parameter", "p = f32[512]{0} parameter")
    other = timeline(wide, [("first", 0, 4, 0)], step_ms=[2 * it for it in LENGTHS])
    write_parquet(other, tmp_path / "other.parquet")
    (tmp_path / "kept.json").write_text('{\n"schema": "counterpoint.predict/1",\n"inputs": []\n}\n')
    told = Transcript(tmp_path)
    for code, words in (
        (0, "a.parquet b.parquet"),
        (1, "a.parquet a1.parquet --with b.parquet b1.parquet --fail-above 1%"),
        (1, "a.parquet other.parquet --fail-above 2%"),
        (3, "a.parquet few.parquet --fail-above 2%"),
        (0, "a.parquet one.parquet"),
        (2, "a.parquet"),
        (2, "a.parquet b.parquet one.parquet"),
        (2, "a.parquet b.parquet --fail-above=0.02"),
        (3, "a.parquet gone.xplane.pb"),
        (3, "a.parquet kept.json"),
    ):
        told.run("compare", *words.split(), code=code)
    golden("compare.txt", told.text)


def test_a_gate_says_first_what_failed(golden: Golden, tmp_path: Path) -> None:
    losses = [2.0 - 0.01 * step for step in range(45)]
    for at, side in enumerate("abbaab"):
        scatter = 1 + 0.001 * (at % 3)
        made_run(tmp_path / f"{side}{at}", 0.01 * scatter, at=at, losses=losses)
        lost = [*losses[:30], float("nan")]
        made_run(tmp_path / f"lost{at}", 0.006, at=10 + at, losses=lost, outcome=LOST_NUMBERS)
        made_run(tmp_path / f"late{at}", 0.0105 * scatter, at=20 + at, losses=losses)
    off = [1.009 * it for it in losses]
    made_run(tmp_path / "short", 0.006, at=7, steps=12)
    made_run(tmp_path / "off", 0.010, at=8, losses=off)
    made_run(tmp_path / "silent", 0.010, at=9, steps=0)
    made_run(tmp_path / "cpu", 0.01, platform="cpu")
    made_run(tmp_path / "cpu19", 0.19, at=1, platform="cpu")
    told = Transcript(tmp_path)
    for code, words in (
        (1, "a0 a3 a4 --with lost0 lost1 lost2 --fail-above 2%"),
        (1, "a0 a4 --with b1 short --fail-above 2%"),
        (0, "a0 a3 short --with b1 b2 b5 --fail-above 2%"),
        (3, "lost0 lost1 --with b1 b2 --fail-above 2%"),
        (0, "a0 a3 a4 --with b1 off --as digest"),
        (0, "a0 a3 a4 --with b1 b2 silent --as digest"),
        (1, "a0 a3 a4 --with late0 late1 late2 --fail-above 2%"),
        (1, "cpu cpu19 --fail-above 2%"),
    ):
        told.run("compare", *words.split(), code=code)
    golden("compare_failed_runs.txt", told.text)


def test_the_next_line_of_runs_leads_on(run: Run, tmp_path: Path) -> None:
    def next_of(*arguments: str | Path) -> str:
        told = "".join(run(*arguments)[1:])
        return told.rpartition("next: ")[2].splitlines()[0]

    a, b, late, lost = (
        made_run(tmp_path / name, step_s, at=at, outcome=outcome)
        for at, (name, step_s, outcome) in enumerate(
            (
                ("a", 0.01, OK),
                ("b", 0.0101, OK),
                ("late", 0.012, OK),
                ("lost", 0.01, LOST_NUMBERS),
            )
        )
    )
    undecided = next_of(a, b)
    assert undecided == f"counterpoint run --repeat 3 --against {a} -- python train.py"
    decided = next_of(a, late)
    assert decided.startswith("counterpoint run ")
    assert f" -o {late}-2 " in decided  # with a profile, which explains it
    for line in (undecided, decided):
        parse(shlex.split(line)[1:])
    (lost / "rank0" / "stderr.log").write_text("loss is NaN")
    assert next_of(a, lost) == f"less {lost}/rank0/stderr.log"


def test_json_holds_the_runs_that_do_not_count(run: Run, tmp_path: Path) -> None:
    a, b = made_run(tmp_path / "a"), made_run(tmp_path / "b", at=1, steps=12)
    data = json.loads(run(a, b, "--json")[1])
    assert data["b"]["faults"] == [
        {"name": str(b), "why": "it made 12 steps, where others made 45"}
    ]
    assert data["a"]["faults"] == []
    assert data["losses"]["why_not"] == "A printed no losses"


def test_variables_that_matter_are_compared_and_secrets_are_not_shown(
    run: Run, tmp_path: Path
) -> None:
    a = {"NCCL_ALGO": "Ring", "TF_VAR_password": "one", "JAX_PROXY": "http://me:pass@host"}
    b = {"NCCL_ALGO": "Tree", "TF_VAR_password": "two", "JAX_PROXY": "http://me:word@host"}
    step = '#loc2 = loc("x.py":7:8)\nmodule @jit_step { %0 = add loc(callsite(#loc2 at #loc3)) }\n'
    paths = [
        made_run(
            tmp_path / side,
            at=at,
            passed=passed,
            modules={"jit_step": step.replace("x.py", f"{side}/x.py")},
        )
        for at, (side, passed) in enumerate((("a", a), ("b", b)))
    ]
    out = run(*paths)[1]
    assert "NCCL_ALGO" in out
    assert "password" not in out
    assert "JAX_PROXY" not in out
    assert "the same 1 module to XLA" in " ".join(out.split())
    other = made_run(tmp_path / "c", at=2, passed=a, modules={"jit_step": step + "%1 = sub"})
    out = " ".join(run(paths[0], other)[1].split())
    assert "modules passed to XLA" in out
    assert "NCCL_ALGO" not in out
    same = made_run(tmp_path / "d", at=3, passed=a)
    assert "none of those recorded differ" in run(paths[0], same)[1]
