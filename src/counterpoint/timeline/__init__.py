"""The Timeline: spans on lanes of devices over steps, measured or predicted.

model.py defines the type; reading.py finds the profiles that a user names (source.py)
and passes each to a reader: `xplane`, `nsys`, `chrome`. Readers yield Recordings
(`recording.py`), which `timeline.hosts` assembles into one Timeline; steps.py finds
the steps. `storage` writes Timelines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.timeline.kernel_names import function_of as function_of
    from counterpoint.timeline.kernel_names import kernel_label as kernel_label
    from counterpoint.timeline.kernel_names import kernel_labels as kernel_labels
    from counterpoint.timeline.model import HOST_EVENTS as HOST_EVENTS
    from counterpoint.timeline.model import PRICED as PRICED
    from counterpoint.timeline.model import RUNS as RUNS
    from counterpoint.timeline.model import SPANS as SPANS
    from counterpoint.timeline.model import STEPS as STEPS
    from counterpoint.timeline.model import Action as Action
    from counterpoint.timeline.model import ChosenSteps as ChosenSteps
    from counterpoint.timeline.model import Device as Device
    from counterpoint.timeline.model import Host as Host
    from counterpoint.timeline.model import Lane as Lane
    from counterpoint.timeline.model import ProgramEntry as ProgramEntry
    from counterpoint.timeline.model import Timeline as Timeline
    from counterpoint.timeline.model import machines as machines
    from counterpoint.timeline.reading import Progress as Progress
    from counterpoint.timeline.reading import read as read
    from counterpoint.timeline.recording import PYTHON_SAMPLED as PYTHON_SAMPLED
    from counterpoint.timeline.recording import WORKS_IN_NATIVE_CODE as WORKS_IN_NATIVE_CODE
    from counterpoint.timeline.recording import WORKS_IN_PYTHON as WORKS_IN_PYTHON
    from counterpoint.timeline.steps import EACH_RUN as EACH_RUN

__getattr__ = lazy(__name__)
