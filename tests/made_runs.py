"""Runs on disk, as `counterpoint run` leaves them: a test chooses steps, losses and outcome."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

OK: Mapping[str, object] = {"kind": "ok", "exit_code": 0, "signal": None, "detail": ""}
LOST_NUMBERS: Mapping[str, object] = {**OK, "kind": "nan", "detail": "the last printed loss is NaN"}
CRASHED: Mapping[str, object] = {**OK, "kind": "error", "exit_code": 1, "detail": "ValueError: no"}
_BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
_SCATTER = (0.0, 0.002, -0.001, 0.001, -0.002, 0.0, 0.003, -0.003)


def made_run(
    path: Path,
    step_s: float = 0.01,
    *,
    at: int = 0,
    steps: int = 45,
    losses: Sequence[float] | None = None,
    outcome: Mapping[str, object] = OK,
    platform: str = "gpu",
    passed: Mapping[str, str] | None = None,
    modules: Mapping[str, str] | None = None,
) -> Path:
    """Write a Run that started as the `at`-th; `losses` are of its first steps."""
    rank = path / "rank0"
    (rank / "agent").mkdir(parents=True)
    (rank / "ir").mkdir()
    began = _BEGAN + timedelta(minutes=at)
    started, ended = (it.isoformat() for it in (began, began + timedelta(seconds=30)))
    manifest = {
        "schema": "counterpoint.run/1",
        "version": "0.1.0",
        "name": "train",
        "command": ["python", "train.py"],
        "cwd": str(path.parent),
        "started": started,
        "ended": ended,
        "state": "ended",
        "settings": {"xla_flags": [], "env": {}},
        "ranks": 1,
        "launcher": "local",
        "job": None,
        "outcome": outcome,
    }
    of_rank = {"rank": 0, "host": "here", "started": started, "ended": ended, "outcome": outcome}
    process = {
        "schema": "counterpoint.process/1",
        "pid": 7,
        "platform": platform,
        "devices": ["a device"],
        "compiles": {"count": 1},
        "settings": {"passed": dict(passed or {})},
    }
    for file, content in (
        (path / "run.json", manifest),
        (rank / "rank.json", of_rank | {"environment": {"set": {}, "changed": {}}}),
        (rank / "agent" / "process-7.json", process),
    ):
        file.write_text(json.dumps(content), encoding="utf-8")
    for number, (name, text) in enumerate((modules or {}).items()):
        (rank / "ir" / f"jax_ir{number:04}_{name}_compile.mlir").write_text(text, encoding="utf-8")
    now, lines = 0.0, list[str]()
    for step in range(steps):
        lines.append(json.dumps({"source": "log", "start_s": now, "step": step}))
        now += step_s * math.exp(_SCATTER[step % len(_SCATTER)])
    (rank / "agent" / "steps-log.jsonl").write_text("\n".join(lines), encoding="utf-8")
    printed = [f"step {step} loss {loss}" for step, loss in enumerate(losses or ())]
    (rank / "stdout.log").write_text("\n".join(printed), encoding="utf-8")
    (rank / "stderr.log").write_text("", encoding="utf-8")
    return path
