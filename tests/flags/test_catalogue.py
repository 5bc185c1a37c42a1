"""What the catalogue says of releases, held to the installed jaxlib and to tables of others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.flags.catalogue.flag import (
    Flag,
    FlagFacts,
    make_table,
    parse_table,
    render_table,
    similar,
    with_release,
)
from counterpoint.flags.catalogue.lookup import release, releases, shipped
from counterpoint.flags.history import history
from counterpoint.flags.option_probe import probe_options
from counterpoint.flags.versions import version_number

Parser = Callable[[str], "dict[int, tuple[int | bytes, ...]] | None"]

TABLES = ("0.4.35", "0.5.3", "0.6.2", "0.7.2", "0.8.3", "0.9.2", "0.10.2", "0.11.0", "0.12.0.1")
OTHER_NAMES = {"repeated string": "strings", "repeated message": "map"}


def installed() -> str:
    try:
        version = metadata.version("jaxlib")
    except metadata.PackageNotFoundError:
        pytest.skip("jaxlib is not here")
    if version not in releases():
        pytest.skip(f"jaxlib {version} does not ship with the catalogue")
    return version


def test_releases_are_in_order_and_go_from_2023_to_0_12() -> None:
    assert list(releases()) == sorted(releases(), key=version_number)
    assert {"0.4.18", "0.4.27", "0.8.0", "0.10.2", *TABLES} <= set(releases())
    assert release().version == releases()[-1]


@pytest.mark.parametrize(
    ("asked", "version"),
    [("0.10.2", "0.10.2"), ("0.10.3", "0.10.2"), ("0.4.37", "0.4.36"), ("0.3.1", "0.4.18")],
)
def test_an_unknown_release_is_the_nearest_older_one(asked: str, version: str) -> None:
    found = release(asked)
    assert (found.version, found.asked) == (version, asked)
    assert found.exact == (asked == version)


@pytest.mark.parametrize("version", TABLES)
def test_a_table_that_others_made_agrees(version: str, shared: Path) -> None:
    table = json.loads((shared / "data/flags" / f"{version}.json").read_text("utf-8"))
    known = release(version).flags
    old = version_number(version) < (0, 6)
    refused = ("map", "message", "strings") if old else ("map", "message")
    assert known.keys() == table["flags"].keys() | table["extra_flags"].keys()
    for name, theirs in table["flags"].items():
        ours = known[name]
        assert kind(theirs["type"]) in (ours.type, ours.type.replace("message", "map")), name
        assert ours.xla_flags == theirs["has_flag"], name
        assert ours.deprecated == theirs["deprecated"], name
        assert ours.compile_option == (ours.type not in refused), name
        if not ours.enum or "enum_values" in theirs:  # those of other files were not read
            assert default(ours) == spelled(theirs["default"]), name
            if not old or not ours.compile_option:  # as numbers
                assert set(ours.enum) <= set(theirs.get("enum_values", ours.enum)), name
        assert (ours.no_op or ours.alias_of is not None) == theirs["noop_setter"] or not (
            theirs["noop_setter"]
        ), name
    for name, aliases in table["extra_flags"].items():
        assert known[name].xla_flags
        assert not known[name].compile_option
        assert known[name].alias_of in (aliases or [None]), name


def kind(theirs: str) -> str:
    if theirs.startswith("repeated enum"):
        return "enums"
    return OTHER_NAMES.get(theirs, theirs.split(maxsplit=1)[0])


def default(flag: Flag) -> str:
    """With the names of the enum, as the others have it."""
    numbers = all(value.isdigit() for value in flag.enum)
    names = dict(zip(flag.values, flag.values if numbers else flag.enum, strict=True))
    if flag.type in ("enum", "enums") and flag.default:
        return ",".join(sorted(names.get(value, value) for value in flag.default.split(",")))
    return flag.default


def spelled(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        pairs = cast("dict[str, str]", value)
        return ",".join(f"{key}={text}" for key, text in sorted(pairs.items()))
    if isinstance(value, list):
        return ",".join(sorted(cast("list[str]", value)))
    return f"{value:.7g}" if isinstance(value, float) else str(value)


@pytest.mark.parametrize("version", ["0.4.35", "0.6.2", "0.10.2", "0.11.0"])
def test_jax_options_that_others_found_agree(version: str, shared: Path) -> None:
    path = shared / "data/flags" / f"jax_config_e{version}.json"
    theirs = {one["env"]: one for one in json.loads(path.read_text("utf-8")).values()}
    ours = release(version).jax
    assert {"JAX_ENABLE_PGLE", "JAX_PGLE_PROFILING_RUNS", "JAX_COMPILATION_CACHE_DIR"} <= set(ours)
    for name in ours.keys() & theirs.keys() - {"JAX_PLATFORMS"}:  # theirs was set to be asked
        value = theirs[name]["default"]
        assert ours[name] == ("" if value is None else spelled(value)) or isinstance(value, float)


def test_the_installed_xla_takes_all_defaults_and_changes_nothing(xla: Parser) -> None:
    """One text with the default of each flag that has one is as no text at all."""
    known = release(installed()).flags.values()
    words = [
        f"--{flag.name}='{flag.default}'"
        for flag in known
        if flag.xla_flags and flag.default and flag.is_default(flag.default)
    ]
    told, unasked = xla(" ".join(words)), xla("")
    assert len(words) > 150
    assert told is not None
    assert unasked is not None
    for field in told:  # what is given is written down, also where it says nothing new
        assert meant(told[field]) == meant(unasked.get(field, ())), field


def meant(content: tuple[int | bytes, ...]) -> set[int | bytes]:
    """A field's content, whatever the order of a list."""
    packed = [sorted(one) if isinstance(one, bytes) else [one] for one in content]
    found: set[int | bytes] = {number for numbers in packed for number in numbers}
    return found - {0}


def test_the_installed_xla_takes_the_values_of_enums_as_they_are_spelled(xla: Parser) -> None:
    known = release(installed()).flags.values()
    enums = [flag for flag in known if flag.values and flag.xla_flags]
    assert len(enums) > 10
    words = [f"--{flag.name}={flag.values[-1]}" for flag in enums]
    assert xla(" ".join(words)) is not None
    for flag in enums:
        other = flag.values[-1].swapcase()
        assert (xla(f"--{flag.name}={other}") is not None) == flag.any_case, flag.name


VALUES: dict[str, Any] = {
    "bool": True,
    "int32": 1,
    "int64": 1,
    "float": 1.5,
    "string": "x",
    "strings": "x",
}


@pytest.mark.system
def test_the_installed_jax_takes_the_compile_options_and_no_others() -> None:
    """Flags that are in XLA_FLAGS only, and fields that are messages, are refused."""
    known = release(installed()).flags
    pairs = [
        (flag.name, VALUES.get(flag.type, flag.enum[-1] if flag.enum else "x"))
        for flag in known.values()
    ]
    answer = probe_options(sys.executable, pairs)
    if answer.note:
        pytest.skip(answer.note)
    assert {one.name for one in answer.rejected} == {
        flag.name for flag in known.values() if not flag.compile_option
    }


def flag(type: str, default: str, values: tuple[str, ...] = (), *, any_case: bool = False) -> Flag:
    return Flag(
        name="xla_f",
        type=type,
        default=default,
        values=values,
        enum=values,
        any_case=any_case,
        xla_flags=True,
        compile_option=True,
    )


@pytest.mark.parametrize(
    ("one", "value", "same"),
    [
        (flag("bool", "true"), "True", True),
        (flag("bool", "true"), "1", True),
        (flag("bool", "true"), "0", False),
        (flag("bool", "false"), "no", False),
        (flag("int64", "31457287"), "+31457287", True),
        (flag("int64", "31457287"), "31457288", False),
        (flag("float", "0.1"), "1e-1", True),
        (flag("string", ""), "", True),
        (flag("string", ""), "x", False),
        (flag("enum", "A_ON", ("A_OFF", "A_ON")), "A_ON", True),
        (flag("enum", "A_ON", ("A_OFF", "A_ON")), "a_on", False),
        (flag("enums", "A,B", ("A", "B", "C"), any_case=True), "b,a", True),
        (flag("enums", "A,B", ("A", "B", "C")), "A", False),
        (flag("enums", "A,B", ("A", "B", "C")), "+A,-C", True),
        (flag("enums", "A,B", ("A", "B", "C")), "+C", False),
        (flag("strings", ""), "a-pass", False),
        (flag("map", "a=1,b=2"), "b=2", True),
        (flag("map", "a=1,b=2"), "b=3", False),
    ],
    ids=lambda one: one.type if isinstance(one, Flag) else str(one),
)
def test_what_is_the_default_anyhow(one: Flag, value: str, same: bool) -> None:
    assert one.is_default(value) is same


def test_values_that_a_type_does_not_take_mean_nothing() -> None:
    assert flag("bool", "true").meaning("yes") is None
    assert flag("bool", "true").meaning("") is None
    assert flag("int32", "0").meaning("3000000000") is None
    assert flag("int64", "0").meaning("3000000000") == 3_000_000_000
    assert flag("int64", "0").meaning("1_000") is None
    assert flag("int64", "0").meaning("4.0") is None


def test_the_life_of_flags_that_guides_name() -> None:
    gone = history("xla_gpu_enable_async_all_gather")
    assert gone
    assert (gone.first, gone.last, gone.since) == ("0.4.18", "0.4.26", "0.4.27")
    alias = history("xla_gpu_enable_pipelined_all_gather")
    assert alias
    assert alias.last is None
    assert ("alias_of", "xla_gpu_pipeline_all_gather") in [(c.what, c.after) for c in alias.changes]
    field = history("xla_gpu_enable_pipelined_collectives")
    assert field
    assert (field.last, field.since) == ("0.5.3", "0.6.0")  # the compile option lived on
    assert history("xla_gpu_enable_triton_gem") is None


def test_releases_that_crash_at_a_flag_are_told_apart() -> None:
    """0.7.1 ends with a segmentation fault whatever the value; 0.7.2 does not."""
    name = "xla_gpu_enable_while_loop_unrolling"
    assert [release(v).flags[name].fatal for v in ("0.5.3", "0.7.1", "0.7.2")] == [
        False,
        True,
        False,
    ]


def test_compile_options_before_0_6_take_enums_as_numbers_and_no_lists_of_strings() -> None:
    old, new = release("0.5.3").flags, release("0.6.0").flags
    assert not release("0.4.33").flags["xla_gpu_shape_checks"].compile_option
    assert release("0.4.34").flags["xla_gpu_shape_checks"].compile_option
    assert old["xla_gpu_shape_checks"].values == ("IGNORE", "RUNTIME", "COMPILE_TIME")
    assert old["xla_gpu_shape_checks"].enum == ("0", "1", "2")
    assert new["xla_gpu_shape_checks"].enum == ("IGNORE", "RUNTIME", "COMPILE_TIME")
    assert not old["xla_disable_hlo_passes"].compile_option
    assert new["xla_disable_hlo_passes"].compile_option


def test_a_flag_that_does_nothing_has_no_default() -> None:
    fmha = release("0.10.2").flags["xla_gpu_enable_cudnn_fmha"]
    assert fmha.no_op
    assert not fmha.compile_option
    assert not fmha.is_default("false")


def test_misspelt_names_find_theirs_in_the_release() -> None:
    known = release("0.10.2")
    assert similar("--XLA-gpu-autotune-level", known) == ("xla_gpu_autotune_level",)
    assert similar("xla_gpu_enable_triton_gem", known)[0] == "xla_gpu_enable_triton_gemm"
    assert similar("quite_another_thing", known) == ()


VERSIONS = ("0.1.0", "0.2.0", "0.10.0")
facts = st.fixed_dictionaries(
    {"type": st.sampled_from(["bool", "string"])},
    optional={"default": st.text(max_size=3), "no_op": st.just(True)},
)
said = st.dictionaries(st.sampled_from(["a", "b", "c"]), facts)


@given(st.tuples(said, said, said))
def test_a_table_says_what_was_said(all_said: tuple[dict[str, FlagFacts], ...]) -> None:
    by_release: dict[str, dict[str, FlagFacts]] = dict(zip(VERSIONS, all_said, strict=True))
    table = parse_table(render_table(make_table(by_release)))
    for version, one in by_release.items():
        assert table.at(version) == one
    later = with_release(table, "0.9.0", all_said[0])
    assert later.releases == ("0.1.0", "0.2.0", "0.9.0", "0.10.0")
    assert later.at("0.9.0") == all_said[0]
    assert later.at("0.10.0") == all_said[2]


def test_the_shipped_table_is_written_as_it_is_rendered() -> None:
    """So that a new release shows as its own lines only."""
    path = Path(sys.modules["counterpoint.flags.catalogue.lookup"].__file__ or "")
    assert path.with_name("flags.jsonl").read_text("utf-8") == render_table(shipped())


def test_the_catalogue_loads_without_what_takes_long() -> None:
    script = (
        "import sys; from counterpoint.flags.catalogue.lookup import release; release();"
        "print(*{'jax', 'jaxlib', 'numpy', 'polars', 'rich', 'google.protobuf', 'cyclopts'}"
        " & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=os.environ
    )
    assert done.stdout.strip() == ""
