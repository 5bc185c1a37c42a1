"""No rule finds anything in a step that nothing is wrong with."""

from __future__ import annotations

import pytest
from healthy import healthy

from counterpoint.diagnose.explanation import explain
from counterpoint.diagnose.rules import RULES
from counterpoint.diagnose.selection import select
from counterpoint.diagnose.step_data import StepData, context_of
from counterpoint.hardware.target import Target
from counterpoint.hardware.targets import parse_target

NVLINK = parse_target("4xH100")


@pytest.mark.parametrize("hosts", [1, 2])
@pytest.mark.parametrize("with_hlo", [True, False])
@pytest.mark.parametrize("target", [None, NVLINK])
def test_no_rule_fires_on_a_healthy_step(hosts: int, with_hlo: bool, target: Target | None) -> None:
    timeline = healthy(hosts, with_hlo=with_hlo)
    case = StepData(selection=select(timeline), context=context_of(target=target))
    assert [(finding.code, finding.title) for rule in RULES for finding in rule.check(case)] == []


def test_the_healthy_step_is_what_it_says() -> None:
    explained = explain(healthy())
    parts = explained.breakdown
    assert parts is not None
    assert explained.steps.median_ms == pytest.approx(10.54)
    assert parts.compute_ms == pytest.approx(10.54)
    assert parts.idle_ms == parts.copy_exposed_ms == parts.collective_exposed_ms == 0
    assert parts.collective_hidden_ms == pytest.approx(0.95)
    gather, reduce = explained.collectives.sort("op").iter_rows(named=True)
    assert gather["slack_ms"] == pytest.approx(2.6)
    assert reduce["slack_ms"] == pytest.approx(2.6)
    assert gather["wait_ms"] == reduce["wait_ms"] == 0
    flops = explained.utilization.flops_per_s
    assert flops is not None
    assert flops == pytest.approx(8 * 2 * 8192**3 / 10.54e-3, rel=0.001)


def test_its_two_hosts_share_one_clock() -> None:
    assert healthy(2).hosts[1].clock_offset_ps == 0
