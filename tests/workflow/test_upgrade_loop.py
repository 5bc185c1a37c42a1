"""An upgrade of a loop whose step runs several programs compares all of them."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import loop_scripts as loops
from counterpoint.compile.interpreter import Interpreter
from counterpoint.hardware.targets import parse_target
from counterpoint.workflow.forecast import PricingContext
from counterpoint.workflow.subject import run_subject
from counterpoint.workflow.upgrade import Upgrade
from counterpoint.workflow.upgrade.installation import Installation
from counterpoint.workflow.upgrade.side import LoweredSide, UpgradeOptions
from counterpoint.workflow.upgrade.upgrade import upgrade_of

pytestmark = pytest.mark.system

TARGET = parse_target("1xH100")
SCRIPT = f"TURNS = 20\n{loops.ACCUMULATION}"
UPDATE = "lambda a, b: a - 0.01 * b, w, m)"


def lowered(directory: Path, name: str, script: str) -> LoweredSide:
    """The loop as this interpreter lowers it, which is the only one here."""
    directory.mkdir()
    (directory / "train.py").write_text(script)
    subject = run_subject(
        [sys.executable, str(directory / "train.py")],
        target=TARGET,
        directory=directory / "lowered",
        timeout_s=120,
    )
    installed = Installation(
        jax=version("jax"),
        jaxlib=version("jaxlib"),
        python="3",
        interpreter=Interpreter(python=Path(sys.executable)),
    )
    return LoweredSide(
        name=name, installation=installed, subject=subject, settings=subject.settings
    )


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Upgrade:
    directory = tmp_path_factory.mktemp("loops")
    assert UPDATE in SCRIPT
    heavier = SCRIPT.replace(UPDATE, "lambda a, b: a - (a @ a) @ (0.01 * b), w, m)")
    sides = [
        lowered(directory / "before", "before", SCRIPT),
        lowered(directory / "after", "after", heavier),
    ]
    options = UpgradeOptions(tries=False)
    return upgrade_of(sides, PricingContext(target=TARGET), options, lambda _: None)


def test_a_change_of_any_program_is_one_of_the_step(found: Upgrade) -> None:
    assert not found.is_same_program
    before, after = found.before.forecast, found.after.forecast
    assert after.program.name == before.program.name == "jit_grad_fn"
    for side in (before, after):
        assert sorted(side.order) == [0, 0, 0, 0, 1, 1, 1, 2]
    added = after.parts[2].step_s - before.parts[2].step_s
    assert added > 0
    assert after.step_s - before.step_s == pytest.approx(added)
    changed = {op.op for change in found.changes for row in change.rows for op in row.match.b}
    assert changed
    assert all(after.parts[2].program.instruction(op) for op in changed)
    assert dict(found.other_opcodes)


def test_compiles_and_memory_are_those_of_all_programs(found: Upgrade) -> None:
    for side in (found.before, found.after):
        parts = [part.compiled for part in side.forecast.parts if part.compiled]
        assert len(parts) == 3
        assert side.compile_s == pytest.approx(sum(it.seconds for it in parts))
        peaks = [part.memory.peak_bytes or 0 for part in side.forecast.parts]
        assert side.held_bytes == max(peaks)
