"""A small file that unpacks to everything is refused, in each format and before memory is full."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import stat
import subprocess
import sys
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import counterpoint
from counterpoint.compile.inputs.artifacts import artifacts
from counterpoint.core import InputError, UsageError
from counterpoint.core.unpacking import UNPACK_VARIABLE, member, open_archive, unpack, unpack_limit
from fuzz.seeds import profiles
from golden_files import Golden, cases
from refusals import refusal

PACKERS: tuple[Callable[[bytes], bytes], ...] = (gzip.compress, lzma.compress, bz2.compress)
NAMES = ("gzip", "xz", "bzip2")
BOMB = 80 << 20
SMALL_BOMB = 5 << 20


@pytest.fixture(scope="module", params=PACKERS, ids=NAMES)
def small_bomb(request: pytest.FixtureRequest) -> bytes:
    return request.param(bytes(SMALL_BOMB))


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(UNPACK_VARIABLE, "4MiB")


def test_a_bomb() -> None:
    bomb = gzip.compress(bytes(BOMB))
    tracemalloc.start()
    with pytest.raises(InputError, match="more than 64 MiB"):
        unpack(bomb, "x")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 150 << 20


@pytest.mark.usefixtures("small_limit")
@pytest.mark.parametrize("name", ["x.xplane.pb.gz", "x.sqlite.gz", "x.hlo.pb.gz"])
def test_a_bomb_as_an_input(small_bomb: bytes, name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(small_bomb)
    with pytest.raises(InputError, match="more than 4 MiB"):
        counterpoint.read(path)
    with pytest.raises(InputError, match="more than 4 MiB"):
        counterpoint.read_program(path)
    with pytest.raises(InputError, match="more than 4 MiB"):
        artifacts(path)[0].read()


@pytest.mark.usefixtures("small_limit")
@pytest.mark.parametrize("endings", ["x.xplane.pb", "nvtx_gpu_proj_trace/trace.parquet"])
def test_an_archive_that_unpacks_to_everything(endings: str, tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(3):  # none of them alone is too large
            archive.writestr(endings if number == 0 else f"{number}", bytes(SMALL_BOMB // 3))
        archive.writestr("rest", bytes(1 << 16))
    with pytest.raises(InputError, match="more than 4 MiB"):
        counterpoint.read(path)
    with pytest.raises(InputError, match="more than 4 MiB"):
        artifacts(path)


def test_the_limit_can_be_moved(small_bomb: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(UNPACK_VARIABLE, "4MiB")
    with pytest.raises(InputError, match="more than 4 MiB"):
        unpack(small_bomb, "x")
    monkeypatch.setenv(UNPACK_VARIABLE, "5MiB")
    assert len(unpack(small_bomb, "x")) == SMALL_BOMB
    for text, size in (("7", 7), ("2K", 2048), ("20GiB", 20 << 30), ("1 TB", 1 << 40)):
        monkeypatch.setenv(UNPACK_VARIABLE, text)
        assert unpack_limit(1) == size
    monkeypatch.setenv(UNPACK_VARIABLE, "much")
    with pytest.raises(UsageError, match=r"=much is"):
        unpack_limit(1)


@pytest.mark.parametrize("pack", PACKERS, ids=NAMES)
def test_a_tower(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    data = b"HloModule x\n"
    for _ in range(3):
        data = pack(data)
    assert unpack(data, "x") == b"HloModule x\n"
    for _ in range(100):
        data = pack(data)
    (tmp_path / "x.xplane.pb.gz").write_bytes(data)
    with pytest.raises(InputError, match="compressed more than 3 times"):
        counterpoint.read(tmp_path / "x.xplane.pb.gz")


def test_an_archive_in_an_archive(tmp_path: Path) -> None:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("x.xplane.pb", b"")
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("y.xplane.pb", inner.getvalue())
    with pytest.raises(InputError, match="inside an archive"):
        counterpoint.read(tmp_path / "x.zip")


@pytest.mark.parametrize("pack", PACKERS, ids=NAMES)
def test_damage(pack: Callable[[bytes], bytes]) -> None:
    packed = pack(bytes(range(256)) * 100)
    for damaged in (packed[:-9], packed[:9], packed[: len(packed) // 2]):
        with pytest.raises(InputError, match="damaged or"):
            unpack(damaged, "x")


def test_members_that_can_t_be_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a", b"content of a")
    path.write_bytes(path.read_bytes().replace(b"content of a", b"content of b"))
    with open_archive(path, "x") as archive, pytest.raises(InputError, match="can't be unpacked"):
        member(archive, "a", "x")
    (tmp_path / "y.zip").write_bytes(b"PK\x03\x04")
    with pytest.raises(InputError, match="damaged zip"):
        open_archive(tmp_path / "y.zip", "y")
    with pytest.raises(InputError, match="No such file"):
        open_archive(tmp_path / "z.zip", "z")


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A small profile of each kind that an archive may hold; one is read from a file of its own."""
    seeds = {seed.name: seed for seed in profiles(tmp_path_factory.mktemp("seeds"))}
    return {
        ".xplane.pb": seeds["xplane"].files["h.xplane.pb"],
        ".sqlite": seeds["sqlite"].files["h.sqlite"],
    }


def packed(*entries: tuple[str | zipfile.ZipInfo, bytes]) -> bytearray:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return bytearray(out.getvalue())


@pytest.mark.parametrize("kind", [".xplane.pb", ".sqlite"])
@pytest.mark.parametrize("name", ["{}/owned", "../../owned", "..\\owned", "a/../../owned", ".."])
def test_no_name_of_a_member_leads_anywhere(
    name: str, kind: str, members: dict[str, bytes], tmp_path: Path
) -> None:
    place = tmp_path / "a" / "b"
    place.mkdir(parents=True)
    path = place / "x.zip"
    path.write_bytes(packed((name.format(tmp_path) + kind, members[kind])))
    assert counterpoint.read(path).hosts
    assert [found for found in tmp_path.rglob("*") if found.is_file()] == [path]


def test_members_that_say_what_they_are_not(members: dict[str, bytes], tmp_path: Path) -> None:
    """A link, an encrypted member, sizes and methods that are not true, a name that is too long."""
    profile = members[".xplane.pb"]
    link = zipfile.ZipInfo("a.xplane.pb")
    link.create_system, link.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    archives = {"starts with '/etc/passwd'": packed((link, b"/etc/passwd"))}
    archives["File name too long"] = packed(("x" * 300 + ".sqlite", members[".sqlite"]))
    for said, local, central, value in (
        ("is encrypted", 6, 8, b"\x01\x00"),
        ("method is not supported", 8, 10, b"\x63\x00"),
        ("Bad CRC", 22, 24, b"\x0a\x00\x00\x00"),
        ("unpacks to more than", 22, 24, b"\xf0\xff\xff\xff"),
    ):
        archive = archives[said] = packed(("a.xplane.pb", profile))
        archive[local : local + len(value)] = value
        at = archive.index(b"PK\x01\x02") + central
        archive[at : at + len(value)] = value
    for said, content in archives.items():
        (tmp_path / "x.zip").write_bytes(content)
        with pytest.raises(InputError, match=said):
            counterpoint.read(tmp_path / "x.zip")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_of_members_with_one_name_the_last_is_read(
    members: dict[str, bytes], tmp_path: Path
) -> None:
    whole = ("a.xplane.pb", members[".xplane.pb"])
    (tmp_path / "x.zip").write_bytes(packed(("a.xplane.pb", b"junk"), whole))
    assert len(counterpoint.read(tmp_path / "x.zip").hosts) == 1


@pytest.mark.usefixtures("small_limit")
def test_how_it_is_refused(golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tower = b"HloModule x\n"
    for _ in range(4):
        tower = gzip.compress(tower)
    inner = packed(("x.xplane.pb", b""))
    stored = io.BytesIO()
    with zipfile.ZipFile(stored, "w") as archive:
        archive.writestr("a.xplane.pb", b"content of a")
    files = {
        "bomb.xplane.pb.gz": gzip.compress(bytes(SMALL_BOMB)),
        "bomb.zip": packed(("x.xplane.pb", bytes(SMALL_BOMB))),
        "tower.xplane.pb.gz": tower,
        "archive in an archive.zip": packed(("y.xplane.pb", bytes(inner))),
        "cut off.xplane.pb.gz": gzip.compress(bytes(range(256)))[:-9],
        "head.zip": b"PK\x03\x04",
        "wrong sum.zip": stored.getvalue().replace(b"content of a", b"content of b"),
    }
    told: dict[str, str] = {}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        told[name] = refusal(lambda name=name: counterpoint.read(tmp_path / name), tmp_path)
    monkeypatch.setenv(UNPACK_VARIABLE, "much")
    told[f"{UNPACK_VARIABLE}=much"] = refusal(lambda: unpack_limit(1))
    golden("unpacking.txt", cases(told))


def test_a_beginning_that_unpacks_to_everything() -> None:
    """The whole is within the ratio; what is only zeros for so long is no profile."""
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb") as file:
        for _ in range(400):
            file.write(bytes(1 << 20))
        file.write(os.urandom(4 << 20))
    with pytest.raises(InputError, match="a small file that unpacks to that much"):
        unpack(out.getvalue(), "x")


def test_what_a_small_machine_can_t_hold(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    data = os.urandom(20 << 10) * 4_000
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.xplane.pb", data)
    assert unpack(gzip.compress(data, 1), "x") == data
    monkeypatch.setattr("counterpoint.core.unpacking.whole_memory", lambda: 280 << 20)
    with pytest.raises(InputError, match="too much for this machine"):
        unpack(gzip.compress(data, 1), "x")
    with pytest.raises(InputError, match="too much for this machine"):
        counterpoint.read(tmp_path / "x.zip")


def test_memory_that_is_used_up_is_no_damage() -> None:
    script = (
        "import gzip, os, resource\n"
        "from counterpoint.core.unpacking import unpack\n"
        "packed = gzip.compress(os.urandom(20 << 10) * 3_000, 1)\n"
        "now = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (now + (60 << 20),) * 2)\n"
        "unpack(packed, 'x')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert "too much for this machine" in done.stderr
    assert "damaged" not in done.stderr.splitlines()[-1]
