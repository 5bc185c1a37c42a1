"""The names under which XLA looks up costs, and the costs of a profile that it finds."""

from counterpoint.pgle.lookups.names import UnusedReason as UnusedReason
from counterpoint.pgle.lookups.names import named_ops as named_ops
from counterpoint.pgle.lookups.needed import ProfileFit as ProfileFit
from counterpoint.pgle.lookups.needed import cost_name as cost_name
from counterpoint.pgle.lookups.needed import costs_found as costs_found
from counterpoint.pgle.lookups.needed import lookup_name as lookup_name
from counterpoint.pgle.lookups.needed import xla_lookups as xla_lookups
