"""A rule that fails never takes the report with it, whichever rule it is and of which command."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import timelines
from command_line import in_process
from counterpoint import write_parquet
from counterpoint.cli.explain_code import RULES
from counterpoint.core.rules import DocumentedRule
from counterpoint.doctor.gather import gather

FLAGS = "--xla_gpu_enable_latency_hiding_scheduler=true"


def broken(subject: object) -> Iterator[object]:
    yield [subject][len(str(subject))]


def command(rule: DocumentedRule) -> tuple[str, ...]:
    """The command that asks the rule, on something small."""
    if rule.CODE.startswith("STEP"):
        return ("explain", "profile")
    if rule.CODE.startswith("FLAG"):
        return ("flags", "check", "--no-probe", FLAGS)
    if rule.CODE.startswith("DOC6"):
        return ("doctor", "--compare", "node0.json", "node1.json")
    return ("doctor", "--no-probe", "--only", rule.CODE)


@pytest.fixture(scope="module", autouse=True)
def gathered_once() -> Iterator[None]:
    """The facts of this host start programs, and each rule looks at the same."""
    facts = gather(os.environ, probe=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("counterpoint.cli.doctor.gather", lambda *_, **__: facts)
        yield


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("failing")
    write_parquet(timelines.two_devices(), made / "profile")
    clock = ("doctor", "--no-probe", "--only", "clock")
    for host in ("node0.json", "node1.json"):
        in_process(*clock, "-o", host, cwd=made)
    return made


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.CODE)
def test_the_report_stays_and_says_which_rule_failed(
    rule: DocumentedRule, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(vars(rule), "check", broken)  # of a module, or of a frozen row
    done = in_process(*command(rule), cwd=directory)
    assert done.returncode == 0, done.stderr
    says_which_failed(done.stdout + done.stderr, rule)


def test_so_do_a_page_a_file_and_a_digest(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = next(rule for rule in RULES if rule.CODE == "STEP101")
    monkeypatch.setattr(rule, "check", broken)
    page = ("--html", "page.html", "-o", "report.txt")
    written, digest = (
        in_process("explain", "profile", *words, cwd=directory)
        for words in (page, ("--as", "digest"))
    )
    assert (written.returncode, digest.returncode) == (0, 0)
    for text in (*((directory / name).read_text() for name in page[1::2]), digest.stdout):
        says_which_failed(text, rule)


def says_which_failed(text: str, rule: DocumentedRule) -> None:
    told = " ".join(text.split())
    assert f"{rule.CODE} could not " in told
    assert re.search("IndexError: .* at test_failing_rules.py:", told)
    assert "please report it" in told
    assert "Traceback" not in text
