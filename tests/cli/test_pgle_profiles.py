"""`counterpoint pgle show`, `merge` and `diff` as a user meets them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from counterpoint.cli.app import main
from counterpoint.pgle.profiles.files import read_profile, write_profile
from counterpoint.pgle.profiles.profile import InstructionCost, Latency, Profile
from golden_files import Golden
from transcripts import Transcript, next_command

A = "0123456789abcdef0123456789abcdef"
B = "fedcba9876543210fedcba9876543210"
C = "00112233445566778899aabbccddeeff"

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command of the group: exit code, stdout, stderr."""

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        code = main(["pgle", *map(str, arguments)])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


@pytest.fixture
def first(tmp_path: Path) -> Path:
    costs = (
        InstructionCost("dot", 100.0, A),
        InstructionCost("add", 5.0, A),
        InstructionCost("nop", 0.0, A),
        InstructionCost("dot", 20.0, B),
    )
    told = {"made by": "a test", f"module {A}": "jit_step, 3 instructions"}
    return write_profile(Profile(costs, origin=told), tmp_path / "first.pbtxt")


@pytest.fixture
def second(tmp_path: Path) -> Path:
    costs = (
        InstructionCost("dot", 150.0, A),
        InstructionCost("add", 5.0, A),
        InstructionCost("new", 7.0, A),
    )
    return write_profile(Profile(costs), tmp_path / "second.pbtxt")


@pytest.fixture
def inputs(first: Path, second: Path, twice_built: Path) -> Path:
    """A directory with profiles of every kind, each under a name that says its kind."""
    place = first.parent
    dot, add = InstructionCost("dot", 1.0), InstructionCost("add", 9.0)
    duplicates = (dot, add, InstructionCost("dot", 3.0))
    for name, profile in {
        "duplicates.pb": Profile(duplicates),
        "clones.pb": Profile((*duplicates, InstructionCost("dot.remat", 8.0))),
        "many.pb": Profile(
            tuple(InstructionCost("dot", float(us)) for us in (7, *range(1, 60), 5))
        ),
        "latencies.pb": Profile((dot,), (Latency("a", "b", 2.0),)),
        "bare.pb": Profile((InstructionCost("dot", 150.0), InstructionCost("add", 6.0))),
        "other_program.pb": Profile((InstructionCost("dot", 1.0, B),)),
        "same_program.pb": Profile((InstructionCost("dot", 5.0, A),)),
        "bare_add.pb": Profile((add,)),
    }.items():
        write_profile(profile, place / name)
    (place / "wrong_ending.txt").write_bytes(first.read_bytes())
    assert second.parent == twice_built.parent == place
    return place


def test_what_they_say(golden: Golden, inputs: Path) -> None:
    told = Transcript(inputs)
    for name in ("first.pbtxt", "twice_built.pbtxt"):
        told.run("pgle", "show", name)
    told.run("pgle", "show", "first.pbtxt", "--top", 1)
    for name in ("duplicates.pb", "clones.pb", "many.pb", "latencies.pb"):
        told.run("pgle", "show", name)
    told.run("pgle", "show", "wrong_ending.txt", code=3)
    for number, names in enumerate(
        (
            ("first.pbtxt", "second.pbtxt"),
            ("second.pbtxt", "same_program.pb"),
            ("same_program.pb", "other_program.pb"),
            ("duplicates.pb", "bare.pb"),
            ("latencies.pb", "bare_add.pb"),
        )
    ):
        told.run("pgle", "merge", *names, "-o", f"merged_{number}.pbtxt")
    told.run("pgle", "merge", "-o", "x.pb", code=2)
    told.run("pgle", "merge", "first.pbtxt", "-o", "first.pbtxt", code=2)
    told.run("pgle", "merge", "first.pbtxt", "-o", "x.pb", "--percentile", -1, code=2)
    told.run("pgle", "merge", "first.pbtxt", "bare.pb", "-o", "x.pb", code=3)
    told.run("pgle", "diff", "first.pbtxt", "second.pbtxt")
    told.run("pgle", "diff", "second.pbtxt", "other_program.pb")
    told.run("pgle", "diff", "second.pbtxt", "bare.pb")
    golden("pgle_profiles.txt", told.text)
    assert not (inputs / "x.pb").exists()


def test_show_tells_modules_and_the_largest_costs(run: Run, first: Path) -> None:
    code, out, err = run("show", first)
    assert (code, err) == (0, "")
    lines = [line.split() for line in out.splitlines()]
    assert ["costs", "4;", "0.125", "ms", "in", "all"] in lines
    assert ["made", "by", "a", "test"] in lines
    assert [A, "3", "0.105", "jit_step,", "3", "instructions"] in lines
    assert [B, "1", "0.020"] in lines
    assert ["dot", A[:12], "100.000", "95.2%"] in lines  # of the 105 us of its own module
    assert ["dot", B[:12], "20.000", "100.0%"] in lines
    assert "Zero cost   1: nop" in out
    assert "Duplicates" not in out
    words = ["pgle", "manual", "--profile", str(first), "--", "python", "train.py"]
    assert next_command(out) == words


@pytest.fixture
def twice_built(tmp_path: Path) -> Path:
    """One module under two fingerprints, as `pgle make` writes what hosts compiled apart."""
    us = {"dot": 75.0, "add": 25.0}
    costs = (
        *(InstructionCost(name, us[name], it) for it in (A, B) for name in us),
        InstructionCost("rng", 2.0, C),
    )
    told = {
        f"module {A}": "jit_step, 2 instructions, 3 runs on 1 device",
        f"module {B}": "jit_step, 2 instructions, 3 runs on 3 devices",
        f"module {C}": "jit_init, 1 instruction, 1 run on 4 devices",
    }
    return write_profile(Profile(costs, origin=told), tmp_path / "twice_built.pbtxt")


def test_costs_under_two_fingerprints_of_one_module_count_once(run: Run, twice_built: Path) -> None:
    out = run("show", twice_built)[1]
    lines = [line.split() for line in out.splitlines()]
    assert ["costs", "5;", "0.102", "ms", "in", "all"] in lines
    assert [it for it in lines if it[:1] == ["dot"]] == [["dot", A[:12], "+1", "75.000", "75.0%"]]
    assert [it[2] for it in lines if it[:1] in ([A], [B])] == ["0.100", "0.100"]
    shown = json.loads(run("show", twice_built, "--json")[1])
    assert shown["total_us"] == 102.0
    assert shown["modules"] == [
        {"fingerprints": [A, B], "us": 100.0},
        {"fingerprints": [C], "us": 2.0},
    ]


def test_the_same_costs_in_modules_of_other_names_stay_apart(run: Run, tmp_path: Path) -> None:
    costs = tuple(InstructionCost(name, 1.0, it) for it in (A, B) for name in ("add", "dot"))
    told = {f"module {A}": "jit_step, 2 instructions", f"module {B}": "jit_eval, 2 instructions"}
    path = write_profile(Profile(costs, origin=told), tmp_path / "two.pbtxt")
    assert json.loads(run("show", path, "--json")[1])["total_us"] == 4.0
    alone = write_profile(
        Profile((InstructionCost("add", 1.0, A), InstructionCost("add", 1.0, B))), tmp_path / "a.pb"
    )
    assert json.loads(run("show", alone, "--json")[1])["total_us"] == 2.0


def test_of_a_bare_name_and_a_modules_own_the_later_counts_for_the_module(
    run: Run, tmp_path: Path
) -> None:
    costs = (
        InstructionCost("dot", 1.0, A),
        InstructionCost("add", 2.0, A),
        InstructionCost("dot", 7.0),
    )
    shown = run("show", write_profile(Profile(costs), tmp_path / "mixed.pbtxt"))[1]
    lines = [line.split() for line in shown.splitlines()]
    assert ["dot", A[:12], "7.000", "77.8%"] in lines
    assert float(next(it for it in lines if it[:2] == [A, "2"])[2]) == 0.009


def test_diff_counts_a_module_of_two_fingerprints_once(
    run: Run, twice_built: Path, tmp_path: Path
) -> None:
    costs = tuple(replace(it, us=2 * it.us) for it in read_profile(twice_built).costs)
    doubled = write_profile(Profile(costs), tmp_path / "doubled.pbtxt")
    shown = json.loads(run("diff", twice_built, doubled, "--json")[1])
    assert (shown["a_us"], shown["b_us"], len(shown["changes"])) == (102.0, 204.0, 3)


def test_shares_are_those_of_a_calculator(run: Run, shared: Path) -> None:
    path = shared / "data/pgle/bf16_16vm.pbtxt"
    found = re.findall(r'name: "(.*)" cost_us: (\S+)', path.read_text())
    last = {name: float(us) for name, us in found}
    assert len(found) > len(last)
    shown = run("show", path)[1]
    name, us = max(last.items(), key=lambda it: it[1])
    share = f"{us / sum(last.values()):.1%}"
    assert [name, "any", f"{us:,.3f}", share] in [line.split() for line in shown.splitlines()]


def test_show_is_cut_to_the_rows_asked_for(run: Run, first: Path) -> None:
    out = run("show", first, "--top", "1")[1]
    assert "Largest costs   1 of 4" in out
    assert "add" not in out
    assert run("show", first, "--top", "0")[0] == 2


def test_show_tells_which_of_two_costs_xla_takes(run: Run, tmp_path: Path) -> None:
    costs = (InstructionCost("dot", 1.0), InstructionCost("add", 9.0), InstructionCost("dot", 3.0))
    path = write_profile(Profile(costs), tmp_path / "twice.pb")
    out = run("show", path)[1]
    assert "Duplicates   1 " in out
    rows = [line.split() for line in out.splitlines()]
    assert ["dot", "any", "1.000", "and", "3.000", "3.000"] in rows
    assert re.search(r"costs +3, .* drops 1 .* 0\.0120 ms ", out)
    assert ["dot", "any", "3.000", "25.0%"] in rows
    assert ["dot", "any", "1.000", "8.3%"] not in rows
    # With a clone by rematerialisation XLA averages all costs of a base name instead.
    clones = (*costs, InstructionCost("dot.remat", 8.0))
    path = write_profile(Profile(clones), tmp_path / "clones.pb")
    rows = [line.split() for line in run("show", path)[1].splitlines()]
    assert ["dot", "any", "1.000", "and", "3.000", "4.000"] in rows


def test_show_cuts_the_many_costs_of_one_name_to_their_range(run: Run, tmp_path: Path) -> None:
    costs = tuple(InstructionCost("dot", float(us)) for us in (7, *range(1, 60), 5))
    out = run("show", write_profile(Profile(costs), tmp_path / "many.pb"))[1]
    row = ["dot", "any", "1.000", "to", "59.000", "(61", "costs)", "5.000"]
    assert row in [line.split() for line in out.splitlines()]
    assert all(len(line) < 100 for line in out.splitlines() if "costs)" in line)


def test_show_as_json_is_whole(run: Run, first: Path) -> None:
    shown = json.loads(run("show", first, "--json", "--top", "1")[1])
    assert shown["schema"] == "counterpoint.pgle-profile/1"
    assert shown["fingerprints"] == [A, B]
    assert shown["costs"][0] == {"name": "dot", "fingerprint": A, "us": 100.0}
    assert (len(shown["costs"]), shown["total_us"], shown["bare"]) == (4, 125.0, 0)
    assert shown["duplicates"] == {}


def test_show_refuses_what_xla_would_ignore(run: Run, first: Path) -> None:
    wrong = first.rename(first.with_suffix(".txt"))
    code, _, err = run("show", wrong)
    assert code == 3
    assert err.endswith(f" mv {wrong} {first}\n")


def test_merge_writes_one_profile(run: Run, first: Path, second: Path, tmp_path: Path) -> None:
    out = tmp_path / "both"
    code, printed, err = run("merge", first, second, "-o", out)
    assert (code, err) == (0, "")
    assert "2 profiles; 5 costs of 2 modules" in printed
    assert f"jit_step ({A[:8]}), {B};" in printed
    assert next_command(printed) == ["pgle", "show", str(out)]
    assert {cost.key: cost.us for cost in read_profile(out).costs} == {
        f"{A}::dot": 125.0,
        f"{A}::add": 5.0,
        f"{A}::nop": 0.0,
        f"{A}::new": 7.0,
        f"{B}::dot": 20.0,
    }


def test_diff_starts_with_the_largest_change(run: Run, first: Path, second: Path) -> None:
    code, out, err = run("diff", first, second)
    assert (code, err) == (0, "")
    lines = [line.split() for line in out.splitlines()]
    assert "in both      2, 1 of " in out
    assert "A 0.105 ms   B 0.155 ms   B/A 1.476" in out
    assert ["dot", "of", A[:8], "100.000", "150.000", "+50.000", "1.500"] in lines
    assert "Only in A   2" in out
    assert ["new", "of", A[:8], "7.000"] in lines
    assert next_command(out) == ["pgle", "show", str(second)]
    assert run("diff", first, second, "--top", "0")[0] == 2


def test_diff_says_whether_only_names_are_compared(run: Run, inputs: Path) -> None:
    second = inputs / "second.pbtxt"
    for other, by_name in (
        ("first.pbtxt", False),
        ("other_program.pb", True),
        ("bare.pb", True),
    ):
        data = json.loads(run("diff", second, inputs / other, "--json")[1])
        assert data["by_name"] is by_name
    out = run("diff", second, inputs / "bare.pb")[1]
    assert "Largest changes   1\n" in out
    assert "+0.000" not in out


def test_diff_as_json_is_whole(run: Run, first: Path, second: Path) -> None:
    diff = json.loads(run("diff", first, second, "--json", "--top", "1")[1])
    assert diff["schema"] == "counterpoint.pgle-diff/1"
    assert [change["key"] for change in diff["changes"]] == [f"{A}::dot", f"{A}::add"]
    assert [it["key"] for it in diff["only_a"]] == [f"{B}::dot", f"{A}::nop"]
    assert diff["only_b"] == [{"key": f"{A}::new", "us": 7.0}]
    assert diff["by_name"] is False


def test_real_profiles_are_shown_with_their_duplicates(run: Run, shared: Path) -> None:
    for path, count in (("bf16_16vm", 17), ("bf16_64vm", 19), ("fp8_128vm", 17)):
        out = run("show", shared / f"data/pgle/{path}.pbtxt")[1]
        assert f"Duplicates   10 of {count} names " in out
        assert max(map(len, out.splitlines())) <= 120
