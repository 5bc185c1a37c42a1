"""Profiles that tell XLA's scheduler what each instruction costs (PGLE): made, read, compared.

docs/formats/pgle.md says what XLA takes and what it leaves out in silence.
"""

from counterpoint.pgle.difference import Change as Change
from counterpoint.pgle.difference import Diff as Diff
from counterpoint.pgle.difference import diff_profiles as diff_profiles
from counterpoint.pgle.files import read_profile as read_profile
from counterpoint.pgle.files import write_profile as write_profile
from counterpoint.pgle.make import make_profile as make_profile
from counterpoint.pgle.merge import merge_profiles as merge_profiles
from counterpoint.pgle.modules import Made as Made
from counterpoint.pgle.modules import ModuleCosts as ModuleCosts
from counterpoint.pgle.profile import Cost as Cost
from counterpoint.pgle.profile import Latency as Latency
from counterpoint.pgle.profile import Profile as Profile
