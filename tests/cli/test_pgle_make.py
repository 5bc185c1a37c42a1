"""`counterpoint pgle make` as a user meets it: from a recording, a Run or a stored Timeline."""

from __future__ import annotations

import json
import lzma
import os
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from xspace_builder import MS, US, field_bytes, host, kernel, metadata, nvidia, xspace

from counterpoint.cli.app import main
from counterpoint.pgle.profiles.files import read_profile
from counterpoint.runs.outcomes import Outcome, OutcomeKind
from counterpoint.runs.run import RunSettings
from counterpoint.runs.writer import RankStart, RunStart, RunWriter
from counterpoint.timeline.reading import read
from counterpoint.timeline.storage.parquet import write_parquet
from golden_files import Golden
from transcripts import Transcript, next_command

HLO = Path(__file__).parent.parent / "hlo" / "data" / "gpu_step.hlo.pb.xz"
FINGERPRINT = "96439f5400cc30677247ed6dcc068cd0"
MODULE = ("jit_step", 7)
RUNS = 4
OP, IN_LOOP = "wrapped_transpose", "custom-call.2"

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `counterpoint pgle make`: exit code, stdout, stderr."""

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        code = main(["pgle", "make", *map(str, arguments)])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def recorded(path: Path, device: int = 0) -> Path:
    """Four runs of a step on an H100: 10, 11, 12, 13 us for one op, 4 times 5 for one in a loop."""
    gpu = nvidia(device)
    for at in range(RUNS):
        start = at * MS
        kernel(gpu, "Stream #20", "t", start, (10 + at) * US, op=OP, module=MODULE)
        for turn in range(4):
            late = start + (100 + 10 * turn) * US
            kernel(gpu, "Stream #20", "g", late, 5 * US, op=IN_LOOP, module=MODULE)
    proto = field_bytes(1, lzma.decompress(HLO.read_bytes()))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(xspace(gpu, metadata({MODULE: proto})))
    return path


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    return recorded(tmp_path / "host.xplane.pb")


COSTS = {f"{FINGERPRINT}::{IN_LOOP}": 5.0, f"{FINGERPRINT}::{OP}": 12.0}


def costs(path: Path) -> dict[str, float]:
    return {cost.key: cost.us for cost in read_profile(path).costs}


def test_a_recording_becomes_a_profile(run: Run, profile: Path, tmp_path: Path) -> None:
    out = tmp_path / "step.pbtxt"
    code, printed, err = run(profile, "-o", out)
    assert (code, err) == (0, "")
    assert costs(out) == COSTS
    assert printed.startswith(f"Profile\n  wrote      {out}\n  costs      2\n")
    (row,) = [line.split() for line in printed.splitlines() if FINGERPRINT in line]
    assert row == ["jit_step", FINGERPRINT, "2", "0", "3", "x", "1", "0.0960", "100.0%"]
    assert next_command(printed) == ["pgle", "check", str(out), "--program", str(profile)]


def test_the_next_command_can_be_run(
    run: Run, profile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    last = run(profile, "-o", tmp_path / "step.pbtxt")[1].splitlines()[-1]
    words = shlex.split(last.removeprefix("next: counterpoint "))
    assert main([*words, "--json"]) == 1  # two costs of 39
    checked = json.loads(capsys.readouterr().out)
    assert checked["fingerprint"] == FINGERPRINT
    assert checked["time_us"]["found"] == pytest.approx(checked["time_us"]["whole"])


@pytest.mark.parametrize("name", ["step.pb", "profiles", "profiles.d/"])
def test_the_name_says_the_form(run: Run, profile: Path, tmp_path: Path, name: str) -> None:
    assert run(profile, "-o", f"{tmp_path}/{name}")[0] == 0
    assert costs(tmp_path / name) == COSTS
    assert (tmp_path / name).is_file() == name.endswith(".pb")


def test_options_choose_what_becomes_a_cost(run: Run, profile: Path, tmp_path: Path) -> None:
    out = tmp_path / "step.pbtxt"
    assert run(profile, "-o", out, "--percentile", "100")[0] == 0
    assert costs(out)[f"{FINGERPRINT}::{OP}"] == 13
    assert run(profile, "-o", out, "--force", "--keep-warmup", "--percentile", "0")[0] == 0
    assert costs(out)[f"{FINGERPRINT}::{OP}"] == 10
    assert run(profile, "-o", out, "--force", "--bare", "--module", "jit_step")[0] == 0
    assert costs(out) == {IN_LOOP: 5.0, OP: 12.0}


def test_a_few_digits_of_a_fingerprint_name_its_module(
    run: Run, profile: Path, tmp_path: Path
) -> None:
    out = tmp_path / "step.pbtxt"
    assert run(profile, "-o", out, "--module", FINGERPRINT[:4])[0] == 0
    assert costs(out) == COSTS
    code, _, err = run(profile, "-o", out, "--force", "--module", FINGERPRINT[:3])
    assert code == 2
    assert f"#0 jit_step ({FINGERPRINT[:8]})" in err


def test_a_pattern_stands_in_the_head_as_the_files_it_found(
    run: Run, profile: Path, tmp_path: Path
) -> None:
    out = tmp_path / "step.pbtxt"
    assert run(profile.with_name("*.xplane.pb"), "-o", out)[0] == 0
    assert f"# inputs: {profile.name}\n" in out.read_text()


def test_a_stored_timeline_gives_the_same(run: Run, profile: Path, tmp_path: Path) -> None:
    stored = write_parquet(read(profile), tmp_path / "step.parquet")
    assert run(stored, "-o", tmp_path / "stored.pbtxt")[0] == 0
    assert costs(tmp_path / "stored.pbtxt") == COSTS


def started(path: Path) -> RunWriter:
    start = RunStart(
        name="train",
        command=("python", "train.py"),
        cwd="/",
        settings=RunSettings(),
        launcher="local",
        world_size=2,
        version="0.1.0",
    )
    return RunWriter.claim(path, start)


def executed(path: Path, *, profiled: bool = True) -> Path:
    """A Run of two ranks, each with a profile."""
    writer = started(path)
    for number in (0, 1):
        rank = writer.add_rank(number)
        writer.start_rank(RankStart(number), os.getpid())
        if profiled:
            session = rank / "profile" / "plugins" / "profile" / "t"
            recorded(session / f"h{number}.xplane.pb", device=number)
        told = {"pid": 7, "jax": "0.10.2", "jaxlib": "0.10.2"}
        (rank / "agent" / "process-7.json").write_text(json.dumps(told))
        writer.end_rank(number, Outcome(OutcomeKind.OK, 0))
    writer.end()
    return path


def test_a_run_stands_for_the_profiles_of_its_ranks(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "step.pbtxt"
    code, printed, _ = run(executed(tmp_path / "run"), "-o", out)
    assert code == 0
    assert "3 x 2" in printed
    assert costs(out) == COSTS
    assert read_profile(out).origin["jaxlib"] == "0.10.2"
    assert "h0.xplane.pb, h1.xplane.pb" in read_profile(out).origin["inputs"]


def test_a_profile_within_a_run_is_not_written_over(run: Run, tmp_path: Path) -> None:
    path = executed(tmp_path / "run")
    inside = path / "rank1" / "profile" / "plugins" / "profile" / "t" / "h1.xplane.pb"
    before = inside.read_bytes()
    assert run(path, "-o", inside, "--force")[0] == 2
    assert inside.read_bytes() == before


def test_a_run_without_profile_says_why(run: Run, tmp_path: Path) -> None:
    executed(tmp_path / "run", profiled=False)
    assert run(tmp_path / "run", "-o", tmp_path / "step.pbtxt")[0] == 3
    assert not (tmp_path / "step.pbtxt").exists()


def test_json_holds_all_of_it(run: Run, profile: Path, tmp_path: Path) -> None:
    out = tmp_path / "step.pbtxt"
    made = json.loads(run(profile, "-o", out, "--json")[1])
    assert made["schema"] == "counterpoint.pgle-make/1"
    assert (made["profile"], made["costs"]) == (str(out), 2)
    (module,) = made["modules"]
    assert (module["name"], module["fingerprint"]) == ("jit_step", FINGERPRINT)
    assert (module["executions"], module["devices"], module["covered"]) == (3, 1, 1)
    assert made["origin"] == dict(read_profile(out).origin)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["-o", "OUT/step.pbtxt"], "no recording"),
        (["IN"], "--out"),
        (["IN", "-o", "OUT/step.txt"], ".txt"),
        (["IN", "-o", "OUT/nowhere/step.pb"], "nowhere"),
        (["IN", "-o", "OUT/step.pb", "--percentile", "101"], "0 and 100"),
        (["IN", "-o", "OUT/step.pb", "--module", "jit_other"], "#0 jit_step"),
        (["IN", "-o", "IN", "--force"], "host.xplane.pb"),
    ],
)
def test_what_can_not_be_done_is_refused(
    run: Run, profile: Path, tmp_path: Path, arguments: list[str], named: str
) -> None:
    before = profile.read_bytes()
    given = [it.replace("IN", str(profile)).replace("OUT", str(tmp_path)) for it in arguments]
    code, printed, err = run(*given)
    assert (code, printed) == (2, "")
    assert named in err
    assert [it.name for it in tmp_path.iterdir()] == [profile.name]
    assert profile.read_bytes() == before


def test_nothing_is_overwritten_unless_forced(run: Run, profile: Path, tmp_path: Path) -> None:
    out = tmp_path / "step.pbtxt"
    out.write_text("precious")
    code, _, err = run(profile, "-o", out)
    assert code == 2
    assert "exists" in err
    assert out.read_text() == "precious"
    assert run(profile, "-o", out, "--force")[0] == 0


def test_a_recording_without_gpus_is_refused(run: Run, tmp_path: Path) -> None:
    empty = tmp_path / "host.xplane.pb"
    empty.write_bytes(xspace(host()))
    assert run(empty, "-o", tmp_path / "step.pbtxt")[0] == 3
    assert not (tmp_path / "step.pbtxt").exists()


def test_what_it_says(golden: Golden, profile: Path, tmp_path: Path) -> None:
    executed(tmp_path / "run")
    executed(tmp_path / "no_profile", profiled=False)
    (tmp_path / "empty.xplane.pb").write_bytes(xspace(host()))
    told = Transcript(tmp_path)
    for code, words in (
        (0, "host.xplane.pb -o step.pbtxt"),
        (2, "host.xplane.pb -o step.pbtxt"),
        (0, "host.xplane.pb -o step.pbtxt --force --bare --module jit_step --keep-warmup"),
        (0, "run -o run.pbtxt"),
        (2, "host.xplane.pb -o x.pbtxt --module 964"),
        (2, "host.xplane.pb -o x.pb --module jit_other"),
        (2, "run -o run/rank1/profile/plugins/profile/t/h1.xplane.pb --force"),
        (3, "no_profile -o x.pbtxt"),
        (3, "empty.xplane.pb -o x.pbtxt"),
        (2, "-o x.pbtxt"),
        (2, "host.xplane.pb"),
        (2, "host.xplane.pb -o x.txt"),
        (2, "host.xplane.pb -o nowhere/x.pb"),
        (2, "host.xplane.pb -o x.pb --percentile 101"),
        (2, "host.xplane.pb -o host.xplane.pb --force"),
    ):
        told.run("pgle", "make", *words.split(), code=code)
    assert profile.parent == tmp_path
    golden("pgle_make.txt", told.text)
