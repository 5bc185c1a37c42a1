"""The subject of a prediction: a program or function, and its variants."""

from counterpoint.workflow.subject.subject import PredictionSubject as PredictionSubject
from counterpoint.workflow.subject.subject import Variant as Variant
from counterpoint.workflow.subject.subject import base_settings as base_settings
from counterpoint.workflow.subject.subject import candidate as candidate
from counterpoint.workflow.subject.subject import find_subject as find_subject
from counterpoint.workflow.subject.subject import is_function as is_function
from counterpoint.workflow.subject.subject import lower_subject as lower_subject
from counterpoint.workflow.subject.subject import run_subject as run_subject
from counterpoint.workflow.subject.subject import with_unique_names as with_unique_names
