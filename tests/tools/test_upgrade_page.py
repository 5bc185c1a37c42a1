"""The page of releases: a row per release, what it changed, and a section that can be made anew."""

from __future__ import annotations

import json
from pathlib import Path

from counterpoint.core import InputError
from counterpoint.workflow.upgrade import ReleaseStep
from hand_made import Told
from made_upgrade import made, op, side
from upgrade_page import HEAD, SUBJECTS, published_settings, section, with_section

GIB = 1 << 30


def test_a_row_says_what_a_release_changed_and_why_there_is_none() -> None:
    sides = {
        "0.10.0": side("0.10.0", made(op("ROOT wave")), Told({"wave": 0.01}), GIB),
        "0.10.1": side("0.10.1", made(op("ROOT x", scope="wave")), Told({"x": 0.01}), GIB),
        "0.10.2": side("0.10.2", made(op("ROOT y", "cosine")), Told({"y": 0.011}), 2 * GIB),
    }
    steps = [ReleaseStep(version=version, side=one) for version, one in sides.items()]
    steps.append(ReleaseStep(version="0.11.0", error=InputError("it can't | compile it")))
    text = section("llama", SUBJECTS["llama"], steps, "2026-11-27")
    rows = [line for line in text.splitlines() if line.startswith("| 0.")]
    assert rows == [
        "| 0.10.0 | 10.00 |  | 0 | 1.0 GiB |  |",
        "| 0.10.1 | 10.00 | +0.0% | 0 | 1.0 GiB | same program |",
        (
            "| 0.10.2 | 11.00 | +10.0% | 0 | 2.0 GiB |"
            " fusions new, gone, merged, split or reshaped +1.000 ms |"
        ),
        r"| 0.11.0 | | | | | it can't \| compile it |",
    ]
    assert "**0.10.1 to 0.10.2**: +10.0% (range +10.0% to +10.0%)" in text
    assert "new defaults: `xla_gpu" in text


def test_a_section_is_replaced_and_the_others_stay() -> None:
    one, other, anew = (
        f"<!-- {it[0]} -->\n{it}\n<!-- end of {it[0]} -->" for it in ("a1", "b1", "a2")
    )
    page = with_section(with_section("", "a", one), "b", other)
    assert page == f"{HEAD.rstrip()}\n\n{one}\n\n{other}\n"
    assert with_section(page, "a", anew) == page.replace("a1", "a2")


def test_published_flags_without_a_value_are_left_out(tmp_path: Path) -> None:
    flags = {"xla_a": True, "xla_b": 3, "xla_c": "<path>"}
    about = {"nvidia_flags": flags, "mem_fraction_published": 0.9}
    (tmp_path / "one.meta.json").write_text(json.dumps(about))
    found = published_settings(tmp_path / "one.mlir.gz")
    assert found.xla == (("xla_a", "true"), ("xla_b", "3"))
    assert found.variables == {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.9"}
