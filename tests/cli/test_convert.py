"""`counterpoint convert` as a user meets it."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from trace_builder import packed, process, span, thread
from xspace_builder import US, host, step_marker, xspace

from counterpoint.cli.app import Command, main
from counterpoint.timeline.reading import read
from golden_files import Golden
from transcripts import Transcript, next_command

CONVERT = Command("convert", "counterpoint.cli.convert:convert", "Keep profiles.")

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `counterpoint convert`: exit code, stdout, stderr."""

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        code = main(["convert", *map(str, arguments)], [CONVERT])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    """Three steps of a TPU core."""
    path = tmp_path / "worker-0.trace.json.gz"
    runs = [span((3, 2), 100 * k, 80, "jit_step(7)", run_id=str(k)) for k in range(3)]
    ops = [span((3, 3), 100 * k + 5, 70, "fusion.1", hlo_category="fusion") for k in range(3)]
    names = [process(3, "/device:TPU:0"), thread(3, 2, "XLA Modules"), thread(3, 3, "XLA Ops")]
    path.write_bytes(packed([*names, *runs, *ops]))
    return path


@pytest.mark.parametrize("name", ["out", "out.json.gz", "out.json"])
def test_what_is_written_reads_as_what_was_read(
    run: Run, profile: Path, tmp_path: Path, name: str
) -> None:
    code, out, err = run(profile, tmp_path / name)
    assert (code, err) == (0, "")
    assert out.startswith(f"{tmp_path / name}: 3 spans, 1 device, 3 steps, ")
    before, after = read(profile), read(tmp_path / name)
    columns = ("device", "start_ps", "dur_ps")
    assert after.spans.select(columns).equals(before.spans.select(columns))
    assert after.runs["start_ps"].to_list() == before.runs["start_ps"].to_list()


def test_the_last_line_is_what_to_do_next(run: Run, profile: Path, tmp_path: Path) -> None:
    stored = tmp_path / "out"
    assert next_command(run(profile, stored)[1]) == ["explain", str(stored)]
    trace = tmp_path / "out.pftrace"
    *_, told, last = run(stored, trace)[1].splitlines()
    assert last.endswith(" https://ui.perfetto.dev")
    assert trace.stat().st_size > 0
    assert told.endswith(f", {trace.stat().st_size:,} bytes")  # of a small file: no 0.0 MB


def packed_again(data: bytes) -> bytes:
    """The same profile with another op: a copy would count once."""
    return gzip.compress(gzip.decompress(data).replace(b"fusion.1", b"fusion.2"))


def test_several_inputs_are_the_hosts_of_one_run(run: Run, profile: Path, tmp_path: Path) -> None:
    second = tmp_path / "worker-1.trace.json.gz"
    second.write_bytes(packed_again(profile.read_bytes()))
    assert run(profile, second, tmp_path / "out")[0] == 0
    assert [host.name for host in read(tmp_path / "out").hosts] == ["worker-0", "worker-1"]


@pytest.mark.parametrize("name", ["out", "out.json.gz", "out.pftrace"])
def test_nothing_is_overwritten_unless_forced(
    run: Run, profile: Path, tmp_path: Path, name: str
) -> None:
    out = tmp_path / name
    assert run(profile, out)[0] == 0
    code, printed, err = run(profile, out)
    assert (code, printed) == (2, "")
    assert f"{out} exists" in err
    assert "--force" in err
    assert run(profile, out, "--force")[0] == 0


def test_a_link_to_a_timeline_stays_a_link(run: Run, profile: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "target")
    assert run(profile, link)[0] == 0
    assert run(profile, link, "--force")[0] == 0
    assert link.is_symlink()
    assert len(read(tmp_path / "target").spans) == 3


def test_force_does_not_replace_what_is_no_timeline(
    run: Run, profile: Path, tmp_path: Path
) -> None:
    for name in ("out", "out.json"):
        precious = tmp_path / name
        precious.mkdir()
        (precious / "thesis.tex").write_text("years of work")
        code, _, err = run(profile, precious, "--force")
        assert code == 2
        assert "exists" in err
        assert (precious / "thesis.tex").read_text() == "years of work"


def test_a_profile_is_not_written_over_itself(run: Run, profile: Path) -> None:
    before = profile.read_bytes()
    assert run(profile, profile, "--force")[0] == 2
    assert profile.read_bytes() == before


@pytest.mark.parametrize("name", ["out.txt", "out.gz", "out.csv"])
def test_an_unknown_ending_is_refused_with_the_known_ones(
    run: Run, profile: Path, tmp_path: Path, name: str
) -> None:
    code, out, err = run(profile, tmp_path / name)
    assert (code, out) == (2, "")
    assert ".json, .json.gz, .pftrace" in err
    assert next_command(err) == ["convert", str(profile), str(tmp_path / "out")]


def test_a_parquet_file_is_refused_with_the_name_of_a_directory(
    run: Run, profile: Path, tmp_path: Path
) -> None:
    code, out, err = run(profile, tmp_path / "out.parquet")
    assert (code, out) == (2, "")
    assert next_command(err) == ["convert", str(profile), str(tmp_path / "out")]
    assert not (tmp_path / "out.parquet").exists()


def test_a_number_behind_a_dot_is_part_of_a_directorys_name(
    run: Run, profile: Path, tmp_path: Path
) -> None:
    assert run(profile, tmp_path / "run-1.2")[0] == 0
    assert len(read(tmp_path / "run-1.2").spans) == 3


def test_a_directory_that_an_earlier_version_wrote_still_opens(
    run: Run, profile: Path, tmp_path: Path
) -> None:
    run(profile, tmp_path / "out")
    old = (tmp_path / "out").rename(tmp_path / "step.parquet")
    for name in ("ops", "runs"):  # it had no numbers of rows
        table = old / f"{name}.parquet"
        pl.read_parquet(table).drop("row").write_parquet(table)
    (old / "transfers.parquet").unlink()
    assert read(old).spans.equals(read(profile).spans)
    assert read(old).ops.equals(read(profile).ops)


def test_any_tool_reads_the_tables_as_the_documentation_says(
    run: Run, profile: Path, tmp_path: Path
) -> None:
    """The query of docs/concepts/timeline.md, of the files that it names."""
    run(profile, tmp_path / "step")
    page = (Path(__file__).parents[2] / "docs" / "concepts" / "timeline.md").read_text()
    on_disk = page[page.index("## On disk") :]
    query = on_disk[on_disk.index("```sql") + 6 :].partition("```")[0]
    files = re.findall(r"'(step/\w+\.parquet)'", query)
    assert files == ["step/spans.parquet", "step/ops.parquet"]
    for name in files:
        query = query.replace(f"'{name}'", f"read_parquet('{tmp_path / name}')")
    answer = pl.sql(query.rstrip().rstrip(";"), eager=True)
    took: list[int] = read(profile).spans["dur_ps"].to_list()
    assert answer.rows() == [("fusion.1", sum(took) / 1e9)]
    written = sorted(it.name for it in (tmp_path / "step").glob("*.parquet"))
    assert written == sorted(set(re.findall(r"`(\w+\.parquet)`", on_disk)))
    for name in written:
        pl.read_parquet(tmp_path / "step" / name)


@pytest.mark.parametrize("name", ["out", "out.parquet", "out.pftrace"])
def test_a_url_is_not_written(run: Run, profile: Path, name: str) -> None:
    assert run(profile, f"memory://{name}")[0] == 2


def test_what_to_do_next_can_be_pasted(run: Run, profile: Path, tmp_path: Path) -> None:
    out = tmp_path / "two words"
    assert next_command(run(profile, out)[1]) == ["explain", str(out)]


def test_a_missing_directory_is_refused_before_reading(run: Run, tmp_path: Path) -> None:
    assert run(tmp_path / "none.xplane.pb", tmp_path / "no" / "out")[0] == 2


def test_a_missing_profile_is_exit_code_3(run: Run, tmp_path: Path) -> None:
    code, _, err = run(tmp_path / "none.xplane.pb", tmp_path / "out")
    assert code == 3
    assert "none.xplane.pb" in err
    assert not (tmp_path / "out").exists()


def test_help_names_the_formats(run: Run) -> None:
    code, out, _ = run("--help")
    assert code == 0
    for word in ("IN... OUT", "Parquet", ".pftrace", "--force"):
        assert word in out


@pytest.mark.parametrize("output", ["out.json.gz", "out"])
def test_a_trace_that_was_cut_before_any_work_is_an_error_and_writes_nothing(
    run: Run, profile: Path, tmp_path: Path, output: str
) -> None:
    cut = tmp_path / "cut.trace.json.gz"
    cut.write_bytes(profile.read_bytes()[:-20])
    assert run(cut, tmp_path / output)[0] == 3
    assert not (tmp_path / output).exists()


def test_what_only_the_host_did_is_written(run: Run, tmp_path: Path) -> None:
    threads = host()
    for number in range(3):
        step_marker(threads, "python", number, number * 1000 * US, 990 * US)
    (tmp_path / "h.xplane.pb").write_bytes(xspace(threads))
    code, out, _ = run(tmp_path / "h.xplane.pb", tmp_path / "out.json.gz")
    assert code == 0
    assert "out.json.gz: 3 host events, 0 devices" in out
    code, out, _ = run(tmp_path / "h.xplane.pb", tmp_path / "out")
    assert code == 0
    assert "explain" not in out  # which needs what devices did


def test_what_it_says(golden: Golden, profile: Path, tmp_path: Path) -> None:
    data = profile.read_bytes()
    (tmp_path / "p.trace.json.gz").write_bytes(data)
    (tmp_path / "nothing.trace.json.gz").write_bytes(data[:-20])
    many = [span((3, 3), 10 * at, 5, f"fusion.{at}") for at in range(5000)]
    whole = packed([process(3, "/device:TPU:0"), thread(3, 3, "XLA Ops"), *many])
    (tmp_path / "cut.trace.json.gz").write_bytes(whole[: len(whole) * 3 // 4])
    # How well it is compressed differs from release to release.
    shown = {r"[\d,]+ bytes": "N bytes"}
    told = Transcript(tmp_path)
    told.run("convert", "cut.trace.json.gz", "cut", shown={**shown, r"\d,\d{3} ": "N "})
    assert 0 < len(read(tmp_path / "cut").spans) < len(many)
    for code, *words in (
        (0, "p.trace.json.gz", "out"),
        (2, "p.trace.json.gz", "out"),
        (0, "p.trace.json.gz", "two words"),
        (2, "p.trace.json.gz", "p.trace.json.gz", "--force"),
        (2, "p.trace.json.gz", "out.csv"),
        (2, "p.trace.json.gz", "out.parquet"),
        (2, "p.trace.json.gz", "memory://out"),
        (2, "p.trace.json.gz", "no/out"),
        (3, "none.xplane.pb", "new"),
        (2,),
        (2, "only.xplane.pb"),
        (2, "p.trace.json.gz", "new", "--memory", "0"),
        (3, "nothing.trace.json.gz", "new"),
    ):
        told.run("convert", *words, code=code, shown=shown)
    golden("convert.txt", told.text)
    assert not (tmp_path / "new").exists()
