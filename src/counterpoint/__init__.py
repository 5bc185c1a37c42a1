"""Finds the communication a JAX training step waits for, and hides it.

timeline = counterpoint.read("logdir")
explanation = counterpoint.explain(timeline)
explanation.ops  # a polars frame
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from counterpoint.core.basis import draw_with as _draw_with

if TYPE_CHECKING:
    from counterpoint.capture.step_profiler import StepProfiler as StepProfiler
    from counterpoint.compile.inputs.function import program as program
    from counterpoint.compile.workload import Workload as Workload
    from counterpoint.core.errors import CounterpointError as CounterpointError
    from counterpoint.core.errors import InputError as InputError
    from counterpoint.core.errors import UsageError as UsageError
    from counterpoint.diagnose.compare.comparison import Comparison as Comparison
    from counterpoint.diagnose.compare.comparison import compare as compare
    from counterpoint.diagnose.explain import Explanation as Explanation
    from counterpoint.diagnose.explain import explain as explain
    from counterpoint.hlo import Program as Program
    from counterpoint.hlo import read_program as read_program
    from counterpoint.runs.read import read as read
    from counterpoint.timeline.model import Timeline as Timeline
    from counterpoint.timeline.parquet import write_parquet as write_parquet
    from counterpoint.workflow.prediction.predict import predict as predict
    from counterpoint.workflow.prediction.prediction import Prediction as Prediction

__all__ = [
    "Comparison",
    "CounterpointError",
    "Explanation",
    "InputError",
    "Prediction",
    "Program",
    "StepProfiler",
    "Timeline",
    "UsageError",
    "Workload",
    "__version__",
    "compare",
    "explain",
    "predict",
    "program",
    "read",
    "read_program",
    "write_parquet",
]

__version__ = "0.1.0"

_HOMES = {
    "Comparison": "counterpoint.diagnose.compare.comparison",
    "CounterpointError": "counterpoint.core.errors",
    "Explanation": "counterpoint.diagnose.explain",
    "InputError": "counterpoint.core.errors",
    "Prediction": "counterpoint.workflow.prediction.prediction",
    "Program": "counterpoint.hlo",
    "StepProfiler": "counterpoint.capture.step_profiler",
    "Timeline": "counterpoint.timeline.model",
    "UsageError": "counterpoint.core.errors",
    "Workload": "counterpoint.compile.workload",
    "compare": "counterpoint.diagnose.compare.comparison",
    "explain": "counterpoint.diagnose.explain",
    "predict": "counterpoint.workflow.prediction.predict",
    "program": "counterpoint.compile.inputs.function",
    "read": "counterpoint.runs.read",
    "read_program": "counterpoint.hlo",
    "write_parquet": "counterpoint.timeline.parquet",
}
"""Where each name lives: loaded when it is first used, so that importing costs nothing."""


def _draw(value: object) -> str:
    """Reports draw what rooms below them made: this package may import both."""
    from counterpoint.report.html import html_of

    return html_of(value)


_draw_with(_draw)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
