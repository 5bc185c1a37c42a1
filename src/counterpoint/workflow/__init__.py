"""Workflows that combine other rooms, each kind in a package of its own.

feedback      a measured profile goes back to XLA: auto, manual, nsys
forecast      Settings compiled and simulated, with memory and range
prediction    the step time on devices that are not available here
calibration   the scalars of the cost model, fitted to measurements
upgrade       what another release of JAX, or another commit, does to a step

The subject of all of them, a program or function and its variants, is exported here.
"""

from counterpoint.workflow.subject import PredictionSubject as PredictionSubject
from counterpoint.workflow.subject import find_subject as find_subject
from counterpoint.workflow.subject import is_function as is_function
from counterpoint.workflow.subject import lower_subject as lower_subject
from counterpoint.workflow.subject import require_source as require_source
from counterpoint.workflow.subject import run_subject as run_subject
from counterpoint.workflow.variant import Variant as Variant
from counterpoint.workflow.variant import base_settings as base_settings
from counterpoint.workflow.variant import candidate as candidate
from counterpoint.workflow.variant import with_unique_names as with_unique_names
