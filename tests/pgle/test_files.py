"""Profiles on disk: nothing is lost on the way, and nothing that XLA would ignore goes unsaid."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.core.errors import InputError, UsageError
from counterpoint.pgle.profiles.files import read_profile, write_profile
from counterpoint.pgle.profiles.profile import InstructionCost, Latency, Profile
from golden_files import Golden, cases
from jax_process import ask_jax
from refusals import refusal

A = "0123456789abcdef0123456789abcdef"
B = "fedcba9876543210fedcba9876543210"
OF_TWO = Profile(
    (
        InstructionCost("fusion.3", 1.5, A),
        InstructionCost("fusion.3", 2.5, B),
        InstructionCost("dot", 0.25, A),
    )
)
BARE = Profile((InstructionCost("fusion.3", 1.5), InstructionCost("dot", 0.25)))

letters = st.text(st.characters(categories=("L",)), min_size=1)
names = letters | st.text(st.characters(codec="ascii"), min_size=1).filter(
    lambda it: "::" not in it
)
words = (
    st.text(min_size=1)
    .map(lambda it: " ".join(it.split()))
    .filter(lambda it: it and ": " not in it and not it.endswith(":") and "\n" not in it)
)
times = st.floats(0, 1e15)
all_costs = st.builds(
    InstructionCost,
    names.filter(lambda it: not it.startswith(":") and not it.endswith(":")),
    times,
    st.none() | st.sampled_from([A, B]),
)
latencies = st.builds(Latency, names, names, times)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("profiles")


@given(
    costs=st.lists(all_costs, min_size=1),
    latencies=st.lists(latencies),
    origin=st.dictionaries(words, words),
)
def test_what_is_written_is_read(
    place: Path, costs: list[InstructionCost], latencies: list[Latency], origin: dict[str, str]
) -> None:
    profile = Profile(tuple(costs), tuple(latencies), origin)
    for ending in (".pbtxt", ".pb"):
        path = write_profile(profile, place / f"profile{ending}", overwrite=True)
        found = read_profile(path)
        assert found.costs == profile.costs
        assert found.latencies == profile.latencies
        written = path.read_bytes()
        assert write_profile(found, path, overwrite=True).read_bytes() == written
    assert read_profile(place / "profile.pbtxt").origin == origin


def refused_with(path: Path) -> str | None:
    """What is said of a file that is not read."""
    try:
        read_profile(path)
    except InputError as refused:
        return refused.what
    return None


@given(data=st.binary())
def test_any_bytes_are_read_or_refused_in_one_error(place: Path, data: bytes) -> None:
    for ending in (".pbtxt", ".pb"):
        path = trap(place, f"damaged{ending}", data)
        said = refused_with(path)
        assert said is None or said.startswith(str(path))


def test_real_profiles_come_back_byte_for_byte(shared: Path, tmp_path: Path) -> None:
    files = sorted((shared / "data/pgle").glob("*.pbtxt"))
    assert len(files) == 3
    for path in files:
        profile = read_profile(path)
        copy = write_profile(profile, tmp_path / path.name)
        assert copy.read_bytes() == path.read_bytes()
        binary = write_profile(profile, tmp_path / f"{path.stem}.pb")
        assert read_profile(binary) == profile
        assert len(profile.duplicates) in (17, 19)
        (same, *_) = profile.duplicates.values()
        assert all(cost in profile.costs for cost in same)


AGGREGATE = """
import sys
from pathlib import Path
from jax._src.lib import _profiler
*given, out = map(Path, sys.argv[1:])
aggregated = _profiler.aggregate_profiled_instructions([it.read_bytes() for it in given], 50)
print(out.write_bytes(aggregated))
"""


@pytest.mark.system
@pytest.mark.smoke
def test_jaxlib_reads_what_is_written(tmp_path: Path) -> None:
    twice = [write_profile(BARE, tmp_path / f"{name}.pb") for name in "ab"]
    ask_jax(AGGREGATE, *twice, tmp_path / "jax.pb")
    assert sorted(read_profile(tmp_path / "jax.pb").costs, key=lambda it: it.name) == [
        InstructionCost("dot", 0.25),
        InstructionCost("fusion.3", 1.5),
    ]


def test_a_directory_has_a_file_for_each_module(tmp_path: Path) -> None:
    told = {"made by": "x", f"module {A}": "jit_a", f"module {B}": "jit_b"}
    directory = write_profile(Profile(OF_TWO.costs, origin=told), tmp_path / "profiles")
    assert sorted(it.name for it in directory.iterdir()) == [f"{A}.pbtxt", f"{B}.pbtxt"]
    assert read_profile(directory / f"{A}.pbtxt").origin == {"made by": "x", f"module {A}": "jit_a"}
    found = read_profile(directory)
    assert set(found.costs) == set(OF_TWO.costs)
    assert found.origin == told


def test_bare_names_in_a_modules_file_are_its_own(tmp_path: Path) -> None:
    write_profile(BARE, tmp_path / f"{A}.pb")
    assert read_profile(tmp_path).fingerprints == (A,)


def trap(directory: Path, name: str, content: str | bytes) -> Path:
    path = directory / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


BINARY = b"\n\x0e\n\x03dot\x11\0\0\0\0\0\0\xf8?"
GOOD = 'costs { name: "dot" cost_us: 1.5 }\n'


# Each is named, with what to read instead.
TRAPS: tuple[tuple[str, str | bytes, str], ...] = (
    ("p.txt", GOOD, "p.pbtxt"),
    ("p.textproto", GOOD, "p.pbtxt"),
    ("p", BINARY, "p.pb"),
    ("p.PBTXT", GOOD, "p.pbtxt"),
    ("p.pbtxt", "", "pgle make"),
    ("p.pb", "", "pgle make"),
    ("p.pbtxt", "# a comment\n", "pgle make"),
    ("p.pb", b"\x80\x01\x01", "pgle make"),
    ("p.pbtxt", "costs {", "pgle make"),
    ("p.pbtxt", 'costs { nam: "dot" }', "pgle make"),
    ("p.pbtxt", b"\xff\xfe", "pgle make"),
    ("x.pb", b"\n\x05\x12\x03/host:metadata", "pgle make"),
    ("x.zip", b"PK\x03\x04abc", "pgle make"),
    ("p.xplane.pb", b"\n\x05\x12\x03abc", "pgle make"),
    ("p.pb", b"\xff\xfe\xff", "pgle make"),
    ("p.pb", GOOD, "p.pbtxt"),
    ("p.pbtxt", BINARY, "p.pb"),
    ("p.pbtxt", 'costs { name: "dot" cost_us: -1 }', "pgle make"),
    ("p.pbtxt", 'costs { name: "dot" cost_us: nan }', "pgle make"),
    ("p.pbtxt", 'costs { name: "dot" cost_us: inf }', "pgle make"),
    ("p.pbtxt", "costs { cost_us: 1 }", "pgle make"),
    ("p.pbtxt", 'costs { name: "a::b::c" cost_us: 1 }', "pgle make"),
    ("p.pbtxt", 'costs { name: "::c" cost_us: 1 }', "pgle make"),
)
TRAPS_OF_A_DIRECTORY: tuple[dict[str, str], ...] = (
    {},
    {"notes.txt": GOOD},
    {"step.pbtxt": GOOD},
    {f"{A}.pbtxt": GOOD, "step.pb": GOOD},
    {f"{A.upper()}.pbtxt": GOOD},
    {f"{A}.pbtxt": GOOD, f"{A}.pb": GOOD},
    {f"{A}.pbtxt": GOOD.replace("dot", f"{B}::dot")},
    {f"{A}.pbtxt": ""},
)


@pytest.mark.parametrize(("name", "content", "next_"), TRAPS)
def test_traps_are_named(tmp_path: Path, name: str, content: str | bytes, next_: str) -> None:
    path = trap(tmp_path, name, content)
    with pytest.raises(InputError) as refused:
        read_profile(path)
    assert str(path) in refused.value.what
    assert refused.value.why
    assert next_ in str(refused.value.next or "")


def test_what_is_missing_or_may_not_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_profile(tmp_path / "p.pbtxt")
    (tmp_path / "looped.pbtxt").symlink_to("looped.pbtxt")
    with pytest.raises(InputError, match=r"looped\.pbtxt"):
        read_profile(tmp_path / "looped.pbtxt")


@pytest.mark.parametrize("files", TRAPS_OF_A_DIRECTORY)
def test_traps_of_a_directory_are_named(tmp_path: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        trap(tmp_path, name, content)
    with pytest.raises(InputError, match=next(reversed(files), str(tmp_path))):
        read_profile(tmp_path)


def test_nothing_is_overwritten_unless_told(tmp_path: Path) -> None:
    for name in ("p.pbtxt", "p.pb", "profiles"):
        path = write_profile(OF_TWO, tmp_path / name)
        with pytest.raises(UsageError, match="exists"):
            write_profile(Profile(OF_TWO.costs[:1]), path)
        assert set(read_profile(path).costs) == set(OF_TWO.costs)
        write_profile(Profile(OF_TWO.costs[:1]), path, overwrite=True)
        assert read_profile(path).costs == OF_TWO.costs[:1]
    assert sorted(it.name for it in tmp_path.iterdir()) == ["p.pb", "p.pbtxt", "profiles"]


def test_a_directory_with_other_things_in_it_is_never_replaced(tmp_path: Path) -> None:
    directory = tmp_path / "thesis"
    directory.mkdir()
    (directory / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match=r"it holds thesis\.tex"):
        write_profile(OF_TWO, directory, overwrite=True)
    assert (directory / "thesis.tex").read_text() == "years of work"


def test_a_link_to_a_directory_stays_one(tmp_path: Path) -> None:
    write_profile(OF_TWO, tmp_path / "real")
    link = tmp_path / "link"
    link.symlink_to("real")
    write_profile(Profile(OF_TWO.costs[:1]), link, overwrite=True)
    assert link.is_symlink()
    assert len(list((tmp_path / "real").iterdir())) == 1


NOT_WRITTEN = {
    "a suffix that XLA does not read": (BARE, "p.txt", UsageError),
    "a directory that there is not": (BARE, "nowhere/p.pbtxt", UsageError),
    "a URL": (BARE, "https://host/p.pbtxt", UsageError),
    "a cost that names no module": (BARE, "profiles", InputError),
    "a fingerprint that is a path": (
        Profile((InstructionCost("dot", 1, "../x"),)),
        "profiles",
        InputError,
    ),
    "no costs": (Profile(()), "p.pbtxt", InputError),
    "a latency that names no module": (
        Profile(OF_TWO.costs, (Latency("a", "b", 1.0),)),
        "profiles",
        InputError,
    ),
}


@pytest.mark.parametrize("case", NOT_WRITTEN)
def test_what_can_not_be_written_is_refused(tmp_path: Path, case: str) -> None:
    profile, name, error = NOT_WRITTEN[case]
    with pytest.raises(error):
        write_profile(profile, name if "://" in name else tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_how_a_file_is_refused(golden: Golden, tmp_path: Path) -> None:
    texts: dict[str, str] = {}
    for name, content, _ in TRAPS:
        path = trap(tmp_path, name, content)
        texts[f"{name}: {content!r}"] = refusal(lambda path=path: read_profile(path), tmp_path)
        path.unlink()
    for number, files in enumerate(TRAPS_OF_A_DIRECTORY):
        directory = tmp_path / str(number)
        directory.mkdir()
        for name, content in files.items():
            trap(directory, name, content)
        texts[f"a directory of {', '.join(files) or 'nothing'}"] = refusal(
            lambda directory=directory: read_profile(directory), directory
        )
    for case, (profile, name, _) in NOT_WRITTEN.items():
        path = name if "://" in name else tmp_path / name
        texts[f"writing {case}"] = refusal(
            lambda profile=profile, path=path: write_profile(profile, path), tmp_path
        )
    golden("files.txt", cases(texts))


def test_a_place_that_fails_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    monkeypatch.setattr(Path, "rename", full)
    for name in ("p.pbtxt", "profiles"):
        with pytest.raises(UsageError, match="No space left"):
            write_profile(OF_TWO, tmp_path / name)
    assert list(tmp_path.iterdir()) == []
