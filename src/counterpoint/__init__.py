"""Finds the communication a JAX training step waits for, and hides it.

timeline = counterpoint.read("logdir")
explanation = counterpoint.explain(timeline)
explanation.ops  # a polars frame
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from counterpoint.core import set_html_renderer as _draw_with

if TYPE_CHECKING:
    from counterpoint.capture.step_profiler import StepProfiler as StepProfiler
    from counterpoint.compile.inputs.function import program as program
    from counterpoint.compile.inputs.workload import Workload as Workload
    from counterpoint.core.errors import CounterpointError as CounterpointError
    from counterpoint.core.errors import InputError as InputError
    from counterpoint.core.errors import UsageError as UsageError
    from counterpoint.diagnose.compare.comparison import Comparison as Comparison
    from counterpoint.diagnose.compare.comparison import compare as compare
    from counterpoint.diagnose.explanation import Explanation as Explanation
    from counterpoint.diagnose.explanation import explain as explain
    from counterpoint.hlo.model.program import Program as Program
    from counterpoint.hlo.reader import read_program as read_program
    from counterpoint.runs.timeline import read as read
    from counterpoint.timeline.model import Timeline as Timeline
    from counterpoint.timeline.storage.parquet import write_parquet as write_parquet
    from counterpoint.workflow.memory.report import MemoryReport as MemoryReport
    from counterpoint.workflow.memory.request import memory as memory
    from counterpoint.workflow.prediction.prediction import Prediction as Prediction
    from counterpoint.workflow.prediction.prediction import predict as predict

__all__ = [
    "Comparison",
    "CounterpointError",
    "Explanation",
    "InputError",
    "MemoryReport",
    "Prediction",
    "Program",
    "StepProfiler",
    "Timeline",
    "UsageError",
    "Workload",
    "__version__",
    "compare",
    "explain",
    "memory",
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
    "Explanation": "counterpoint.diagnose.explanation",
    "InputError": "counterpoint.core.errors",
    "MemoryReport": "counterpoint.workflow.memory.report",
    "Prediction": "counterpoint.workflow.prediction.prediction",
    "Program": "counterpoint.hlo.model.program",
    "StepProfiler": "counterpoint.capture.step_profiler",
    "Timeline": "counterpoint.timeline.model",
    "UsageError": "counterpoint.core.errors",
    "Workload": "counterpoint.compile.inputs.workload",
    "compare": "counterpoint.diagnose.compare.comparison",
    "explain": "counterpoint.diagnose.explanation",
    "memory": "counterpoint.workflow.memory.request",
    "predict": "counterpoint.workflow.prediction.prediction",
    "program": "counterpoint.compile.inputs.function",
    "read": "counterpoint.runs.timeline",
    "read_program": "counterpoint.hlo.reader",
    "write_parquet": "counterpoint.timeline.storage.parquet",
}
"""The modules of the public names, which are loaded at first use."""


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__


def _draw(value: object) -> str:
    """The view draws what rooms below it made: this package may import both."""
    from counterpoint.view.notebook import notebook_html

    return notebook_html(value)


_draw_with(_draw)
