"""`explain --executor`: one task per profile; what is lost is named, and the rest says the same."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import polars as pl
import pytest
from web_store import web_store

from command_line import in_process
from counterpoint.cli.view_inputs import ViewOptions, open_input
from counterpoint.core import InputError, UsageError
from counterpoint.fleet import local
from counterpoint.fleet.extract import to_bytes
from counterpoint.fleet.fleet import arrange
from counterpoint.fleet.local import LocalExecutor
from counterpoint.fleet.summary import summarize
from counterpoint.fleet.tasks import Gathering, gather_extracts
from counterpoint.timeline import remote
from counterpoint.view.page import LivePage
from golden_files import Golden, cases
from golden_sections import Said
from made_fleet import TasksHere, write_profiles

MEMORY = 1 << 30


@pytest.fixture(scope="module")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_profiles(tmp_path_factory.mktemp("fleet"))


@pytest.fixture(scope="module")
def gathered(profiles: list[Path]) -> Gathering:
    return gather_extracts([str(profiles[0].parent)], TasksHere(), memory_bytes=MEMORY)


def answer(*words: object) -> dict[str, Any]:
    done = in_process("explain", *words, "--executor", "local", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_straggler_is_found(profiles: list[Path], tmp_path: Path) -> None:
    places = tmp_path / "places.csv"
    rows = [f"host-0{number},r{number // 2},p" for number in range(4)]
    places.write_text("\n".join(["host,rack,pod", *rows]))
    kept = tmp_path / "all.extract.parquet"
    options = ("--topology", places, "--jobs", 2, "--extracts", kept)
    found = answer(profiles[0].parent, *options)
    assert [(late["kind"], late["name"]) for late in found["late"]] == [
        ("device", "host-02 device 1")
    ]
    assert found["late"][0]["is_slow"]
    assert [host["rack"] for host in found["hosts"]] == ["r0", "r0", "r1", "r1"]
    assert found["left_out"] == []
    low, high = found["late"][0]["gain_interval_ms"]
    assert 0 <= low <= found["late"][0]["gain_ms"] <= high
    for host in found["hosts"]:
        assert len(host["each_ms"]) == len(found["step_numbers"]) == found["steps"]
        assert median(host["each_ms"]) == pytest.approx(host["step_ms"])
    # Kept extracts say the same.
    again = answer(kept, "--topology", places)
    for name in ("late", "hosts", "step_ms", "builds"):
        assert again[name] == found[name]
    done = in_process("explain", kept)
    assert done.returncode == 3
    assert done.stderr.strip().endswith("--executor local")


def test_the_text(golden: Golden, tmp_path: Path) -> None:
    def report(directory: str, *words: str) -> str:
        options = ("--executor", "local", *words)
        return in_process("explain", directory, *options, cwd=tmp_path).stdout

    places = ["host,rack", "host-00,r1", "host-02,r2", "elsewhere,r3"]
    (tmp_path / "places.csv").write_text("\n".join(places))
    first, second, *_ = write_profiles(tmp_path / "run")
    texts = {"four hosts, of which two are in a rack": report("run", "--topology", "places.csv")}
    (short,) = write_profiles(tmp_path / "short", hosts=1, steps=1)
    write_profiles(tmp_path / "two", steps=2)
    heads = {
        "one step, which is not whole": report("short"),
        "two steps, of which one counts": report("two"),
    }
    first.write_bytes(b"")
    heads["an empty profile"] = report("run")
    short.replace(second)
    heads["a host without a whole step, and an empty profile"] = report("run")
    for name, text in heads.items():
        head, _, rest = text.partition("\nCollectives")
        texts[name] = head + "".join(rest.partition("\nLeft out")[1:]).partition("\n\n")[0]
    golden("fleet.txt", cases(texts))


def test_parts_add_up_to_the_median_step_of_the_fleet_and_of_each_host(
    gathered: Gathering,
) -> None:
    """By an own calculation on the extracts; a step with a checkpoint does not disturb it."""
    steps = (
        gathered.extracts.select("host", "steps").explode("steps").unnest("steps")
    ).with_columns(pl.col("^.*_ps$") / 1e9)
    slow = (pl.col("step") == steps["step"].max()) & (pl.col("host") == "host-01")
    more = pl.when(slow).then(900.0).otherwise(0.0)
    steps = steps.with_columns(pl.col("idle_ps") + more, pl.col("end_ps") + more)
    told = gathered.extracts.with_columns(
        steps=steps.with_columns((pl.col("^.*_ps$") * 1e9).cast(pl.Int64))
        .group_by("host", maintain_order=True)
        .agg(each=pl.struct(pl.exclude("host")))["each"]
    )
    found = summarize(arrange(told), gathered)
    lasts = pl.col("end_ps") - pl.col("start_ps")
    middle = steps.group_by("step").agg(lasts.mean())["end_ps"].median()
    assert found.step_ms == pytest.approx(middle)
    parts = (found.compute_ms, found.exposed_ms, found.copy_ms, found.idle_ms)
    assert sum(parts) == pytest.approx(middle)
    assert found.idle_ms < 1
    for row in found.hosts:
        own = steps.filter(host=row.host.name).group_by("step").agg(lasts.mean())["end_ps"]
        assert row.step_ms == pytest.approx(own.median())
        rest = row.step_ms - row.compute_ms - row.exposed_ms - row.idle_ms
        assert 0 <= rest < 0.2  # exposed copies, which the table leaves out


def test_view_opens_kept_extracts_as_the_page_of_explain(
    profiles: list[Path], tmp_path: Path
) -> None:
    kept, page = tmp_path / "kept" / "all.extract.parquet", tmp_path / "page.html"
    kept.parent.mkdir()
    answer(profiles[0].parent, "--extracts", kept)
    done = in_process("explain", kept, "--executor", "local", "--html", page)
    assert done.returncode == 0, done.stderr
    found = re.search(r'id="counterpoint-page">(.*?)</script>', page.read_text("utf-8"), re.DOTALL)
    assert found
    written = json.loads(found[1])
    options = ViewOptions()
    opened = open_input((str(kept),), None, options)
    assert isinstance(opened.page, LivePage)
    shown = json.loads(opened.page.page_json())
    assert shown["reports"] == written["reports"]
    # The page would take "explain" for the explanation of one step, and fail to show it.
    assert list(shown["results"]) == list(written["results"]) == ["fleet"]
    cells = re.findall(r'<td class="heat heat-(\d)">([0-9.]+)</td>', written["reports"][0]["html"])
    assert len(cells) == 4 * 6
    cells.sort(key=lambda cell: (float(cell[1]), int(cell[0])))  # values may print alike
    shades = [int(shade) for shade, _ in cells]
    assert shades == sorted(shades)
    assert (shades[0], shades[-1]) == (1, 9)
    directory = open_input((str(kept.parent),), None, options)
    assert isinstance(directory.page, LivePage)
    assert json.loads(directory.page.page_json())["reports"] == shown["reports"]
    with pytest.raises(UsageError, match="--last"):
        open_input((str(kept),), None, replace(options, last=2))


def test_stored_timelines_by_a_pattern_or_their_directory(
    profiles: list[Path], tmp_path: Path
) -> None:
    stored = tmp_path / "stored"
    done = in_process("convert", profiles[0].parent, stored, "--executor", "local")
    assert done.returncode == 0, done.stderr
    pattern, whole = answer(f"{stored}/*"), answer(stored)
    assert pattern["profiles"] == 4
    assert pattern["hosts"] == whole["hosts"]
    assert pattern["step_ms"] == answer(profiles[0].parent)["step_ms"]
    done = in_process("explain", stored)
    assert done.returncode == 3
    assert done.stderr.strip().endswith(f"next: counterpoint explain {stored} --executor local")
    done = in_process("explain", f"{stored}/*")
    assert "--executor local" in done.stderr


def test_a_host_without_a_profile_is_left_out_among_others(
    profiles: list[Path], tmp_path: Path, said: Said
) -> None:
    for number, path in enumerate(profiles[:2]):
        (tmp_path / f"host-{number}").mkdir()
        (tmp_path / f"host-{number}" / path.name).symlink_to(path)
    (tmp_path / "host-2").mkdir()
    found = answer(f"{tmp_path}/host-*")
    assert (found["profiles"], len(found["hosts"])) == (3, 2)
    (left_out,) = found["left_out"]
    assert left_out["what"].startswith(f"{tmp_path}/host-2: no profile")
    said(left_out["what"])
    for words in ((f"{tmp_path}/host-*", "--strict"), (f"{tmp_path}/host-2",)):
        done = in_process("explain", *words, "--executor", "local")
        assert done.returncode == 3
        assert "host-2: no profile" in done.stderr
    done = in_process("explain", f"{tmp_path}/host-0", f"{tmp_path}/hots-1", "--executor", "local")
    assert done.returncode == 3
    assert "hots-1: no such file" in done.stderr


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b"a,b\n1,2\n", "first line"),
        (b"", "empty"),
        (b"host,rack\n,r1\n", "line 2"),
        (b"host,rack\na,r1\na,r2\n", "line 3"),
        (b"\xff\xfe", "UTF-8"),
    ],
    ids=["other columns", "empty", "no name", "two places", "no text"],
)
def test_a_topology_that_is_refused_says_how_to_write_one(
    text: bytes, error: str, tmp_path: Path, said: Said
) -> None:
    (tmp_path / "places.csv").write_bytes(text)
    words = ("explain", "nowhere", "--executor", "local", "--topology", "places.csv")
    done = in_process(*words, cwd=tmp_path)
    assert done.returncode == 3
    assert error in done.stderr
    assert "host,rack,pod" in done.stderr.partition("next: ")[2]
    said(done.stderr)


def test_a_file_of_extracts_without_its_suffix_is_refused_with_the_right_name(
    profiles: list[Path],
) -> None:
    done = in_process("explain", profiles[0].parent, "--executor", "local", "--extracts", "all")
    assert done.returncode == 2
    assert done.stderr.strip().endswith("--extracts all.extract.parquet")


def test_where_no_step_is_whole_the_step_time_is_unknown(tmp_path: Path) -> None:
    """Exactly as `explain` has it, which reads the profile at once."""
    (short,) = write_profiles(tmp_path / "short", hosts=1, steps=1)
    found = answer(short)
    alone = json.loads(in_process("explain", short, "--json").stdout)["steps"]
    assert (found["window"], found["step_ms"], alone["median_ms"]) == ("run", None, None)
    assert found["window_ms"] == pytest.approx(alone["window_ms"])


def test_of_one_step_no_spread_is_known_and_more_are_asked_for(tmp_path: Path) -> None:
    """The first step and the last of a profile do not count, and one end has no deviation."""
    write_profiles(tmp_path, steps=2)
    found = answer(tmp_path)
    assert found["steps"] == 1
    assert [host["clock_spread_ms"] for host in found["hosts"]] == [None] * 4
    assert all(abs(host["clock_ahead_ms"]) > 1 for host in found["hosts"])
    assert found["late"] == []


def test_devices_are_counted_by_chip(gathered: Gathering, tmp_path: Path) -> None:
    """A profile whose chip is not recorded was counted as one of the others'."""
    kept = tmp_path / "all.extract.parquet"
    known = pl.when(pl.col("host") != "host-01").then("chip")
    kept.write_bytes(to_bytes(gathered.extracts.with_columns(chip=known)))
    text = in_process("explain", kept, "--executor", "local").stdout
    assert "4 hosts, 6 x H100 SXM (gpu) and 2 x gpu (chip not recorded)" in text


def test_a_host_without_a_whole_step_is_no_straggler(tmp_path: Path) -> None:
    whole = write_profiles(tmp_path)
    write_profiles(tmp_path / "short", hosts=1, steps=1)[0].replace(whole[0])
    found = answer(tmp_path)
    assert found["window"] == "step"
    assert [host["steps"] for host in found["hosts"]] == [0, 6, 6, 6]
    assert found["hosts"][0]["step_ms"] is None
    assert found["hosts"][0]["each_ms"] == [None] * 6
    assert [late["name"] for late in found["late"]] == ["host-02 device 1"]


def test_what_can_not_be_read_is_named_and_left_out(profiles: list[Path], tmp_path: Path) -> None:
    for path in profiles:
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "host-00.xplane.pb").write_bytes(b"")
    (tmp_path / "host-04.xplane.pb").write_bytes(b"no profile at all")
    found = answer(tmp_path)
    assert [Path(each["name"]).name[:7] for each in found["left_out"]] == ["host-00", "host-04"]
    assert "empty" in found["left_out"][0]["what"]
    whole = answer(*profiles[1:])
    assert found["late"] == whole["late"]
    assert found["step_ms"] == whole["step_ms"]
    strict = in_process("explain", tmp_path, "--executor", "local", "--strict")
    assert strict.returncode == 3
    assert "Traceback" not in strict.stderr


@pytest.mark.smoke
def test_a_killed_process_is_replaced_and_its_task_repeated(
    profiles: list[Path],
    gathered: Gathering,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    marker = tmp_path / "killed"
    monkeypatch.setattr(
        local,
        "_SERVE",
        "from counterpoint.fleet import local; from made_fleet import killed_once;"
        f" local.reduce_profile = killed_once({str(marker)!r}); local.serve()",
    )
    (tmp_path / "empty.xplane.pb").write_bytes(b"")
    names = [str(profiles[0].parent), str(tmp_path)]
    found = gather_extracts(names, LocalExecutor(2), memory_bytes=MEMORY)
    assert marker.exists()
    assert found.retried == 1
    assert [Path(each.name).name for each in found.failures] == ["empty.xplane.pb"]
    here = gather_extracts(names, TasksHere(), memory_bytes=MEMORY)
    assert found.failures == here.failures
    assert found.extracts.equals(gathered.extracts)


def test_the_driver_holds_little_per_host(gathered: Gathering) -> None:
    """Rows of an extract are limited, whatever its profile has: 1,024 hosts are 2 GB at most."""
    rows = {
        name: max(gathered.extracts[name].list.len())
        for name, kind in gathered.extracts.schema.items()
        if isinstance(kind, pl.List)
    }
    assert rows["ops"] <= 200
    assert rows["collectives"] <= 16 * 10 * 2
    assert rows["steps"] <= 100 * 2


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--executor", "local", "--step", "3"), "--step"),
        (("--executor", "local", "--ray-address", "a:1"), "--ray-address"),
        (("--strict",), "--strict needs --executor"),
        (("--executor", "local", "--extracts", "x.csv"), "x.csv"),
        (("--executor", "local", "--extracts", "x.parquet"), "x.parquet"),
        (("--executor", "local", "--topology", "none.csv"), "none.csv"),
    ],
)
def test_options_that_do_not_fit(profiles: list[Path], words: tuple[str, ...], text: str) -> None:
    done = in_process("explain", profiles[0].parent, *words)
    assert done.returncode in (2, 3)
    assert text in done.stderr


def test_a_topology_that_names_no_host_of_these_is_refused(
    profiles: list[Path], tmp_path: Path
) -> None:
    places = tmp_path / "places.csv"
    places.write_text("host,rack\nh,r1\n")
    done = in_process("explain", profiles[0].parent, "--executor", "local", "--topology", places)
    assert done.returncode == 3
    assert "places.csv" in done.stderr


def test_what_a_store_keeps_cutting_off_is_named(
    profiles: list[Path],
    gathered: Gathering,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other hosts give the same extracts as from files."""
    monkeypatch.setenv("COUNTERPOINT_CACHE", str(tmp_path))
    monkeypatch.setattr(remote, "PAUSES_S", (0.01, 0.01, 0.01))
    with web_store() as store:
        for path in profiles:
            store.files[f"/run/{path.name}"] = path.read_bytes()
        store.status["/run/host-01.xplane.pb"] = 503
        found = gather_extracts([f"{store.base}/run/"], LocalExecutor(1), memory_bytes=MEMORY)
    assert [each.name[-22:] for each in found.failures] == ["/run/host-01.xplane.pb"]
    assert "HTTP 503" in str(found.failures[0].failure)
    rest = gathered.extracts.filter(pl.col("host") != "host-01")
    assert found.extracts.drop("source").equals(rest.drop("source"))


def test_a_url_that_is_refused_by_name_is_left_out_among_others(
    profiles: list[Path], gathered: Gathering
) -> None:
    with web_store() as store:
        for path in profiles:
            store.files[f"/run/{path.name}"] = path.read_bytes()
        store.status["/run/host-01.xplane.pb"] = 403
        names = [f"{store.base}/run/{path.name}" for path in profiles]
        found = gather_extracts(names, LocalExecutor(1), memory_bytes=MEMORY)
        with pytest.raises(InputError, match="refuses access"):
            gather_extracts(names, LocalExecutor(1), memory_bytes=MEMORY, strict=True)
    assert [each.name[-22:] for each in found.failures] == ["/run/host-01.xplane.pb"]
    rest = gathered.extracts.filter(pl.col("host") != "host-01")
    assert found.extracts.drop("source").equals(rest.drop("source"))


def test_a_profile_that_is_cut_off_keeps_its_whole_steps(
    profiles: list[Path], tmp_path: Path
) -> None:
    for path in profiles:
        (tmp_path / path.name).write_bytes(path.read_bytes())
    whole = profiles[3].read_bytes()
    (tmp_path / profiles[3].name).write_bytes(whole[: len(whole) * 2 // 3])
    found = answer(tmp_path)
    named = [host["name"] for host in found["hosts"] if host["truncated"]]
    assert named == ["host-03"] or found["left_out"]
    assert [late["name"] for late in found["late"]] == ["host-02 device 1"]


def test_no_cluster_is_one_clear_error(profiles: list[Path]) -> None:
    words = ("--executor", "ray", "--ray-address", "127.0.0.1:1")
    done = in_process("explain", profiles[0], *words)
    assert done.returncode == 2
    assert "127.0.0.1:1" in done.stderr.splitlines()[0]


def test_a_host_that_the_topology_does_not_name_is_named(
    gathered: Gathering, tmp_path: Path
) -> None:
    places, kept = tmp_path / "places.csv", tmp_path / "all.extract.parquet"
    places.write_text("host,rack\nhost-00,r1\nhost-02,r2\nelsewhere,r3\n")
    kept.write_bytes(to_bytes(gathered.extracts))
    words = ("explain", kept, "--executor", "local", "--jobs", 1)
    found = json.loads(in_process(*words, "--topology", places, "--json").stdout)
    assert [host["name"] for host in found["hosts"] if not host["rack"]] == ["host-01", "host-03"]
    (absent,) = found["notes"]
    assert absent.startswith(str(places))
    assert absent.endswith(": elsewhere")
    assert "does not name" not in in_process(*words).stdout


@pytest.mark.system
def test_chaos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 64 hosts 3 are cut off to nothing, 2 are refused by the store, and a worker is killed.

    The others give the same extracts as by themselves, and the lost ones are named.
    """
    paths = write_profiles(tmp_path / "run", hosts=64, slow=21)
    lost, refused = (7, 30, 55), (11, 40)
    rest = [path for at, path in enumerate(paths) if at not in (*lost, *refused)]
    whole = gather_extracts([*map(str, rest)], LocalExecutor(2), memory_bytes=MEMORY)
    marker = tmp_path / "killed"
    monkeypatch.setattr(
        local,
        "_SERVE",
        "from counterpoint.fleet import local; from made_fleet import killed_once;"
        f" local.reduce_profile = killed_once({str(marker)!r}); local.serve()",
    )
    monkeypatch.setenv("COUNTERPOINT_CACHE", str(tmp_path / "cache"))
    with web_store() as store:
        for at, path in enumerate(paths):
            data = path.read_bytes()
            store.files[f"/run/{path.name}"] = data[:100] if at in lost else data
            if at in refused:
                store.status[f"/run/{path.name}"] = 403
        found = gather_extracts([f"{store.base}/run/"], LocalExecutor(2), memory_bytes=MEMORY)
    assert found.retried == 1
    named = sorted(each.name.rpartition("/")[2] for each in found.failures)
    assert named == sorted(paths[at].name for at in (*lost, *refused))
    assert found.extracts.drop("source").equals(whole.extracts.drop("source"))
