"""Settings: flags and environment of a run, where they come from, and what XLA makes of them."""

from counterpoint.flags.environment import environment as environment
from counterpoint.flags.environment import inherited_settings as inherited_settings
from counterpoint.flags.settings import Settings as Settings
from counterpoint.flags.settings import parse_settings as parse_settings
from counterpoint.flags.xla_flags import parse_xla_flags as parse_xla_flags
from counterpoint.flags.xla_flags import render_xla_flags as render_xla_flags
