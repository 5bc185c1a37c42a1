"""AutoPGLE: JAX measures the first calls of each function and recompiles with the result."""

from counterpoint.workflow.auto_pgle.auto import CALLS as CALLS
from counterpoint.workflow.auto_pgle.auto import Auto as Auto
from counterpoint.workflow.auto_pgle.auto import How as How
from counterpoint.workflow.auto_pgle.auto import auto as auto
from counterpoint.workflow.auto_pgle.auto import auto_script as auto_script
