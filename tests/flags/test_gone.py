"""What is told about removed and misspelt flags, held to compilers and to the guides."""

from __future__ import annotations

import importlib.metadata
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

import pytest

from counterpoint.flags.catalogue.lookup import releases
from counterpoint.flags.lifecycle import FlagRemoval, all_removals, removal_of, unknown_hint
from counterpoint.flags.text import names, similar
from counterpoint.flags.versions import version_number


class Parser(Protocol):
    """XLA's own parser: conftest.py."""

    def unknown(self, words: Iterable[str]) -> set[str]:
        """Return the words that are no flags to XLA."""
        ...


NEWEST_LOOKED_AT = (0, 12, 0, 1)


def installed() -> tuple[int, ...]:
    return version_number(importlib.metadata.version("jaxlib"))


def test_no_flag_is_both_gone_and_there() -> None:
    assert not all_removals().keys() & names().keys()


@pytest.mark.parametrize("entry", all_removals().values(), ids=lambda entry: entry.name)
def test_what_is_told_about_a_removed_flag_holds_together(entry: FlagRemoval) -> None:
    assert entry.note.endswith(".")
    assert set(entry.use) <= names().keys()
    if entry.last is not None:
        assert version_number(entry.last) < version_number(entry.since)
    else:
        assert entry.since is None


def test_what_became_of_flags_that_guides_still_name() -> None:
    entry = removal_of("xla_gpu_enable_async_all_gather")
    assert entry
    assert entry.use == ("xla_gpu_disable_async_collectives",)
    assert (entry.last, entry.since) == ("0.4.26", "0.4.27")
    assert removal_of("xla_gpu_enable_triton_gemm") is None


@pytest.mark.parametrize(
    ("name", "version", "hint"),
    [
        ("xla_gpu_graph_level", "0.10.2", "0.7.1 had it, 0.7.2 does not"),
        ("xla_gpu_cudnn_gemm_fusion", "0.10.2", "no jaxlib since 0.4.18 has it"),
        ("xla_gpu_pipeline_all_gather", "0.10.2", "0.11.1 is the first"),
        ("xla_gpu_enable_triton_gem", "0.10.2", "Did you mean xla_gpu_enable_triton_gemm"),
        ("xla-gpu-autotune-level", "0.10.2", "Did you mean xla_gpu_autotune_level?"),
        ("xla_gpu_autotune_level", "0.10.2", "type int32"),
        ("xla_tpu_enable_x", None, "libtpu"),
        ("tf_xla_auto_jit", None, "TF_XLA_FLAGS"),
        ("quite_another_thing", None, "No known jaxlib release"),
    ],
)
def test_hints(name: str, version: str | None, hint: str) -> None:
    assert hint in unknown_hint(name, version)


def test_a_name_with_other_dashes_or_capitals_is_itself() -> None:
    assert similar("--XLA-gpu-autotune-level") == ("xla_gpu_autotune_level",)


def test_the_installed_xla_knows_none_of_the_removed_flags(xla: Parser) -> None:
    gone = [
        entry.name
        for entry in all_removals().values()
        if entry.since is None or version_number(entry.since) <= installed()
    ]
    words = {f"--{name}={value}" for name in gone for value in ("1", "true")}
    assert xla.unknown(words) == words


VALUES = {"bool": "false", "int32": "1", "int64": "1", "float": "1", "strings": "x"}


def test_the_installed_xla_knows_the_names_we_hold_others_to(xla: Parser) -> None:
    """Types and first releases as well: a flag is refused where it is said to be too new."""
    there = set[str]()
    too_new = set[str]()
    for known in names().values():
        if version_number(known.first or "0") > installed():
            too_new.add(f"--{known.name}={VALUES.get(known.type, 'x')}")
        elif known.type in VALUES:
            there.add(f"--{known.name}={VALUES[known.type]}")
    assert xla.unknown(too_new) == too_new
    if installed() <= NEWEST_LOOKED_AT:
        assert len(there) > 200
        assert xla.unknown(there) == set()
    assert too_new or installed() >= NEWEST_LOOKED_AT


REFUSED_WITH_EACH_VALUE = {"xla_gpu_enable_libnvptxcompiler"}  # where jaxlib has no such compiler


def test_bools_are_those_that_need_no_value(xla: Parser) -> None:
    if installed() > NEWEST_LOOKED_AT:
        pytest.skip("this release was not looked at")
    there = [it for it in names().values() if version_number(it.first or "0") <= installed()]
    there = [it for it in there if it.name not in REFUSED_WITH_EACH_VALUE]
    refused = xla.unknown(f"--{known.name}" for known in there)
    assert refused == {f"--{known.name}" for known in there if known.type != "bool"}
    assert xla.unknown(f"--{known.name}=true" for known in there if known.type == "bool") == set()


def test_all_flags_of_the_source_documents_are_known_or_explained(shared: Path) -> None:
    text = "\n".join(path.read_text("utf-8") for path in (shared / "sources").glob("*.txt"))
    asked = set(re.findall(r"\bxla_[a-z0-9_]+", text))
    assert len(asked) > 40
    for name in asked:
        assert name in names() or removal_of(name) or f"xla_gpu_{name}" in names(), name


def test_years_of_releases_agree(shared: Path) -> None:
    """Presence in 43 releases, read out of their wheels."""
    data = json.loads((shared / "data/flags/presence_by_release.json").read_text("utf-8"))
    for version, flags in data.items():
        if version not in releases():
            continue
        for name, there in flags.items():
            entry = removal_of(name)
            if entry and entry.last is not None:
                assert (
                    there == (version_number(version) <= version_number(entry.last)) or not there
                ), name
                assert not (there and version_number(version) >= version_number(entry.since)), name
            elif entry:
                assert not there, name


def test_the_newest_table_agrees(shared: Path) -> None:
    table = json.loads((shared / "data/flags/0.12.0.1.json").read_text("utf-8"))
    there = {name for name, flag in table["flags"].items() if flag["has_flag"]}
    assert names().keys() == there | table["extra_flags"].keys()
