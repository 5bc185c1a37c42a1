"""A prediction with candidates, made without compiling them, and its page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import counterpoint
import timelines
from counterpoint.cli.pages import predicted_page
from counterpoint.core import Range
from counterpoint.flags.settings import Settings
from counterpoint.report.predict.predict_document import predict_document
from counterpoint.report.predict.predict_json import predict_json
from counterpoint.view.page import one_file
from counterpoint.workflow.forecast.ranking import RankedCandidate


def ranked(directory: Path, *, is_other_program: bool) -> counterpoint.Prediction:
    """Two candidates, faster than the base by 1% and by half of that; or its program once more."""
    hlo = directory / "step.hlo.txt"
    hlo.write_text(timelines.HLO)
    known = counterpoint.predict(hlo, target="2xH100")
    made = [
        RankedCandidate(
            name=name,
            settings=Settings(),
            forecast=replace(
                known.base,
                name=name,
                simulation=replace(known.base.simulation, step_s=known.step_s * (1 - faster)),
            ),
            is_base=name == "base",
            same_as=None if is_other_program or name == "base" else "base",
            behind=(1 - faster) / 0.99 - 1,
            reach=Range(0.0, (1 - faster) / 0.99 - 1),
            tied=True,
            exposed_ms=1.0,
        )
        for name, faster in (("--xla_x=a/b", 0.01), ("--xla_x=c", 0.005), ("base", 0))
    ]
    return replace(known, candidates=tuple(made))


def candidates_page(directory: Path, *, is_other_program: bool) -> Path:
    found, out = ranked(directory, is_other_program=is_other_program), directory / "page.html"
    page = predicted_page(found, predict_document(found, 10, ""), predict_json(found))
    out.write_text(one_file(page), encoding="utf-8")
    return out
