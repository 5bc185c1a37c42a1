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
ALONE = ("--cluster", "--rank", "0", "--ranks", "1", "--meet", ".")


def broken(subject: object) -> Iterator[object]:
    yield [subject][len(str(subject))]


def command(rule: DocumentedRule) -> tuple[str, ...]:
    """The command that asks the rule, on something small."""
    if rule.CODE.startswith("STEP"):
        return ("explain", "profile", "--html", "page.html", "-o", "report.txt", "--force")
    if rule.CODE.startswith("FLAG"):
        return ("flags", "check", "--no-probe", FLAGS)
    cluster = ALONE if rule.CODE.startswith("DOC6") else ()
    return ("doctor", "--no-probe", "--only", rule.CODE, *cluster)


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
    return made


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.CODE)
def test_the_report_stays_and_says_which_rule_failed(
    rule: DocumentedRule, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rule, "check", broken)
    done = in_process(*command(rule), cwd=directory)
    shown = [done.stdout + done.stderr]
    if rule.CODE.startswith("STEP"):
        digest = in_process("explain", "profile", "--as", "digest", cwd=directory)
        shown = [(directory / "page.html").read_text(), digest.stdout]
        shown += [(directory / "report.txt").read_text()]
    assert done.returncode == 0, done.stderr
    for text in shown:
        told = " ".join(text.split())
        assert f"{rule.CODE} could not " in told
        assert re.search("IndexError: .* at test_failing_rules.py:", told)
        assert "please report it" in told
        assert "Traceback" not in text
