"""Proof that XLA used a profile: from its log, and from the costs that it looked up."""

from counterpoint.pgle.proving.proof import VERBOSE_LOG as VERBOSE_LOG
from counterpoint.pgle.proving.proof import ComplaintKind as ComplaintKind
from counterpoint.pgle.proving.proof import LogComplaint as LogComplaint
from counterpoint.pgle.proving.proof import LogEvidence as LogEvidence
from counterpoint.pgle.proving.proof import ModuleUse as ModuleUse
from counterpoint.pgle.proving.proof import ProfileUse as ProfileUse
from counterpoint.pgle.proving.proof import heaviest as heaviest
