"""`convert` and `pgle make` with `--executor`: a task per host, and the same as of one Timeline."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import in_process
from counterpoint.core import InputError
from counterpoint.fleet.extract import make_extract, merge
from counterpoint.fleet.products import make_product, merge_costs
from counterpoint.fleet.tasks import reduce_profile
from counterpoint.pgle.making.make import make_profile
from counterpoint.pgle.making.modules import ProfileBuild
from counterpoint.timeline.reading import read
from golden_sections import Said
from made_fleet import HOSTS, write_profiles


@pytest.fixture(scope="module")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_profiles(tmp_path_factory.mktemp("fleet"))


@pytest.fixture(scope="module")
def merged(profiles: list[Path]) -> ProfileBuild:
    made = {str(path): make_product("costs", read(path), str(path)) for path in profiles}
    return merge_costs(made, ["said before"])


def test_each_host_is_stored_by_itself(profiles: list[Path], tmp_path: Path) -> None:
    for path in profiles:
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "host-01.xplane.pb").write_bytes(b"none")
    out = tmp_path / "out"
    words = ("convert", tmp_path, out, "--executor", "local", "--jobs", 1)
    done = in_process(*words)
    assert done.returncode == 0, done.stderr
    assert f"{HOSTS - 1} hosts" in done.stdout
    assert "left out: " in done.stderr
    assert "host-01" in done.stderr
    assert sorted(each.name for each in out.iterdir()) == ["host-00", "host-02", "host-03"]
    # A stored host gives the extract of its profile, and so does a task that is given it.
    stored = reduce_profile(str(out / "host-02"), 1 << 30)
    assert stored.read_bytes > 0
    assert stored.product is not None
    told = make_extract(read(profiles[2])).drop("source", "notes")
    assert make_extract(read(out / "host-02")).drop("source", "notes").equals(told)
    again = in_process(*words)
    assert again.returncode == 2
    assert "exists" in again.stderr


def test_a_profile_that_is_read_is_not_overwritten(profiles: list[Path], tmp_path: Path) -> None:
    own = tmp_path / profiles[0].name
    own.write_bytes(before := profiles[0].read_bytes())
    done = in_process("pgle", "make", own, "-o", own, "--force", "--executor", "local")
    assert (done.returncode, own.read_bytes()) == (2, before)
    assert str(own) in done.stderr.splitlines()[0]
    assert "input" in done.stderr.splitlines()[0]


def test_costs_of_hosts_apart_are_those_of_all_together(
    profiles: list[Path], merged: ProfileBuild
) -> None:
    whole = make_profile(read(*profiles))
    apart = {cost.name: cost.us for cost in merged.profile.costs}
    assert apart == pytest.approx({cost.name: cost.us for cost in whole.profile.costs}, rel=0.01)
    (module,) = merged.modules
    assert module.hosts == HOSTS
    assert module.devices == whole.modules[0].devices
    assert module.device_ms == pytest.approx(whole.modules[0].device_ms)
    assert merged.notes[0] == "said before"


def test_of_a_collective_the_shortest_stay_counts(
    profiles: list[Path], merged: ProfileBuild
) -> None:
    """The slow device's host waits least; a median over hosts would cost what the others wait."""
    by_host = [
        {cost.name: cost.us for cost in make_profile(read(path)).profile.costs} for path in profiles
    ]
    found = {cost.name: cost.us for cost in merged.profile.costs}
    together = [name for name in found if name.startswith(("all-", "reduce-scatter"))]
    assert {name: found[name] for name in together} == {
        name: min(each[name] for each in by_host) for name in together
    }
    assert any(found[name] < sorted(each[name] for each in by_host)[1] for name in together)


def _built(product: bytes, fingerprint: str) -> bytes:
    told = json.loads(product)
    told["costs"] = [[name, us, fingerprint, kind] for name, us, _, kind in told["costs"]]
    told["modules"] = [{**module, "fingerprint": fingerprint} for module in told["modules"]]
    return json.dumps(told).encode()


def test_a_collective_is_that_of_all_builds_of_its_program(
    profiles: list[Path], merged: ProfileBuild
) -> None:
    """The host that waits least has a build of its own: the others' would all include waiting."""
    made = {
        path.stem: _built(
            make_product("costs", read(path), str(path)), "a" if "02" in path.name else "b"
        )
        for path in profiles
    }
    found = {(cost.fingerprint, cost.name): cost.us for cost in merge_costs(made, ()).profile.costs}
    bare = {cost.name: cost.us for cost in merged.profile.costs}
    together = [name for name in bare if name.startswith(("all-", "reduce-scatter"))]
    assert len(found) == 2 * len(bare)
    for name in together:
        assert found["a", name] == found["b", name] == bare[name]


def test_a_host_is_not_asked_for_the_others(merged: ProfileBuild, profiles: list[Path]) -> None:
    """Each task reads one host, and says so: of all of them, it is not true."""
    own = "profiles of 1 of 4 hosts were read"
    assert own in str(make_profile(read(profiles[0])).notes)
    assert own not in str(merged.notes)
    assert "late ranks" not in str(merged.notes)
    some = {str(path): make_product("costs", read(path), str(path)) for path in profiles[:2]}
    assert own in str(merge_costs(some, ()).notes)


@pytest.mark.system  # what failed has to come back from another process
def test_a_wrong_request_is_no_defect(profiles: list[Path], tmp_path: Path) -> None:
    words = ("--module", "eval", "--executor", "local", "-o", tmp_path / "step.pbtxt")
    done = in_process("pgle", "make", *profiles, *words)
    assert done.returncode == 3
    assert "'eval'" in done.stderr.splitlines()[0]
    assert done.stderr.endswith("next: omit --module\n")


def test_costs_of_another_chip_or_with_bare_names_of_another_program_are_left_out(
    profiles: list[Path], merged: ProfileBuild, said: Said
) -> None:
    """A median over different programs or chips is right for none."""
    made = {str(path): make_product("costs", read(path), str(path)) for path in profiles}
    one = str(profiles[0])
    chip = {**made, "other": made[one].replace(b"H100 80GB HBM3", b"A100-SXM4-80GB")}
    found = merge_costs(chip, ())
    assert found.profile.costs == merged.profile.costs
    of_chips = found.notes[0]
    with pytest.raises(InputError, match="other is "):
        merge_costs(chip, (), strict=True)
    with pytest.raises(InputError, match="other is "):
        merge_costs({one: chip[one], "other": chip["other"]}, ())  # which one is meant is unknown
    bare = {str(path): make_product("costs", read(path), str(path), bare=True) for path in profiles}
    wrong = {**bare, "other": bare[one].replace(b"jit_train_step", b"jit_eval")}
    found = merge_costs(wrong, ())
    assert found.profile.costs == merge_costs(bare, ()).profile.costs
    said(of_chips, found.notes[0])


def test_pgle_make_has_its_tasks(
    profiles: list[Path], merged: ProfileBuild, tmp_path: Path
) -> None:
    out = tmp_path / "step.pbtxt"
    done = in_process("pgle", "make", *profiles, "-o", out, "--executor", "local")
    assert done.returncode == 0, done.stderr
    assert f"median over {HOSTS} profiles" in done.stdout
    lines = [line for line in out.read_text().splitlines() if line.startswith("costs")]
    assert len(lines) == len(merged.profile.costs)


def test_merging_takes_hosts_in_any_order(profiles: list[Path]) -> None:
    extracts = [make_extract(read(path)) for path in profiles]
    assert merge(*extracts).equals(merge(*reversed(extracts)))
    made = {str(path): make_product("costs", read(path), str(path)) for path in profiles}
    backward = dict(reversed(made.items()))
    assert merge_costs(made, ()).profile == merge_costs(backward, ()).profile


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("out.json", "--executor", "local"), "tables, not a trace"),
        (("out", "--strict"), "--strict needs --executor"),
        (("out", "--ray-address", "x:1"), "--ray-address needs --executor"),
    ],
)
def test_options_that_do_not_fit(
    profiles: list[Path], tmp_path: Path, words: tuple[str, ...], text: str
) -> None:
    out, *rest = words
    done = in_process("convert", *profiles, tmp_path / out, *rest)
    assert done.returncode == 2
    assert text in done.stderr


def test_two_hosts_of_one_name_are_refused(profiles: list[Path], tmp_path: Path) -> None:
    for place in ("a", "b"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "host.xplane.pb").write_bytes(profiles[0].read_bytes())
    named = (tmp_path / "a" / "host.xplane.pb", tmp_path / "b" / "host.xplane.pb")
    done = in_process("convert", *named, tmp_path / "out", "--executor", "local")
    assert done.returncode == 2
    assert "such as host" in done.stderr
