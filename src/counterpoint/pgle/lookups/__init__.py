"""The names under which XLA looks up costs, and the costs of a profile that it finds."""

from counterpoint.pgle.lookups.names import Why as Why
from counterpoint.pgle.lookups.names import named_ops as named_ops
from counterpoint.pgle.lookups.needed import Fit as Fit
from counterpoint.pgle.lookups.needed import asked_name as asked_name
from counterpoint.pgle.lookups.needed import cost_name as cost_name
from counterpoint.pgle.lookups.needed import costs_found as costs_found
from counterpoint.pgle.lookups.needed import needed as needed
