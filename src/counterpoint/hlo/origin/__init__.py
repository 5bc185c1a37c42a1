"""The origin of an instruction: source line, scope, phase, and a key that survives a recompile."""

from counterpoint.hlo.origin.identity import StableKey as StableKey
from counterpoint.hlo.origin.identity import stable_key as stable_key
from counterpoint.hlo.origin.provenance import Phase as Phase
from counterpoint.hlo.origin.provenance import phase_of_name as phase_of_name
from counterpoint.hlo.origin.provenance import provenance as provenance
from counterpoint.hlo.origin.provenance import scope as scope
