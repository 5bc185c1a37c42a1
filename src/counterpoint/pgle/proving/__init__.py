"""Proof that XLA used a profile: from its log, and from the costs that it looked up."""

from counterpoint.pgle.proving.proof import LOUD as LOUD
from counterpoint.pgle.proving.proof import Complaint as Complaint
from counterpoint.pgle.proving.proof import Evidence as Evidence
from counterpoint.pgle.proving.proof import ModuleUse as ModuleUse
from counterpoint.pgle.proving.proof import Trouble as Trouble
from counterpoint.pgle.proving.proof import Use as Use
from counterpoint.pgle.proving.proof import heaviest as heaviest
