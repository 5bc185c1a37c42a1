"""Finds the communication a JAX training step waits for, and hides it.

timeline = counterpoint.read("logdir")
explanation = counterpoint.explain(timeline)
explanation.ops  # a polars frame
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy as _lazy
from counterpoint.core import set_html_renderer as _draw_with

if TYPE_CHECKING:
    from counterpoint.capture import StepProfiler as StepProfiler
    from counterpoint.compile.inputs import Workload as Workload
    from counterpoint.compile.inputs import program as program
    from counterpoint.core import CounterpointError as CounterpointError
    from counterpoint.core import InputError as InputError
    from counterpoint.core import UsageError as UsageError
    from counterpoint.diagnose import Explanation as Explanation
    from counterpoint.diagnose import explain as explain
    from counterpoint.diagnose.compare import Comparison as Comparison
    from counterpoint.diagnose.compare import compare as compare
    from counterpoint.hlo import Program as Program
    from counterpoint.hlo import read_program as read_program
    from counterpoint.runs.timeline import read as read
    from counterpoint.timeline import Timeline as Timeline
    from counterpoint.timeline.storage import write_parquet as write_parquet
    from counterpoint.workflow.prediction import Prediction as Prediction
    from counterpoint.workflow.prediction import predict as predict

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


def _draw(value: object) -> str:
    """The view draws what rooms below it made: this package may import both."""
    from counterpoint.view import notebook_html

    return notebook_html(value)


_draw_with(_draw)


__getattr__ = _lazy(__name__)


def __dir__() -> list[str]:
    return __all__
