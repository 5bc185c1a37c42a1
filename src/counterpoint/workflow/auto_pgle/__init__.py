"""AutoPGLE: JAX measures the first calls of each function and recompiles with the result."""

from counterpoint.workflow.auto_pgle.auto import CALLS as CALLS
from counterpoint.workflow.auto_pgle.auto import AutoOptions as AutoOptions
from counterpoint.workflow.auto_pgle.auto import AutoResult as AutoResult
from counterpoint.workflow.auto_pgle.auto import auto as auto
from counterpoint.workflow.auto_pgle.auto import auto_script as auto_script
